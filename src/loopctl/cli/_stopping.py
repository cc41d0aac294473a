"""What is said while a stop takes its time, and when nobody waits for it.

Rules: a stop that ends quickly says nothing of its own; `begun`, `abandoned` and `last_words` run in a signal handler;
SIGTERM gives what runs the grace of the run, whatever a tool asks for, since who sends it will not wait for ever.
"""

from __future__ import annotations

import asyncio
import threading
from types import TracebackType
from typing import Self

from loopctl.cli._render import Renderer, call_text
from loopctl.cli._screen import Screen
from loopctl.cli._terminal import say_at_once
from loopctl.concurrency import place_of_thread
from loopctl.driver import RunHandle
from loopctl.record import CancelReason, Urgency

__all__ = ["Stopping"]

_PATIENCE = 0.1
"""Seconds in which a stop is over that nobody needs to hear about."""


class Stopping:
    """The stop of one run, as a person sees it; use it with `with` around the run."""

    def __init__(self, screen: Screen, renderer: Renderer, handle: RunHandle, grace: float) -> None:
        """Tell on *screen* of the calls that *renderer* has seen begin; abandon *handle* after *grace* seconds."""
        self._screen = screen
        self._renderer = renderer
        self._handle = handle
        self._grace = grace
        self._loop = asyncio.get_running_loop()
        self._timers: list[asyncio.TimerHandle] = []
        self._is_noticed = self._is_over = False

    def begun(self, *, is_typed: bool) -> None:
        """Note that the stop has begun.

        Args:
            is_typed: True if a key did it, which the terminal has shown as ^C.
        """
        self._loop.call_soon_threadsafe(self._on_begun, is_typed)

    def abandoned(self) -> None:
        """Note that nothing is waited for any more; if the loop has not even noticed the first press, say why."""
        if not self._is_noticed:
            place = place_of_thread(threading.get_ident())
            say_at_once(f"\n■ the event loop is blocked at {place} (Ctrl-C again leaves)\n")
        self._loop.call_soon_threadsafe(self._on_abandoned)

    def _on_begun(self, is_typed: bool) -> None:  # noqa: FBT001 - the loop passes on positions only
        self._is_noticed = True
        if self._is_over:
            return
        if is_typed:
            self._screen.note_echo()
        else:
            self._timers.append(self._loop.call_later(self._grace, self._abandon))
        self._tell_soon("stopping", "abandons it")

    def _on_abandoned(self) -> None:
        if self._is_over:
            return
        self._screen.note_echo()
        self._stop_timers()
        self._tell_soon("abandoning", "leaves")

    def _abandon(self) -> None:
        self._handle.cancel(CancelReason("shutdown", "the grace is over"), urgency=Urgency.ABANDON)

    def _tell_soon(self, what: str, what_next: str) -> None:
        self._timers.append(self._loop.call_later(_PATIENCE, self._tell, what, what_next))

    def _tell(self, what: str, what_next: str) -> None:
        names = ", ".join(call.name for call in self._renderer.running)
        self._screen.line(f"■ {what} {names or 'the reply'}… (Ctrl-C again {what_next})", "yellow")

    def _stop_timers(self) -> None:
        for timer in self._timers:
            timer.cancel()

    def last_words(self) -> str:
        """Say what is left behind by who does not wait."""
        calls = ", ".join(map(call_text, self._renderer.running))
        if not calls:
            return "■ left before the reply had stopped; no tool was running"
        return f"■ left at once; still running, effect unknown: {calls}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._is_over = True
        self._stop_timers()
