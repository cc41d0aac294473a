"""The two faces: `CancelSignal`, which cancels, and `CancelToken`, which is only asked.

Invariants of `CancelSignal`:

1. A signal is a row of tokens, numbered; `_tokens` holds the last of them under the greatest number, which is the
   current one. `reset` appends by one `setdefault`, so of two resets one wins and both end at the same token; lower
   numbers are swept out, and one that a slow reset enters late is below the greatest and never current.
2. `_token` is a hint: whatever is stored there was current at some time. Only a fired token is ever replaced, so an
   unfired hint *is* the current token, and a poll of an unfired signal costs two attributes. A fired hint is checked.
"""

from __future__ import annotations

import inspect
import threading
from abc import abstractmethod
from collections.abc import Callable
from typing import Final, NoReturn, final

from loopctl.cancel._deadline import deadline_reason, seconds_of, start_deadline
from loopctl.cancel._fire import fire
from loopctl.cancel._latch import Latch, level_of
from loopctl.cancel._links import detach, link
from loopctl.cancel._notified import Notified
from loopctl.cancel._registration import Callback, Registration, ThreadWaiter
from loopctl.errors import Cancelled, UsageError
from loopctl.record import CancelReason, Urgency

__all__ = ["CancelSignal", "CancelToken", "Readable", "token_of"]

_DRAIN: Final = Urgency.DRAIN
_ASYNC: Final = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


class Readable:
    """What can be asked of a signal and of a token alike.

    There is no truth value: `if signal:` is always true. Ask `signal.is_cancelled()`.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def token(self) -> CancelToken:
        """The current one-shot token: the read side, which can be handed to anybody."""

    @abstractmethod
    def is_cancelled(self, at_least: Urgency = _DRAIN) -> bool:
        """Poll: has it been cancelled, with the urgency *at_least* or a stronger one?"""

    @property
    def reason(self) -> CancelReason | None:
        """The first cause; None if not cancelled."""
        first = self.token._first()
        return first.reason if first is not None else None

    @property
    def urgency(self) -> Urgency | None:
        """The urgency now, which only rises; None if not cancelled."""
        level = self.token._reached.count(True)
        return Urgency(level) if level else None

    def raise_if_cancelled(self, at_least: Urgency = _DRAIN) -> None:
        """Poll, and raise if it has been cancelled.

        Raises:
            Cancelled: It has, with the urgency *at_least* or a stronger one.
        """
        token = self.token
        if token.is_cancelled(at_least):
            raise Cancelled(token._causes()[0].reason)

    def notified(self, *, at_least: Urgency = _DRAIN) -> Notified:
        """Give an awaitable that ends when the token that is current *now* is cancelled, or was.

        A cancel between this call and the await is seen, and a later `reset` does not strand the waiter.

        Args:
            at_least: The least urgency to end for.

        Returns:
            An awaitable that gives the first `CancelReason`. It may be awaited more than once and from several tasks
            and loops, or not at all.

        Cancellation:
            Awaiting it is a wait for the cancel itself. If the waiting task is cancelled, its waiter is taken out and
            nothing is lost.
        """
        return Notified(self.token, level_of(at_least))

    def wait(self, timeout: float | None = None, *, at_least: Urgency = _DRAIN) -> bool:
        """Block this thread until the token that is current now is cancelled.

        Args:
            timeout: Seconds to wait at most; None is without bound, zero or less only looks.
            at_least: The least urgency to end for.

        Returns:
            True if it is cancelled, False if the time was over first.

        Raises:
            UsageError: *timeout* is no number of seconds.
        """
        seconds = -1.0 if timeout is None else min(max(seconds_of(timeout, "timeout"), 0.0), threading.TIMEOUT_MAX)
        token, level = self.token, level_of(at_least)
        if not token._reached[level] and seconds != 0:
            waiter = ThreadWaiter(token, level)
            try:
                waiter._arm()
                waiter.wait(seconds)
            finally:
                detach(waiter)
        return token._reached[level]

    def on_cancel(self, callback: Callable[[], object], *, at_least: Urgency = _DRAIN) -> Registration:
        """Have *callback* called, once, when the token that is current now is cancelled; at once if it has been.

        It is called without arguments, inline in whatever thread, signal handler or finalizer cancels, in the context
        variables of this call. So it should be short, and must not wait for a lock that the interrupted code may hold.
        The newest registration is called first. What `Exception` it raises is logged.

        Args:
            callback: A plain function.
            at_least: The least urgency to be called for.

        Returns:
            The registration, to call it off with. Dropping it does not.

        Raises:
            UsageError: *callback* is a coroutine function, or cannot be called.
        """
        _check_callback(callback)
        registration = Callback(self.token, level_of(at_least), callback)
        registration._arm()
        return registration

    def child(self) -> CancelSignal:
        """Give a signal that is cancelled with this one's current token; its own cancel does not reach this one.

        A child that nobody holds and nobody observes vanishes; one that is observed stays.
        """
        return CancelSignal._below(self.token)

    def __repr__(self) -> str:
        """Say whether it is cancelled, why, and how many observe it."""
        token = self.token
        state = f"{self.urgency.name}, {self.reason}" if self.urgency is not None else "not cancelled"
        sealed = ", sealed" if token._is_sealed() else ""
        return f"<{type(self).__name__}: {state}{sealed}, {len(token._entries)} observers, {len(token._kids)} children>"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Refuse to be copied or pickled: a copy would be told of nothing.

        Raises:
            TypeError: Always.
        """
        raise TypeError(
            f"a {type(self).__name__} can be neither copied nor pickled: hand on the object itself, make a child(), "
            "or send its reason"
        )


