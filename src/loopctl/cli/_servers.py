"""The MCP servers of a command: connected before the first message, closed at the end.

Rule: every call of their tools asks, since what a server says of its tools binds it to nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from loopctl.cancel import CancelSignal
from loopctl.cli._presses import Presses
from loopctl.tools import Tool

__all__ = ["served_tools"]


@asynccontextmanager
async def served_tools(servers: Sequence[str], presses: Presses) -> AsyncIterator[list[Tool]]:
    """Give the tools of *servers*: commands and URLs.

    Raises:
        Cancelled: A signal of the process came while one was being connected.
        LoopError: One cannot be connected.

    Cancellation:
        Ends what was begun.
    """
    tools: list[Tool] = []
    async with AsyncExitStack() as closing:
        for server in servers:
            from loopctl.adapters.mcp import McpClient  # most commands are without

            client = McpClient(server, approval=True)
            signal = CancelSignal()
            closing.push_async_callback(client.aclose)
            with presses.running(signal.cancel):
                await client.connect(signal)
            tools += client.tools
        yield tools
