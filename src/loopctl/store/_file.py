"""The SQLite file of a store: made on first use, never mistaken for somebody else's.

Rules: a connection lives for one transaction, so that none crosses a fork and none has to be closed by anybody; a
transaction takes the write lock before it reads, so that two callers never both find a key missing; it is on disk when
it returns (write-ahead log, synchronous=FULL).
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

from loopctl.concurrency import monotonic
from loopctl.errors import StoreError, UsageError

__all__ = ["StoreFile"]

T = TypeVar("T")

_APPLICATION = 0x6C6F6F70
"""The mark of our files: `loop`."""
_VERSION = 1
_TRY = 0.02
"""Seconds for which SQLite itself waits for a lock; then the cancel is looked at."""
_PAUSE = 0.01
_SCHEMA = """
CREATE TABLE effects (
    key TEXT PRIMARY KEY NOT NULL,
    claim INTEGER NOT NULL,
    done_by TEXT NOT NULL,
    pid INTEGER NOT NULL,
    begun_at REAL NOT NULL,
    ended_at REAL,
    result TEXT,
    fault TEXT
)
"""


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
        until = monotonic() + patience
        while True:
            check()
            try:
                return self._try(work)
            except sqlite3.Error as error:
                if not _is_busy(error):
                    raise StoreError(f"the store {self.path} cannot be used: {_explain(error)}") from error
                if monotonic() > until:
                    raise StoreError(f"the store {self.path} has been locked for {patience:g} s by another") from error
            threading.Event().wait(_PAUSE)  # some locks are refused without a wait

    def _try(self, work: Callable[[sqlite3.Connection], T]) -> T:
        if not self.path.parent.is_dir():
            raise StoreError(f"the store {self.path} cannot be made: there is no folder {self.path.parent}")
        address = f"file:{quote(os.fsencode(self.path))}?mode=rwc"
        with closing(sqlite3.connect(address, timeout=_TRY, isolation_level=None, uri=True)) as connection:
            connection.execute("BEGIN")  # one view of it: another process may be making it
            is_new = self._is_new(connection)
            connection.execute("COMMIT")
            connection.execute("PRAGMA journal_mode = WAL")
            for setting in ("synchronous = FULL", "fullfsync = ON", "checkpoint_fullfsync = ON"):
                connection.execute(f"PRAGMA {setting}")
            connection.execute("BEGIN IMMEDIATE")
            # What is left open by an exception is rolled back when the connection closes.
            if is_new and self._is_new(connection):  # another process may have been quicker
                connection.execute(_SCHEMA)
                connection.execute(f"PRAGMA application_id = {_APPLICATION}")
                connection.execute(f"PRAGMA user_version = {_VERSION}")
            result = work(connection)
            connection.execute("COMMIT")
            return result

    def _is_new(self, connection: sqlite3.Connection) -> bool:
        """Look whose file it is, before anything is changed.

        Raises:
            StoreError: It is another program's, or a newer loopctl's.
        """
        (mark,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if mark == _APPLICATION:
            if version > _VERSION:
                raise StoreError(f"the store {self.path} was written by a newer loopctl: use that one")
            return False
        if mark or version or connection.execute("SELECT 1 FROM sqlite_master").fetchone():
            raise StoreError(f"{self.path} is a database of another program, and is left as it is: give another path")
        return True


def _is_busy(error: sqlite3.Error) -> bool:
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _explain(error: sqlite3.Error) -> str:
    if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_NOTADB:
        return "it is no SQLite database, and is left as it is. Give another path"
    return str(error)
