"""A process dies at every step of a stored run: what it leaves is true, and another process goes on with it."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest

from loopctl import RunEnded, Session
from loopctl.messages import find_problems
from loopctl.record import CallStatus
from loopctl.store import Store
from loopctl.testing import VirtualLoop, virtual_run
from tests.conformance.scenarios.stored import session_in
from tests.conformance.scenarios.tools import THEN

pytestmark = pytest.mark.timeout(240)


class Crashes:
    """Copies of a store as a process leaves it that dies at each step, and what it had been told by then."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.path = folder / "store.db"
        self.copies: list[tuple[Path, dict[str, dict[str, object]]]] = []
        self.told: dict[str, dict[str, object]] = {}
        """The records of the runs whose end a reader has seen."""
        self.session: Session = session_in(self.path)

    def at(self, step: int) -> None:
        """Die before *step*."""
        assert self.session._journal is not None
        self.session._journal._file.lane.wait()  # a copy of files that are written to is no crash, but nonsense
        copy = self._folder / f"{step}.db"
        for file in (self.path, self.path.with_name(f"{self.path.name}-wal")):
            if file.exists():
                shutil.copy(file, copy.with_name(file.name.replace(self.path.name, copy.name)))
        self.copies.append((copy, dict(self.told)))

    async def live(self) -> None:
        """Run twice."""
        for text in ("go", THEN):
            async for event in self.session.start(text):
                if isinstance(event, RunEnded):
                    self.told[event.run.id] = event.run.to_json()
        await self.session.aclose()


async def go_on(path: Path) -> tuple[str, ...]:
    """Be the next process: adopt what was interrupted, and say something more."""
    session = session_in(path)
    await session.open()
    runs, history = session.runs, session.history
    assert find_problems(history) == ()
    for run in runs[:-1]:
        assert run.outcome == "completed"
    if runs and runs[-1].outcome == "interrupted":
        assert session.adopt(runs[-1])
    following = await session.run(THEN)
    assert following.output == "then"
    assert find_problems(session.history) == ()
    assert session.history[: len(history)] == history
    await session.aclose()
    store = Store(path)
    found = store.session("kept")
    assert found is not None
    assert found.messages == session.history
    return tuple(run.outcome for run in store.runs()[::-1])


def test_a_crash_at_any_step_leaves_what_was_told_and_nothing_that_runs_for_ever(tmp_path):
    crashes = Crashes(tmp_path)
    loop = VirtualLoop()
    loop.before_step(crashes.at)
    virtual_run(crashes.live, loop=loop)
    assert set(crashes.told) == {run.id for run in Store(crashes.path).runs()}
    seen: Counter[tuple[str, ...]] = Counter()
    statuses: Counter[str] = Counter()
    for copy, told in crashes.copies:
        runs = Store(copy).runs()
        kept = {run.id: run.record for run in runs if run.record is not None}
        assert told.items() <= kept.items(), copy
        assert {run.outcome for run in runs} <= {"completed", "interrupted"}, copy
        statuses.update(call.status for run in runs for call in run.calls)
        seen[virtual_run(lambda copy=copy: go_on(copy))] += 1
    assert set(seen) == {
        ("completed",),
        ("interrupted", "completed"),
        ("completed", "completed"),
        ("completed", "interrupted", "completed"),
        ("completed", "completed", "completed"),
    }
    assert set(statuses) == {CallStatus.NOT_STARTED, CallStatus.INTERRUPTED, CallStatus.COMPLETED}
