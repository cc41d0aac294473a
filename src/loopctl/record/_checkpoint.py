"""Every place where a run notices a cancel, by name."""

from __future__ import annotations

from enum import Enum

from loopctl.record._reason import Urgency

__all__ = ["Checkpoint"]


class Checkpoint(Enum):
    """A place where a run can be stopped. Nothing in the engine waits without bound outside of these."""

    TURN_ENTRY = "turn_entry"
    """Before a model turn: polled, the provider is untouched."""
    MODEL_REQUEST = "model_request"
    """A non-streaming request: raced, dropped at its await, its connection closed."""
    STREAM_EVENT = "stream_event"
    """Each streamed event: raced, no further event is read or delivered, the connection is closed."""
    STREAM_WAIT = "stream_wait"
    """A rate gate or a stream's backoff: the wait is abandoned, no attempt follows."""
    RESCUE = "rescue"
    """The one non-streaming request after streaming gave up: never sent, or dropped."""
    BETWEEN_CALLS = "between_calls"
    """Before each call of a sequential dispatch: polled, the next call never starts."""
    WAVE = "wave"
    """At the top of each parallel wave and before each queued call: polled."""
    TOOL_CALL = "tool_call"
    """One tool call: raced, dropped at its next await."""
    RECOVERY_WAIT = "recovery_wait"
    """The backoff before a tool retry: no retry starts."""
    PIPELINE = "pipeline"
    """Middleware and whole batches: polled, partial batches are discarded from the conversation."""
    APPROVAL = "approval"
    """Waiting for a human's yes: raced, the cancel means no."""
    DELIVERY = "delivery"
    """Handing an event to a slow reader: raced, not delivered."""
    SETUP = "setup"
    """Starting a local model or another peer: raced, nothing half-open stays."""

    @property
    def ends_from(self) -> Urgency:
        """The urgency that ends a wait here: a drained run leaves the waits that only precede new work."""
        waits = {Checkpoint.STREAM_WAIT, Checkpoint.RECOVERY_WAIT, Checkpoint.APPROVAL}
        return Urgency.DRAIN if self in waits else Urgency.STOP

    @property
    def refuses_from(self) -> Urgency:
        """The urgency from which nothing is begun here; a drained run still hands its events over."""
        return Urgency.STOP if self is Checkpoint.DELIVERY else Urgency.DRAIN
