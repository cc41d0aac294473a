"""One call that a client makes of a tool of ours.

Invariants: the call has a signal of its own below the server's, so that no client's cancel touches another's; its work
is in a task of ours and never in the SDK's, whose scopes cancel again and again what they have cancelled, and know no
grace.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from loopctl.cancel import CancelSignal
from loopctl.concurrency import Grace, Straggler, spawn
from loopctl.errors import Cancelled
from loopctl.messages import ToolCall, ToolResult
from loopctl.record import CancelReason, Event, ToolProgress
from loopctl.recovery import ToolFailure, ToolGivenUp
from loopctl.tools import Approver, Round, Tool, run_sequentially

__all__ = ["ServedCall", "Serving", "Tell"]

Tell = Callable[[float, float | None, str | None], Awaitable[None]]
"""Tells the client of progress: how far, of how much, and what is being done."""

_BEAT = 5.0
"""Seconds without progress after which some is told all the same: clients give up after 60 without."""
_PAUSE = 0.02
"""Seconds between two tellings; what comes in between is told by its last."""
_KEPT = 1000
"""Stragglers that are remembered: a server may run for a long time."""
_WHOLE = 100.0
_LITTLE = 0.001
"""Progress must grow, whatever the tool says."""


@dataclass(frozen=True)
class Serving:
    """What the calls of one server share."""

    tools: Mapping[str, Tool]
    approve: Approver | None = None
    grace: float = 1.0
    signal: CancelSignal = field(default_factory=CancelSignal)
    """Stops all that run."""
    held: dict[str, Straggler] = field(default_factory=dict)
    stragglers: deque[Straggler] = field(default_factory=lambda: deque(maxlen=_KEPT))


class ServedCall:
    """One call, from its start to its end."""

    def __init__(self, call: ToolCall, serving: Serving) -> None:
        """Make *call*; nothing of it happens before the loop's next turn."""
        self.signal: CancelSignal = serving.signal.child()
        self._loop = asyncio.get_running_loop()
        self._said: ToolProgress | None = None
        self._told = 0.0
        self._wants_news = False
        self._news: asyncio.Future[None] = self._loop.create_future()
        into = Round(
            run_id="",
            tools=serving.tools,
            token=self.signal.token,
            grace=Grace(serving.grace),
            note=_ignore,
            emit=_swallow,
            offer=self._on_event,
            conclude=_ignore,
            drop=lambda: None,
            abandoned=serving.stragglers.append,
            decide=_give_up,
            held=serving.held,
            approve=serving.approve,
        )
        self.task: asyncio.Task[ToolResult | None] = spawn(_run(call, into), self._loop, f"loopctl mcp {call.name}")
        self.task.add_done_callback(lambda _: self._wake())

    async def attend(self, tell: Tell) -> ToolResult | None:
        """Wait for the end, and tell of progress meanwhile.

        Returns:
            The result; None if the call was stopped.

        Cancellation:
            It is that of the client, unless the server has stopped the call already, whose reason comes first. The
            call goes on ending by itself.
        """
        try:
            while not self.task.done():
                await self._wait(_PAUSE if self._told else 0.0)
                await self._wait(_BEAT, until_news=True)
                if not self.task.done():
                    await tell(*self._progress())
        except asyncio.CancelledError:
            self.signal.cancel(CancelReason("user", "the client cancelled the call", "mcp"))
            raise
        return self.task.result()

    async def _wait(self, seconds: float, *, until_news: bool = False) -> None:
        """Wait so long, or until the call has ended, or has something to tell."""
        if self.task.done() or (until_news and self._said is not None) or not seconds:
            return
        news = self._news = self._loop.create_future()
        self._wants_news = until_news
        timer = self._loop.call_later(seconds, self._wake)
        try:
            await news
        finally:
            timer.cancel()

    def _on_event(self, event: Event) -> None:
        if isinstance(event, ToolProgress):
            self._said = event
            if self._wants_news:
                self._wake()

    def _wake(self) -> None:
        if not self._news.done():
            self._news.set_result(None)

    def _progress(self) -> tuple[float, float | None, str | None]:
        said, self._said = self._said, None
        fraction = None if said is None else said.fraction
        self._told = max(self._told + _LITTLE, (fraction or 0.0) * _WHOLE)
        message = None if said is None else said.message or None
        return self._told, None if fraction is None else max(_WHOLE, self._told), message


async def _run(call: ToolCall, into: Round) -> ToolResult | None:
    try:
        (result,) = await run_sequentially((call,), into)
    except Cancelled:
        return None
    return result


def _give_up(failure: ToolFailure) -> ToolGivenUp:
    return ToolGivenUp(failure.text)


def _ignore(_: object) -> None:
    pass


async def _swallow(_: Event) -> None:
    pass
