"""The folder that the file tools may touch, and the only way into it.

Rules: each step of a way is opened by itself, relative to the folder before it, and never through a link; so nothing
that is changed between a look and the use leads outside. What a way leads to is opened once, and only the open thing is
used. What this cannot see: a hard link to a file outside, a mounted file system, and somebody who moves a folder out of
the workspace while it is open.
"""

from __future__ import annotations

import errno
import os
import posixpath
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from loopctl.errors import LoopError, ToolError, UsageError

__all__ = ["Place", "Workspace"]

_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
_FILE = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)  # a pipe is refused, not waited for


@dataclass(frozen=True, slots=True)
class Place:
    """One name in an open folder of the workspace."""

    folder: int
    """The descriptor of the folder; open as long as the `with` that gave it."""
    name: str
    shown: str
    """The way from the workspace, for texts."""


class Workspace:
    """A folder, and what is below it."""

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        """Take *folder*; None means, at each use, the folder that the process is in.

        Raises:
            UsageError: It is no folder.
            LoopError: The system has no way to open files relative to a folder, as Windows.
        """
        if os.open not in os.supports_dir_fd:
            raise LoopError("the built-in tools need a system that opens files relative to a folder: this one does not")
        self._folder = None if folder is None else Path(folder).expanduser().resolve()
        if self._folder is not None and not self._folder.is_dir():
            raise UsageError(f"the workspace {os.fspath(self._folder)} is no folder: make it, or name another one")

    @property
    def path(self) -> Path:
        """The folder, as an absolute path without links."""
        return Path.cwd() if self._folder is None else self._folder

    @contextmanager
    def folder(self, way: str) -> Iterator[int]:
        """Open the folder at *way*, for the length of a `with`.

        Raises:
            ToolError: *way* leads outside, through a link, or to no folder.
        """
        steps = self._steps(way)
        descriptor = self._open(steps)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    @contextmanager
    def place(self, way: str) -> Iterator[Place]:
        """Open the folder that *way* ends in; its last step need not be there.

        Raises:
            ToolError: As for `folder`.
        """
        steps = self._steps(way)
        if not steps:
            raise ToolError(f"{way!r} is a folder: name a file in it.")
        descriptor = self._open(steps[:-1])
        try:
            yield Place(descriptor, steps[-1], "/".join(steps))
        finally:
            os.close(descriptor)

    @contextmanager
    def file(self, way: str) -> Iterator[BinaryIO]:
        """Open the file at *way* for reading.

        Raises:
            ToolError: As for `folder`, or it is no regular file.
        """
        with self.place(way) as place, open_file(place) as file:
            yield file

    def shown(self, way: str) -> str:
        """Give *way* in its shortest form, from the workspace.

        Raises:
            ToolError: It leads outside.
        """
        return "/".join(self._steps(way)) or "."

    def _steps(self, way: str) -> list[str]:
        """Take *way* apart; `..` is taken as written, which is safe because no link is followed."""
        if "\0" in way:
            raise ToolError(f"{way!r} is no path: it holds a zero.")
        plain = posixpath.normpath(way) if way else "."
        if plain.startswith("/"):
            root = os.fspath(self.path)
            plain = posixpath.relpath(plain.replace("//", "/", 1), root)
        steps = [step for step in plain.split("/") if step != "."]
        if steps[:1] == [".."]:
            raise ToolError(f"{way!r} is outside of the workspace. Give a path inside of it, relative to {self.path}.")
        return steps

    def _open(self, steps: list[str]) -> int:
        descriptor = os.open(self.path, _FOLDER)
        for depth, step in enumerate(steps, 1):
            try:
                inner = os.open(step, _FOLDER, dir_fd=descriptor)
            except OSError as error:
                shown = "/".join(steps[:depth])
                raise ToolError(_why(error, step, descriptor, shown, "folder")) from error
            finally:
                os.close(descriptor)
            descriptor = inner
        return descriptor


@contextmanager
def open_file(place: Place) -> Iterator[BinaryIO]:
    """Open the file at *place* for reading.

    Raises:
        ToolError: It is not there, a link, no regular file, or not readable.
    """
    try:
        descriptor = os.open(place.name, _FILE, dir_fd=place.folder)
    except OSError as error:
        raise ToolError(_why(error, place.name, place.folder, place.shown, "file")) from error
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):  # asked first: Python opens no folder
            raise ToolError(f"{place.shown} is a folder. list_dir shows what is in it.")
        if not stat.S_ISREG(mode):
            raise ToolError(f"{place.shown} is not a regular file, and is left alone.")
        with open(descriptor, "rb", closefd=False) as file:
            yield file
    finally:
        os.close(descriptor)


def _why(error: OSError, name: str, folder: int, shown: str, wanted: str) -> str:
    """Say why *name* could not be opened, and what to do."""
    if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.EMLINK) and _is_link(name, folder):
        return (
            f"{shown} is a link, and links are not followed. Give the path of what it leads to, inside the workspace."
        )
    if error.errno == errno.ENOENT:
        return f"there is no {wanted} {shown} in the workspace. list_dir shows what is there."
    if error.errno == errno.ENOTDIR:
        return f"{shown} is a file, not a folder."
    return f"the {wanted} {shown} cannot be opened: {error.strerror}."


def _is_link(name: str, folder: int) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:
        return False
