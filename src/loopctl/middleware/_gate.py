"""A gate that lets so many requests through in a period, or so many at once; for any number of loops and threads.

Rules:

1. Nobody is handed a permit: who waits is woken to look, and takes it by itself if it is first in the queue and there
   is room. So a permit cannot be lost between a giver and a taker that was cancelled meanwhile.
2. The queue is in the order of arrival. Who leaves it, served or cancelled, wakes the next one.
3. The lock is held for a look and never over an await or a call of foreign code.
4. In a fork nothing is held and nobody waits: that is the parent's.
5. A place that is held on a loop that was closed is free: nothing will ever end there. A closed loop tells nobody, so
   who depends on another loop looks again by itself.

Source: no library, because the limiters of asyncio, anyio and aiolimiter are each bound to one loop. The first two hand
permits over, and aiolimiter lets up to twice the limit through in a period.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
import weakref
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import TypeAlias

from loopctl.cancel import CancelSignal, CancelToken, token_of
from loopctl.concurrency import ForeignWork, Grace, Patience, check_count, check_seconds, clock_of, poll, supervise
from loopctl.errors import UsageError
from loopctl.middleware._model import ModelNext
from loopctl.model import Delta, ModelRequest
from loopctl.record import Checkpoint

__all__ = ["RateGate"]

_Declare: TypeAlias = Callable[[float | None, str], AbstractContextManager[None]]

_gates: weakref.WeakSet[RateGate] = weakref.WeakSet()

_LOOK_AGAIN = 1.0
"""Seconds after which who depends on another loop looks whether that still runs."""


class RateGate:
    """Limits model requests, in all the agents and sessions that share it; use it as middleware.

    Each attempt of a request needs a permit, retries too. `requests` and `per` bound how many begin in any period of
    that length; `concurrent` bounds how many are open at once, and an abandoned one counts until it has really ended.
    """

    def __init__(self, requests: int | None = None, per: float = 60.0, *, concurrent: int | None = None) -> None:
        """Open the gate.

        Args:
            requests: Permits in any *per* seconds, 1 or more; None is no limit.
            per: The length of the period in seconds, more than 0.
            concurrent: Permits that may be held at once, 1 or more; None is no limit.

        Raises:
            UsageError: A value is out of its range, or there is no limit at all.
        """
        for name, value in (("requests", requests), ("concurrent", concurrent)):
            if value is not None:
                check_count(f"RateGate({name}=…)", value)
        if requests is None and concurrent is None:
            raise UsageError("RateGate limits nothing: give requests=, concurrent=, or both")
        self.requests: int | None = requests
        self.per: float = check_seconds("RateGate(per=…)", per)
        if self.per == 0:
            raise UsageError("RateGate(per=…) is more than 0 seconds")
        self.concurrent: int | None = concurrent
        self._begun: deque[float] = deque(maxlen=min(requests or 0, sys.maxsize))
        """When the last of them were let through; not more than the limit."""
        self._begin()
        _gates.add(self)

    def _begin(self) -> None:
        """Let nobody hold anything, and nobody wait."""
        self._lock = threading.RLock()  # a signal handler, or the collector, may come here in the middle of a look
        self._queue: deque[_Ticket] = deque()
        self._held: set[_Ticket] = set()

    @property
    def waiting(self) -> int:
        """How many wait now."""
        return len(self._queue)

    @property
    def held(self) -> int:
        """How many have a permit now."""
        return len(self._held)

    def permit(self, signal: CancelSignal | CancelToken) -> Permit:
        """Give what waits for a permit and holds it: `async with gate.permit(signal): …`, for other work than models.

        Args:
            signal: Ends the wait, from `Urgency.DRAIN` on.
        """
        return Permit(self, token_of(signal), lambda _seconds, _why: nullcontext())

    async def model_call(self, request: ModelRequest, call_next: ModelNext) -> AsyncGenerator[Delta, None]:
        """Pass the request on when there is room, and hold the permit until the reply has really ended.

        Cancellation:
            The checkpoint `STREAM_WAIT` while it waits.
        """
        permit = Permit(self, call_next.signal, call_next.waiting)
        await permit.take()
        deltas = call_next(request)
        try:
            async for delta in deltas:
                yield delta
        finally:
            try:
                await deltas.aclose()
            finally:
                permit.release()

    def _enter(self, ticket: _Ticket) -> float | None:
        """Put *ticket* at the end of the queue; what `_look` says then."""
        with self._lock:
            self._queue.append(ticket)
            return self._look(ticket)

    def _look(self, ticket: _Ticket) -> float | None:
        """Take the permit if it is there.

        Returns:
            None if it is taken; else seconds after which to look again, infinite if *ticket* will be woken.
        """
        with self._lock:
            self._forget_closed()
            wait = 0.0 if self._queue[0] is ticket else float("inf")
            if not wait:
                wait = self._until_room(self._now(ticket))
            if not wait:
                self._queue.popleft()
                self._held.add(ticket)
                self._begun.append(ticket.now())
                self._wake()
                return None
            ticket.renew()
            is_alone = all(other.loop is ticket.loop for other in (*self._held, *self._queue))
            return wait if is_alone else min(wait, _LOOK_AGAIN)

    def _now(self, ticket: _Ticket) -> float:
        """The time of *ticket*; what began later than that began on another clock, and counts as begun now."""
        now = ticket.now()
        if self._begun and max(self._begun) > now:
            self._begun = deque((min(begun, now) for begun in self._begun), self._begun.maxlen)
        return now

    def _until_room(self, now: float) -> float:
        if self.concurrent is not None and len(self._held) >= self.concurrent:
            return float("inf")
        return self._until_turn(0, now)

    def _until_turn(self, before: int, now: float) -> float:
        """Seconds until the rate allows one more, if *before* others go first."""
        if self.requests is None:
            return 0.0
        free = self.requests - len(self._begun)
        if before < free:
            return 0.0
        periods, index = divmod(before - free, self.requests)
        begun = (*self._begun, *([now] * free))[index]
        return max(0.0, begun + self.per * (periods + 1) - now)

    def _expected(self, ticket: _Ticket) -> float | None:
        """How long *ticket* will wait; None if that depends on when others end."""
        with self._lock:
            if self.concurrent is not None or ticket not in self._queue:
                return None
            return self._until_turn(self._queue.index(ticket), self._now(ticket))

    def _leave(self, ticket: _Ticket) -> None:
        """Give the permit back, or the place in the queue."""
        with self._lock:
            self._held.discard(ticket)
            with contextlib.suppress(ValueError):
                self._queue.remove(ticket)
            self._wake()

    def _wake(self) -> None:
        self._forget_closed()
        if self._queue:
            self._queue[0].wake()

    def _forget_closed(self) -> None:
        self._held = {ticket for ticket in self._held if not ticket.loop.is_closed()}
        while self._queue and self._queue[0].loop.is_closed():
            self._queue.popleft()

    def __repr__(self) -> str:
        """Give the limits and the state."""
        rate = "" if self.requests is None else f"{self.requests} in {self.per:g} s, "
        most = "" if self.concurrent is None else f"{self.concurrent} at once, "
        return f"<RateGate {rate}{most}{self.held} open, {self.waiting} waiting>"


class Permit:
    """One permit of a gate, in an `async with`; can be used once."""

    __slots__ = ("_declare", "_gate", "_ticket", "_token")

    def __init__(self, gate: RateGate, token: CancelToken, declare: _Declare) -> None:
        """Ask *gate*, unless *token* fires first; *declare* is told of a wait."""
        self._gate = gate
        self._token = token
        self._declare = declare
        self._ticket: _Ticket | None = None

    async def take(self) -> None:
        """Wait for the permit.

        Raises:
            Cancelled: The signal fired; no permit was taken.

        Cancellation:
            The checkpoint `STREAM_WAIT`. The place in the queue is given up.
        """
        if self._ticket is not None:
            raise UsageError("a permit is used once: ask the gate for another one")
        poll(self._token, Checkpoint.STREAM_WAIT)
        ticket = self._ticket = _Ticket(asyncio.get_running_loop())
        gate = self._gate
        try:
            wait = gate._enter(ticket)
            if wait is not None:
                with self._declare(gate._expected(ticket), "gate"):
                    await self._until_taken(ticket, wait)
        except BaseException:
            gate._leave(ticket)
            raise

    async def _until_taken(self, ticket: _Ticket, seconds: float) -> None:
        wait: float | None = seconds
        while wait is not None:
            await self._wait(ticket, wait)
            wait = self._gate._look(ticket)

    async def _wait(self, ticket: _Ticket, seconds: float) -> None:
        ending = await supervise(
            ForeignWork(ticket.future),
            self._token,
            grace=Grace(0),
            at=Checkpoint.STREAM_WAIT,
            patience=Patience(None if seconds == float("inf") else seconds),
        )
        ending.raise_if_stopped()

    def release(self) -> None:
        """Give the permit back; idempotent."""
        if self._ticket is not None:
            self._gate._leave(self._ticket)

    async def __aenter__(self) -> None:
        """Wait for the permit, as `take` does.

        Cancellation:
            The checkpoint `STREAM_WAIT`. The place in the queue is given up.
        """
        await self.take()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Give the permit back.

        Cancellation:
            Never suspends.
        """
        self.release()


class _Ticket:
    """One place in the queue, and then one permit."""

    __slots__ = ("future", "loop", "now")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.now = clock_of(loop)
        self.future: asyncio.Future[None] = loop.create_future()

    def renew(self) -> None:
        """Be ready to be woken once more; called on its own loop."""
        if self.future.done():
            self.future = self.loop.create_future()

    def wake(self) -> None:
        """Let it look; from any thread."""
        with contextlib.suppress(RuntimeError):  # its loop is closed: it is forgotten at the next look
            self.loop.call_soon_threadsafe(self._resolve)

    def _resolve(self) -> None:
        if not self.future.done():
            self.future.set_result(None)


def _forget_parents() -> None:
    """In a fork: another thread of the parent may hold a permit, or a lock, and will never give it back here."""
    for gate in list(_gates):
        gate._begin()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_parents)
