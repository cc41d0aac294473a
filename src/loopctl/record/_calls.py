"""What is known of one tool call, and of work that did not end in time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

from loopctl.errors import UsageError

__all__ = ["CallStatus", "StragglerRecord", "ToolCallRecord"]


class CallStatus(StrEnum):
    """The one status that a tool call of a run ends in."""

    COMPLETED = "completed"
    """It returned, also if only after the cancel."""
    FAILED = "failed"
    """It raised something else than a cancellation, or could not be called (unknown tool, bad arguments)."""
    DENIED = "denied"
    """A person or a policy said no."""
    NOT_STARTED = "not_started"
    """It was asked for and never begun."""
    INTERRUPTED = "interrupted"
    """It unwound in time after the cancel; whether it had its effect is unknown."""
    ABANDONED = "abandoned"
    """It was still running when the run ended; it may become completed or failed late."""


_UNSAID = {
    CallStatus.DENIED: "It was not allowed, and did not run.",
    CallStatus.NOT_STARTED: "It was not started.",
    CallStatus.INTERRUPTED: "It was stopped. Whether it had its effect is not known.",
    CallStatus.ABANDONED: "It did not stop in time and still runs.",
}


@dataclass(frozen=True, slots=True)
class ToolCallRecord:
    """One tool call, as true as it is known when the run ends."""

    id: str
    name: str
    arguments: Mapping[str, Any]
    status: CallStatus
    result: str | None = None
    """The text that the model was given, or would have been: the result, or what went wrong; None if there is none."""
    attempts: int = 0
    """How often the tool was begun; 0 if it never was."""
    started_at: float | None = None
    """Epoch seconds; None if it never started."""
    ended_at: float | None = None
    """Epoch seconds; None if it never started or was still running."""

    @property
    def text(self) -> str:
        """What a person is told that the call came to: its result, or a sentence on its status; perhaps empty."""
        return self.result or _UNSAID.get(self.status, "")

    def to_json(self) -> dict[str, Any]:
        """The record as a JSON object."""
        return {
            "id": self.id,
            "name": self.name,
            "arguments": dict(self.arguments),
            "status": self.status.value,
            "result": self.result,
            "attempts": self.attempts,
            "started_at": self.started_at,
            "ended_at": self.ended_at,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> ToolCallRecord:
        """Read what `to_json` gave.

        Raises:
            UsageError: *value* is not that.
        """
        try:
            return cls(**{**value, "status": CallStatus(value["status"])})
        except (KeyError, TypeError, ValueError) as error:
            raise UsageError(f"not the record of a tool call: {type(error).__name__}: {error}") from error


@dataclass(frozen=True, slots=True)
class StragglerRecord:
    """A piece of work that had not ended when its run did."""

    kind: Literal["task", "thread", "process"]
    name: str
    """What hangs: the tool's name, or the model's."""
    call_id: str | None
    """The tool call it belongs to; None for a model request."""
    age: float
    """Seconds since the work began, as of the run's end; in `StragglerEnded`, until its own end."""
    where: str
    """`file:line` where it hangs, as of the run's end; empty if that cannot be told, or if it has ended."""

    def to_json(self) -> dict[str, Any]:
        """The record as a JSON object."""
        return {
            "kind": self.kind,
            "name": self.name,
            "call_id": self.call_id,
            "age": self.age,
            "where": self.where,
        }
