"""The sweep: stops a run at every scheduling step, by every hand, and checks each time what is promised of a stop.

Rules: every run has a loop and a session of its own; the first one is not stopped and counts the steps; a broken
promise is reported with its step, hand and timing, so that it can be run again alone.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from loopctl.cancel import CancelSignal
from loopctl.driver import RunHandle, Session
from loopctl.messages import find_problems
from loopctl.record import (
    ApprovalEnded,
    ApprovalRequested,
    CancelReason,
    Event,
    Run,
    RunEnded,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnStarted,
)
from loopctl.testing._errors import SimulationError
from loopctl.testing._loop import VirtualLoop
from loopctl.testing._run import virtual_run

__all__ = ["Hand", "Stopped", "SweepFailed", "Timing", "cancel_everywhere"]

Hand: TypeAlias = Literal["handle", "session", "signal", "twice"]
"""Who stops: the run's handle, the session's signal, a signal given to `start`, the session's signal two times."""
Timing: TypeAlias = Literal["before", "at"]
"""When: just before the step runs, or behind what is ready in the same turn of the loop."""

_SHOWN = 5
_CLOSINGS = (ApprovalEnded, ToolFinished, TurnEnded, RunEnded)
"""What may be told after a cancel."""
_PAIRS = ((ToolStarted, ToolFinished), (ApprovalRequested, ApprovalEnded), (TurnStarted, TurnEnded))


class SweepFailed(SimulationError):
    """A promise was broken at some step; the text names the first ones."""


@dataclass
class Stopped:
    """One run of the scenario, and the stop that it got."""

    session: Session
    hand: Hand
    timing: Timing
    step: int | None
    """The step it was stopped at; None for the run that counts them."""
    events: list[Event] = field(default_factory=list)
    steps: int = 0
    """Steps that the loop had taken when the run had ended; 0 while it runs."""
    told_before: int = 0
    """Events that had been told when the stop came."""
    answer: bool | None = None
    """What `cancel` answered; None if there was nothing to be cancelled, or not yet."""
    _outside: CancelSignal = field(default_factory=CancelSignal, init=False, repr=False)
    _handle: RunHandle | None = field(default=None, init=False, repr=False)

    @property
    def run(self) -> Run:
        """The run's record."""
        return self.session.runs[0]

    @property
    def reason(self) -> CancelReason:
        """What the stop is asked for with."""
        return CancelReason("user", f"{self.hand}, {self.timing} step {self.step}")

    def _at(self, number: int) -> None:
        if number != self.step or self.steps:
            return
        if self.timing == "before":
            self._fire()
        else:
            asyncio.get_running_loop().call_soon(self._fire)

    def _fire(self) -> None:
        if self.steps:
            return
        self.told_before = len(self.events)
        match self.hand:
            case "handle":
                self.answer = None if self._handle is None else self._handle.cancel(self.reason)
            case "signal":
                self.answer = self._outside.cancel(self.reason)
            case _:
                self.answer = self.session.signal.cancel(self.reason)
        if self.hand == "twice":
            self.session.signal.cancel("again")

    async def _play(self, say: str) -> None:
        self._handle = self.session.start(say, signal=self._outside)
        async for event in self._handle:
            self.events.append(event)
        run = await self._handle
        self.steps = VirtualLoop.running().steps
        if self.step is not None and not self.session.signal.is_cancelled():
            following = await self.session.start(say)
            _must(following.outcome != "cancelled", f"the stop reached the next run: {following.stop}")
        _must(run is self.run, "the record was changed after the end")


def cancel_everywhere(
    scenario: Callable[[], Session],
    *,
    say: str = "go",
    hands: Iterable[Hand] = ("handle", "session", "signal", "twice"),
    timings: Iterable[Timing] = ("before", "at"),
    check: Callable[[Stopped], object] | None = None,
) -> list[Stopped]:
    """Stop a run of *scenario* at each of its scheduling steps, and check what is promised of a stop.

    Checked each time: one ending, and it is the only one told; the reason is that of the stop; nothing but closings is
    told after it; what was begun is closed; the conversation is well-formed and, if the run was cancelled, unchanged;
    `handle.cancel` answered the truth; no task and no thread is left; the next run is not cancelled.

    Args:
        scenario: Makes a session with everything fresh: model, tools, agent. Called for each run; nothing in it may
            depend on real time, or the steps of two runs differ.
        say: What the person says.
        hands: Who stops.
        timings: When, at a step.
        check: More promises, as assertions about one stopped run.

    Returns:
        Every stopped run, in the order of the steps.

    Raises:
        SweepFailed: A promise was broken, or the run that is not stopped cannot be run.
    """
    chosen, moments = tuple(hands), tuple(timings)
    threads = set(threading.enumerate())
    whole = _run(Stopped(scenario(), "handle", "before", None), say)
    if isinstance(whole, str):
        raise SweepFailed(f"the scenario itself, not stopped: {whole}")
    plays, broken = [], []
    for step in range(whole.steps):
        for hand in chosen:
            for timing in moments:
                played = _run(Stopped(scenario(), hand, timing, step), say, check)
                if isinstance(played, str):
                    broken.append(f"{hand}, {timing} step {step} of {whole.steps}: {played}")
                else:
                    plays.append(played)
    left = [thread.name for thread in set(threading.enumerate()) - threads if thread.name != "loopctl-deadlines"]
    if left:
        broken.append(f"threads are left when all runs were over: {', '.join(left)}")
    if broken:
        shown = "\n".join(f"  {line}" for line in broken[:_SHOWN])
        raise SweepFailed(f"{len(broken)} stops broke a promise, first of all:\n{shown}")
    return plays


def _run(stopped: Stopped, say: str, check: Callable[[Stopped], object] | None = None) -> Stopped | str:
    """Play it; a text says what was broken."""
    loop = VirtualLoop()
    loop.before_step(stopped._at)
    try:
        virtual_run(lambda: stopped._play(say), loop=loop)
        _check(stopped)
        if check is not None:
            check(stopped)
    except AssertionError as error:
        return str(error) or repr(error)
    return stopped


def _check(stopped: Stopped) -> None:
    run, events = stopped.run, stopped.events
    ends = [event for event in events if isinstance(event, RunEnded)]
    _must(len(ends) == 1 and events[-1] is ends[0], f"{len(ends)} endings were told, or not as the last event")
    for begin, end in _PAIRS:
        begun, ended = (sum(isinstance(event, kind) for event in events) for kind in (begin, end))
        _must(begun == ended, f"{begun} {begin.__name__}, but {ended} {end.__name__}")
    problems = find_problems(stopped.session.history)
    _must(not problems, f"the conversation is broken: {problems}")
    if stopped.step is None:
        return
    _must(not run.stragglers, f"work was abandoned: {[straggler.name for straggler in run.stragglers]}")
    if stopped.hand == "handle" and stopped.answer is not None:
        _must(stopped.answer == (run.outcome == "cancelled"), f"cancel said {stopped.answer}: {run.outcome}")
    if run.outcome != "cancelled":
        return
    _must(run.stop is not None and run.stop.reason == stopped.reason, f"it was not stopped by this stop: {run.stop}")
    _must(not any(run.id == other.id for other in stopped.session.runs[1:]), "the run was recorded twice")
    late = [event for event in events[stopped.told_before :] if not isinstance(event, _CLOSINGS)]
    _must(not late, f"told after the stop: {late[:1]}")


def _must(is_so: bool, text: str) -> None:  # noqa: FBT001 - reads as the assertion it is
    if not is_so:
        raise AssertionError(text)
