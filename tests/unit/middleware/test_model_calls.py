"""Middleware around model requests: order, changes, vetoes, errors, and what a stop finds in each place."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any, TypeAlias

import pytest

from loopctl import Agent, AttemptReset, CancelSignal, Checkpoint, Run, RunConfig, TextDelta, UsageError
from loopctl.errors import MiddlewareError, ModelError
from loopctl.messages import Usage
from loopctl.middleware import ModelNext
from loopctl.model import Delta, ModelRequest, ReplyEnd, TextPart
from loopctl.recovery import ModelRecovery
from loopctl.testing import (
    NonStreamingModel,
    ScriptedModel,
    burst,
    do,
    fail,
    own_cancelled_error,
    pause,
    say,
    usage,
    virtual_run,
)

Stream: TypeAlias = AsyncIterator[Delta]
SEEN: list[str] = []
STEADY = ModelRecovery(jitter=0)


class Own:
    """A layer of one function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def model_call(self, request: ModelRequest, call_next: ModelNext) -> Stream:
        given: Stream = self.function(request, call_next)
        return given


class Noting:
    def __init__(self, name: str, before: float = 0, after: float = 0) -> None:
        self.name, self.before, self.after = name, before, after

    async def model_call(self, request: ModelRequest, call_next: ModelNext) -> Stream:
        SEEN.append(f"+{self.name}")
        try:
            await asyncio.sleep(self.before)
            async for delta in call_next(request):
                if isinstance(delta, ReplyEnd):
                    await asyncio.sleep(self.after)
                yield delta
        finally:
            SEEN.append(f"-{self.name}")


def run_with(model: ScriptedModel, *layers: object, stop_at: float | None = None, **config: Any) -> Run:
    SEEN.clear()

    async def main() -> Run:
        signal = CancelSignal()
        if stop_at is not None:
            asyncio.get_running_loop().call_later(stop_at, signal.cancel)
        agent = Agent(model, middleware=layers, recovery=STEADY, config=RunConfig(**config))  # type: ignore[arg-type]
        return await agent.session().start("go", signal=signal)

    return virtual_run(main)


@pytest.mark.parametrize("stream", [True, False])
def test_the_first_is_outermost_and_whole_replies_pass_too(stream: bool) -> None:
    run = run_with(NonStreamingModel([say("a", "b"), usage(3, 4)]), Noting("1"), Noting("2"), stream=stream)
    assert (run.output, SEEN) == ("ab", ["+1", "+2", "-2", "-1"])
    assert run.usage == Usage(3, 4)


@pytest.mark.parametrize("stream", [True, False])
def test_a_layer_may_change_the_request_and_the_deltas(stream: bool) -> None:
    async def change(request: ModelRequest, call_next: ModelNext) -> Stream:
        async for delta in call_next(replace(request, instructions="be brief")):
            yield TextPart(delta.text.upper()) if isinstance(delta, TextPart) else delta

    model = NonStreamingModel(say("a", "b"))
    assert run_with(model, Own(change), stream=stream).output == "AB"
    assert [request.instructions for request in model.requests] == ["be brief"]


def test_a_plain_function_that_passes_on_is_a_layer() -> None:
    assert run_with(ScriptedModel("hi"), Own(lambda request, call_next: call_next(request)), Noting("a")).output == "hi"


async def answer(request: ModelRequest, call_next: ModelNext) -> Stream:
    yield TextPart("no need")
    yield ReplyEnd()


@pytest.mark.parametrize("stream", [True, False])
def test_a_layer_that_answers_by_itself_asks_nobody_and_costs_nothing(stream: bool) -> None:
    model = NonStreamingModel("never")
    run = run_with(model, Noting("a"), Own(answer), stream=stream)
    assert (run.output, model.requests, run.usage) == ("no need", [], Usage(0, 0))


class NotAllowed(Exception):
    """What an application says no with."""


async def veto(request: ModelRequest, call_next: ModelNext) -> Stream:
    raise NotAllowed("not on sundays")
    yield


async def late_veto(request: ModelRequest, call_next: ModelNext) -> Stream:
    async for delta in call_next(request):
        yield delta
    raise NotAllowed("seen too late")


async def twice(request: ModelRequest, call_next: ModelNext) -> Stream:
    async for _ in call_next(request):
        pass
    async for delta in call_next(request):
        yield delta


async def own_timeout(request: ModelRequest, call_next: ModelNext) -> Stream:
    raise TimeoutError
    yield


async def own_cancel(request: ModelRequest, call_next: ModelNext) -> Stream:
    raise asyncio.CancelledError
    yield


async def no_delta(request: ModelRequest, call_next: ModelNext) -> Stream:
    yield "text"  # type: ignore[misc]


def coroutine(request: ModelRequest, call_next: ModelNext) -> Any:
    async def wrong() -> None: ...

    return wrong()


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("function", "words"),
    [
        (veto, "NotAllowed: not on sundays"),
        (late_veto, "NotAllowed: seen too late"),
        (twice, "once"),
        (own_timeout, "TimeoutError"),
        (own_cancel, "CancelledError"),
        (no_delta, "str, which is not a Delta"),
        (coroutine, "coroutine"),
    ],
)
def test_a_layers_own_error_ends_the_run_names_it_and_blames_no_model(function: Any, words: str, stream: bool) -> None:
    model, other = NonStreamingModel("a", "b"), ScriptedModel("c")
    agent = Agent(
        model, fallback_models=[other], middleware=[Noting("a"), Own(function)], config=RunConfig(stream=stream)
    )
    before = agent.chain

    async def main() -> None:
        with pytest.raises(MiddlewareError, match=f"middleware Own .*{words}"):
            await agent.session().run("go")
        assert asyncio.get_running_loop().time() == 0

    virtual_run(main)
    assert (len(model.requests) <= 1, other.requests, agent.chain is before) == (True, [], True)


