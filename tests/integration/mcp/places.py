"""The peers of the MCP tests, their logs, and one call of a tool."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from loopctl import CancelSignal, ToolContext
from loopctl.adapters.mcp import McpClient
from loopctl.tools import Tool

PEERS = Path(__file__).parents[2] / "peers"


class Peer:
    """A server to be started by a client, and what it logged."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "log"
        self.env = {"MCP_LOG": str(self.log)}

    def good(self, *words: str, **options: Any) -> McpClient:
        """A client of the server that is made with the SDK."""
        return McpClient([sys.executable, str(PEERS / "mcp_server.py"), *words], env=self.env, **options)

    def bad(self, mode: str, **options: Any) -> McpClient:
        """A client of the server that behaves as *mode* says."""
        return McpClient([sys.executable, str(PEERS / "mcp_stubborn.py"), mode], env=self.env, **options)

    def lines(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []

    def messages(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines() if line.startswith("{")]

    def pids(self) -> list[int]:
        return [int(line.removeprefix("pid ")) for line in self.lines() if line.startswith("pid ")]

    async def until(self, condition: Callable[[], object]) -> None:
        while not condition():
            await asyncio.sleep(0.01)

    async def until_logged(self, text: str) -> None:
        await self.until(lambda: any(text in line for line in self.lines()))


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"


def named(client: McpClient, ending: str) -> Tool:
    (found,) = (tool for tool in client.tools if tool.name.endswith(ending))
    return found


async def call(client: McpClient, ending: str, /, **arguments: Any) -> Any:
    made = named(client, ending)
    context = ToolContext("call-1", made.name, CancelSignal().token)
    return await made.call(made.bind(arguments), context)
