"""The processes of the checker: forking plays, waiting for them, and ending all that came of them.

Rules: on Linux the process that forks the plays is the subreaper of everything that comes of them, so that what a
killed play leaves running becomes its child; when whoever asked for the check is gone, everything is killed.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

from loopctl.testing._leaks import children_of
from loopctl.testing.abandon._left import Left, command_of

__all__ = ["CallerGone", "Herd", "fork"]

_PR_SET_CHILD_SUBREAPER = 36
_STEP = 0.02


def fork(work: Callable[[], object]) -> int:
    """Run *work* in a process of its own, which ends with it.

    Returns:
        The id of the process.
    """
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        work()
        code = 0
    finally:
        _leave(code)


def _leave(code: int) -> NoReturn:
    os._exit(code)


class CallerGone(Exception):
    """Whoever asked for the check has ended: nobody wants it any more."""


class Herd:
    """The plays, and what comes of them."""

    def __init__(self, control: int) -> None:
        """Be the parent of them all, until *control* comes to its end."""
        self._control = control
        if sys.platform == "linux":
            with suppress(ImportError):
                import ctypes

                ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def run(self, work: Callable[[], object], seconds: float) -> int | None:
        """Run *work* in a process of its own.

        Returns:
            How it ended, as `os.waitstatus_to_exitcode`; None if it was killed after *seconds*.

        Raises:
            CallerGone: The check is not wanted any more.
        """
        pid = fork(work)
        until = time.monotonic() + seconds
        watch = os.pidfd_open(pid) if sys.platform == "linux" else -1
        try:
            while True:
                done, status = os.waitpid(pid, os.WNOHANG)
                if done:
                    return os.waitstatus_to_exitcode(status)
                rest = until - time.monotonic()
                if rest <= 0:
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)
                    return None
                self._wait(watch, rest)
        finally:
            if watch >= 0:
                os.close(watch)

    def _wait(self, watch: int, seconds: float) -> None:
        watched = [self._control] if watch < 0 else [self._control, watch]
        ready, _, _ = select.select(watched, [], [], seconds if watch >= 0 else min(seconds, _STEP))
        if self._control in ready:  # nothing is ever written to it: its end has come
            raise CallerGone

    def left(self, seconds: float) -> list[Left]:
        """Give the processes that still run after *seconds*, and end them."""
        until = time.monotonic() + seconds
        while (pids := self._living()) and time.monotonic() < until:
            time.sleep(_STEP)
        found = [Left("process", f"the process {command_of(pid)}", "process", pid) for pid in pids]
        if pids:
            self.end_all()
        return found

    def _living(self) -> list[int]:
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        return children_of(os.getpid())

    def end_all(self) -> None:
        """Kill all of them, and those that come of their deaths."""
        until = time.monotonic() + 2
        while (pids := self._living()) and time.monotonic() < until:
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.005)
