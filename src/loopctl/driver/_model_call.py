"""Ask a model once: the checks before the request, the request through the middleware, and the input it brings.

Invariant: a cancel leaves here as `Cancelled` with its checkpoint, a failure of the model as the input `ModelFailed`;
what the model had given until then is in the scratchpad in both cases.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from loopctl.brain import CallModel, Input, ModelReplied
from loopctl.cancel import CancelToken
from loopctl.concurrency import Ending, Patience, TaskWork, epoch, stop_reason, supervise
from loopctl.driver._failures import check, check_layers, fact_of, truncated, wrapped
from loopctl.driver._scratchpad import OpenTurn
from loopctl.driver._waiting import waiting
from loopctl.errors import Cancelled, LoopError
from loopctl.middleware import Ask, Passage, Surroundings
from loopctl.model import Delta, Model, ModelRequest
from loopctl.record import Checkpoint, TurnStarted, Urgency
from loopctl.streaming import Accumulator, Attempt, pump

if TYPE_CHECKING:
    from loopctl.driver._execution import Execution

__all__ = ["call_model"]

_Complete: TypeAlias = Callable[[ModelRequest], Awaitable[Sequence[Delta]]]


async def call_model(run: Execution, effect: CallModel) -> Input:
    """Perform *effect*.

    Returns:
        The reply, or the failure.

    Raises:
        Cancelled: The run's token fired.

    Cancellation:
        The checkpoints `TURN_ENTRY`, `SETUP`, `STREAM_EVENT`, `MODEL_REQUEST`, `RESCUE`, those of middleware and
        `DELIVERY`.
    """
    model = run.models[effect.route.index]
    turn = run.scratch.open_turn
    if turn is None or turn.number != effect.turn:
        turn = await _begin_turn(run, effect.turn, model)
    turn.model = model.name
    run.scratch.error = None
    complete: _Complete | None = getattr(model, "complete", None)
    asked_whole = None if effect.mode == "stream" else complete
    asking = _Asking(run, model, turn, ModelRequest(run.instructions, effect.messages, run.tools.specs))
    try:
        if effect.mode == "rescue":
            run.poll(Checkpoint.RESCUE)
        await asking.set_up()
        if asked_whole is None:
            await asking.ask_in_pieces()
        else:
            at = Checkpoint.RESCUE if effect.mode == "rescue" else Checkpoint.MODEL_REQUEST
            await asking.ask_whole(asked_whole, at)
    except Cancelled:
        raise
    except LoopError as error:
        run.scratch.error = error
        can_rescue = effect.mode == "stream" and complete is not None
        return fact_of(error, run.moment(), can_rescue=can_rescue)
    return ModelReplied(turn.message(), turn.reply.stop_reason or "other", run.moment())


async def _begin_turn(run: Execution, number: int, model: Model) -> OpenTurn:
    await run.tell_turn_ended()
    run.watchdogs.spent(run.scratch.usage())
    run.scratch.place = Checkpoint.TURN_ENTRY
    run.poll(Checkpoint.TURN_ENTRY)
    turn = OpenTurn(number, model.name, epoch(), Accumulator(run.id), run.brain.call_ids)
    run.scratch.open_turn = turn
    await run.emit(TurnStarted(number, model.name, run.id))
    return turn


@dataclass(slots=True)
class _Asking:
    """One attempt."""

    run: Execution
    model: Model
    turn: OpenTurn
    request: ModelRequest
    passage: Passage | None = None
    """The way through the middleware; None if there is none around model requests."""

    async def set_up(self) -> None:
        prepare: Callable[[], Awaitable[None]] | None = getattr(self.model, "prepare", None)
        if prepare is None:
            return
        patience = Patience(self.run.config.turn_timeout)
        ending = await self._await(TaskWork(_begun(prepare), "loopctl setup"), Checkpoint.SETUP, patience)
        ending.raise_if_stopped()
        check(ending, self.model, patience, "setup")

    async def ask_in_pieces(self) -> None:
        """Read the reply as a stream."""
        run, turn, config = self.run, self.turn, self.run.config
        patience = Patience(config.turn_timeout, config.first_event_timeout, config.event_timeout)
        run.watchdogs.follow(patience)
        turn.was_streamed = True
        attempt = Attempt(turn.reply, run.token, patience, tidy_within=config.grace)
        ask = turn.asking(self.model.stream)
        passage = self._surround(ask, patience)
        start = functools.partial(ask, self.request) if passage is None else lambda: passage
        body = pump(start, attempt, run.fanout)
        work = self._work(body, lambda: attempt.is_tidying, lambda: attempt.has_begun)
        ending = await self._await(work, Checkpoint.STREAM_EVENT, patience)
        turn.reply.seal()
        self.raise_if_stopped(ending, Checkpoint.DELIVERY if run.fanout.was_cut else None)
        if turn.reply.is_whole and not self._is_bad_end(ending):
            return
        self._check(ending, patience)
        raise truncated(self.model, passage)

    async def ask_whole(self, complete: _Complete, at: Checkpoint) -> None:
        """Ask for the reply in one piece."""
        run, turn = self.run, self.turn
        patience = Patience(run.config.turn_timeout)
        ask = turn.asking(complete)
        passage = self._surround(functools.partial(_in_pieces, ask), patience)
        given: list[Delta] = []
        body = _all_of(ask, self.request, given) if passage is None else _drained(passage, given, run.token)
        ending = await self._await(self._work(body), at, patience)
        # Also if the cancel came in the same instant: what was paid for is kept in the record.
        wrong: TypeError | None = None
        events = []
        try:
            events = [turn.reply.add(delta) for delta in given]
        except TypeError as error:
            wrong = error
        turn.reply.seal()
        self.raise_if_stopped(ending)
        self._check(ending, patience)
        if wrong is not None:
            raise wrapped(wrong, self.model) from wrong
        if not turn.reply.is_whole:
            raise truncated(self.model, passage)
        for event in events:
            if event is not None:
                await run.emit(event)

    def _surround(self, ask: Ask, patience: Patience) -> Passage | None:
        run = self.run
        layers = run.session.agent.middleware.around_models
        if layers:
            around = Surroundings(run.token, patience, functools.partial(waiting, run))
            self.passage = Passage(layers, ask, self.request, around)
        return self.passage

    def _work(
        self,
        body: Coroutine[Any, Any, None],
        is_tidying: Callable[[], bool] = lambda: False,
        has_begun: Callable[[], bool] | None = None,
    ) -> TaskWork:
        if self.passage is None:
            return TaskWork(body, "loopctl model", is_tidying, has_begun)
        passage = self.passage
        return _Followed(passage, body, lambda: passage.is_unwinding or is_tidying(), has_begun)

    async def _await(self, work: TaskWork, at: Checkpoint, patience: Patience) -> Ending:
        run = self.run
        run.scratch.place = at
        ending = await supervise(work, run.token, grace=run.grace, at=at, patience=patience)
        if ending.straggler is not None:
            layer = None if self.passage is None else self.passage.hangs_in()
            ending.straggler.name = layer or self.model.name
            run.keep(ending.straggler)
        return ending

    def raise_if_stopped(self, ending: Ending, at: Checkpoint | None = None) -> None:
        error = ending.error
        noticed = error if isinstance(error, Cancelled) and self.run.token.is_cancelled() else None
        if at is None and self.passage is not None:
            at = self.passage.place or (noticed.checkpoint if noticed is not None else None)
        ending.raise_if_stopped(at)
        if noticed is not None and self.passage is not None:  # drained before the request: nothing else was pressed
            raise Cancelled(stop_reason(self.run.token), at or ending.at) from noticed

    def _is_bad_end(self, ending: Ending) -> bool:
        """True if what came after the whole reply counts: how a model's stream was closed does not make it worse."""
        if isinstance(ending.error, KeyboardInterrupt | SystemExit):
            return True
        is_of_layer = self.passage is not None and self.passage.culprit(ending.error) is not None
        return is_of_layer and ending.stopped_by is None

    def _check(self, ending: Ending, patience: Patience) -> None:
        if self.passage is not None:
            check_layers(ending, self.model, patience, self.passage)
        check(ending, self.model, patience)


class _Followed(TaskWork):
    """A request with middleware around it, which notes where it was when it was pressed."""

    __slots__ = ("_passage",)

    def __init__(
        self,
        passage: Passage,
        body: Coroutine[Any, Any, None],
        is_tidying: Callable[[], bool],
        has_begun: Callable[[], bool] | None,
    ) -> None:
        super().__init__(body, "loopctl model", is_tidying, has_begun)
        self._passage = passage

    def interrupt(self) -> None:
        self._passage.on_press()
        super().interrupt()


async def _begun(begin: Callable[[], Awaitable[Any]]) -> Any:
    return await begin()


async def _all_of(ask: _Complete, request: ModelRequest, into: list[Delta]) -> None:
    into.extend(await ask(request))


async def _in_pieces(ask: _Complete, request: ModelRequest) -> AsyncGenerator[Delta, None]:
    """Give a whole reply as the stream that middleware expects."""
    for delta in await ask(request):
        yield delta


async def _drained(passage: Passage, into: list[Delta], token: CancelToken) -> None:
    async with aclosing(passage):
        async for delta in passage:
            if token.is_cancelled(at_least=Urgency.STOP):
                break
            into.append(delta)
