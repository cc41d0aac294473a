"""The one finalizer: every ending of a run is decided here, in the same order.

1. The run's token is claimed, by the same atomic step as a cancel: from here on the outcome is fixed.
2. The record is made. 3. The caller of this commits or discards, keeps the record, tells observers, re-arms, and only
then lets readers and waiters know.

Rule: only a completed run is committed; a cancel decides by the token and never by an error's type.
"""

from __future__ import annotations

import logging
from traceback import walk_tb
from typing import TYPE_CHECKING

from loopctl.cancel import fired_at, later_causes, seal
from loopctl.concurrency import describe, epoch, monotonic, stop_reason
from loopctl.driver._loop import Ended
from loopctl.errors import Cancelled, LoopError, MaxTurnsExceeded
from loopctl.record import Checkpoint, Event, Outcome, Run, Stop, StragglerRecord, ToolFinished, TurnEnded

if TYPE_CHECKING:
    from loopctl.driver._execution import Execution

__all__ = ["finalize"]

_log = logging.getLogger("loopctl")


def finalize(execution: Execution, ended: Ended | None, error: BaseException | None) -> tuple[Run, tuple[Event, ...]]:
    """Decide how the run ended.

    Args:
        execution: The run.
        ended: How its loop ended; None if something tore it.
        error: What tore it.

    Returns:
        The record, and the events that close what the readers know the beginning of.
    """
    is_cancelled = not seal(execution.signal)
    now = monotonic()
    scratch = execution.scratch
    partial_text = "" if scratch.open_turn is None else scratch.open_turn.message().text
    turn = scratch.close_turn()
    outcome = _outcome(is_cancelled, ended)
    if isinstance(error, Exception):
        _log.error("the run %s was torn by a fault in loopctl: please report it", execution.id, exc_info=error)
    stragglers = tuple(straggler.record() for straggler in scratch.stragglers if not straggler.is_ended)
    stop = _stop(execution, ended, now, stragglers) if outcome == "cancelled" else None
    failure = _failure(execution, outcome, stop, error)
    run = Run(
        id=execution.id,
        session_id=execution.session.id,
        outcome=outcome,
        input=execution.input,
        output=ended.finish.output if outcome == "completed" and ended is not None else None,
        partial_text="" if outcome == "completed" else partial_text,
        stop=stop,
        turns=tuple(scratch.turns),
        tool_calls=scratch.records(),
        stragglers=stragglers,
        usage=scratch.usage(),
        error=failure,
        started_at=execution.started_at,
        ended_at=epoch(),
    )
    if failure is not None:
        failure.run = run
        if stop is None:
            _drop_frames(failure)
    closings: list[Event] = [ToolFinished(scratch.calls[call_id], run.id) for call_id in scratch.open_calls]
    if scratch.is_turn_told:
        closings.append(TurnEnded(turn if turn is not None else scratch.turns[-1], run.id))
    return run, tuple(closings)


def _drop_frames(failure: LoopError) -> None:
    """Keep the lines of an error that is kept, as a note, and none of the frames that it came through.

    A frame holds everything that was known there. It cannot be cleared instead: of an error that was raised before, it
    may be the frame of a coroutine that waits, and on 3.11 and 3.12 clearing it would end that coroutine.
    """
    lines: list[str] = []
    pending: list[BaseException | None] = [failure]
    seen: set[int] = set()
    while pending:
        error = pending.pop()
        if error is None or id(error) in seen:  # an error can be its own cause: `raise error from error`
            continue
        seen.add(id(error))
        lines += _lines_of(error)
        error.__traceback__ = None
        pending += [error.__context__, error.__cause__]
        if isinstance(error, BaseExceptionGroup):
            pending += error.exceptions
    if lines:
        failure.add_note("\n".join(lines))


def _lines_of(error: BaseException) -> list[str]:
    places = [
        f'  File "{frame.f_code.co_filename}", line {line}, in {frame.f_code.co_name}'
        for frame, line in walk_tb(error.__traceback__)
    ]
    return [f"{type(error).__name__} came through:", *places] if places else []


def _outcome(is_cancelled: bool, ended: Ended | None) -> Outcome:  # noqa: FBT001 - the one question there is
    if is_cancelled:
        return "cancelled"
    return "failed" if ended is None else ended.finish.outcome


def _stop(execution: Execution, ended: Ended | None, now: float, stragglers: tuple[StragglerRecord, ...]) -> Stop:
    token = execution.token
    since = max(fired_at(token) or now, execution.started)
    # No checkpoint: the cancel came after the last poll, or tore the loop. It is caught where the run was.
    checkpoint: Checkpoint | None = ended.checkpoint if ended is not None else None
    return Stop(
        reason=stop_reason(token),
        checkpoint=checkpoint or execution.scratch.place,
        latency=max(0.0, now - since),
        stragglers=stragglers,
        also=later_causes(token),
        blocked_at=execution.handover.blocked_at,
    )


def _failure(
    execution: Execution, outcome: Outcome, stop: Stop | None, error: BaseException | None
) -> LoopError | None:
    if stop is not None:
        return Cancelled(stop.reason, stop.checkpoint)
    if outcome == "max_turns":
        limit = execution.config.max_turns
        return MaxTurnsExceeded(
            f"{execution.id} used all its turns ({limit}) and the model still asked for tools. Raise"
            " RunConfig.max_turns, or session.adopt(run) to keep what it did"
        )
    if outcome == "completed":
        return None
    if execution.scratch.error is not None:
        return execution.scratch.error
    failure = LoopError(f"{execution.id} was torn by a fault in loopctl: {describe(error)}")
    failure.__cause__ = error
    return failure
