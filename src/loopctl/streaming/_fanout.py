"""One run's events to any number of readers, each with a bounded queue of its own.

Invariants:

1. With no reader, events are discarded and nothing waits.
2. A full queue holds the run back (checkpoint `DELIVERY`) until its reader takes something, goes away, or the cancel.
3. Once the token has stopped the run (from STOP on) a reader gets only closings: the `ApprovalEnded`, `ToolFinished`
   and `TurnEnded` of what it had been handed the start of, then `RunEnded`, exactly once and last. What waited in its
   queue is dropped.
4. An event that comes after `RunEnded` is dropped and counted: nothing revives a run that is over.
5. The fan-out holds queues, never readers: a reader that is dropped is noticed at once.
6. The observers get each event before any reader does, and never hold the run back.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import TypeAlias

from loopctl.cancel import CancelToken
from loopctl.concurrency import ForeignWork, Grace, Patience, supervise
from loopctl.errors import UsageError
from loopctl.record import (
    ApprovalEnded,
    ApprovalRequested,
    Checkpoint,
    Event,
    RunEnded,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    Urgency,
)

__all__ = ["Fanout", "Reader"]

_Thing: TypeAlias = tuple[str, str | int]
"""A tool or a question, by its call's id; a turn, by its number."""

_BOUND = 64
"""Events that a reader may lie behind before it holds the run back."""


class _Queue:
    """What one reader has still to take."""

    __slots__ = ("_events", "_is_stopped", "_open", "_token", "is_done", "waiter")

    def __init__(self, token: CancelToken) -> None:
        self._token = token
        self._events: deque[Event] = deque()
        self._open: set[_Thing | None] = set()
        """Tools, questions and turns that the reader was handed the start of, and not the end."""
        self._is_stopped = False
        self.is_done: bool = False
        self.waiter: asyncio.Future[None] | None = None

    def __len__(self) -> int:
        return len(self._events)

    def put(self, event: Event) -> None:
        if self.is_done or (self._stops() and not self._is_closing(event)):
            return
        self._events.append(event)
        if isinstance(event, RunEnded):
            self.is_done = True
        self.wake()

    def take(self) -> Event | None:
        """The next event for the reader, or None if it has to wait."""
        self._stops()
        if not self._events:
            return None
        event = self._events.popleft()
        match event:
            case ToolStarted():
                self._open.add(("tool", event.id))
            case ApprovalRequested():
                self._open.add(("approval", event.id))
            case TurnStarted():
                self._open.add(("turn", event.number))
            case _:
                self._open.discard(_closed_by(event))
        return event

    def close(self) -> None:
        """Give nothing more."""
        self.is_done = True
        self._events.clear()

    def wake(self) -> None:
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)

    def _stops(self) -> bool:
        if not self._is_stopped and self._token.is_cancelled(Urgency.STOP):
            self._is_stopped = True
            self._events = deque(event for event in self._events if self._is_closing(event))
        return self._is_stopped

    def _is_closing(self, event: Event) -> bool:
        return isinstance(event, RunEnded) or _closed_by(event) in self._open


def _closed_by(event: Event) -> _Thing | None:
    match event:
        case ToolFinished():
            return "tool", event.id
        case ApprovalEnded():
            return "approval", event.id
        case TurnEnded():
            return "turn", event.turn.number
    return None


class _Watch(_Queue):
    """Who is told at once: it takes each event as it is put, so it is never full and never waits."""

    __slots__ = ("_tell",)

    def __init__(self, token: CancelToken, tell: Callable[[Event], object]) -> None:
        super().__init__(token)
        self._tell = tell

    def put(self, event: Event) -> None:
        super().put(event)
        while (taken := self.take()) is not None:
            self._tell(taken)


