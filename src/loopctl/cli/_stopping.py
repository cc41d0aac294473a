"""What is said while a stop takes its time, and when nobody waits for it.

Rules: a stop that ends quickly says nothing of its own; `begun` and `last_words` run in a signal handler.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

from loopctl.cli._render import Renderer, call_text
from loopctl.cli._screen import Screen

__all__ = ["Stopping"]

_PATIENCE = 0.1
"""Seconds in which a stop is over that nobody needs to hear about."""


class Stopping:
    """The stop of one run, as a person sees it; use it with `with` around the run."""

    def __init__(self, screen: Screen, renderer: Renderer) -> None:
        """Tell on *screen* of the calls that *renderer* has seen begin."""
        self._screen = screen
        self._renderer = renderer
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._is_over = False

    def begun(self, *, is_typed: bool) -> None:
        """Note that the stop has begun.

        Args:
            is_typed: True if a key did it, which the terminal has shown as ^C.
        """
        self._loop.call_soon_threadsafe(self._on_begun, is_typed)

    def _on_begun(self, is_typed: bool) -> None:  # noqa: FBT001 - the loop passes on positions only
        if self._is_over:
            return
        if is_typed:
            self._screen.note_echo()
        self._timer = self._loop.call_later(_PATIENCE, self._tell)

    def _tell(self) -> None:
        names = ", ".join(call.name for call in self._renderer.running)
        self._screen.line(f"■ stopping {names or 'the reply'}… (Ctrl-C again leaves)", "yellow")

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
        if self._timer is not None:
            self._timer.cancel()
