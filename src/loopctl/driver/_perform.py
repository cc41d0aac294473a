"""Perform the brain's effects: each kind of effect is one method, each wait in it one named checkpoint.

Invariant: a cancel leaves here as `Cancelled` with its checkpoint, a failure of the model as the input `ModelFailed`;
what the model had given until then is in the scratchpad in both cases.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from loopctl.brain import (
    CallModel,
    Effect,
    Finish,
    Input,
    ModelReplied,
    RefuseCalls,
    Report,
    ResetAttempt,
    RunTools,
    ToolsFinished,
    Wait,
    Waited,
)
from loopctl.concurrency import Ending, Patience, TaskWork, draw, epoch, sleep, supervise
from loopctl.driver._failures import check, exhausted, fact_of, truncated, wrapped
from loopctl.driver._scratchpad import OpenTurn
from loopctl.errors import Cancelled, LoopError, ModelError
from loopctl.model import Delta, Model, ModelRequest
from loopctl.record import (
    AttemptReset,
    CallStatus,
    Checkpoint,
    ToolCallRecord,
    ToolFinished,
    ToolStarted,
    TurnStarted,
)
from loopctl.recovery import ToolFailure, ToolGivenUp, ToolRetry
from loopctl.streaming import Accumulator, Attempt, pump
from loopctl.tools import Round, run_in_waves, run_sequentially

if TYPE_CHECKING:
    from loopctl.driver._execution import Execution

__all__ = ["Performer"]


class Performer:
    """Performs effects for one run."""

    def __init__(self, run: Execution) -> None:
        """Work for *run*."""
        self._run = run

    async def __call__(self, effects: tuple[Effect, ...]) -> Input | None:
        """Perform the effects of one step, in order.

        Returns:
            The input that the last one brings; None if it is a `Finish`.

        Raises:
            Cancelled: The run's token fired; its checkpoint is where.

        Cancellation:
            A checkpoint in each effect.
        """
        *before, last = effects
        for effect in before:
            await self._perform(effect)
        match last:
            case CallModel():
                return await self._call_model(last)
            case RunTools():
                return await self._run_tools(last)
            case Wait():
                return await self._wait(last)
            case Finish():
                self._finish(last)
                return None
        raise AssertionError(f"{last!r} brings no input, and is the last effect of its step")

    async def _perform(self, effect: Effect) -> None:
        match effect:
            case RefuseCalls():
                await self._refuse(effect)
            case Report():
                self._report(effect)
            case ResetAttempt():
                await self._reset(effect)

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
            offer=run.tell,
            conclude=run.conclude,
            abandoned=run.keep,
            decide=self._decide,
            held=run.session.agent._held,
            approve=run.session.agent.approve,
            middleware=run.session.agent.middleware.around_tools,
            ledger=run.session._ledger,
        )
        if run.config.dispatch == "parallel":
            results = await run_in_waves(effect.calls, into, run.config.max_concurrency)
        else:
            results = await run_sequentially(effect.calls, into)
        return ToolsFinished(results, run.moment())

    def _decide(self, failure: ToolFailure) -> ToolRetry | ToolGivenUp:
        recovery = self._run.session.agent.recovery.tools
        return recovery.decide(failure, jitter=draw(recovery.jitter))

    def _report(self, effect: Report) -> None:
        run = self._run
        turn = run.scratch.open_turn
        if run.token.is_cancelled():  # from another thread, since the last checkpoint
            return
        agent = run.session.agent
        if effect.how == "succeeded":
            agent.chain = agent.chain.succeeded(effect.route)
            return
        agent.chain = agent.chain.failed(effect.route, run.loop.time())
        if turn is not None and run.scratch.error is not None:
            turn.given_up[effect.route.index] = run.scratch.error

    async def _reset(self, effect: ResetAttempt) -> None:
        run = self._run
        turn = run.scratch.open_turn
        if turn is None:  # thawed: the failed attempt was another process's
            return
        if turn.has_shown:
            await run.emit(AttemptReset(effect.turn, run.id))
        turn.begin_attempt()

    async def _wait(self, effect: Wait) -> Input:
        run = self._run
        run.scratch.place = Checkpoint.STREAM_WAIT
        await sleep(effect.seconds, run.token, at=Checkpoint.STREAM_WAIT)
        return Waited()

    def _finish(self, effect: Finish) -> None:
        scratch, models = self._run.scratch, self._run.models
        is_spent = effect.outcome == "failed" and isinstance(scratch.error, ModelError) and len(models) > 1
        if is_spent and scratch.error is not None and scratch.open_turn is not None:
            scratch.error = exhausted(models, scratch.open_turn.given_up, scratch.error)

    async def _call_model(self, effect: CallModel) -> Input:
        run = self._run
        model = run.models[effect.route.index]
        turn = run.scratch.open_turn
        if turn is None or turn.number != effect.turn:
            turn = await self._begin_turn(effect.turn, model)
        turn.model = model.name
        run.scratch.error = None
        complete: _Complete | None = getattr(model, "complete", None)
        asked_whole = None if effect.mode == "stream" else complete
        request = ModelRequest(run.instructions, effect.messages, run.tools.specs)
        try:
            if effect.mode == "rescue":
                run.poll(Checkpoint.RESCUE)
            await self._prepare(model)
            if asked_whole is None:
                await self._stream(model, request, turn)
            else:
                at = Checkpoint.RESCUE if effect.mode == "rescue" else Checkpoint.MODEL_REQUEST
                await self._complete(model, _Whole(asked_whole, request, at), turn)
        except Cancelled:
            raise
        except LoopError as error:
            run.scratch.error = error
            can_rescue = effect.mode == "stream" and complete is not None
            return fact_of(error, run.moment(), can_rescue=can_rescue)
        return ModelReplied(turn.message(), turn.reply.stop_reason or "other", run.moment())

    async def _begin_turn(self, number: int, model: Model) -> OpenTurn:
        run = self._run
        await run.tell_turn_ended()
        run.watchdogs.spent(run.scratch.usage())
        run.scratch.place = Checkpoint.TURN_ENTRY
        run.poll(Checkpoint.TURN_ENTRY)
        turn = OpenTurn(number, model.name, epoch(), Accumulator(run.id), run.brain.call_ids)
        run.scratch.open_turn = turn
        await run.emit(TurnStarted(number, model.name, run.id))
        return turn

    async def _prepare(self, model: Model) -> None:
        prepare: Callable[[], Awaitable[None]] | None = getattr(model, "prepare", None)
        if prepare is None:
            return
        patience = Patience(self._run.config.turn_timeout)
        ending = await self._await(TaskWork(_begun(prepare), "loopctl setup"), Checkpoint.SETUP, patience, model)
        ending.raise_if_stopped()
        check(ending, model, patience, "setup")

    async def _stream(self, model: Model, request: ModelRequest, turn: OpenTurn) -> None:
        run = self._run
        config = run.config
        patience = Patience(config.turn_timeout, config.first_event_timeout, config.event_timeout)
        run.watchdogs.follow(patience)
        turn.was_streamed = True
        attempt = Attempt(turn.reply, run.token, patience, tidy_within=config.grace)
        stream = pump(turn.asking(lambda: model.stream(request)), attempt, run.fanout)
        work = TaskWork(stream, "loopctl model", lambda: attempt.is_tidying, lambda: attempt.has_begun)
        ending = await self._await(work, Checkpoint.STREAM_EVENT, patience, model)
        turn.reply.seal()
        ending.raise_if_stopped(Checkpoint.DELIVERY if run.fanout.was_cut else None)
        if turn.reply.is_whole and not isinstance(ending.error, KeyboardInterrupt | SystemExit):
            return  # how the stream was closed after that does not make the reply worse
        check(ending, model, patience)
        raise truncated(model)

    async def _complete(self, model: Model, whole: _Whole, turn: OpenTurn) -> None:
        run = self._run
        patience = Patience(run.config.turn_timeout)
        work = TaskWork(_begun(turn.asking(lambda: whole.complete(whole.request))), "loopctl model")
        ending = await self._await(work, whole.at, patience, model)
        events = []
        if ending.how == "returned":
            # Also if the cancel came in the same instant: what was paid for is kept in the record.
            try:
                events = [turn.reply.add(delta) for delta in ending.value]
            except Exception as error:  # what it gave may be iterated by code of its own
                raise wrapped(error, model) from error
        turn.reply.seal()
        ending.raise_if_stopped()
        check(ending, model, patience)
        if not turn.reply.is_whole:
            raise truncated(model)
        for event in events:
            if event is not None:
                await run.emit(event)

    async def _await(self, work: TaskWork, at: Checkpoint, patience: Patience, model: Model) -> Ending:
        run = self._run
        run.scratch.place = at
        ending = await supervise(work, run.token, grace=run.grace, at=at, patience=patience)
        if ending.straggler is not None:
            ending.straggler.name = model.name
            run.keep(ending.straggler)
        return ending


class _Complete(Protocol):
    def __call__(self, request: ModelRequest) -> Awaitable[Sequence[Delta]]: ...


@dataclass(frozen=True, slots=True)
class _Whole:
    """A request that is answered in one piece."""

    complete: _Complete
    request: ModelRequest
    at: Checkpoint


async def _begun(begin: Callable[[], Awaitable[Any]]) -> Any:
    return await begin()
