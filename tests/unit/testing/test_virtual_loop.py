"""The clock of VirtualLoop: when it jumps, when it waits, what it counts."""

from __future__ import annotations

import asyncio
import os
import socket
import threading

import pytest

from loopctl.testing import BusyLoop, Deadlock, TimeLimit, VirtualLoop, virtual_run


def test_sleeps_take_virtual_time_only():
    async def main():
        await asyncio.sleep(3000.1)
        await asyncio.sleep(0.2)
        return asyncio.get_running_loop().time()

    assert virtual_run(main) == 3000.1 + 0.2


def test_the_clock_jumps_to_each_timer_in_turn_and_exactly():
    async def main():
        loop = VirtualLoop.running()
        seen = []
        for when in (7.3, 0.1, 2.2, 2.2):
            loop.call_at(when, lambda: seen.append(loop.time()))
        await asyncio.sleep(10)
        return seen

    assert virtual_run(main) == [0.1, 2.2, 2.2, 7.3]


def test_a_cancelled_timer_does_not_move_the_clock():
    async def main():
        loop = VirtualLoop.running()
        loop.call_later(50, print).cancel()
        await asyncio.sleep(60)
        loop.call_later(500, print).cancel()
        await asyncio.sleep(0)
        return loop.time()

    assert virtual_run(main) == 60


@pytest.mark.parametrize("debug", [False, True])
def test_timeouts_fire_in_virtual_time(debug):
    async def main():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(30):
                await asyncio.sleep(31)
        return asyncio.get_running_loop().time()

    assert virtual_run(main, debug=debug) == 30


@pytest.mark.parametrize("debug", [False, True])
def test_the_clock_stands_still_while_a_known_thread_works(debug):
    async def main():
        loop = VirtualLoop.running()
        fired = []
        loop.call_later(1, fired.append, "timer")
        gate = threading.Event()
        threading.Timer(0.05, gate.set).start()
        assert await asyncio.to_thread(gate.wait, 10)
        return fired, loop.time()

    assert virtual_run(main, debug=debug) == ([], 0.0)


def test_a_result_of_a_thread_arrives_before_any_timer_however_often_they_race():
    async def main():
        loop = VirtualLoop.running()
        for _ in range(300):
            before = loop.time()
            async with asyncio.timeout(5):
                await asyncio.to_thread(int)
            assert loop.time() == before
            await asyncio.sleep(1)

    virtual_run(main, limit=301)


def test_a_hold_that_is_released_by_a_thread_without_a_word_wakes_the_loop():
    async def main():
        loop = VirtualLoop.running()
        release = loop.hold_time("the thread of this test")
        assert loop.holders == ("the thread of this test",)
        threading.Timer(0.05, release).start()
        await asyncio.sleep(100)
        assert loop.holders == ()
        return loop.time()

    assert virtual_run(main) == 100


def test_holds_are_counted_one_by_one_and_each_release_counts_once():
    async def main():
        loop = VirtualLoop.running()
        first, second = loop.hold_time("first"), loop.hold_time("second")
        first()
        first()
        assert loop.holders == ("second",)
        second()
        assert loop.holders == ()
        return first

    release = virtual_run(main)
    release()  # also after the loop was closed


def test_a_cancelled_to_thread_holds_the_clock_until_its_thread_has_ended():
    async def main():
        loop = VirtualLoop.running()
        gate = threading.Event()
        waiter = asyncio.ensure_future(asyncio.to_thread(gate.wait, 10))
        while not loop.holders:
            await asyncio.sleep(0)
        waiter.cancel()
        await asyncio.wait([waiter])
        assert len(loop.holders) == 1
        loop.call_soon(lambda: threading.Timer(0.05, gate.set).start())
        await asyncio.sleep(20)
        assert gate.is_set(), "the clock moved while the thread ran"
        assert loop.holders == ()

    virtual_run(main)


def test_blocked_after_lets_time_go_on_past_a_silent_thread():
    async def main():
        loop = VirtualLoop.running()
        gate = threading.Event()
        waiter = asyncio.ensure_future(asyncio.to_thread(gate.wait, 10))
        await asyncio.sleep(50)
        assert not gate.is_set()
        assert len(loop.holders) == 1, "it is known, though it no longer counts"
        gate.set()
        assert await waiter
        return loop.time()

    assert virtual_run(main, blocked_after=0.05) == 50


def test_data_on_a_socket_goes_before_the_next_timer():
    async def main():
        loop = VirtualLoop.running()
        near, far = socket.socketpair()
        near.setblocking(False)
        try:
            for _ in range(100):
                loop.call_soon(far.send, b"x")  # when the receiver waits already
                async with asyncio.timeout(0.001):
                    await loop.sock_recv(near, 1)
        finally:
            near.close()
            far.close()
        return loop.time()

    assert virtual_run(main) == 0


def test_a_descriptor_without_events_does_not_stop_the_clock():
    async def main():
        loop = VirtualLoop.running()
        near, far = os.pipe()
        loop.add_reader(near, pytest.fail)
        try:
            await asyncio.sleep(5)
        finally:
            loop.remove_reader(near)
            os.close(near)
            os.close(far)
        return loop.time()

    assert virtual_run(main) == 5


