"""The rate gate: who passes when, in which order, and that no permit is ever lost."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any

import pytest
from hypothesis import given, strategies as st

from loopctl import Agent, Cancelled, CancelSignal, Checkpoint, RunConfig, Urgency, UsageError
from loopctl.middleware import RateGate
from loopctl.record import Event, WaitStarted
from loopctl.testing import NonStreamingModel, ScriptedModel, VirtualLoop, absorb, pause, say, slow_close, virtual_run

NEVER = CancelSignal()


def now() -> float:
    return asyncio.get_running_loop().time()


async def pass_through(gate: RateGate, passed: list[Any], name: object = None, hold: float = 0) -> None:
    async with gate.permit(NEVER):
        passed.append(now() if name is None else name)
        await asyncio.sleep(hold)


async def together(*works: Coroutine[Any, Any, Any]) -> None:
    async with asyncio.TaskGroup() as group:
        for work in works:
            group.create_task(work)


def test_no_period_sees_more_than_the_limit_and_none_is_wasted() -> None:
    async def main() -> None:
        gate, passed = RateGate(3, 10), []
        await together(*(pass_through(gate, passed) for _ in range(7)))
        assert passed == [0, 0, 0, 10, 10, 10, 20]
        await asyncio.sleep(5)
        await pass_through(gate, passed)
        assert passed[-1] == 25

    virtual_run(main)


def test_no_more_than_the_limit_are_held_at_once() -> None:
    async def main() -> None:
        gate, passed = RateGate(concurrent=2), []
        await together(*(pass_through(gate, passed, hold=3) for _ in range(5)))
        assert passed == [0, 0, 3, 3, 6]
        assert (gate.held, gate.waiting) == (0, 0)

    virtual_run(main)


def test_both_limits_hold() -> None:
    async def main() -> None:
        gate, passed = RateGate(2, 10, concurrent=1), []
        await together(*(pass_through(gate, passed, hold=4) for _ in range(4)))
        assert passed == [0, 4, 10, 14]

    virtual_run(main)


def test_the_first_to_come_is_the_first_to_pass_also_after_others_have_left() -> None:
    async def main() -> None:
        gate, passed = RateGate(concurrent=1), []
        tasks = [asyncio.ensure_future(pass_through(gate, passed, name, hold=1)) for name in range(6)]
        await asyncio.sleep(0.5)
        tasks[1].cancel()
        tasks[4].cancel()
        await asyncio.wait(tasks)
        assert passed == [0, 2, 3, 5]
        assert (gate.held, gate.waiting) == (0, 0)

    virtual_run(main)


@pytest.mark.parametrize("urgency", [Urgency.DRAIN, Urgency.STOP, Urgency.ABANDON])
@pytest.mark.parametrize("limits", [{"requests": 2}, {"concurrent": 2}, {"requests": 2, "concurrent": 2}], ids=str)
def test_many_cancels_at_the_limiter_cost_no_permit(limits: dict[str, int], urgency: Urgency) -> None:
    """Case H16: the limit is the same afterwards."""

    async def main() -> None:
        gate = RateGate(limits.get("requests"), concurrent=limits.get("concurrent"))
        signal, passed = CancelSignal(), []
        holders = [asyncio.ensure_future(pass_through(gate, passed, "holder", hold=100)) for _ in range(2)]
        await asyncio.sleep(1)

        async def stopped() -> None:
            with pytest.raises(Cancelled) as caught:
                async with gate.permit(signal):
                    pytest.fail("it passed")
            assert caught.value.checkpoint is Checkpoint.STREAM_WAIT

        asyncio.get_running_loop().call_later(1, lambda: signal.cancel(urgency=urgency))
        await together(*(stopped() for _ in range(20)))
        assert now() == 2
        await stopped()
        assert (gate.held, gate.waiting) == (2, 0)
        await asyncio.wait(holders)
        later: list[float] = []
        await together(*(pass_through(gate, later, hold=1) for _ in range(2)))
        assert later == [100, 100], "the limit is not what it was"

    virtual_run(main)


def test_a_signal_that_has_fired_gets_no_permit_also_if_there_is_room() -> None:
    async def main() -> None:
        gate, signal = RateGate(1), CancelSignal()
        signal.cancel()
        with pytest.raises(Cancelled):
            async with gate.permit(signal):
                pytest.fail("it passed")
        passed: list[float] = []
        await pass_through(gate, passed)
        assert passed == [0]

    virtual_run(main)


def test_a_cancel_in_the_same_turn_as_the_permit_leaves_it_to_the_next() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        for by_signal in (True, False):
            gate, passed, signal = RateGate(concurrent=1), [], CancelSignal()
            permit = gate.permit(NEVER)
            await permit.__aenter__()

            async def stopped(gate: RateGate = gate, signal: CancelSignal = signal) -> None:
                async with gate.permit(signal):
                    pytest.fail("it passed")

            task = asyncio.ensure_future(stopped())
            following = asyncio.ensure_future(pass_through(gate, passed, "the next"))
            await asyncio.sleep(1)
            loop.call_soon(signal.cancel if by_signal else task.cancel)
            await permit.__aexit__(None, None, None)
            ended = await asyncio.gather(task, following, return_exceptions=True)
            assert isinstance(ended[0], Cancelled | asyncio.CancelledError)
            assert passed == ["the next"]
            assert (gate.held, gate.waiting) == (0, 0)

    virtual_run(main)


@given(
    st.integers(1, 4),
    st.sampled_from([None, 1, 2]),
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9), st.integers(0, 40)), min_size=1, max_size=12),
)
def test_whatever_comes_and_is_cancelled_the_limits_hold_and_all_permits_come_back(
    requests: int, concurrent: int | None, plan: list[tuple[int, int, int]]
) -> None:
    async def main() -> None:
        gate, begun, most = RateGate(requests, 10, concurrent=concurrent), [], 0

        async def one(start: int, hold: int) -> None:
            nonlocal most
            await asyncio.sleep(start)
            async with gate.permit(NEVER):
                begun.append(now())
                most = max(most, gate.held)
                await asyncio.sleep(hold)

        tasks = []
        for start, hold, stop in plan:
            tasks.append(asyncio.ensure_future(one(start, hold)))
            if stop < 25:  # the others are left to end
                asyncio.get_running_loop().call_later(stop, tasks[-1].cancel)
        await asyncio.wait(tasks)
        assert (gate.held, gate.waiting) == (0, 0)
        assert concurrent is None or most <= concurrent
        for index, moment in enumerate(begun):
            assert sum(moment <= other < moment + 10 for other in begun[index:]) <= requests
        await asyncio.sleep(10)
        again: list[float] = []
        await together(*(pass_through(gate, again) for _ in range(min(requests, concurrent or requests))))
        assert len(set(again)) == 1, "a permit is missing"

    virtual_run(main)


def test_a_stop_at_every_step_of_a_crowd_loses_no_permit() -> None:
    def play(step: int | None, *, by_signal: bool) -> int:
        loop, signal, tasks = VirtualLoop(), CancelSignal(), []

        def at(number: int) -> None:
            if number == step and tasks:
                signal.cancel() if by_signal else tasks[number % len(tasks)].cancel()

        async def main() -> int:
            gate, passed = RateGate(2, 5, concurrent=1), []

            async def one() -> None:
                async with gate.permit(signal):
                    passed.append(now())
                    await asyncio.sleep(1)

            tasks.extend(asyncio.ensure_future(one()) for _ in range(5))
            await asyncio.wait(tasks)
            steps = VirtualLoop.running().steps
            assert (gate.held, gate.waiting) == (0, 0)
            assert len(passed) >= sum(not task.cancelled() and task.exception() is None for task in tasks)
            await asyncio.sleep(5)
            begin = now()
            await pass_through(gate, passed)
            assert passed[-1] == begin
            return steps

        loop.before_step(at)
        return virtual_run(main, loop=loop)

    for by_signal in (True, False):
        for step in range(play(None, by_signal=by_signal)):
            play(step, by_signal=by_signal)


def test_loops_in_other_threads_share_the_limit_and_the_queue() -> None:
    gate, most, done = RateGate(concurrent=2), [], []

    async def crowd() -> None:
        async def one() -> None:
            async with gate.permit(NEVER):
                most.append(gate.held)
                await asyncio.sleep(0)
            done.append(1)

        await together(*(one() for _ in range(50)))

    threads = [threading.Thread(target=asyncio.run, args=(crowd(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert (len(done), max(most), gate.held, gate.waiting) == (200, 2, 0, 0)


def test_a_loop_that_was_closed_holds_and_waits_for_nothing_any_more() -> None:
    gate = RateGate(concurrent=1)

    def left_behind() -> list[asyncio.Task[None]]:
        loop = asyncio.new_event_loop()
        tasks = [loop.create_task(pass_through(gate, [], hold=1000)) for _ in range(2)]
        loop.run_until_complete(asyncio.sleep(0.01))
        assert (gate.held, gate.waiting) == (1, 1)
        for task in tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        loop.close()
        return tasks

    tasks = left_behind()
    passed: list[float] = []
    virtual_run(lambda: pass_through(gate, passed))
    assert (passed, gate.held, gate.waiting) == ([0], 0, 0)
    for task in tasks:
        task.get_coro().close()  # type: ignore[union-attr]


def test_who_waits_for_a_loop_that_is_closed_meanwhile_looks_again() -> None:
    gate, passed = RateGate(concurrent=1), []
    other = asyncio.new_event_loop()
    task = other.create_task(pass_through(gate, [], hold=1000))
    other.run_until_complete(asyncio.sleep(0))
    task._log_destroy_pending = False  # type: ignore[attr-defined]

    async def main() -> None:
        asyncio.get_running_loop().call_later(5.5, other.close)
        await pass_through(gate, passed)

    virtual_run(main)
    assert passed == [6]


def test_stamps_of_another_clock_make_nobody_wait_longer_than_a_period() -> None:
    gate, passed = RateGate(1, 10), []

    async def late() -> None:
        await asyncio.sleep(1000)
        await pass_through(gate, passed)

    virtual_run(late)
    virtual_run(lambda: pass_through(gate, passed))
    assert passed == [1000, 10]


@pytest.mark.parametrize("stream", [True, False])
def test_as_middleware_it_is_shared_by_agents_and_counts_each_attempt(stream: bool) -> None:
    gate, seen = RateGate(2, 60), []

    async def main() -> None:
        def asked(name: str) -> Any:
            return lambda _: seen.append((name, now())) or name

        config, events = RunConfig(stream=stream), list[Event]()
        agents = [
            Agent(NonStreamingModel(asked(name)), middleware=[gate], config=config, observers=[events.append])
            for name in "abc"
        ]
        await together(*(agent.session().run("go") for agent in agents))
        assert sorted(seen) == [("a", 0), ("b", 0), ("c", 60)]
        assert [event for event in events if isinstance(event, WaitStarted)] == [
            WaitStarted(60, "gate", events[-1].run_id)
        ]

    virtual_run(main)


def test_a_stop_at_the_gate_is_caught_there_and_nothing_was_asked() -> None:
    async def main() -> None:
        gate = RateGate(1, 60)
        model = ScriptedModel("a", "never")
        session = Agent(model, middleware=[gate]).session()
        await session.run("go")
        handle = session.start("again")
        await asyncio.sleep(30)
        handle.cancel(urgency=Urgency.DRAIN)
        run = await handle
        assert (run.outcome, now(), len(model.requests), gate.waiting) == ("cancelled", 30, 1, 0)
        assert run.stop is not None
        assert run.stop.checkpoint is Checkpoint.STREAM_WAIT
        await asyncio.sleep(30)
        assert (await session.run("once more")).output == "never"
        assert now() == 60

    virtual_run(main)


def test_a_permit_is_held_until_the_stream_is_closed_also_by_work_that_was_abandoned() -> None:
    async def main() -> None:
        gate = RateGate(concurrent=1)
        deaf = ScriptedModel([absorb(), pause(50), pause(50), pause(10), say("late")])
        calm = ScriptedModel([say("a"), slow_close(0.5)], "b")
        abandoned = Agent(deaf, middleware=[gate], config=RunConfig(grace=1)).session()
        handle = abandoned.start("go")
        await asyncio.sleep(1)
        handle.cancel()
        run = await handle
        assert [straggler.name for straggler in run.stragglers] == ["scripted"]
        assert (now(), gate.held) == (pytest.approx(2, abs=0.1), 1)
        following = Agent(calm, middleware=[gate], config=RunConfig(deadline=5)).session()
        assert (await following.start("go")).outcome == "cancelled"
        assert calm.requests == []
        await abandoned.aclose()
        await asyncio.sleep(100)
        assert gate.held == 0
        handle = following.start("go")
        await handle
        assert gate.held == 0

    virtual_run(main)


@pytest.mark.parametrize(
    "limits",
    [{}, {"requests": 0}, {"requests": True}, {"requests": 1, "per": 0}, {"requests": 1, "per": -1}, {"concurrent": 0}],
    ids=str,
)
def test_limits_that_are_none_are_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="RateGate"):
        RateGate(**limits)


def test_a_permit_is_used_once() -> None:
    async def main() -> None:
        permit = RateGate(1).permit(NEVER)
        async with permit:
            pass
        with pytest.raises(UsageError, match="once"):
            await permit.__aenter__()

    virtual_run(main)


def test_a_limit_without_measure_is_one() -> None:
    assert RateGate(10**30, 10**400).per == float("inf")
