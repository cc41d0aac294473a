"""The built-in tools as a list, for one workspace."""

from __future__ import annotations

import os
from collections.abc import Iterable

from loopctl.builtin._command import Running
from loopctl.builtin._fetch import Fetching
from loopctl.builtin._reading import Reading
from loopctl.builtin._search import Searching
from loopctl.builtin._workspace import Workspace
from loopctl.builtin._writing import Writing
from loopctl.errors import UsageError
from loopctl.tools import Tool, tool

__all__ = ["builtin_tools", "make_tools"]

_FETCH_SECONDS = 60.0


def builtin_tools(
    workspace: str | os.PathLike[str] = ".", names: Iterable[str] | None = None, *, private_addresses: bool = False
) -> list[Tool]:
    """Make the built-in tools for one folder.

    Args:
        workspace: The folder that the file tools are confined to, and that commands begin in.
        names: Which; None is all: read_file, list_dir, search, write_file, edit_file, run_command, fetch_url.
        private_addresses: Let fetch_url go to this machine and its network, too.

    Returns:
        The tools. The last four need a yes: give the agent an `approve`.

    Raises:
        UsageError: The workspace is no folder, or a name is none of them.
        MissingExtra: fetch_url is wanted, and there is no HTTP client: the extra `fetch`.
        LoopError: The system cannot confine them, as Windows.
    """
    every = make_tools(Workspace(workspace), Fetching(private_addresses=private_addresses))
    wanted = list(every) if names is None else list(dict.fromkeys(names))
    unknown = [name for name in wanted if name not in every]
    if unknown:
        raise UsageError(f"there is no built-in tool {unknown[0]!r}: there are {', '.join(every)}.")
    if "fetch_url" in wanted:
        Fetching.check()
    return [every[name] for name in wanted]


def make_tools(workspace: Workspace, fetching: Fetching) -> dict[str, Tool]:
    """Give all of them by their names."""
    reading, writing = Reading(workspace), Writing(workspace)
    tools: list[Tool] = [
        tool(reading.read_file, read_only=True, parallel=True),
        tool(reading.list_dir, read_only=True, parallel=True),
        tool(Searching(workspace).search, read_only=True, parallel=True),
        tool(writing.write_file, approval=True),
        tool(writing.edit_file, approval=True),
        tool(Running(workspace).run_command, approval=True),
        tool(fetching.fetch_url, approval=True, parallel=True, timeout=_FETCH_SECONDS),
    ]
    return {made.name: made for made in tools}
