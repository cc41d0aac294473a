"""The MCP servers that a client names for a session: connected before the session is there, closed with it.

Rules: all of them or none, since nobody could be told of one that is missing before the session has begun; each call
of their tools asks, since what a server says of itself binds it to nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from acp.schema import AcpMcpServer, HttpMcpServer, McpServerStdio, SseMcpServer

from loopctl.cancel import CancelSignal
from loopctl.concurrency import together
from loopctl.errors import UsageError
from loopctl.tools import Tool

if TYPE_CHECKING:
    from loopctl.adapters.mcp import McpClient

__all__ = ["Description", "Servers"]

Description: TypeAlias = HttpMcpServer | SseMcpServer | AcpMcpServer | McpServerStdio
"""What the protocol says of one server."""


class Servers:
    """The servers of one session."""

    def __init__(self, described: Sequence[Description], folder: str) -> None:
        """Prepare to connect to what is *described*; commands are to run in *folder*.

        Raises:
            UsageError: One of them cannot be connected to by us.
        """
        self._clients = [_client(each, folder) for each in described]

    @property
    def tools(self) -> list[Tool]:
        """Their tools; none before `connect`."""
        return [made for client in self._clients for made in client.tools]

    async def connect(self, signal: CancelSignal) -> None:
        """Connect to all of them, side by side.

        Raises:
            Cancelled: *signal* fired.
            ToolError: One cannot be connected; then none is.

        Cancellation:
            As of `McpClient.connect`; none stays connected.
        """
        async with AsyncExitStack() as closing:
            closing.push_async_callback(self.aclose)
            connecting = [partial(client.connect, signal) for client in self._clients]
            await together(connecting, limit=len(connecting), name="loopctl acp connecting")
            closing.pop_all()

    async def aclose(self) -> None:
        """End all of them, side by side; idempotent.

        Cancellation:
            As of `McpClient.aclose`.
        """
        closing = [client.aclose for client in self._clients]
        await together(closing, limit=len(closing), name="loopctl acp closing")


def _client(described: Description, folder: str) -> McpClient:
    from loopctl.adapters.mcp import McpClient  # most sessions are without

    match described:
        case McpServerStdio(name=name, command=command, args=args, env=env):
            variables = {each.name: each.value for each in env}
            return McpClient([command, *args], prefix=name, approval=True, env=variables, cwd=folder)
        case HttpMcpServer(name=name, url=url, headers=headers):
            return McpClient(url, prefix=name, approval=True, headers={each.name: each.value for each in headers})
    raise UsageError(
        f"the MCP server {described.name} is reached by {described.type}, which loopctl does not speak: it takes"
        " commands, and URLs of the type http"
    )
