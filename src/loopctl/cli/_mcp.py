"""`loopctl mcp serve`: tools for MCP clients.

Rule: stdout is the protocol's; everything that a person reads goes to stderr.
"""

from __future__ import annotations

import sys
from contextlib import redirect_stdout

from loopctl.cancel import CancelSignal
from loopctl.cli._agent import load, say_yes
from loopctl.cli._exit import COMPLETED, code_of_reason
from loopctl.cli._options import McpOptions
from loopctl.cli._presses import Presses
from loopctl.driver import Agent
from loopctl.errors import Cancelled

__all__ = ["serve_mcp"]


async def serve_mcp(options: McpOptions, presses: Presses) -> int:
    """Serve until the client leaves, or a signal of the process comes.

    Returns:
        The exit code.

    Cancellation:
        Ends the server and its calls.
    """
    from loopctl.adapters.mcp import AgentTool, McpServer  # an extra

    def as_tool(found: object, name: str) -> object:
        return AgentTool(found, name) if isinstance(found, Agent) else found

    with redirect_stdout(sys.stderr):
        tools = load(options.tools, "mcp serve", convert=as_tool)
        server = McpServer(tools, approve=say_yes if options.is_yes else None)
        signal = CancelSignal()
        try:
            with presses.running(signal.cancel):
                if options.address is None:
                    await server.serve_stdio(signal)
                else:
                    await server.serve_http(*options.address, signal, _tell)
        except Cancelled as stop:
            return code_of_reason(stop.reason)
        finally:
            for made in tools:
                if isinstance(made, AgentTool):
                    await made.agent.aclose()
    return COMPLETED


def _tell(url: str) -> None:
    print(f"loopctl: serving at {url} (Ctrl-C ends)", file=sys.stderr, flush=True)
