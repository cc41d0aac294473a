"""One cancel is exactly one cancelled run: pending, late, mis-aimed and repeated cancels."""

from __future__ import annotations

import asyncio
import threading

import pytest

from loopctl import (
    Agent,
    Cancelled,
    CancelReason,
    CancelSignal,
    Checkpoint,
    Session,
    SessionBusy,
    ToolContext,
    Urgency,
    tool,
)
from loopctl.testing import ScriptedModel, call, do, say, stall, virtual_run

STALLED = (say("x"), stall())


def session_of(*replies: object, tools: tuple[object, ...] = ()) -> tuple[Session, ScriptedModel]:
    model = ScriptedModel(*replies)  # type: ignore[arg-type]
    return Agent(model, tools).session(), model  # type: ignore[arg-type]


def test_a_cancel_while_idle_is_for_the_next_run_only() -> None:
    """Case D1 and Case D6: the next run ends cancelled with no call and says why; the one after it completes."""
    session, model = session_of("fine")

    async def main() -> None:
        assert session.signal.cancel("pressed early") is True
        run = await session.start("a")
        assert run.outcome == "cancelled"
        assert run.stop is not None
        assert run.stop.reason.message == "pressed early"
        assert run.stop.checkpoint is Checkpoint.TURN_ENTRY
        assert model.requests == []
        assert (await session.run("b")).output == "fine"

    virtual_run(main)


def test_an_ended_runs_handle_touches_nothing() -> None:
    """Case D1: through an ended run's handle a cancel gives False, and the next run is untouched."""
    session, _ = session_of("fine", [*STALLED], "fine too")

    async def main() -> None:
        completed = session.start("a")
        await completed
        cancelled = session.start("b")
        await asyncio.sleep(1)
        cancelled.cancel()
        await cancelled
        for handle in (completed, cancelled):
            assert handle.cancel("late") is False
            assert handle.cancel("late", urgency=Urgency.ABANDON) is False
        assert (await session.run("c")).output == "fine too"

    virtual_run(main)


def test_a_signal_that_was_passed_in_is_never_reset_by_us() -> None:
    """Case D15: fired before the run, it ends the run, and is still fired until its owner resets it."""
    session, model = session_of("fine")
    signal = CancelSignal()

    async def main() -> None:
        signal.cancel("from outside")
        for _ in range(2):
            with pytest.raises(Cancelled) as caught:
                await session.run("a", signal=signal)
            assert caught.value.reason.message == "from outside"
        assert signal.is_cancelled()
        assert model.requests == []
        signal.reset()
        assert (await session.run("b", signal=signal)).output == "fine"

    virtual_run(main)


def test_a_token_can_be_passed_in_too() -> None:
    session, _ = session_of([*STALLED], "fine")
    signal = CancelSignal()

    async def main() -> None:
        handle = session.start("a", signal=signal.token)
        await asyncio.sleep(1)
        signal.cancel()
        assert (await handle).outcome == "cancelled"

    virtual_run(main)


def test_two_cancels_in_a_row_are_as_one() -> None:
    """Case A2: the history, the outcome and the next run are the same as after one cancel."""

    async def wait() -> str:
        """Wait."""
        await asyncio.sleep(100)
        return "ok"

    def play(cancels: int) -> tuple[object, ...]:
        session, model = session_of([call("wait", {})], "fine", tools=(wait,))

        async def main() -> tuple[object, ...]:
            handle = session.start("a")
            await asyncio.sleep(1)
            for _ in range(cancels):
                session.signal.cancel()
            run = await handle
            assert run.stop is not None
            after = await session.run("b")
            return (
                session.history,
                run.outcome,
                run.stop.reason,
                run.stop.also,
                [(record.name, record.status) for record in run.tool_calls],
                after.output,
                len(model.requests),
            )

        return virtual_run(main)

    assert play(1) == play(2) == play(3)


