"""Holding a cancellation back while a connection is given back."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from loopctl.providers._guard import to_the_end


async def turns(log: list[str], count: int) -> str:
    for number in range(count):
        log.append(f"turn {number}")
        await asyncio.sleep(0)
    log.append("end")
    return "value"


async def waiting(log: list[str], gate: asyncio.Future[str]) -> str:
    value = await gate
    log.append("end")
    return value


async def guarded(work: Coroutine[Any, Any, str]) -> str:
    return await to_the_end(work)


def test_it_gives_the_value_and_lets_an_error_through() -> None:
    async def broken() -> None:
        await asyncio.sleep(0)
        raise ValueError("inner")

    async def main() -> None:
        assert await to_the_end(turns([], 2)) == "value"
        with pytest.raises(ValueError, match="inner"):
            await to_the_end(broken())

    asyncio.run(main())


@pytest.mark.parametrize("cancels", [1, 2, 5])
def test_cancels_at_a_turn_of_the_loop_wait_for_the_end_of_the_work(cancels: int) -> None:
    async def main() -> None:
        log: list[str] = []
        task = asyncio.ensure_future(guarded(turns(log, 6)))
        for _ in range(cancels):
            await asyncio.sleep(0)
            task.cancel()
        assert "end" not in log
        await asyncio.wait({task})
        assert task.cancelled()
        assert log[-1] == "end"

    asyncio.run(main())


def test_cancels_while_it_waits_for_a_future_leave_that_future_alone() -> None:
    async def main() -> None:
        log: list[str] = []
        gate: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        task = asyncio.ensure_future(guarded(waiting(log, gate)))
        for _ in range(3):
            await asyncio.sleep(0)
            task.cancel()
        await asyncio.sleep(0)
        assert not gate.cancelled()
        assert not task.done()
        gate.set_result("late")
        await asyncio.wait({task})
        assert task.cancelled()
        assert log == ["end"]

    asyncio.run(main())


def test_an_error_of_the_work_wins_over_a_cancel_that_was_held_back() -> None:
    async def broken() -> str:
        await asyncio.sleep(0)
        raise ValueError("inner")

    async def main() -> None:
        task = asyncio.ensure_future(guarded(broken()))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task})
        assert isinstance(task.exception(), ValueError)

    asyncio.run(main())


def test_the_count_of_cancels_is_left_as_it_was() -> None:
    async def main() -> None:
        async def host() -> None:
            try:
                await guarded(turns([], 4))
            except asyncio.CancelledError:
                assert task.cancelling() == 1
                task.uncancel()
            await asyncio.sleep(0)

        task = asyncio.ensure_future(host())
        await asyncio.sleep(0)
        task.cancel()
        await task

    asyncio.run(main())
