"""Watches one misbehaving tool: how often it started, was cancelled, ended; and lets it end.

Rule: everything here may be used from any thread and any loop, as tools run on both.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Self

__all__ = ["Flag", "Probe"]


class Flag:
    """Something that becomes true once, awaited on any loop and in any thread."""

    def __init__(self) -> None:
        """Make a flag that is not set."""
        self._event = threading.Event()
        self._waiters: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []

    def is_set(self) -> bool:
        """Say whether it was set."""
        return self._event.is_set()

    def set(self) -> None:
        """Set it and wake everybody who waits."""
        self._event.set()
        while self._waiters:
            try:
                loop, waiter = self._waiters.pop()
            except IndexError:  # another thread took the last one
                return
            with suppress(RuntimeError):  # that loop is closed
                loop.call_soon_threadsafe(_resolve, waiter)

    async def wait(self) -> None:
        """Wait until it is set; return at once if it is.

        Cancellation:
            Ends the wait and leaves nothing behind.
        """
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        entry = (loop, waiter)
        self._waiters.append(entry)
        try:
            if not self._event.is_set():  # set in between: who sets it may not have seen this waiter
                await waiter
        finally:
            with suppress(ValueError):  # taken by `set`
                self._waiters.remove(entry)

    def wait_blocking(self, timeout: float | None = None) -> bool:
        """Block this thread until it is set, or *timeout* real seconds have passed; say whether it is set."""
        return self._event.wait(timeout)


class Probe:
    """The record of a misbehaving tool, and the tool itself.

    Attributes:
        function: The tool as a plain function, with the signature and docstring that `loopctl.tool` needs.
        started: How often it was started.
        cancelled: How many CancelledErrors reached it.
        ended: How often it ended, by return or exception.
        effects: How many side effects it had.
        is_cleaned_up: True once its cleanup ran to its end; False if it has none.
        threads: The names of the threads it ran on, in order.
    """

    def __init__(self) -> None:
        """Make an empty record; the factories of this package set the function."""
        self.function: Callable[..., Any] = _no_function
        self.started: int = 0
        self.cancelled = 0
        self.ended: int = 0
        self.effects = 0
        self.is_cleaned_up = False
        self.threads: list[str] = []
        self._begun = Flag()
        self._released = Flag()

    @property
    def name(self) -> str:
        """The tool's name."""
        return self.function.__name__

    @property
    def is_running(self) -> bool:
        """True while a call of it has started and not ended."""
        return self.started > self.ended

    @property
    def is_released(self) -> bool:
        """True after `release`."""
        return self._released.is_set()

    def release(self) -> None:
        """Let it end: whatever it waits for happens. From any thread."""
        self._released.set()

    async def until_started(self) -> None:
        """Wait until it was started at least once.

        Cancellation:
            Ends the wait.
        """
        await self._begun.wait()

    async def until_released(self) -> None:
        """Wait for `release`; this is where most misbehaving tools hang.

        Cancellation:
            Ends the wait.
        """
        await self._released.wait()

    def block_until_released(self, timeout: float | None = None) -> bool:
        """Block this thread until `release`, or *timeout* real seconds; say whether it was released."""
        return self._released.wait_blocking(timeout)

    def __enter__(self) -> Self:
        """Note a start. The tools run in `with probe:`."""
        self.started += 1
        self.threads.append(threading.current_thread().name)
        self._begun.set()
        return self

    def __exit__(self, *_: object) -> None:
        """Note an end."""
        self.ended += 1


def _resolve(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


def _no_function() -> None:
    raise RuntimeError("this probe has no tool: make it with a factory of loopctl.testing")
