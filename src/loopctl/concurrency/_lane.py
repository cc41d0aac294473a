"""A lane: steps that block are done in the order in which they were given, one at a time, off the event loop.

Rules: there is a thread only while there is something to do; what was given is done whoever waits for it, and a process
that ends waits a moment for it.
"""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable

__all__ = ["Lane"]

_AT_EXIT = 2.0
"""Seconds that a process which ends gives what was given and is not done."""

_lanes: weakref.WeakSet[Lane] = weakref.WeakSet()


class Lane:
    """One after the other, on a daemon thread of its own."""

    def __init__(self, name: str) -> None:
        """Call the thread *name*."""
        self.name = name
        self._steps: deque[Callable[[], object]] = deque()
        self._forget()
        _lanes.add(self)

    def do(self, step: Callable[[], object]) -> None:
        """Do *step*, which raises nothing, when those before it are done; may be called from any thread.

        Raises:
            RuntimeError: The system has no thread for it; it will not be done.
        """
        with self._lock:
            self._steps.append(step)
            if not self._idle.is_set():
                return
            self._idle.clear()
            try:
                threading.Thread(target=self._work, name=self.name, daemon=True).start()
            except RuntimeError:
                self._steps.remove(step)
                self._idle.set()
                raise

    def wait(self, timeout: float | None = None) -> bool:
        """Block until everything is done; False if that takes longer than *timeout* seconds."""
        return self._idle.wait(timeout)

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._steps:
                    self._idle.set()
                    return
                step = self._steps.popleft()
            step()

    def _forget(self) -> None:
        """In the beginning, and in a fork, which has no thread of ours: what was given is the parent's."""
        self._lock = threading.RLock()
        self._idle = threading.Event()
        self._idle.set()
        self._steps.clear()


def _forget_all() -> None:
    for lane in _lanes:
        lane._forget()


def _wait_for_all() -> None:
    for lane in _lanes:
        lane.wait(_AT_EXIT)


os.register_at_fork(after_in_child=_forget_all)
atexit.register(_wait_for_all)
