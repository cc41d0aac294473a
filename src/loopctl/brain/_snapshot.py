"""The state of a brain to a JSON object and back, versioned.

Rules: nothing in the object is shared with the brain or needs more than a JSON encoder; what can be derived is not
stored twice (the calls of a round are those of the last reply); an object that no brain can have written is a
`UsageError` that says why, and never a brain in an impossible state.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from loopctl.brain._attempt import Attempt
from loopctl.brain._limits import Limits
from loopctl.brain._phase import Phase
from loopctl.brain._state import State
from loopctl.brain._tool_round import NO_ROUND, ToolRound
from loopctl.errors import UsageError
from loopctl.messages import (
    AssistantMessage,
    Message,
    ToolMessage,
    find_problems,
    history_from_json,
    history_to_json,
    message_from_json,
    message_to_json,
)
from loopctl.recovery import ModelRecovery

__all__ = ["state_from_json", "state_to_json"]

_FORMAT = "loopctl.brain"
_VERSION = 2


def state_to_json(state: State) -> dict[str, Any]:
    """Give *state* as a JSON object."""
    return {
        "format": _FORMAT,
        "version": _VERSION,
        "phase": state.phase.value,
        "turn": state.turn,
        "tools": sorted(state.tools),
        "max_turns": state.limits.max_turns,
        "recovery": state.recovery.to_json(),
        "is_streaming": state.is_streaming,
        "attempt": None if state.attempt is None else state.attempt.to_json(),
        "history": history_to_json(state.history),
        "scratch": history_to_json(state.scratch),
        "answers": message_to_json(ToolMessage(state.round.answers)),
    }


def state_from_json(value: object) -> State:
    """Read what `state_to_json` gave.

    Raises:
        UsageError: *value* is not such an object; the text says what is wrong.
    """
    if not isinstance(value, Mapping) or value.get("format") != _FORMAT:
        _refuse("it does not say that it is one")
    if value.get("version") != _VERSION:
        raise UsageError(
            f"a frozen brain of version {value.get('version')!r}, and this loopctl reads version {_VERSION}: "
            "thaw it with the loopctl that froze it"
        )
    try:
        state = _decode(value)
    except (KeyError, ValueError, TypeError) as error:
        _refuse(f"{type(error).__name__}: {error}")
    _check(state)
    return state


def _decode(value: Mapping[str, Any]) -> State:
    phase = Phase(value["phase"])
    scratch = history_from_json(value["scratch"])
    answers = message_from_json(value["answers"])
    if not isinstance(answers, ToolMessage):
        _refuse("its answers are not tool results")
    return State(
        tools=_names(value["tools"]),
        limits=Limits(value["max_turns"]),
        recovery=ModelRecovery.from_json(value["recovery"]),
        is_streaming=_flag(value["is_streaming"]),
        phase=phase,
        turn=_count(value["turn"]),
        history=history_from_json(value["history"]),
        scratch=scratch,
        round=_round(phase, scratch, answers),
        attempt=None if value["attempt"] is None else Attempt.from_json(value["attempt"]),
    )


def _names(value: Any) -> frozenset[str]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        _refuse(f"its tools are no list of names: {value!r}")
    return frozenset(value)


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        _refuse(f"its turn is not a number: {value!r}")
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        _refuse(f"its is_streaming is not true or false: {value!r}")
    return value


def _round(phase: Phase, scratch: tuple[Message, ...], answers: ToolMessage) -> ToolRound:
    if phase is not Phase.AWAITING_TOOLS:
        if answers.results:
            _refuse(f"it has answers in phase {phase.name}, which awaits none")
        return NO_ROUND
    last = scratch[-1] if scratch else None
    calls = last.tool_calls if isinstance(last, AssistantMessage) else ()
    tool_round = ToolRound(calls, answers.results)
    answered = [answer.call_id for answer in answers.results]
    if len(tool_round.open_calls) + len(answered) != len(calls) or not tool_round.open_calls:
        _refuse("its round has no open call, or answers that are not one for each answered call")
    return tool_round


def _check(state: State) -> None:
    """Refuse a state whose parts contradict each other."""
    before_start = state.phase is Phase.READY or (state.phase is Phase.CANCELLED and state.turn == 0)
    if not (0 if before_start else 1) <= state.turn <= (0 if before_start else state.limits.max_turns):
        _refuse(f"turn {state.turn} of {state.limits.max_turns} in phase {state.phase.name}")
    if before_start != (not state.scratch):
        _refuse(f"{len(state.scratch)} messages of its own in phase {state.phase.name}")
    is_asking = state.phase in (Phase.AWAITING_MODEL, Phase.WAITING)
    if is_asking != (state.attempt is not None):
        _refuse(f"{'no' if is_asking else 'an'} attempt in phase {state.phase.name}")
    if is_asking or state.phase is Phase.COMPLETED:
        problems = find_problems(state.history + state.scratch)
        if problems:
            _refuse(f"its conversation is not well-formed: {'; '.join(problems)}")


def _refuse(why: str) -> NoReturn:
    raise UsageError(f"not a frozen brain: {why}. Give what Brain.freeze() gave, unchanged.")