def test_a_layer_that_speaks_of_the_model_is_believed() -> None:
    async def strict(request: ModelRequest, call_next: ModelNext) -> Stream:
        async for delta in call_next(request):
            if delta == TextPart("bad"):
                raise ModelError("a bad reply", retryable=True)
            yield delta

    model = ScriptedModel("bad", "bad", "good")
    assert run_with(model, Noting("a"), Own(strict)).output == "good"
    assert len(model.requests) == 3


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    "error", [ModelError("busy", status=503, retryable=True, retry_after=2), ConnectionResetError("gone")]
)
def test_a_models_error_keeps_its_class_through_layers(error: Exception, stream: bool) -> None:
    """Each attempt passes all the layers anew."""
    caught: list[Exception] = []

    async def see(request: ModelRequest, call_next: ModelNext) -> Stream:
        try:
            async for delta in call_next(request):
                yield delta
        except Exception as seen:
            caught.append(seen)
            raise

    run = run_with(NonStreamingModel(fail(error), "fine"), Noting("a"), Own(see), stream=stream)
    assert (run.output, caught) == ("fine", [error])
    assert SEEN == ["+a", "-a"] * 2


def test_a_models_error_that_stays_fails_the_run_as_without_layers() -> None:
    run = run_with(ScriptedModel(fail(ModelError("no", status=401))), Noting("a"))
    assert isinstance(run.error, ModelError)
    assert (str(run.error), run.error.status) == ("no", 401)
    odd = run_with(ScriptedModel(own_cancelled_error()), Noting("a"))
    assert "scripted was cancelled from inside" in str(odd.error)


def test_a_layer_that_drops_the_end_mark_makes_a_truncated_reply_that_says_why() -> None:
    async def drop(request: ModelRequest, call_next: ModelNext) -> Stream:
        async for delta in call_next(request):
            if not isinstance(delta, ReplyEnd):
                yield delta

    model = ScriptedModel("a", repeat=True)
    run = run_with(model, Own(drop))
    assert (run.outcome, len(model.requests)) == ("failed", 4)
    assert "did not pass the end mark" in str(run.error)


def test_the_rescue_passes_the_layers_too() -> None:
    lost = fail(ModelError("lost", retryable=True))
    model = NonStreamingModel(lost, lost, lost, lost, "whole")
    assert run_with(model, Noting("a")).output == "whole"
    assert SEEN == ["+a", "-a"] * 5


def test_readers_are_told_what_the_layers_gave() -> None:
    async def shout(request: ModelRequest, call_next: ModelNext) -> Stream:
        async for delta in call_next(request):
            yield replace(delta, text=delta.text + "!") if isinstance(delta, TextPart) else delta

    async def main() -> list[str]:
        lost = fail(ModelError("lost", retryable=True))
        agent = Agent(ScriptedModel([say("a"), lost], say("b", "c")), middleware=[Own(shout)])
        told = []
        async for event in agent.session().start("go"):
            if isinstance(event, AttemptReset):
                told.append("void")
            elif isinstance(event, TextDelta):
                told.append(event.text)
        return told

    assert virtual_run(main) == ["a!", "void", "b!", "c!"]


def test_a_layer_that_holds_a_burst_back_does_not_hold_the_loop() -> None:
    async def hold(request: ModelRequest, call_next: ModelNext) -> Stream:
        for delta in [delta async for delta in call_next(request)]:
            yield delta

    async def main() -> None:
        loop = asyncio.get_running_loop()
        model = ScriptedModel([pause(1), do(lambda: loop.call_soon(session.signal.cancel) and None), burst(1000)])
        session = Agent(model, middleware=[Own(hold)]).session()
        run = await session.start("go")
        assert run.outcome == "cancelled"
        assert run.stop is not None
        assert run.stop.checkpoint is Checkpoint.STREAM_EVENT
        assert model.exchanges[0].deltas < 3

    virtual_run(main)


@pytest.mark.parametrize("given", [object(), Noting, Own, type("A", (), {"model_call": "text"})()])
def test_what_is_no_middleware_is_refused(given: Any) -> None:
    with pytest.raises(UsageError, match="middleware="):
        Agent(ScriptedModel("x"), middleware=[given])


def test_an_async_def_without_a_yield_is_refused_when_the_agent_is_made() -> None:
    class Wrong:
        async def model_call(self, request: ModelRequest, call_next: ModelNext) -> None: ...

    with pytest.raises(UsageError, match="async generator"):
        Agent(ScriptedModel("x"), middleware=[Wrong()])  # type: ignore[list-item]


def test_both_kinds_of_calls_may_be_in_one_object() -> None:
    class Both:
        async def tool_call(self, call: Any, ctx: Any, call_next: Any) -> Any:
            return await call_next(call)

        async def model_call(self, request: ModelRequest, call_next: ModelNext) -> Stream:
            async for delta in call_next(request):
                yield delta

    both = Both()
    layers = Agent(ScriptedModel("x"), middleware=[both]).middleware
    assert (layers.around_tools, layers.around_models) == ((both,), (both,))


def test_the_time_of_the_request_is_not_spent_by_a_layer_that_declares_its_wait() -> None:
    async def patient(request: ModelRequest, call_next: ModelNext) -> Stream:
        with call_next.waiting(50, "quota"):
            await asyncio.sleep(50)
        async for delta in call_next(request):
            yield delta

    run = run_with(ScriptedModel([pause(4), say("a")]), Own(patient), first_event_timeout=5, turn_timeout=10)
    assert run.output == "a"
