"""One conversation: its history, its runs, its signal, its stragglers; one run at a time.

Invariants: the history only grows, by completed runs and by `adopt`, and is well-formed after each; the signal is
reset by a cancelled run's end and by nothing else.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

from loopctl.cancel import CancelSignal, CancelToken
from loopctl.concurrency import Straggler, fresh_id, settle
from loopctl.driver._adopt import adopted_messages
from loopctl.driver._execution import Execution
from loopctl.driver._handle import RunHandle
from loopctl.errors import SessionBusy, SessionClosed, UsageError
from loopctl.messages import Message, UserMessage, find_problems
from loopctl.record import CancelReason, Run
from loopctl.tools import rewritten

if TYPE_CHECKING:
    from loopctl.driver._agent import Agent
    from loopctl.store import Ledger

__all__ = ["Session"]


class Session:
    """One conversation with an agent; made by `Agent.session`."""

    def __init__(
        self, agent: Agent, history: Iterable[Message] = (), id: str | None = None, ledger: Ledger | None = None
    ) -> None:
        """Begin a conversation of *agent*.

        Args:
            agent: What answers.
            history: What was said before.
            id: A name for it; None makes one.
            ledger: Where its tools record what they do once.

        Raises:
            UsageError: *history* is one that a provider would reject; the text says where.
        """
        if id == "":
            raise UsageError("a session's id is a text that is not empty; leave it out to have one made")
        messages = tuple(history)
        problems = find_problems(messages)
        if problems:
            raise UsageError(f"this history cannot be continued: {'; '.join(problems)}")
        self.agent = agent
        self.id: str = id if id is not None else fresh_id("session")
        self.signal: CancelSignal = CancelSignal()
        """Cancels the run that is active, or the next one if none is. Never replaced."""
        self._history = messages
        self._ledger = ledger
        self._runs: deque[Run] = deque(maxlen=agent.config.keep_runs)
        self._stragglers: list[Straggler] = []
        self._active: Execution | None = None
        self._is_closed = False
        self._adopted: str | None = None

    @property
    def history(self) -> tuple[Message, ...]:
        """The conversation: completed runs and what was adopted."""
        return self._history

    @property
    def runs(self) -> tuple[Run, ...]:
        """The records of this session's runs, oldest first, at most `RunConfig.keep_runs`."""
        return tuple(self._runs)

    @property
    def stragglers(self) -> tuple[Straggler, ...]:
        """The work of this session that was abandoned; an entry says so once it has ended after all."""
        return tuple(self._stragglers)

    def start(self, input: str | UserMessage, *, signal: CancelSignal | CancelToken | None = None) -> RunHandle:
        """Start a run; nothing of it happens before the loop's next turn.

        Args:
            input: What the person says.
            signal: Ends the run too, if it fires or has fired. It is never reset here: it ends every run it is given.

        Returns:
            The handle of the run.

        Raises:
            SessionBusy: A run is active.
            SessionClosed: `aclose` was called.
            UsageError: No event loop is running, or *input* or *signal* is of another type.
        """
        message = _as_message(input)
        if signal is not None and not isinstance(signal, CancelSignal | CancelToken):
            raise UsageError(f"signal= takes a CancelSignal or a CancelToken, not {type(signal).__name__}")
        if self._is_closed:
            raise SessionClosed(f"{self.id} was closed and takes no more runs: make a new session")
        if self._active is not None:
            raise SessionBusy(f"{self.id} is busy with {self._active.id}: await its handle, or cancel it, then start")
        try:
            execution = Execution(self, message, signal)
        except RuntimeError as error:
            raise UsageError("Session.start needs a running event loop: use Agent.run_sync in a script") from error
        self._active = execution
        execution.start()
        return RunHandle(execution)

    async def run(self, input: str | UserMessage, *, signal: CancelSignal | CancelToken | None = None) -> Run:
        """Run to the end.

        Args:
            input: What the person says.
            signal: As of `start`.

        Returns:
            The completed run.

        Raises:
            Cancelled: It was stopped.
            MaxTurnsExceeded: It ran out of turns.
            LoopError: It failed. The `run` of each of these is the record.

        Cancellation:
            As of `await handle`: the run is cancelled and ended, then `asyncio.CancelledError` goes on.
        """
        run = await self.start(input, signal=signal)
        return run.raise_for_outcome()

    def adopt(self, run: Run) -> bool:
        """Commit to the history what had happened in a run that did not complete.

        Each call that is open is closed with a true sentence: what came of it, or that it is unknown, and why the run
        ended. Empty replies and incomplete tool arguments are dropped.

        Args:
            run: The last run of this session.

        Returns:
            True if it was committed; False if it had been, by itself or by an earlier `adopt`.

        Raises:
            SessionBusy: A run is active.
            UsageError: *run* is not the session's last run.
        """
        if self._active is not None:
            raise SessionBusy(f"{self.id} is busy with {self._active.id}: adopt when it has ended")
        if not self._runs or self._runs[-1].id != run.id:
            last = self._runs[-1].id if self._runs else "none"
            raise UsageError(f"only a session's last run can be adopted: {run.id} is not it, the last is {last}")
        if run.outcome == "completed" or self._adopted == run.id:
            return False
        rewrite = functools.partial(rewritten, self.agent.middleware.around_tools)
        self._history += adopted_messages(run, self._stragglers, rewrite)
        self._adopted = run.id
        return True

    async def aclose(self) -> None:
        """Cancel the active run (origin `shutdown`), wait for it, and a bounded time for stragglers; idempotent.

        Cancellation:
            As of `await handle`: goes on when the run has ended; a second one takes the grace of the run away.
        """
        self._is_closed = True
        if self._active is not None:
            self._active.cancel(CancelReason("shutdown", "the session was closed"))
            await self._active.wait()
        await settle(self._stragglers, self.agent.config.grace)

    def _keep(self, straggler: Straggler) -> None:
        """Keep an abandoned piece of work; those that have ended are kept as long as the runs are."""
        ended = [known for known in self._stragglers if known.is_ended]
        for known in ended[: max(0, len(ended) - self.agent.config.keep_runs)]:
            self._stragglers.remove(known)
        self._stragglers.append(straggler)

    def _record(self, execution: Execution, run: Run) -> None:
        """Take over how the active run ended: commit or discard, keep the record. The session is still busy."""
        if run.outcome == "completed":
            self._history += execution.brain.scratch
        self._runs.append(run)

    def _rearm(self, run: Run) -> None:
        """Be idle, and ready for the next run."""
        if run.outcome == "cancelled":
            self.signal.reset()
        self._active = None

    def __repr__(self) -> str:
        """Give the id and the state."""
        state = "closed" if self._is_closed else "idle" if self._active is None else f"busy with {self._active.id}"
        return f"<Session {self.id} {state}, {len(self._history)} messages>"


def _as_message(value: str | UserMessage) -> UserMessage:
    if isinstance(value, UserMessage):
        return value
    if isinstance(value, str):
        return UserMessage(value)
    raise UsageError(f"a run's input is a text or a UserMessage, not {type(value).__name__}")
