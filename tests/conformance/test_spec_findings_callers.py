"""Sentences of spec section 3 about who waits for a run, reads it, closes it, or is a part of it."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import loopctl
from loopctl import Agent, RunConfig, RunHandle, Session, ToolContext, ToolProgress
from loopctl.testing import Probe, ScriptedModel, call, say, stall, swallow_always, virtual_run


def stubborn_session(**config: Any) -> tuple[Session, Probe]:
    probe = swallow_always()
    model = ScriptedModel([call(probe.function.__name__, {})], "fine")
    return Agent(model, [probe.function], config=RunConfig(**config)).session(), probe


async def _by_block(session: Session) -> None:
    async with session.start("a"):
        await asyncio.sleep(1000)


async def _by_reading(session: Session) -> None:
    async with session.start("a") as handle:
        async for _ in handle:
            pass


async def _by_closing(session: Session) -> None:
    handle = session.start("a")
    try:
        await asyncio.sleep(1000)
    finally:
        await handle.aclose()


async def _by_running(session: Session) -> None:
    await session.run("a")


@pytest.mark.parametrize("use", [_by_block, _by_reading, _by_closing, _by_running])
def test_a_second_cancellation_takes_the_grace_away_wherever_the_first_one_struck(
    use: Callable[[Session], Awaitable[None]],
) -> None:
    """ "a second `task.cancel()` while the run is ending acts as ABANDON"."""
    session, probe = stubborn_session(grace=60)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        task = asyncio.ensure_future(use(session))
        await probe.until_started()
        task.cancel()
        await asyncio.sleep(5)
        assert not task.done()
        before = loop.time()
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        assert loop.time() == before
        assert task.cancelling() == 2
        probe.release()
        await asyncio.sleep(1)

    virtual_run(main)


def test_a_first_cancellation_leaves_the_grace_also_in_a_task_that_was_cancelled_before() -> None:
    """ "a second `task.cancel()` while the run is ending": one that came before the run does not count."""
    session, probe = stubborn_session(grace=60)

    async def cleanup() -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            await session.run("a")

    async def main() -> None:
        loop = asyncio.get_running_loop()
        task = asyncio.ensure_future(cleanup())
        await asyncio.sleep(1)
        task.cancel()
        await probe.until_started()
        before = loop.time()
        task.cancel()
        await asyncio.wait([task])
        assert loop.time() - before == 60
        probe.release()
        await asyncio.sleep(1)

    virtual_run(main)


def test_a_part_of_a_run_that_waits_for_its_end_does_not_hold_it_up() -> None:
    """ "dropped at its next await" (section 2): also if that await is of the run itself, or closes its session."""

    async def by_awaiting(session: Session, handle: RunHandle) -> None:
        asyncio.get_running_loop().call_later(5, session.signal.cancel)
        await handle

    async def by_closing(session: Session, handle: RunHandle) -> None:
        await session.aclose()

    async def by_leaving(session: Session, handle: RunHandle) -> None:
        async with handle:
            pass

    for ways in ((by_awaiting, "user", 5), (by_closing, "shutdown", 0), (by_leaving, "caller", 0)):
        way, origin, seconds = ways
        box: dict[str, Any] = {}

        async def work(way: Any = way, box: dict[str, Any] = box) -> str:
            """Wait for the end of the run that this is a part of."""
            await way(box["session"], box["handle"])
            return "never"

        async def plain() -> str:
            """Wait for the end of the run that this is a part of."""
            return await work()

        async def main(box: dict[str, Any] = box, origin: str = origin, seconds: float = seconds) -> None:
            session = box["session"] = Agent(ScriptedModel([call("plain", {})]), [plain]).session()
            handle = box["handle"] = session.start("a")
            run = await handle
            assert run.stop is not None
            assert (run.stop.reason.origin, run.stop.also) == (origin, ())
            assert [record.status for record in run.tool_calls] == ["interrupted"]
            assert run.stragglers == ()
            assert asyncio.get_running_loop().time() == pytest.approx(seconds)

        virtual_run(main)


def test_the_handle_of_an_ended_run_can_be_awaited_anywhere() -> None:
    """ "run = await handle  # the Run, whatever its ending"."""

    async def first() -> RunHandle:
        handle = Agent(ScriptedModel("fine")).session().start("a")
        await handle
        return handle

    handle = asyncio.run(first())

    async def second() -> str | None:
        return (await handle).output

    assert asyncio.run(second()) == "fine"


def test_a_reader_that_was_closed_gives_nothing_more() -> None:
    """Closing is leaving: what waited for the reader is not handed to it any more."""
    session = Agent(ScriptedModel([say("a", "b", "c"), stall()])).session()

    async def main() -> None:
        handle = session.start("a")
        reader, other = aiter(handle), aiter(handle)
        await asyncio.sleep(1)
        await reader.aclose()
        with pytest.raises(StopAsyncIteration):
            await anext(reader)
        assert handle.run is None
        await anext(other)
        handle.cancel()
        await handle

    virtual_run(main)


def test_a_thread_that_ends_after_its_loop_is_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """ "its late result or error recorded ..., never 'exception was never retrieved'"; also after `aclose` gave up."""
    complaints: list[object] = []
    monkeypatch.setattr(threading, "excepthook", complaints.append)
    began, may_end = threading.Event(), threading.Event()

    def block() -> str:
        """Block."""
        began.set()
        may_end.wait(20)
        return "late"

    session = Agent(ScriptedModel([call("block", {})]), [block], config=RunConfig(grace=0.01)).session()

    async def main() -> None:
        handle = session.start("a")
        await asyncio.to_thread(began.wait)
        handle.cancel()
        await handle
        await session.aclose()

    asyncio.run(main())
    (thread,) = [thread for thread in threading.enumerate() if thread.name == "loopctl tool block"]
    may_end.set()
    thread.join(10)
    assert complaints == []
    assert session.stragglers[0].result == "late"


def test_a_second_ctrl_c_leaves_run_sync_also_when_the_run_has_ended_already() -> None:
    """ "Ctrl-C stops (Cancelled) ... again KeyboardInterrupt": the run's own re-arm does not make it a first one."""
    left: list[asyncio.Task[None]] = []

    async def press_when_cancelled() -> None:
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            asyncio.get_running_loop().call_soon(signal.raise_signal, signal.SIGINT)

    async def work() -> str:
        """Leave a task behind, and be stopped."""
        left.append(asyncio.ensure_future(press_when_cancelled()))
        await asyncio.sleep(0)
        signal.raise_signal(signal.SIGINT)
        await asyncio.sleep(1000)
        return "never"

    with pytest.raises(KeyboardInterrupt):
        Agent(ScriptedModel([call("work", {})]), [work]).run_sync("a")
    assert left.pop().done()


