"""Readers of a run's events: what they see, what they hold back, what leaving them does."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable

import pytest

from loopctl import (
    Agent,
    Checkpoint,
    Event,
    ModelError,
    RunConfig,
    RunEnded,
    RunHandle,
    Session,
    SessionBusy,
    TextDelta,
    ToolContext,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    UsageError,
)
from loopctl.recovery import ModelRecovery
from loopctl.testing import ScriptedModel, burst, call, pause, say, stall, virtual_run

CLOSINGS = (ToolFinished, TurnEnded, RunEnded)


def session_of(*replies: object, tools: tuple[object, ...] = (), **config: object) -> Session:
    return Agent(ScriptedModel(*replies), tools, config=RunConfig(**config)).session()  # type: ignore[arg-type]


def model_of(session: Session) -> ScriptedModel:
    assert isinstance(session.agent.model, ScriptedModel)
    return session.agent.model


def _by_call(session: Session) -> None:
    session.signal.cancel()


def _by_signal_handler(session: Session) -> None:
    before = signal.signal(signal.SIGUSR1, lambda *_: session.signal.cancel())
    signal.raise_signal(signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("stop", [_by_call, _by_signal_handler])
def test_after_a_cancel_a_reader_gets_only_closings(stop: Callable[[Session], None]) -> None:
    """Case B11 and Case L7: of a thousand buffered events at most the one that is being handled arrives."""
    session = session_of([burst(1000)])

    async def main() -> None:
        seen: list[Event] = []
        handle = session.start("a")
        async for event in handle:
            seen.append(event)
            if len([one for one in seen if isinstance(one, TextDelta)]) == 10:
                stop(session)
        assert len([event for event in seen if isinstance(event, TextDelta)]) == 10
        assert [type(event) for event in seen[-2:]] == [TurnEnded, RunEnded]
        run = await handle
        assert len(run.partial_text) > 50, "more was buffered for the reader"

    virtual_run(main)


def test_the_signal_is_checked_on_every_event() -> None:
    """Case I4: after the cancel no event is delivered and none is read: the stream stops within one event."""
    session = session_of([burst(1_000_000)])

    async def main() -> None:
        texts = read = 0
        handle = session.start("a")
        async for event in handle:
            if isinstance(event, TextDelta):
                texts += 1
                session.signal.cancel()
                read = model_of(session).exchanges[0].deltas
        (exchange,) = model_of(session).exchanges
        assert texts == 1
        assert exchange.deltas <= read + 1
        assert exchange.is_clean

    virtual_run(main)


def test_leaving_the_loop_early_stops_the_run() -> None:
    """Case B19: `break` and `aclose` stop it, and no model call and no tool comes after that."""
    effects: list[str] = []

    async def effect() -> str:
        """Have an effect."""
        effects.append("effect")
        return "ok"

    async def by_break(handle: RunHandle) -> None:
        async for event in handle:
            if isinstance(event, TextDelta):
                break

    async def by_aclose(handle: RunHandle) -> None:
        reader = aiter(handle)
        async for event in reader:
            if isinstance(event, TextDelta):
                await reader.aclose()
        with pytest.raises(StopAsyncIteration):
            await anext(reader)

    async def by_block(handle: RunHandle) -> None:
        async with handle:
            await asyncio.sleep(0.5)

    for leave in (by_break, by_aclose, by_block):
        session = session_of([say("x"), pause(1), call("effect", {})], "never", tools=(effect,))

        async def main(session: Session = session, leave: object = leave) -> None:
            handle = session.start("a")
            await leave(handle)  # type: ignore[operator]
            run = await handle
            assert run.stop is not None
            assert run.stop.reason.origin == "caller"
            await asyncio.sleep(10)
            assert len(model_of(session).requests) == 1

        virtual_run(main)
    assert effects == []


def test_a_task_that_is_cancelled_while_it_reads_leaves_the_run() -> None:
    session = session_of([say("x"), stall()])

    async def main() -> None:
        handle = session.start("a")

        async def read() -> None:
            async for _ in handle:
                pass

        task = asyncio.ensure_future(read())
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        run = await handle
        assert run.stop is not None
        assert run.stop.reason.origin == "caller"

    virtual_run(main)


def test_wrapping_the_events_in_a_generator_keeps_the_stop_working() -> None:
    """Case I8 and Case H9: closing a generator around the events, at each yield, stops the run in silence."""

    async def wrap(handle: RunHandle) -> AsyncIterator[Event]:
        async for event in handle:
            yield event

    def events_until_the_end() -> int:
        session = session_of([say("a", "b"), pause(1), say("c")])

        async def main() -> int:
            return len([event async for event in wrap(session.start("a"))])

        return virtual_run(main)

    stopped: list[bool] = []
    for number in range(1, events_until_the_end()):
        session = session_of([say("a", "b"), pause(1), say("c")], "next")

        async def main(session: Session = session, number: int = number) -> None:
            handle = session.start("a")
            wrapped = wrap(handle)
            for _ in range(number):
                await anext(wrapped)
            was_running = handle.run is None
            await wrapped.aclose()  # type: ignore[attr-defined]
            run = await handle
            assert (run.stop is not None) == was_running
            assert run.stop is None or run.stop.reason.origin == "caller"
            stopped.append(was_running)

        virtual_run(main)
    assert stopped.count(True) >= 5


def test_dropping_one_of_two_readers_does_not_stop_the_run() -> None:
    session = session_of([say("a", "b"), pause(1), say("c")])

    async def main() -> None:
        handle = session.start("a")
        first, second = aiter(handle), aiter(handle)
        await anext(first)
        del first
        seen = [event async for event in second]
        assert "".join(event.text for event in seen if isinstance(event, TextDelta)) == "abc"
        assert (await handle).outcome == "completed"

    virtual_run(main)


def test_a_slow_reader_holds_its_run_back_and_nothing_else() -> None:
    session = session_of([burst(1000)])

    async def main() -> None:
        handle = session.start("a")
        reader = aiter(handle)
        await asyncio.sleep(10)
        assert model_of(session).exchanges[0].deltas < 100
        seen = [event async for event in reader]
        assert len([event for event in seen if isinstance(event, TextDelta)]) == 1000
        assert (await handle).outcome == "completed"

    virtual_run(main)


def test_a_run_that_is_held_back_is_stopped_at_delivery() -> None:
    """Case L4: a stop does not queue behind the events of the run that it stops."""
    session = session_of([burst(1000)], "next")

    async def main() -> None:
        handle = session.start("a")
        reader = aiter(handle)
        await asyncio.sleep(10)
        handle.cancel()
        run = await handle
        assert run.stop is not None
        assert run.stop.checkpoint is Checkpoint.DELIVERY
        assert [type(event) async for event in reader] == [RunEnded]
        assert (await session.run("b")).output == "next"

    virtual_run(main)


def test_the_models_clocks_stand_still_while_a_reader_holds_the_run_back() -> None:
    model = ScriptedModel([burst(100), pause(3), say("end"), stall()])
    config = RunConfig(event_timeout=5, turn_timeout=50)
    session = Agent(model, recovery=ModelRecovery(transport_retries=0), config=config).session()

    async def main() -> None:
        handle = session.start("a")
        reader = aiter(handle)
        await asyncio.sleep(1000)
        started = asyncio.get_running_loop().time()
        texts = [event.text async for event in reader if isinstance(event, TextDelta)]
        assert texts[-1] == "end"
        run = await handle
        assert isinstance(run.error, ModelError)
        assert "no further event for 5 s" in str(run.error)
        assert asyncio.get_running_loop().time() - started == pytest.approx(8)

    virtual_run(main)


def test_awaiting_the_handle_lets_go_of_a_run_that_was_held_back() -> None:
    session = session_of([burst(1000)])

    async def main() -> None:
        handle = session.start("a")
        reader = aiter(handle)
        assert (await handle).outcome == "completed"
        assert len([event async for event in reader if isinstance(event, TextDelta)]) == 1000

    virtual_run(main)


def test_a_late_reader_sees_what_comes_from_then_on() -> None:
    session = session_of([say("a"), pause(1), say("b")])

    async def main() -> None:
        handle = session.start("a")
        await asyncio.sleep(0.5)
        seen = [event async for event in handle]
        assert [event.text for event in seen if isinstance(event, TextDelta)] == ["b"]
        assert [type(event) async for event in handle] == [RunEnded]

    virtual_run(main)


def test_each_start_that_was_seen_has_its_end() -> None:
    async def wait() -> str:
        """Wait."""
        await asyncio.sleep(100)
        return "ok"

    session = session_of([call("wait", {}), call("wait", {})], tools=(wait,))

    async def main() -> None:
        handle = session.start("a")
        seen = []
        async for event in handle:
            seen.append(event)
            if isinstance(event, ToolStarted):
                await asyncio.sleep(1)
                handle.cancel()
        kinds = [type(event) for event in seen]
        assert kinds[-4:] == [ToolStarted, ToolFinished, TurnEnded, RunEnded]
        assert kinds.count(TurnStarted) == 1
        assert isinstance(seen[-3], ToolFinished)
        assert seen[-3].call.status == "interrupted"

    virtual_run(main)


def test_progress_of_a_tool_is_told_from_its_thread_and_never_after_its_end() -> None:
    held: list[ToolContext] = []

    def work(ctx: ToolContext) -> str:
        """Work on a thread."""
        ctx.progress("half", 0.5)
        held.append(ctx)
        return "ok"

    async def more(ctx: ToolContext) -> str:
        """Work in a task."""
        held[0].progress("too late", 1.0)
        ctx.progress("there")
        return "ok"

    session = session_of([call("work", {}), call("more", {})], "done", tools=(work, more))

    async def main() -> None:
        seen = [event async for event in session.start("a")]
        told = [(event.name, event.message, event.fraction) for event in seen if isinstance(event, ToolProgress)]
        assert told == [("work", "half", 0.5), ("more", "there", None)]

    virtual_run(main)


def test_a_reader_is_for_one_task_and_one_loop() -> None:
    session = session_of([say("x"), stall()])

    async def main() -> None:
        handle = session.start("a")
        reader = aiter(handle)
        tasks = [asyncio.ensure_future(_all(reader)) for _ in range(2)]
        await asyncio.sleep(1)
        done = [task for task in tasks if task.done()]
        assert len(done) == 1
        assert isinstance(done[0].exception(), UsageError)
        handle.cancel()
        await asyncio.wait(tasks)

    async def _all(reader: AsyncIterator[Event]) -> None:
        async for _ in reader:
            pass

    virtual_run(main)


def test_an_observer_of_the_end_finds_the_session_busy_and_the_record_written() -> None:
    """Observers come before the readers: the run is decided, committed and recorded, and not yet re-armed."""
    found: list[object] = []

    def observe(event: Event) -> None:
        if isinstance(event, RunEnded):
            found.append((session.runs[-1] is event.run, len(session.history), session.signal.is_cancelled()))
            with pytest.raises(SessionBusy):
                session.start("b")

    model = ScriptedModel("fine", [say("x"), stall()])
    session = Agent(model, observers=[observe]).session()

    async def main() -> None:
        await session.run("a")
        handle = session.start("b")
        await asyncio.sleep(1)
        session.signal.cancel()
        await handle
        assert found == [(True, 2, False), (True, 2, True)]
        assert session.signal.is_cancelled() is False

    virtual_run(main)


def test_an_observer_that_ends_the_program_does_so_when_everybody_knows() -> None:
    def observe(event: Event) -> None:
        if isinstance(event, RunEnded):
            raise KeyboardInterrupt

    session = Agent(ScriptedModel("fine"), observers=[observe]).session()

    async def main() -> None:
        await session.run("a")

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())
    assert session.runs[0].outcome == "completed"
    assert "idle" in repr(session)
