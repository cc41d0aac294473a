"""What the engine asks of a signal beyond its public face: to watch it from a loop, to seal it, and its report.

These are functions and not methods, because tools hold the token.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from loopctl.cancel._fire import seal_latch
from loopctl.cancel._latch import MAX_LATER, level_of
from loopctl.cancel._registration import LoopWatch, Registration
from loopctl.cancel._signal import CancelSignal, CancelToken, token_of
from loopctl.record import CancelReason, Urgency

__all__ = ["fired_at", "fired_from", "later_causes", "levels", "seal", "watch"]


def watch(
    token: CancelSignal | CancelToken,
    loop: asyncio.AbstractEventLoop,
    callback: Callable[[], object],
    *,
    at_least: Urgency = Urgency.STOP,
) -> Registration:
    """Run *callback* once on *loop* when *token* reaches the urgency *at_least*; soon, if it has already.

    All that one cancel wakes on a loop is handed over in a single thread-safe call, before any `on_cancel` callback
    runs.

    Returns:
        The registration. Its `close` gives True if the callback will never run, also when it was already handed over
        and the loop has not come to it.
    """
    registration = LoopWatch(token_of(token), level_of(at_least), callback, loop)
    registration._arm()
    return registration


def seal(signal: CancelSignal | CancelToken) -> bool:
    """Close the current token of *signal* for every later cancel, by the same atomic step as `cancel`.

    Returns:
        True if it had not fired: it now never will, no waiter of it ends, and a parent's firing passes it by. False if
        it had; then its reason is there to be read, and its urgency and later causes stay as they are.
    """
    return seal_latch(token_of(signal))


def levels(token: CancelSignal | CancelToken) -> Sequence[bool]:
    """Give the live row of what *token* has reached, to be read by the value of an `Urgency`: a poll without a call.

    For loops in which a call for each turn is too much: `row = levels(token)` before, `if row[1]:` inside.
    """
    return token_of(token)._reached


def fired_at(token: CancelSignal | CancelToken) -> float | None:
    """Give the `time.monotonic()` of the cancel that fired *token*, its own or an ancestor's; None if it has not."""
    first = token_of(token)._first()
    return first.at if first is not None else None


def fired_from(token: CancelSignal | CancelToken) -> int | None:
    """Give the ident of the thread that fired *token*, or the ancestor that fired it; None if it has not fired."""
    first = token_of(token)._first()
    return first.thread if first is not None else None


def later_causes(token: CancelSignal | CancelToken) -> tuple[CancelReason, ...]:
    """Give the reasons of the cancels that came too late to be the first cause of *token*, in order.

    Its own cancels and those that came from a parent; each reason once, the first cause not, at most 32.
    """
    return tuple(token_of(token)._later.copy().values())[:MAX_LATER]
