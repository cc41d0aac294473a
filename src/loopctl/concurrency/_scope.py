"""`async with scope(signal)`: a block that the signal leaves, in the host's own task.

Invariant: the host task is cancelled at most once, from a callback of its loop, and uncancelled exactly as often.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

from loopctl.cancel import CancelSignal, CancelToken, Registration, token_of, watch
from loopctl.concurrency._ending import stop_reason
from loopctl.errors import Cancelled, UsageError
from loopctl.record import Urgency

__all__ = ["scope"]


class scope:  # noqa: N801 - used like a function, as `asyncio.timeout` is
    """Run a block until it ends or *signal* fires, whichever is first; then raise `Cancelled`.

    There is no grace and no abandoning: the block ends when it ends, as with `asyncio.timeout`. Code that swallows
    the cancellation goes on to the end of the block, where `Cancelled` is raised all the same. Use `race` for a
    bound.

    On Python 3.11 and 3.12 `asyncio.wait_for` can swallow a cancellation that comes in the same turn of the loop as
    its result, and a task that cancels itself is interrupted at its next await even after `uncancel`: there a block
    may run on to its end before it is left (3.13 mended both).

    Args:
        signal: What ends the block; acts from `Urgency.STOP`.

    Raises:
        Cancelled: The signal had fired before the block (which is then not entered) or in it.
        UsageError: There is no running task, or the scope was entered twice.

    Cancellation:
        A cancellation of the host by somebody else is not touched: it goes on, also if the signal fired too.
    """

    def __init__(self, signal: CancelSignal | CancelToken) -> None:
        """Take the current token of *signal*."""
        self._token = token_of(signal)
        self._task: asyncio.Task[object] | None = None
        self._registration: Registration | None = None
        self._is_interrupted = False
        self._cancelling = 0

    async def __aenter__(self) -> Self:
        """Enter the block, unless the signal has fired.

        Cancellation:
            Never suspends.
        """
        if self._task is not None:
            raise UsageError("a scope is entered once: make a new one for each block")
        self._task = asyncio.current_task()
        if self._task is None:
            raise UsageError("a scope needs a running task")
        if self._token.is_cancelled(at_least=Urgency.STOP):
            raise Cancelled(stop_reason(self._token))
        self._cancelling = self._task.cancelling()
        self._registration = watch(self._token, asyncio.get_running_loop(), self._interrupt)
        return self

    def _interrupt(self) -> None:
        if self._task is not None and self._registration is not None:
            self._is_interrupted = True
            self._task.cancel()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Leave the block.

        Cancellation:
            Never suspends.
        """
        assert self._task is not None
        if self._registration is not None:
            self._registration.close()
            self._registration = None
        is_ours_alone = True
        if self._is_interrupted:
            is_ours_alone = self._task.uncancel() <= self._cancelling
        if not self._token.is_cancelled(at_least=Urgency.STOP):
            return
        if error is None or (self._is_interrupted and is_ours_alone and isinstance(error, asyncio.CancelledError)):
            raise Cancelled(stop_reason(self._token)) from error
