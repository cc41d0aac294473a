"""THE TABLE: what each input does in each phase.

Rules of this file about itself:

1. Everything that moves the machine is in here. `_brain.py` looks rows up and decides nothing.
2. Every pair of a phase and an input has a row. What cannot happen has the row `REFUSED`; nothing is left out, so a
   new phase or a new input fails the tests until somebody has thought about each pair.
3. A handler is a pure function of the state and the input. It knows no driver, no clock and no attempt numbers
   other than those in the state and in the input's `Moment`.
4. `CancelRequested` is not refused anywhere: it ends every phase that is not terminal in one step, and is void in
   a terminal one, because a cancel may lose the race against the end.
5. WARNING, to be kept in step by hand: the moves of a row say what its handler may do. The tests check both ways (a
   move that a handler makes is listed; a listed one is made in some story), and docs/reference/states.md is
   printed from them by scripts/states.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NoReturn, TypeAlias

from loopctl.brain._attempt import Attempt
from loopctl.brain._call_ids import ids_of
from loopctl.brain._effects import CallModel, Effect, Finish, RefuseCalls, Report, ResetAttempt, RunTools, Wait
from loopctl.brain._inputs import CancelRequested, Input, ModelFailed, ModelReplied, Started, ToolsFinished, Waited
from loopctl.brain._moment import Moment
from loopctl.brain._phase import Phase
from loopctl.brain._state import State
from loopctl.brain._tool_round import NO_ROUND, ToolRound, refusals
from loopctl.errors import IllegalTransition
from loopctl.fallback import Route
from loopctl.messages import AssistantMessage, Message, find_problems
from loopctl.record import Outcome
from loopctl.recovery import Rescue, Retry, classify

__all__ = ["TABLE", "Move", "Row", "accepted_in", "request_of"]

Step: TypeAlias = tuple[State, tuple[Effect, ...]]
"""What a handler gives: the next state, and the effects on the way to it."""

Handler: TypeAlias = Callable[[State, Any], Step]


@dataclass(frozen=True, slots=True)
class Move:
    """One way that a row may go."""

    to: Phase
    last: type[Effect]
    """The kind of the step's last effect, the one that brings the next input."""
    when: str
    """What decides for it, in words."""


@dataclass(frozen=True, slots=True)
class Row:
    """What one input does in one phase."""

    handler: Handler
    moves: tuple[Move, ...] = ()
    """Empty if the input is refused, or void."""


def _start(state: State, fact: Started) -> Step:
    problems = find_problems(fact.history)
    if problems:
        _refuse(state, fact, f"its history is not well-formed: {'; '.join(problems)}")
    return _ask_model(replace(state, history=fact.history, scratch=(fact.input,)), fact.moment)


def _ask_model(state: State, moment: Moment) -> Step:
    """Begin the next turn."""
    next_turn = replace(state, turn=state.turn + 1, round=NO_ROUND)
    return _send(next_turn, _first_attempt(state, moment.chain.route(moment.now)))


def _first_attempt(state: State, route: Route) -> Attempt:
    return Attempt(route, "stream" if state.is_streaming else "request")


def _send(state: State, attempt: Attempt) -> Step:
    asked = replace(state, phase=Phase.AWAITING_MODEL, attempt=attempt)
    return asked, (request_of(asked),)


def request_of(state: State) -> CallModel:
    """Give the request of a state that has an attempt."""
    attempt = _attempt_of(state)
    return CallModel(state.turn, state.history + state.scratch, attempt.route, attempt.mode)


def _attempt_of(state: State) -> Attempt:
    assert state.attempt is not None, "only the phases that have an attempt come here"
    return state.attempt


def _take_reply(state: State, fact: ModelReplied) -> Step:
    _check_ids(state, fact)
    return _with_report(state, fact.moment, "succeeded", _follow_reply(state, fact))


def _follow_reply(state: State, fact: ModelReplied) -> Step:
    calls = fact.reply.tool_calls
    if not calls:
        return _complete(state, fact.reply)
    replied = _with_message(state, fact.reply)
    if state.turn >= state.limits.max_turns:
        return _finish(replied, Phase.MAX_TURNS)
    refused = refusals(calls, state.tools)
    telling = (RefuseCalls(refused),) if refused else ()
    tool_round = ToolRound(calls, refused)
    if not tool_round.open_calls:
        asked, effects = _ask_model(_with_message(replied, tool_round.message()), _counted(state, fact.moment))
        return asked, (*telling, *effects)
    waiting = replace(replied, phase=Phase.AWAITING_TOOLS, round=tool_round, attempt=None)
    return waiting, (*telling, RunTools(state.turn, tool_round.open_calls))


