"""The caller's own cancellation, its leaving early, and its threads: honoured, never swallowed."""

from __future__ import annotations

import asyncio
import contextlib
import threading

import pytest

from loopctl import (
    Agent,
    Cancelled,
    CancelReason,
    CancelSignal,
    Checkpoint,
    RunConfig,
    Session,
    TextDelta,
    ThinkingDelta,
    ToolStarted,
    UsageError,
)
from loopctl.testing import ScriptedModel, call, do, say, stall, swallow_always, think, virtual_run

STALLED = (say("x"), stall())


def session_of(*replies: object, tools: tuple[object, ...] = (), **config: object) -> Session:
    return Agent(ScriptedModel(*replies), tools, config=RunConfig(**config)).session()  # type: ignore[arg-type]


def test_a_cancelled_caller_gets_its_cancellation_after_the_run_has_ended() -> None:
    """Case H18 and Case E12: `task.cancel()` around `session.run` takes the same door out and goes on."""
    session = session_of([*STALLED], "fine")

    async def main() -> None:
        task = asyncio.ensure_future(session.run("a"))
        await asyncio.sleep(1)
        task.cancel("the caller's own")
        with pytest.raises(asyncio.CancelledError, match="the caller's own"):
            await task
        assert task.cancelled()
        (run,) = session.runs
        assert run.outcome == "cancelled"
        assert run.stop is not None
        assert run.stop.reason.origin == "caller"
        assert run.partial_text == "x"
        assert (await session.run("b")).output == "fine"

    virtual_run(main)


def test_a_timeout_around_a_run_is_a_timeout() -> None:
    session = session_of([*STALLED], "fine")

    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await session.run("a")
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
        assert asyncio.get_running_loop().time() == 5
        assert session.runs[0].outcome == "cancelled"
        assert (await session.run("b")).output == "fine"

    virtual_run(main)


def test_a_failing_sibling_in_a_task_group_ends_the_run() -> None:
    session = session_of([*STALLED], "fine")

    async def fail() -> None:
        await asyncio.sleep(3)
        raise ValueError("sibling")

    async def main() -> None:
        with pytest.raises(ExceptionGroup) as caught:
            async with asyncio.TaskGroup() as group:
                group.create_task(session.run("a"))
                group.create_task(fail())
        assert [type(error) for error in caught.value.exceptions] == [ValueError]
        assert session.runs[0].stop is not None
        assert (await session.run("b")).output == "fine"

    virtual_run(main)


def test_counts_of_cancelling_are_left_as_they_were_found() -> None:
    """Case H19: a caller that has uncancelled itself before, and is cancelled now, is told so and not by us."""
    session = session_of([*STALLED], [*STALLED], "fine")

    async def main() -> None:
        counts: list[int] = []

        async def caller() -> str:
            task = asyncio.current_task()
            assert task is not None
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(100)
            task.uncancel()
            counts.append(task.cancelling())
            run = await session.start("a")
            counts.append(task.cancelling())
            assert run.stop is not None
            assert run.stop.reason.origin == "user"
            try:
                await session.run("b")
            except asyncio.CancelledError:
                counts.append(task.cancelling())
                raise
            return "never"

        task = asyncio.ensure_future(caller())
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.sleep(1)
        session.signal.cancel("by the signal")
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        assert counts == [0, 0, 1]
        assert session.runs[1].stop is not None
        assert session.runs[1].stop.reason.origin == "caller"

    virtual_run(main)


def test_if_both_happened_the_first_cause_is_kept_and_the_caller_gets_its_cancellation() -> None:
    session = session_of([*STALLED], "fine")

    async def main() -> None:
        task = asyncio.ensure_future(session.run("a"))
        await asyncio.sleep(1)
        session.signal.cancel("first")
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        stop = session.runs[0].stop
        assert stop is not None
        assert stop.reason.message == "first"
        assert [reason.origin for reason in stop.also] == ["caller"]

    virtual_run(main)


def test_a_second_cancellation_of_the_caller_takes_the_grace_away() -> None:
    probe = swallow_always()
    session = session_of([call(probe.function.__name__, {})], "fine", tools=(probe.function,), grace=60)

    async def main() -> None:
        task = asyncio.ensure_future(session.run("a"))
        await probe.until_started()
        task.cancel()
        await asyncio.sleep(5)
        assert not task.done()
        task.cancel()
        await asyncio.sleep(0.5)
        assert task.cancelled()
        assert [straggler.name for straggler in session.stragglers] == [probe.function.__name__]
        probe.release()
        await asyncio.sleep(1)
        assert session.stragglers[0].is_ended
        assert (await session.run("b")).output == "fine"

    virtual_run(main)


def test_shield_shields() -> None:
    session = session_of([say("x"), say("y")])

    async def main() -> None:
        handle = session.start("a")

        async def wait() -> None:
            await asyncio.shield(handle)

        task = asyncio.ensure_future(wait())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await handle).outcome == "completed"

    virtual_run(main)


def test_one_of_several_waiters_that_is_cancelled_does_not_take_the_others_down() -> None:
    session = session_of([*STALLED])

    async def main() -> None:
        handle = session.start("a")

        async def wait() -> object:
            return await handle

        first, second = asyncio.ensure_future(wait()), asyncio.ensure_future(wait())
        await asyncio.sleep(1)
        first.cancel()
        await asyncio.wait([first, second])
        assert first.cancelled()
        assert second.result() is handle.run

    virtual_run(main)


def test_a_handle_that_nobody_reads_may_be_dropped() -> None:
    session = session_of([say("x"), say("y")])

    async def main() -> None:
        session.start("a")
        await asyncio.sleep(1)
        assert session.runs[0].outcome == "completed"

    virtual_run(main)


