"""The object that a driver holds: the current state, and one method that moves it.

Rules: it decides nothing (the table does); a refused input changes nothing; it is not shared between runs, and
not between threads without a lock of the owner.
"""

from __future__ import annotations

from collections.abc import Mapping, Set as AbstractSet
from typing import Any

from loopctl.brain._call_ids import ids_of
from loopctl.brain._effects import CallModel, Effect, RunTools, Wait
from loopctl.brain._inputs import Input
from loopctl.brain._limits import Limits
from loopctl.brain._phase import Phase
from loopctl.brain._snapshot import state_from_json, state_to_json
from loopctl.brain._state import State
from loopctl.brain._transitions import TABLE, request_of
from loopctl.errors import IllegalTransition
from loopctl.messages import Message
from loopctl.recovery import ModelRecovery

__all__ = ["Brain"]


class Brain:
    """One run as a state machine: fed facts, it answers what to do next."""

    __slots__ = ("_state",)

    def __init__(
        self,
        *,
        tools: AbstractSet[str] = frozenset(),
        limits: Limits | None = None,
        recovery: ModelRecovery | None = None,
        is_streaming: bool = True,
    ) -> None:
        """Be ready for one run.

        Args:
            tools: The names of the tools that exist; a call of any other is refused.
            limits: The bounds of the run; None means `Limits()`.
            recovery: What follows a failed model request; None means `ModelRecovery()`.
            is_streaming: False asks models in one piece, if they can.
        """
        self._state = State(
            frozenset(tools),
            Limits() if limits is None else limits,
            ModelRecovery() if recovery is None else recovery,
            is_streaming,
        )

    def step(self, fact: Input) -> tuple[Effect, ...]:
        """Take one input and say what to do next.

        Args:
            fact: What happened.

        Returns:
            The effects, to be performed in order; the last one brings the next input unless it is a `Finish`. Empty
            only for a cancel that came after the end.

        Raises:
            IllegalTransition: *fact* cannot happen in this phase, or does not fit what was asked for. Nothing has
                changed. Any other exception is a bug in the brain.
        """
        row = TABLE.get((self._state.phase, type(fact)))
        if row is None:
            raise IllegalTransition(f"{type(fact).__name__} is not an input of the brain (phase {self.phase.name})")
        self._state, effects = row.handler(self._state, fact)
        return effects

    @property
    def phase(self) -> Phase:
        """Where the run is."""
        return self._state.phase

    @property
    def turn(self) -> int:
        """The turn that runs, or ran last, from 1; 0 before the first."""
        return self._state.turn

    @property
    def history(self) -> tuple[Message, ...]:
        """The conversation before this run; empty until `Started`."""
        return self._state.history

    @property
    def scratch(self) -> tuple[Message, ...]:
        """What this run adds to the conversation: commit it if and only if the run completes.

        It is well-formed after the history whenever the model is asked and when the run has completed. In every
        other phase its last reply may have open calls.
        """
        return self._state.scratch

    @property
    def call_ids(self) -> frozenset[str]:
        """The ids of all tool calls so far, those of the history included: no new call may have one of them."""
        return ids_of(self._state.history + self._state.scratch)

    @property
    def pending(self) -> CallModel | RunTools | Wait | None:
        """The effect whose outcome is awaited; None before the start and after the end.

        A driver that goes on after `thaw` performs it, or feeds what became of it. A `Wait` is the whole one again.
        """
        state = self._state
        match state.phase:
            case Phase.AWAITING_MODEL:
                return request_of(state)
            case Phase.WAITING if state.attempt is not None:
                return Wait(state.attempt.wait)
            case Phase.AWAITING_TOOLS:
                return RunTools(state.turn, state.round.open_calls)
            case _:
                return None

    def freeze(self) -> dict[str, Any]:
        """Give the whole state as a JSON object that says its version."""
        return state_to_json(self._state)

    @classmethod
    def thaw(cls, value: Mapping[str, Any]) -> Brain:
        """Go on from what `freeze` gave; the thawed brain answers every input as the frozen one would have.

        Raises:
            UsageError: *value* is not such an object, or of a version that this loopctl does not know.
        """
        brain = cls()
        brain._state = state_from_json(value)
        return brain

    def __repr__(self) -> str:
        """Give the phase and the turn."""
        return f"<Brain {self.phase.name} turn={self.turn}>"
