"""Temporary files and folders with a mark of our own, and what the dead left of them.

Rules: whoever makes one holds a lock on it until it is renamed or removed, and the system lets go of the lock however
the owner ends, by `kill -9` too; a sweep removes what it can lock. So nothing is guessed from names, ages or process
ids, which are used again.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import stat
from contextlib import suppress
from pathlib import Path

__all__ = ["TEMPORARY_PREFIX", "fresh_path", "lock", "sweep"]

TEMPORARY_PREFIX = ".loopctl-tmp-"
"""How the names of temporary files and folders begin."""


def fresh_path(folder: Path) -> Path:
    """Give a path in *folder* that nothing has."""
    return folder / f"{TEMPORARY_PREFIX}{secrets.token_hex(8)}"


def lock(descriptor: int, path: Path, dir_fd: int | None = None) -> bool:
    """Hold what was just made at *path*, as long as *descriptor* is open.

    Args:
        descriptor: What was made, open.
        path: Where; in the open folder *dir_fd*, if that is given.
        dir_fd: See *path*.

    Returns:
        False if a sweep was quicker and has removed it: make another one.
    """
    with suppress(OSError):  # a file system without locks: then no sweep can lock it, and it is never removed by one
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        os.stat(path, dir_fd=dir_fd, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def sweep(folder: Path, dir_fd: int | None = None) -> None:
    """Remove what the dead have left in *folder*, or in the open folder *dir_fd*; what cannot be removed stays."""
    with suppress(OSError):
        with os.scandir(folder if dir_fd is None else dir_fd) as entries:
            marked = [Path(entry.path) for entry in entries if entry.name.startswith(TEMPORARY_PREFIX)]
        for path in marked:
            with suppress(OSError):  # its owner lives, or it is not ours
                _remove(path, dir_fd)


def _remove(path: Path, dir_fd: int | None) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=dir_fd)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        found = os.fstat(descriptor)
        if found.st_uid != os.geteuid():  # the administrator can lock everybody's
            return
        if stat.S_ISDIR(found.st_mode):
            shutil.rmtree(path, ignore_errors=True, dir_fd=dir_fd)
        else:
            os.unlink(path, dir_fd=dir_fd)
    finally:
        os.close(descriptor)
