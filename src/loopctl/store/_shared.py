"""The file as the sessions of this process write to it: on one thread, and through one connection while one is open.

Rules: what is owed is written in its order, all of it in one transaction, so that many sessions wait for the disk
together; the connection is used on the thread of the file only; after an error, and if another file has taken the place
of the one that it has open, there is a new one; a fork uses none of its parent's.
"""

from __future__ import annotations

import functools
import os
import sqlite3
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from loopctl.concurrency import Lane, describe
from loopctl.errors import StoreError
from loopctl.store._file import StoreFile

__all__ = ["Debt", "SharedFile"]

_files: weakref.WeakValueDictionary[str, SharedFile] = weakref.WeakValueDictionary()
_of_the_parent: list[sqlite3.Connection] = []
"""Closed in a fork, they might take the write-ahead log away from the parent."""


class Debt:
    """Something that is to be written."""

    __slots__ = ("error", "step")

    def __init__(self, step: Callable[[sqlite3.Connection], object]) -> None:
        """Owe *step*, which may be done again, after a transaction that left no trace."""
        self.step = step
        self.error: StoreError | None = None
        """Why it never can be written."""

    def pay(self, connection: sqlite3.Connection) -> None:
        """Write it.

        Raises:
            StoreError: It cannot be written, whatever the state of the file; `error` is that.
        """
        try:
            self.step(connection)
        except (TypeError, ValueError, RecursionError, RuntimeError) as error:
            self.error = StoreError(f"what is to be written has no JSON form: {describe(error)}")
            raise self.error from error


class SharedFile(StoreFile):
    """One file, for all sessions of this process; everything but `of` is called on its lane."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Remember the path; see `of`."""
        super().__init__(path)
        self.lane = Lane("loopctl store")
        self.debts: list[Debt] = []
        """What is owed, in its order; added to on any thread, paid on the lane."""
        self._users = 0
        self._kept: sqlite3.Connection | None = None
        self._identity: tuple[int, int] | None = None

    @classmethod
    def of(cls, path: str | os.PathLike[str]) -> SharedFile:
        """Give the one of this process.

        Raises:
            UsageError: *path* is none.
        """
        file = cls(path)
        return _files.setdefault(str(file.path), file)

    def pay(self, check: Callable[[], None], patience: float) -> None:
        """Write everything that is owed; what never can be written is dropped.

        Args:
            check: As of `transact`.
            patience: As of `transact`.

        Raises:
            StoreError: The file cannot be used, and all is owed on.
        """
        while self.debts:
            debts = tuple(self.debts)
            try:
                self.transact(functools.partial(_pay, debts), check, patience)
            except StoreError:
                if not any(debt.error for debt in debts):
                    raise
            else:
                del self.debts[: len(debts)]
            self.debts[:] = [debt for debt in self.debts if debt.error is None]

    def enter(self) -> None:
        """Keep the connection from now on, until as many have left."""
        self._users += 1

    def leave(self) -> None:
        """Keep it no longer, if nobody else needs it."""
        self._users -= 1
        if self._users <= 0:
            self._drop()

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        if self._kept is not None and self._identity != self._found():
            self._drop()
        connection = self._kept
        if connection is None:
            connection = self._connect()
        try:
            if self._kept is None:
                self._set_up(connection)
                self._kept, self._identity = connection, self._found()
            yield connection
        except BaseException:
            self._kept = None
            connection.close()
            raise
        if self._users <= 0:
            self._drop()

    def _found(self) -> tuple[int, int] | None:
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def _drop(self) -> None:
        connection, self._kept = self._kept, None
        if connection is not None:
            connection.close()

    def _forget(self) -> None:
        if self._kept is not None:
            _of_the_parent.append(self._kept)
        self._users, self._kept = 0, None
        self.debts.clear()


def _pay(debts: Iterable[Debt], connection: sqlite3.Connection) -> None:
    for debt in debts:
        debt.pay(connection)


def _forget_all() -> None:
    for file in _files.values():
        file._forget()


os.register_at_fork(after_in_child=_forget_all)
