"""The misbehaving tools: that each does to a cancellation what its name says, and ends when it is released."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace

import pytest

from loopctl.testing import (
    Flag,
    Leftovers,
    VirtualLoop,
    block_loop,
    block_thread,
    cancel_itself,
    cleanup_slowly,
    count,
    end_normally,
    finally_endless,
    poll_thread,
    raise_odd_error,
    shield_work,
    swallow_always,
    swallow_once,
    uncancel,
    virtual_run,
    wait_politely,
)
from loopctl.tools import ToolContext, tool

FACTORIES = [
    block_thread,
    cancel_itself,
    count,
    end_normally,
    finally_endless,
    poll_thread,
    raise_odd_error,
    shield_work,
    swallow_always,
    swallow_once,
    uncancel,
    wait_politely,
]


def after_cancels(probe, times):
    """Start the tool, cancel it *times*, once each virtual second, and say where it stands a second later.

    Afterwards it is released, and cancelled once more if that does not end it.
    """

    async def main():
        task = asyncio.ensure_future(probe.function())
        await probe.until_started()
        for _ in range(times):
            await asyncio.sleep(1)
            assert not task.done(), "there was nothing to cancel"
            task.cancel()
        await asyncio.sleep(1)
        state = "running" if not task.done() else "cancelled" if task.cancelled() else task.exception() or task.result()
        probe.release()
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.wait([task])
        return state

    return virtual_run(main)


@pytest.mark.parametrize("factory", FACTORIES, ids=lambda factory: factory.__name__)
def test_each_is_usable_as_a_tool_and_says_what_it_does(factory):
    probe = factory()
    built = tool(probe.function)
    assert built.name == probe.name == factory.__name__
    assert built.description
    assert built.is_async is (factory not in (block_thread, poll_thread))


@pytest.mark.parametrize("factory", FACTORIES, ids=lambda factory: factory.__name__)
def test_each_probe_is_fresh(factory):
    assert factory() is not factory()


def test_the_polite_one_ends_at_the_first_cancel():
    probe = wait_politely()
    assert after_cancels(probe, 1) == "cancelled"
    assert (probe.started, probe.cancelled, probe.ended) == (1, 1, 1)


def test_the_polite_one_returns_when_released():
    probe = wait_politely()
    probe.release()
    assert virtual_run(probe.function) == "released"
    assert not probe.is_running


def test_swallow_once_survives_one_cancel_but_not_two():
    assert after_cancels(swallow_once(), 1) == "running"
    probe = swallow_once()
    assert after_cancels(probe, 2) == "cancelled"
    assert probe.cancelled == 2


def test_swallow_always_survives_every_cancel():
    probe = swallow_always()
    assert after_cancels(probe, 5) == "running"
    assert (probe.cancelled, probe.ended) == (5, 1)


def test_uncancel_takes_each_cancel_back_and_stays_quiet():
    probe = uncancel()

    async def main():
        loop = VirtualLoop.running()
        task = asyncio.ensure_future(probe.function())
        await probe.until_started()
        for _ in range(3):
            await asyncio.sleep(1)
            task.cancel()
        await asyncio.sleep(1)
        assert task.cancelling() == 0
        before = loop.steps
        await asyncio.sleep(1000)
        quiet = loop.steps - before
        probe.release()
        return await task, quiet

    result, quiet = virtual_run(main)
    assert result == "released"
    assert probe.cancelled == 3
    assert quiet <= 3


def test_uncancel_leaves_no_task_behind_when_its_coroutine_is_closed():
    probe = uncancel()

    async def main():
        tool_coroutine = probe.function()
        tool_coroutine.send(None)
        await asyncio.sleep(0)
        tool_coroutine.close()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return asyncio.all_tasks() - {asyncio.current_task()}

    assert virtual_run(main) == set()


def test_shielded_work_has_its_effect_after_the_tool_has_ended():
    probe = shield_work()

    async def main():
        task = asyncio.ensure_future(probe.function())
        await probe.until_started()
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.wait([task])
        assert (task.cancelled(), probe.is_running, probe.effects) == (True, False, 0)
        probe.release()
        await asyncio.sleep(1)

    virtual_run(main)
    assert probe.effects == 1


def test_an_endless_finally_is_torn_by_the_second_cancel_only():
    assert after_cancels(finally_endless(), 1) == "running"
    probe = finally_endless()
    assert after_cancels(probe, 2) == "cancelled"
    assert (probe.cancelled, probe.is_cleaned_up) == (2, False)


def test_an_endless_finally_ends_cleanly_when_it_is_released():
    probe = finally_endless()
    after_cancels(probe, 1)
    assert probe.is_cleaned_up


def test_a_slow_cleanup_tells_whether_it_had_the_time():
    patient, torn = cleanup_slowly(0.5), cleanup_slowly(1.5)
    assert after_cancels(patient, 1) == "cancelled"
    assert patient.is_cleaned_up
    assert after_cancels(torn, 2) == "cancelled"
    assert not torn.is_cleaned_up


def test_end_normally_returns_a_full_result_although_it_was_cancelled():
    probe = end_normally()
    assert after_cancels(probe, 1) == "a full, normal result"
    assert probe.cancelled == 1


def test_an_odd_error_is_raised_because_of_the_cancel():
    state = after_cancels(raise_odd_error(), 1)
    assert isinstance(state, ConnectionResetError)
    assert isinstance(state.__cause__, asyncio.CancelledError)
    mine = ValueError("mine")
    assert after_cancels(raise_odd_error(mine), 1) is mine


def test_cancel_itself_raises_cancelled_error_that_nobody_asked_for():
    probe = cancel_itself()

    async def main():
        task = asyncio.ensure_future(probe.function())
        await asyncio.wait([task])
        return task.cancelled(), task.cancelling()

    assert virtual_run(main) == (True, 0)
    assert (probe.cancelled, probe.ended) == (0, 1)


def test_block_loop_lets_nothing_else_run():
    probe = block_loop(0.02)

    async def main():
        loop = VirtualLoop.running()
        turns = loop.turns
        await probe.function()
        return loop.turns - turns, loop.time()

    assert virtual_run(main) == (0, 0.0)


def test_block_thread_blocks_until_it_is_released_from_anywhere():
    probe = block_thread()

    async def main():
        task = asyncio.ensure_future(asyncio.to_thread(probe.function))
        await probe.until_started()
        assert probe.is_running
        threading.Timer(0.02, probe.release).start()
        return await task

    assert virtual_run(main) == "released"
    assert probe.effects == 1
    assert probe.threads[0] != threading.current_thread().name


def test_the_polling_one_stops_soon_after_the_cancel_and_not_before():
    cancelled = threading.Event()
    probe = poll_thread()
    ctx = ToolContext("call_1", probe.name, SimpleNamespace(is_cancelled=cancelled.is_set))

    async def main():
        task = asyncio.ensure_future(asyncio.to_thread(probe.function, ctx))
        await probe.until_started()
        cancelled.set()
        return await task

    assert virtual_run(main) == "stopped early"
    assert (probe.cancelled, probe.ended) == (1, 1)
    cancelled.clear()
    threading.Timer(0.02, probe.release).start()
    assert probe.function(ctx) == "released", "nobody cancelled this one"
    assert tool(probe.function).takes_context


def test_count_counts_side_effects():
    probe = count()
    assert [virtual_run(probe.function) for _ in range(3)] == [1, 2, 3]
    assert (probe.effects, probe.started, probe.ended) == (3, 3, 3)


def test_a_tool_that_was_never_released_is_named_by_the_loop():
    probe = swallow_always()

    async def main():
        main.task = asyncio.ensure_future(probe.function())
        await probe.until_started()

    with pytest.raises(Leftovers, match="swallow_always"):
        virtual_run(main)
    assert not probe.is_running, "it was put to rest"


def test_a_flag_wakes_waiters_of_several_loops_and_forgets_cancelled_ones():
    flag = Flag()

    async def impatient():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await flag.wait()

    virtual_run(impatient)
    assert flag._waiters == []

    async def cancelled_in_the_same_turn():
        waiter = asyncio.ensure_future(another.wait())
        await asyncio.sleep(0)
        another.set()
        waiter.cancel()
        await asyncio.wait([waiter])

    another = Flag()
    virtual_run(cancelled_in_the_same_turn)  # an error in a callback of the loop would fail this test
    threads = [threading.Thread(target=lambda: asyncio.run(flag.wait()), daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    flag.set()
    for thread in threads:
        thread.join(5)
    assert not any(thread.is_alive() for thread in threads)
    assert flag.is_set()
    virtual_run(flag.wait)
