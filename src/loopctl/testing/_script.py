"""The words that a scripted reply is written in.

Each function gives a `Script`: a tuple of steps. A step is performed in the task that reads the reply and gives at
most one delta. All steps but those of `burst`, and the marks (`absorb`, `raise_on_cancel`, `slow_close`, `no_end`),
suspend at least once before their delta, as a real stream does.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from loopctl.errors import ModelError
from loopctl.model import (
    Delta,
    ModelRequest,
    ReplyEnd,
    StopReason,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    UsagePart,
)

__all__ = [
    "Ending",
    "Exchange",
    "Reply",
    "Script",
    "Step",
    "absorb",
    "burst",
    "call",
    "do",
    "end",
    "fail",
    "no_end",
    "own_cancelled_error",
    "pause",
    "raise_on_cancel",
    "say",
    "script_of",
    "slow_close",
    "stall",
    "think",
    "usage",
]

Ending: TypeAlias = Literal["returned", "cancelled", "closed", "failed"]
"""How a reply ended: whole, by CancelledError, by `aclose`, by another exception."""


@dataclass(eq=False)
class Exchange:
    """One request and what became of it."""

    number: int
    """Which request of this model it was, from 1; 0 for a `prepare`."""
    request: ModelRequest | None = None
    """What was asked; None for a `prepare`."""
    is_streamed: bool = True
    opened_in: asyncio.Task[object] | None = None
    """The task that began to read the reply; None if nobody did."""
    closed_in: asyncio.Task[object] | None = None
    """The task in which the reply's `finally` ran."""
    finally_runs: int = 0
    """How often the reply's `finally` was entered."""
    is_cleaned_up: bool = False
    """True once that `finally` ran to its end."""
    ending: Ending | None = None
    """How the reply ended; None while it is open."""
    cancels: int = 0
    """How many CancelledErrors reached the script."""
    deltas: int = 0
    """How many deltas were given."""
    calls: int = 0
    """How many tool calls the reply has made so far."""
    is_finished: bool = False
    """True if the reply needs no (further) `ReplyEnd`."""
    is_absorbing: bool = False
    """Set by `absorb`."""
    error_on_cancel: BaseException | None = None
    """Set by `raise_on_cancel`."""
    close_seconds: float = 0.0
    """Set by `slow_close`."""

    @property
    def is_clean(self) -> bool:
        """True if the reply was closed exactly once, to the end, by the task that opened it."""
        return self.finally_runs == 1 and self.is_cleaned_up and self.closed_in is self.opened_in


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a script."""

    perform: Callable[[Exchange], Awaitable[Delta | None]]
    """Gives the step's delta, or None."""
    is_wait: bool = False
    """True if a swallowed cancellation ends the step; else the step is performed again."""


Script: TypeAlias = tuple[Step, ...]
"""Steps in order."""

Reply: TypeAlias = "str | Step | Sequence[Reply] | Callable[[ModelRequest], Reply]"
"""What a model is scripted to answer: text, steps, a sequence of either, or a function of the request that gives it."""


def script_of(reply: Reply, request: ModelRequest | None = None) -> Script:
    """Flatten *reply* to its steps.

    Raises:
        TypeError: *reply* holds something that is no reply.
    """
    if isinstance(reply, Step):
        return (reply,)
    if isinstance(reply, str):
        return say(reply)
    if isinstance(reply, Sequence):
        return tuple(step for part in reply for step in script_of(part, request))
    if request is not None and callable(reply):
        return script_of(reply(request), request)
    raise TypeError(f"not a scripted reply: {reply!r}. Give text, say(...) and the like, or a list of these.")


def say(*chunks: str) -> Script:
    """Stream each chunk as a piece of text."""
    return tuple(_give(TextPart(chunk)) for chunk in chunks)


def think(*chunks: str) -> Script:
    """Stream each chunk as a piece of thinking."""
    return tuple(_give(ThinkingPart(chunk)) for chunk in chunks)


