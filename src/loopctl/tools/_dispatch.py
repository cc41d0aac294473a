"""Run the calls of one reply: one after the other, or in waves.

Invariants: the token is polled before each call, and a call that was not begun stays `not_started`; nothing here
decides what the model is told next.
"""

from __future__ import annotations

import asyncio
import functools
from dataclasses import replace

from loopctl.concurrency import ForeignWork, Grace, supervise, together
from loopctl.messages import ToolCall, ToolResult
from loopctl.record import Checkpoint, Event
from loopctl.tools._call import Call
from loopctl.tools._resources import wish_of
from loopctl.tools._round import Round
from loopctl.tools._waves import plan

__all__ = ["run_in_waves", "run_sequentially"]


async def run_sequentially(calls: tuple[ToolCall, ...], into: Round) -> tuple[ToolResult, ...]:
    """Run *calls* in order.

    Returns:
        One result for each call.

    Raises:
        Cancelled: The token fired: at `BETWEEN_CALLS`, `TOOL_CALL`, `RECOVERY_WAIT` or `DELIVERY`.

    Cancellation:
        A checkpoint before and during each call.
    """
    results = []
    for call in calls:
        into.poll(Checkpoint.BETWEEN_CALLS)
        results.append(await Call(call, into).run())
    return tuple(results)


async def run_in_waves(calls: tuple[ToolCall, ...], into: Round, limit: int) -> tuple[ToolResult, ...]:
    """Run *calls*, side by side those that may, at most *limit* of them at once.

    Returns:
        One result for each call, in the order of *calls*.

    Raises:
        Cancelled: The token fired: at the innermost wait of the first call that was running, in the order of *calls*;
            at `WAVE` if none was.

    Cancellation:
        A checkpoint at the top of each wave, before each queued call and during each call.
    """
    results: dict[int, ToolResult] = {}
    for wave in plan([wish_of(into.tools[call.name], call.arguments) for call in calls]):
        into.poll(Checkpoint.WAVE)
        if len(wave) == 1:
            results[wave[0]] = await Call(calls[wave[0]], into).run()
            continue
        door = replace(into, emit=_Door(into).emit)
        works = [functools.partial(_run_queued, calls[index], door) for index in wave]
        results.update(zip(wave, await together(works, limit=limit, name="loopctl call"), strict=True))
    return tuple(results[index] for index in range(len(calls)))


async def _run_queued(call: ToolCall, into: Round) -> ToolResult:
    into.poll(Checkpoint.WAVE)
    return await Call(call, into, has_siblings=True).run()


class _Door:
    """Lets the calls of one wave hand over their events one at a time, as a run does that has one call."""

    def __init__(self, into: Round) -> None:
        self._into = into
        self._busy: asyncio.Future[None] | None = None

    async def emit(self, event: Event) -> None:
        while self._busy is not None:
            work = ForeignWork(self._busy)
            ending = await supervise(work, self._into.token, grace=Grace(0), at=Checkpoint.DELIVERY)
            ending.raise_if_stopped()
        passed = self._busy = asyncio.get_running_loop().create_future()
        try:
            await self._into.emit(event)
        finally:
            self._busy = None
            passed.set_result(None)
