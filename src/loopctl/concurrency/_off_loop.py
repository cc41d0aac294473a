"""A blocking step of our own whose effect stays, so that its end is waited for and no signal ends the wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from loopctl.cancel import CancelSignal
from loopctl.concurrency._grace import Grace
from loopctl.concurrency._race import supervise
from loopctl.concurrency._work import ThreadWork

__all__ = ["off_the_loop"]

T = TypeVar("T")

_PATIENCE = 60.0
"""Seconds for which a cancelled host waits for the end; the engine's own grace is mostly shorter."""


async def off_the_loop(step: Callable[[], T], name: str) -> T:
    """Do *step* on a thread called *name*.

    Returns:
        What it returned.

    Raises:
        BaseException: What it raised.

    Cancellation:
        Waits for the end, once, and then goes on to the host.
    """
    ending = await supervise(ThreadWork(step, name, can_unwind=True), CancelSignal().token, grace=Grace(_PATIENCE))
    value: T = ending.unwrap()
    return value
