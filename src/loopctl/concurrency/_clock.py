"""The clocks: which one is read for what.

Rules: durations of a run are taken from `monotonic`, as the signal's own stamp is; waits are taken from the
running loop's clock, which is virtual in tests; `epoch` is for people. Ids are random, which is as impure as a clock.
"""

from __future__ import annotations

import time
import uuid

__all__ = ["epoch", "fresh_id", "monotonic"]


def monotonic() -> float:
    """Seconds on the clock that stamps a cancel."""
    return time.monotonic()


def epoch() -> float:
    """Seconds since 1970."""
    return time.time()


def fresh_id(kind: str) -> str:
    """An id that nothing else has: `kind_` and 32 hexadecimal digits."""
    return f"{kind}_{uuid.uuid4().hex}"
