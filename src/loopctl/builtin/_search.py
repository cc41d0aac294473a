"""The tool that finds text in the files of a workspace: `search`.

Rules: it changes nothing, follows no link, and polls for a stop at each folder, file and portion. It looks for text and
not for a pattern, because a regular expression can hold the interpreter for hours, and nothing could stop it then.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import closing
from fnmatch import fnmatchcase

from loopctl.builtin._text import read_text
from loopctl.builtin._workspace import Place, Workspace, open_file
from loopctl.errors import ToolError
from loopctl.tools import TEMPORARY_PREFIX, ToolContext

__all__ = ["Searching"]

_SKIPPED = frozenset({".git", ".hg", ".svn", ".venv", "__pycache__", "node_modules"})
_HITS = 200
_FILES = 50_000
_DEPTH = 40
_LARGEST = 2_000_000
_LINE = 300


class Searching:
    """Searches one workspace."""

    def __init__(self, workspace: Workspace) -> None:
        """Search *workspace*."""
        self._workspace = workspace

    def search(
        self, ctx: ToolContext, text: str = "", path: str = ".", files: str = "*", *, ignore_case: bool = False
    ) -> str:
        """Find lines that contain a text, in the text files below a folder of the workspace: path:line: the line.

        The text is taken literally, not as a pattern. Without a text, it lists the files themselves. Links, binary and
        very large files, and folders like .git and node_modules are left out.

        Args:
            text: What to find, within one line; empty lists files.
            path: The folder to look in, relative to the workspace.
            files: Which files, by a pattern of their name or path, as *.py or docs/*.md.
            ignore_case: Take upper and lower case as the same.
        """
        if "\n" in text:
            raise ToolError("search looks within single lines: give a text without a line break.")
        found = _Found()
        wanted = text.casefold() if ignore_case else text
        with self._workspace.folder(path) as top, closing(_walk(top, self._workspace.shown(path), ctx)) as places:
            for place in places:
                ctx.signal.raise_if_cancelled()
                found.seen += 1
                if fnmatchcase(place.name, files) or fnmatchcase(place.shown, files):
                    found.look(place, wanted, ctx, ignore_case=ignore_case)
                if found.is_full:
                    break
        return found.told(wanted)


class _Found:
    """What was found so far."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._searched = 0
        self.seen = 0
        """Files that were come by, of any name."""
        self._left_out = 0

    @property
    def is_full(self) -> bool:
        return len(self._lines) >= _HITS or self.seen >= _FILES

    def look(self, place: Place, wanted: str, ctx: ToolContext, *, ignore_case: bool) -> None:
        """Look into the file at *place*."""
        if not wanted:
            self._searched += 1
            self._lines.append(place.shown)
            return
        try:
            with open_file(place) as file:
                if os.fstat(file.fileno()).st_size > _LARGEST:
                    raise ToolError("too large")
                content = read_text(file, place.shown, ctx)
        except ToolError:
            self._left_out += 1
            return
        self._searched += 1
        if wanted not in (content.casefold() if ignore_case else content):
            return
        for number, line in enumerate(content.splitlines(), 1):
            if wanted in (line.casefold() if ignore_case else line):
                cut = "…" if len(line) > _LINE else ""
                self._lines.append(f"{place.shown}:{number}: {line[:_LINE]}{cut}")
                if len(self._lines) >= _HITS:
                    return

    def told(self, wanted: str) -> str:
        """Say what was found, and what was not looked at."""
        lines = self._lines or ["nothing found"]
        if self.is_full:
            lines.append("[there may be more: give a longer text, or a narrower path or files]")
        if wanted:
            left_out = f"; {self._left_out} left out (too large, no text, not readable)" if self._left_out else ""
            lines.append(f"[{self._searched} files searched{left_out}]")
        return "\n".join(lines)


def _walk(top: int, shown: str, ctx: ToolContext) -> Generator[Place]:
    """Give each file below the open folder *top*, in order; `fwalk` makes sure that no folder is entered by a link."""
    before = "" if shown == "." else f"{shown}/"
    for way, folders, names, descriptor in os.fwalk(".", dir_fd=top, follow_symlinks=False):
        ctx.signal.raise_if_cancelled()
        below = way.removeprefix(".").removeprefix("/")
        is_deep = below.count("/") >= _DEPTH
        folders[:] = [] if is_deep else sorted(folder for folder in folders if folder not in _SKIPPED)
        for name in sorted(names):
            if not name.startswith(TEMPORARY_PREFIX):
                yield Place(descriptor, name, f"{before}{below}/{name}" if below else f"{before}{name}")
