"""Work that was abandoned ends late, perhaps in another thread: each who wants to know is told once."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from typing import Any

from loopctl.concurrency import Straggler

Listen = Callable[[Straggler, Callable[[Straggler], None]], None]


def interrupted(listen: Listen, at: int) -> tuple[list[Straggler], bool]:
    """Let the work end just before line *at* of *listen*; give who was told, and whether there is such a line."""
    straggler = Straggler("thread", 0.0, lambda: None)
    told: list[Straggler] = []
    lines = 0

    def trace(frame: Any, event: str, _: object) -> Any:
        nonlocal lines
        if frame.f_code is not listen.__code__:  # type: ignore[attr-defined]
            return None
        if event == "line":
            lines += 1
            if lines == at:
                straggler.end(None, None)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        listen(straggler, told.append)
    finally:
        sys.settrace(before)
    is_reached = lines >= at
    if not is_reached:
        straggler.end(None, None)
    return told, is_reached


def test_a_listener_is_told_once_at_whatever_line_the_end_meets_its_arrival() -> None:
    for at in itertools.count(1):
        told, is_reached = interrupted(Straggler.on_end, at)
        assert len(told) == 1, f"the work ended before line {at} of on_end"
        if not is_reached:
            assert at > 2
            return


def test_a_listener_that_was_forgotten_is_not_told() -> None:
    straggler, told = Straggler("thread", 0.0, lambda: None), list[Straggler]()
    straggler.on_end(told.append)
    straggler.forget(told.append)
    straggler.forget(told.append)
    straggler.end(None, None)
    assert told == []
