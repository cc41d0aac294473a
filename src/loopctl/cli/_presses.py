"""What a Ctrl-C and a SIGTERM mean at each moment of the command.

| moment | Ctrl-C | SIGTERM |
|---|---|---|
| something runs | stops it; the next one ends the process (130) | stops it and ends (143); the next ends at once |
| the prompt waits | warns; the next one leaves | leaves (143) |
| between those, in a chat | as if at the next prompt | as if at the next prompt |
| starting and ending | ends the process (130) | ends the process (143) |

Rules: everything here runs inside of a signal handler, which may have interrupted any line: no locks, no output, and
nothing is raised, so that no code of a tool can swallow it and no traceback can come of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from loopctl.cli._exit import INTERRUPTED, TERMINATED, end_now
from loopctl.record import CancelReason

__all__ = ["Presses"]


class Presses:
    """Takes the signals of the process; give it to `loopctl.concurrency.interrupts`."""

    def __init__(self) -> None:
        """Begin as a command that starts."""
        self._cancel: Callable[[CancelReason], object] | None = None
        self._wake: Callable[[], object] | None = None
        self._is_stopping = False
        self._is_chatting = False
        self._is_pressed = False
        self.is_used = False
        """True once any signal came."""
        self.is_terminated = False
        """True once SIGTERM came: the command ends as soon as what runs has ended."""

    def __call__(self, reason: CancelReason) -> None:
        """Take one signal."""
        self.is_used = True
        is_termination = reason.origin == "shutdown"
        if self._cancel is not None:
            self._stop(self._cancel, reason, is_termination=is_termination)
        elif self._is_chatting:
            self._note(is_termination=is_termination)
        else:
            end_now(TERMINATED if is_termination else INTERRUPTED)

    @contextmanager
    def running(self, cancel: Callable[[CancelReason], object]) -> Iterator[None]:
        """Stop by *cancel* while the block runs; the second signal ends the process."""
        self._is_stopping = False
        self._cancel = cancel
        try:
            yield
        finally:
            self._cancel = None

    @contextmanager
    def chatting(self) -> Iterator[None]:
        """Keep the signals for the next prompt while the block runs."""
        self._is_chatting = True
        try:
            yield
        finally:
            self._is_chatting = False

    @contextmanager
    def prompting(self, wake: Callable[[], object]) -> Iterator[None]:
        """Call *wake* for a signal while the block runs."""
        self._wake = wake
        try:
            yield
        finally:
            self._wake = None

    def take(self) -> bool:
        """Tell whether Ctrl-C was pressed since the last look."""
        was_pressed, self._is_pressed = self._is_pressed, False
        return was_pressed

    def _stop(self, cancel: Callable[[CancelReason], object], reason: CancelReason, *, is_termination: bool) -> None:
        if self._is_stopping:
            end_now(TERMINATED if is_termination or self.is_terminated else INTERRUPTED)
        self._is_stopping = True
        self.is_terminated = self.is_terminated or is_termination
        cancel(reason)

    def _note(self, *, is_termination: bool) -> None:
        if is_termination and self.is_terminated:
            end_now(TERMINATED)
        self.is_terminated = self.is_terminated or is_termination
        self._is_pressed = self._is_pressed or not is_termination
        if self._wake is not None:
            self._wake()
