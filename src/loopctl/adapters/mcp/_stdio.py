"""The standard input and output of this process, as the streams of a server.

Rule: while it serves, the descriptors 0 and 1 are the null device and the standard error, so that nothing that a tool
reads or prints gets between the messages. No thread reads: one that waits for input could not be ended. A client that
does not take what it is told, or sends a message without an end, is taken for one that has gone, before that fills the
memory.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

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


@contextmanager
def _own_descriptors() -> Iterator[tuple[int, int]]:
    kept = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(2, 1)
    os.close(null)
    try:
        yield kept
    finally:
        for standard, descriptor in enumerate(kept):
            os.set_blocking(descriptor, True)
            os.dup2(descriptor, standard)
            os.close(descriptor)


@asynccontextmanager
async def standard_streams(on_end: Callable[[], object]) -> AsyncIterator[tuple[Incoming, Outgoing]]:
    """Take the standard input and output, and give them back; *on_end* is called at the end of the input.

    Cancellation:
        Never waits.
    """
    with _own_descriptors() as (inlet, outlet):
        pipes = _Pipes(asyncio.get_running_loop(), os.dup(inlet), os.dup(outlet), on_end)
        try:
            yield pipes.incoming, pipes.outgoing
        finally:
            pipes.close()
