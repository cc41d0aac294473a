"""A stop in each place of the middleware, also by the middleware itself, and what then still happens: nothing."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from loopctl import Run, Urgency, UsageError, tool
from loopctl.middleware import CallNext, ToolOutcome
from loopctl.testing import call, swallow_always, virtual_run
from tests.unit.middleware.layers import SEEN, Layer, Own, Setup, ends, run_with


def caught(run: Run) -> str:
    assert run.stop is not None
    assert run.outcome == "cancelled"
    return run.stop.checkpoint.name


@pytest.mark.parametrize(
    ("stop_at", "checkpoint", "end", "result"),
    [
        (0.5, "PIPELINE", ("not_started", 0), None),
        (1.5, "TOOL_CALL", ("interrupted", 1), None),
        (2.5, "PIPELINE", ("completed", 1), "slept 1, key sk-12345"),
    ],
)
def test_a_stop_names_the_innermost_wait(stop_at: float, checkpoint: str, end: Any, result: str | None) -> None:
    run = run_with(Layer("a", 1, 1), seconds=1, stop_at=stop_at)
    assert (caught(run), ends(run), run.tool_calls[0].result) == (checkpoint, [end], result)


@pytest.mark.parametrize(
    ("stop_at", "checkpoint", "end"),
    [
        (0.5, "TOOL_CALL", ("not_started", 0)),
        (1.5, "BETWEEN_CALLS", ("completed", 1)),
        (2.5, "BETWEEN_CALLS", ("completed", 1)),
    ],
)
def test_a_drain_lets_the_layers_finish_and_begins_no_tool(stop_at: float, checkpoint: str, end: Any) -> None:
    calls = [call("nap", {"seconds": 1}), call("nap")]
    run = Setup([Layer("o"), Layer("a", 1, 1)], calls, stop_at=stop_at, urgency=Urgency.DRAIN).run()
    assert (caught(run), ends(run)) == (checkpoint, [end, ("not_started", 0)])
    assert ("-o" in SEEN) == (end[1] == 1), "the stop of the tool goes through the layers as what it is"


async def swallow(call_: Any, ctx: Any, call_next: Any) -> ToolOutcome:
    try:
        return await call_next(call_)  # type: ignore[no-any-return]
    except BaseException:
        return ToolOutcome.completed("all is well")


@pytest.mark.parametrize("urgency", [Urgency.DRAIN, Urgency.STOP, Urgency.ABANDON])
def test_a_layer_that_swallows_the_cancel_is_caught(urgency: Urgency) -> None:
    """Case H6."""
    before = 1 if urgency is Urgency.DRAIN else 0
    run = Setup([Own(swallow), Layer("a", before)], [call("nap", {"seconds": 5})], stop_at=0.5, urgency=urgency).run()
    assert caught(run) == "TOOL_CALL"
    assert ends(run) == [("not_started", 0) if before else ("interrupted", 1)]
    assert run.tool_calls[0].result is None


def test_a_layer_that_goes_on_after_the_cancel_reaches_nothing() -> None:
    async def go_on(call_: Any, ctx: Any, call_next: CallNext) -> ToolOutcome:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(5)
        return await call_next(call_)

    run = Setup([Own(go_on)], stop_at=1).run()
    assert (caught(run), ends(run), SEEN) == ("PIPELINE", [("not_started", 0)], [])


@tool
async def tidy() -> None:
    """Take a while to stop."""
    SEEN.append("tool")
    try:
        await asyncio.sleep(50)
    finally:
        await asyncio.sleep(0.5)
        SEEN.append("tidied")


def test_a_tool_in_a_shielded_task_of_a_layer_is_stopped_all_the_same() -> None:
    async def shield(call_: Any, ctx: Any, call_next: Any) -> ToolOutcome:
        return await asyncio.shield(asyncio.create_task(call_next(call_)))  # type: ignore[no-any-return]

    run = Setup([Own(shield), Layer("a")], [call("tidy")], [tidy], stop_at=1).run()
    assert (caught(run), ends(run), SEEN) == ("TOOL_CALL", [("interrupted", 1)], ["+a", "tool", "tidied"])


@pytest.mark.parametrize("stop_at", [None, 1.25])
def test_a_layer_that_goes_on_without_the_tool_leaves_none_running(stop_at: float | None) -> None:
    async def lose_patience(call_: Any, ctx: Any, call_next: Any) -> ToolOutcome:
        await asyncio.wait({asyncio.create_task(call_next(call_))}, timeout=1)
        return ToolOutcome.failed("too slow")

    run = Setup([Own(lose_patience)], [call("tidy")], [tidy], stop_at=stop_at).run()
    assert SEEN == ["tool", "tidied"]
    if stop_at is None:
        assert (ends(run), run.tool_calls[0].result) == ([("failed", 1)], "too slow")
    else:
        assert ends(run) == [("interrupted", 1)]


def test_call_next_is_of_no_use_after_the_layer_has_returned() -> None:
    errors = []

    async def too_late(call_next: Any, call_: Any) -> None:
        await asyncio.sleep(1)
        with pytest.raises(UsageError) as caught:
            await call_next(call_)
        errors.append(str(caught.value))

    async def keep(call_: Any, ctx: Any, call_next: Any) -> ToolOutcome:
        tasks.append(asyncio.create_task(too_late(call_next, call_)))
        return ToolOutcome.completed("")

    tasks: list[Any] = []

    async def main() -> Run:
        run = await Setup([Own(keep)]).go()
        await asyncio.wait(tasks)
        return run

    run = virtual_run(main)
    assert (ends(run), SEEN) == ([("completed", 0)], [])
    assert "called once, before the middleware returns" in errors[0]


@pytest.mark.parametrize("kind", [Exception, BaseException])
@pytest.mark.parametrize("pause", [0, 0.25])
def test_a_retry_loop_that_catches_everything_retries_no_stopped_call(kind: type[BaseException], pause: float) -> None:
    """Case C9."""
    errors = []

    async def retry(call_: Any, ctx: Any, call_next: CallNext) -> ToolOutcome:
        for _ in range(5):
            try:
                return await call_next(call_)
            except kind as error:
                errors.append(error)
                await asyncio.sleep(pause)
        return ToolOutcome.failed("gave up")

    run = run_with(Own(retry), seconds=5, stop_at=1)
    assert (caught(run), ends(run), SEEN) == ("TOOL_CALL", [("interrupted", 1)], ["nap"])
    assert bool(errors) == (kind is BaseException)


def test_a_layer_that_tries_for_ever_is_left_alone_and_does_not_hold_the_loop() -> None:
    """Case C9."""
    is_released = False

    async def retry(call_: Any, ctx: Any, call_next: CallNext) -> ToolOutcome:
        while not is_released:
            try:
                return await call_next(call_)
            except BaseException:
                continue
        return ToolOutcome.failed("")

    async def main() -> Run:
        nonlocal is_released
        run = await Setup([Own(retry)], [call("nap", {"seconds": 5})], stop_at=1).go()
        assert asyncio.get_running_loop().time() == 2
        is_released = True
        await asyncio.sleep(100)
        return run

    run = virtual_run(main)
    assert (caught(run), ends(run)) == ("TOOL_CALL", [("interrupted", 1)])
    assert [straggler.name for straggler in run.stragglers] == ["middleware of nap"]


def test_a_deaf_layer_is_a_straggler_by_its_own_name() -> None:
    is_released = False

    async def deaf(call_: Any, ctx: Any, call_next: CallNext) -> ToolOutcome:
        while not is_released:
            try:
                await asyncio.sleep(0.5)
            except asyncio.CancelledError:
                continue
        return await call_next(call_)

    async def main() -> Run:
        nonlocal is_released
        run = await Setup([Own(deaf)], stop_at=1).go()
        is_released = True
        await asyncio.sleep(1)
        return run

    run = virtual_run(main)
    assert (caught(run), ends(run)) == ("PIPELINE", [("not_started", 0)])
    assert [straggler.name for straggler in run.stragglers] == ["middleware of nap"]
    assert SEEN == [], "a layer that goes on after the run has ended does not reach the tool"


@pytest.mark.parametrize("grace", [0, 1])
@pytest.mark.parametrize("urgency", [Urgency.STOP, Urgency.ABANDON])
def test_a_deaf_tool_inside_of_layers_is_the_only_straggler(grace: float, urgency: Urgency) -> None:
    deaf = swallow_always()

    async def in_a_task(call_: Any, ctx: Any, call_next: Any) -> ToolOutcome:
        return await asyncio.create_task(call_next(call_))  # type: ignore[no-any-return]

    async def main() -> tuple[Run, float]:
        layers = [Layer("a"), Own(in_a_task), Layer("b")]
        tools, config = [deaf.function], {"grace": grace}
        setup = Setup(layers, [call("swallow_always")], tools, stop_at=1, urgency=urgency, config=config)
        run, ended = await setup.go(), asyncio.get_running_loop().time()
        deaf.release()
        await asyncio.sleep(1)
        return run, ended

    run, ended = virtual_run(main)
    assert (caught(run), ends(run)) == ("TOOL_CALL", [("abandoned", 1)])
    assert [straggler.name for straggler in run.stragglers] == ["swallow_always"]
    assert ended == 1 + (grace if urgency is Urgency.STOP else 0)


@pytest.mark.parametrize(
    ("when", "checkpoint", "end"),
    [
        ("instead", "PIPELINE", ("not_started", 0)),
        ("before", "TOOL_CALL", ("not_started", 0)),
        ("during", "TOOL_CALL", ("interrupted", 1)),
        ("after", "PIPELINE", ("completed", 1)),
    ],
)
@pytest.mark.parametrize("dispatch", ["sequential", "parallel"])
def test_a_layer_may_stop_the_run_and_nothing_begins_after_that(
    when: str, checkpoint: str, end: Any, dispatch: str
) -> None:
    calls = [call("nap", {"seconds": 1}), call("nap", {"word": "second"})]
    setup = Setup(calls=calls, config={"dispatch": dispatch, "max_concurrency": 1})

    async def stop(call_: Any, ctx: Any, call_next: CallNext) -> ToolOutcome:
        if when == "during":
            asyncio.get_running_loop().call_later(0.5, setup.signal.cancel)
        if when in {"instead", "before"}:
            setup.signal.cancel("enough")
        outcome = ToolOutcome.completed("x") if when == "instead" else await call_next(call_)
        if when == "after":
            setup.signal.cancel("enough")
        return outcome

    setup.layers = [Own(stop)]
    run = setup.run()
    assert (caught(run), ends(run)) == (checkpoint, [end, ("not_started", 0)])
    assert (["nap"] if end[1] else []) == SEEN
    assert len(run.turns) == 1


def test_a_hook_of_the_second_call_stops_the_first_which_was_prepared() -> None:
    """Case F3."""
    calls = [call("nap", {"word": "one"}), call("nap", {"word": "two"})]
    setup = Setup(calls=calls, config={"dispatch": "parallel"})

    async def hook(call_: Any, ctx: Any, call_next: CallNext) -> ToolOutcome:
        SEEN.append(f"prepared {call_.arguments['word']}")
        if call_.arguments["word"] == "two":
            setup.signal.cancel("not this one")
        else:
            await asyncio.sleep(1)
        return await call_next(call_)

    setup.layers = [Own(hook)]
    run = setup.run()
    assert (caught(run), ends(run)) == ("PIPELINE", [("not_started", 0), ("not_started", 0)])
    assert SEEN == ["prepared one", "prepared two"]


def test_a_sibling_that_had_finished_is_completed_and_the_batch_is_not_in_the_conversation() -> None:
    calls = [call("nap"), call("nap", {"seconds": 5})]
    setup = Setup([Layer("a")], calls, stop_at=1, config={"dispatch": "parallel"})
    session = setup.session()

    async def main() -> Run:
        handle = session.start("go")
        await asyncio.sleep(1)
        handle.cancel()
        return await handle

    run = virtual_run(main)
    assert ends(run) == [("completed", 1), ("interrupted", 1)]
    assert session.history == ()
