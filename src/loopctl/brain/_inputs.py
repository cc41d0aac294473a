"""What the brain is told: facts, in the past tense.

Rules: an input says what happened and proposes nothing; it holds frozen data only, no exception object and no
callable, so that a list of inputs can be stored and replayed. What may lead to a model request carries its `Moment`; a
cancel decides without looking at anything, and a wait that is over leads to what was decided before it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from loopctl.brain._moment import Moment
from loopctl.messages import AssistantMessage, Message, ToolResult, UserMessage
from loopctl.model import StopReason
from loopctl.record import CancelReason, Checkpoint

__all__ = ["CancelRequested", "Input", "ModelFailed", "ModelReplied", "Started", "ToolsFinished", "Waited"]


@dataclass(frozen=True, slots=True)
class Started:
    """A run began. The first input, and only the first."""

    history: tuple[Message, ...]
    """The conversation so far; it must be well-formed (`find_problems` has nothing to say)."""
    input: UserMessage
    """What the person says now."""
    moment: Moment = field(default_factory=Moment)


@dataclass(frozen=True, slots=True)
class ModelReplied:
    """The model request of the last `CallModel` gave a whole reply.

    A truncated reply is not one: it is a `ModelFailed`.
    """

    reply: AssistantMessage
    """Its call ids are non-empty and new to the conversation: see `with_unique_ids` and `Brain.call_ids`."""
    stop_reason: StopReason
    moment: Moment = field(default_factory=Moment)


@dataclass(frozen=True, slots=True)
class ModelFailed:
    """The model request of the last `CallModel` failed. A cancelled request did not fail: that is `CancelRequested`."""

    message: str
    status: int | None = None
    """The HTTP status, or None if there was no answer to have one."""
    retryable: bool = False
    """True if the same request may succeed later."""
    retry_after: float | None = None
    """Seconds the server asked to wait, at least 0; None if it did not say."""
    can_rescue: bool = False
    """True if the request was streamed and its model can be asked without streaming."""
    is_misuse: bool = False
    """True if the configuration is wrong, or a middleware failed or said no: nothing else is tried, and no model is to
    blame."""
    moment: Moment = field(default_factory=Moment)


@dataclass(frozen=True, slots=True)
class ToolsFinished:
    """Every call of the last `RunTools` has its result, a failed call too (`is_error`)."""

    results: tuple[ToolResult, ...]
    """One for each of those calls, in any order."""
    moment: Moment = field(default_factory=Moment)


@dataclass(frozen=True, slots=True)
class Waited:
    """The time of the last `Wait` is over."""


@dataclass(frozen=True, slots=True)
class CancelRequested:
    """The run's signal fired and a checkpoint noticed it. Comes instead of what the last effect would have brought."""

    reason: CancelReason
    checkpoint: Checkpoint


Input: TypeAlias = Started | ModelReplied | ModelFailed | ToolsFinished | Waited | CancelRequested