class Fanout:
    """Where a run puts its events."""

    __slots__ = (
        "_bound",
        "_end",
        "_on_deserted",
        "_space",
        "_token",
        "_watch",
        "clocks",
        "late",
        "loop",
        "takers",
        "was_cut",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        token: CancelToken,
        on_deserted: Callable[[], None],
        tell: Callable[[Event], object] | None = None,
    ) -> None:
        """Serve the readers of a run.

        Args:
            loop: The run's loop.
            token: The run's; once it has fired only closings are handed out.
            on_deserted: Called, from any thread, when the last reader has gone before the end.
            tell: Called inline with each event, before any reader has it; for the observers.
        """
        self.loop: asyncio.AbstractEventLoop = loop
        self._token = token
        self._on_deserted = on_deserted
        self._bound: float = _BOUND
        self._space: asyncio.Future[None] | None = None
        self._end: RunEnded | None = None
        self.takers: dict[int, _Queue] = {}
        """Who takes events, in this order: the observers as 0, if there are any, then each reader by its queue's id."""
        self._watch: _Watch | None = None
        if tell is not None:
            self._watch = self.takers[0] = _Watch(token, tell)
        self.clocks: tuple[Patience, ...] = ()
        """What stands still while a reader holds the run back."""
        self.late: int = 0
        """Events that came after the end of the run, or of the attempt or the call that they are of: dropped."""
        self.was_cut: bool = False
        """True if a delivery was ended by a cancellation: that is where the run was caught."""

    @property
    def is_held(self) -> bool:
        """True while a delivery waits for a slow reader."""
        return self._space is not None and not self._space.done()

    def open(self) -> Reader:
        """Make a new reader, which sees the events from now on; of an ended run it sees `RunEnded`."""
        queue = _Queue(self._token)
        self.takers[id(queue)] = queue
        if self._end is not None:
            queue.put(self._end)
        return Reader(self, queue)

    def offer(self, event: Event) -> bool:
        """Hand *event* to every reader, or to none if one of them is full (then False)."""
        if self._is_late():
            return True
        queues = tuple(self.takers.values())
        if any(len(queue) >= self._bound for queue in queues) and not self._token.is_cancelled(Urgency.STOP):
            return False
        for queue in queues:
            queue.put(event)
        return True

    def tell(self, event: Event) -> None:
        """Hand *event* to each reader that has room; it is lost to the others. For what nobody can wait with."""
        if self._is_late():
            return
        for queue in tuple(self.takers.values()):
            if len(queue) < self._bound:
                queue.put(event)

    def _is_late(self) -> bool:
        is_late = self._end is not None
        self.late += is_late
        return is_late

    async def deliver(self, event: Event, patience: Patience | None = None) -> None:
        """Hand *event* to every reader, waiting for the slow ones.

        Args:
            event: What to hand over.
            patience: Its clock stands still while this waits.

        Raises:
            Cancelled: The token fired; *event* is not delivered, unless it is a closing.

        Cancellation:
            The checkpoint `DELIVERY`. Nothing is delivered after it.
        """
        if self.offer(event):
            return
        clocks = self.clocks if patience is None else (*self.clocks, patience)
        for clock in clocks:
            clock.pause()
        try:
            while not self.offer(event):
                self._space = self.loop.create_future()
                await self._wait(self._space)
        finally:
            for clock in clocks:
                clock.resume()

    async def _wait(self, space: asyncio.Future[None]) -> None:
        ending = await supervise(ForeignWork(space), self._token, grace=Grace(0), at=Checkpoint.DELIVERY)
        self.was_cut = ending.stopped_by is not None
        ending.raise_if_stopped()

    def unbind(self) -> None:
        """Hold nothing back any more: somebody awaits the end and may be the one who should read."""
        self._bound = float("inf")
        self.free()

    def free(self) -> None:
        """Let a waiting delivery look again."""
        if self._space is not None and not self._space.done():
            self._space.set_result(None)

    def drop(self, queue: _Queue) -> None:
        """Forget a reader; callable from any thread, since the collector calls it."""
        if self.takers.pop(id(queue), None) is None or queue.is_done:
            return
        try:
            self.loop.call_soon_threadsafe(self._on_dropped, queue)
        except RuntimeError:  # the loop is closed: nothing waits there
            return
        if len(self.takers) == (0 if self._watch is None else 1):
            self._on_deserted()

    def _on_dropped(self, queue: _Queue) -> None:
        queue.wake()
        self.free()

    def observe(self, event: Event) -> None:
        """Tell *event* to the observers and to nobody else: they come before the readers at the end of a run."""
        if self._watch is not None:
            self._watch.put(event)

    def close(self, event: Event) -> None:
        """Hand *event*, which closes something, out whether there is room or not."""
        if isinstance(event, RunEnded):
            self._end = event
        for queue in tuple(self.takers.values()):
            queue.put(event)


class Reader(AsyncIterator[Event]):
    """One reader of a run's events.

    Dropping it before the end (by `break`, by `aclose`, by a cancelled task in `async for`, or by losing the last
    reference) leaves the run; when the last reader leaves, the run is cancelled with the origin `caller`.
    """

    __slots__ = ("_fanout", "_queue")

    def __init__(self, fanout: Fanout, queue: _Queue) -> None:
        """Read *queue* of *fanout*."""
        self._fanout = fanout
        self._queue = queue

    def __aiter__(self) -> Reader:
        """Iterate this reader itself."""
        return self

    async def __anext__(self) -> Event:
        """Give the next event.

        Raises:
            StopAsyncIteration: After `RunEnded`, or after `aclose`.
            UsageError: It is read by two tasks at once.

        Cancellation:
            Drops the reader, which may cancel the run; nothing is lost that had been handed out.
        """
        queue = self._queue
        while True:
            event = queue.take()
            if event is not None:
                self._fanout.free()
                return event
            if queue.is_done or id(queue) not in self._fanout.takers:
                raise StopAsyncIteration
            await self._wait(queue)

    async def _wait(self, queue: _Queue) -> None:
        if queue.waiter is not None:
            raise UsageError("this reader is awaited already: make one reader for each task with aiter(handle)")
        loop = asyncio.get_running_loop()
        if loop is not self._fanout.loop:
            raise UsageError("this reader belongs to another event loop, the one its run was started on")
        queue.waiter = loop.create_future()
        try:
            await queue.waiter
        except asyncio.CancelledError:
            self._fanout.drop(queue)
            raise
        finally:
            queue.waiter = None

    async def aclose(self) -> None:
        """Stop reading; idempotent.

        Cancellation:
            Never suspends.
        """
        self.close()

    def close(self) -> None:
        """Stop reading; idempotent, callable from any thread."""
        self._fanout.drop(self._queue)
        self._queue.close()

    def __del__(self) -> None:
        """Leave the run."""
        self._fanout.drop(self._queue)
