"""The clocks: which one is read for what.

Rules: durations of a run are taken from `monotonic`, as the signal's own stamp is; waits are taken from the
running loop's clock, which is virtual in tests; `epoch` is for people. Ids and jitter are random,
which is as impure as a clock.
"""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from collections.abc import Callable

__all__ = ["clock_of", "draw", "epoch", "fresh_id", "hold_time", "monotonic"]


def clock_of(loop: asyncio.AbstractEventLoop) -> Callable[[], float]:
    """Give the quickest way to ask *loop* for its time: asyncio's own loops only pass `time.monotonic` on."""
    is_plain = getattr(type(loop), "time", None) is asyncio.BaseEventLoop.time
    return time.monotonic if is_plain else loop.time


def hold_time(loop: asyncio.AbstractEventLoop) -> Callable[[], None]:
    """Keep the clock of a virtual-time loop from running ahead of a thread or a process that really works.

    Returns:
        What lets it go; harmless on any other loop, and when it is called again.
    """
    hold: Callable[[], Callable[[], None]] | None = getattr(loop, "hold_time", None)
    return _nothing if hold is None else hold()


def monotonic() -> float:
    """Seconds on the clock that stamps a cancel."""
    return time.monotonic()


def epoch() -> float:
    """Seconds since 1970."""
    return time.time()


def fresh_id(kind: str) -> str:
    """An id that nothing else has: `kind_` and 32 hexadecimal digits."""
    return f"{kind}_{uuid.uuid4().hex}"


def draw(most: float) -> float:
    """Draw a number from minus to plus *most*."""
    return random.uniform(-most, most)  # noqa: S311 - it spreads retries, and keeps no secret


def _nothing() -> None:
    pass
