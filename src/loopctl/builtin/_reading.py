"""The tools that look: `read_file` and `list_dir`.

Rules: they change nothing; each poll for a stop is at most one portion of a file or one entry of a folder away.
"""

from __future__ import annotations

import heapq
import os
import stat
from collections.abc import Iterator

from loopctl.builtin._text import SHOWN, read_text
from loopctl.builtin._workspace import Workspace
from loopctl.errors import ToolError
from loopctl.tools import TEMPORARY_PREFIX, ToolContext

__all__ = ["Reading"]

_ENTRIES = 1000
_LINES = 2000


class Reading:
    """Looks into one workspace."""

    def __init__(self, workspace: Workspace) -> None:
        """Look into *workspace*."""
        self._workspace = workspace

    def read_file(self, path: str, ctx: ToolContext, first_line: int = 1, lines: int = _LINES) -> str:
        """Read a text file of the workspace, or some of its lines.

        The text comes as it is, without line numbers. If not all of it is given, the last line says how to go on.

        Args:
            path: The file, relative to the workspace.
            first_line: The line to begin with, from 1.
            lines: How many lines, at most 2000.
        """
        if first_line < 1 or lines < 1:
            raise ToolError("first_line and lines are whole numbers from 1 on.")
        with self._workspace.file(path) as file:
            text = read_text(file, self._workspace.shown(path), ctx)
        every = text.replace("\r\n", "\n").splitlines(keepends=True)
        if first_line > max(1, len(every)):
            raise ToolError(f"{path} has {len(every)} lines: there is no line {first_line}.")
        return _part(every, first_line - 1, min(lines, _LINES))

    def list_dir(self, ctx: ToolContext, path: str = ".") -> str:
        """List a folder of the workspace: one entry a line, folders with a slash at the end, files with their size.

        Args:
            path: The folder, relative to the workspace.
        """
        count = 0

        def names(folder: int) -> Iterator[str]:
            nonlocal count
            with os.scandir(folder) as entries:
                for entry in entries:
                    ctx.signal.raise_if_cancelled()
                    if not entry.name.startswith(TEMPORARY_PREFIX):
                        count += 1
                        yield entry.name

        with self._workspace.folder(path) as folder:
            shown = heapq.nsmallest(_ENTRIES, names(folder))
            lines = [_described(name, folder) for name in shown]
        if count > len(shown):
            lines.append(f"[… {count - len(shown):,} more left out; search finds them by name …]")
        return "\n".join(lines) or "[empty]"


def _part(every: list[str], first: int, count: int) -> str:
    """Give up to *count* lines from index *first* on, as many as fit, and how to go on."""
    room, last = SHOWN, first
    while last < min(len(every), first + count) and room >= len(every[last]):
        room -= len(every[last])
        last += 1
    if last == first < len(every):  # one line that is longer than everything that can be shown
        cut = every[first][:SHOWN]
        last, part = first + 1, f"{cut}\n[… {len(every[first]) - len(cut):,} characters of this line left out …]\n"
    else:
        part = "".join(every[first:last])
    if last == len(every):
        return part
    end = "" if part.endswith("\n") else "\n"
    return f"{part}{end}[lines {first + 1} to {last} of {len(every)}; go on with first_line={last + 1}]"


def _described(name: str, folder: int) -> str:
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:  # it went away meanwhile, or cannot be seen
        return name
    if stat.S_ISDIR(found.st_mode):
        return f"{name}/"
    if stat.S_ISLNK(found.st_mode):
        return f"{name} (a link, not followed)"
    return f"{name}  {found.st_size:,} bytes" if stat.S_ISREG(found.st_mode) else f"{name} (no regular file)"
