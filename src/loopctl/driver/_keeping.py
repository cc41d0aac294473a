"""What a run writes to the store of its session: that it begins, what its tools do, how it ended.

Rules: nothing is asked of a model before it is written that the run began, and no tool is touched before it is written
that its call did; how the run ended is written between the decision and its being known. What a tool says is kept as
the middleware lets it out.
"""

from __future__ import annotations

import asyncio
import functools
from dataclasses import replace
from typing import TYPE_CHECKING

from loopctl.brain import Finish
from loopctl.concurrency import Ending, Straggler
from loopctl.driver._adopt import late_record
from loopctl.driver._loop import Ended
from loopctl.errors import Cancelled, LoopError, StoreError
from loopctl.messages import Message
from loopctl.record import CallStatus, Checkpoint, Run, ToolCallRecord, Turn
from loopctl.tools import rewritten

if TYPE_CHECKING:
    from loopctl.driver._execution import Execution
    from loopctl.store import Journal

__all__ = ["Keeper"]


class Keeper:
    """Writes for one run."""

    def __init__(self, run: Execution, journal: Journal) -> None:
        """Write what *run* does to *journal*."""
        self._run = run
        self._journal = journal
        self._has_begun = False

    @classmethod
    def of(cls, run: Execution) -> Keeper | None:
        """Give the one of *run*; None if its session has no store."""
        journal = run.session._journal
        return None if journal is None else cls(run, journal)

    async def begin_run(self) -> Ended | None:
        """Open the session if it is not, and write that the run begins.

        Returns:
            How the run ended, if it did here.

        Cancellation:
            The checkpoint `SETUP`, after a poll at `TURN_ENTRY`.
        """
        run, journal = self._run, self._journal
        try:
            run.poll(Checkpoint.TURN_ENTRY)
            run.scratch.place = Checkpoint.SETUP
            if not journal.is_open:
                self._check(await journal.open_session(run.token, run.grace))
            self._check(await journal.begin_run(run.id, run.started_at, run.input.text, run.token, run.grace))
            run.scratch.place = Checkpoint.TURN_ENTRY
            self._has_begun = True
        except Cancelled as stop:
            return Ended(Finish("cancelled", None), stop.checkpoint)
        except LoopError as error:
            run.scratch.error = error
            return Ended(Finish("failed", None), None)
        return None

    async def begin_call(self, record: ToolCallRecord) -> Ending:
        """Write that the tool of a call is about to be touched.

        Cancellation:
            The checkpoint `TOOL_CALL`.
        """
        ending = await self._journal.begin_call(self._run.id, record, self._run.token, self._run.grace)
        self._keep(ending)
        return ending

    def note(self, record: ToolCallRecord) -> None:
        """Keep the newest record of a call, and write it if anything came of it."""
        self._run.scratch.note(record)
        if record.status is not CallStatus.NOT_STARTED:
            self._journal.note_call(self._run.id, record)

    def note_turn(self, turn: Turn) -> None:
        """Write a turn with its calls, as far as they are known; one without calls is known at the end."""
        if turn.reply.tool_calls:
            self._journal.note_turn(self._run.id, turn)

    def note_late(self, straggler: Straggler) -> None:
        """Write what an abandoned call came to after all."""
        run = self._run
        record = run.scratch.calls.get(straggler.call_id or "")
        if record is None:
            return
        rewrite = functools.partial(rewritten, run.session.agent.middleware.around_tools)
        late = late_record(record, straggler, rewrite)
        if late is not record:
            self._journal.note_late(run.id, late)

    def note_end(self, run: Run, messages: tuple[Message, ...]) -> None:
        """Have written how the run ended, where nobody can wait for it."""
        self._journal.note_end(run, messages)

    async def end_run(self, run: Run, messages: tuple[Message, ...]) -> tuple[Run, asyncio.CancelledError | None]:
        """Write how the run ended.

        Returns:
            The run, with the error if it could not be written; and how its task was cancelled meanwhile.

        Cancellation:
            Waits for the end of it, at most 5 s.
        """
        error, ending = await self._journal.end_run(run, messages, has_begun=self._has_begun)
        if ending is not None:
            self._keep(ending)
        if error is not None:
            run = _unstored(run, error)
        return run, None if ending is None else ending.host_error

    def _check(self, ending: Ending) -> None:
        self._keep(ending)
        if self._journal.kept is not None:
            self._run.session._take_over(self._journal.kept)
        ending.unwrap()

    def _keep(self, ending: Ending) -> None:
        if ending.straggler is not None:
            ending.straggler.name = "store"
            self._run.keep(ending.straggler)


def _unstored(run: Run, error: StoreError) -> Run:
    error.__cause__ = run.error
    run = replace(run, store_error=error)
    for raised in (run.error, error):
        if raised is not None:
            raised.run = run
    return run
