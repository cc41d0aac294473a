"""A stop while middleware stands around a model request: where it is caught, what is closed, who is left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from loopctl import Agent, CancelSignal, Checkpoint, Run, RunConfig, Urgency
from loopctl.errors import MiddlewareError
from loopctl.middleware import ModelNext
from loopctl.model import ModelRequest, ReplyEnd, TextPart
from loopctl.recovery import ModelRecovery
from loopctl.testing import NonStreamingModel, ScriptedModel, absorb, call, pause, say, stall, virtual_run
from tests.unit.middleware.test_model_calls import SEEN, Noting, Own, Stream, run_with

ONCE = ModelRecovery(transport_retries=0)


@pytest.mark.parametrize(
    ("stream", "stop_at", "checkpoint", "requests"),
    [
        (True, 0.5, "PIPELINE", 0),
        (True, 1.5, "STREAM_EVENT", 1),
        (True, 2.5, "PIPELINE", 1),
        (False, 0.5, "PIPELINE", 0),
        (False, 1.5, "MODEL_REQUEST", 1),
        (False, 2.5, "PIPELINE", 1),
    ],
)
def test_a_stop_names_the_innermost_wait(stream: bool, stop_at: float, checkpoint: str, requests: int) -> None:
    model = NonStreamingModel([pause(1), say("a")])
    run = run_with(model, Noting("1"), Noting("2", 1, 1), stop_at=stop_at, stream=stream)
    assert run.outcome == "cancelled"
    assert run.stop is not None
    assert (run.stop.checkpoint, len(model.requests)) == (Checkpoint[checkpoint], requests)
    assert SEEN == ["+1", "+2", "-2", "-1"]
    assert all(exchange.is_clean for exchange in model.exchanges)
    assert run.partial_text == ("a" if stop_at > 2 else "")


async def swallow_and_go_on(request: ModelRequest, call_next: ModelNext) -> Stream:
    try:
        await asyncio.sleep(100)
    except asyncio.CancelledError:
        SEEN.append("swallowed")
    async for delta in call_next(request):
        yield delta


async def swallow_and_answer(request: ModelRequest, call_next: ModelNext) -> Stream:
    try:
        async for delta in call_next(request):
            yield delta
    except asyncio.CancelledError:
        yield TextPart("all is well")
        yield ReplyEnd()


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("function", "checkpoint"), [(swallow_and_go_on, "PIPELINE"), (swallow_and_answer, "STREAM_EVENT")]
)
def test_a_layer_that_swallows_the_cancel_is_caught_and_nothing_of_it_is_kept(
    function: Callable[..., Any], checkpoint: str, stream: bool
) -> None:
    """Case H6."""
    model = NonStreamingModel([say("x"), stall()])
    run = run_with(model, Noting("1"), Own(function), stop_at=1, stream=stream)
    assert run.outcome == "cancelled"
    assert run.stop is not None
    expected = "MODEL_REQUEST" if checkpoint == "STREAM_EVENT" and not stream else checkpoint
    assert run.stop.checkpoint is Checkpoint[expected]
    assert "all is well" not in run.partial_text
    if function is swallow_and_go_on:
        assert model.requests == [], "no request is made after the cancel"


def test_a_layer_that_fires_the_signal_stops_the_run_at_the_next_poll() -> None:
    signal = CancelSignal()

    async def fire(request: ModelRequest, call_next: ModelNext) -> Stream:
        signal.cancel("enough")
        async for delta in call_next(request):
            yield delta

    async def fire_later(request: ModelRequest, call_next: ModelNext) -> Stream:
        async for delta in call_next(request):
            yield delta
            signal.cancel("enough")

    async def main(layer: Any) -> tuple[Run, int]:
        model = ScriptedModel(say("a", "b"))
        return await Agent(model, middleware=[Own(layer)]).session().start("go", signal=signal), len(model.requests)

    for layer, checkpoint, text, count in (
        (fire, Checkpoint.PIPELINE, "", 0),
        (fire_later, Checkpoint.STREAM_EVENT, "a", 1),
    ):
        signal.reset()
        run, requests = virtual_run(lambda layer=layer: main(layer))  # type: ignore[misc]
        assert run.stop is not None
        assert (run.stop.checkpoint, run.partial_text, requests) == (checkpoint, text, count)


def test_a_cancel_that_a_poll_has_noticed_does_not_tear_the_cleanup_that_it_began() -> None:
    class Tidy:
        async def model_call(self, request: ModelRequest, call_next: ModelNext) -> Stream:
            try:
                async for delta in call_next(request):
                    yield delta
            finally:
                await asyncio.sleep(0.5)
                SEEN.append("tidied")

    def fire_and_pass(request: ModelRequest, call_next: ModelNext) -> Stream:
        session.signal.cancel()
        return call_next(request)

    session = Agent(ScriptedModel("never"), middleware=[Tidy(), Own(fire_and_pass)]).session()
    SEEN.clear()

    async def main() -> None:
        assert (await session.start("go")).outcome == "cancelled"
        assert SEEN == ["tidied"]

    virtual_run(main)


@pytest.mark.parametrize(
    ("stop_at", "checkpoint", "requests"), [(0.5, "PIPELINE", 0), (1.5, "TURN_ENTRY", 1), (3.5, "TURN_ENTRY", 1)]
)
def test_a_drain_lets_a_request_in_flight_end_and_begins_none(stop_at: float, checkpoint: str, requests: int) -> None:
    async def main() -> None:
        model = ScriptedModel([pause(2), say("a"), call("nothing", {})], "never")
        session = Agent(model, middleware=[Noting("1", 1, 1)]).session()
        handle = session.start("go")
        await asyncio.sleep(stop_at)
        handle.cancel(urgency=Urgency.DRAIN)
        run = await handle
        assert run.outcome == "cancelled"
        assert run.stop is not None
        assert (run.stop.checkpoint, len(model.requests)) == (Checkpoint[checkpoint], requests)
        assert [turn.is_whole for turn in run.turns] == [bool(requests)]

    SEEN.clear()
    virtual_run(main)
    assert SEEN == ["+1", "-1"]


def deaf_layer(release: asyncio.Event) -> Callable[..., Stream]:
    async def refuse(request: ModelRequest, call_next: ModelNext) -> Stream:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        yield TextPart("late")

    return refuse


@pytest.mark.parametrize("stream", [True, False])
def test_a_layer_that_refuses_to_end_is_a_straggler_that_is_named(stream: bool) -> None:
    async def main() -> None:
        release = asyncio.Event()
        layers = [Noting("1"), Own(deaf_layer(release))]
        agent = Agent(NonStreamingModel("never"), middleware=layers, config=RunConfig(grace=2, stream=stream))
        session = agent.session()
        handle = session.start("go")
        await asyncio.sleep(1)
        handle.cancel()
        run = await handle
        assert asyncio.get_running_loop().time() == pytest.approx(3, abs=0.01)
        assert [straggler.name for straggler in run.stragglers] == ["Own"]
        assert run.stop is not None
        assert run.stop.checkpoint is Checkpoint.PIPELINE
        release.set()
        await session.aclose()
        assert all(straggler.is_ended for straggler in session.stragglers)

    virtual_run(main)


def test_a_deaf_model_inside_of_layers_is_the_one_that_is_named() -> None:
    async def main() -> None:
        model = ScriptedModel([absorb(), pause(100), pause(100), pause(100), say("late")], name="deaf")
        session = Agent(model, middleware=[Noting("1")], config=RunConfig(grace=1)).session()
        handle = session.start("go")
        await asyncio.sleep(1)
        handle.cancel()
        run = await handle
        assert [straggler.name for straggler in run.stragglers] == ["deaf"]
        await asyncio.sleep(500)

    virtual_run(main)


def giving_instead(delta: TextPart) -> Callable[..., Stream]:
    async def layer(request: ModelRequest, call_next: ModelNext) -> Stream:
        async for _ in call_next(request):
            yield delta

    return layer


def test_everything_is_closed_by_the_task_that_ran_it_the_outermost_first() -> None:
    closed: list[tuple[str, object]] = []

    def closing(name: str) -> Callable[..., Stream]:
        async def layer(request: ModelRequest, call_next: ModelNext) -> Stream:
            opened_in = asyncio.current_task()
            try:
                async for delta in call_next(request):
                    yield delta
            finally:
                closed.append((name, asyncio.current_task() is opened_in))

        return layer

    wrong = TextPart(5)  # type: ignore[arg-type]

    async def main() -> None:
        model = ScriptedModel(say("a", "b"))
        layers = [Own(closing("1")), Own(giving_instead(wrong)), Own(closing("2"))]
        run = await Agent(model, middleware=layers, recovery=ONCE).session().start("go")
        assert "not a Delta" in str(run.error)
        assert closed == [("1", True), ("2", True)]
        assert model.exchanges[0].is_clean

    virtual_run(main)


@pytest.mark.parametrize("stream", [True, False])
def test_a_layer_that_spends_the_time_of_the_request_is_named_and_not_tried_again(stream: bool) -> None:
    model = NonStreamingModel("a")
    run = run_with(model, Noting("1", 1000), stream=stream, turn_timeout=10)
    assert (run.outcome, model.requests) == ("failed", [])
    assert isinstance(run.error, MiddlewareError)
    assert "Noting around scripted waited: not finished within 10 s" in str(run.error)


def test_a_model_that_spends_it_is_tried_again_through_the_layers() -> None:
    model = ScriptedModel([say("x"), pause(50)], "fine")
    assert run_with(model, Noting("1"), turn_timeout=10).output == "fine"
    assert SEEN == ["+1", "-1"] * 2


def test_what_a_layer_holds_back_is_a_sign_of_life_of_the_model() -> None:
    async def hold(request: ModelRequest, call_next: ModelNext) -> Stream:
        for delta in [delta async for delta in call_next(request)]:
            yield delta

    slow = [step for word in "abcde" for step in (*pause(4), *say(word))]
    assert run_with(ScriptedModel(slow), Own(hold), first_event_timeout=5, event_timeout=5).output == "abcde"
