"""Runs are cancelled by id, and the receipt says what the record says."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from pathlib import Path

import pytest

import loopctl
from loopctl import Agent, CancelReason, RunConfig, RunEnded, TextDelta, Urgency, UsageError
from loopctl.control import LiveRuns, Receipt
from loopctl.control._live import press
from loopctl.testing import ScriptedModel, call, pause, say, stall, virtual_run


async def deaf() -> str:
    """Do not hear."""
    until = asyncio.get_running_loop().time() + 30
    while (left := until - asyncio.get_running_loop().time()) > 0:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(left)
    return "heard nothing"


WHY = CancelReason("user", "enough", "alice")


def test_a_run_is_cancelled_by_its_id_alone_and_the_receipt_has_its_record() -> None:
    agent = Agent(ScriptedModel([say("Once"), stall()], [say("Twice"), pause(5), say("!")]))
    live = LiveRuns(agent)

    async def main() -> None:
        one, other = agent.session().start("a"), agent.session().start("b")
        await asyncio.sleep(1)
        assert [handle.id for handle in live.active] == [one.id, other.id]
        receipt = await live.cancel(one.id, WHY)
        assert (receipt.state, receipt.outcome) == ("ended", "cancelled")
        run = await one
        assert receipt.run is run
        assert run.stop is not None
        assert run.stop.reason == WHY
        assert (await other).output == "Twice!"
        assert live.active == ()

    virtual_run(main)


def test_a_cancel_that_comes_after_the_end_names_the_outcome() -> None:
    agent = Agent(ScriptedModel("fine", [say("Once"), stall()], [say("Once"), stall()]))
    live = LiveRuns(agent)
    session = agent.session()

    async def main() -> None:
        run = await session.run("a")
        assert await live.cancel(run.id) == Receipt(run.id, "already_ended", "completed")
        handle = session.start("b")
        await asyncio.sleep(1)
        handle.cancel()
        await handle
        assert await live.cancel(handle.id) == Receipt(handle.id, "already_ended", "cancelled")
        after = session.start("c")
        await asyncio.sleep(1)
        assert await live.cancel(handle.id, urgency=Urgency.ABANDON) == Receipt(handle.id, "already_ended", "cancelled")
        assert not after.is_stopping
        after.cancel()
        await after

    virtual_run(main)


def test_a_cancel_between_the_decision_and_the_idle_session_says_what_was_decided() -> None:
    """In an observer of `RunEnded` the session is still busy."""
    asking: list[asyncio.Task[Receipt]] = []
    pressed: list[bool] = []

    def ask(event: object) -> None:
        if isinstance(event, RunEnded):
            [handle] = live.active
            pressed.append(press(handle, WHY, Urgency.STOP))
            assert live.press(event.run.id, WHY).receipt == Receipt(event.run.id, "already_ended", "completed")
            asking.append(asyncio.create_task(live.cancel(event.run.id, WHY)))

    agent = Agent(ScriptedModel("fine"), observers=[ask])
    live = LiveRuns(agent)

    async def main() -> None:
        run = await agent.session().run("a")
        assert await asking[0] == Receipt(run.id, "already_ended", "completed")
        assert pressed == [False]

    virtual_run(main)


def test_nothing_is_known_of_an_id_that_was_never_there_or_is_forgotten() -> None:
    agent = Agent(ScriptedModel("fine", repeat=True))
    live = LiveRuns(agent)

    async def main() -> None:
        assert await live.cancel("run_0", "why", Urgency.ABANDON) == Receipt("run_0", "unknown")
        first = await agent.session().run("a")
        second = await agent.session().run("b")
        for _ in range(999):
            await agent.session().run("c")
        assert (await live.cancel(first.id)).state == "unknown"
        assert (await live.cancel(second.id)).state == "already_ended"

    virtual_run(main)


def test_the_wait_is_bounded_and_a_stronger_cancel_acts() -> None:
    agent = Agent(ScriptedModel(call("deaf", {})), [deaf], config=RunConfig(grace=10))
    live = LiveRuns(agent)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        handle = agent.session().start("a")
        await asyncio.sleep(1)
        before = loop.time()
        assert await live.cancel(handle.id, WHY, wait=0.5) == Receipt(handle.id, "cancelling")
        assert loop.time() - before == pytest.approx(0.5)
        assert await live.cancel(handle.id, WHY, wait=0) == Receipt(handle.id, "cancelling")
        joined = asyncio.create_task(live.cancel(handle.id, "me too"))
        await asyncio.sleep(1)
        receipt = await live.cancel(handle.id, "now", Urgency.ABANDON)
        assert loop.time() - before < 2
        assert receipt.outcome == "cancelled"
        assert await joined == receipt
        assert receipt.run is not None
        assert receipt.run.stop is not None
        assert receipt.run.stop.reason == WHY
        assert [reason.message for reason in receipt.run.stop.also] == ["me too", "now"]
        await asyncio.sleep(30)  # it ends after all

    virtual_run(main)


def test_without_a_bound_of_ones_own_the_wait_is_the_grace_and_a_second() -> None:
    agent = Agent(ScriptedModel(call("deaf", {})), [deaf], config=RunConfig(grace=2))
    live = LiveRuns(agent)

    async def main() -> None:
        handle = agent.session().start("a")
        await asyncio.sleep(1)
        receipt = await live.cancel(handle.id)
        assert receipt.state == "ended"
        assert receipt.run is not None
        assert receipt.run.stop is not None
        assert [straggler.name for straggler in receipt.run.stop.stragglers] == ["deaf"]
        await asyncio.sleep(30)

    virtual_run(main)


def test_a_wait_that_is_cancelled_leaves_the_cancel_as_it_was() -> None:
    agent = Agent(ScriptedModel(call("deaf", {})), [deaf], config=RunConfig(grace=2))
    live = LiveRuns(agent)

    async def main() -> None:
        handle = agent.session().start("a")
        await asyncio.sleep(1)
        asking = asyncio.create_task(live.cancel(handle.id, WHY))
        await asyncio.sleep(1)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        run = await handle
        assert run.stop is not None
        assert (run.stop.reason, run.stop.also) == (WHY, ())
        await asyncio.sleep(30)

    virtual_run(main)


def test_runs_that_were_active_before_are_followed_too() -> None:
    agent = Agent(ScriptedModel([say("Once"), pause(5)], [say("Once"), stall()]))

    async def main() -> None:
        one, other = agent.session().start("a"), agent.session().start("b")
        await asyncio.sleep(1)
        live = LiveRuns(agent)
        assert (await live.cancel(other.id)).state == "ended"
        await one
        assert await live.cancel(one.id) == Receipt(one.id, "already_ended", "completed")
        assert await live.cancel(other.id) == Receipt(other.id, "already_ended", "cancelled")

    virtual_run(main)


def test_a_tool_may_cancel_its_own_run_and_another_agents_runs_are_none_of_its_business() -> None:
    async def give_up() -> str:
        """Give up."""
        [handle] = live.active
        assert (await strange.cancel(handle.id)).state == "unknown"
        await live.cancel(handle.id, WHY)
        return "not reached"

    agent = Agent(ScriptedModel(call("give_up", {}), "not asked"), [give_up])
    live, strange = LiveRuns(agent), LiveRuns(Agent(ScriptedModel("fine")))

    async def main() -> None:
        run = await agent.session().start("a")
        assert run.stop is not None
        assert run.stop.reason == WHY

    virtual_run(main)


def test_another_thread_with_a_loop_of_its_own_gets_the_same_receipt() -> None:
    agent = Agent(ScriptedModel([say("Once"), stall()]))
    live = LiveRuns(agent)
    receipts: list[Receipt] = []

    async def main() -> None:
        handle = agent.session().start("a")
        async for event in handle:
            if isinstance(event, TextDelta):
                break_in = threading.Thread(
                    target=lambda: receipts.append(loopctl.run(live.cancel(handle.id, WHY, wait=30)))
                )
                break_in.start()
        run = await handle
        await asyncio.to_thread(break_in.join)
        assert receipts == [Receipt(handle.id, "ended", "cancelled")]
        assert receipts[0].run is run

    asyncio.run(main())


@pytest.mark.parametrize("has_store", [False, True])
def test_cancels_that_race_with_the_end_have_receipts_that_equal_the_records(tmp_path: Path, has_store: bool) -> None:
    """From another thread, at instants all over the last steps of a run; a store writes between two of them."""
    store = tmp_path / "store.db" if has_store else None
    agent = Agent(ScriptedModel("fine", repeat=True))
    states: set[str] = set()
    for _ in range(20):  # when which thread runs is the system's affair: until some came in time and some too late
        states |= _race(agent, store, 100 if has_store else 300)
        if states == {"ended", "already_ended"}:
            break
    assert states == {"ended", "already_ended"}, "nothing raced"


def _race(agent: Agent, store: Path | None, count: int) -> set[str]:
    live = LiveRuns(agent)
    receipts: dict[str, Receipt] = {}
    ids: list[str] = []
    is_over = threading.Event()

    async def watch() -> None:
        seen = 0
        while not is_over.is_set() or seen < len(ids):
            if seen == len(ids):
                await asyncio.sleep(0)
                continue
            run_id = ids[seen]
            for _ in range(seen % 40):
                await asyncio.sleep(0 if store is None else 0.001)
            receipts[run_id] = await live.cancel(run_id, WHY, wait=30)
            seen += 1

    async def main() -> None:
        thread = threading.Thread(target=lambda: loopctl.run(watch()))
        thread.start()
        session = agent.session(store=store)
        for _ in range(count):
            handle = session.start("a")
            ids.append(handle.id)
            await handle
        await session.aclose()
        is_over.set()
        await asyncio.to_thread(thread.join)
        for run in session.runs:
            receipt = receipts[run.id]
            assert receipt.outcome == run.outcome
            assert (receipt.state == "ended") == (run.outcome == "cancelled")
            assert run.outcome in {"completed", "cancelled"}

    asyncio.run(main())
    live.close()
    assert len(receipts) == count
    return {receipt.state for receipt in receipts.values()}


def test_who_follows_an_agent_no_more_has_left_it_as_it_was() -> None:
    seen: list[object] = []
    agent = Agent(ScriptedModel("fine", repeat=True), observers=[seen.append])
    before = agent.observers
    lives = [LiveRuns(agent) for _ in range(3)]
    for live in (*lives, *lives):
        live.close()
    assert agent.observers == before

    async def main() -> None:
        run = await agent.session().run("a")
        assert (await lives[0].cancel(run.id)).state == "unknown"
        assert any(isinstance(event, RunEnded) for event in seen)

    virtual_run(main)


def test_what_is_no_reason_no_urgency_and_no_wait_is_refused() -> None:
    live = LiveRuns(Agent(ScriptedModel("fine")))

    async def main() -> None:
        with pytest.raises(UsageError, match="wait"):
            await live.cancel("run_0", wait=-1)
        with pytest.raises(UsageError, match="reason"):
            await live.cancel("run_0", 3)  # type: ignore[arg-type]

    virtual_run(main)
