"""One conversation: its history, its runs, its signal, its stragglers; one run at a time.

Invariants: the history only grows, by completed runs and by `adopt`, and is well-formed after each; the signal is
reset by a cancelled run's end and by nothing else.
"""

from __future__ import annotations

import functools
import os
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

from loopctl.cancel import CancelSignal, CancelToken
from loopctl.concurrency import Grace, Straggler, fresh_id, settle
from loopctl.driver._adopt import adopted_messages, late_records
from loopctl.driver._execution import Execution
from loopctl.driver._handle import RunHandle
from loopctl.errors import SessionBusy, SessionClosed, UsageError
from loopctl.messages import Message, UserMessage, find_problems
from loopctl.record import CancelReason, Run, ToolCallRecord
from loopctl.tools import rewritten

if TYPE_CHECKING:
    from loopctl.driver._agent import Agent
    from loopctl.store import Journal, Kept, Ledger

__all__ = ["Session"]


class Session:
    """One conversation with an agent; made by `Agent.session`."""

    def __init__(
        self,
        agent: Agent,
        history: Iterable[Message] = (),
        id: str | None = None,
        store: str | os.PathLike[str] | None = None,
    ) -> None:
        """Begin a conversation of *agent*.

        Args:
            agent: What answers.
            history: What was said before.
            id: A name for it; None makes one.
            store: The file that it is kept in, and where its tools record what they do once.

        Raises:
            UsageError: *history* is one that a provider would reject; the text says where. Or *store* is no path.
        """
        if id is not None and not _can_be_id(id):
            raise UsageError(f"a session's id is a text that is not empty, not {id!r}; leave it out to have one made")
        messages = tuple(history)
        problems = find_problems(messages)
        if problems:
            raise UsageError(f"this history cannot be continued: {'; '.join(problems)}")
        self.agent = agent
        self.id: str = id if id is not None else fresh_id("session")
        self.signal: CancelSignal = CancelSignal()
        """Cancels the run that is active, or the next one if none is. Never replaced."""
        self._history = messages
        self._ledger: Ledger | None = None
        self._journal: Journal | None = None
        self._is_taken_over = False
        self._late: dict[str, ToolCallRecord] = {}
        """What abandoned calls of the last run came to, as the store knew when it was opened."""
        if store is not None:
            from loopctl.store import Journal, Ledger  # a Python may be without SQLite, and most agents without a store

            self._ledger = Ledger(store)
            self._journal = Journal(store, self.id, agent.model.name, agent.config.keep_runs)
            self._journal.given = messages
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
        messages = adopted_messages(run, self._late | late_records(run, self._stragglers, rewrite))
        self._history += messages
        self._adopted = run.id
        if self._journal is not None:
            self._journal.note_adopted(run, messages)
        return True

    async def open(self) -> None:
        """Read what the store has of this session: its history, and its last runs; a run does it by itself.

        Without a store, or if it is open, this does nothing.

        Raises:
            SessionBusy: Another process, or another `Session` here, has it open; the text names the process.
            SessionClosed: `aclose` was called.
            StoreError: The store cannot be used.
            UsageError: It was begun with another history than is given here.

        Cancellation:
            Goes on at once; nothing stays open.
        """
        if self._is_closed:
            raise SessionClosed(f"{self.id} was closed: make a new session")
        if self._journal is None or self._journal.is_open:
            return
        asked = CancelSignal()
        ending = await self._journal.open_session(asked.token, Grace(0))
        asked.cancel()  # ends an opening that was given up
        if self._journal.kept is not None:
            self._take_over(self._journal.kept)
        ending.unwrap()

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
        if self._journal is not None:
            await self._journal.close_session()

    def _take_over(self, kept: Kept) -> None:
        """Go on with what the store has, and with what has happened here before that was known; once."""
        if self._is_taken_over:
            return
        self._is_taken_over = True
        given = 0 if self._journal is None else len(self._journal.given)
        self._history = kept.history + self._history[given:]
        if not self._runs:
            self._adopted = kept.adopted
            self._late = {record.id: record for record in kept.late}
        self._runs = deque((*kept.runs, *self._runs), maxlen=self._runs.maxlen)

    def _keep(self, straggler: Straggler) -> None:
        """Keep an abandoned piece of work; those that have ended are kept as long as the runs are."""
        ended = [known for known in self._stragglers if known.is_ended]
        for known in ended[: max(0, len(ended) - self.agent.config.keep_runs)]:
            self._stragglers.remove(known)
        self._stragglers.append(straggler)

    def _record(self, execution: Execution, run: Run) -> None:
        """Take over how the active run ended: commit or discard, keep the record. The session is still busy."""
        self._history += execution.committed(run)
        self._runs.append(run)
        self._late = {}

    def _rearm(self, run: Run) -> None:
        """Be idle, and ready for the next run."""
        if run.outcome == "cancelled":
            self.signal.reset()
        self._active = None

    def __repr__(self) -> str:
        """Give the id and the state."""
        state = "closed" if self._is_closed else "idle" if self._active is None else f"busy with {self._active.id}"
        return f"<Session {self.id} {state}, {len(self._history)} messages>"


def _can_be_id(value: object) -> bool:
    """True if it is a text that can be stored: half a surrogate pair, as of a terminal's stray byte, cannot."""
    if not isinstance(value, str) or not value:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _as_message(value: str | UserMessage) -> UserMessage:
    if isinstance(value, UserMessage):
        return value
    if isinstance(value, str):
        return UserMessage(value)
    raise UsageError(f"a run's input is a text or a UserMessage, not {type(value).__name__}")
