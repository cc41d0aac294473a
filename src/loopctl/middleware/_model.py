"""One attempt of a model request on its way through the middleware: down as a request, up as deltas.

Rules:

1. The first layer is the outermost; each attempt passes all of them anew, and no layer repeats a request.
2. An error belongs to the innermost place that it came out of: a layer, or the model inside of all of them. It goes
   through the layers as it is, so a model's error keeps its class.
3. Where the attempt waits is known at every moment, so a stop can say whether it met a layer or the model.
4. Everything that was opened is closed by the task that ran it, the outermost first, on every path.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, AsyncExitStack, contextmanager
from dataclasses import dataclass
from typing import Protocol, TypeAlias, get_args

from loopctl.cancel import CancelToken
from loopctl.concurrency import Patience, breathe, clock_of, poll, stop_reason
from loopctl.errors import Cancelled, UsageError
from loopctl.model import Delta, ModelRequest, ReplyEnd
from loopctl.record import Checkpoint, Urgency
from loopctl.streaming import iterator_of

__all__ = ["Ask", "Deltas", "ModelMiddleware", "ModelNext", "Passage", "Surroundings"]

Ask: TypeAlias = Callable[[ModelRequest], AsyncIterator[Delta]]
"""Begins a request and gives its reply piece by piece."""

_DELTAS = get_args(Delta)
_OUTSIDE = -1
_BREATH = 0.002
"""Seconds after which the loop gets a turn, also if a layer holds everything back that comes without a wait."""


class ModelMiddleware(Protocol):
    """Stands around model requests."""

    def model_call(self, request: ModelRequest, call_next: ModelNext) -> AsyncIterator[Delta]:
        """Give the reply to *request*: an async generator, or a function that gives an async iterator.

        Args:
            request: What is asked, perhaps changed by an outer layer; `dataclasses.replace` makes a changed one.
            call_next: `call_next(request)` gives the deltas of the rest, down to the model.

        Returns:
            The deltas, the last one a `ReplyEnd`.

        Cancellation:
            Iterated in a task that the engine cancels; what is given after that is not used.
        """
        ...


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a passage needs of the run that it belongs to."""

    token: CancelToken
    patience: Patience
    """The time limits of the request; they stand still while a layer says that it waits."""
    declare: Callable[[float | None, str], AbstractContextManager[None]]
    """Tells the run that something waits now: for how long, and why."""


class ModelNext:
    """The rest of the pipeline, as one layer is given it."""

    __slots__ = ("_index", "_is_used", "_passage")

    def __init__(self, passage: Passage, index: int) -> None:
        """Go on with *passage* at the layer *index*; made by the engine."""
        self._passage = passage
        self._index = index
        self._is_used = False

    @property
    def signal(self) -> CancelToken:
        """The read side of the run's signal, to poll it or to sleep with it."""
        return self._passage.around.token

    def __call__(self, request: ModelRequest) -> Deltas:
        """Pass *request* on; nothing is sent before the first delta is asked for.

        Raises:
            UsageError: It was called before: a retry is for the recovery, which passes all the middleware anew.
        """
        if self._is_used:
            raise UsageError("call_next is called once: a request is sent again by the recovery, not by middleware")
        self._is_used = True
        return self._passage.stage(self._index, request)

    @contextmanager
    def waiting(self, seconds: float | None, why: str) -> Iterator[None]:
        """Say that what the block does is to wait before the request, so that a person can be told.

        A stop that comes meanwhile is caught at `STREAM_WAIT`, and the time limits of the request stand still.

        Args:
            seconds: How long it will take; None if that is not known.
            why: For `WaitStarted.why`.
        """
        passage = self._passage
        passage.around.patience.pause()
        outer, passage.is_declared = passage.is_declared, True
        try:
            with passage.around.declare(seconds, why):
                yield
        finally:
            passage.is_declared = outer
            passage.around.patience.resume()