def test_an_idle_loop_waits_for_a_plain_thread_to_call_in():
    async def main():
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        threading.Timer(0.05, loop.call_soon_threadsafe, (waiter.set_result, "called")).start()
        return await waiter

    assert virtual_run(main) == "called"


def test_a_deadlock_is_an_error_that_names_the_tasks_and_where_they_wait():
    async def chunks():
        await asyncio.get_running_loop().create_future()
        yield

    async def reader():
        async for _ in chunks():
            pass

    async def main():
        await asyncio.wait([asyncio.create_task(reader(), name="the reader")])

    with pytest.raises(Deadlock, match="deadlock: nothing is scheduled") as caught:
        virtual_run(main, loop=VirtualLoop(patience=0.05))
    assert "the reader" in str(caught.value)
    assert "reader waits at" in str(caught.value)
    assert f"{__file__}:{chunks.__code__.co_firstlineno + 1} in " in str(caught.value)


def test_a_busy_loop_is_an_error_instead_of_a_hang():
    async def main():
        while True:
            await asyncio.sleep(0)

    with pytest.raises(BusyLoop, match="busy loop: 5000 steps ran at the virtual time 0 s"):
        virtual_run(main, loop=VirtualLoop(spin_limit=5000))


def test_many_steps_with_time_between_them_are_no_busy_loop():
    async def main():
        for _ in range(400):
            await asyncio.sleep(0.001)

    virtual_run(main, loop=VirtualLoop(spin_limit=100))


def test_the_time_limit_is_an_error_that_says_how_to_raise_it():
    async def main():
        while True:
            await asyncio.sleep(1000)

    with pytest.raises(TimeLimit, match=r"past the limit of 3600 s. Give limit="):
        virtual_run(main)


def test_the_time_limit_itself_is_allowed():
    async def main():
        await asyncio.sleep(90)

    virtual_run(main, limit=90)


def test_steps_count_callbacks_and_turns_count_rounds():
    async def main():
        loop = VirtualLoop.running()
        steps, turns = loop.steps, loop.turns
        for _ in range(10):
            loop.call_soon(int)
        loop.call_soon(int).cancel()
        await asyncio.sleep(0)
        return loop.steps - steps, loop.turns - turns

    assert virtual_run(main) == (11, 1)  # ten callbacks, and this task running on


def test_waiting_costs_no_steps():
    """What the tests of a quiet process count with."""

    async def main():
        loop = VirtualLoop.running()
        before = loop.steps
        await asyncio.sleep(1000)
        return loop.steps - before

    assert virtual_run(main) <= 3


def test_a_hook_is_called_before_each_step_with_its_number():
    loop = VirtualLoop()
    numbers = []
    log = []
    loop.before_step(numbers.append)
    loop.before_step(lambda number: log.append("fired") if number == 3 else None)

    async def main():
        for number in range(5):
            log.append(number)
            await asyncio.sleep(0)

    virtual_run(main, loop=loop)
    assert numbers == list(range(loop.steps))
    assert log == [0, 1, 2, "fired", 3, 4]


def test_a_hook_can_schedule_and_can_be_taken_away():
    loop = VirtualLoop()
    seen = []

    def hook(number):
        seen.append(number)
        loop.call_soon_threadsafe(seen.append, "scheduled")
        remove()

    remove = loop.before_step(hook)

    async def main():
        await asyncio.sleep(1)

    virtual_run(main, loop=loop)
    assert seen == [0, "scheduled"]
    remove()


def test_two_equal_runs_take_equal_steps():
    def steps():
        loop = VirtualLoop()

        async def worker(number):
            await asyncio.sleep(number % 3)

        async def main():
            await asyncio.gather(*(worker(number) for number in range(20)))

        virtual_run(main, loop=loop)
        return loop.steps

    assert steps() == steps()


def test_asking_a_real_loop_for_its_virtual_side_says_what_to_do():
    async def main():
        VirtualLoop.running()

    with pytest.raises(RuntimeError, match="start the test with virtual_run"):
        asyncio.run(main())


def test_hooks_run_before_and_after_each_step_and_before_the_clock_moves():
    loop = VirtualLoop()
    seen = []
    loop.before_step(lambda number: seen.append(("before", number, loop.time())))
    remove = loop.after_step(lambda number: seen.append(("after", number, loop.time())))

    async def main():
        await asyncio.sleep(5)
        remove()

    virtual_run(main, loop=loop)
    assert seen[:3] == [("before", 0, 0.0), ("after", 0, 0.0), ("before", 1, 5.0)]
    assert [moment for moment, *_ in seen].count("after") == 2  # the timer's step, and main's first


def test_what_is_scheduled_after_a_step_runs_behind_what_the_step_has_scheduled_and_now():
    loop = VirtualLoop()
    seen = []
    loop.after_step(lambda number: loop.call_soon(seen.append, ("hook", loop.time())) if number == 0 else None)

    async def main():
        loop.call_soon(seen.append, ("step", loop.time()))
        await asyncio.sleep(5)

    virtual_run(main, loop=loop)
    assert seen == [("step", 0.0), ("hook", 0.0)]
