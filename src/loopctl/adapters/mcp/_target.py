"""Where a server is: a command that starts it, or the URL that it listens at."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from loopctl.errors import UsageError

__all__ = ["Target", "read_target"]

_SHOWN = 80
"""Characters of a command in a name."""


@dataclass(frozen=True, slots=True)
class Target:
    """One server; either *argv* or *url* is empty."""

    argv: tuple[str, ...] = ()
    url: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        """Name it for a person, without what may be secret."""
        if not self.url:
            line = " ".join((self.argv[0].rpartition("/")[2], *self.argv[1:]))
            return f"`{line[:_SHOWN]}…`" if len(line) > _SHOWN else f"`{line}`"
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}{parts.path}"


def read_target(
    server: str | Sequence[str], env: Mapping[str, str] | None, cwd: str | None, headers: Mapping[str, str] | None
) -> Target:
    """Read where a server is.

    Raises:
        UsageError: That cannot be a command or a URL.
    """
    if isinstance(server, str) and server.startswith(("http://", "https://")):
        if env or cwd:
            raise UsageError(f"env= and cwd= are for a command, and {server!r} is a URL")
        return Target(url=server, headers=dict(headers or {}))
    if headers:
        raise UsageError("headers= is for a URL, and this is a command")
    try:
        argv = tuple(shlex.split(server)) if isinstance(server, str) else tuple(server)
    except ValueError as error:
        raise UsageError(f"{server!r} is no command line: {error}") from error
    if not argv or not all(isinstance(word, str) for word in argv) or not argv[0]:
        raise UsageError(f"{server!r} names no MCP server: give a command with its arguments, or a URL")
    return Target(argv, env=dict(env or {}), cwd=cwd)
