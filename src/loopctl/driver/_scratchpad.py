"""What a run has done so far, before it is known whether it will be committed.

Invariants: a call has one record, the newest; a turn is kept from the moment its request begins, so that nothing
that happened is lost however the run ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from loopctl.brain import with_unique_ids
from loopctl.concurrency import Straggler, epoch
from loopctl.errors import LoopError
from loopctl.messages import AssistantMessage, Text, Thinking, Usage
from loopctl.model import ModelRequest
from loopctl.record import CallStatus, Checkpoint, ToolCallRecord, Turn
from loopctl.streaming import Accumulator

__all__ = ["OpenTurn", "Scratchpad"]

T = TypeVar("T")


@dataclass(slots=True)
class OpenTurn:
    """The turn that is going on: its current attempt, and what the failed ones before it used."""

    number: int
    model: str
    """The name of the model that is asked, or was asked last."""
    started_at: float
    reply: Accumulator
    """Of the current attempt."""
    taken: frozenset[str]
    """The call ids that the conversation has already."""
    was_asked: bool = False
    """True once the current request was handed to the model: from then on tokens may have been used."""
    was_streamed: bool = False
    """True if the current attempt shows its pieces as they come."""
    given_up: dict[int, LoopError] = field(default_factory=dict)
    """What each model was given up for in this turn, by its place in the chain."""

    _message: AssistantMessage | None = None
    _spent: list[Usage] = field(default_factory=list)

    @property
    def has_shown(self) -> bool:
        """True if the current attempt gave something that readers were shown."""
        return self.was_streamed and any(isinstance(block, Text | Thinking) for block in self.message().blocks)

    def begin_attempt(self) -> None:
        """Forget what the failed attempt gave, but not what it cost."""
        if self.was_asked:
            self._spent.append(self.reply.usage)
        self.reply = Accumulator(self.reply.run_id)
        self.was_asked = self.was_streamed = False
        self._message = None

    def message(self) -> AssistantMessage:
        """The reply as it stands, its call ids unique in the conversation; nothing more is taken from its model."""
        if self._message is None:
            self._message = with_unique_ids(self.reply.seal(), self.taken)
        return self._message

    def asking(self, ask: Callable[[ModelRequest], T]) -> Callable[[ModelRequest], T]:
        """Make *ask* note that the model was asked."""

        def noted(request: ModelRequest) -> T:
            self.was_asked = True
            return ask(request)

        return noted

    def close(self) -> Turn:
        """Give the turn as it stands."""
        return Turn(
            number=self.number,
            model=self.model,
            reply=self.message(),
            is_whole=self.reply.is_whole,
            stop_reason=self.reply.stop_reason,
            usage=_total((*self._spent, *((self.reply.usage,) if self.was_asked else ()))),
            started_at=self.started_at,
            ended_at=epoch(),
        )


@dataclass(slots=True)
class Scratchpad:
    """The turns, the calls and the stragglers of one run."""

    turns: list[Turn] = field(default_factory=list)
    calls: dict[str, ToolCallRecord] = field(default_factory=dict)
    stragglers: list[Straggler] = field(default_factory=list)
    open_turn: OpenTurn | None = None
    open_calls: dict[str, str] = field(default_factory=dict)
    """The calls whose `ToolStarted` was told and whose `ToolFinished` was not, in order: id and tool's name."""
    asked: dict[str, str] = field(default_factory=dict)
    """Those of them that somebody is asked about, in the same way."""
    place: Checkpoint = Checkpoint.TURN_ENTRY
    """The checkpoint that the run waits at, or passed last: of a whole reply, the row of its request."""
    is_turn_told: bool = False
    """True while the readers know of the beginning of a turn and not of its end."""
    error: LoopError | None = None
    """What the model's side failed with last, since the last whole reply."""

    def note(self, record: ToolCallRecord) -> None:
        """Keep the newest record of a call."""
        self.calls[record.id] = record

    def close_turn(self) -> Turn | None:
        """End the turn that is going on; None if there is none. Its unanswered calls were never started."""
        if self.open_turn is None:
            return None
        turn = self.open_turn.close()
        self.open_turn = None
        self.turns.append(turn)
        for call in turn.reply.tool_calls:
            if call.id not in self.calls:
                self.note(ToolCallRecord(call.id, call.name, call.arguments, CallStatus.NOT_STARTED))
        return turn

    def records(self) -> tuple[ToolCallRecord, ...]:
        """The records of all calls, in the model's order."""
        ordered = (call.id for turn in self.turns for call in turn.reply.tool_calls)
        return tuple(self.calls[call_id] for call_id in ordered)

    def usage(self) -> Usage:
        """What all turns used; zero only if nothing was asked."""
        return _total(turn.usage for turn in self.turns)


def _total(usages: Iterable[Usage]) -> Usage:
    known = list(usages)
    total = known[0] if known else Usage(0, 0)
    for usage in known[1:]:
        total += usage
    return total
