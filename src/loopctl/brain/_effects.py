"""What the brain asks for: work, in the imperative.

Ordering duties of whoever performs the effects of one step (also written on each of them):

1. They are performed in the order given, each to its end before the next begins.
2. The last one brings the next input, and no other does: what it came to, or a `CancelRequested` in its place.
3. Exactly one step of a run gives a `Finish`, as its last effect. After it there is nothing to perform, ever; what
   stands before it waits for nothing.
4. A cancel that is noticed before or between effects drops the rest of them and goes in as `CancelRequested`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from loopctl.brain._attempt import Mode
from loopctl.fallback import Route
from loopctl.messages import Message, ToolCall, ToolResult
from loopctl.record import Outcome

__all__ = ["CallModel", "Effect", "Finish", "RefuseCalls", "Report", "ResetAttempt", "RunTools", "Wait"]


@dataclass(frozen=True, slots=True)
class CallModel:
    """Send *messages* to a model, once. Brings `ModelReplied`, `ModelFailed` or `CancelRequested`.

    Order: always last. Whatever `RefuseCalls` stood before it was recorded and told first.
    """

    turn: int
    """The turn that begins or, if it is the one that goes on, is tried once more; from 1."""
    messages: tuple[Message, ...]
    """The history and what this run added; well-formed if the history was."""
    route: Route
    """Which model of the chain."""
    mode: Mode
    """How; a model that cannot be asked in one piece is streamed under `request`, and never gets a `rescue`."""


@dataclass(frozen=True, slots=True)
class ResetAttempt:
    """Void what the failed attempt of this turn has shown: another follows. Brings nothing.

    Order: before the `Wait` or the `CallModel` of the next attempt.
    """

    turn: int
    """The turn that goes on, from 1."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait *seconds*. Brings `Waited` or `CancelRequested`.

    Order: always last.
    """

    seconds: float
    """At least 0."""


@dataclass(frozen=True, slots=True)
class Report:
    """Count in the chain how the model of *route* did in this turn. Brings nothing, and waits for nothing.

    Order: first. Only in a chain of more than one model, once in a turn for each that was asked; never in a turn that
    was cancelled.
    """

    route: Route
    how: Literal["succeeded", "failed"]


@dataclass(frozen=True, slots=True)
class RefuseCalls:
    """Record that these calls were answered without being run. Brings nothing.

    Order: first, before the rest of its round is run and before the model is told. It cannot be refused and
    needs no wait; the brain has already written the results into the conversation.
    """

    results: tuple[ToolResult, ...]
    """At least one, in the model's order; the text is made for the model."""


@dataclass(frozen=True, slots=True)
class RunTools:
    """Run *calls*. Brings `ToolsFinished` with a result for each of them, or `CancelRequested`.

    Order: always last. The calls may run in any order or at once: the brain puts the results into the model's order.
    """

    turn: int
    """The turn whose reply asked for them, from 1."""
    calls: tuple[ToolCall, ...]
    """At least one, in the model's order; each names a tool that exists and has arguments that were a JSON object."""


@dataclass(frozen=True, slots=True)
class Finish:
    """End the run. Brings nothing.

    Order: always last, once in a run. Commit `Brain.scratch` to the history if and only if *outcome* is `completed`.
    """

    outcome: Outcome
    output: str | None
    """The final text of a completed run, possibly empty; None for every other outcome."""


Effect: TypeAlias = CallModel | RefuseCalls | Report | ResetAttempt | RunTools | Wait | Finish
