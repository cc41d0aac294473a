"""Await foreign work against a token: the one place of the engine that does.

Rules:

1. The token is polled first: work is never begun when its signal has fired, and is closed unstarted. What
   urgency that takes, and what urgency stops work in flight, is a matter of the checkpoint.
2. The token's callback presses the work's own task. No task of anybody else is ever cancelled.
3. Pressed work gets the grace, then a second cancellation, then is abandoned. Each of the two gets at least 32
   turns of the loop, also at grace 0: a cooperative tree of tasks needs about 25 (docs/explanation/cancellation.md).
   Work whose grace spares it is not pressed before its end.
4. If the work and the cancel end in the same instant the cancel wins, and the value is kept in the `Ending`.
5. If the host task is cancelled the work is pressed in the same way, and a second time means "no grace". That is no
   cancel of the signal (a time limit around the host, perhaps), so it takes nothing from the grace that others share.
6. A race inside of the work is bounded by the same grace: the work is not given up before what is inside of it.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import TypeVar

from loopctl.cancel import CancelSignal, CancelToken, token_of, watch
from loopctl.concurrency._check import check_seconds
from loopctl.concurrency._drain import ends_from, refuses_from
from loopctl.concurrency._ending import Ending, How, StoppedBy, stop_reason
from loopctl.concurrency._grace import Grace, Pressure, around
from loopctl.concurrency._patience import Patience
from loopctl.concurrency._straggler import Straggler
from loopctl.concurrency._work import Work, work_of
from loopctl.record import Checkpoint, Urgency

__all__ = ["race", "supervise"]

T = TypeVar("T")

_SHARE = 0.9
"""The part of its grace that pressed work may spend on what goes on inside of it."""


class _Race:
    """One piece of work from its start to its end or its abandonment, moved on by callbacks of the loop."""

    __slots__ = (
        "_future",
        "_grace",
        "_loop",
        "_pressed",
        "_pressure",
        "_timer",
        "_work",
        "is_over",
        "straggler",
        "timed_out",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop, work: Work, grace: Grace) -> None:
        self._loop = loop
        self._work = work
        self._grace = grace
        self._future: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._pressed = 0
        self._pressure = Pressure()
        self.is_over = False
        self.timed_out = False
        self.straggler: Straggler | None = None

    async def wait(self) -> None:
        """Wait until it is over; may be called again after the host was cancelled in it."""
        if not self.is_over:
            self._future = self._loop.create_future()
            await self._future

    def begin(self, may_begin: Callable[[], bool]) -> None:
        """Begin the work, inside of which the graces depend on this race."""
        mark = around.set(self._pressure)
        try:
            self._work.start(self._loop, self.on_ended, may_begin)
        finally:
            around.reset(mark)

    def on_ended(self) -> None:
        """Note that the work has returned or raised."""
        self._finish()

    def on_signal(self) -> None:
        """Press the work, unless it may finish: the signal fired."""
        now = self._loop.time()
        self._press_or_spare(now, self._grace.deadline(now))

    def on_host(self) -> None:
        """Press the work, unless it may finish: the host was cancelled."""
        now = self._loop.time()
        self._press_or_spare(now, self._grace.apart(now))

    def _press_or_spare(self, now: float, deadline: float) -> None:
        spared_until = self._grace.spared_until(now)
        if spared_until is None or self._pressed:
            self._press_until(deadline)
        elif not self.is_over and self._timer is None:
            self._timer = self._loop.call_at(spared_until, self._on_spared)

    def _on_spared(self) -> None:
        self._timer = None
        self.on_abandon()

    def on_expired(self) -> None:
        """Press the work: a time limit was passed. Not the run's grace: the run goes on."""
        self.timed_out = True
        self._press_until(self._grace.apart(self._loop.time()))

    def on_abandon(self) -> None:
        """Press the work and give it no grace."""
        self._press_until(self._loop.time())

    def stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _press_until(self, deadline: float) -> None:
        if self.is_over:
            return
        if self._work.is_ended() or not self._work.can_unwind:
            self._abandon()
            return
        now = self._loop.time()
        self._pressure.until = min(self._pressure.until, now + _SHARE * (deadline - now))
        if not self._pressed:
            self._press()
        if self._pressed == 1 and (self._timer is None or deadline < self._timer.when()):
            self.stop_timer()
            self._timer = self._loop.call_at(deadline, self._count, self._work.turns)

    def _press(self) -> None:
        self._pressed += 1
        self._work.interrupt()

    def _count(self, turns: int) -> None:
        if self.is_over:
            return
        if turns:
            self._loop.call_soon(self._count, turns - 1)
        elif self._pressed == 1:
            self._press()
            self._count(self._work.turns)
        elif not self._work.hold(lambda: self._count(self._work.turns)):
            self._abandon()

    def _abandon(self) -> None:
        if not self._work.is_ended():
            self.straggler = self._work.abandon()
        self._finish()

    def _finish(self) -> None:
        self.is_over = True
        self._pressure.until = math.inf  # what it has left behind holds nobody up any more
        self.stop_timer()
        if self._future is not None and not self._future.done():
            self._future.set_result(None)


