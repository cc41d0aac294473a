"""Done once is done for ever, for plain functions and for coroutine functions, whoever asks."""

import asyncio
import functools
import threading

import pytest

from loopctl import Cancelled, CancelSignal, EffectUnknown, StoreError, UsageError
from loopctl.store import Ledger
from loopctl.testing import virtual_run


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path / "effects.sqlite")


@pytest.fixture
def done():
    """What was really done."""
    return []


def charge(done, result=None, error=None):
    done.append("charge")
    if error is not None:
        raise error
    return result


async def charge_slowly(done, result=None, error=None):
    await asyncio.sleep(5)
    return charge(done, result, error)


@pytest.fixture(params=["plain", "async"])
def once(request, ledger, done):
    """Charge once in the ledger, by both kinds of function."""

    def plain(key, result=None, error=None):
        return ledger.once(key, functools.partial(charge, done, result, error))

    async def on_loop(key, result=None, error=None):
        return await ledger.once(key, functools.partial(charge_slowly, done, result, error))

    return plain if request.param == "plain" else lambda *given, **more: virtual_run(on_loop(*given, **more))


def test_done_once_it_gives_its_recorded_result_ever_after(once, done, ledger):
    assert once("invoice 17", {"paid": 3}) == {"paid": 3}
    assert once("invoice 17", "another") == {"paid": 3}
    assert Ledger(ledger.path).once("invoice 17", lambda: "a third") == {"paid": 3}
    assert done == ["charge"]
    assert once("invoice 18", None) is None
    assert done == ["charge", "charge"]


def test_the_first_caller_gets_what_every_later_one_will_get(once):
    assert once("key", (1, "ü\ud800", 2.5, None)) == [1, "ü\ud800", 2.5, None]
    assert once("key") == [1, "ü\ud800", 2.5, None]


def test_an_exception_means_that_it_was_not_done(once, done, ledger):
    with pytest.raises(ConnectionRefusedError):
        once("key", error=ConnectionRefusedError("no"))
    assert ledger.get("key") is None
    assert once("key", "paid") == "paid"
    assert done == ["charge", "charge"]


@pytest.mark.parametrize("error", [TimeoutError("no answer"), EffectUnknown("no answer"), KeyboardInterrupt()])
def test_an_exception_that_leaves_it_open_leaves_the_key_unknown(once, done, ledger, error):
    with pytest.raises(type(error)):
        once("key", error=error)
    assert [effect.key for effect in ledger.unknown()] == ["key"]
    with pytest.raises(EffectUnknown, match=r"whether 'key' was done is not known: a program in process \d+ began it"):
        once("key")
    assert done == ["charge"]


def test_a_result_that_has_no_json_form_is_done_and_said_to_be_lost_each_time(once, done, ledger):
    for _ in range(2):
        with pytest.raises(UsageError, match=r"'key' is done and will not be done again.*object has no JSON form"):
            once("key", object())
    with pytest.raises(UsageError, match="bytes"):
        once("second", b"\xff")
    assert done == ["charge", "charge"]
    assert ledger.get("key").state == "done"


def test_a_key_and_a_function_are_checked_before_anything_is_opened(ledger, tmp_path):
    for key in ("", None, 17, "\ud800"):
        for use in (lambda key: ledger.once(key, list), ledger.get, lambda key: ledger.resolve(key, done=True)):
            with pytest.raises(UsageError, match="a key of once is a text"):
                use(key)
    with pytest.raises(UsageError, match="takes a function"):
        ledger.once("key", "not one")
    assert list(tmp_path.iterdir()) == []


def test_a_plain_function_that_gives_a_coroutine_is_refused_and_nothing_is_done(ledger, done):
    with pytest.raises(UsageError, match=r"gave a coroutine.*functools\.partial"):
        ledger.once("key", lambda: charge_slowly(done))
    assert ledger.get("key") is None
    assert done == []


def test_an_object_with_an_async_call_is_a_coroutine_function(ledger):
    class Charge:
        async def __call__(self):
            return "paid"

    async def main():
        return await ledger.once("key", Charge())

    assert virtual_run(main) == "paid"


def test_a_function_that_asks_for_its_own_key_does_not_wait_for_itself(ledger):
    def plain():
        return ledger.once("key", lambda: 1)

    async def slow():
        return await asyncio.create_task(again())

    async def again():
        return await ledger.once("slow", slow)

    with pytest.raises(UsageError, match="in its own function"):
        ledger.once("key", plain)
    with pytest.raises(UsageError, match="in its own function"):
        virtual_run(again)
    assert ledger.once("key", lambda: ledger.once("other", lambda: "both")) == "both"


def test_tasks_of_one_loop_do_it_once_and_all_get_its_result(ledger, done):
    async def main():
        ask = functools.partial(ledger.once, "key", functools.partial(charge_slowly, done, "paid"))
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(ask()) for _ in range(8)]
        return [task.result() for task in tasks]

    assert virtual_run(main) == ["paid"] * 8
    assert done == ["charge"]


def test_threads_and_loops_do_it_once_and_all_get_its_result(ledger, done):
    start = threading.Barrier(6)
    got = []

    def plain():
        start.wait()
        got.append(ledger.once("key", functools.partial(charge, done, "paid")))

    def on_a_loop():
        async def ask():
            return await ledger.once("key", functools.partial(quick, done))

        start.wait()
        got.append(asyncio.run(ask()))

    async def quick(done):
        return charge(done, "paid")

    threads = [threading.Thread(target=kind) for kind in (plain, on_a_loop) * 3]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == ["paid"] * 6
    assert done == ["charge"]


