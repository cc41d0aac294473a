"""The calls of one reply side by side: order, bounds, what a stop leaves, what an abandoned call still holds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from loopctl import (
    Agent,
    Cancelled,
    Checkpoint,
    Run,
    RunConfig,
    Session,
    ToolFinished,
    ToolStarted,
    tool,
)
from loopctl.messages import ToolMessage
from loopctl.record import CallStatus, Event
from loopctl.testing import Probe, ScriptedModel, call, swallow_always, virtual_run

SEEN: list[str] = []
DEAF: list[Probe] = []
"""The tool of the current test that does not stop."""


@tool(parallel=True)
async def nap(name: str, seconds: float) -> str:
    """Sleep."""
    SEEN.append(f"+{name}")
    await asyncio.sleep(seconds)
    SEEN.append(f"-{name}")
    return name


@tool(parallel=True)
async def own_cancel() -> str:
    """Raise a CancelledError of its own."""
    raise asyncio.CancelledError


@tool(parallel=True, resource=lambda a: a["path"])
async def write(path: str, seconds: float = 1) -> str:
    """Touch a path."""
    return str(await nap(path, seconds))


@tool
async def alone(name: str) -> str:
    """Run beside nothing."""
    return str(await nap(name, 1))


@tool(parallel=True)
def thread(name: str) -> str:
    """Do it on a thread."""
    SEEN.append(f"+{name}")
    return name


@pytest.fixture(autouse=True)
def _clear() -> None:
    SEEN.clear()
    DEAF[:] = [swallow_always()]


def naps(*seconds: float) -> list[object]:
    return [call("nap", {"name": str(number), "seconds": each}) for number, each in enumerate(seconds)]


def session_of(
    *replies: object, observe: Callable[[Event], None] = lambda _: None, limit: int = 8, grace: float = 1.0
) -> Session:
    config = RunConfig(dispatch="parallel", max_concurrency=limit, grace=grace)
    deaf = DEAF[0].function
    named = [
        tool(deaf, name="deaf", parallel=True),
        tool(deaf, name="deaf_writer", parallel=True, resource="disk"),
    ]
    tools = [nap, own_cancel, write, alone, thread, *named]
    model = ScriptedModel(*replies)  # type: ignore[arg-type]
    return Agent(model, tools, observers=[observe], config=config).session()


def ours() -> set[asyncio.Task[object]]:
    return asyncio.all_tasks() - {asyncio.current_task()}  # type: ignore[arg-type]


async def stopped_after(session: Session, seconds: float) -> Run:
    handle = session.start("go")
    await asyncio.sleep(seconds)
    handle.cancel("enough")
    return await handle


def released(main: Callable[[], Coroutine[Any, Any, Run]]) -> Run:
    """Run *main*, then let the tool that does not stop end."""

    async def both() -> Run:
        run = await main()
        DEAF[0].release()
        await asyncio.sleep(1)
        assert not ours()
        return run

    return virtual_run(both)


def test_results_come_in_the_models_order_whatever_ends_first() -> None:
    session = session_of(naps(3, 1, 2), "done")
    finished: list[str] = []

    async def main() -> None:
        async with session.start("go") as handle:
            finished.extend([event.id async for event in handle if isinstance(event, ToolFinished)])
        assert asyncio.get_running_loop().time() == 3
        assert not ours()

    virtual_run(main)
    assert finished == ["call_1_1", "call_1_2", "call_1_0"]
    [results] = [message for message in session.history if isinstance(message, ToolMessage)]
    assert [result.content for result in results.results] == ["0", "1", "2"]


@pytest.mark.parametrize(("limit", "seconds"), [(1, 6), (2, 3), (3, 3), (8, 3)])
def test_no_more_run_at_once_than_the_limit(limit: int, seconds: int) -> None:
    session = session_of(naps(3, 1, 2), "done", limit=limit)

    async def main() -> float:
        await session.run("go")
        return asyncio.get_running_loop().time()

    assert virtual_run(main) == seconds


def test_calls_on_one_resource_and_calls_that_run_alone_wait_for_each_other() -> None:
    writes = [call("write", {"path": path}) for path in ("a", "b", "a")]
    session = session_of([*writes, call("alone", {"name": "c"}), *naps(1)], "done")
    virtual_run(lambda: session.run("go"))
    assert SEEN == ["+a", "+b", "-a", "-b", "+a", "-a", "+c", "-c", "+0", "-0"]


def test_one_dispatch_after_the_other_is_the_default() -> None:
    agent = Agent(ScriptedModel(naps(1, 1), "done"), [nap])  # type: ignore[arg-type]
    virtual_run(lambda: agent.session().run("go"))
    assert SEEN == ["+0", "-0", "+1", "-1"]


def test_a_tool_that_raises_a_cancelled_error_of_its_own_takes_nobody_along() -> None:
    """Case F2: its siblings end, and no task of ours is left."""
    session = session_of([*naps(1, 2), call("own_cancel", {})], "done")

    async def main() -> Run:
        run = await session.run("go")
        assert not ours()
        return run

    run = virtual_run(main)
    assert [record.status for record in run.tool_calls] == ["completed", "completed", "failed"]


@pytest.mark.parametrize("first", [call("nap", {"name": "1", "seconds": 1}), call("thread", {"name": "1"})])
def test_a_stop_while_the_second_is_announced_starts_neither(first: object) -> None:
    """Case F3: the first was announced, and never begins; both get a closing."""
    told: list[Event] = []

    def observe(event: Event) -> None:
        told.append(event)
        if isinstance(event, ToolStarted) and event.id == "call_1_1":
            session.signal.cancel("from a hook")

    session = session_of([first, *naps(1)], "done", observe=observe)
    run = virtual_run(lambda: ended(session))
    assert SEEN == []
    assert [record.status for record in run.tool_calls] == ["not_started", "not_started"]
    assert run.stop is not None
    assert run.stop.checkpoint is Checkpoint.WAVE
    for kind in (ToolStarted, ToolFinished):
        assert sorted(event.id for event in told if isinstance(event, kind)) == ["call_1_0", "call_1_1"]


async def ended(session: Session) -> Run:
    return await session.start("go")


def test_a_stalled_call_holds_nobody_back_in_the_events_and_the_record() -> None:
    """Case F5: the finished siblings are told, and recorded, while the first hangs."""
    told: list[tuple[str, float]] = []

    def observe(event: Event) -> None:
        if isinstance(event, ToolFinished):
            told.append((event.id, asyncio.get_running_loop().time()))

    session = session_of([call("deaf", {}), *naps(1, 2)], "done", observe=observe)
    run = released(lambda: stopped_after(session, 5))
    assert told[:2] == [("call_1_1", 1), ("call_1_2", 2)]
    assert [record.status for record in run.tool_calls] == ["abandoned", "completed", "completed"]
    assert [record.result for record in run.tool_calls] == [None, "0", "1"]


def test_a_batch_ends_within_one_grace_and_leaves_nothing_to_complain_about() -> None:
    """Case F6: two calls that do not end share one grace, and their late ends are taken."""
    session = session_of([call("deaf", {}), call("deaf", {}), *naps(9)], "done")

    async def main() -> Run:
        run = await stopped_after(session, 1)
        assert asyncio.get_running_loop().time() == 2
        assert not [task for task in ours() if task.get_name().startswith("loopctl call")]
        return run

    run = released(main)
    assert [record.status for record in run.tool_calls] == ["abandoned", "abandoned", "interrupted"]
    assert len(run.stragglers) == 2


def test_what_had_ended_when_the_batch_was_stopped_is_kept_and_adopted() -> None:
    """Case F9 and Case J2: its result is in the record, adopt commits it, and the next run does not repeat it."""
    session = session_of(naps(1, 9, 9), "again", limit=2)

    async def main() -> None:
        run = await stopped_after(session, 5)
        assert [record.status for record in run.tool_calls] == ["completed", "interrupted", "interrupted"]
        assert session.history == ()
        assert session.adopt(run)
        await session.run("go on")

    virtual_run(main)
    [results] = [message for message in session.history if isinstance(message, ToolMessage)]
    assert results.results[0].content == "0"
    assert SEEN.count("+0") == 1


@pytest.mark.parametrize(
    ("reply", "seconds", "limit", "checkpoint", "statuses"),
    [
        (naps(9, 9, 9), 1, 2, Checkpoint.TOOL_CALL, ["interrupted", "interrupted", "not_started"]),
        (naps(1, 9, 9), 2, 2, Checkpoint.TOOL_CALL, ["completed", "interrupted", "interrupted"]),
        ([*naps(1), call("alone", {"name": "a"})], 0.5, 8, Checkpoint.TOOL_CALL, ["interrupted", "not_started"]),
    ],
)
def test_a_stop_is_caught_by_the_first_call_that_runs(
    reply: list[object], seconds: float, limit: int, checkpoint: Checkpoint, statuses: list[str]
) -> None:
    run = virtual_run(lambda: stopped_after(session_of(reply, "done", limit=limit), seconds))
    assert run.stop is not None
    assert run.stop.checkpoint is checkpoint
    assert [record.status for record in run.tool_calls] == statuses


def test_a_stop_between_two_waves_is_caught_there() -> None:
    def observe(event: Event) -> None:
        if isinstance(event, ToolFinished):
            session.signal.cancel("between")

    session = session_of([*naps(1), call("alone", {"name": "a"})], "done", observe=observe)
    run = virtual_run(lambda: ended(session))
    assert run.stop is not None
    assert run.stop.checkpoint is Checkpoint.WAVE
    assert [record.status for record in run.tool_calls] == [CallStatus.COMPLETED, CallStatus.NOT_STARTED]


def test_a_slow_reader_holds_a_wave_back_and_loses_nothing() -> None:
    session = session_of(naps(*[1] * 100), "done", limit=100)
    told: list[Event] = []

    async def main() -> None:
        async with session.start("go") as handle:
            async for event in handle:
                await asyncio.sleep(0.1)
                told.append(event)

    virtual_run(main)
    for kind in (ToolStarted, ToolFinished):
        assert len({event.id for event in told if isinstance(event, kind)}) == 100


def test_a_wave_that_a_reader_holds_back_is_stopped_at_the_delivery() -> None:
    session = session_of(naps(*[1] * 100), "done", limit=100)

    async def main() -> None:
        handle = session.start("go")
        reader = aiter(handle)
        await anext(reader)
        await asyncio.sleep(5)
        session.signal.cancel()
        [*_] = [event async for event in reader]
        stop = session.runs[-1].stop
        assert stop is not None
        assert stop.checkpoint is Checkpoint.DELIVERY
        assert not ours()

    virtual_run(main)


def test_an_abandoned_call_keeps_its_resource_until_it_has_ended() -> None:
    """Case G13: the next run is not stopped by it, but a call that needs the resource fails at once and names it."""
    deaf = call("deaf_writer", {})
    session = session_of([deaf], [deaf], "told", [deaf], "free", grace=1)

    async def main() -> None:
        await stopped_after(session, 1)
        run = await session.run("again")
        [record] = run.tool_calls
        assert record.status is CallStatus.FAILED
        assert record.attempts == 0
        assert record.result is not None
        assert record.result.startswith("'disk' is still in use by an earlier call of deaf_writer (call_1_0)")
        [straggler] = session.stragglers
        assert straggler.where
        assert f"s ago, hangs at {straggler.where})" in record.result
        assert session.agent._held == {"disk": straggler}
        DEAF[0].release()
        await asyncio.sleep(1)
        assert (await session.run("again")).tool_calls[0].status is CallStatus.COMPLETED
        assert session.agent._held == {}

    virtual_run(main)


def test_what_a_tool_cannot_say_of_a_call_makes_it_run_alone(caplog: pytest.LogCaptureFixture) -> None:
    broken = tool(nap.__wrapped__, parallel=lambda a: bool(1 / 0))
    agent = Agent(ScriptedModel(naps(2, 1), "done"), [broken], config=RunConfig(dispatch="parallel"))  # type: ignore[arg-type]
    virtual_run(lambda: agent.session().run("go"))
    assert SEEN == ["+0", "-0", "+1", "-1"]
    assert "nap cannot say" in caplog.text


def test_the_callers_own_cancellation_ends_the_whole_wave() -> None:
    session = session_of(naps(9, 9), "done")

    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await session.run("go")
        assert not ours()

    virtual_run(main)
    run = session.runs[-1]
    assert [record.status for record in run.tool_calls] == ["interrupted", "interrupted"]
    assert isinstance(run.error, Cancelled)
