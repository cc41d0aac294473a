"""The standard input and output of this process, as the streams of a server.

Rules: no thread reads: one that waits for input could not be ended. A client that does not take what it is told, or
sends a message without an end, is taken for one that has gone, before that fills the memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from loopctl.adapters._stdio import own_stdio
from loopctl.adapters.mcp._streams import Incoming, Outgoing
from loopctl.concurrency import Drain, Feed

__all__ = ["standard_streams"]

_MOST = 16 * 1024 * 1024
"""Bytes that the client may leave unread; one message may be longer."""


class _Pipes:
    """The two descriptors of the client, with its messages."""

    def __init__(self, loop: asyncio.AbstractEventLoop, inlet: int, outlet: int, on_end: Callable[[], object]) -> None:
        self.incoming = Incoming(self._hold, on_end)
        self.outgoing = Outgoing(self._write, lambda: self._feed.backlog)
        self._feed = Feed(loop, outlet)
        self._drain = Drain(loop, inlet, self._take)

    def close(self) -> None:
        self._drain.close()
        self._feed.end()

    def _hold(self, is_held: bool) -> None:  # noqa: FBT001 - a callback
        self._drain.hold(is_held=is_held)

    def _take(self, portion: bytes) -> None:
        try:
            self.incoming.take(portion)
        except ValueError:
            portion = b""
        if not portion:
            self._take_for_gone()

    def _write(self, line: bytes) -> None:
        if self._feed.backlog > _MOST:
            self._take_for_gone()
        else:
            self._feed.write(line)

    def _take_for_gone(self) -> None:
        self.incoming.end()
        self._drain.close()


@asynccontextmanager
async def standard_streams(on_end: Callable[[], object]) -> AsyncIterator[tuple[Incoming, Outgoing]]:
    """Take the standard input and output, and give them back; *on_end* is called at the end of the input.

    Cancellation:
        Never waits.
    """
    with own_stdio() as (inlet, outlet):
        pipes = _Pipes(asyncio.get_running_loop(), inlet, outlet, on_end)
        try:
            yield pipes.incoming, pipes.outgoing
        finally:
            pipes.close()
