"""The effects in the store, as rows: what is written of them, and how a result becomes text and back."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass
from typing import Any, Literal

from pydantic_core import to_jsonable_python

from loopctl.errors import UsageError

__all__ = ["Effect", "Row", "delete", "encode", "finish", "insert", "read", "read_unfinished"]

_COLUMNS = "key, claim, done_by, pid, begun_at, ended_at, result, fault"


@dataclass(frozen=True, slots=True)
class Effect:
    """What a ledger knows of one key."""

    key: str
    state: Literal["done", "in_progress", "unknown"]
    """`in_progress`: by something that lives. `unknown`: begun, and never recorded as done."""
    result: Any
    """What it gave, if it is done."""
    by: str
    """The tool and the call that began it."""
    pid: int
    """The process that began it."""
    begun_at: float
    """Epoch seconds."""
    ended_at: float | None
    """Epoch seconds; None until it is done."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row; it is written when the effect is about to begin."""

    key: str
    claim: int
    """Whose it is."""
    by: str
    pid: int
    begun_at: float
    ended_at: float | None = None
    result: str | None = None
    """As JSON."""
    fault: str | None = None
    """Why there is no result, if there could be none."""

    @property
    def is_done(self) -> bool:
        return self.ended_at is not None

    def value(self) -> Any:
        """Give the recorded result.

        Raises:
            UsageError: It could not be recorded.
        """
        if self.fault is not None:
            raise UsageError(self.fault)
        return None if self.result is None else json.loads(self.result)

    def effect(self, state: Literal["done", "in_progress", "unknown"]) -> Effect:
        result = json.loads(self.result) if self.result is not None else None
        return Effect(self.key, state, result, self.by, self.pid, self.begun_at, self.ended_at)


def encode(key: str, value: object) -> tuple[str | None, str | None]:
    """Give the JSON of *value*, or why it has none."""
    try:
        if isinstance(value, bytes | bytearray | memoryview):
            raise TypeError("bytes are no JSON")
        return json.dumps(to_jsonable_python(value)), None
    except Exception as error:  # serialisers and properties of the value's own type run here
        return None, (
            f"{key!r} is done and will not be done again, but its result cannot be kept: {type(value).__name__} has no"
            f" JSON form ({error}). Let the function return what JSON can hold."
        )


def read(connection: sqlite3.Connection, key: str) -> Row | None:
    """Give the row of *key*."""
    found = connection.execute(f"SELECT {_COLUMNS} FROM effects WHERE key = ?", (key,)).fetchone()  # noqa: S608 - names
    return None if found is None else Row(*found)


def read_unfinished(connection: sqlite3.Connection) -> list[Row]:
    """Give the rows that are not done, oldest first."""
    query = f"SELECT {_COLUMNS} FROM effects WHERE ended_at IS NULL ORDER BY begun_at, key"  # noqa: S608 - names of ours
    return [Row(*found) for found in connection.execute(query)]


def insert(connection: sqlite3.Connection, row: Row) -> None:
    """Write that an effect is about to begin."""
    values = (row.key, row.claim, row.by, row.pid, row.begun_at)
    connection.execute("INSERT INTO effects (key, claim, done_by, pid, begun_at) VALUES (?, ?, ?, ?, ?)", values)


def finish(
    connection: sqlite3.Connection, row: Row, ended_at: float, result: str | None, fault: str | None = None
) -> bool:
    """Write that the effect of *row* is done; False if the row is not there any more."""
    query = "UPDATE effects SET ended_at = ?, result = ?, fault = ? WHERE key = ? AND claim = ?"
    return connection.execute(query, (ended_at, result, fault, row.key, row.claim)).rowcount == 1


def delete(connection: sqlite3.Connection, key: str, claim: int) -> None:
    """Write that an effect is not done: the key is free."""
    connection.execute("DELETE FROM effects WHERE key = ? AND claim = ?", (key, claim))