def test_a_failure_lets_one_of_those_who_wait_do_it(ledger, done):
    async def refuse():
        await asyncio.sleep(1)
        raise ConnectionRefusedError

    async def main():
        first = asyncio.create_task(ledger.once("key", refuse))
        await asyncio.sleep(0.5)
        second = asyncio.create_task(ledger.once("key", functools.partial(charge_slowly, done, "paid")))
        with pytest.raises(ConnectionRefusedError):
            await first
        assert await second == "paid"

    virtual_run(main)
    assert done == ["charge"]


def test_a_cancel_ends_the_wait_for_another_and_that_one_goes_on(ledger, done):
    async def main():
        first = asyncio.create_task(ledger.once("key", functools.partial(charge_slowly, done, "paid")))
        await asyncio.sleep(1)
        signal = CancelSignal()
        asyncio.get_running_loop().call_later(1, signal.cancel, "enough")
        with pytest.raises(Cancelled):
            await ledger.once("key", functools.partial(charge_slowly, done), token=signal.token)
        assert asyncio.get_running_loop().time() == pytest.approx(2)
        assert ledger.get("key").state == "in_progress"
        assert await first == "paid"

    virtual_run(main)
    assert done == ["charge"]


def test_a_cancel_ends_the_wait_of_a_thread_too(ledger, done):
    signal, begun, end = CancelSignal(), threading.Event(), threading.Event()

    def slow():
        begun.set()
        end.wait()
        return charge(done, "paid")

    first = threading.Thread(target=ledger.once, args=("key", slow))
    first.start()
    begun.wait()
    threading.Timer(0.05, signal.cancel).start()
    with pytest.raises(Cancelled):
        ledger.once("key", functools.partial(charge, done), token=signal.token)
    end.set()
    first.join()
    assert done == ["charge"]
    assert ledger.get("key").result == "paid"


def test_a_plain_function_does_not_block_its_event_loop_to_wait_for_another(ledger, done):
    async def main():
        first = asyncio.create_task(ledger.once("key", functools.partial(charge_slowly, done, "paid")))
        await asyncio.sleep(1)
        with pytest.raises(EffectUnknown, match=r"not known yet: a program in process \d+ is doing it"):
            ledger.once("key", functools.partial(charge, done))
        await first
        assert ledger.once("key", functools.partial(charge, done)) == "paid"

    virtual_run(main)


def test_a_cancelled_caller_never_begins(ledger, done, tmp_path):
    signal = CancelSignal()
    signal.cancel("enough")

    async def ask():
        await ledger.once("key", functools.partial(charge_slowly, done), token=signal.token)

    with pytest.raises(Cancelled):
        ledger.once("key", functools.partial(charge, done), token=signal.token)
    with pytest.raises(Cancelled):
        virtual_run(ask)
    assert done == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("how", ["signal", "task"])
def test_a_cancel_in_the_function_leaves_the_key_unknown(ledger, done, how):
    async def half():
        done.append("half")
        await asyncio.sleep(3600)

    async def main():
        signal = CancelSignal()
        task = asyncio.create_task(ledger.once("key", half, token=signal.token))
        await asyncio.sleep(1)
        if how == "signal":
            signal.cancel("enough")  # the engine then cancels the task
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(EffectUnknown):
            await ledger.once("key", half)

    virtual_run(main)
    assert done == ["half"]


def test_what_a_plain_function_raises_after_a_cancel_leaves_the_key_unknown(ledger):
    signal = CancelSignal()

    def half():
        signal.cancel("enough")
        raise ConnectionError("closed by the cancel")

    with pytest.raises(ConnectionError):
        ledger.once("key", half, token=signal.token)
    assert ledger.get("key").state == "unknown"


def test_what_was_done_is_recorded_though_the_cancel_came_with_it(ledger):
    async def main():
        task = None

        async def last_moment():
            task.cancel()
            return "paid"

        task = asyncio.create_task(ledger.once("key", last_moment))
        with pytest.raises(asyncio.CancelledError):
            await task
        return ledger.get("key")

    assert virtual_run(main).result == "paid"


def test_a_call_that_was_stopped_and_does_not_end_is_not_waited_for(ledger, done):
    signal, begun, end = CancelSignal(), threading.Event(), threading.Event()

    def deaf():
        begun.set()
        end.wait()
        return charge(done, "paid")

    straggler = threading.Thread(target=lambda: ledger.once("key", deaf, token=signal.token, by="pay (c1)"))
    straggler.start()
    begun.wait()
    signal.cancel("enough")
    with pytest.raises(EffectUnknown, match=r"pay \(c1\) is doing it, was stopped, and has not ended"):
        ledger.once("key", functools.partial(charge, done))
    end.set()
    straggler.join()
    assert ledger.once("key", functools.partial(charge, done)) == "paid"
    assert done == ["charge"]


def test_a_coroutine_that_is_closed_in_the_function_leaves_the_key_unknown(ledger, done):
    async def half():
        done.append("half")
        await asyncio.get_running_loop().create_future()

    async def until_begun():
        while not done:
            await asyncio.sleep(0.001)

    loop = asyncio.new_event_loop()
    coroutine = ledger.once("key", half)
    task = loop.create_task(coroutine)
    task._log_destroy_pending = False
    loop.run_until_complete(until_begun())
    loop.close()
    assert ledger.get("key").state == "in_progress"
    coroutine.close()  # as the collection of an abandoned task does
    assert ledger.get("key").state == "unknown"


def test_a_store_that_goes_away_before_the_record_is_an_error_that_says_it_was_done(ledger, tmp_path):
    def charge_and_lose():
        for path in tmp_path.iterdir():
            if "holders" not in path.name:
                path.unlink()
        return "paid"

    with pytest.raises(StoreError, match=r"'key' was done, and could not be recorded"):
        ledger.once("key", charge_and_lose)
