"""The answer that is a stream: it reads one run's log for one client, and notices when the client goes.

Rules:

1. Going away is noticed also while nothing is sent: the connection is listened to the whole time, whatever the server
   says of its protocol.
2. A client that takes nothing for `_STALLED` seconds has gone.
3. The end of the server's own task is the server's, not the client's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from loopctl.cancel import CancelSignal
from loopctl.concurrency import race, together
from loopctl.errors import Cancelled
from loopctl.record import CancelReason
from loopctl.web._encode import events_missed, to_line
from loopctl.web._log import Missed
from loopctl.web._run import WebRun

__all__ = ["RunStream"]

_KEEP_ALIVE = 15.0
"""Seconds of silence after which a proxy is told that we are there."""
_STALLED = 60.0
"""Seconds in which a client that reads takes something."""
_HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-store",
    "x-accel-buffering": "no",  # nginx would hold the events back
    "x-content-type-options": "nosniff",
}
_SHUTDOWN = CancelReason("shutdown", "the server ended the stream", "http")


class RunStream(Response):
    """One stream of one run."""

    def __init__(self, live: WebRun, after: int, client: str, headers: Mapping[str, str] | None = None) -> None:
        """Tell *client* what *live* told after the event *after*."""
        super().__init__(None, headers={**_HEADERS, "x-run-id": live.id, **(headers or {})})
        del self.headers["content-length"]
        self._live = live
        self._after = after
        self._client = client
        live.join()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream.

        Cancellation:
            Leaves the run, which may cancel it with the origin `shutdown`.
        """
        del scope
        gone, over = CancelSignal(), CancelSignal()
        reason: CancelReason | None = _SHUTDOWN
        try:
            await together(
                (
                    lambda: race(self._write(send, gone, over), gone, 0),
                    lambda: race(_listen(receive, gone, self._client), over, 0),
                ),
                limit=2,
                name=f"loopctl stream of {self._live.id}",
            )
            reason = None
        except Cancelled:
            reason = gone.reason
        finally:
            self._live.leave(reason)

    async def _write(self, send: Send, gone: CancelSignal, over: CancelSignal) -> None:
        """Send what there is, and wait for more, to the end."""
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            log = self._live.log
            after = self._after
            while True:
                try:
                    portion, after = log.read(after)
                except Missed as missed:
                    await self._send(send, to_line(None, events_missed(missed.count)), gone)
                    break
                if portion:
                    await self._send(send, portion, gone)
                elif log.is_over:
                    break
                else:
                    await log.news(after, _KEEP_ALIVE)
                    if log.last == after and not log.is_over:
                        await self._send(send, b": keep-alive\n\n", gone)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            over.cancel()

    async def _send(self, send: Send, portion: bytes, gone: CancelSignal) -> None:
        stalled = CancelReason("disconnect", f"the client read nothing for {_STALLED:.0f} s", self._client)
        timer = asyncio.get_running_loop().call_later(_STALLED, gone.cancel, stalled)
        try:
            await send({"type": "http.response.body", "body": portion, "more_body": True})
        finally:
            timer.cancel()


async def _listen(receive: Receive, gone: CancelSignal, client: str) -> None:
    """Wait until the client has gone, and say so."""
    while (await receive())["type"] != "http.disconnect":
        pass
    gone.cancel(CancelReason("disconnect", "the last client of the run has gone", client))
