"""A wait that the run knows of: who watches is told, and the stall watchdog does not take it for a stall.

Rules: told only if it is long enough for a person to wonder; one of unknown length is told when it has become so, and
the watchdog goes on counting in it, since nothing says that it will end.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from loopctl.record import WaitStarted

if TYPE_CHECKING:
    from loopctl.driver._execution import Execution

__all__ = ["waiting"]

_NOTICEABLE = 1.0
"""Seconds from which on a wait is told."""


@contextmanager
def waiting(run: Execution, seconds: float | None, why: str) -> Iterator[None]:
    """Note that what the block does is to wait, for *seconds* if that is known."""
    event = WaitStarted(seconds, why, run.id)
    if seconds is None:
        timer = run.loop.call_later(_NOTICEABLE, run.tell, event)
        try:
            yield
        finally:
            timer.cancel()
        return
    if seconds >= _NOTICEABLE:
        run.tell(event)
    run.watchdogs.hold()
    try:
        yield
    finally:
        run.watchdogs.release()