def test_a_run_whose_loop_is_shut_down_is_finalized() -> None:
    session = session_of([*STALLED], [*STALLED])

    async def leave_running() -> None:
        session.start("a")
        await asyncio.sleep(0.01)

    async def leave_unstarted() -> None:
        session.start("b")

    asyncio.run(leave_running())
    asyncio.run(leave_unstarted())
    assert [run.outcome for run in session.runs] == ["cancelled", "cancelled"]
    assert {run.stop.reason.origin for run in session.runs if run.stop} == {"caller"}


def test_a_keyboard_interrupt_inside_the_run_takes_the_same_door() -> None:
    """Case H18: an interrupt that is raised inside of a tool ends the run as a cancelled one, with its record."""

    async def interrupted() -> str:
        """Be interrupted."""
        raise KeyboardInterrupt

    session = session_of([say("x"), call("interrupted", {})], tools=(interrupted,))
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(session.run("a"))
    (run,) = session.runs
    assert run.outcome == "cancelled"
    assert session.history == ()


def test_tasks_are_never_found_by_name() -> None:
    """Case D13: a user's task that is named as ours are survives every cancel."""
    session = session_of([*STALLED])

    async def main() -> None:
        handle = session.start("a")
        names = {"step-1", "loopctl model", f"loopctl {handle.id}"}
        others = [asyncio.get_running_loop().create_task(asyncio.sleep(10, name), name=name) for name in names]
        await asyncio.sleep(1)
        handle.cancel()
        await handle
        assert {await task for task in others} == names

    virtual_run(main)


def test_closing_a_session_stops_its_run_with_the_origin_shutdown() -> None:
    session = session_of([*STALLED])

    async def main() -> None:
        handle = session.start("a")
        await asyncio.sleep(1)
        await session.aclose()
        await session.aclose()
        run = await handle
        assert run.stop is not None
        assert run.stop.reason.origin == "shutdown"
        with pytest.raises(UsageError, match="closed"):
            session.start("b")

    virtual_run(main)


def test_closing_a_session_waits_for_stragglers_only_so_long() -> None:
    probe = swallow_always()
    session = session_of([call(probe.function.__name__, {})], tools=(probe.function,), grace=2)

    async def main() -> None:
        handle = session.start("a")
        await probe.until_started()
        handle.cancel()
        run = await handle
        loop = asyncio.get_running_loop()
        assert [straggler.kind for straggler in run.stragglers] == ["task"]
        assert "_probe.py:" in run.stragglers[0].where
        before = loop.time()
        await session.aclose()
        assert loop.time() - before == 2
        loop.call_later(1, probe.release)
        await session.aclose()
        assert loop.time() - before == pytest.approx(3)
        assert session.stragglers[0].result == "released"

    virtual_run(main)


async def wait() -> str:
    """Wait."""
    await asyncio.sleep(100)
    return "ok"


@pytest.mark.parametrize(
    ("script", "begun", "checkpoint"),
    [
        ([think("hm"), stall()], ThinkingDelta, Checkpoint.STREAM_EVENT),
        ([say("x"), stall()], TextDelta, Checkpoint.STREAM_EVENT),
        ([call("wait", {})], ToolStarted, Checkpoint.TOOL_CALL),
    ],
    ids=["thought", "output", "tool"],
)
def test_a_run_can_be_stopped_from_another_thread_while_its_loop_is_idle(
    script: list[object], begun: type, checkpoint: Checkpoint
) -> None:
    """Case B5: from outside, in the thought phase, the output phase and the tool phase."""
    session = session_of(script, "fine", tools=(wait,))

    async def main() -> None:
        handle = session.start("a")
        timer = threading.Timer(0.05, session.signal.cancel, args=("from a thread",))
        async for event in handle:
            if isinstance(event, begun):
                timer.start()
        run = await handle
        timer.join()
        assert run.stop is not None
        assert run.stop.reason.message == "from a thread"
        assert run.stop.checkpoint is checkpoint
        assert (await session.run("b")).output == "fine"

    asyncio.run(main())


def test_run_sync_gives_the_run_and_raises_what_ended_it() -> None:
    agent = Agent(ScriptedModel("fine", [*STALLED]))
    assert agent.run_sync("a").output == "fine"
    signal = CancelSignal()
    threading.Timer(0.05, signal.cancel, args=(CancelReason("shutdown", "deploy"),)).start()
    with pytest.raises(Cancelled) as caught:
        agent.run_sync("b", signal=signal)
    assert caught.value.reason.origin == "shutdown"
    assert caught.value.run is not None


def test_the_sync_bridge_tells_a_cancel_from_another_thread() -> None:
    """Case H15: the caller of the sync API gets Cancelled, in another thread than the main one too."""
    is_stalled = threading.Event()
    agent = Agent(ScriptedModel([say("x"), do(is_stalled.set), stall()]))
    signal = CancelSignal()
    caught: list[Cancelled] = []

    def work() -> None:
        try:
            agent.run_sync("a", signal=signal)
        except Cancelled as error:
            caught.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    assert is_stalled.wait(10)
    signal.cancel()
    thread.join(10)
    assert [error.run.partial_text for error in caught if error.run] == ["x"]


def test_run_sync_in_a_running_loop_says_what_to_do() -> None:
    async def main() -> None:
        with pytest.raises(UsageError, match="await"):
            Agent(ScriptedModel("x")).run_sync("a")

    asyncio.run(main())


def test_start_without_a_loop_says_what_to_do() -> None:
    session = session_of("x")
    with pytest.raises(UsageError, match="run_sync"):
        session.start("a")
    assert session.runs == ()
    assert asyncio.run(session.run("b")).output == "x"
