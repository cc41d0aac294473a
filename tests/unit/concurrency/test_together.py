"""Works side by side: in order, so many at once, and none left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from loopctl import Cancelled, CancelReason
from loopctl.concurrency import together
from loopctl.testing import virtual_run

SEEN: list[str] = []


def work(
    name: str, seconds: float, error: BaseException | None = None, tidy: float = 0
) -> Callable[[], Coroutine[Any, Any, str]]:
    async def body() -> str:
        SEEN.append(f"+{name}")
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            SEEN.append(f"!{name}")
            await asyncio.sleep(tidy)
            raise
        SEEN.append(f"-{name}")
        if error is not None:
            raise error
        return name

    return body


def stop(text: str) -> Cancelled:
    return Cancelled(CancelReason("user", text), None)


@pytest.fixture(autouse=True)
def _clear() -> None:
    SEEN.clear()


def alone() -> bool:
    return asyncio.all_tasks() == {asyncio.current_task()}


def test_what_they_give_comes_in_their_order_and_so_many_run_at_once() -> None:
    async def main() -> None:
        assert await together([work("a", 3), work("b", 1), work("c", 1.5)], limit=2) == ("a", "b", "c")
        assert asyncio.get_running_loop().time() == 3
        assert alone()

    virtual_run(main)
    assert SEEN == ["+a", "+b", "-b", "+c", "-c", "-a"]


def test_nothing_to_do_is_done_at_once() -> None:
    async def main() -> None:
        assert await together([], limit=1) == ()

    virtual_run(main)


def test_a_stop_lets_the_others_end_begins_no_more_and_the_first_in_order_is_told() -> None:
    async def main() -> None:
        with pytest.raises(Cancelled, match="first"):
            await together([work("a", 2, stop("first")), work("b", 1, stop("second")), work("c", 1)], limit=2)
        assert alone()

    virtual_run(main)
    assert SEEN == ["+a", "+b", "-b", "-a"]


def test_after_a_stop_none_takes_the_place_of_one_that_ended() -> None:
    async def main() -> None:
        with pytest.raises(Cancelled, match="second"):
            await together([work("a", 2), work("b", 1, stop("second")), work("c", 1)], limit=2)

    virtual_run(main)
    assert SEEN == ["+a", "+b", "-b", "-a"]


def test_a_fault_presses_the_others_once_and_waits_for_them() -> None:
    async def main() -> None:
        with pytest.raises(ValueError, match="broken"):
            await together([work("a", 9, tidy=1), work("b", 1, ValueError("broken")), work("c", 1)], limit=2)
        assert asyncio.get_running_loop().time() == 2
        assert alone()

    virtual_run(main)
    assert SEEN == ["+a", "+b", "-b", "!a"]


def test_a_cancellation_of_the_host_is_passed_on_each_time_and_goes_on_when_all_have_ended() -> None:
    async def main() -> None:
        host = asyncio.ensure_future(together([work("a", 9, tidy=5), work("b", 9, tidy=1)], limit=2))
        await asyncio.sleep(1)
        host.cancel("why")
        await asyncio.sleep(3)
        assert not host.done()
        host.cancel("again")
        with pytest.raises(asyncio.CancelledError, match="why"):
            await host
        assert asyncio.get_running_loop().time() == 4
        assert alone()

    virtual_run(main)
    assert SEEN == ["+a", "+b", "!a", "!b"]


def test_a_host_that_is_cancelled_at_once_begins_nothing() -> None:
    async def main() -> None:
        host = asyncio.ensure_future(together([work("a", 9), work("b", 9)], limit=1))
        await asyncio.sleep(0)
        host.cancel()
        await asyncio.wait([host])
        assert host.cancelled()
        assert alone()

    virtual_run(main)
    assert "+b" not in SEEN


def test_one_of_them_that_is_cancelled_by_somebody_else_takes_the_others_along() -> None:
    async def main() -> None:
        async def cancel_me() -> str:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.sleep(0)
            return "no"

        with pytest.raises(asyncio.CancelledError):
            await together([work("a", 9), cancel_me], limit=2)
        assert alone()

    virtual_run(main)
    assert SEEN == ["+a", "!a"]


def test_who_cancels_every_task_at_once_as_asyncio_run_does_cancels_each_of_them_once() -> None:
    async def main() -> None:
        host = asyncio.ensure_future(together([work("a", 9, tidy=5), work("b", 9, tidy=1)], limit=2))
        await asyncio.sleep(1)
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        await asyncio.wait([host])
        assert host.cancelled()
        assert asyncio.get_running_loop().time() == 6

    virtual_run(main)
