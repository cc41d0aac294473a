"""Perform the brain's effects: each kind of effect is one method, each wait in it one named checkpoint.

Invariant: a cancel leaves here as `Cancelled` with its checkpoint, a failure of the model as the input `ModelFailed`;
what the model had given until then is in the scratchpad in both cases.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from loopctl.brain import (
    CallModel,
    Effect,
    Finish,
    Input,
    ModelFailed,
    ModelReplied,
    RefuseCalls,
    RunTools,
    ToolsFinished,
)
from loopctl.concurrency import Ending, Patience, TaskWork, describe, epoch, supervise
from loopctl.driver._scratchpad import OpenTurn
from loopctl.errors import Cancelled, LoopError, ModelError
from loopctl.model import Delta, Model, ModelRequest
from loopctl.record import CallStatus, Checkpoint, ToolCallRecord, ToolFinished, ToolStarted, TurnStarted, Urgency
from loopctl.streaming import Accumulator, Attempt, pump
from loopctl.tools import Round, run_sequentially

if TYPE_CHECKING:
    from loopctl.driver._execution import Execution

__all__ = ["Performer"]


class Performer:
    """Performs effects for one run."""

    def __init__(self, run: Execution) -> None:
        """Work for *run*."""
        self._run = run

    async def __call__(self, effects: tuple[Effect, ...]) -> Input:
        """Perform the effects of one step, in order.

        Returns:
            The input that the last one brings.

        Raises:
            Cancelled: The run's token fired; its checkpoint is where.

        Cancellation:
            A checkpoint in each effect.
        """
        for effect in effects:
            match effect:
                case RefuseCalls():
                    await self._refuse(effect)
                case CallModel():
                    return await self._call_model(effect)
                case RunTools():
                    return await self._run_tools(effect)
                case Finish():
                    break
        raise AssertionError(f"no effect of {effects!r} brings an input")

    async def _refuse(self, effect: RefuseCalls) -> None:
        turn = self._run.scratch.open_turn
        assert turn is not None
        calls = {call.id: call for call in turn.message().tool_calls}
        for result in effect.results:
            call = calls[result.call_id]
            record = ToolCallRecord(call.id, call.name, call.arguments, CallStatus.NOT_STARTED)
            refused = replace(record, status=CallStatus.FAILED, result=result.content)
            self._run.scratch.note(refused)
            await self._run.emit(ToolStarted(record, self._run.id))
            await self._run.emit(ToolFinished(refused, self._run.id))

    async def _run_tools(self, effect: RunTools) -> Input:
        run = self._run
        run.scratch.place = Checkpoint.TOOL_CALL
        into = Round(
            run_id=run.id,
            tools=run.tools,
            token=run.token,
            grace=run.grace,
            note=run.scratch.note,
            emit=run.emit,
            offer=run.fanout.tell,
            abandoned=run.keep,
        )
        return ToolsFinished(await run_sequentially(effect.calls, into))

    async def _call_model(self, effect: CallModel) -> Input:
        run = self._run
        await run.tell_turn_ended()
        run.scratch.place = Checkpoint.TURN_ENTRY
        run.poll(Checkpoint.TURN_ENTRY)
        turn = OpenTurn(effect.turn, run.model.name, epoch(), Accumulator(run.id), run.brain.call_ids)
        run.scratch.open_turn = turn
        await run.emit(TurnStarted(effect.turn, run.model.name, run.id))
        request = ModelRequest(run.instructions, effect.messages, run.tools.specs)
        try:
            await self._prepare(run.model)
            await self._request(run.model, request, turn)
        except Cancelled:
            raise
        except LoopError as error:
            run.scratch.error = error
            return _failed(error)
        return ModelReplied(turn.message(), turn.reply.stop_reason or "other")

    async def _prepare(self, model: Model) -> None:
        prepare: Callable[[], Awaitable[None]] | None = getattr(model, "prepare", None)
        if prepare is None:
            return
        ending = await self._await(TaskWork(_begun(prepare), "loopctl setup"), Checkpoint.SETUP, Patience())
        ending.raise_if_stopped()
        _check(ending, model)

    async def _request(self, model: Model, request: ModelRequest, turn: OpenTurn) -> None:
        complete: _Complete | None = getattr(model, "complete", None)
        if self._run.config.stream or complete is None:
            await self._stream(model, request, turn)
        else:
            await self._complete(model, complete, request, turn)
        if not turn.reply.is_whole:
            raise ModelError(
                f"{model.name} ended its reply without an end mark: it is truncated. Ask again; if it goes on, look at"
                " the server or the proxy before it",
                retryable=True,
            )

    async def _stream(self, model: Model, request: ModelRequest, turn: OpenTurn) -> None:
        run = self._run
        config = run.config
        patience = Patience(config.turn_timeout, config.first_event_timeout, config.event_timeout)
        attempt = Attempt(turn.reply, run.token, patience, tidy_within=config.grace)
        stream = pump(turn.asking(lambda: model.stream(request)), attempt, run.fanout)
        work = TaskWork(stream, "loopctl model", lambda: attempt.is_tidying, is_polling=True)
        ending = await self._await(work, Checkpoint.STREAM_EVENT, patience)
        turn.reply.seal()
        ending.raise_if_stopped(Checkpoint.DELIVERY if run.fanout.was_cut else None)
        if turn.reply.is_whole and not isinstance(ending.error, KeyboardInterrupt | SystemExit):
            return  # how the stream was closed after that does not make the reply worse
        _check(ending, model, patience)

    async def _complete(self, model: Model, complete: _Complete, request: ModelRequest, turn: OpenTurn) -> None:
        run = self._run
        patience = Patience(run.config.turn_timeout)
        work = TaskWork(_begun(turn.asking(lambda: complete(request))), "loopctl model")
        ending = await self._await(work, Checkpoint.MODEL_REQUEST, patience)
        events = []
        if ending.how == "returned":
            # Also if the cancel came in the same instant: what was paid for is kept in the record.
            try:
                events = [turn.reply.add(delta) for delta in ending.value]
            except Exception as error:  # what it gave may be iterated by code of its own
                raise _wrapped(error, model) from error
        turn.reply.seal()
        ending.raise_if_stopped()
        _check(ending, model, patience)
        for event in events:
            if event is not None:
                await run.emit(event)

    async def _await(self, work: TaskWork, at: Checkpoint, patience: Patience) -> Ending:
        run = self._run
        run.scratch.place = at
        ending = await supervise(work, run.token, grace=run.grace, at=at, patience=patience, at_least=Urgency.DRAIN)
        if ending.straggler is not None:
            ending.straggler.name = run.model.name
            run.keep(ending.straggler)
        return ending


class _Complete(Protocol):
    def __call__(self, request: ModelRequest) -> Awaitable[Sequence[Delta]]: ...


async def _begun(begin: Callable[[], Awaitable[Any]]) -> Any:
    return await begin()


def _check(ending: Ending, model: Model, patience: Patience | None = None) -> None:
    """Raise what the model's side failed with, as a `LoopError`.

    Raises:
        LoopError: It failed.
        BaseException: It raised something that ends the program.
    """
    if ending.stopped_by == "timeout":
        what = patience.expired if patience is not None else "not finished in time"
        raise ModelError(f"{model.name}: {what}. The request was dropped", retryable=True)
    if ending.how == "returned":
        return
    error = ending.error
    if isinstance(error, KeyboardInterrupt | SystemExit):
        raise error
    # An error that has a run is the end of that one: of an earlier run of this model, or of one inside of it.
    if isinstance(error, LoopError) and not isinstance(error, Cancelled) and error.run is None:
        raise error
    if error is not None:
        raise _wrapped(error, model) from error
    raise ModelError(f"{model.name} was not asked")


def _wrapped(error: BaseException, model: Model) -> ModelError:
    if isinstance(error, asyncio.CancelledError):
        why = "it raised CancelledError, and nobody had stopped the run"
        return ModelError(f"{model.name} was cancelled from inside: {why}")
    text = f"{model.name} failed: {describe(error)}"
    if isinstance(error, ModelError):
        return ModelError(text, status=error.status, retryable=error.retryable, retry_after=error.retry_after)
    return ModelError(text)


def _failed(error: LoopError) -> ModelFailed:
    if isinstance(error, ModelError):
        return ModelFailed(str(error), error.status, error.retryable, error.retry_after)
    return ModelFailed(str(error))
