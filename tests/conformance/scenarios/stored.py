"""Runs of a session that is kept in a store, which says after each stop what the session says."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from pathlib import Path

from loopctl import Agent, Checkpoint, RunConfig, Session
from loopctl.store import Store
from loopctl.testing import Scenario, Stopped, call, say
from tests.conformance.scenarios.tools import PLAIN, THEN, telling, the_record_is_true

__all__ = ["SCENARIOS", "session_in", "stored"]

_folders: list[tempfile.TemporaryDirectory[str]] = []
_numbers = itertools.count()


def _path() -> Path:
    """Give the path of a store that is not there yet; those before it go, because there are thousands of them."""
    if not _folders:
        memory = Path("/dev/shm")
        _folders.append(tempfile.TemporaryDirectory(prefix="loopctl-stored-", dir=memory if memory.is_dir() else None))
    folder = Path(_folders[0].name)
    for old in folder.iterdir():
        shutil.rmtree(old)
    path = folder / str(next(_numbers)) / "store.db"
    path.parent.mkdir()
    return path


def stored() -> Session:
    """Call two tools, then answer."""
    return session_in(_path())


def session_in(path: Path) -> Session:
    """Give the session that is kept in a store, anew."""
    replies = [[say("let me"), call("note", {"name": "1"}), call("deaf", {"name": "2"})], "done"]
    agent = Agent(telling(*replies), PLAIN, config=RunConfig(grace=3))
    return agent.session(store=path, id="kept")


def the_store_says_the_same(stopped: Stopped) -> None:
    """Nothing is lost, nothing is told otherwise, and nothing runs for ever."""
    the_record_is_true(stopped)
    session = stopped.session
    assert session._journal is not None
    store = Store(session._journal._file.path)
    kept = store.runs(session="kept")[::-1]
    assert [run.record for run in kept] == [run.to_json() for run in session.runs]
    found = store.session("kept")
    assert found is not None
    assert found.messages == session.history
    assert found.pid is None


SCENARIOS = (
    Scenario(
        stored,
        then=THEN,
        catches=frozenset({Checkpoint.TURN_ENTRY, Checkpoint.SETUP, Checkpoint.STREAM_EVENT, Checkpoint.TOOL_CALL}),
        check=the_store_says_the_same,
    ),
)
