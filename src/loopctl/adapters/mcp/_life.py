"""One connection to a server, from the handshake to the end, in a task of its own.

Invariants: the SDK's client is entered and left by that one task, so its task groups and cancel scopes are around
nothing of ours; what ends the connection is pressed and bounded like any other work; once it has ended, `why` says how.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Literal, TypeAlias

import mcp_types as types
from mcp.client import Client
from mcp.client._transport import Transport
from mcp.client.session import IncomingMessage
from mcp.client.stdio import get_default_environment
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from loopctl.adapters.mcp._child import Child, command_of, resolve, wait_for
from loopctl.adapters.mcp._target import Target
from loopctl.cancel import CancelSignal
from loopctl.concurrency import Grace, TaskWork, breathe, describe, spawn, supervise

__all__ = ["Life", "Protocol", "list_tools"]

Protocol: TypeAlias = Literal["auto", "legacy"]
"""Which one is spoken: the newest that both know, or that with a handshake, of 2025 and before."""

_GRACE = 2.5
"""Seconds that an end by force may take: more than the process has."""
_POLITE = 4.0
"""Seconds that a polite end may take before force is used: more than the process has."""
_PAGES = 100
"""Pages of a listing, so that one without an end ends."""


class Life:
    """One connection. Constructing it begins to connect."""

    def __init__(self, target: Target, protocol: Protocol, on_changed: Callable[[], None]) -> None:
        """Connect to *target*; *on_changed* is called when the server says that its tools have changed."""
        self._target = target
        self._protocol = protocol
        self._on_changed = on_changed
        self.loop: asyncio.AbstractEventLoop = asyncio.get_running_loop()
        self.ready: asyncio.Future[None] = self.loop.create_future()
        """Done when the tools are listed, or the connection has ended before."""
        self.client: Client | None = None
        """Set once the tools are listed."""
        self.tools: list[types.Tool] = []
        self._is_over = False
        self._error: BaseException | None = None
        self._stop = CancelSignal()
        self._closing: asyncio.Future[None] = self.loop.create_future()
        self._child = None if target.url else Child(command_of(target.argv, self._env(), target.cwd))
        self._task = spawn(self._lead(), self.loop, f"loopctl mcp client {target}")

    @property
    def is_over(self) -> bool:
        """True once no more calls can be made."""
        return self._is_over or (self._child is not None and self._child.ended.done())

    def why(self) -> str:
        """Say how the connection ended."""
        told = self._child.why() if self._child is not None else ""
        if told or self._error is None:
            return told or "was closed"
        error = _innermost(self._error)
        return "was closed" if isinstance(error, asyncio.CancelledError) else f"failed: {describe(error)}"

    async def end(self, *, is_polite: bool) -> None:
        """End the connection, and the process with it.

        Cancellation:
            Goes on to the host; the end goes on by itself, with force.
        """
        try:
            if is_polite:
                resolve(self._closing)
                await wait_for(self._task, _POLITE)
        finally:
            self._stop.cancel()
            await wait_for(self._task, 2 * _GRACE)

    async def _lead(self) -> None:
        ending = await supervise(TaskWork(self._main(), "loopctl mcp session"), self._stop.token, grace=Grace(_GRACE))
        self._is_over = True
        self._error = ending.error
        resolve(self.ready)
        if ending.host_error is not None:
            raise ending.host_error

    async def _main(self) -> None:
        async with self._transport() as transport:
            client = Client(
                transport,
                mode=self._protocol,
                cache=None,
                message_handler=self._on_message,
                client_info=types.Implementation(name="loopctl", version=version("loopctl-py")),
            )
            async with client:
                self.tools = await list_tools(client)
                self.client = client
                resolve(self.ready)
                await self._closing
                self._is_over = True

    @asynccontextmanager
    async def _transport(self) -> AsyncIterator[Transport]:
        if self._child is not None:
            self._child.ended.add_done_callback(lambda _: resolve(self._closing))
            yield self._child.open()
            return
        async with create_mcp_http_client(headers=dict(self._target.headers)) as http:
            yield streamable_http_client(self._target.url, http_client=http)

    async def _on_message(self, message: IncomingMessage) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._on_changed()
        await breathe()

    def _env(self) -> dict[str, str]:
        # Not all of ours: a server is somebody else's program, and our keys are none of its business.
        return {**get_default_environment(), **self._target.env}


async def list_tools(client: Client) -> list[types.Tool]:
    """Ask for all tools.

    Raises:
        MCPError: The server refuses.

    Cancellation:
        The request is dropped, and the server told.
    """
    tools: list[types.Tool] = []
    cursor: str | None = None
    for _ in range(_PAGES):
        page = await client.list_tools(cursor=cursor)
        tools += page.tools
        cursor = page.next_cursor
        if not cursor:
            break
    return tools


def _innermost(error: BaseException) -> BaseException:
    """Take *error* out of the groups that the SDK's task groups put around it."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    return error
