"""`race`: who wins, what is left, and how long it may take."""

from __future__ import annotations

import asyncio
import gc

import pytest

from loopctl import Cancelled, CancelSignal, Urgency, UsageError, race
from loopctl.cancel import CancelToken
from loopctl.concurrency import Grace, Patience, TaskWork, ThreadWork, supervise
from loopctl.record import Checkpoint
from loopctl.testing import (
    VirtualLoop,
    cleanup_slowly,
    finally_endless,
    swallow_always,
    swallow_once,
    uncancel,
    virtual_run,
)


async def value_after(seconds: float, value: str = "value") -> str:
    await asyncio.sleep(seconds)
    return value


def test_what_ends_before_the_cancel_is_given_on() -> None:
    async def fails() -> None:
        raise ValueError("its own")

    async def main() -> None:
        signal = CancelSignal()
        assert await race(value_after(1), signal) == "value"
        with pytest.raises(ValueError, match="its own"):
            await race(fails(), signal)

    virtual_run(main)


def test_a_fired_signal_closes_the_work_unstarted() -> None:
    """Also under an eager task factory (none is asked), and with no warning about a coroutine never awaited."""
    started: list[str] = []

    def factory(*_: object, **__: object) -> asyncio.Task[None]:
        raise AssertionError("an eager factory would run the work before the cancel is polled")

    async def work() -> None:
        started.append("started")

    async def main() -> None:
        signal = CancelSignal()
        signal.cancel("before")
        with pytest.raises(Cancelled) as caught:
            await race(work(), signal)
        assert caught.value.reason.message == "before"
        signal.reset()
        loop = asyncio.get_running_loop()
        loop.set_task_factory(factory)  # type: ignore[arg-type]
        loop.call_soon(signal.cancel)
        with pytest.raises(Cancelled):
            await race(work(), signal)
        loop.set_task_factory(None)
        gc.collect()

    virtual_run(main)
    assert started == []


def test_the_cancel_interrupts_the_work_at_its_await() -> None:
    async def main() -> None:
        signal = CancelSignal()
        unwound: list[float] = []
        loop = asyncio.get_running_loop()

        async def work() -> None:
            try:
                await asyncio.sleep(100)
            finally:
                await asyncio.sleep(0.5)
                unwound.append(loop.time())

        loop.call_later(3, signal.cancel)
        with pytest.raises(Cancelled):
            await race(work(), signal)
        assert unwound == [3.5]

    virtual_run(main)


def test_if_both_end_in_the_same_instant_the_cancel_wins() -> None:
    async def main() -> None:
        signal = CancelSignal()

        async def work() -> str:
            await asyncio.sleep(1)
            signal.cancel()
            return "value"

        with pytest.raises(Cancelled):
            await race(work(), signal)

        signal.reset()
        ending = await supervise(TaskWork(work()), signal.token, grace=Grace(1), at=Checkpoint.TOOL_CALL)
        assert (ending.how, ending.value, ending.stopped_by) == ("returned", "value", "signal")

    virtual_run(main)


@pytest.mark.parametrize(
    ("make", "grace", "ends_at"),
    [(swallow_always, 2, 2), (swallow_once, 2, 2), (uncancel, 2, 2), (finally_endless, 2, 2), (swallow_always, 0, 0)],
)
def test_work_that_refuses_is_bounded_by_the_grace(make: object, grace: float, ends_at: float) -> None:
    """Case H4: also code that absorbs, uncancels and awaits again; and the loop stays quiet meanwhile."""

    async def main() -> None:
        probe = make()  # type: ignore[operator]
        signal = CancelSignal()
        loop = VirtualLoop.running()
        loop.call_later(1, signal.cancel)
        with pytest.raises(Cancelled):
            await race(probe.function(), signal, grace)
        assert loop.time() - 1 == ends_at
        before = loop.turns
        await asyncio.sleep(1000)
        assert loop.turns - before < 20
        probe.release()
        await asyncio.sleep(0.1)
        assert probe.ended == probe.started == 1

    virtual_run(main)


