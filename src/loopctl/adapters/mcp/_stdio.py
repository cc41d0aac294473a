"""The standard input and output of this process, as the streams of a server.

Rule: while it serves, the descriptors 0 and 1 are the null device and the standard error, so that nothing that a tool
reads or prints gets between the messages. No thread reads: one that waits for input could not be ended.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from loopctl.adapters.mcp._streams import Incoming, Outgoing
from loopctl.concurrency import Drain, Feed

__all__ = ["standard_streams"]


@asynccontextmanager
async def standard_streams(on_end: Callable[[], object]) -> AsyncIterator[tuple[Incoming, Outgoing]]:
    """Take the standard input and output, and give them back; *on_end* is called at the end of the input.

    Cancellation:
        Never waits.
    """
    loop = asyncio.get_running_loop()
    kept = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(2, 1)
    os.close(null)
    drain: Drain | None = None

    def hold(is_held: bool) -> None:  # noqa: FBT001 - a callback
        if drain is not None:
            drain.hold(is_held=is_held)

    incoming = Incoming(hold, on_end)
    feed = Feed(loop, os.dup(kept[1]))
    try:
        drain = Drain(loop, os.dup(kept[0]), lambda portion: incoming.take(portion) if portion else incoming.end())
        yield incoming, Outgoing(feed.write)
    finally:
        if drain is not None:
            drain.close()
        feed.end()
        for standard, descriptor in enumerate(kept):
            os.set_blocking(descriptor, True)
            os.dup2(descriptor, standard)
            os.close(descriptor)
