"""`sleep` and `scope`."""

from __future__ import annotations

import asyncio

import pytest

from loopctl import Cancelled, CancelSignal, Urgency, UsageError, scope, sleep
from loopctl.testing import virtual_run


def test_sleep_sleeps_and_the_signal_ends_it() -> None:
    async def main() -> None:
        signal = CancelSignal()
        loop = asyncio.get_running_loop()
        await sleep(5, signal)
        assert loop.time() == 5
        loop.call_later(1, signal.cancel)
        with pytest.raises(Cancelled):
            await sleep(100, signal)
        assert loop.time() == 6
        with pytest.raises(Cancelled):
            await sleep(0, signal.token)
        signal.reset()
        await sleep(0, signal)
        for seconds in (-1, float("nan"), None):
            with pytest.raises(UsageError, match="seconds"):
                await sleep(seconds, signal)  # type: ignore[arg-type]

    virtual_run(main)


def test_a_sleep_that_ends_with_the_cancel_is_cancelled() -> None:
    async def main() -> None:
        signal = CancelSignal()
        asyncio.get_running_loop().call_later(5, signal.cancel)
        with pytest.raises(Cancelled):
            await sleep(5, signal)

    virtual_run(main)


def test_draining_does_not_end_a_sleep() -> None:
    async def main() -> None:
        signal = CancelSignal()
        signal.cancel(urgency=Urgency.DRAIN)
        await sleep(5, signal)
        async with scope(signal):
            await asyncio.sleep(1)
        assert asyncio.get_running_loop().time() == 6

    virtual_run(main)


def test_a_cancelled_task_leaves_its_sleep_with_nothing_behind() -> None:
    async def main() -> None:
        signal = CancelSignal()
        task = asyncio.ensure_future(sleep(100, signal))
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        assert "0 observers" in repr(signal)

    virtual_run(main)


def test_a_scope_is_left_when_the_signal_fires_and_the_task_lives_on() -> None:
    async def main() -> None:
        signal = CancelSignal()
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().call_later(1, signal.cancel, "enough")
        with pytest.raises(Cancelled, match="enough"):
            async with scope(signal):
                await asyncio.sleep(100)
        assert task.cancelling() == 0
        await asyncio.sleep(1)
        assert asyncio.get_running_loop().time() == 2
        assert "0 observers" in repr(signal)

    virtual_run(main)


def test_a_scope_that_ends_first_gives_its_block_on() -> None:
    async def main() -> None:
        signal = CancelSignal()
        async with scope(signal):
            await asyncio.sleep(1)
        signal.cancel()
        await asyncio.sleep(1)
        with pytest.raises(ValueError, match="own"):
            async with scope(CancelSignal()):
                raise ValueError("own")

    virtual_run(main)


def test_a_fired_signal_is_not_entered() -> None:
    async def main() -> None:
        signal = CancelSignal()
        signal.cancel()
        entered = []
        with pytest.raises(Cancelled):
            async with scope(signal):
                entered.append("entered")
        assert entered == []

    virtual_run(main)


def test_a_block_that_swallows_or_does_not_await_is_cancelled_at_its_end() -> None:
    async def main() -> None:
        signal = CancelSignal()
        asyncio.get_running_loop().call_later(1, signal.cancel)
        after = []
        with pytest.raises(Cancelled):
            async with scope(signal):
                try:
                    await asyncio.sleep(100)
                except asyncio.CancelledError:
                    after.append("swallowed")
        assert after == ["swallowed"]
        signal.reset()
        with pytest.raises(Cancelled):
            async with scope(signal):
                signal.cancel()
        await asyncio.sleep(1)
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0

    virtual_run(main)


def test_a_cancellation_by_somebody_else_is_not_touched() -> None:
    async def main() -> None:
        signal = CancelSignal()

        async def host() -> None:
            async with scope(signal):
                await asyncio.sleep(100)

        for also in (False, True):
            task = asyncio.ensure_future(host())
            await asyncio.sleep(1)
            task.cancel()
            if also:
                signal.cancel()
            await asyncio.wait([task])
            assert task.cancelled()

    virtual_run(main)


def test_a_timeout_inside_and_around_a_scope_keeps_its_meaning() -> None:
    async def main() -> None:
        signal = CancelSignal()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1), scope(signal):
                await asyncio.sleep(100)
        async with scope(signal):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1):
                    await asyncio.sleep(100)
        asyncio.get_running_loop().call_later(1, signal.cancel)
        with pytest.raises(Cancelled):
            async with asyncio.timeout(50), scope(signal):
                await asyncio.sleep(100)

    virtual_run(main)


def test_nested_scopes_are_left_together_or_one_by_one() -> None:
    async def main() -> None:
        outer, inner = CancelSignal(), CancelSignal()
        asyncio.get_running_loop().call_later(1, inner.cancel)
        async with scope(outer):
            with pytest.raises(Cancelled):
                async with scope(inner):
                    await asyncio.sleep(100)
            await asyncio.sleep(1)
        asyncio.get_running_loop().call_later(1, outer.cancel, "outer")
        with pytest.raises(Cancelled, match="outer"):
            async with scope(outer), scope(CancelSignal()):
                await asyncio.sleep(100)
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0

    virtual_run(main)


def test_a_scope_is_entered_once() -> None:
    async def main() -> None:
        block = scope(CancelSignal())
        async with block:
            pass
        with pytest.raises(UsageError, match="once"):
            async with block:
                pass

    virtual_run(main)
