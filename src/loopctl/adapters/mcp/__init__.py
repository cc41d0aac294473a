"""The Model Context Protocol (extra `mcp`): the tools of its servers as ordinary tools, and ours for its clients.

Rules: a session of the SDK lives in a task of its own, so that none of its cancel scopes is ever around a run; a call
lives in the task of its tool call, and ends with it.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from loopctl.errors import MissingExtra

if TYPE_CHECKING:
    from loopctl.adapters.mcp._agent_tool import AgentTool
    from loopctl.adapters.mcp._client import McpClient
    from loopctl.adapters.mcp._server import McpServer

__all__ = ["AgentTool", "McpClient", "McpServer"]

_HOMES = {"AgentTool": "_agent_tool", "McpClient": "_client", "McpServer": "_server"}
"""Where the names are: who connects to servers needs no web server, which loads slowly."""


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    try:
        home = import_module(f"{__name__}.{_HOMES[name]}")
    except ImportError as error:
        raise MissingExtra.of("loopctl.adapters.mcp", "mcp") from error
    value: object = getattr(home, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__]
