"""The SQLite file of a store: made on first use, never mistaken for somebody else's.

Rules: a connection lives for one transaction, so that none crosses a fork and none has to be closed by anybody (but
see `SharedFile`); a transaction takes the write lock before it reads, so that two callers never both find a key
missing; it is on disk when it returns (write-ahead log, synchronous=FULL).
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

from loopctl.concurrency import monotonic
from loopctl.errors import StoreError, UsageError
from loopctl.store._schema import APPLICATION, VERSION, migrate

__all__ = ["StoreFile"]

T = TypeVar("T")

_TRY = 0.02
"""Seconds for which SQLite itself waits for a lock; then the cancel is looked at."""
_PAUSE = 0.01


class StoreFile:
    """One file, by its path; nothing is opened between transactions."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Remember the path as it is now.

        Raises:
            UsageError: *path* is none.
        """
        given: object = path
        if not isinstance(given, str | os.PathLike) or not isinstance(name := os.fspath(given), str) or not name:
            raise UsageError(f"a store is the path of a file, not {given!r}")
        if name.startswith((":memory:", "file:")):
            raise UsageError(f"a store has to outlive its process: give the path of a file, not {name!r}")
        try:
            self.path: Path = Path(os.path.realpath(name))  # both names of a linked file are one store
        except (OSError, ValueError) as error:  # the folder that we are in is gone; or no file can have that name
            raise UsageError(f"a store is the path of a file, not {name!r}: {error}") from error
        self.holders: Path = self.path.with_name(f"{self.path.name}-holders")
        """Whose locks say which claims are held by a process that lives."""

    def transact(
        self, work: Callable[[sqlite3.Connection], T], check: Callable[[], None] = lambda: None, patience: float = 30.0
    ) -> T:
        """Do *work* in a transaction, in which nobody else writes.

        Args:
            work: May be done again, after one that left no trace.
            check: Called before each try; raises to give up.
            patience: Seconds for which others may hold the lock.

        Raises:
            StoreError: The file cannot be used; it is named.
        """
        return self._patiently(lambda: self._try(work), check, patience)

    def read(self, work: Callable[[sqlite3.Connection], T]) -> T | None:
        """Do *work*, which changes nothing, on one view of the file, while others may write; None if there is no file.

        Raises:
            StoreError: The file cannot be used; it is named.
        """
        if not self.path.exists():
            return None
        if not self._patiently(self._is_current):
            self.transact(lambda _: None)  # which brings the tables up to date
        return self._patiently(lambda: self._look(work))

    def _patiently(
        self, attempt: Callable[[], T], check: Callable[[], None] = lambda: None, patience: float = 30.0
    ) -> T:
        until = monotonic() + patience
        while True:
            check()
            try:
                return attempt()
            except sqlite3.Error as error:
                if not _is_busy(error):
                    raise StoreError(f"the store {self.path} cannot be used: {_explain(error)}") from error
                if monotonic() > until:
                    raise StoreError(f"the store {self.path} has been locked for {patience:g} s by another") from error
            threading.Event().wait(_PAUSE)  # some locks are refused without a wait

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        """Give a connection for one transaction."""
        with closing(self._connect()) as connection:
            self._set_up(connection)
            yield connection

    def _connect(self) -> sqlite3.Connection:
        if not self.path.parent.is_dir():
            raise StoreError(f"the store {self.path} cannot be made: there is no folder {self.path.parent}")
        address = f"file:{quote(os.fsencode(self.path))}?mode=rwc"
        return sqlite3.connect(address, timeout=_TRY, isolation_level=None, uri=True, check_same_thread=False)

    def _set_up(self, connection: sqlite3.Connection) -> None:
        connection.execute("BEGIN")  # one view of it: another process may be making it
        self._version(connection)
        connection.execute("COMMIT")
        connection.execute("PRAGMA journal_mode = WAL")
        for setting in ("synchronous = FULL", "fullfsync = ON", "checkpoint_fullfsync = ON"):
            connection.execute(f"PRAGMA {setting}")

    def _try(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            # What is left open by an exception is rolled back when the connection closes.
            if (version := self._version(connection)) < VERSION:  # another process may have been quicker
                migrate(connection, version)
            result = work(connection)
            connection.execute("COMMIT")
            return result

    def _look(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with closing(self._connect()) as connection:
            connection.execute("BEGIN")
            return work(connection)

    def _is_current(self) -> bool:
        return self._look(self._version) == VERSION

    def _version(self, connection: sqlite3.Connection) -> int:
        """Look whose file it is, before anything is changed, and give the version of its tables; 0 if it is new.

        Raises:
            StoreError: It is another program's, or a newer loopctl's.
        """
        (mark,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if mark == APPLICATION:
            if version > VERSION:
                raise StoreError(f"the store {self.path} was written by a newer loopctl: use that one")
            return int(version)
        if mark or version or connection.execute("SELECT 1 FROM sqlite_master").fetchone():
            raise StoreError(f"{self.path} is a database of another program, and is left as it is: give another path")
        return 0


def _is_busy(error: sqlite3.Error) -> bool:
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


_NEXT_MOVES = {
    sqlite3.SQLITE_NOTADB: "it is no SQLite database, and is left as it is. Give another path",
    sqlite3.SQLITE_FULL: "the disk is full. Make room: what is not stored yet is written with the next run",
    sqlite3.SQLITE_READONLY: "it cannot be written. Make it and its folder writable, or give another path",
    sqlite3.SQLITE_CANTOPEN: "unable to open it. It has to be a file that can be written, in a folder that can",
    sqlite3.SQLITE_CORRUPT: "it is damaged. Move it away, with what is beside it, and put a copy in its place",
    sqlite3.SQLITE_IOERR: "the disk fails it. Look at the disk, or give a path on a local one",
}


def _explain(error: sqlite3.Error) -> str:
    code: int = getattr(error, "sqlite_errorcode", 0)
    move = _NEXT_MOVES.get(code & 0xFF)
    return str(error) if move is None else f"{move} (SQLite: {error})"
