"""virtual_run: what it returns, and how it closes whatever is left."""

from __future__ import annotations

import asyncio
import gc
import threading

import pytest

from loopctl import Cancelled, CancelSignal, race
from loopctl.testing import Deadlock, Leftovers, VirtualLoop, swallow_always, virtual_run


def test_it_returns_what_main_returns_and_closes_the_loop():
    loop = VirtualLoop()

    async def main():
        return 42

    assert virtual_run(main, loop=loop) == 42
    assert loop.is_closed()


def test_it_takes_a_coroutine_too():
    async def main(value):
        return value

    assert virtual_run(main(3)) == 3


def test_an_error_of_main_goes_on_as_it_is():
    async def main():
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        virtual_run(main)


def test_leftover_tasks_are_cancelled_and_may_take_virtual_time_to_clean_up():
    log = []

    async def leftover():
        try:
            await asyncio.sleep(1000)
        finally:
            await asyncio.sleep(30)
            log.append("cleaned up")

    async def main():
        main.task = asyncio.create_task(leftover())
        await asyncio.sleep(0)

    virtual_run(main)
    assert log == ["cleaned up"]
    assert main.task.cancelled()


def test_the_limit_does_not_count_the_closing():
    log = []

    async def leftover():
        try:
            await asyncio.sleep(1000)
        finally:
            await asyncio.sleep(30)
            log.append("cleaned up")

    async def main():
        main.task = asyncio.create_task(leftover())
        await asyncio.sleep(90)

    virtual_run(main, limit=100)
    assert log == ["cleaned up"]


def test_a_hold_that_was_forgotten_does_not_hang_the_closing_and_is_named():
    log = []

    async def leftover():
        try:
            await asyncio.sleep(1000)
        finally:
            await asyncio.sleep(30)
            log.append("cleaned up")

    async def main():
        main.task = asyncio.create_task(leftover())
        await asyncio.sleep(1)
        VirtualLoop.running().hold_time("a forgetful test")

    with pytest.raises(Leftovers, match="a forgetful test"):
        virtual_run(main, loop=VirtualLoop(patience=0.05))
    assert log == ["cleaned up"]


def test_what_the_cleanup_of_a_leftover_starts_is_cancelled_too():
    seen = []

    async def second():
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            seen.append("second")
            raise

    async def first():
        try:
            await asyncio.sleep(1000)
        finally:
            main.second = asyncio.create_task(second())
            await asyncio.sleep(0)

    async def main():
        main.first = asyncio.create_task(first())
        await asyncio.sleep(0)

    virtual_run(main)
    assert seen == ["second"]


async def _refuse():
    while True:
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            pass


def test_a_task_that_refuses_to_end_is_named_with_the_place_where_it_hangs():
    async def main():
        main.task = asyncio.create_task(_refuse(), name="the refuser")
        await asyncio.sleep(1)

    with pytest.raises(Leftovers) as caught:
        virtual_run(main)
    assert f"task the refuser: _refuse hangs at {__file__}:{_refuse.__code__.co_firstlineno + 3} in _refuse" in str(
        caught.value
    )


def test_an_error_of_main_is_not_hidden_by_leftovers():
    async def main():
        main.task = asyncio.create_task(_refuse())
        await asyncio.sleep(1)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine") as caught:
        virtual_run(main)
    assert "left over" in caught.value.__notes__[0]
    assert "_refuse" in caught.value.__notes__[0]


def test_a_refusing_task_can_be_allowed_and_says_nothing_afterwards():
    async def main():
        main.task = asyncio.create_task(_refuse())
        await asyncio.sleep(1)
        return "fine"

    assert virtual_run(main, allow_leftovers=True) == "fine"
    del main.task
    gc.collect()  # pytest turns "Task was destroyed" and an ignored GeneratorExit into an error


