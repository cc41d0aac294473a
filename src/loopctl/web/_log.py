"""What one run has told, encoded, as long as it is kept: each client reads it at its own pace.

Invariants:

1. Events are numbered from 1 without a gap; a client that gives the last number it has seen misses nothing, or is told
   that it did.
2. The log is bounded by events and by bytes: the oldest go first. Writing never waits, so no client holds the run back.
"""

from __future__ import annotations

import asyncio
from collections import deque

from loopctl.web._encode import JsonObject, to_line

__all__ = ["Missed", "RunLog"]

_MOST_BYTES = 4 * 1024 * 1024
_PORTION = 64 * 1024
"""Bytes that are read at once."""


class Missed(Exception):
    """What was asked for is no longer kept."""

    def __init__(self, count: int) -> None:
        """Tell that *count* events were missed."""
        super().__init__(count)
        self.count = count


class RunLog:
    """The log of one run."""

    def __init__(self, most_events: int) -> None:
        """Keep at most *most_events*."""
        self._lines: deque[bytes] = deque()
        self._bytes = 0
        self._most_events = most_events
        self._waiting: set[asyncio.Future[None]] = set()
        self.last: int = 0
        """The number of the newest event; 0 before the first."""
        self.is_over: bool = False
        """True if nothing follows."""

    def add(self, event: JsonObject) -> None:
        """Take *event* as the newest one."""
        self.last += 1
        line = to_line(self.last, event)
        self._lines.append(line)
        self._bytes += len(line)
        # The newest one stays, whatever its size: it may be the record of the whole run.
        while len(self._lines) > 1 and (len(self._lines) > self._most_events or self._bytes > _MOST_BYTES):
            self._bytes -= len(self._lines.popleft())
        self._wake()

    def end(self) -> None:
        """Take nothing more."""
        self.is_over = True
        self._wake()

    def forget(self) -> None:
        """Keep nothing any more."""
        self._lines.clear()
        self._bytes = 0

    def read(self, after: int) -> tuple[bytes, int]:
        """Give a portion of what follows the event *after*, and the number of its last event.

        Raises:
            Missed: Some of it is no longer kept.
        """
        first = self.last - len(self._lines) + 1
        if after + 1 < first:
            raise Missed(first - after - 1)
        portion: list[bytes] = []
        size = 0
        for index in range(after + 1 - first, len(self._lines)):
            portion.append(self._lines[index])
            size += len(portion[-1])
            if size >= _PORTION:
                break
        return b"".join(portion), after + len(portion)

    async def news(self, after: int, seconds: float) -> None:
        """Wait until there is something after *after*, until nothing follows, or so long.

        Cancellation:
            Leaves the wait.
        """
        if self.last > after or self.is_over:
            return
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        timer = loop.call_later(seconds, _resolve, future)
        self._waiting.add(future)
        try:
            await future
        finally:
            self._waiting.discard(future)
            timer.cancel()

    def _wake(self) -> None:
        for future in self._waiting:
            _resolve(future)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
