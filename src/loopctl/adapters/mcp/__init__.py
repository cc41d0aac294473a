"""The Model Context Protocol (extra `mcp`): the tools of its servers as ordinary tools, and ours for its clients.

Rules: a session of the SDK lives in a task of its own, so that none of its cancel scopes is ever around a run; a call
lives in the task of its tool call, and ends with it.
"""

from loopctl.errors import MissingExtra

try:
    from loopctl.adapters.mcp._client import McpClient
    from loopctl.adapters.mcp._server import McpServer
except ImportError as _error:
    raise MissingExtra.of("loopctl.adapters.mcp", "mcp") from _error

__all__ = ["McpClient", "McpServer"]
