"""What is known of a run, as frozen data: why it was stopped, where, what had happened, and the events it told."""

from loopctl.record._calls import CallStatus, StragglerRecord, ToolCallRecord
from loopctl.record._checkpoint import Checkpoint
from loopctl.record._event_json import event_to_json
from loopctl.record._events import (
    ApprovalEnded,
    ApprovalRequested,
    AttemptReset,
    Event,
    RunEnded,
    RunStarted,
    StragglerEnded,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    WaitStarted,
)
from loopctl.record._reason import CancelReason, Origin, Urgency
from loopctl.record._run import Outcome, Run, Stop, Turn
from loopctl.record._status import RunStatus

__all__ = [
    "ApprovalEnded",
    "ApprovalRequested",
    "AttemptReset",
    "CallStatus",
    "CancelReason",
    "Checkpoint",
    "Event",
    "Origin",
    "Outcome",
    "Run",
    "RunEnded",
    "RunStarted",
    "RunStatus",
    "Stop",
    "StragglerEnded",
    "StragglerRecord",
    "TextDelta",
    "ThinkingDelta",
    "ToolCallRecord",
    "ToolFinished",
    "ToolProgress",
    "ToolStarted",
    "Turn",
    "TurnEnded",
    "TurnStarted",
    "Urgency",
    "WaitStarted",
    "event_to_json",
]
