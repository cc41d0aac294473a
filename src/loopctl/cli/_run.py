"""`loopctl run`: one run for scripts.

Rules: stdout carries the text, or the record, or the events, and nothing else (`_main` sends what others print to
stderr). Each ending is told by the exit code, and in the record and the events also by themselves.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TextIO

from loopctl.cli._amount import Amount
from loopctl.cli._events import json_line
from loopctl.cli._exit import COMPLETED, FAILED, code_of, silence
from loopctl.cli._options import Shape
from loopctl.cli._presses import Presses
from loopctl.cli._render import Renderer
from loopctl.cli._report import failure_line, one_line, stop_line
from loopctl.cli._screen import Screen, put
from loopctl.cli._setup import is_still_busy
from loopctl.cli._stopping import Stopping
from loopctl.driver import RunHandle, Session
from loopctl.record import CancelReason, Event, Run, TextDelta, event_to_json

__all__ = ["run_once"]

_GONE = CancelReason("disconnect", "stdout was closed", "stdout")


async def run_once(session: Session, text: str, shape: Shape, presses: Presses, stdout: TextIO) -> int:
    """Run *session* on *text* and print on *stdout* what *shape* says.

    Returns:
        The exit code.

    Cancellation:
        Cancels the run, waits for its end, and prints nothing more.
    """
    notes = Screen(sys.stderr, os.environ)
    writer = _Writer(stdout, notes, shape)
    async with session.start(text) as handle:
        stopping = Stopping(notes, writer.renderer, handle, session.agent.config.grace)
        with stopping, presses.running(handle.cancel, stopping):
            run = await _follow(handle, writer)
    is_written = writer.end(run)
    if run.stop is not None:
        busy = await is_still_busy(session.agent.model, run)
        notes.tell(f"loopctl: {stop_line(run, writer.shown, is_busy=busy)}", "yellow")
    elif run.error is not None:
        notes.tell(f"loopctl: {failure_line(run)}", "red")
    if run.store_error is not None:
        notes.tell(f"loopctl: {one_line(str(run.store_error))}", "red")
    return code_of(run) or (COMPLETED if is_written else FAILED)


async def _follow(handle: RunHandle, writer: _Writer) -> Run:
    async for event in handle:
        if not writer.take(event):
            handle.cancel(_GONE)
            break
    return await handle


class _Writer:
    """Writes one run to stdout in one of the three shapes, and its notes to stderr."""

    def __init__(self, stdout: TextIO, notes: Screen, shape: Shape) -> None:
        self._stdout = stdout
        self._shape = shape
        self._text = Screen(stdout, os.environ)
        self._notes = notes
        self.renderer = Renderer(self._text, notes)

    @property
    def shown(self) -> Amount | None:
        """How much text was shown; None if the text was not shown as text."""
        return self.renderer.amount if self._shape == "text" else None

    def take(self, event: Event) -> bool:
        """Write *event*; False if nobody reads stdout any more."""
        if self._shape == "events":
            self.renderer.follow(event)
            return self._try(lambda: self._put(json_line(event_to_json(event))))
        if self._shape == "text" or not isinstance(event, TextDelta):
            return self._try(lambda: self.renderer.take(event))
        return True

    def end(self, run: Run) -> bool:
        """Write what is written at the end; False if nobody reads stdout any more."""
        self._notes.erase()
        if self._shape == "json":
            return self._try(lambda: self._put(json_line(run.to_json())))
        return self._try(self._text.fresh)

    def _put(self, line: str) -> None:
        put(self._stdout, line)

    def _try(self, write: Callable[[], None]) -> bool:
        try:
            write()
        except BrokenPipeError:
            silence(self._stdout)
            return False
        return True
