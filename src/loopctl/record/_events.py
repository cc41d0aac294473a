"""What a run tells its readers while it goes on.

Rules: a `ToolStarted` is followed by exactly one `ToolFinished` with the same id, an `ApprovalRequested` before that by
one `ApprovalEnded`, a `TurnStarted` by one `TurnEnded`; `RunEnded` comes exactly once, last. Each event says by
`run_id` which run it is of.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from loopctl.record._calls import StragglerRecord, ToolCallRecord
from loopctl.record._run import Run, Turn

__all__ = [
    "ApprovalEnded",
    "ApprovalRequested",
    "AttemptReset",
    "Event",
    "RunEnded",
    "RunStarted",
    "StragglerEnded",
    "TextDelta",
    "ThinkingDelta",
    "ToolFinished",
    "ToolProgress",
    "ToolStarted",
    "TurnEnded",
    "TurnStarted",
    "WaitStarted",
]


class _OfCall:
    """What the events of one tool call have in common."""

    __slots__ = ()
    call: ToolCallRecord

    @property
    def id(self) -> str:
        """The call's id."""
        return self.call.id

    @property
    def name(self) -> str:
        """The tool's name."""
        return self.call.name


@dataclass(frozen=True, slots=True)
class RunStarted:
    """The run has begun."""

    run_id: str


@dataclass(frozen=True, slots=True)
class TurnStarted:
    """A model is about to be asked."""

    number: int
    """From 1."""
    model: str
    run_id: str = ""


@dataclass(frozen=True, slots=True)
class TextDelta:
    """More visible text."""

    text: str
    run_id: str = ""


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    """More of the model's thinking."""

    text: str
    run_id: str = ""


@dataclass(frozen=True, slots=True)
class AttemptReset:
    """The attempt failed and another follows: void what this turn has shown so far."""

    number: int
    """The turn, from 1."""
    run_id: str = ""


@dataclass(frozen=True, slots=True)
class WaitStarted:
    """The run waits before its next model request; told only of waits of a second or more."""

    seconds: float | None
    """How long, from now on; None if that is not known."""
    why: str
    """`retry`: the request failed; `rate_limit`: the server asks for less; `gate`: a `RateGate` lets it wait. A
    middleware may give a word of its own."""
    run_id: str = ""


@dataclass(frozen=True, slots=True)
class ToolStarted(_OfCall):
    """A tool call begins."""

    call: ToolCallRecord
    """As known now: its status is `not_started`, the last word before it is."""
    run_id: str = ""


@dataclass(frozen=True, slots=True)
class ApprovalRequested(_OfCall):
    """Somebody is asked whether a call may run: the time to show a prompt."""

    call: ToolCallRecord
    """With the arguments that it would run with."""
    run_id: str = ""


@dataclass(frozen=True, slots=True)
class ApprovalEnded(_OfCall):
    """Nobody is asked about the call any more: the time to take the prompt away."""

    call: ToolCallRecord
    """As it was asked about."""
    answer: Literal["allowed", "denied", "withdrawn"]
    """`withdrawn`: the run was stopped, which means no; a late answer is not heard."""
    run_id: str = ""


@dataclass(frozen=True, slots=True)
class ToolProgress:
    """A tool says how far it is."""

    id: str
    name: str
    message: str
    fraction: float | None
    """0 to 1; None if the tool does not know."""
    run_id: str = ""


@dataclass(frozen=True, slots=True)
class ToolFinished(_OfCall):
    """A tool call that had started has its status."""

    call: ToolCallRecord
    run_id: str = ""


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """A turn is over, with its tool calls."""

    turn: Turn
    run_id: str = ""


@dataclass(frozen=True, slots=True)
class RunEnded:
    """The run is over: the last event."""

    run: Run
    run_id: str = ""


@dataclass(frozen=True, slots=True)
class StragglerEnded:
    """Abandoned work has ended after all; told to observers only."""

    run_id: str
    straggler: StragglerRecord
    result: str | None
    """The `repr` of what it returned, or its type if it has none; None if it raised."""
    error: str | None
    """The name and the text of what it raised; None if it returned."""


Event: TypeAlias = (
    RunStarted
    | TurnStarted
    | TextDelta
    | ThinkingDelta
    | AttemptReset
    | WaitStarted
    | ToolStarted
    | ApprovalRequested
    | ApprovalEnded
    | ToolProgress
    | ToolFinished
    | TurnEnded
    | RunEnded
    | StragglerEnded
)
