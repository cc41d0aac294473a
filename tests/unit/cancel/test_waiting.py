"""Waiting: `notified()` on several loops, `wait()` in several threads, and loops that are idle, stopped or closed."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
import warnings

import pytest

from loopctl.cancel import CancelSignal, watch
from loopctl.record import CancelReason
from tests.unit.cancel.interrupts import PlainLoop


async def settle():
    for _ in range(10):
        await asyncio.sleep(0)


def test_notified_gives_the_reason_to_a_waiter_before_and_after_the_cancel():
    async def main():
        signal = CancelSignal()
        waiter = asyncio.ensure_future(signal.notified())
        await settle()
        signal.cancel("now")
        assert await waiter == CancelReason("user", "now")
        assert await signal.token.notified() == CancelReason("user", "now")
        assert not signal.token._entries

    asyncio.run(main())


def test_awaiting_a_fired_token_does_not_suspend():
    signal = CancelSignal()
    signal.cancel("already")
    with pytest.raises(StopIteration) as done:
        signal.notified().__await__().send(None)
    assert done.value.value == CancelReason("user", "already")


def test_notified_is_bound_when_called_so_a_reset_strands_nobody():
    async def main():
        signal = CancelSignal()
        early = signal.notified()
        waiting = asyncio.ensure_future(signal.notified())
        await settle()
        signal.cancel("old")
        signal.reset()
        late = asyncio.ensure_future(signal.notified())
        assert (await early).message == "old"
        assert (await waiting).message == "old"
        await settle()
        assert not late.done()
        signal.cancel("new")
        assert (await late).message == "new"

    asyncio.run(main())


def test_one_awaitable_may_be_awaited_twice_and_from_two_tasks():
    async def main():
        signal = CancelSignal()
        awaitable = signal.notified()

        async def wait():
            return await awaitable

        tasks = [asyncio.ensure_future(wait()) for _ in range(3)]
        await settle()
        tasks[0].cancel()
        await settle()
        assert (tasks[0].cancelled(), tasks[1].done()) == (True, False)
        assert len(signal.token._entries) == 2
        signal.cancel("all")
        assert {(await task).message for task in tasks[1:]} == {"all"}
        assert (await awaitable, await awaitable) == (signal.reason, signal.reason)

    asyncio.run(main())


def test_notified_can_be_made_a_task_of_once():
    async def main():
        signal = CancelSignal()
        awaitable = signal.notified()
        task = asyncio.get_running_loop().create_task(awaitable)
        await settle()
        signal.cancel("task")
        assert (await task).message == "task"
        with pytest.raises(RuntimeError, match="cannot reuse already awaited coroutine"):
            await asyncio.get_running_loop().create_task(awaitable)

    asyncio.run(main())


def test_a_task_of_notified_can_be_cancelled_before_and_after_it_began():
    async def main():
        signal = CancelSignal()
        for turns in (0, 1):
            task = asyncio.get_running_loop().create_task(signal.notified())
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert not signal.token._entries

    asyncio.run(main())


def test_an_awaitable_that_is_never_awaited_leaves_nothing_and_warns_of_nothing():
    signal = CancelSignal()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        signal.notified()
        signal.notified().close()
        gc.collect()
    assert not signal.token._entries


def test_a_waiting_task_that_is_cancelled_takes_its_waiter_along():
    async def main():
        signal = CancelSignal()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await signal.child().notified()
        assert not signal.token._pins

    asyncio.run(main())


def in_threads(count, target):
    threads = [threading.Thread(target=target, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    return threads


def test_one_cancel_wakes_every_waiter_on_several_idle_loops_and_in_several_threads():
    signal = CancelSignal()
    sides = [signal, signal.child(), CancelSignal.any_of(CancelSignal(), signal.child()).token]
    seen = []

    async def wait_many():
        waiters = [asyncio.ensure_future(sides[number % 3].notified()) for number in range(60)]
        seen.extend(await asyncio.gather(*waiters))

    loops = in_threads(3, lambda _: asyncio.run(wait_many()))
    sleepers = in_threads(6, lambda number: seen.append(sides[number % 3].wait() and signal.reason))
    while sum(len(side.token._entries) for side in sides) < 3 * 60 + 6:
        pass
    signal.cancel("everybody")
    for thread in (*loops, *sleepers):
        thread.join()
    assert seen == [CancelReason("user", "everybody")] * (3 * 60 + 6)
    assert not signal.token._pins


def test_an_idle_loop_is_woken_by_another_thread_with_nothing_else_scheduled():
    async def main():
        signal = CancelSignal()
        threading.Thread(target=lambda: (entered.wait(), signal.cancel("thread"))).start()
        waiter = asyncio.ensure_future(signal.notified())
        await settle()
        entered.set()
        assert (await waiter).message == "thread"

    entered = threading.Event()
    asyncio.run(main())


def test_a_cancel_on_the_loops_own_thread_resolves_in_debug_mode_too():
    async def main():
        signal = CancelSignal()
        asyncio.get_running_loop().call_soon(signal.cancel, "own thread")
        assert (await signal.notified()).message == "own thread"

    asyncio.run(main(), debug=True)


def test_a_closed_loop_costs_the_others_nothing():
    signal, closed, alive, seen = CancelSignal(), PlainLoop(), PlainLoop(), []
    for loop in (closed, alive):
        watch(signal, loop, lambda: seen.append(1))
    real = asyncio.new_event_loop()
    registration = watch(signal, real, lambda: seen.append("never"))
    real.close()
    closed.closed = True
    assert signal.cancel() is True
    alive.turn()
    assert seen == [1]
    assert registration.close() is True
    assert not signal.token._entries


def test_a_loop_that_is_broken_is_reported_and_costs_the_others_nothing(caplog):
    class Broken(PlainLoop):
        def call_soon_threadsafe(self, *args, **kwargs):
            raise OSError("no descriptor")

    signal, alive, seen = CancelSignal(), PlainLoop(), []
    watch(signal, Broken(), print)
    watch(signal, alive, lambda: seen.append(1))
    signal.cancel()
    alive.turn()
    assert seen == [1]
    assert "takes no callbacks, its waiters are not woken" in caplog.text


def test_a_cancel_after_the_loop_was_closed_is_harmless():
    async def main():
        waiting.append(asyncio.ensure_future(signal.notified()))
        await settle()

    signal, waiting = CancelSignal(), []
    asyncio.run(main())
    assert waiting[0].cancelled()
    assert signal.cancel() is True


def test_a_stopped_loop_wakes_its_waiters_when_it_runs_again():
    signal = CancelSignal()
    loop = asyncio.new_event_loop()
    try:
        waiter = loop.create_task(signal.notified())
        loop.run_until_complete(settle())
        signal.cancel("while stopped")
        assert loop.run_until_complete(waiter).message == "while stopped"
    finally:
        loop.close()


def test_a_thread_gives_up_after_its_timeout_and_leaves_nothing():
    signal = CancelSignal()
    assert signal.child().wait(0.01) is False
    assert (signal.token._kids, signal.token._pins) == ({}, {})


def test_a_thread_waits_for_the_token_that_was_current_when_it_asked():
    signal = CancelSignal()
    seen = []
    threads = in_threads(1, lambda _: seen.append(signal.wait()))
    while not signal.token._entries:
        pass
    signal.cancel()
    signal.reset()
    threads[0].join()
    assert seen == [True]
    assert signal.wait(0) is False


def test_a_waiter_starts_nothing_in_the_context_of_whoever_cancels():
    variable = contextvars.ContextVar("variable", default="nobody's")
    signal, seen = CancelSignal(), []

    async def main():
        watch(signal, asyncio.get_running_loop(), lambda: seen.append(variable.get()))
        variable.set("the canceller's")
        signal.cancel()
        await settle()

    asyncio.run(main())
    assert seen == ["nobody's"]
