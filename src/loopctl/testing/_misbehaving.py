"""Tools that do with a cancellation what no tool should.

Each factory makes a fresh `Probe`; `probe.function` is the tool, `probe.release()` lets it end. They swallow
CancelledError only: closing their coroutine (GeneratorExit) always ends them, so that a test leaves nothing behind.

Source: the ways to lose a cancellation that were found in other projects' bug reports.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from loopctl.testing._probe import Probe
from loopctl.tools import ToolContext

__all__ = [
    "block_loop",
    "block_thread",
    "cancel_itself",
    "cleanup_slowly",
    "count",
    "end_normally",
    "finally_endless",
    "poll_thread",
    "raise_odd_error",
    "shield_work",
    "swallow_always",
    "swallow_once",
    "uncancel",
    "wait_politely",
]

_T = TypeVar("_T")

_POLL = 0.001
"""Real seconds between two polls of a tool on a thread."""


def wait_politely() -> Probe:
    """Make a tool that waits and lets itself be cancelled: the well-behaved one to compare with."""
    probe = Probe()

    async def wait_politely() -> str:
        """Wait to be released."""
        with probe:
            await _cancellable(probe, probe.until_released())
            return "released"

    return _with(probe, wait_politely)


def swallow_once() -> Probe:
    """Make a tool that swallows the first cancellation and goes on waiting; the second ends it."""
    probe = Probe()

    async def swallow_once() -> str:
        """Wait to be released, through one cancellation."""
        with probe:
            try:
                await probe.until_released()
            except asyncio.CancelledError:
                probe.cancelled += 1
            await _cancellable(probe, probe.until_released())
            return "released"

    return _with(probe, swallow_once)


def swallow_always() -> Probe:
    """Make a tool that swallows every cancellation and ends only when it is released."""
    probe = Probe()

    async def swallow_always() -> str:
        """Wait to be released, through every cancellation."""
        with probe:
            while not probe.is_released:
                try:
                    await probe.until_released()
                except asyncio.CancelledError:
                    probe.cancelled += 1
            return "released"

    return _with(probe, swallow_always)


def uncancel() -> Probe:
    """Make a tool that takes each cancellation back (`uncancel`) and awaits its shielded future again.

    Source: level-triggered cancellation livelocks on such code, at 17,000 turns a second.
    """
    probe = Probe()

    async def uncancel() -> str:
        """Wait for a shielded future, however often that is cancelled."""
        with probe:
            work: asyncio.Future[None] = asyncio.ensure_future(probe.until_released())
            try:
                while not work.done():
                    try:
                        await asyncio.shield(work)
                    except asyncio.CancelledError:
                        probe.cancelled += 1
                        task = asyncio.current_task()
                        assert task is not None
                        task.uncancel()
            finally:
                work.cancel()
            return "released"

    return _with(probe, uncancel)


def shield_work() -> Probe:
    """Make a tool that ends when it is cancelled, while its shielded work has its effect later, after `release`."""
    probe = Probe()

    async def work() -> str:
        await probe.until_released()
        probe.effects += 1
        return "released"

    async def shield_work() -> str:
        """Do shielded work."""
        with probe:
            return await _cancellable(probe, asyncio.shield(asyncio.ensure_future(work())))

    return _with(probe, shield_work)


def finally_endless() -> Probe:
    """Make a tool whose `finally` waits for `release`; a further cancellation tears it out of there."""
    probe = Probe()

    async def finally_endless() -> str:
        """Wait for ever, then clean up for ever."""
        with probe:
            try:
                await _cancellable(probe, asyncio.get_running_loop().create_future())
            finally:
                await _cancellable(probe, probe.until_released())
                probe.is_cleaned_up = True
            return "never"

    return _with(probe, finally_endless)


def cleanup_slowly(seconds: float) -> Probe:
    """Make a tool whose `finally` takes *seconds*; `is_cleaned_up` tells whether it was given that time."""
    probe = Probe()

    async def cleanup_slowly() -> str:
        """Wait to be released, then clean up."""
        with probe:
            try:
                await _cancellable(probe, probe.until_released())
            finally:
                await _cancellable(probe, asyncio.sleep(seconds))
                probe.is_cleaned_up = True
            return "released"

    return _with(probe, cleanup_slowly)


def end_normally() -> Probe:
    """Make a tool that swallows the cancellation and returns a normal, full result at once."""
    probe = Probe()

    async def end_normally() -> str:
        """Wait to be released, or for a cancellation."""
        with probe:
            try:
                await probe.until_released()
            except asyncio.CancelledError:
                probe.cancelled += 1
            return "a full, normal result"

    return _with(probe, end_normally)


def raise_odd_error(error: Exception | None = None) -> Probe:
    """Make a tool that raises *error* (by default a ConnectionResetError) because it was cancelled."""
    probe = Probe()

    async def raise_odd_error() -> str:
        """Wait to be released, or fail oddly."""
        with probe:
            try:
                await probe.until_released()
            except asyncio.CancelledError as cancelled:
                probe.cancelled += 1
                raise error or ConnectionResetError("the other side went away") from cancelled
            return "released"

    return _with(probe, raise_odd_error)


def cancel_itself() -> Probe:
    """Make a tool that raises asyncio.CancelledError by itself, though nobody cancelled it."""
    probe = Probe()

    async def cancel_itself() -> str:
        """Raise CancelledError."""
        with probe:
            await asyncio.sleep(0)
            raise asyncio.CancelledError("raised by the tool itself")

    return _with(probe, cancel_itself)


def block_loop(seconds: float) -> Probe:
    """Make an async tool that blocks the loop's own thread for *seconds*, real ones also on a virtual loop."""
    probe = Probe()

    async def block_loop() -> str:
        """Block the event loop."""
        with probe:
            time.sleep(seconds)  # noqa: ASYNC251 (that is the misbehaviour)
            return "blocked"

    return _with(probe, block_loop)


def block_thread() -> Probe:
    """Make a plain tool that blocks its thread until `release`."""
    probe = Probe()

    def block_thread() -> str:
        """Block this thread."""
        with probe:
            probe.block_until_released()
            probe.effects += 1
            return "released"

    return _with(probe, block_thread)


def poll_thread() -> Probe:
    """Make a plain tool that polls its context as it should, and returns soon after the cancel."""
    probe = Probe()

    def poll_thread(ctx: ToolContext) -> str:
        """Work in small steps until released or cancelled."""
        with probe:
            while not probe.is_released:
                if ctx.is_cancelled():
                    probe.cancelled += 1
                    return "stopped early"
                probe.block_until_released(_POLL)
            return "released"

    return _with(probe, poll_thread)


def count() -> Probe:
    """Make a tool that counts: each call is one side effect, and returns how many there were."""
    probe = Probe()

    async def count() -> int:
        """Count one up."""
        with probe:
            probe.effects += 1
            await _cancellable(probe, asyncio.sleep(0))
            return probe.effects

    return _with(probe, count)


async def _cancellable(probe: Probe, work: Awaitable[_T]) -> _T:
    """Await *work*, noting a cancellation and letting it through."""
    try:
        return await work
    except asyncio.CancelledError:
        probe.cancelled += 1
        raise


def _with(probe: Probe, function: Callable[..., Any]) -> Probe:
    probe.function = function
    return probe
