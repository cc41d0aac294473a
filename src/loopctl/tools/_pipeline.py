"""The middleware around one tool call: what it is, and how it is put together.

Rules: the first one is the outermost; a layer that raises, or gives no outcome, makes a failed call that names it, and
the layers around it see that; a cancel goes through all of them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Protocol, TypeAlias

from loopctl.concurrency import Ending, Grace, TaskWork, breathe, describe, supervise
from loopctl.errors import Cancelled, UsageError
from loopctl.messages import ToolCall
from loopctl.record import Checkpoint
from loopctl.tools._context import ToolContext
from loopctl.tools._outcome import ToolOutcome
from loopctl.tools._text import encodable

__all__ = ["CallNext", "ToolMiddleware", "outcome_of", "run_layers"]

_TURNS = 100
"""Turns of the loop in which a call that is pressed has ended or was given up."""

CallNext: TypeAlias = Callable[[ToolCall], Awaitable[ToolOutcome]]
"""The rest of the pipeline, down to the tool; called once, or not at all."""


class ToolMiddleware(Protocol):
    """Stands around tool calls."""

    async def tool_call(self, call: ToolCall, ctx: ToolContext, call_next: CallNext) -> ToolOutcome:
        """Pass the call on with `await call_next(call)`, or answer it.

        Args:
            call: The call, perhaps changed by an outer layer; its id and its name are the engine's.
            ctx: What the tool will see too.
            call_next: The rest.

        Returns:
            How the call ended.

        Cancellation:
            Awaited in a task that the engine cancels; what is returned after that is not used.
        """


async def run_layers(
    layers: Sequence[ToolMiddleware], call: ToolCall, context: ToolContext, do: CallNext, grace: Grace
) -> Ending:
    """Run *call* through *layers*, with *do* inside of them, which is bounded by itself.

    Returns:
        How that ended; `outcome_of` reads it.

    Cancellation:
        The checkpoint `PIPELINE`; *do* has checkpoints of its own.
    """
    core = _Core(do)
    rest: CallNext = core
    for layer in reversed(layers):
        rest = _Layer(layer, context, rest)
    work = TaskWork(_begin(rest, call), f"loopctl middleware of {call.name}")
    ending = await supervise(work, context.signal, grace=grace, at=Checkpoint.PIPELINE)
    straggler = ending.straggler
    for _ in range(_TURNS):  # both were pressed at once: the inner one is about to end, and the layers after it
        if not core.is_running and (straggler is None or straggler.is_ended):
            break
        await breathe()
    core.is_closed = True
    return ending if straggler is None or not straggler.is_ended else replace(ending, straggler=None)


async def _begin(rest: CallNext, call: ToolCall) -> ToolOutcome:
    return await rest(call)


def outcome_of(ending: Ending) -> ToolOutcome:
    """Read the end of a pipeline that was not stopped."""
    if ending.how == "returned":
        outcome: ToolOutcome = ending.value
        return outcome
    return ToolOutcome.failed(f"a middleware ended with {encodable(describe(ending.error))}", ending.error)


class _Core:
    """The innermost part: begun once, and not after the layers have ended."""

    __slots__ = ("_do", "_has_begun", "is_closed", "is_running")

    def __init__(self, do: CallNext) -> None:
        self._do = do
        self._has_begun = self.is_running = self.is_closed = False

    async def __call__(self, call: ToolCall) -> ToolOutcome:
        if self._has_begun or self.is_closed:
            raise UsageError("call_next is called once, before the middleware returns: a retry is for the recovery")
        self._has_begun = self.is_running = True
        try:
            return await self._do(call)
        finally:
            self.is_running = False


class _Layer:
    __slots__ = ("_context", "_layer", "_rest")

    def __init__(self, layer: ToolMiddleware, context: ToolContext, rest: CallNext) -> None:
        self._layer = layer
        self._context = context
        self._rest = rest

    async def __call__(self, call: ToolCall) -> ToolOutcome:
        name = type(self._layer).__name__
        try:
            outcome: object = await self._layer.tool_call(call, self._context, self._rest)
        except Exception as error:  # a layer of the application
            if isinstance(error, Cancelled) and self._context.is_cancelled():
                raise
            return ToolOutcome.failed(f"the middleware {name} failed: {encodable(describe(error))}", error)
        if isinstance(outcome, ToolOutcome):
            return outcome
        return ToolOutcome.failed(f"the middleware {name} gave {type(outcome).__name__} and no ToolOutcome")