def test_work_that_needs_many_turns_to_unwind_gets_them_without_any_grace() -> None:
    async def main() -> None:
        signal = CancelSignal()
        unwound: list[str] = []

        async def work() -> None:
            try:
                await asyncio.sleep(100)
            finally:
                for _ in range(25):
                    await asyncio.sleep(0)
                unwound.append("unwound")

        asyncio.get_running_loop().call_later(1, signal.cancel)
        with pytest.raises(Cancelled):
            await race(work(), signal, 0)
        assert unwound == ["unwound"]

    virtual_run(main)


def test_abandon_takes_the_grace_away() -> None:
    async def main() -> None:
        signal = CancelSignal()
        probe = swallow_always()
        loop = asyncio.get_running_loop()
        loop.call_later(1, signal.cancel)
        loop.call_later(2, lambda: signal.cancel(urgency=Urgency.ABANDON))
        with pytest.raises(Cancelled):
            await race(probe.function(), signal, 60)
        assert loop.time() == 2
        probe.release()
        await asyncio.sleep(1)

    virtual_run(main)


def test_drain_does_not_stop_a_race() -> None:
    async def main() -> None:
        signal = CancelSignal()
        asyncio.get_running_loop().call_later(1, lambda: signal.cancel(urgency=Urgency.DRAIN))
        assert await race(value_after(2), signal) == "value"
        asyncio.get_running_loop().call_later(1, signal.cancel)
        with pytest.raises(Cancelled):
            await race(value_after(2), signal)

    virtual_run(main)


def test_a_future_of_somebody_else_is_left_running() -> None:
    async def main() -> None:
        signal = CancelSignal()
        task = asyncio.ensure_future(value_after(10))
        asyncio.get_running_loop().call_later(1, signal.cancel)
        with pytest.raises(Cancelled):
            await race(task, signal)
        assert asyncio.get_running_loop().time() == 1
        assert await task == "value"
        signal.reset()
        assert await race(asyncio.ensure_future(value_after(1, "other")), signal) == "other"

    virtual_run(main)


def test_anything_that_can_be_awaited_can_be_raced() -> None:
    class Awaitable:
        def __await__(self) -> object:
            yield from asyncio.sleep(1).__await__()
            return "value"

    async def main() -> None:
        signal = CancelSignal()
        assert await race(Awaitable(), signal) == "value"  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="cannot be awaited"):
            await race("text", signal)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="CancelSignal"):
            coroutine = value_after(1)
            try:
                await race(coroutine, object())  # type: ignore[arg-type]
            finally:
                coroutine.close()
        for grace in (-1, float("nan"), "1"):
            coroutine = value_after(1)
            with pytest.raises(UsageError, match="grace"):
                await race(coroutine, signal, grace)  # type: ignore[arg-type]
            coroutine.close()

    virtual_run(main)


def test_a_cancelled_host_gets_its_own_cancellation_when_the_work_has_unwound() -> None:
    async def main() -> None:
        probe = cleanup_slowly(0.5)
        signal = CancelSignal()
        task = asyncio.ensure_future(race(probe.function(), signal))
        await probe.until_started()
        task.cancel("the host's own")
        with pytest.raises(asyncio.CancelledError, match="the host's own"):
            await task
        assert probe.is_cleaned_up

        refuser = swallow_always()
        task = asyncio.ensure_future(race(refuser.function(), signal, 60))
        await refuser.until_started()
        task.cancel()
        await asyncio.sleep(5)
        assert not task.done()
        task.cancel()
        await asyncio.sleep(0.1)
        assert task.cancelled()
        refuser.release()
        await asyncio.sleep(0.1)

    virtual_run(main)


def test_a_timeout_around_a_race_stays_a_timeout() -> None:
    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3):
                await race(value_after(100), CancelSignal())
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0

    virtual_run(main)


def test_if_host_and_signal_are_cancelled_together_the_host_comes_first() -> None:
    async def main() -> None:
        signal = CancelSignal()
        task = asyncio.ensure_future(race(value_after(100), signal))
        await asyncio.sleep(1)
        signal.cancel()
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()

    virtual_run(main)


