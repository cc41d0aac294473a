"""The leak check around each test: what was not there before it must not be there after it.

Looked at: unfinished tasks, open event loops, threads (daemons too), child processes, descriptors, signal handlers,
and what asyncio logged as an error ("was destroyed but it is pending", "was never retrieved", "Exception in callback").
What a destructor or a thread raises is turned into a failure by pytest itself; the collection here provokes it.

Rules:
1. What is on its way out gets `PATIENCE` seconds; a test that leaves nothing waits for nothing.
2. A failed test is not looked at: its traceback keeps its frames, and they keep what they held.
3. Objects older than the test are frozen out of the collector, so that a full collection costs what the test made.
4. A fixture of a wider scope starts before the check does, so what it owns is no leak. What a test adds to such
   an owner is allowed by `@pytest.mark.shares("threads", "children", "descriptors", ...)`.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from loopctl.testing._leaks import AsyncioErrors, Leaks, children

__all__ = ["children", "leak_check", "loop_errors", "pytest_runtest_makereport"]

PATIENCE = 2.0
"""Seconds that something may take to finish ending. Spent by leaking tests only."""

failed = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Note a failure on the item, for rule 2."""
    report = yield
    item.stash[failed] = item.stash.get(failed, False) or report.failed
    return report


@pytest.fixture
def loop_errors() -> list[str]:
    """What asyncio logged as errors in this test. A test that asks for it answers for them itself."""
    return []


@pytest.fixture(autouse=True)
def leak_check(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail the test that leaves something behind."""
    allowed = {what for mark in request.node.iter_markers("shares") for what in mark.args}
    is_answered = "loop_errors" in request.fixturenames
    with AsyncioErrors() as errors:
        if is_answered:
            errors.messages = request.getfixturevalue("loop_errors")
        gc.freeze()
        leaks = Leaks(allowed=allowed)
        yield
        if request.node.stash.get(failed, False):
            return
        left = leaks.left(PATIENCE)
    if not is_answered:
        left += [f"asyncio logged: {message}" for message in errors.messages]
    if left:
        pytest.fail("the test left something behind:\n  " + "\n  ".join(left), pytrace=False)
