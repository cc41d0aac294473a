"""One run while it goes on: its token, its readers, its scratchpad, its task, and who waits for its end.

Invariants:

1. `_decide`, then `_conclude` is the one door out. It is gone through exactly once, and never suspends; with a store,
   what was decided is written between the two.
2. The run's own signal is a child of the session's and of the one that was passed in: a cancel of this run touches
   nothing else, and firing one of those reaches it.
3. Everything that is running is held here, so that a handle that nobody reads may be dropped.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING

from loopctl.brain import Brain, Limits, Moment, Started
from loopctl.cancel import CancelSignal, CancelToken
from loopctl.concurrency import (
    Grace,
    Handover,
    Straggler,
    describe,
    draw,
    epoch,
    fresh_id,
    monotonic,
    poll,
    quote,
    spawn,
)
from loopctl.driver._finalize import finalize
from loopctl.driver._keeping import Keeper
from loopctl.driver._loop import Ended, drive
from loopctl.driver._perform import Performer
from loopctl.driver._scratchpad import Scratchpad
from loopctl.driver._watchdogs import Watchdogs
from loopctl.errors import UsageError
from loopctl.messages import Message, UserMessage
from loopctl.observers import Observers, notify
from loopctl.record import (
    ApprovalEnded,
    ApprovalRequested,
    CancelReason,
    Checkpoint,
    Event,
    Run,
    RunEnded,
    RunStarted,
    RunStatus,
    StragglerEnded,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    Urgency,
)
from loopctl.streaming import Fanout

if TYPE_CHECKING:
    from loopctl.driver._agent import Agent
    from loopctl.driver._config import RunConfig
    from loopctl.driver._session import Session
    from loopctl.model import Model
    from loopctl.tools import ToolRegistry

__all__ = ["Execution", "running_of"]

_log = logging.getLogger("loopctl")

_running: set[Execution] = set()
_inside: ContextVar[frozenset[str]] = ContextVar("loopctl_inside", default=frozenset())
"""The runs that the current task or thread is a part of."""


def running_of(agent: Agent) -> list[Execution]:
    """Give the runs of *agent* that have not ended, the oldest first. May be asked from any thread."""
    return sorted((run for run in tuple(_running) if run.session.agent is agent), key=lambda run: run.started)


class Execution:
    """One run, from its start to its end."""

    def __init__(self, session: Session, message: UserMessage, signal: CancelSignal | CancelToken | None) -> None:
        """Prepare a run of *session* on *message*; *signal* ends it too, if it is given."""
        agent = session.agent
        self.id: str = fresh_id("run")
        self.session = session
        self.input = message
        self.config: RunConfig = agent.config
        self.models: tuple[Model, ...] = agent.models
        self.tools: ToolRegistry = agent.tools
        self.instructions: str = agent.instructions
        self.signal: CancelSignal = CancelSignal.any_of(
            *(source for source in (session.signal, signal) if source is not None)
        )
        self.token: CancelToken = self.signal.token
        self.grace: Grace = Grace(self.config.grace)
        self.scratch: Scratchpad = Scratchpad()
        self.brain: Brain = Brain(
            tools=frozenset(self.tools),
            limits=Limits(max_turns=self.config.max_turns),
            recovery=agent.recovery.model,
            is_streaming=self.config.stream,
        )
        self.loop: asyncio.AbstractEventLoop = asyncio.get_running_loop()
        self.observers: Observers = agent.observers
        tell = functools.partial(notify, self.observers) if self.observers else None
        self.fanout: Fanout = Fanout(self.loop, self.token, self._on_deserted, tell)
        self.watchdogs: Watchdogs = Watchdogs(self.config, self.cancel)
        self.fanout.clocks = self.watchdogs.clocks
        self.handover: Handover = Handover(self.token, self.loop)
        self.started_at: float = epoch()
        self.started: float = monotonic()
        self.run: Run | None = None
        self.is_decided: bool = False
        """True once it is fixed how it ended; with a store that is a while before it is known."""
        self.keeper: Keeper | None = Keeper.of(self)
        self._waiters: set[asyncio.Future[None]] = set()
        self._listeners: list[Callable[[Run], object]] = []
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Make the run's task; nothing of it runs before the loop's next turn."""
        _running.add(self)
        self.watchdogs.start(self.loop)
        self._task = spawn(self._main(), self.loop, f"loopctl {self.id}")
        self._task.add_done_callback(self._on_task_done)

    def cancel(self, reason: CancelReason | str | None = None, urgency: Urgency = Urgency.STOP) -> bool:
        """Cancel this run and nothing else; False if that changes nothing, as after its end."""
        return self.run is None and self.signal.cancel(reason, urgency=urgency)

    def status(self) -> RunStatus:
        """Say what the run is doing; may be asked from any thread."""
        scratch, turn = self.scratch, self.scratch.open_turn
        asked, running = tuple(scratch.asked.values()), tuple(scratch.open_calls.values())
        return RunStatus(
            id=self.id,
            session_id=self.session.id,
            model=self.models[0].name if turn is None else turn.model,
            started_at=self.started_at,
            turn=self.brain.turn,
            checkpoint=(
                Checkpoint.DELIVERY if self.fanout.is_held else Checkpoint.APPROVAL if asked else scratch.place
            ),
            tools=asked or running,
            stopping=self.token.reason,
            blocked_at=self.handover.held_at,
        )

    def on_end(self, listener: Callable[[Run], object]) -> None:
        """Call *listener* with the record when the session is idle again; at once if it is."""
        self._listeners.append(listener)
        if self not in _running:  # perhaps only now, and in another thread: whoever takes a listener out calls it
            self._tell_end()

    def poll(self, at: Checkpoint) -> None:
        """Raise `Cancelled` if the run is cancelled."""
        poll(self.token, at)

    def moment(self) -> Moment:
        """Give what the brain decides by: the loop's time, a jitter, and how the agent's models did so far."""
        agent = self.session.agent
        return Moment(self.loop.time(), draw(agent.recovery.model.jitter), agent.chain)

    def keep(self, straggler: Straggler) -> None:
        """Keep a piece of work that was abandoned."""
        straggler.run_id = self.id
        if self.keeper is not None:
            straggler.on_end(self.keeper.note_late)
        if self.observers:
            straggler.on_end(self._tell_late_end)
        self.scratch.stragglers.append(straggler)
        self.session._keep(straggler)

    def _tell_late_end(self, straggler: Straggler) -> None:
        result = None if straggler.error is not None else quote(straggler.result)
        error = None if straggler.error is None else describe(straggler.error)
        notify(self.observers, StragglerEnded(self.id, straggler.record(), result, error))

    def tell(self, event: Event) -> None:
        """Hand *event*, a sign of life for which nobody waits, to the readers that have room."""
        self.watchdogs.touch()
        self.fanout.tell(event)

    def conclude(self, event: ApprovalEnded) -> None:
        """Hand *event*, a closing for which nobody waits, to the readers, whether they have room or not."""
        self.scratch.asked.pop(event.id, None)
        self.watchdogs.release()
        self.fanout.close(event)

    def drop(self) -> None:
        """Count an event that came too late to be told."""
        self.fanout.late += 1

    async def emit(self, event: Event) -> None:
        """Hand *event* to the readers, waiting for the slow ones.

        Raises:
            Cancelled: The token fired while a reader held the run back.

        Cancellation:
            The checkpoint `DELIVERY`.
        """
        self.watchdogs.touch()
        await self.fanout.deliver(event)
        scratch = self.scratch
        match event:
            case ToolStarted():
                scratch.open_calls[event.id] = event.name
            case ToolFinished():
                scratch.open_calls.pop(event.id, None)
            case ApprovalRequested():
                scratch.asked[event.id] = event.name
                self.watchdogs.hold()
            case TurnStarted():
                scratch.is_turn_told = True
            case TurnEnded():
                scratch.is_turn_told = False
                if self.keeper is not None:
                    self.keeper.note_turn(event.turn)

    async def tell_turn_ended(self) -> None:
        """Close the turn that is going on, if there is one, and tell the readers.

        Cancellation:
            The checkpoint `DELIVERY`.
        """
        turn = self.scratch.close_turn()
        if turn is not None:
            await self.emit(TurnEnded(turn, self.id))

    async def wait(self) -> Run:
        """Wait for the end.

        Returns:
            The run, whatever its ending.

        Cancellation:
            Cancels the run with the origin `caller`, waits for its end, then lets the cancellation through; a second
            one of the task while the run is ending takes its grace away, also if the first was not noticed here. A
            part of the run itself (a tool) does not wait.
        """
        if self.run is None and asyncio.get_running_loop() is not self.loop:
            raise UsageError(f"{self.id} runs on another event loop: await its handle there")
        self.fanout.unbind()
        cancelled: asyncio.CancelledError | None = None
        while self.run is None:
            future: asyncio.Future[None] = self.loop.create_future()
            self._waiters.add(future)
            try:
                await future
            except asyncio.CancelledError as error:
                if self.id in _inside.get():  # a part of the run, which does not hold up the end it waits for
                    if not self.token.is_cancelled(Urgency.STOP):
                        self._on_caller_cancelled(Urgency.STOP)
                    raise
                is_first = cancelled is None and not (self.token.is_cancelled(Urgency.STOP) and _cancellations() > 1)
                self._on_caller_cancelled(Urgency.STOP if is_first else Urgency.ABANDON)
                cancelled = cancelled or error
            finally:
                self._waiters.discard(future)
        if cancelled is not None:
            raise cancelled
        return self.run

    def _on_caller_cancelled(self, urgency: Urgency) -> None:
        self.cancel(CancelReason("caller", "the task that awaited the run was cancelled"), urgency)

    def _on_deserted(self) -> None:
        self.cancel(CancelReason("caller", "the last reader of the run went away"))

    async def _main(self) -> None:
        outer = _inside.get()
        # Those that have ended are left out: a tool may start the task that starts the next run, and so on for ever.
        _inside.set(frozenset({self.id, *(run.id for run in _running if run.id in outer)} if outer else {self.id}))
        try:
            await self.emit(RunStarted(self.id))
            ended = await self._drive()
        except GeneratorExit as error:  # nothing can be waited for any more
            self._take_over(error)
            self._end(None, error)
            raise
        except BaseException as error:
            self._take_over(error)
            await self._end_kept(None, error)
            if not isinstance(error, Exception):
                raise
        else:
            await self._end_kept(ended)

    async def _drive(self) -> Ended:
        ended = None if self.keeper is None else await self.keeper.begin_run()
        if ended is not None:
            return ended
        first = Started(self.session.history, self.input, self.moment())
        return await drive(self.brain, first, Performer(self))

    def _take_over(self, error: BaseException) -> None:
        """Make a cancel of what would otherwise tear the run apart."""
        match error:
            case asyncio.CancelledError():
                self.cancel(CancelReason("caller", "the task of the run was cancelled"))
            case KeyboardInterrupt():
                self.cancel(CancelReason("user", "KeyboardInterrupt"))
            case SystemExit() | GeneratorExit():
                self.cancel(CancelReason("shutdown", type(error).__name__))

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            task.exception()  # what ends the program has left through the loop already
        if self.run is None:  # cancelled before its first step: nothing of `_main` ever ran
            self._take_over(asyncio.CancelledError())
            self._end(None)

    def committed(self, run: Run) -> tuple[Message, ...]:
        """Give what *run*, the record of this one, adds to the conversation."""
        return self.brain.scratch if run.outcome == "completed" else ()

    async def _end_kept(self, ended: Ended | None, error: BaseException | None = None) -> None:
        """End as `_end` does; with a store, wait between the decision and its being known until it is written."""
        if self.keeper is None:
            self._end(ended, error)
            return
        run, closings = self._decide(ended, error)
        host_error: asyncio.CancelledError | None = None
        try:
            run, host_error = await self.keeper.end_run(run, self.committed(run))
        finally:
            self._conclude(run, closings)
        if host_error is not None:
            raise host_error

    def _end(self, ended: Ended | None, error: BaseException | None = None) -> None:
        run, closings = self._decide(ended, error)
        if self.keeper is not None:
            self.keeper.note_end(run, self.committed(run))
        self._conclude(run, closings)

    def _decide(self, ended: Ended | None, error: BaseException | None) -> tuple[Run, tuple[Event, ...]]:
        self.watchdogs.stop()
        self.handover.stop()
        self.is_decided = True
        return finalize(self, ended, error)

    def _conclude(self, run: Run, closings: tuple[Event, ...]) -> None:
        self.run = run
        self.session._record(self, run)
        last_word: BaseException | None = None
        for event in (*closings, RunEnded(run, self.id)):
            try:
                self.fanout.observe(event)
            except BaseException as interrupt:  # an observer ends the program: not before everybody knows
                last_word = last_word or interrupt
        self.session._rearm(run)
        for event in (*closings, RunEnded(run, self.id)):
            self.fanout.close(event)
        _running.discard(self)
        for future in tuple(self._waiters):
            if not future.done():
                future.set_result(None)
        self._tell_end()
        if last_word is not None:
            raise last_word

    def _tell_end(self) -> None:
        assert self.run is not None
        while self._listeners:
            try:
                self._listeners.pop(0)(self.run)
            except Exception:
                _log.exception("what waited for the end of %s failed", self.id)


def _cancellations() -> int:
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()
