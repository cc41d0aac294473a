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

import asyncio
import contextlib
import gc
import logging
import multiprocessing.resource_tracker
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

PATIENCE = 2.0
"""Seconds that something may take to finish ending. Spent by leaking tests only."""

SHARED_THREADS = frozenset({"loopctl-deadlines"})
"""Threads that the library starts once per process and keeps, by name."""

HANDLED = (signal.SIGINT, signal.SIGTERM)
PROC = Path("/proc/self")

Look = Callable[[], dict[str, object]]
failed = pytest.StashKey[bool]()


def threads() -> dict[str, object]:
    """The threads that are alive; a name may be used twice, an ident not."""
    return {
        f"{thread.name} ({thread.ident}{', daemon' if thread.daemon else ''})": thread.ident
        for thread in threading.enumerate()
        if thread.name not in SHARED_THREADS
    }


def children() -> dict[str, object]:
    """The child processes, those that nobody has waited for included."""
    tracker = getattr(multiprocessing.resource_tracker._resource_tracker, "_pid", None)
    found: dict[str, object] = {}
    for path in PROC.glob("task/*/children"):
        with contextlib.suppress(OSError):  # that thread ended just now
            found |= {pid: pid for pid in path.read_text().split() if int(pid) != tracker}
    return found


def descriptors() -> dict[str, object]:
    """The open descriptors and what they lead to."""
    found: dict[str, object] = {}
    for path in (PROC / "fd").iterdir() if PROC.exists() else ():
        with contextlib.suppress(OSError):  # the one that lists this folder
            target = str(path.readlink())
            if not target.startswith(("/proc/", "/dev/pts", "/dev/urandom")):
                found[f"{path.name} -> {target}"] = target
    return found


def handlers() -> dict[str, object]:
    """The signal handlers and the descriptor that signals wake."""
    found: dict[str, object] = {f"{number.name}: {signal.getsignal(number)!r}": number for number in HANDLED}
    wakeup = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(wakeup)
    return found | {f"wakeup descriptor {wakeup}": wakeup}


def asyncio_objects() -> dict[str, object]:
    """Unfinished tasks and unclosed event loops, of this test only: older objects are frozen."""
    found: dict[str, object] = {}
    for thing in gc.get_objects():
        kind = type(thing)  # not isinstance: a proxy may answer to that by importing, connecting, or raising
        is_task, is_loop = issubclass(kind, asyncio.Task), issubclass(kind, asyncio.AbstractEventLoop)
        if (is_task and not thing.done()) or (is_loop and not thing.is_closed()):
            found[repr(thing)] = id(thing)
    return found


LOOKS: dict[str, Look] = {
    "threads": threads,
    "children": children,
    "descriptors": descriptors,
    "handlers": handlers,
    "asyncio": asyncio_objects,
}


class _Errors(logging.Handler):
    """Keeps what asyncio reports through its logger, which is where a loop's default exception handler goes."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


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
    looks = {name: look for name, look in LOOKS.items() if name not in allowed}
    errors = _Errors()
    if "loop_errors" in request.fixturenames:
        errors.messages = request.getfixturevalue("loop_errors")
    logging.getLogger("asyncio").addHandler(errors)
    gc.freeze()
    before = {name: look().keys() for name, look in looks.items()}
    try:
        yield
        if request.node.stash.get(failed, False):
            return
        gc.collect()
        left = _left(looks, before)
    finally:
        logging.getLogger("asyncio").removeHandler(errors)
    if "loop_errors" not in request.fixturenames:
        left += [f"asyncio logged: {message}" for message in errors.messages]
    if left:
        pytest.fail("the test left something behind:\n  " + "\n  ".join(left), pytrace=False)


def _left(looks: dict[str, Look], before: dict[str, object]) -> list[str]:
    until = time.monotonic() + PATIENCE
    while True:
        left = [f"{name}: {what}" for name, look in looks.items() for what in look().keys() - before[name]]
        if not left or time.monotonic() > until:
            return left
        time.sleep(0.01)
        gc.collect()
