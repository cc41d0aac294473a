"""Replace a file whole, or not at all.

Rules: what is written goes to a temporary file in the same folder, to disk, and then by one rename to its name; until
the rename the old file stays, whatever happens; after the end of the call that writes, nothing is renamed any more,
because a later attempt, or a person, may have written the file since.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from loopctl.errors import UsageError
from loopctl.tools._leftovers import fresh_path, lock, sweep

__all__ = ["TextForm", "replacing"]


@dataclass(frozen=True, slots=True)
class TextForm:
    """How text becomes bytes; all None for a binary file."""

    encoding: str | None = None
    newline: str | None = None


@contextmanager
def replacing(
    path: str | os.PathLike[str],
    mode: str,
    form: TextForm,
    check_open: Callable[[], None],
    dir_fd: int | None = None,
) -> Iterator[IO[Any]]:
    """Give a file to write, which takes the place of *path* when the block is left without an exception.

    Args:
        path: The file; a link is followed, and stays. With *dir_fd* one name, and a link is refused.
        mode: `w` or `wb`.
        form: How text becomes bytes.
        check_open: Raises if nothing may be replaced any more.
        dir_fd: The open folder that *path* is in, so that nothing can come between a look at the way there and the
            write; None takes *path* as it is.

    Raises:
        UsageError: *path* is something else than a file, or *mode* another one.
        OSError: It cannot be written, as with `open`.
    """
    target, is_there = _target(path, mode, dir_fd)
    folder = target.parent
    sweep(folder, dir_fd)
    # As readable as the file will be, and never more: nobody but the owner, or what the process gives new files.
    descriptor, temporary = _make(folder, 0o600 if is_there else 0o666, dir_fd)
    try:
        # Not its descriptor: what the block closes by itself is not the lock.
        with os.fdopen(descriptor, mode, encoding=form.encoding, newline=form.newline, closefd=False) as file:
            yield file
        _keep_owner_and_mode(descriptor, target, dir_fd)
        os.fsync(descriptor)
        check_open()
        os.replace(temporary, target, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
        _sync(folder, dir_fd)
    finally:
        with suppress(FileNotFoundError):  # it has got its name
            os.unlink(temporary, dir_fd=dir_fd)
        os.close(descriptor)


def _target(path: str | os.PathLike[str], mode: str, dir_fd: int | None) -> tuple[Path, bool]:
    """Find the file itself, and whether it is there."""
    if mode not in ("w", "wb"):
        raise UsageError(f"atomic_write takes mode 'w' or 'wb', not {mode!r}: it writes a file anew")
    name = os.fspath(path)
    if not name:
        raise UsageError("atomic_write takes the path of a file, not an empty one")
    target = _resolved(name) if dir_fd is None else _plain(name)
    try:
        found = os.stat(target, dir_fd=dir_fd, follow_symlinks=dir_fd is None)
    except FileNotFoundError:
        if name.endswith(os.sep):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name) from None
        return target, False
    if not stat.S_ISREG(found.st_mode):
        raise UsageError(f"{name} is not a regular file: atomic_write can only replace files")
    if not os.access(target, os.W_OK, dir_fd=dir_fd):  # a rename asks the folder only
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)
    return target, True


def _resolved(name: str) -> Path:
    target = Path(os.path.realpath(name))  # Path.resolve refuses a loop of links with an error of its own
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "there is no such folder", str(target.parent))
    return target


def _plain(name: str) -> Path:
    if os.sep in name or name in {os.curdir, os.pardir}:
        raise UsageError(f"atomic_write(dir_fd=…) takes the name of a file in that folder, not {name!r}")
    return Path(name)


def _make(folder: Path, mode: int, dir_fd: int | None) -> tuple[int, Path]:
    while True:
        path = fresh_path(folder)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode, dir_fd=dir_fd)
        if lock(descriptor, path, dir_fd):
            return descriptor, path
        os.close(descriptor)


def _keep_owner_and_mode(descriptor: int, target: Path, dir_fd: int | None) -> None:
    try:
        old = os.stat(target, dir_fd=dir_fd, follow_symlinks=False)
    except FileNotFoundError:
        return
    mode = stat.S_IMODE(old.st_mode)
    new = os.fstat(descriptor)
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        try:
            os.fchown(descriptor, old.st_uid, old.st_gid)
        except PermissionError:  # then it is ours, and must not run as the owner that it had
            mode &= ~(stat.S_ISUID | stat.S_ISGID)
    os.fchmod(descriptor, mode)


def _sync(folder: Path, dir_fd: int | None) -> None:
    """Put the rename on disk, where the file system can."""
    with suppress(OSError):  # the file is replaced; some file systems cannot do this for a folder
        descriptor = os.open(folder, os.O_RDONLY, dir_fd=dir_fd)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
