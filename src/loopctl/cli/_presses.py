"""What a Ctrl-C and a SIGTERM mean at each moment of the command.

| moment | Ctrl-C | SIGTERM |
|---|---|---|
| something runs | stops it, then abandons it, then ends the process (130) | stops it and ends (143); the next at once |
| a message was just sent | stops its run, which is about to begin | as if at the next prompt |
| the prompt waits | warns; the next one leaves | leaves (143) |
| between those, in a chat | as if at the next prompt | as if at the next prompt |
| starting and ending | ends the process (130) | ends the process (143) |

Rules: everything here runs inside of a signal handler, which may have interrupted any line: no locks, no output but
the last words, which pass by all buffers, and nothing is raised, so that no code of a tool can swallow it and no
traceback can come of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from loopctl.cli._exit import INTERRUPTED, TERMINATED, end_now
from loopctl.cli._terminal import say_at_once
from loopctl.record import CancelReason, Urgency

__all__ = ["LeaveWarning", "Presses", "StopListener"]

_CTRL_C = CancelReason("user", "Ctrl-C", "SIGINT")
_ABANDONED = 2
_WARNED_FOR = 5.0
"""Seconds in which the second Ctrl-C at the prompt leaves."""


class Cancel(Protocol):
    """Cancels what runs; called in a signal handler."""

    def __call__(self, reason: CancelReason, /, *, urgency: Urgency) -> object: ...


class StopListener(Protocol):
    """Follows a stop; called in a signal handler."""

    def begun(self, *, is_typed: bool) -> None:
        """The stop was asked for; *is_typed* by a key."""

    def abandoned(self) -> None:
        """It was asked for again, by a key: nothing is waited for any more."""

    def last_words(self) -> str:
        """Say what is left behind, since the process ends now."""
        raise NotImplementedError


class LeaveWarning:
    """The state between the first Ctrl-C at the prompt and the second, which leaves."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Begin unarmed; *clock* gives seconds."""
        self._clock = clock
        self._armed_at: float | None = None

    @property
    def is_armed(self) -> bool:
        """True if Ctrl-C leaves now: the person was warned, and not long ago."""
        return self._armed_at is not None and self._clock() - self._armed_at < _WARNED_FOR

    def arm(self) -> None:
        """The person was warned."""
        self._armed_at = self._clock()

    def disarm(self) -> None:
        """The person has done something else."""
        self._armed_at = None


class Presses:
    """Takes the signals of the process; give it to `loopctl.concurrency.interrupts`."""

    def __init__(self) -> None:
        """Begin as a command that starts."""
        self._cancel: Cancel | None = None
        self._wake: Callable[[], object] | None = None
        self._listener: StopListener | None = None
        self._strength = 0
        """1 once what runs was stopped, 2 once it was abandoned."""
        self._is_chatting = False
        self._is_pressed = False
        self.is_used = False
        """True once any signal came."""
        self.put_back: Callable[[], object] | None = None
        """Puts the terminal back, for an end of the process that runs nothing else."""
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
    def running(self, cancel: Cancel, listener: StopListener | None = None) -> Iterator[None]:
        """Stop by *cancel* while the block runs, harder each time, and tell *listener*.

        A Ctrl-C that came since the message was given counts: it was meant for what begins now.
        """
        self._strength = 0
        self._listener = listener
        self._cancel = cancel
        if self.take():
            self._stop(cancel, _CTRL_C, is_termination=False)
        try:
            yield
        finally:
            self._cancel = None
            self._listener = None

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

    def press(self) -> None:
        """Take a Ctrl-C that came as a character, behind a message."""
        self._is_pressed = True

    @property
    def has_news(self) -> bool:
        """True if a signal came that nobody has taken."""
        return self._is_pressed or self.is_terminated

    def take(self) -> bool:
        """Tell whether Ctrl-C was pressed since the last look."""
        was_pressed, self._is_pressed = self._is_pressed, False
        return was_pressed

    def _stop(self, cancel: Cancel, reason: CancelReason, *, is_termination: bool) -> None:
        if is_termination:
            self._terminate(cancel, reason)
            return
        self._strength += 1
        if self._strength > _ABANDONED:
            self._leave(TERMINATED if self.is_terminated else INTERRUPTED)
        is_first = self._strength < _ABANDONED
        if self._listener is not None:
            if is_first:
                self._listener.begun(is_typed=True)
            else:
                self._listener.abandoned()
        cancel(reason, urgency=Urgency.STOP if is_first else Urgency.ABANDON)

    def _terminate(self, cancel: Cancel, reason: CancelReason) -> None:
        if self.is_terminated:
            self._leave(TERMINATED)
        self.is_terminated = True
        self._strength = max(1, self._strength)
        if self._listener is not None:
            self._listener.begun(is_typed=False)
        cancel(reason, urgency=Urgency.STOP)

    def _leave(self, code: int) -> None:
        try:
            if self._listener is not None:
                say_at_once(f"\n{self._listener.last_words()}\n")
            if self.put_back is not None:
                self.put_back()
        finally:
            end_now(code)

    def _note(self, *, is_termination: bool) -> None:
        if is_termination and self.is_terminated:
            self._leave(TERMINATED)
        self.is_terminated = self.is_terminated or is_termination
        self._is_pressed = self._is_pressed or not is_termination
        if self._wake is not None:
            self._wake()
