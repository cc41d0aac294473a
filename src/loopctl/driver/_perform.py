"""Perform the brain's effects: each kind of effect is one method, each wait in it one named checkpoint.

Invariant: a cancel leaves here as `Cancelled` with its checkpoint.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from loopctl.brain import (
    CallModel,
    Effect,
    Finish,
    Input,
    RefuseCalls,
    Report,
    ResetAttempt,
    RunTools,
    ToolsFinished,
    Wait,
    Waited,
)
from loopctl.concurrency import draw, sleep
from loopctl.driver._failures import exhausted, is_rate_limit
from loopctl.driver._model_call import call_model
from loopctl.driver._waiting import waiting
from loopctl.errors import ModelError
from loopctl.record import (
    AttemptReset,
    CallStatus,
    Checkpoint,
    ToolCallRecord,
    ToolFinished,
    ToolStarted,
)
from loopctl.recovery import ToolFailure, ToolGivenUp, ToolRetry
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
                return await call_model(self._run, last)
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
        keeper = run.keeper
        if keeper is not None and run.scratch.open_turn is not None:
            keeper.note_turn(run.scratch.open_turn.close())
        into = Round(
            run_id=run.id,
            tools=run.tools,
            token=run.token,
            grace=run.grace,
            note=run.scratch.note if keeper is None else keeper.note,
            begin_call=None if keeper is None else keeper.begin_call,
            emit=run.emit,
            offer=run.tell,
            conclude=run.conclude,
            drop=run.drop,
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
        why = "rate_limit" if is_rate_limit(run.scratch.error) else "retry"
        with waiting(run, effect.seconds, why):
            await sleep(effect.seconds, run.token, at=Checkpoint.STREAM_WAIT)
        return Waited()

    def _finish(self, effect: Finish) -> None:
        scratch, models = self._run.scratch, self._run.models
        is_spent = effect.outcome == "failed" and isinstance(scratch.error, ModelError) and len(models) > 1
        if is_spent and scratch.error is not None and scratch.open_turn is not None:
            scratch.error = exhausted(models, scratch.open_turn.given_up, scratch.error)
