"""A server for the application, whose end is bounded.

Rules: the end comes in this order: no more runs, the runs are cancelled (origin `shutdown`), their streams get their
closings, then connections are closed. Only loopback is served to people who are not asked who they are.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Iterator

import uvicorn
from starlette.types import ASGIApp

from loopctl.cancel import CancelSignal, CancelToken, watch
from loopctl.concurrency import together
from loopctl.errors import UsageError
from loopctl.record import Urgency
from loopctl.web._app import WebApp
from loopctl.web._guard import is_loopback

__all__ = ["serve"]

_GRACE = 1
"""Seconds that connections get once the runs have ended."""


async def serve(
    app: WebApp,
    *,
    host: str = "127.0.0.1",
    port: int = 8780,
    within: ASGIApp | None = None,
    signal: CancelSignal | CancelToken | None = None,
    on_ready: Callable[[str], object] = lambda _: None,
) -> None:
    """Serve *app* until *signal* fires; then its runs are cancelled, their streams end, and so does this.

    Args:
        app: What `create_app` made.
        host: Where to listen; elsewhere than on loopback *app* must have a token or an owner.
        port: Where to listen; 0 takes a free one.
        within: The application that *app* is mounted in, if it is; it is what is served then.
        signal: Ends the server; None never does.
        on_ready: Called with the URL when it listens.

    Raises:
        UsageError: Everybody could reach it, and nobody is asked for a token.
        OSError: Nothing can listen there.

    Cancellation:
        Ends the server and its runs as *signal* does, then goes on.
    """
    if not is_loopback(host) and not app.asks_who:
        raise UsageError(
            f"{host} is reached from elsewhere: give loopctl serve a --token-file, or create_app a token= or an owner=,"
            " or listen at 127.0.0.1"
        )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    over = CancelSignal()
    stop = over if signal is None else CancelSignal.any_of(over, signal)
    with socket.create_server((host, port), family=family, backlog=1024) as listener:
        shown = f"[{host}]" if ":" in host else host
        on_ready(f"http://{shown}:{listener.getsockname()[1]}/")
        pressed = watch(stop.token, asyncio.get_running_loop(), app.abandon, at_least=Urgency.ABANDON)
        try:
            await _run(app, within or app, listener, stop, over)
        finally:
            pressed.close()
            await app.aclose()


async def _run(app: WebApp, served: ASGIApp, listener: socket.socket, stop: CancelSignal, over: CancelSignal) -> None:
    server = _Uvicorn(
        uvicorn.Config(
            served,
            log_level="warning",
            access_log=False,
            server_header=False,
            ws="none",
            timeout_graceful_shutdown=_GRACE,
        )
    )

    async def run() -> None:
        try:
            await server.serve(sockets=[listener])
        finally:
            over.cancel()

    async def end() -> None:
        await stop.notified()
        try:
            await app.aclose()
        finally:
            log.addFilter(_is_news)
            server.should_exit = True

    log = logging.getLogger("uvicorn.error")
    try:
        await together((run, end), limit=2, name="loopctl web")
    finally:
        log.removeFilter(_is_news)


def _is_news(record: logging.LogRecord) -> bool:
    """Drop what uvicorn logs as an error of requests that the end cuts off: that is what an end does."""
    is_cut_off = record.exc_info is not None and isinstance(record.exc_info[1], asyncio.CancelledError)
    return not is_cut_off and not str(record.msg).startswith("Cancel ")


class _Uvicorn(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals of the process to whoever has them."""
        yield
