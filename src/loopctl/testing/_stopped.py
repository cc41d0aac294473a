"""One run of a scenario, the stop that it gets, and what was seen of both.

Rules: it has a loop and a session of its own; what it noted at the stop and at the end is kept, so that the promises
can be checked when all is over.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace

from loopctl.cancel import CancelSignal
from loopctl.driver import RunHandle, Session
from loopctl.fallback import Chain
from loopctl.record import CancelReason, Event, Run
from loopctl.testing._errors import SimulationError
from loopctl.testing._loop import VirtualLoop
from loopctl.testing._run import virtual_run
from loopctl.testing._scenario import Scenario, Source, Stop, session_of
from loopctl.testing._watch import Watch
from loopctl.testing._where import task_place, task_work

__all__ = ["Stopped", "Tally", "must", "play"]

_LATEST = 3600.0
"""Virtual seconds in which abandoned work has to end."""


@dataclass(frozen=True)
class Tally:
    """What had happened at some moment."""

    at: float
    """Virtual seconds."""
    requests: int
    starts: int
    events: int
    chain: Chain
    is_over: bool
    """True if the run had its record."""


class Stopped:
    """One run of a scenario, and the stop that it got.

    Attributes:
        scenario: What was played.
        stop: How it was stopped; None for the run that is not.
        session: The session; its first run is the one that was stopped.
        read: The events that the reader got.
        told: The events that an observer was told.
        run: The record; None if the run has not ended, or the task that was to start it was cancelled before.
        steps: Steps that the loop had taken when the run had ended; 0 while it runs.
        answer: What was answered to the stop; None if it did not come.
        at_stop: What had happened when it came; None if it did not.
        at_end: What had happened when the run had ended.
        is_thrown: True if the task that awaited the run ended by `asyncio.CancelledError`.
        is_pending: True if the stop came after the end, and was for the next run.
        following: The next run; None until it has ended.
        left: What still ran when all was over.
        late: How many events came after the end of the run; 0 if its handle is not at hand (`caller`).
    """

    def __init__(self, scenario: Scenario, stop: Stop | None, session: Session, loop: VirtualLoop) -> None:
        """Prepare *session* to be stopped at *stop*, on *loop*."""
        self.scenario = scenario
        self.stop = stop
        self.session: Session = session
        self.read: list[Event] = []
        self.run: Run | None = None
        self.steps: int = 0
        self.answer: bool | None = None
        self.at_stop: Tally | None = None
        self.at_end: Tally | None = None
        self.is_thrown: bool = False
        self.is_pending: bool = False
        self.following: Run | None = None
        self.left: list[str] = []
        self.late: int = 0
        self._calls: dict[Source, int] = {}
        agent = self.session.agent
        if stop is not None and stop.grace is not None:
            agent.config = replace(agent.config, grace=stop.grace)
        is_layered = stop is not None and stop.source == "middleware"
        self._watch: Watch = Watch(self.session, self._reached, is_layered=is_layered)
        self._loop = loop
        self._thread = threading.get_ident()
        self._outside = CancelSignal()
        self._handle: RunHandle | None = None
        self._task: asyncio.Task[Run] | None = None
        if stop is not None and not stop.is_inside:
            add = loop.after_step if stop.timing == "with" else loop.before_step
            add(self._at_step)

    @property
    def calls(self) -> Mapping[Source, int]:
        """How often observers, middleware and tools had been called when the run had ended."""
        return self._calls

    @property
    def told(self) -> list[Event]:
        """The events that an observer was told."""
        return self._watch.events[: self.at_end.events] if self.at_end is not None else self._watch.events

    @property
    def reason(self) -> CancelReason:
        """What the stop is asked for with."""
        return CancelReason("user", str(self.stop))

    def _at_step(self, number: int) -> None:
        stop = self.stop
        assert stop is not None
        if number != stop.number or self.steps:
            return
        if stop.source == "task":
            self._loop.create_task(self._fire_in_task())
            return
        fire = self._fire_in_thread if stop.source == "thread" else self._fire
        if stop.timing in {"at", "with"}:
            self._loop.call_soon(fire)
        else:
            fire()

    async def _fire_in_task(self) -> None:
        self._fire()

    def _fire_in_thread(self) -> None:
        thread = threading.Thread(target=self._fire, name="stops the run")
        thread.start()
        thread.join()

    def _reached(self, source: Source, number: int, is_end: bool) -> None:  # noqa: FBT001 - a callback
        stop = self.stop
        if stop is not None and (stop.source, stop.number, stop.timing == "with") == (source, number, is_end):
            self._fire()

    def _fire(self) -> None:
        if self.at_stop is not None or self.steps:
            return
        self.at_stop = self._tally()
        self.answer = self._press(self.reason)
        if self.stop is not None and self.stop.timing == "twice" and self.answer is not None:
            if self.stop.source == "tool" and threading.get_ident() != self._thread:
                return  # the run may end between the two, and then the second is for the next one
            if self.stop.is_inside or self.stop.source == "thread":
                self._press(CancelReason("user", "again"))
            else:
                self._loop.call_soon(self._press, CancelReason("user", "again"))

    def _press(self, reason: CancelReason) -> bool | None:
        assert self.stop is not None
        match self.stop.hand:
            case "session":
                return self.session.signal.cancel(reason)
            case "signal":
                return self._outside.cancel(reason)
            case "handle":
                return None if self._handle is None else self._handle.cancel(reason)
            case "caller":
                return None if self._task is None else self._task.cancel()

    def _tally(self) -> Tally:
        watch = self._watch
        now = self._loop.time() if watch.ended_at is None else watch.ended_at
        active = self.session._active
        is_over = bool(self.session.runs) or (active is not None and active.is_decided)
        return Tally(now, watch.requests, watch.starts, len(watch.events), self.session.agent.chain, is_over)

    async def _play(self) -> None:
        """Run it, then the next run, then close the session."""
        if self.stop is not None and self.stop.hand == "caller":
            self._task = asyncio.ensure_future(self.session.run(self.scenario.say))
            await asyncio.wait([self._task])
            self.is_thrown = self._task.cancelled()
            if not self.is_thrown:
                self._task.exception()  # taken: the record has it
        else:
            self._handle = self.session.start(self.scenario.say, signal=self._outside)
            await self._read(self._handle)
        self.run = next(iter(self.session.runs), None)
        self.at_end = self._tally()
        self._calls = dict(self._watch.calls)
        self.steps = self._loop.steps
        await self._go_on()
        await self._clear_up()

    async def _read(self, handle: RunHandle) -> None:
        if self.scenario.reads:
            async for event in handle:
                self.read.append(event)
                if self.scenario.pause and len(self.read) == 1:
                    await asyncio.sleep(self.scenario.pause)
        await handle

    async def _go_on(self) -> None:
        self.is_pending = self.session.signal.is_cancelled()
        then = self.scenario.then or self.scenario.say
        if self.is_pending:
            stopped = await self.session.start(then)
            must(
                stopped.outcome == "cancelled" and not stopped.turns,
                "a stop that came too late was not for the next run",
            )
        self.following = await self.session.start(then)

    async def _clear_up(self) -> None:
        await self.session.aclose()
        if self.scenario.stragglers:
            self._wait_for_threads()
        until = self._loop.time() + (_LATEST if self.scenario.stragglers else 0)
        while self._loop.time() < until and self._what_is_left():  # noqa: ASYNC110 - nothing tells of all of them
            await asyncio.sleep(60)
        self.left = self._what_is_left()
        self.late = 0 if self._handle is None else self._handle.late_events

    def _wait_for_threads(self) -> None:
        """Let no virtual hour pass while an abandoned thread, which lives in real time, comes to its end."""
        for straggler in self.session.stragglers:
            if straggler.kind == "thread" and not straggler.is_ended:
                release = self._loop.hold_time(f"the abandoned thread {straggler.name}")
                straggler.on_end(lambda _, release=release: release())  # type: ignore[misc]

    def _what_is_left(self) -> list[str]:
        others = asyncio.all_tasks(self._loop) - {asyncio.current_task()}
        late = {f"{straggler.kind} {straggler.name}" for straggler in self.session.stragglers if not straggler.is_ended}
        return sorted(late | {f"{task_work(task)} at {task_place(task)}" for task in others})


def play(scenario: Scenario, stop: Stop | None) -> Stopped:
    """Play *scenario* on a loop of its own.

    Raises:
        SimulationError: It could not be played to its end.
    """
    session = session_of(scenario)  # may raise: there is no loop to be closed yet
    loop = VirtualLoop(limit=10 * _LATEST)
    stopped = Stopped(scenario, stop, session, loop)
    virtual_run(stopped._play, loop=loop)
    return stopped


def must(is_so: bool, text: str) -> None:  # noqa: FBT001 - reads as the assertion it is
    """Raise *text* as a broken promise."""
    if not is_so:
        raise SimulationError(text)