def _counted(state: State, moment: Moment) -> Moment:
    """Give *moment* with the success that this very step reports: the next turn is routed after it."""
    return replace(moment, chain=moment.chain.succeeded(_attempt_of(state).route))


def _with_report(state: State, moment: Moment, how: Literal["succeeded", "failed"], step: Step) -> Step:
    """Put what is counted of the model of this turn before everything else; a chain of one counts nothing."""
    following, effects = step
    if len(moment.chain.models) == 1:
        return step
    return following, (Report(_attempt_of(state).route, how), *effects)


def _complete(state: State, reply: AssistantMessage) -> Step:
    # An empty reply is an answer, but not a message: a provider rejects an assistant message without content, so
    # keeping it would spoil every later run of the session.
    done = _with_message(state, reply) if reply.text else state
    return _finish(done, Phase.COMPLETED, reply.text)


def _check_ids(state: State, fact: ModelReplied) -> None:
    taken = ids_of(state.history + state.scratch)
    times = Counter(call.id for call in fact.reply.tool_calls)
    bad = [call_id for call_id, number in times.items() if not call_id or number > 1 or call_id in taken]
    if bad:
        listed = ", ".join(map(repr, bad))
        _refuse(state, fact, f"the call ids {listed} are empty or not unique; rename them by with_unique_ids first")


def _take_results(state: State, fact: ToolsFinished) -> Step:
    problems = state.round.problems_of(fact.results)
    if problems:
        _refuse(state, fact, "; ".join(problems))
    return _ask_model(_with_message(state, state.round.answered_by(fact.results).message()), fact.moment)


def _recover(state: State, fact: ModelFailed) -> Step:
    """Wait and ask again, ask in one piece, ask the next model, or give up: in this order."""
    if fact.is_misuse:
        return _finish(state, Phase.FAILED)
    attempt = _attempt_of(state)
    decision = state.recovery.decide(
        attempt.budget,
        classify(fact.status, retryable=fact.retryable, retry_after=fact.retry_after),
        jitter=fact.moment.jitter,
        can_rescue=fact.can_rescue,
        is_probe=attempt.route.is_probe,
    )
    match decision:
        case Retry(after, budget):
            again = replace(attempt, budget=budget, wait=after)
            return replace(state, phase=Phase.WAITING, attempt=again), (ResetAttempt(state.turn), Wait(after))
        case Rescue(budget):
            return _again(state, Attempt(attempt.route, "rescue", budget))
        case _:
            return _with_report(state, fact.moment, "failed", _fall_back(state, fact.moment))


def _fall_back(state: State, moment: Moment) -> Step:
    following = moment.chain.next_after(_attempt_of(state).route, moment.now)
    if following is None:
        return _finish(state, Phase.FAILED)
    return _again(state, _first_attempt(state, following))


def _again(state: State, attempt: Attempt) -> Step:
    asked, effects = _send(state, attempt)
    return asked, (ResetAttempt(state.turn), *effects)


def _send_again(state: State, _fact: Waited) -> Step:
    return _send(state, _attempt_of(state))


def _cancel(state: State, _fact: CancelRequested) -> Step:
    return _finish(state, Phase.CANCELLED)


def _ignore(state: State, _fact: CancelRequested) -> Step:
    return state, ()


def _refuse(state: State, fact: Input, why: str = "") -> NoReturn:
    accepted = ", ".join(kind.__name__ for kind in accepted_in(state.phase)) or "nothing more"
    detail = why or f"it accepts {accepted}"
    raise IllegalTransition(f"the brain cannot take this {type(fact).__name__} in phase {state.phase.name}: {detail}")


def _finish(state: State, phase: Phase, output: str | None = None) -> Step:
    return replace(state, phase=phase, round=NO_ROUND, attempt=None), (Finish(_OUTCOMES[phase], output),)


def _with_message(state: State, message: Message) -> State:
    return replace(state, scratch=(*state.scratch, message))


def accepted_in(phase: Phase) -> tuple[type[Input], ...]:
    """Give the inputs that move *phase* somewhere, in the order of the table."""
    return tuple(kind for (at, kind), row in TABLE.items() if at is phase and row.moves)


_OUTCOMES: Mapping[Phase, Outcome] = {
    Phase.COMPLETED: "completed",
    Phase.CANCELLED: "cancelled",
    Phase.MAX_TURNS: "max_turns",
    Phase.FAILED: "failed",
}

