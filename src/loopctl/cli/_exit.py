"""Exit codes, and ends of the process that nothing can hold up.

Rules: 0 completed, 1 failed or out of turns, 2 called wrongly, 124 deadline, 130 stopped by Ctrl-C or by another, 143
stopped by SIGTERM. Everything that was to be shown is flushed when it is written, so that an end may come at any time.

Source: the shell's convention 128 + signal number, and `timeout(1)` for 124.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import NoReturn, TextIO

from loopctl.record import CancelReason, Run

__all__ = [
    "COMPLETED",
    "FAILED",
    "INTERRUPTED",
    "TERMINATED",
    "TIMED_OUT",
    "USAGE",
    "code_of",
    "code_of_reason",
    "end_now",
    "leave",
    "silence",
]

COMPLETED = 0
FAILED = 1
USAGE = 2
TIMED_OUT = 124
INTERRUPTED = 130
TERMINATED = 143


def code_of(run: Run) -> int:
    """Give the exit code that tells how *run* ended."""
    if run.stop is not None:
        return code_of_reason(run.stop.reason)
    return COMPLETED if run.outcome == "completed" and run.store_error is None else FAILED


def code_of_reason(reason: CancelReason) -> int:
    """Give the exit code of something that was stopped for *reason*."""
    if reason.origin == "deadline":
        return TIMED_OUT
    return TERMINATED if reason.origin == "shutdown" else INTERRUPTED


def end_now(code: int) -> NoReturn:
    """End the process within this call, whatever its threads, tasks and callbacks do.

    It may be called from a signal handler that interrupted anything, so it takes no lock and flushes nothing.
    """
    os._exit(code)


def leave(code: int, *, has_loose_ends: bool) -> int:
    """End the command with *code*.

    Args:
        code: The exit code.
        has_loose_ends: True if tasks are left that refused to end: they complain when the interpreter takes them apart.

    Returns:
        *code*, if nothing holds up the interpreter's ordinary end. Otherwise (also if threads are left, daemons too:
        one of them may hold a stream's lock) the process ends in here, with its streams flushed.
    """
    streams: list[TextIO | None] = [sys.stdout, sys.stderr]  # None: it was closed before we began
    for stream in filter(None, streams):
        try:
            stream.flush()
        except (OSError, ValueError):  # closed at the other side, or here
            silence(stream)
    if has_loose_ends or threading.active_count() > 1:
        end_now(code)
    return code


def silence(stream: TextIO) -> None:
    """Let nothing complain any more that nobody reads *stream*."""
    try:
        descriptor = stream.fileno()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, descriptor)
        os.close(nowhere)
    except (OSError, ValueError):  # it is no file, in a test for instance
        return
