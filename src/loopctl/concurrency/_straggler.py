"""Work that was abandoned because it would not end in time: what it is, how old, where it hangs, how it ended late.

Invariants: an abandoned piece of work is held here until it has ended, so that it is never collected in mid-flight;
its late result or error is always taken, so that asyncio has nothing to complain about.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Literal

from loopctl.concurrency._clock import monotonic
from loopctl.record import StragglerRecord

__all__ = ["Straggler", "frame_of_coroutine", "frame_of_thread", "place_of_thread", "settle"]

_LIBRARY = sysconfig.get_path("stdlib")
_OURS = f"{Path(__file__).parents[1]}{os.sep}"

_DEEPEST = 1000
"""Awaits that are followed to find where a coroutine hangs; a cycle must not hold us up."""

_held: set[Straggler] = set()
"""Every straggler of this process that has not ended."""


class Straggler:
    """One abandoned piece of work, as it is now.

    It is updated when the work ends after all; the `StragglerRecord` in a `Run` is not.
    """

    __slots__ = (
        "__weakref__",
        "_find_place",
        "_listeners",
        "_started",
        "call_id",
        "ended_after",
        "error",
        "kind",
        "name",
        "result",
        "run_id",
    )

    def __init__(
        self,
        kind: Literal["task", "thread", "process"],
        started: float,
        find_place: Callable[[], tuple[CodeType, int] | str | None],
    ) -> None:
        """Take over a piece of work that began at *started* (monotonic seconds)."""
        self.kind = kind
        self.name: str = ""
        self.call_id: str | None = None
        self.run_id: str = ""
        self.ended_after: float | None = None
        """Seconds from its beginning to its late end; None while it runs."""
        self.result: Any = None
        """What it returned late; None if it did not."""
        self.error: BaseException | None = None
        """What it raised late; None if it did not."""
        self._started = started
        self._find_place = find_place
        self._listeners: list[Callable[[Straggler], None]] = []
        _held.add(self)

    @property
    def is_ended(self) -> bool:
        """True once the work has ended after all."""
        return self.ended_after is not None

    @property
    def age(self) -> float:
        """Seconds since the work began, or that it took if it has ended."""
        return self.ended_after if self.ended_after is not None else monotonic() - self._started

    @property
    def where(self) -> str:
        """`file:line` where it hangs, or the processes that still run; empty if it has ended, or nobody can tell."""
        if self.is_ended:
            return ""
        try:
            place = self._find_place()
        except Exception:  # attributes of whatever the work awaits are looked up
            return ""
        if place is None or isinstance(place, str):
            return place or ""
        code, line = place
        return f"{code.co_filename}:{line}"

    def record(self) -> StragglerRecord:
        """Freeze what is known now."""
        return StragglerRecord(self.kind, self.name, self.call_id, self.age, self.where)

    def on_end(self, listener: Callable[[Straggler], None]) -> None:
        """Call *listener* when the work has ended; at once if it has."""
        self._listeners.append(listener)
        if self.is_ended:  # perhaps only now, and in another thread: whoever takes a listener out calls it
            self._tell()

    def forget(self, listener: Callable[[Straggler], None]) -> None:
        """Do not call *listener* any more."""
        with contextlib.suppress(ValueError):  # it is being called
            self._listeners.remove(listener)

    def end(self, result: Any, error: BaseException | None) -> None:
        """Note the late end, and tell who waits for it."""
        self.ended_after = monotonic() - self._started
        self.result = result
        self.error = error
        _held.discard(self)
        self._tell()

    def _tell(self) -> None:
        while self._listeners:
            try:
                listener = self._listeners.pop(0)
            except IndexError:  # another thread took the last one
                return
            listener(self)

    def __repr__(self) -> str:
        """Say what it is and where it hangs."""
        state = "ended late" if self.is_ended else f"still running at {self.where or 'an unknown line'}"
        return f"<Straggler {self.kind} {self.name!r} {state}, {self.age:.3f} s>"


async def settle(stragglers: Iterable[Straggler], seconds: float) -> None:
    """Wait until all of *stragglers* have ended, *seconds* at most.

    Cancellation:
        A checkpoint of the host task only; leaves nothing behind.
    """
    waiting = {straggler for straggler in stragglers if not straggler.is_ended}
    if not waiting:
        return
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()

    def resolve() -> None:
        if not future.done():
            future.set_result(None)

    def note(straggler: Straggler) -> None:
        waiting.discard(straggler)
        if not waiting:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(resolve)

    watched = tuple(waiting)
    for straggler in watched:
        straggler.on_end(note)
    timer = loop.call_later(seconds, resolve)
    try:
        await future
    finally:
        timer.cancel()
        for straggler in watched:
            straggler.forget(note)


def frame_of_coroutine(awaitable: object) -> tuple[CodeType, int] | None:
    """Find the innermost line outside of the standard library that *awaitable* is suspended at."""
    found: tuple[CodeType, int] | None = None
    seen = 0
    while awaitable is not None and seen < _DEEPEST:
        frame = _first(awaitable, "cr_frame", "gi_frame", "ag_frame")
        # `asyncio.sleep` hangs nowhere: who awaits it does.
        if isinstance(frame, FrameType) and (found is None or not _is_of_the_library(frame)):
            found = (frame.f_code, frame.f_lineno)
        following = _first(awaitable, "cr_await", "gi_yieldfrom", "ag_await")
        if following is None and isinstance(awaitable, asyncio.Task):
            following = awaitable.get_coro()
        awaitable = following
        seen += 1
    return found


def frame_of_thread(thread: threading.Thread) -> tuple[CodeType, int] | None:
    """Find the innermost line outside of the standard library that *thread* executes now."""
    frame = innermost = sys._current_frames().get(thread.ident or -1)
    while frame is not None and _is_of_the_library(frame):
        frame = frame.f_back
    frame = frame or innermost
    return None if frame is None else (frame.f_code, frame.f_lineno)


def place_of_thread(ident: int) -> str:
    """Say the innermost line, outside of the standard library and of loopctl, that the thread *ident* executes now.

    It takes no lock, and may be asked by a signal handler of the code that it interrupted.
    """
    frame = innermost = sys._current_frames().get(ident)
    while frame is not None and (_is_of_the_library(frame) or frame.f_code.co_filename.startswith(_OURS)):
        frame = frame.f_back
    frame = frame or innermost
    return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _is_of_the_library(frame: FrameType) -> bool:
    name = frame.f_code.co_filename
    return name.startswith((_LIBRARY, "<frozen ")) and "site-packages" not in name


def _first(thing: object, *names: str) -> object:
    for name in names:
        value = getattr(thing, name, None)
        if value is not None:
            return value
    return None
