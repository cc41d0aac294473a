"""The tables of a store, as the steps from each version of them to the next.

Rule: a step that has been released is never changed; another one is added.
"""

from __future__ import annotations

import sqlite3

__all__ = ["APPLICATION", "VERSION", "migrate"]

APPLICATION = 0x6C6F6F70
"""The mark of our files: `loop`."""

_LEDGER = """
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

# The claim of a session is that of who has it open, or had it; the claim of a run is that of who runs it, or ran it.
_SESSIONS = """
CREATE TABLE sessions (
    number INTEGER PRIMARY KEY,
    id TEXT UNIQUE NOT NULL,
    created_at REAL NOT NULL,
    used_at REAL NOT NULL,
    model TEXT NOT NULL,
    title TEXT NOT NULL,
    claim INTEGER NOT NULL,
    pid INTEGER NOT NULL
);
CREATE INDEX sessions_by_use ON sessions (used_at);
CREATE TABLE runs (
    number INTEGER PRIMARY KEY,
    id TEXT UNIQUE NOT NULL,
    session_id TEXT NOT NULL,
    state TEXT NOT NULL,
    claim INTEGER NOT NULL,
    pid INTEGER NOT NULL,
    started_at REAL NOT NULL,
    ended_at REAL,
    input TEXT NOT NULL,
    record TEXT,
    adopted INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX runs_by_session ON runs (session_id, number);
CREATE TABLE turns (
    run_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    turn TEXT NOT NULL,
    PRIMARY KEY (run_id, number)
);
CREATE TABLE calls (
    run_id TEXT NOT NULL,
    id TEXT NOT NULL,
    record TEXT NOT NULL,
    late TEXT,
    PRIMARY KEY (run_id, id)
);
CREATE TABLE messages (
    number INTEGER PRIMARY KEY,
    session_id TEXT NOT NULL,
    run_id TEXT,
    message TEXT NOT NULL
);
CREATE INDEX messages_by_session ON messages (session_id, number);
CREATE INDEX messages_by_run ON messages (run_id)
"""

_STEPS = (_LEDGER, _SESSIONS)
VERSION = len(_STEPS)


def migrate(connection: sqlite3.Connection, version: int) -> None:
    """Bring the tables from *version*, 0 for an empty file, to the newest, in the transaction that is open."""
    for step in _STEPS[version:]:
        for statement in step.split(";"):  # `executescript` would commit
            connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION}")
    connection.execute(f"PRAGMA user_version = {VERSION}")
