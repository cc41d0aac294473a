"""The record of a run: frozen when the run ends, and never changed."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from loopctl import errors
from loopctl.errors import Cancelled, LoopError, ModelError, StoreError, UsageError
from loopctl.messages import AssistantMessage, Usage, UserMessage, message_from_json, message_to_json
from loopctl.record._calls import StragglerRecord, ToolCallRecord
from loopctl.record._checkpoint import Checkpoint
from loopctl.record._reason import CancelReason

__all__ = ["Outcome", "Run", "Stop", "Turn"]

Outcome: TypeAlias = Literal["completed", "cancelled", "max_turns", "failed", "interrupted"]
"""How a run ended. Only a completed run is committed to its session's history. `interrupted` comes from a store only:
the run's process died in the middle of it."""


_UNFIT = (KeyError, TypeError, ValueError, AttributeError)
"""What reading JSON of another shape raises."""


def _text(error: BaseException) -> str:
    """Give the name and the text of an error in what is read."""
    return f"{type(error).__name__}: {error}"


@dataclass(frozen=True, slots=True)
class Turn:
    """One model request, its reply, and the tool calls of that reply."""

    number: int
    """From 1."""
    model: str
    """The name of the model that answered, or was asked."""
    reply: AssistantMessage
    """What had arrived. Of an unfinished reply: the text, and the tool calls whose arguments were whole."""
    is_whole: bool
    """True if the reply arrived to its end."""
    stop_reason: str | None
    """Why the model ended its reply; None if it did not."""
    usage: Usage
    started_at: float
    """Epoch seconds."""
    ended_at: float
    """Epoch seconds."""

    def to_json(self) -> dict[str, Any]:
        """The turn as a JSON object."""
        return {
            "number": self.number,
            "model": self.model,
            "reply": message_to_json(self.reply),
            "is_whole": self.is_whole,
            "stop_reason": self.stop_reason,
            "usage": self.usage.to_json(),
            "started_at": self.started_at,
            "ended_at": self.ended_at,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Turn:
        """Read what `to_json` gave.

        Raises:
            UsageError: *value* is not that.
        """
        try:
            reply = message_from_json(value["reply"])
            if not isinstance(reply, AssistantMessage):
                raise TypeError("its reply is not one of a model")
            return cls(
                number=value["number"],
                model=value["model"],
                reply=reply,
                is_whole=value["is_whole"],
                stop_reason=value["stop_reason"],
                usage=Usage(**value["usage"]),
                started_at=value["started_at"],
                ended_at=value["ended_at"],
            )
        except _UNFIT as error:
            raise UsageError(f"not a turn of a run: {_text(error)}") from error


@dataclass(frozen=True, slots=True)
class Stop:
    """How a cancelled run was stopped."""

    reason: CancelReason
    """The first cause."""
    checkpoint: Checkpoint
    """The wait or poll that noticed it."""
    latency: float
    """Seconds from the cancel, or from the run's start if that was later, to the run's end."""
    stragglers: tuple[StragglerRecord, ...] = ()
    """The work that had not ended by then."""
    also: tuple[CancelReason, ...] = ()
    """Later causes, in the order they came."""
    blocked_at: str = ""
    """`file:line` of code that kept the event loop's thread, and with it the stop; empty if there was none."""

    def to_json(self) -> dict[str, Any]:
        """The stop as a JSON object."""
        return {
            "reason": self.reason.to_json(),
            "checkpoint": self.checkpoint.name,
            "latency": self.latency,
            "stragglers": [straggler.to_json() for straggler in self.stragglers],
            "also": [reason.to_json() for reason in self.also],
            "blocked_at": self.blocked_at,
        }

    @classmethod
    def _from_json(cls, value: Mapping[str, Any]) -> Stop:
        return cls(
            reason=CancelReason(**value["reason"]),
            checkpoint=Checkpoint[value["checkpoint"]],
            latency=value["latency"],
            stragglers=tuple(StragglerRecord(**straggler) for straggler in value["stragglers"]),
            also=tuple(CancelReason(**reason) for reason in value["also"]),
            blocked_at=value["blocked_at"],
        )


@dataclass(frozen=True, slots=True)
class Run:
    """Everything that is known of one run, whatever its ending."""

    id: str
    session_id: str
    outcome: Outcome
    input: UserMessage
    output: str | None
    """The final text of a completed run, else None."""
    partial_text: str
    """The text of the turn that was not finished, exactly as far as it had been accepted; empty if there was none."""
    stop: Stop | None
    """How it was stopped; None unless the outcome is `cancelled`."""
    turns: tuple[Turn, ...]
    tool_calls: tuple[ToolCallRecord, ...]
    stragglers: tuple[StragglerRecord, ...]
    usage: Usage
    error: LoopError | None = field(compare=False)
    """What `raise_for_outcome` raises a copy of; None for a completed run."""
    started_at: float
    """Epoch seconds."""
    ended_at: float
    """Epoch seconds."""
    store_error: StoreError | None = field(default=None, compare=False)
    """Why this record is not in the session's store; None if it is, and if there is no store."""

    def raise_for_outcome(self) -> Run:
        """Give this run if it completed, and raise its error otherwise.

        Raises:
            StoreError: The record could not be stored, whatever the outcome; its cause is the run's own error.
            Cancelled: The run was stopped.
            MaxTurnsExceeded: It ran out of turns.
            LoopError: It failed; mostly a `ModelError`.
        """
        if self.store_error is not None:
            raise _fresh(self.store_error)
        if self.error is None:
            return self
        raise _fresh(self.error)

    def to_json(self) -> dict[str, Any]:
        """The record as a JSON object (seconds and epoch seconds throughout)."""
        return {
            "id": self.id,
            "session_id": self.session_id,
            "outcome": self.outcome,
            "input": self.input.text,
            "output": self.output,
            "partial_text": self.partial_text,
            "stop": None if self.stop is None else self.stop.to_json(),
            "turns": [turn.to_json() for turn in self.turns],
            "tool_calls": [call.to_json() for call in self.tool_calls],
            "stragglers": [straggler.to_json() for straggler in self.stragglers],
            "usage": self.usage.to_json(),
            "error": None if self.error is None else _error_to_json(self.error),
            "started_at": self.started_at,
            "ended_at": self.ended_at,
            "store_error": None if self.store_error is None else _error_to_json(self.store_error),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Run:
        """Read what `to_json` gave; an error is read as its type and its text.

        Raises:
            UsageError: *value* is not that.
        """
        try:
            stop = None if value["stop"] is None else Stop._from_json(value["stop"])
            error = None if value["error"] is None else _error_from_json(value["error"], stop)
            run = cls(
                id=value["id"],
                session_id=value["session_id"],
                outcome=value["outcome"],
                input=UserMessage(value["input"]),
                output=value["output"],
                partial_text=value["partial_text"],
                stop=stop,
                turns=tuple(Turn.from_json(turn) for turn in value["turns"]),
                tool_calls=tuple(ToolCallRecord.from_json(call) for call in value["tool_calls"]),
                stragglers=tuple(StragglerRecord(**straggler) for straggler in value["stragglers"]),
                usage=Usage(**value["usage"]),
                error=error,
                started_at=value["started_at"],
                ended_at=value["ended_at"],
                store_error=None if value["store_error"] is None else StoreError(value["store_error"]["message"]),
            )
        except _UNFIT as unfit:
            raise UsageError(f"not the record of a run: {_text(unfit)}") from unfit
        for raised in (run.error, run.store_error):
            if raised is not None:
                raised.run = run
        return run


def _error_from_json(value: Mapping[str, Any], stop: Stop | None) -> LoopError:
    if stop is not None:
        return Cancelled(stop.reason, stop.checkpoint)
    kind = getattr(errors, value["type"], LoopError)
    if isinstance(kind, type) and issubclass(kind, ModelError):
        details = {name: value[name] for name in ("status", "retryable", "retry_after")}
        return kind(value["message"], **details)
    is_plain = isinstance(kind, type) and issubclass(kind, LoopError) and not issubclass(kind, Cancelled)
    return kind(value["message"]) if is_plain else LoopError(value["message"])


def _fresh(error: LoopError) -> LoopError:
    """Copy *error*: an exception that was raised holds every frame it went through, and the record lives on."""
    try:
        fresh = copy(error)
    except TypeError:  # a subclass whose arguments are not its own
        return error.with_traceback(None)
    fresh.__cause__ = error.__cause__
    return fresh


def _error_to_json(error: LoopError) -> dict[str, Any]:
    value: dict[str, Any] = {"type": type(error).__name__, "message": str(error)}
    if not isinstance(error, Cancelled):
        value |= {name: getattr(error, name) for name in ("status", "retryable", "retry_after") if hasattr(error, name)}
    return value
