"""What is promised of a stop, each as a question to one stopped run.

Rules: a promise is broken by what was seen, never by what was expected to be seen at that step; the text says what was
seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from loopctl.messages import find_problems
from loopctl.record import (
    ApprovalEnded,
    ApprovalRequested,
    CallStatus,
    Checkpoint,
    Event,
    Run,
    RunEnded,
    StragglerEnded,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnStarted,
)
from loopctl.testing._model import ScriptedModel
from loopctl.testing._stopped import Stopped

__all__ = ["broken_promises"]

_CLOSINGS = (ApprovalEnded, ToolFinished, TurnEnded, RunEnded, StragglerEnded)
"""What may be told after a cancel; the end of a straggler at any time, and to observers only."""
_PAIRS = ((ApprovalRequested, ApprovalEnded), (ToolStarted, ToolFinished), (TurnStarted, TurnEnded))
_OF_CALLS = {
    Checkpoint.TOOL_CALL,
    Checkpoint.BETWEEN_CALLS,
    Checkpoint.WAVE,
    Checkpoint.RECOVERY_WAIT,
    Checkpoint.APPROVAL,
}
_OF_REQUESTS = {
    Checkpoint.SETUP,
    Checkpoint.MODEL_REQUEST,
    Checkpoint.STREAM_EVENT,
    Checkpoint.STREAM_WAIT,
    Checkpoint.RESCUE,
}
_SLACK = 1e-6
"""Seconds that rounding may add to a time limit."""


def broken_promises(stopped: Stopped, whole: Stopped | None) -> list[str]:
    """Say what is wrong with *stopped*.

    Args:
        stopped: It was played to its end.
        whole: The same scenario, not stopped; None if *stopped* is that one.

    Returns:
        One sentence for each broken promise.
    """
    promises = _OF_EVERY_RUN if whole is None else (*_OF_EVERY_RUN, *_OF_A_STOP)
    if stopped.run is None:  # the task that would have started it was cancelled before
        promises = (_nothing_is_left,)
    found = [problem for promise in promises for problem in promise(stopped)]
    if whole is not None and stopped.run is not None:
        found += _comparison(stopped, stopped.run, whole)
    return found


def _one_ending_is_told(stopped: Stopped) -> Iterator[str]:
    sides: dict[str, Sequence[Event]] = {
        "an observer": [event for event in stopped.told if not isinstance(event, StragglerEnded)]
    }
    if stopped.read:
        sides["the reader"] = stopped.read
    for who, events in sides.items():
        ends = [event for event in events if isinstance(event, RunEnded)]
        if len(ends) != 1 or events[-1] is not ends[0]:
            yield f"{who} was told {len(ends)} endings, or one that was not the last event"
        elif ends[0].run is not stopped.run:
            yield f"{who} was told of another record than the session keeps"
        yield from _unpaired(who, events)


def _unpaired(who: str, events: Sequence[Event]) -> Iterator[str]:
    for begin, end in _PAIRS:
        begun, ended = (sum(isinstance(event, kind) for event in events) for kind in (begin, end))
        if begun != ended:
            yield f"{who} was told {begun} {begin.__name__}, but {ended} {end.__name__}"


def _the_conversation_is_well_formed(stopped: Stopped) -> Iterator[str]:
    problems = find_problems(stopped.session.history)
    if problems:
        yield f"the conversation is broken: {'; '.join(problems)}"
    run = stopped.run
    assert run is not None
    calls = [call.id for turn in run.turns for call in turn.reply.tool_calls]
    if sorted(calls) != sorted(record.id for record in run.tool_calls):
        yield f"the record has {len(run.tool_calls)} calls, its turns {len(calls)}"


def _nothing_is_left(stopped: Stopped) -> Iterator[str]:
    if stopped.left:
        yield f"this goes on: {', '.join(stopped.left)}"
    if stopped.session.agent._held:
        yield f"resources are held: {', '.join(stopped.session.agent._held)}"
    if stopped.late and not _is_pressed(stopped):
        yield f"{stopped.late} events came after the end"
    for model in stopped.session.agent.models:
        scripted = getattr(model, "_model", model)
        for exchange in scripted.exchanges if isinstance(scripted, ScriptedModel) else ():
            # How a reply that is asked for in one piece tidies up cannot be told from outside: a stop may tear it.
            if exchange.opened_in and not exchange.finally_runs:
                yield f"reply {exchange.number} of {scripted.name} is open"
            elif exchange.is_streamed and not exchange.is_clean and not _is_pressed(stopped):
                yield f"reply {exchange.number} of {scripted.name} was not closed cleanly: {exchange.ending}"


def _is_pressed(stopped: Stopped) -> bool:
    """Say whether work may be torn or abandoned, because it was expected or asked for."""
    stop = stopped.stop
    is_hard = stop is not None and (stop.grace == 0 or (stop.hand == "caller" and stop.timing == "twice"))
    return stopped.scenario.stragglers or is_hard


def _what_was_abandoned_was_said_to_be(stopped: Stopped) -> Iterator[str]:
    run = stopped.run
    assert run is not None
    if run.stragglers and not _is_pressed(stopped):
        yield f"work was abandoned: {', '.join(straggler.name for straggler in run.stragglers)}"


def _it_was_stopped_by_this_stop(stopped: Stopped) -> Iterator[str]:
    run, stop, at = stopped.run, stopped.stop, stopped.at_stop
    assert run is not None
    assert stop is not None
    if at is None or stopped.answer is None:
        return
    if stop.hand == "caller" and stopped.is_thrown != stopped.answer:
        yield f"the task answered {stopped.answer} to its cancel, but CancelledError went on: {stopped.is_thrown}"
    if stop.hand == "handle" and stopped.answer and run.outcome != "cancelled":
        yield f"cancel answered True, but the run is {run.outcome}"
    if stop.hand != "caller" and stopped.answer and not at.is_over and run.outcome != "cancelled":
        yield f"the stop came in time, but the run is {run.outcome}"
    if at.is_over and stopped.answer and stop.hand == "handle":
        yield "cancel answered True after the end"


def _nothing_is_begun_after_it(stopped: Stopped) -> Iterator[str]:
    at, end, run = stopped.at_stop, stopped.at_end, stopped.run
    if at is None or end is None or run is None or run.outcome != "cancelled" or stopped.answer is None:
        return
    if stopped.stop is not None and stopped.stop.hand == "caller":
        return  # a task learns of its cancel when it runs on
    if end.requests > at.requests:
        yield f"{end.requests - at.requests} model requests were sent after it"
    if end.starts > at.starts:
        yield f"{end.starts - at.starts} tools were started after it"
    if end.chain is not at.chain:
        yield "a breaker counted after it"
    late = [event for event in stopped.told[at.events :] if not isinstance(event, _CLOSINGS)]
    if late:
        yield f"an event was told after it: {late[0]}"


def _a_cancelled_run_commits_nothing(stopped: Stopped) -> Iterator[str]:
    run = stopped.run
    assert run is not None
    if run.outcome != "completed" and any(message is run.input for message in stopped.session.history):
        yield f"a {run.outcome} run was committed"
    if run.outcome == "completed" and run.stop is not None:
        yield "a completed run has a stop"


def _it_ends_within_the_grace(stopped: Stopped) -> Iterator[str]:
    at, end, run = stopped.at_stop, stopped.at_end, stopped.run
    if at is None or end is None or run is None or run.outcome != "cancelled" or stopped.answer is None:
        return
    took = end.at - at.at
    if took > stopped.session.agent.config.grace + _SLACK:
        yield f"it took {took:g} s, more than the grace"


def _the_checkpoint_fits(stopped: Stopped) -> Iterator[str]:
    run = stopped.run
    if run is None or run.stop is None or run.stop.reason != stopped.reason:
        return
    at = run.stop.checkpoint
    calls = run.turns[-1].reply.tool_calls if run.turns and run.turns[-1].is_whole else ()
    if at in _OF_CALLS and not calls:
        yield f"it was caught at {at.name}, but no call was to be made"
    is_stored = stopped.session._journal is not None  # its store is set up before the first turn
    if at in _OF_REQUESTS and not run.turns and not (is_stored and at is Checkpoint.SETUP):
        yield f"it was caught at {at.name}, but no turn had begun"
    begun = [record for record in run.tool_calls if record.status is not CallStatus.NOT_STARTED]
    if at in _OF_REQUESTS and {call.id for call in calls} & {record.id for record in begun}:
        yield f"it was caught at {at.name}, but a call of that turn had begun"


def _comparison(stopped: Stopped, run: Run, whole: Stopped) -> Iterator[str]:
    """Compare with the run that was not stopped."""
    natural = whole.run
    assert natural is not None
    if run.outcome not in {"cancelled", natural.outcome}:
        yield f"the run is {run.outcome}: {run.error}"
    if run.stop is not None:
        reasons = [stopped.reason] if natural.stop is None else [stopped.reason, natural.stop.reason]
        is_ours = stopped.stop is not None and stopped.stop.hand == "caller" and run.stop.reason.origin == "caller"
        if run.stop.reason not in reasons and not is_ours:
            yield f"it was not stopped by this stop: {run.stop.reason}"
    following, expected = stopped.following, {natural.outcome, whole.following and whole.following.outcome}
    if following is None or following.outcome not in expected:
        yield f"the next run is {following and following.outcome}: {following and (following.stop or following.error)}"
    elif following.stop is not None and following.stop.reason == stopped.reason:
        yield "the stop reached the next run"


_Promise = Callable[[Stopped], Iterator[str]]

_OF_EVERY_RUN: tuple[_Promise, ...] = (
    _one_ending_is_told,
    _the_conversation_is_well_formed,
    _a_cancelled_run_commits_nothing,
    _what_was_abandoned_was_said_to_be,
    _nothing_is_left,
)
_OF_A_STOP: tuple[_Promise, ...] = (
    _it_was_stopped_by_this_stop,
    _nothing_is_begun_after_it,
    _it_ends_within_the_grace,
    _the_checkpoint_fits,
)
