"""The middleware around one attempt of a tool call: what it is, and how it is put together.

Rules: the first layer is the outermost; the id and the name of a call are the engine's, whatever a layer passes on; a
layer that raises, or gives no outcome, makes a failed one that names it, and the layers around it see that; a cancel
goes through all of them, and they are not given up before the tool inside of them.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeAlias

from loopctl.cancel import CancelSignal
from loopctl.concurrency import Ending, Grace, TaskWork, breathe, describe, sleep, supervise
from loopctl.errors import Cancelled, UsageError
from loopctl.messages import ToolCall
from loopctl.record import Checkpoint
from loopctl.tools._call_context import CallContext
from loopctl.tools._context import means_of
from loopctl.tools._outcome import ToolOutcome
from loopctl.tools._text import encodable

__all__ = ["CallNext", "ToolLayer", "ToolMiddleware", "ToolText", "outcome_of", "rewritten", "run_layers"]

CallNext: TypeAlias = Callable[[ToolCall], Awaitable[ToolOutcome]]
"""The rest of the pipeline, down to the tool; called once, or not at all."""


_TRIES = 20
"""More than a layer that repeats what fails will try, if it ever gives up."""
_PAUSE = 60.0
"""Seconds for which one that does not is put to sleep each time, so that it keeps nothing busy."""


class ToolMiddleware(Protocol):
    """Stands around tool calls."""

    async def tool_call(self, call: ToolCall, ctx: CallContext, call_next: CallNext) -> ToolOutcome:
        """Pass the call on with `await call_next(call)`, or answer it.

        Args:
            call: The call, its arguments perhaps changed by an outer layer.
            ctx: What the tool will see too, and what the engine can be asked for.
            call_next: The rest.

        Returns:
            How the call ended.

        Cancellation:
            Awaited in a task that the engine cancels; what is returned after that is not used.
        """


class ToolText(Protocol):
    """Rewrites what tools say."""

    def tool_text(self, text: str) -> str:
        """Give *text*, or another text in its place.

        Called for every text of a tool: results, errors, progress, what a stopped or an abandoned call left. On the
        loop's thread and without waiting, so that it holds also where nothing can be awaited any more.
        """


ToolLayer: TypeAlias = ToolMiddleware | ToolText
"""Has one of both, or both: then its text goes over the outcome that its call gave."""


def rewritten(layers: Sequence[ToolLayer], text: str) -> str:
    """Give *text* as *layers*, innermost first, would let it out."""
    for layer in reversed(layers):
        text = _rewritten(layer, text)
    return text


def _rewritten(layer: ToolLayer, text: str) -> str:
    rewrite = getattr(layer, "tool_text", None)
    if rewrite is None:
        return text
    try:
        given: object = rewrite(text)
    except Exception as error:  # a layer of the application; what it would have taken out must not get through
        return f"[withheld: {type(layer).__name__}.tool_text raised {type(error).__name__}]"
    if isinstance(given, str):
        return given
    return f"[withheld: {type(layer).__name__}.tool_text gave {type(given).__name__} and no text]"


async def run_layers(
    layers: Sequence[ToolLayer], call: ToolCall, context: CallContext, do: CallNext, grace: Grace
) -> Ending:
    """Run *call* through *layers*, with *do* inside of them, which is bounded by itself.

    Returns:
        How that ended; `outcome_of` reads it.

    Cancellation:
        The checkpoint `PIPELINE`; *do* has checkpoints of its own.
    """
    core = _Core(call, do)
    rest: CallNext = core
    for layer in reversed(layers):
        rest = _Layer(layer, call, context, rest)
    body = means_of(context).folder.around(lambda: _begin(rest, core, call))
    work = _Pipeline(core, body, f"loopctl middleware of {call.name}")
    return await supervise(work, context.signal, grace=grace, at=Checkpoint.PIPELINE)


async def _begin(rest: CallNext, core: _Core, call: ToolCall) -> ToolOutcome:
    try:
        return await rest(call)
    finally:  # a layer that has put the rest into a task of its own may have gone on without it
        await core.end()


def outcome_of(ending: Ending) -> ToolOutcome:
    """Read the end of a pipeline that was not stopped."""
    if ending.how == "returned":
        outcome: ToolOutcome = ending.value
        return outcome
    return ToolOutcome.failed(f"a middleware ended with {encodable(describe(ending.error))}", ending.error)


class _Pipeline(TaskWork):
    """The layers: pressed where they wait, and not given up while what is inside of them still ends."""

    __slots__ = ("_core",)

    def __init__(self, core: _Core, coroutine: Coroutine[Any, Any, Any], name: str) -> None:
        super().__init__(coroutine, name)
        self._core = core

    def interrupt(self) -> None:
        if not self._core.interrupt():
            super().interrupt()

    def hold(self, release: Callable[[], None], /) -> bool:
        return self._core.hold(release)


class _Core:
    """The innermost part: begun once, and neither after a cancel nor after the layers have ended."""

    __slots__ = ("_asked", "_call", "_do", "_is_closed", "_over", "_pressed", "_refused", "_release", "_task")

    def __init__(self, call: ToolCall, do: CallNext) -> None:
        self._call = call
        self._do = do
        self._is_closed = False
        self._asked = self._pressed = self._refused = 0
        self._task: asyncio.Task[Any] | None = None
        self._release: Callable[[], None] | None = None
        self._over: asyncio.Future[None] | None = None

    async def __call__(self, call: ToolCall) -> ToolOutcome:
        call = _stamped(call, self._call)
        if self._is_closed:
            self._refused += 1
            if self._refused < _TRIES:
                await breathe()
            else:
                await sleep(_PAUSE, CancelSignal())
            raise UsageError("call_next is called once, before the middleware returns: a retry is for the recovery")
        self._is_closed = True
        self._task = asyncio.current_task()
        try:
            return await self._do(call)
        finally:
            self._task = None
            if self._release is not None:
                asyncio.get_running_loop().call_soon(self._release)
            if self._over is not None:
                self._over.set_result(None)

    def interrupt(self) -> bool:
        """Press what runs, in whatever task a layer runs it; False if nothing does."""
        self._is_closed = True
        if self._task is None:
            return False
        self._asked += 1
        if self._asked > self._pressed:  # twice would take the grace away
            self._press(self._task)
        return True

    def _press(self, task: asyncio.Task[Any]) -> None:
        self._pressed += 1
        task.cancel()

    async def end(self) -> None:
        """Let nothing run on: what runs is pressed, and bounded by itself.

        Cancellation:
            Goes to what runs.
        """
        self._is_closed = True
        if self._task is not None:
            self._press(self._task)
            self._over = asyncio.get_running_loop().create_future()
            await self._over

    def hold(self, release: Callable[[], None]) -> bool:
        """True if something runs, which is bounded by itself; *release* is called when it has ended."""
        self._release = release
        return self._task is not None


class _Layer:
    __slots__ = ("_call", "_context", "_layer", "_rest")

    def __init__(self, layer: ToolLayer, call: ToolCall, context: CallContext, rest: CallNext) -> None:
        self._layer = layer
        self._call = call
        self._context = context
        self._rest = rest

    async def __call__(self, call: ToolCall) -> ToolOutcome:
        outcome = await self._outcome(_stamped(call, self._call))
        return replace(outcome, content=_rewritten(self._layer, outcome.content))

    async def _outcome(self, call: ToolCall) -> ToolOutcome:
        name = type(self._layer).__name__
        around = getattr(self._layer, "tool_call", None)
        if around is None:
            return await self._rest(call)
        try:
            given: object = around(call, self._context, self._rest)
            outcome: object = await given if inspect.isawaitable(given) else given
        except Exception as error:  # a layer of the application
            if isinstance(error, Cancelled) and self._context.is_cancelled():
                raise
            return ToolOutcome.failed(f"the middleware {name} failed: {encodable(describe(error))}", error)
        if isinstance(outcome, ToolOutcome):
            return outcome
        return ToolOutcome.failed(f"the middleware {name} gave {type(outcome).__name__} and no ToolOutcome")


def _stamped(given: object, call: ToolCall) -> ToolCall:
    """Give *call* with the arguments of what a layer passed on."""
    if not isinstance(given, ToolCall):
        raise UsageError(f"call_next takes the ToolCall to go on with, not {type(given).__name__}")
    if not isinstance(given.arguments, Mapping):
        raise UsageError(f"the arguments of a ToolCall are a mapping, not {type(given.arguments).__name__}")
    return replace(call, arguments=given.arguments)
