"""Wait for a time, unless a signal ends the wait. No task is made."""

from __future__ import annotations

import asyncio

from loopctl.cancel import CancelSignal, CancelToken, token_of, watch
from loopctl.concurrency._check import check_seconds
from loopctl.concurrency._drain import ends_from
from loopctl.concurrency._ending import stop_reason
from loopctl.errors import Cancelled
from loopctl.record import Checkpoint, Urgency

__all__ = ["breathe", "sleep"]


async def sleep(
    seconds: float,
    signal: CancelSignal | CancelToken,
    *,
    at: Checkpoint | None = None,
) -> None:
    """Wait *seconds* on the running loop's clock, unless *signal* fires first.

    Args:
        seconds: 0 or more; 0 lets the loop take one turn.
        signal: What ends the wait; acts from `Urgency.STOP`, in a run as its checkpoint says.
        at: The checkpoint that this wait is, inside of a run.

    Raises:
        Cancelled: The signal had fired before, or fired during the wait.
        UsageError: *seconds* is not a number of seconds.

    Cancellation:
        A checkpoint. With the signal already fired it raises at once. Nothing is left behind.
    """
    wait = check_seconds("seconds", seconds)
    token, at_least = token_of(signal), ends_from(at)
    if not token.is_cancelled(at_least=at_least):
        await _wait(wait, token, at_least)
    if token.is_cancelled(at_least=at_least):
        raise Cancelled(stop_reason(token), at)


async def breathe() -> None:
    """Let the loop take one turn.

    Cancellation:
        A checkpoint of the host task only.
    """
    await asyncio.sleep(0)


async def _wait(seconds: float, token: CancelToken, at_least: Urgency) -> None:
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()
    timer = loop.call_later(seconds, _resolve, future)
    registration = watch(token, loop, lambda: _resolve(future), at_least=at_least)
    try:
        await future
    finally:
        timer.cancel()
        registration.close()


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