def test_the_first_cause_stays_and_later_ones_are_kept_beside_it() -> None:
    """Case E10: a watchdog's verdict does not overwrite the user's stop that came first."""
    session, _ = session_of([*STALLED], "fine")
    outside = CancelSignal()

    async def main() -> None:
        handle = session.start("a", signal=outside)
        await asyncio.sleep(1)
        session.signal.cancel(CancelReason("user", "enough"))
        outside.cancel(CancelReason("stall", "nothing happened"))
        handle.cancel(CancelReason("shutdown", "deploy"))
        run = await handle
        assert run.stop is not None
        assert run.stop.reason.origin == "user"
        assert [reason.origin for reason in run.stop.also] == ["stall", "shutdown"]

    virtual_run(main)


@pytest.mark.parametrize("origin", ["user", "deadline", "disconnect", "shutdown", "stall", "budget", "observer"])
def test_each_origin_travels_unchanged(origin: str) -> None:
    """Case E6 and Case E9: to the outcome, the exception, the record and the tool, whatever the message says."""
    seen: list[object] = []

    async def wait(ctx: ToolContext) -> str:
        """Wait."""
        try:
            await asyncio.sleep(100)
        finally:
            seen.append(ctx.reason)
        return "ok"

    session, _ = session_of([call("wait", {})], tools=(wait,))
    reason = CancelReason(origin, "operation was aborted: timeout", "somebody")  # type: ignore[arg-type]

    async def main() -> None:
        handle = session.start("a")
        await asyncio.sleep(1)
        handle.cancel(reason)
        run = await handle
        assert run.stop is not None
        with pytest.raises(Cancelled) as caught:
            run.raise_for_outcome()
        assert run.stop.reason == caught.value.reason == seen[0] == reason
        assert run.to_json()["stop"]["reason"] == reason.to_json()

    virtual_run(main)


def test_two_runs_that_are_both_cancelled_do_not_clear_each_others_cancel() -> None:
    """Case D3 and Case D4: each session's cancel is its own, whichever ends first."""
    first, _ = session_of([*STALLED], "fine")
    second, _ = session_of([*STALLED], "fine")
    third, _ = session_of([say("x"), do(lambda: asyncio.sleep(5)), say("y")])

    async def main() -> None:
        handles = [session.start("a") for session in (first, second, third)]
        await asyncio.sleep(1)
        assert handles[0].cancel("one")
        assert handles[1].cancel("two")
        runs = [await handle for handle in handles]
        assert [run.outcome for run in runs] == ["cancelled", "cancelled", "completed"]
        assert [run.stop.reason.message for run in runs if run.stop] == ["one", "two"]

    virtual_run(main)


def test_one_outside_signal_ends_every_run_it_was_given() -> None:
    sessions = [session_of([*STALLED])[0] for _ in range(3)]
    signal = CancelSignal()

    async def main() -> None:
        handles = [session.start("a", signal=signal) for session in sessions]
        await asyncio.sleep(1)
        signal.cancel("all of you")
        assert {(await handle).outcome for handle in handles} == {"cancelled"}
        assert signal.is_cancelled()

    virtual_run(main)


def test_a_run_started_the_moment_the_cancelled_one_ended_is_not_touched_by_it() -> None:
    """Case D9 and Case D12: late work and late cancels of run 1 stay with run 1."""
    late: list[str] = []

    async def stubborn() -> str:
        """Refuse to stop."""
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            try:
                await asyncio.sleep(100)
            except asyncio.CancelledError:
                await asyncio.sleep(50)
        late.append("late")
        return "late"

    session, model = session_of(
        [call("stubborn", {})], [say("slow"), do(lambda: asyncio.sleep(100)), say("ly")], tools=(stubborn,)
    )

    async def main() -> None:
        first = session.start("a")
        await asyncio.sleep(1)
        first.cancel()
        run = await first
        second = session.start("b")
        reader = aiter(second)
        assert first.cancel("before it began") is False
        await asyncio.sleep(10)
        assert second.run is None
        assert first.cancel("while it goes on") is False
        events = [event async for event in reader]
        assert run.stop is not None
        assert [straggler.name for straggler in run.stop.stragglers] == ["stubborn"]
        assert late == ["late"]
        assert (await second).output == "slowly"
        assert session.runs == (run, second.run)
        assert not any("stubborn" in repr(event) for event in events)
        assert len(model.requests) == 2
        assert session.runs[0] is run
        assert session.runs[0].tool_calls[0].status == "abandoned"

    virtual_run(main)