def call(
    name: str, arguments: Mapping[str, object] | str = "{}", *, id: str | None = None, fragments: int = 1
) -> Script:
    """Ask for a tool.

    Args:
        name: The tool.
        arguments: Its arguments, or their raw text (which may be broken on purpose).
        id: The call's id; None makes one that is unique in this model, as `call_1_0`.
        fragments: In how many pieces the argument text comes, at least 1.
    """
    text = arguments if isinstance(arguments, str) else json.dumps(dict(arguments))
    size = max(1, -(-len(text) // fragments))
    pieces = [text[start : start + size] for start in range(0, len(text), size)] or [""]

    async def first(exchange: Exchange) -> Delta:
        await asyncio.sleep(0)
        index = exchange.calls
        exchange.calls += 1
        return ToolCallPart(index, f"call_{exchange.number}_{index}" if id is None else id, name, pieces[0])

    def later(piece: str) -> Step:
        async def perform(exchange: Exchange) -> Delta:
            await asyncio.sleep(0)
            return ToolCallPart(exchange.calls - 1, arguments=piece)

        return Step(perform)

    return (Step(first), *(later(piece) for piece in pieces[1:]))


def usage(input_tokens: int | None = None, output_tokens: int | None = None) -> Script:
    """Tell how many tokens were used."""
    return (_give(UsagePart(input_tokens, output_tokens)),)


def end(stop_reason: StopReason | None = None) -> Script:
    """End the reply; a script without it ends so by itself.

    Args:
        stop_reason: None means `tool_calls` if the reply asked for a tool, else `stop`.
    """

    async def perform(exchange: Exchange) -> Delta:
        await asyncio.sleep(0)
        exchange.is_finished = True
        return ReplyEnd(stop_reason or ("tool_calls" if exchange.calls else "stop"))

    return (Step(perform),)


def no_end() -> Script:
    """Let the stream stop without its end, as a connection does that breaks silently."""

    async def perform(exchange: Exchange) -> None:
        exchange.is_finished = True

    return (Step(perform),)


def stall() -> Script:
    """Wait for ever."""

    async def perform(_: Exchange) -> None:
        await asyncio.get_running_loop().create_future()

    return (Step(perform, is_wait=True),)


def pause(seconds: float) -> Script:
    """Wait *seconds* (virtual ones on a virtual loop)."""

    async def perform(_: Exchange) -> None:
        await asyncio.sleep(seconds)

    return (Step(perform, is_wait=True),)


def burst(count: int, text: str = "x") -> Script:
    """Give *count* pieces of text without ever suspending, as a buffered stream does."""

    async def perform(_: Exchange) -> Delta:
        return TextPart(text)

    return (Step(perform),) * count


def do(function: Callable[[], object]) -> Script:
    """Call *function*, and await what it gives if that is awaitable: for instance to fire a signal from inside."""

    async def perform(_: Exchange) -> None:
        result = function()
        if inspect.isawaitable(result):
            await result

    return (Step(perform, is_wait=True),)


def fail(error: BaseException | str) -> Script:
    """Raise *error*; a text becomes a ModelError."""

    async def perform(_: Exchange) -> None:
        await asyncio.sleep(0)
        # Without where it went last time: an error that is raised again and again keeps the frames of all those times.
        raise ModelError(error) if isinstance(error, str) else error.with_traceback(None)

    return (Step(perform, is_wait=True),)


def own_cancelled_error() -> Script:
    """Raise asyncio.CancelledError although nobody cancelled, as a library does that cancels a task of its own."""
    return fail(asyncio.CancelledError("raised by the model itself"))


def absorb() -> Script:
    """From here on swallow every cancellation: a wait that it hits is over, and the reply is played to its end."""

    async def perform(exchange: Exchange) -> None:
        exchange.is_absorbing = True

    return (Step(perform),)


def raise_on_cancel(error: BaseException) -> Script:
    """From here on answer a cancellation by raising *error*."""

    async def perform(exchange: Exchange) -> None:
        exchange.error_on_cancel = error

    return (Step(perform),)


def slow_close(seconds: float) -> Script:
    """Take *seconds* to close the reply, in its `finally`, whatever ends it."""

    async def perform(exchange: Exchange) -> None:
        exchange.close_seconds = seconds

    return (Step(perform),)


def _give(delta: Delta) -> Step:
    async def perform(_: Exchange) -> Delta:
        await asyncio.sleep(0)
        return delta

    return Step(perform)
