"""The tools that change files: `write_file` and `edit_file`.

Rules: a file is replaced whole or not at all, in the folder that was opened, whatever happens meanwhile; said twice, it
is done once, so that a call whose effect is unknown can be made again.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress

from loopctl.builtin._text import LARGEST, read_text
from loopctl.builtin._workspace import Place, Workspace, open_file
from loopctl.errors import ToolError
from loopctl.tools import ToolContext

__all__ = ["Writing"]

_NAMED = 5
"""Lines that are named where a text is found more than once."""


class Writing:
    """Changes the files of one workspace."""

    def __init__(self, workspace: Workspace) -> None:
        """Change files of *workspace*."""
        self._workspace = workspace

    def write_file(self, path: str, content: str, ctx: ToolContext) -> str:
        """Write a text file of the workspace, new or in the place of the one that is there. The folder must be there.

        To change a part of a file, use edit_file.

        Args:
            path: The file, relative to the workspace.
            content: All of its new text.
        """
        with self._workspace.place(path) as place:
            _replace(place, content, ctx)
        return f"wrote {place.shown}: {len(content.splitlines())} lines"

    def edit_file(self, path: str, old: str, new: str, ctx: ToolContext) -> str:
        """Replace one text in a file of the workspace by another.

        The old text must be in the file exactly once, with the same spaces and line breaks: give as much of what is
        around it as makes it unique.

        Args:
            path: The file, relative to the workspace.
            old: The text to replace, as read_file shows it.
            new: What comes in its place; empty deletes it.
        """
        if not old:
            raise ToolError("old is empty: give the text to replace. write_file writes a new file.")
        if old == new:
            raise ToolError("old and new are the same: there is nothing to change.")
        with self._workspace.place(path) as place:
            with open_file(place) as file:
                text = read_text(file, place.shown, ctx)
            old, new = _with_line_ends_of(text, old, new)
            if _is_done(text, old, new):
                return f"{place.shown} is so already: nothing was changed"
            _check_unique(text, old, place.shown)
            _replace(place, text.replace(old, new), ctx)
        line = text[: text.index(old)].count("\n") + 1
        return f"edited {place.shown} at line {line}"


def _replace(place: Place, content: str, ctx: ToolContext) -> None:
    try:
        encoded = content.encode()
    except UnicodeEncodeError as error:
        raise ToolError(f"the text for {place.shown} has half a character in it (a lone surrogate).") from error
    if len(encoded) > LARGEST:
        raise ToolError(f"the text for {place.shown} is longer than {LARGEST:,} bytes: too long for this tool.")
    try:
        _check_regular(place)
        with ctx.atomic_write(place.name, "wb", dir_fd=place.folder) as file:
            file.write(encoded)
    except OSError as error:
        raise ToolError(
            f"{place.shown} cannot be written: {error.strerror or os.strerror(error.errno or 0)}."
        ) from error


def _check_regular(place: Place) -> None:
    """Say it in words for a model; `atomic_write` itself replaces nothing else either."""
    with suppress(FileNotFoundError):
        mode = os.stat(place.name, dir_fd=place.folder, follow_symlinks=False).st_mode
        if not stat.S_ISREG(mode):
            kind = "a folder" if stat.S_ISDIR(mode) else "a link" if stat.S_ISLNK(mode) else "no regular file"
            raise ToolError(f"{place.shown} is {kind}: only files are written, and not through links.")


def _with_line_ends_of(text: str, old: str, new: str) -> tuple[str, str]:
    """Give *old* and *new* the line ends of *text*, which a model does not see."""
    is_mixed = text.count("\n") != text.count("\r\n")
    if "\r\n" not in text or (is_mixed and old in text):
        return old, new
    return _with_returns(old), _with_returns(new)


def _with_returns(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")


def _is_done(text: str, old: str, new: str) -> bool:
    """True if *new* is there, and *old* nowhere but in it."""
    return bool(new) and new in text and old not in text.replace(new, "\0")


def _check_unique(text: str, old: str, shown: str) -> None:
    count = text.count(old)
    if count == 1:
        return
    if not count:
        raise ToolError(
            f"the old text is not in {shown}. It must fit exactly, spaces and line breaks too: read_file shows it."
        )
    lines: list[str] = []
    at = -1
    while len(lines) < _NAMED and (at := text.find(old, at + 1)) >= 0:
        lines.append(str(text.count("\n", 0, at) + 1))
    more = ", …" if count > _NAMED else ""
    raise ToolError(
        f"the old text is {count} times in {shown} (lines {', '.join(lines)}{more}), and must be there once: give more"
        " of what is around it."
    )
