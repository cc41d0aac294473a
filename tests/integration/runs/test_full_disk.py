"""A disk that takes nothing more: the outcome of a run stays, who ran it is told, and what is owed is written later."""

from __future__ import annotations

import subprocess
import sys

import pytest

from loopctl.store import Store

pytest.importorskip("resource")

PROGRAM = """
import asyncio, resource, sys
from pathlib import Path
from loopctl import Agent, StoreError
from loopctl.testing import ScriptedModel

def room(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

async def main():
    session = Agent(ScriptedModel("Yes.", "x" * 200_000, "Never.", "Now.")).session(store=sys.argv[1], id="a")
    await session.run("one")
    room(max(file.stat().st_size for file in Path(sys.argv[1]).parent.iterdir()) + 50_000)
    run = await session.start("two")
    assert run.outcome == "completed" and len(session.history) == 4
    try:
        run.raise_for_outcome()
    except StoreError as error:
        print(error)
    room(resource.RLIM_INFINITY)
    await session.run("three")
    await session.aclose()

asyncio.run(main())
"""


def test_a_disk_that_is_full_for_a_while_loses_nothing(tmp_path):
    path = tmp_path / "store.db"
    line = [sys.executable, "-c", PROGRAM, str(path)]
    ended = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr.count("Traceback")) == (0, 0), ended.stderr
    assert f"ended (completed), and is not stored: the store {path} cannot be used: the disk fails it" in ended.stdout
    assert [(run.input, run.outcome) for run in Store(path).runs()[::-1]] == [
        ("one", "completed"),
        ("two", "completed"),
        ("three", "completed"),
    ]
    assert len(Store(path).session("a").messages) == 6