class Passage(AsyncIterator[Delta]):
    """The deltas of one attempt, as the outermost layer gives them."""

    __slots__ = (
        "_ask",
        "_at",
        "_layers",
        "_opened",
        "_origins",
        "_reply",
        "around",
        "has_ended",
        "is_declared",
        "is_unwinding",
        "place",
        "pressed",
    )

    def __init__(
        self, layers: tuple[ModelMiddleware, ...], ask: Ask, request: ModelRequest, around: Surroundings
    ) -> None:
        """Send *request* through *layers* to what *ask* begins; nothing runs yet."""
        self._layers = layers
        self._ask = ask
        self._at = _OUTSIDE
        self._opened: list[AsyncIterator[Delta]] = []
        self._origins: list[tuple[BaseException, int]] = []
        self.around: Surroundings = around
        self.is_declared: bool = False
        """True while a layer says that it waits."""
        self.is_unwinding: bool = False
        """True once a poll in it has noticed the cancel: pressing it then would tear the cleanup that this began."""
        self.has_ended: bool = False
        """True once the model itself has ended its reply."""
        self.place: Checkpoint | None = None
        """Where it was when it was pressed, if that was in a layer."""
        self.pressed: str | None = None
        """The name of that layer."""
        self._reply = self.stage(0, request)

    async def __anext__(self) -> Delta:
        """Give the next delta.

        Cancellation:
            As of the layer or the model that is waited for.
        """
        return await anext(self._reply)

    async def aclose(self) -> None:
        """Close what the layers and the model gave, whatever one of them does.

        Cancellation:
            As of them.
        """
        async with AsyncExitStack() as closing:
            for index, opened in reversed(tuple(enumerate(self._opened))):
                closing.push_async_callback(self._close, index, opened)

    async def _close(self, index: int, opened: AsyncIterator[Delta]) -> None:
        close = getattr(opened, "aclose", None)
        if close is not None:
            with self.inside(index):
                await close()

    @contextmanager
    def inside(self, index: int) -> Iterator[None]:
        """Note that the block runs in the layer *index*, and which errors came out of it first."""
        outer, self._at = self._at, index
        try:
            yield
        except (StopAsyncIteration, GeneratorExit):
            raise
        except BaseException as error:
            if not any(error is known for known, _ in self._origins):
                self._origins.append((error, index))
            self.is_unwinding = self.is_unwinding or (isinstance(error, Cancelled) and self.around.token.is_cancelled())
            raise
        finally:
            self._at = outer

    def stage(self, index: int, request: ModelRequest) -> Deltas:
        """Give what the layer *index*, or the model inside of all of them, will answer to *request*."""
        if index == len(self._layers):
            return Deltas(self, index, lambda: self._asked(request))
        layer, rest = self._layers[index], ModelNext(self, index + 1)
        return Deltas(self, index, lambda: aiter(iterator_of(layer.model_call(request, rest), "model_call")))

    def open(self, begin: Callable[[], AsyncIterator[Delta]]) -> AsyncIterator[Delta]:
        """Begin a stage, and close it in the end."""
        opened = begin()
        self._opened.append(opened)
        return opened

    async def _asked(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        token, patience = self.around.token, self.around.patience
        poll(token, Checkpoint.PIPELINE)  # fired by a layer, or swallowed in one: nothing is sent
        now, breath_at = clock_of(asyncio.get_running_loop()), 0.0
        stream = aiter(iterator_of(self._ask(request), "Model.stream"))
        try:
            async for delta in stream:
                if token.is_cancelled(at_least=Urgency.STOP):
                    self.is_unwinding = True  # before the stream is closed, which is the first thing that follows
                    raise Cancelled(stop_reason(token))
                patience.last = moment = now()
                self.has_ended = self.has_ended or isinstance(delta, ReplyEnd)
                yield delta
                if moment > breath_at:
                    breath_at = moment + _BREATH
                    await breathe()
        finally:
            close = getattr(stream, "aclose", None)
            if close is not None:
                await close()

    def on_press(self) -> None:
        """Note where it is, because it is asked to end now."""
        if self.pressed is None and _OUTSIDE < self._at < len(self._layers):
            self.pressed = self._name(self._at)
            self.place = Checkpoint.STREAM_WAIT if self.is_declared else Checkpoint.PIPELINE

    def hangs_in(self) -> str | None:
        """The name of the layer that it is in; None if that is the model, or nothing."""
        return self._name(self._at) if _OUTSIDE < self._at < len(self._layers) else None

    def culprit(self, error: BaseException | None) -> str | None:
        """The name of the layer that *error* is of; None if it is not of a layer."""
        index = next((index for known, index in self._origins if known is error), len(self._layers))
        return self._name(index) if index < len(self._layers) else None

    def _name(self, index: int) -> str:
        return type(self._layers[index]).__name__


class Deltas(AsyncIterator[Delta]):
    """What `call_next` gives: the deltas of the rest, begun when the first one is asked for."""

    __slots__ = ("_begin", "_given", "_index", "_passage")

    def __init__(self, passage: Passage, index: int, begin: Callable[[], AsyncIterator[Delta]]) -> None:
        """Give what *begin* begins, which is the layer *index* of *passage* or the model; made by the engine."""
        self._passage = passage
        self._index = index
        self._begin = begin
        self._given: AsyncIterator[Delta] | None = None

    async def __anext__(self) -> Delta:
        """Give the next delta.

        Cancellation:
            As of the rest.
        """
        with self._passage.inside(self._index):
            if self._given is None:
                self._given = self._passage.open(self._begin)
            delta = await anext(self._given)
            given: object = delta
            if not isinstance(given, _DELTAS):
                raise TypeError(f"it gave {type(given).__name__}, which is not a Delta (see loopctl.model)")
            return delta

    async def aclose(self) -> None:
        """Close it before its end; the engine does it in any case, after the layer that holds it.

        Cancellation:
            As of the rest.
        """
        close = getattr(self._given, "aclose", None)
        if close is not None:
            with self._passage.inside(self._index):
                await close()