async def supervise(
    work: Work,
    token: CancelToken,
    *,
    grace: Grace,
    at: Checkpoint | None = None,
    patience: Patience | None = None,
    refused_from: Urgency | None = None,
) -> Ending:
    """Do *work* unless *token* fires first, and say how it ended.

    Args:
        work: Owned from here on, on every path.
        token: What may stop it.
        grace: How long pressed work may take to unwind.
        at: The checkpoint that this wait is; it says from which urgency the token acts.
        refused_from: The urgency from which *work* is not begun; None is what the checkpoint says. Work inside of other
            work that a drain lets finish is begun up to STOP.
        patience: Time limits; passing one presses the work as a cancel does, but a cancel wins over it.

    Returns:
        How it ended. Nothing is raised for the work or for the cancel: see `Ending`.

    Cancellation:
        A checkpoint. If the host task is cancelled the work gets the same bounded treatment and the error is in
        `Ending.host_error`, for the caller to raise after it has recorded what there is.
    """
    refused_from = refused_from or refuses_from(at)
    if token.is_cancelled(at_least=refused_from):
        work.discard()
        return Ending("not_started", stopped_by="signal", reason=stop_reason(token), at=at)
    loop = asyncio.get_running_loop()
    race = _Race(loop, work, grace)
    host_error: asyncio.CancelledError | None = None
    race.begin(lambda: not token.is_cancelled(at_least=refused_from))
    if patience is not None:
        patience.start(loop, race.on_expired)
    stopped = watch(token, loop, race.on_signal, at_least=ends_from(at))
    abandoned = watch(token, loop, race.on_abandon, at_least=Urgency.ABANDON)
    try:
        while not race.is_over:
            try:
                await race.wait()
            except asyncio.CancelledError as error:
                if host_error is None:
                    host_error = error
                    race.on_host()
                else:
                    race.on_abandon()
    finally:
        stopped.close()
        abandoned.close()
        race.stop_timer()
        if patience is not None:
            patience.stop()
    return _ending(race, work, token, at=at, host_error=host_error)


def _ending(
    race: _Race,
    work: Work,
    token: CancelToken,
    *,
    at: Checkpoint | None,
    host_error: asyncio.CancelledError | None,
) -> Ending:
    stopped_by: StoppedBy | None = None
    reason = None
    if token.is_cancelled(at_least=ends_from(at) if work.has_begun() else refuses_from(at)):
        stopped_by, reason = "signal", stop_reason(token)
    elif host_error is not None:
        stopped_by = "host"
    elif race.timed_out:
        stopped_by = "timeout"
    value, error = work.result() if work.is_ended() else (None, None)
    return Ending(_how(race, work, error), value, error, stopped_by, reason, at, race.straggler, host_error)


def _how(race: _Race, work: Work, error: BaseException | None) -> How:
    if not work.is_ended():
        return "abandoned" if race.straggler is not None else "left"
    if error is None:
        return "returned"
    if not isinstance(error, asyncio.CancelledError):
        return "raised"
    return "unwound" if work.has_begun() else "not_started"


async def race(work: Awaitable[T], signal: CancelSignal | CancelToken, grace: float = 1.0) -> T:
    """Await *work* unless *signal* fires first.

    Args:
        work: A coroutine is owned: it runs in a task of its own and is closed on every path. A `Task` or `Future`
            of somebody else is left running, never cancelled.
        signal: What may stop it; acts from `Urgency.STOP`.
        grace: Seconds that a stopped coroutine gets to unwind; then it gets a second cancellation, then it is
            abandoned: it goes on by itself, its end is taken and dropped. At `Urgency.ABANDON` there is none.

    Returns:
        What *work* returned.

    Raises:
        Cancelled: The signal had fired before, during, or in the same instant as the end of *work*.
        UsageError: *work* cannot be awaited, or *grace* is not a number of seconds.

    Cancellation:
        A checkpoint. With the signal already fired, *work* is closed unstarted. If your own task is cancelled,
        *work* gets the same grace, then `asyncio.CancelledError` goes on to you; a second time ends the grace.
    """
    seconds = check_seconds("grace", grace)
    ending = await supervise(work_of(work), token_of(signal), grace=Grace(seconds))
    value: T = ending.unwrap()
    return value