REFUSED = Row(_refuse)
VOID = Row(_ignore)
STOP = Row(_cancel, (Move(Phase.CANCELLED, Finish, "always"),))

TABLE: Mapping[tuple[Phase, type[Input]], Row] = {
    (Phase.READY, Started): Row(_start, (Move(Phase.AWAITING_MODEL, CallModel, "the history is well-formed"),)),
    (Phase.READY, ModelReplied): REFUSED,
    (Phase.READY, ModelFailed): REFUSED,
    (Phase.READY, ToolsFinished): REFUSED,
    (Phase.READY, Waited): REFUSED,
    (Phase.READY, CancelRequested): STOP,
    (Phase.AWAITING_MODEL, Started): REFUSED,
    (Phase.AWAITING_MODEL, ModelReplied): Row(
        _take_reply,
        (
            Move(Phase.COMPLETED, Finish, "the reply has no tool calls"),
            Move(Phase.MAX_TURNS, Finish, "it has calls, and this was the last allowed turn"),
            Move(Phase.AWAITING_TOOLS, RunTools, "some call can be run; the others are refused first"),
            Move(Phase.AWAITING_MODEL, CallModel, "no call can be run: all are refused, the next turn begins"),
        ),
    ),
    (Phase.AWAITING_MODEL, ModelFailed): Row(
        _recover,
        (
            Move(Phase.WAITING, Wait, "it may pass, and this model has retries left for it"),
            Move(Phase.AWAITING_MODEL, CallModel, "streaming gave up: the same model is asked in one piece"),
            Move(Phase.AWAITING_MODEL, CallModel, "this model is given up for the turn: the next one is asked"),
            Move(Phase.FAILED, Finish, "there is no next model, or the configuration is wrong"),
        ),
    ),
    (Phase.AWAITING_MODEL, ToolsFinished): REFUSED,
    (Phase.AWAITING_MODEL, Waited): REFUSED,
    (Phase.AWAITING_MODEL, CancelRequested): STOP,
    (Phase.WAITING, Started): REFUSED,
    (Phase.WAITING, ModelReplied): REFUSED,
    (Phase.WAITING, ModelFailed): REFUSED,
    (Phase.WAITING, ToolsFinished): REFUSED,
    (Phase.WAITING, Waited): Row(_send_again, (Move(Phase.AWAITING_MODEL, CallModel, "always"),)),
    (Phase.WAITING, CancelRequested): STOP,
    (Phase.AWAITING_TOOLS, Started): REFUSED,
    (Phase.AWAITING_TOOLS, ModelReplied): REFUSED,
    (Phase.AWAITING_TOOLS, ModelFailed): REFUSED,
    (Phase.AWAITING_TOOLS, ToolsFinished): Row(
        _take_results, (Move(Phase.AWAITING_MODEL, CallModel, "each open call has one result"),)
    ),
    (Phase.AWAITING_TOOLS, Waited): REFUSED,
    (Phase.AWAITING_TOOLS, CancelRequested): STOP,
    (Phase.COMPLETED, Started): REFUSED,
    (Phase.COMPLETED, ModelReplied): REFUSED,
    (Phase.COMPLETED, ModelFailed): REFUSED,
    (Phase.COMPLETED, ToolsFinished): REFUSED,
    (Phase.COMPLETED, Waited): REFUSED,
    (Phase.COMPLETED, CancelRequested): VOID,
    (Phase.CANCELLED, Started): REFUSED,
    (Phase.CANCELLED, ModelReplied): REFUSED,
    (Phase.CANCELLED, ModelFailed): REFUSED,
    (Phase.CANCELLED, ToolsFinished): REFUSED,
    (Phase.CANCELLED, Waited): REFUSED,
    (Phase.CANCELLED, CancelRequested): VOID,
    (Phase.MAX_TURNS, Started): REFUSED,
    (Phase.MAX_TURNS, ModelReplied): REFUSED,
    (Phase.MAX_TURNS, ModelFailed): REFUSED,
    (Phase.MAX_TURNS, ToolsFinished): REFUSED,
    (Phase.MAX_TURNS, Waited): REFUSED,
    (Phase.MAX_TURNS, CancelRequested): VOID,
    (Phase.FAILED, Started): REFUSED,
    (Phase.FAILED, ModelReplied): REFUSED,
    (Phase.FAILED, ModelFailed): REFUSED,
    (Phase.FAILED, ToolsFinished): REFUSED,
    (Phase.FAILED, Waited): REFUSED,
    (Phase.FAILED, CancelRequested): VOID,
}
