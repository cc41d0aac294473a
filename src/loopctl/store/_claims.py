"""Which claims are held by something that lives, in this process and in others.

A claim is a random number. Who holds it has locked the byte at that offset of the file beside the store, and the system
lets go of the lock however the process ends. So the dead are known without process ids, which are used again.

Rules: a claim is locked before it can be read in the store, and let go after the last word about it was written there;
the locks are those of POSIX, which belong to the process and fall when it closes *any* descriptor of the file, so the
process has one, for as long as it holds a claim there.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import threading
from contextlib import suppress
from pathlib import Path

from loopctl.cancel import CancelToken
from loopctl.errors import StoreError

__all__ = ["Claim", "find", "hold", "is_held"]

_lock = threading.RLock()  # a collection may let go of a claim in the middle of anything
_files: dict[tuple[int, int], _LockFile] = {}
_claims: dict[int, Claim] = {}


class _LockFile:
    """The one descriptor of a file of locks that this process has open."""

    def __init__(self, descriptor: int, identity: tuple[int, int]) -> None:
        self.descriptor = descriptor
        self.identity = identity
        self.users = 0

    def lock(self, number: int) -> bool:
        """Lock the byte *number*; False if another process has."""
        try:
            fcntl.lockf(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, number)
        except (BlockingIOError, PermissionError):  # the two ways in which systems say so
            return False
        return True

    def unlock(self, number: int) -> None:
        fcntl.lockf(self.descriptor, fcntl.LOCK_UN, 1, number)

    def leave(self) -> None:
        """Close it after its last user."""
        self.users -= 1
        if not self.users:
            _files.pop(self.identity, None)
            os.close(self.descriptor)


class Claim:
    """One claim that this process holds."""

    __slots__ = ("_file", "number", "token")

    def __init__(self, file: _LockFile, token: CancelToken) -> None:
        """Hold a fresh number in *file* for a call whose cancel is *token*."""
        self._file: _LockFile | None = file
        self.number: int = secrets.randbits(62)
        self.token = token

    def is_in(self, file: _LockFile) -> bool:
        """Say whether *file* is where it is held: a copy of a store has the same numbers."""
        return self._file is file

    def let_go(self) -> None:
        """Hold it no more; again changes nothing."""
        with _lock:
            file, self._file = self._file, None
            if file is not None and _claims.pop(self.number, None) is not None:
                file.unlock(self.number)
                file.leave()


def hold(path: Path, token: CancelToken) -> Claim:
    """Take a fresh claim.

    Args:
        path: The file of locks.
        token: The cancel of who takes it.

    Raises:
        StoreError: The file cannot be locked.
    """
    with _lock:
        file = _enter(path)
        claim = Claim(file, token)
        _claims[claim.number] = claim
        try:
            file.lock(claim.number)
        except OSError as error:
            _claims.pop(claim.number)
            file.leave()
            raise StoreError(f"{path} cannot be locked: {error}. A store needs a local disk") from error
        return claim


def find(number: int) -> Claim | None:
    """Give the claim *number* if this process holds it."""
    return _claims.get(number)


def is_held(path: Path, number: int) -> bool:
    """Say whether anything that lives holds the claim *number*, in this process or in another."""
    if not path.exists():
        return False  # who holds one has made it
    with _lock:
        file = _enter(path)
        try:
            claim = _claims.get(number)
            if claim is not None and claim.is_in(file):
                return True
            if not file.lock(number):
                return True
            file.unlock(number)
            return False
        finally:
            file.leave()


def _enter(path: Path) -> _LockFile:
    """Use the descriptor that is open, or open one."""
    try:
        file = _files.get(_identity(path.stat())) if path.exists() else None
        if file is None:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
            file = _files.setdefault(identity := _identity(os.fstat(descriptor)), _LockFile(descriptor, identity))
    except OSError as error:
        raise StoreError(f"{path} cannot be opened: {error}") from error
    file.users += 1
    return file


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def _forget() -> None:
    """In a fork: the claims, and the locks, are the parent's."""
    global _lock  # noqa: PLW0603 - another thread of the parent may have held it
    _lock = threading.RLock()
    _claims.clear()
    for file in _files.values():
        with suppress(OSError):
            os.close(file.descriptor)
    _files.clear()


os.register_at_fork(after_in_child=_forget)