@final
class CancelToken(Latch, Readable):
    """One-shot read side of a signal: what tools get. It fires at most once, and can fire nothing itself."""

    __slots__ = ()

    @property
    def token(self) -> CancelToken:
        """Itself, so that a token can stand where a signal is asked for its token."""
        return self

    def is_cancelled(self, at_least: Urgency = _DRAIN) -> bool:
        """Poll: has it been cancelled, with the urgency *at_least* or a stronger one?"""
        return self._fired and self._reached[at_least]


@final
class CancelSignal(Readable):
    """The write side: one cheap object to cancel with, from anywhere, shared by any number of holders."""

    __slots__ = ("__weakref__", "_token", "_tokens")

    def __init__(self) -> None:
        """Make a signal that is not cancelled."""
        self._token = CancelToken()
        self._tokens = {0: self._token}

    @classmethod
    def _below(cls, *parents: CancelToken) -> CancelSignal:
        signal = cls()
        link(signal._token, parents)
        return signal

    @staticmethod
    def any_of(*signals: CancelSignal | CancelToken) -> CancelSignal:
        """Give a signal that is cancelled with the first of *signals* that is, with that one's reason.

        If several had been cancelled already, the one that was cancelled first gives the reason. Its own cancel
        reaches none of them.

        Raises:
            UsageError: One of *signals* is neither a signal nor a token.
        """
        return CancelSignal._below(*(token_of(signal) for signal in signals))

    @property
    def token(self) -> CancelToken:
        """The current one-shot token: the read side, which can be handed to anybody."""
        token = self._token
        if token._fired:
            token = self._token = self._latest()[1]
        return token

    def is_cancelled(self, at_least: Urgency = _DRAIN) -> bool:
        """Poll: has it been cancelled, with the urgency *at_least* or a stronger one?"""
        return self._token._fired and self.token._reached[at_least]

    def cancel(self, reason: CancelReason | str | None = None, *, urgency: Urgency = Urgency.STOP) -> bool:
        """Cancel: wake every waiter there is and will be, then run the callbacks.

        May be called from any thread, event loop, signal handler, finalizer or callback. It takes no lock and waits
        for nothing but the callbacks it runs. Called from a callback of the same signal, it leaves the callbacks that
        are still to come to the cancel that is running them.

        Args:
            reason: Why; a text, or None, means that the user asked. The first cause stays.
            urgency: How hard. Cancelling again with a stronger one raises it.

        Returns:
            True if this changed something: it cancelled, or it raised the urgency.

        Raises:
            UsageError: *reason* or *urgency* is of another type.
            BaseException: The first thing not derived from `Exception` that a callback raised (`KeyboardInterrupt`,
                `SystemExit`), after all of them were told.
        """
        return fire(self.token, CancelReason.of(reason), level_of(urgency))

    def cancel_after(self, seconds: float, reason: CancelReason | str | None = None) -> Registration:
        """Cancel the token that is current now in *seconds*, with origin `deadline`, unless it is called off.

        Called where an event loop runs, it is that loop's timer and clock; elsewhere one daemon thread serves all
        deadlines and runs their callbacks. It ends with its token, and keeps that alive until then.

        Args:
            seconds: From now; zero or less cancels at once.
            reason: Why; a text is the message of a `deadline`.

        Returns:
            The registration, to call it off with. Dropping it does not.

        Raises:
            UsageError: *seconds* is no number, or *reason* is of another type.
        """
        span = seconds_of(seconds, "seconds")
        return start_deadline(self.token, span, deadline_reason(reason, span))

    def reset(self) -> None:
        """Swap a fresh token in for a cancelled one; a signal that is not cancelled keeps its token.

        Waiters of the old token still end with it. What was made from it (children, registrations, deadlines) stays
        with it. A child, or an any_of, that is reset still follows those of its parents' tokens that have not been
        cancelled.
        """
        number, token = self._latest()
        if not token._reached[_DRAIN]:
            return
        fresh = CancelToken()
        link(fresh, tuple(parent for parent in token._parents if not parent._reached[_DRAIN]))
        self._tokens.setdefault(number + 1, fresh)
        number, self._token = self._latest()
        for old in list(self._tokens):
            if old < number:
                self._tokens.pop(old, None)

    def _latest(self) -> tuple[int, CancelToken]:
        """Give the current token and its number."""
        while True:
            number = max(self._tokens)
            token = self._tokens.get(number)
            if token is not None:  # else a reset has swept it out meanwhile, because there is a newer one
                return number, token


def token_of(signal: CancelSignal | CancelToken) -> CancelToken:
    """Give the current token of *signal*, or the token itself.

    Raises:
        UsageError: It is neither.
    """
    if isinstance(signal, Readable):
        return signal.token
    raise UsageError(f"a CancelSignal or a CancelToken is needed, not {signal!r}")


def _check_callback(callback: Callable[[], object]) -> None:
    """Refuse what cannot be run inline."""
    if not callable(callback):
        raise UsageError(f"on_cancel needs a function, not {callback!r}")
    code = getattr(callback, "__code__", None)
    if code is not None and not code.co_flags & _ASYNC:  # a plain function or method: the rest costs a microsecond
        return
    for candidate in (callback, type(callback).__call__):  # the latter for an object that is called like a function
        if inspect.iscoroutinefunction(candidate) or inspect.isasyncgenfunction(candidate):
            raise UsageError(f"callbacks run inline; give a plain function, not the coroutine function {callback!r}")