def test_a_task_that_spins_when_it_is_cancelled_is_reported_not_awaited():
    async def spin():
        while True:
            try:
                await asyncio.sleep(0 if main.is_cancelled else 1000)
            except asyncio.CancelledError:
                main.is_cancelled = True

    async def main():
        main.task = asyncio.create_task(spin(), name="spinner")
        await asyncio.sleep(1)

    main.is_cancelled = False
    with pytest.raises(Leftovers, match=r"task spinner: .*spin hangs"):
        virtual_run(main, loop=VirtualLoop(spin_limit=2000))


def test_a_coroutine_that_refuses_even_to_be_closed_is_buried_without_a_word():
    async def stubborn():
        loop = asyncio.get_running_loop()
        for _ in range(6):
            try:
                await loop.create_future()
            except BaseException:
                continue

    async def main():
        main.task = asyncio.create_task(stubborn())
        await asyncio.sleep(1)

    virtual_run(main, allow_leftovers=True)
    del main.task
    gc.collect()  # pytest turns an ignored GeneratorExit into an error


def test_asynchronous_generators_are_closed():
    log = []

    async def numbers():
        try:
            yield 1
        finally:
            await asyncio.sleep(5)
            log.append("closed")

    async def main():
        main.numbers = numbers()
        await anext(main.numbers)

    virtual_run(main)
    assert log == ["closed"]


def test_a_generator_that_will_not_close_is_named():
    async def numbers():
        try:
            yield 1
        finally:
            await asyncio.get_running_loop().create_future()

    async def main():
        main.numbers = numbers()
        await anext(main.numbers)

    with pytest.raises(Leftovers, match=r"an asynchronous generator that is being closed hangs at .*numbers"):
        virtual_run(main, loop=VirtualLoop(patience=0.05))


def test_a_thread_that_still_runs_is_named_and_not_awaited():
    gate = threading.Event()

    async def main():
        waiter = asyncio.ensure_future(asyncio.to_thread(gate.wait, 10))
        await asyncio.sleep(1)
        waiter.cancel()

    try:
        with pytest.raises(Leftovers, match=r"a thread running .*wait"):
            virtual_run(main, loop=VirtualLoop(patience=0.05, blocked_after=0.05))
        assert not gate.is_set()
    finally:
        gate.set()


def test_an_error_in_the_cleanup_of_a_leftover_reaches_the_exception_handler():
    seen = []

    async def leftover():
        try:
            await asyncio.sleep(1000)
        finally:
            raise OSError("in cleanup")

    async def main():
        asyncio.get_running_loop().set_exception_handler(lambda _, context: seen.append(context["exception"]))
        main.task = asyncio.create_task(leftover())
        await asyncio.sleep(0)

    virtual_run(main)
    assert [str(error) for error in seen] == ["in cleanup"]


def test_after_a_deadlock_everything_is_closed_as_well():
    log = []
    loop = VirtualLoop(patience=0.05)

    async def main():
        try:
            await loop.create_future()
        finally:
            log.append("unwound")

    with pytest.raises(Deadlock):
        virtual_run(main, loop=loop)
    assert log == ["unwound"]
    assert loop.is_closed()


def test_debug_mode_is_passed_on():
    async def main():
        return asyncio.get_running_loop().get_debug()

    assert virtual_run(main, debug=True) is True
    assert virtual_run(main, debug=False) is False


def test_the_context_of_the_caller_is_seen_inside():
    import contextvars

    variable = contextvars.ContextVar("variable")
    variable.set("outside")

    async def main():
        return variable.get()

    assert virtual_run(main) == "outside"


def test_abandoned_work_that_is_let_go_at_the_last_moment_still_ends():
    probe = swallow_always()

    async def main():
        signal = CancelSignal()
        asyncio.get_running_loop().call_later(1, signal.cancel)
        with pytest.raises(Cancelled):
            await race(probe.function(), signal, grace=0)
        probe.release()

    virtual_run(main)
    assert probe.ended == 1
