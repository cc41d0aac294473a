"""Look at real processes from outside, and wait for what they do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from tests.leaks import children

_others: frozenset[str] = frozenset()
"""The children that were there before the test: a model's server that other tests share, for one."""

PATIENCE = 20.0
"""Seconds until something that should come is called missing."""


def note_others() -> None:
    """Count none of the children that are there now as the test's."""
    global _others  # noqa: PLW0603 - one test at a time
    _others = frozenset(children())


def our_children() -> list[str]:
    """The ids of the child processes that were started since then, the dead that nobody has waited for included."""
    return sorted(children().keys() - _others)


def is_alive(pid: int) -> bool:
    """True if *pid* still runs; a zombie does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return stat.rpartition(") ")[2][0] not in "ZX"


def until(is_so: Callable[[], object]) -> None:
    """Block until *is_so* says yes."""
    end = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.005)


async def comes(is_so: Callable[[], object]) -> None:
    """Wait until *is_so* says yes."""
    end = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < end, "it never came"
        await asyncio.sleep(0.005)


def pids_in(path: Path) -> list[int]:
    """The process ids that were written into *path*, one a line."""
    return [int(line) for line in path.read_text(encoding="utf-8").split()] if path.exists() else []
