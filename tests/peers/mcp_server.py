"""An MCP server made with the official SDK, as a peer: `python tests/peers/mcp_server.py [http]`.

What happens to its calls is written into the file that `MCP_LOG` names, one line each.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from pathlib import Path
from typing import Annotated

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.shared.exceptions import MCPError
from mcp_types import ToolAnnotations
from pydantic import Field

server = MCPServer("the peer", log_level="ERROR")


def log(line: str) -> None:
    """Tell the test what happened."""
    with Path(os.environ["MCP_LOG"]).open("a") as file:
        file.write(line + "\n")


@server.tool(annotations=ToolAnnotations(read_only_hint=True, title="Adding"))
def add(a: Annotated[int, Field(description="The first.")], b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
async def slow(name: str) -> str:
    """Wait for ever."""
    log(f"begun {name}")
    try:
        await asyncio.sleep(3600)
    except asyncio.CancelledError:
        log(f"cancelled {name}")
        raise
    return "never"


@server.tool()
async def steps(ctx: Context) -> str:
    """Tell of progress."""
    for step in (1, 2):
        await ctx.report_progress(step, 2, f"step {step}")
    return "done"


@server.tool()
def fail() -> str:
    """Fail."""
    raise ValueError("the disk is full")


@server.tool()
def die() -> str:
    """End the server."""
    print("out of luck", file=sys.stderr, flush=True)
    os._exit(3)


@server.tool(name="odd name/with signs")
def odd() -> str:
    """Have a name that no model can call."""
    return "odd"


@server.tool()
async def change(ctx: Context) -> str:
    """Take a tool away, and change another."""
    server.remove_tool("add")
    server.add_tool(other_fail, name="extra")
    await ctx.session.send_tool_list_changed()
    return "changed"


def other_fail(reason: str) -> str:
    """Fail for a reason."""
    raise MCPError(-32603, reason)


def main() -> None:
    """Serve."""
    log(f"pid {os.getpid()}")
    if sys.argv[1:] == ["http"]:
        listener = socket.create_server(("127.0.0.1", 0))
        log(f"port {listener.getsockname()[1]}")
        uvicorn.Server(uvicorn.Config(server.streamable_http_app(), log_level="error")).run(sockets=[listener])
    else:
        server.run("stdio")


if __name__ == "__main__":
    main()