def test_a_cancel_between_start_and_the_first_step_is_not_lost() -> None:
    """Case B20: never a call, never `cancelled` while alive."""
    for hand in ("handle", "session"):
        session, model = session_of("never")

        async def main(session: Session = session, hand: str = hand) -> None:
            handle = session.start("a")
            assert handle.run is None
            assert handle.cancel() if hand == "handle" else session.signal.cancel()
            run = await handle
            assert run.outcome == "cancelled"
            assert run.turns == ()

        virtual_run(main)
        assert model.requests == []


def test_a_second_start_is_refused_and_says_what_is_active() -> None:
    session, _ = session_of([*STALLED], "fine")

    async def main() -> None:
        handle = session.start("a")
        with pytest.raises(SessionBusy, match=handle.id):
            session.start("b")
        await asyncio.sleep(1)
        handle.cancel()
        await handle
        assert (await session.run("c")).output == "fine"

    virtual_run(main)


@pytest.mark.parametrize("is_on_thread", [False, True])
def test_a_cancel_from_inside_a_tool_is_like_any_other(is_on_thread: bool) -> None:
    """Whoever holds the signal can fire it from inside of the run."""
    model = ScriptedModel([call("stop_all", {}), call("stop_all", {})], "fine")

    def stop_on_thread(ctx: ToolContext) -> str:
        """Stop everything, in a thread that has the grace to return."""
        session.signal.cancel("from a tool")
        return "stopped" if ctx.is_cancelled() else "not stopped"

    async def stop_on_loop() -> str:
        """Stop everything."""
        session.signal.cancel("from a tool")
        return "stopped"

    stop_all = tool(name="stop_all")(stop_on_thread if is_on_thread else stop_on_loop)
    session = Agent(model, [stop_all]).session()

    async def main() -> None:
        run = await session.start("a")
        assert run.stop is not None
        assert run.stop.checkpoint is Checkpoint.TOOL_CALL
        assert [record.status for record in run.tool_calls] == ["completed", "not_started"]
        assert run.tool_calls[0].result == "stopped"
        assert (await session.run("b")).output == "fine"

    virtual_run(main)


def test_no_interleaving_of_threads_loses_or_doubles_a_cancel() -> None:
    """Case B16: every run is cancelled or had completed, and each handle's answer says which."""
    model = ScriptedModel([say("a", "b", "c")], repeat=True)
    session = Agent(model).session()
    told: list[bool] = []

    async def one(number: int) -> None:
        handle = session.start("go")
        thread = threading.Thread(target=lambda: told.append(handle.cancel(str(number))))
        for _ in range(number % 24):
            await asyncio.sleep(0)
        thread.start()
        run = await handle
        thread.join()
        assert (run.outcome == "cancelled") == told[-1]

    async def main() -> None:
        for number in range(1000):
            await one(number)

    asyncio.run(main())
    assert len(told) == len(session.runs) == 1000
    assert {True, False} == set(told)


def test_session_firings_from_another_thread_are_each_one_cancelled_run() -> None:
    session = Agent(ScriptedModel([say("a", "b", "c")], repeat=True)).session()

    async def main() -> None:
        fired = 0
        for number in range(200):
            handle = session.start("go")
            thread = threading.Thread(target=session.signal.cancel)
            for _ in range(number % 24):
                await asyncio.sleep(0)
            thread.start()
            fired += 1
            await handle
            thread.join()
            if session.signal.is_cancelled():  # it came after the claim: it is the next run's
                await session.start("next")
        cancelled = [run for run in session.runs if run.outcome == "cancelled"]
        assert len(cancelled) == fired
        assert not session.signal.is_cancelled()

    asyncio.run(main())
