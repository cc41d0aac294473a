"""What the brain asks for: work, in the imperative.

Ordering duties of whoever performs the effects of one step (also written on each of them):

1. They are performed in the order given, each to its end before the next begins.
2. The last one brings the next input, and no other does: what it came to, or a `CancelRequested` in its place.
3. Exactly one step of a run gives a `Finish`, as its last effect. After it there is nothing to perform, ever.
4. A cancel that is noticed before or between effects drops the rest of them and goes in as `CancelRequested`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from loopctl.messages import Message, ToolCall, ToolResult
from loopctl.record import Outcome

__all__ = ["CallModel", "Effect", "Finish", "RefuseCalls", "RunTools"]


@dataclass(frozen=True, slots=True)
class CallModel:
    """Send *messages* to the model. Brings `ModelReplied`, `ModelFailed` or `CancelRequested`.

    Order: always last. Whatever `RefuseCalls` stood before it was recorded and told first.
    """

    turn: int
    """The turn that begins, from 1."""
    messages: tuple[Message, ...]
    """The history and what this run added; well-formed if the history was."""


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


Effect: TypeAlias = CallModel | RefuseCalls | RunTools | Finish