def test_an_error_in_the_cleanup_is_the_cause() -> None:
    async def main() -> None:
        async def work() -> None:
            try:
                await asyncio.sleep(100)
            finally:
                raise ValueError("in cleanup")

        signal = CancelSignal()
        asyncio.get_running_loop().call_later(1, signal.cancel)
        with pytest.raises(Cancelled) as caught:
            await race(work(), signal)
        assert isinstance(caught.value.__cause__, ValueError)

    virtual_run(main)


def test_a_late_error_of_abandoned_work_is_taken_in_silence() -> None:
    async def main() -> None:
        signal = CancelSignal()
        gate = asyncio.get_running_loop().create_future()

        async def work() -> None:
            while not gate.done():
                try:
                    await asyncio.shield(gate)
                except asyncio.CancelledError:
                    continue
            raise ValueError("late")

        asyncio.get_running_loop().call_later(1, signal.cancel)
        with pytest.raises(Cancelled):
            await race(work(), signal, 0.5)
        gate.set_result(None)
        await asyncio.sleep(1)
        gc.collect()

    virtual_run(main)


def test_a_hundred_refusers_that_are_raced_at_once_take_one_grace_together() -> None:
    async def main() -> None:
        signal = CancelSignal()
        probes = [swallow_always() for _ in range(100)]
        tasks = [asyncio.ensure_future(race(probe.function(), signal, 2)) for probe in probes]
        await asyncio.sleep(1)
        signal.cancel()
        await asyncio.wait(tasks)
        assert asyncio.get_running_loop().time() == 3
        assert all(isinstance(task.exception(), Cancelled) for task in tasks)
        for probe in probes:
            probe.release()
        await asyncio.sleep(1)

    virtual_run(main)


def test_a_time_limit_presses_the_work_and_a_cancel_beats_it() -> None:
    async def main() -> None:
        signal = CancelSignal()
        loop = asyncio.get_running_loop()
        ending = await supervise(TaskWork(value_after(100)), signal.token, grace=Grace(1), patience=Patience(5))
        assert (ending.how, ending.stopped_by, loop.time()) == ("unwound", "timeout", 5)
        loop.call_later(5, signal.cancel)
        ending = await supervise(TaskWork(value_after(100)), signal.token, grace=Grace(1), patience=Patience(5))
        assert ending.stopped_by == "signal"

    virtual_run(main)


def _thread(token: CancelToken, seconds: float) -> str:
    token.wait(seconds)
    return "left by itself" if token.is_cancelled() else "worked"


def test_a_thread_that_can_poll_has_the_grace_and_one_that_cannot_has_none() -> None:
    async def main() -> None:
        signal = CancelSignal()
        loop = asyncio.get_running_loop()
        work = ThreadWork(lambda: _thread(signal.token, 0.01), "t", can_unwind=True)
        assert (await supervise(work, signal.token, grace=Grace(1))).value == "worked"
        loop.call_soon(signal.cancel)
        work = ThreadWork(lambda: _thread(signal.token, 10), "t", can_unwind=True)
        ending = await supervise(work, signal.token, grace=Grace(10))
        assert (ending.how, ending.value) == ("returned", "left by itself")
        other = CancelSignal()
        release = CancelSignal()
        loop.call_later(0.01, other.cancel)
        work = ThreadWork(lambda: release.wait(10), "t", can_unwind=False)
        ending = await supervise(work, other.token, grace=Grace(10))
        assert ending.how == "abandoned"
        assert ending.straggler is not None
        assert not ending.straggler.is_ended
        assert "/cancel/_" in ending.straggler.where
        release.cancel()
        while not ending.straggler.is_ended:
            await asyncio.sleep(0.001)
        assert ending.straggler.result is True

    asyncio.run(main())


def test_an_event_that_came_while_the_clock_stood_still_is_not_dated_into_the_future() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        expired: list[float] = []
        patience = Patience(each=5)
        patience.start(loop, lambda: expired.append(loop.time()))
        patience.last = 0.0
        patience.pause()
        await asyncio.sleep(10)
        patience.last = loop.time()
        await asyncio.sleep(10)
        patience.resume()
        await asyncio.sleep(100)
        assert expired == [25]

    virtual_run(main)