def test_a_ctrl_c_while_leftovers_are_awaited_ends_the_wait_and_closes_the_loop() -> None:
    """ "A process with stragglers exits at once when main returns: under the command, `run_sync` and `loopctl.run`"."""
    loops: list[asyncio.AbstractEventLoop] = []

    async def refuse() -> None:
        while True:
            try:
                await asyncio.sleep(1000)
            except asyncio.CancelledError:
                asyncio.get_running_loop().call_soon(_interrupt)

    async def main() -> None:
        loops.append(asyncio.get_running_loop())
        _LEFT.append(asyncio.ensure_future(refuse()))
        await asyncio.sleep(0)

    with pytest.raises(KeyboardInterrupt):
        loopctl.run(main(), exit_grace=1000)
    assert loops[0].is_closed()
    _LEFT.clear()


_LEFT: list[asyncio.Task[None]] = []


def _interrupt() -> None:
    raise KeyboardInterrupt


def test_progress_reaches_a_reader_also_if_another_one_is_full() -> None:
    """ "a new reader with a bounded queue that sees events from its creation on": its own queue, not another's."""

    async def work(ctx: ToolContext) -> str:
        """Work."""
        for number in range(100):
            ctx.progress(str(number))
            await asyncio.sleep(1)
        return "ok"

    session = Agent(ScriptedModel([call("work", {})], "done"), [work]).session()

    async def main() -> None:
        handle = session.start("a")
        full = aiter(handle)
        told: list[str] = []

        async def read() -> None:
            told.extend([event.message async for event in handle if isinstance(event, ToolProgress)])

        task = asyncio.ensure_future(read())
        await asyncio.sleep(200)
        await full.aclose()
        await task
        assert told == [str(number) for number in range(100)]

    virtual_run(main)
