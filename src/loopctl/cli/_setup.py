"""What the command asks of a model beside replies: to be ready before the first message, and whether it is still busy.

Rules: both are optional methods of a model, looked for by name; both are bounded or stopped by a signal.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from loopctl.cancel import CancelSignal
from loopctl.cli._presses import Presses
from loopctl.concurrency import race, sleep
from loopctl.driver import Session
from loopctl.errors import Cancelled
from loopctl.model import Model
from loopctl.record import Run

__all__ = ["is_still_busy", "make_ready", "open_session"]

_PATIENCE = 0.5
"""Seconds that the whole question may take: a report must not wait for a server."""
_FREED_AFTER = 0.15
"""Seconds in which a server that was only between two tokens is free again."""


async def make_ready(model: Model, presses: Presses) -> None:
    """Let *model* load, if it has anything to load.

    Raises:
        Cancelled: A signal of the process stopped it.
        LoopError: It cannot be loaded.

    Cancellation:
        Stops loading.
    """
    prepare: Callable[[], Awaitable[None]] | None = getattr(model, "prepare", None)
    if prepare is None:
        return
    signal = CancelSignal()
    with presses.running(signal.cancel):
        await race(_call(prepare), signal)


async def open_session(session: Session, presses: Presses) -> None:
    """Read what the store of *session* has of it.

    Raises:
        Cancelled: A signal of the process stopped it.
        SessionBusy: It is open in another process.
        StoreError: The store cannot be used.

    Cancellation:
        Stops it.
    """
    signal = CancelSignal()
    with presses.running(signal.cancel):
        await race(session.open(), signal)


async def is_still_busy(model: Model, run: Run) -> bool:
    """Tell whether *model* still works on what *run*, a stopped one, asked.

    Only a run that was stopped before the reply began is worth the question: a reply that was left is dropped at once.

    Cancellation:
        Leaves the question.
    """
    ask: Callable[[], Awaitable[bool]] | None = getattr(model, "is_busy", None)
    if ask is None or not run.turns or run.turns[-1].reply.blocks:
        return False
    signal = CancelSignal()
    with signal.cancel_after(_PATIENCE):
        try:
            if not await race(_call(ask), signal, grace=0):
                return False
            await sleep(_FREED_AFTER, signal)
            return bool(await race(_call(ask), signal, grace=0))
        except Cancelled:
            return True


async def _call(function: Callable[[], Awaitable[object]]) -> object:
    return await function()
