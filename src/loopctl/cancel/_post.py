"""Work for event loops: gathered while a tree is woken, handed over with one thread-safe call for each loop.

Invariants:

1. A loop is only ever touched through `call_soon_threadsafe`, also on its own thread: a signal handler runs on the
   loop's thread while the loop sleeps in the selector, and a plain `call_soon` would not end that sleep.
2. A loop that is closed or broken costs the others nothing.
3. Work that was handed over and not yet done survives a `KeyboardInterrupt` that leaves the loop in the middle of it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from contextvars import Context

__all__ = ["Post"]

_logger = logging.getLogger("loopctl")


class Post:
    """A mail round: callables sorted by the loop that shall run them."""

    __slots__ = ("_bags",)

    def __init__(self) -> None:
        """Start with nothing to deliver."""
        self._bags: dict[int, tuple[asyncio.AbstractEventLoop, deque[Callable[[], object]]]] = {}

    def add(self, loop: asyncio.AbstractEventLoop, work: Callable[[], object]) -> None:
        """Have *work* run on *loop*, after what was added before."""
        bag = self._bags.get(id(loop))
        if bag is None:
            bag = self._bags[id(loop)] = (loop, deque())
        bag[1].append(work)

    def deliver(self) -> None:
        """Hand everything over; loops that take nothing any more are passed by."""
        for loop, bag in self._bags.values():
            _hand_over(loop, bag)


def _hand_over(loop: asyncio.AbstractEventLoop, bag: deque[Callable[[], object]]) -> None:
    try:
        # An empty context: what the waiters start belongs to them, not to whoever happens to cancel.
        loop.call_soon_threadsafe(_perform, loop, bag, context=Context())
    except Exception:
        if not loop.is_closed():
            _logger.exception("loopctl: the event loop %r takes no callbacks, its waiters are not woken", loop)


def _perform(loop: asyncio.AbstractEventLoop, bag: deque[Callable[[], object]]) -> None:
    try:
        while bag:
            _perform_one(bag.popleft())
    finally:
        if bag:
            _hand_over(loop, bag)


def _perform_one(work: Callable[[], object]) -> None:
    try:
        work()
    except Exception:
        _logger.exception("loopctl: %r, woken by a cancel, raised", work)
