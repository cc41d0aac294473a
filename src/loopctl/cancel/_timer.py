"""The deadline thread: one daemon thread that fires the deadlines made where no event loop runs.

Invariants:

1. `add` and `discard` take no lock: an entry counts as long as it stands in `_pending`, and the thread learns of it
   through a `SimpleQueue`, whose `put` may interrupt itself. So a deadline may be called off by a finalizer.
2. The heap belongs to the thread alone and holds times and keys, no deadlines. Called-off keys are swept out when they
   are the majority, so closing a million far deadlines keeps nothing.
3. The thread starts with the first deadline and ends when it has had none for `IDLE` seconds. `_runner` says who is to
   run: it is claimed before a start and given up before the last look at the queue, so no deadline is left without.
   It is started without `threading`, whose lock a signal handler could find taken by the code that it interrupted.
4. A forked child begins with no deadlines and no thread: the parent's are the parent's.
"""

from __future__ import annotations

import _thread
import heapq
import logging
import os
import threading
import time
from queue import Empty, SimpleQueue
from typing import Final, Protocol

__all__ = ["Deadlines", "Due", "deadlines"]

_logger = logging.getLogger("loopctl")

IDLE: Final = 5.0
"""Seconds for which the thread stays without a deadline."""

_LONGEST_SLEEP: Final = 86_400.0
"""Seconds; `SimpleQueue.get` takes no unbounded timeout, and a look once a day costs nothing."""

_SLACK: Final = 64
"""How many called-off keys the heap may hold whatever the number of live ones."""


class Due(Protocol):
    """What the thread is given to do."""

    @property
    def _key(self) -> int: ...

    def _fire(self) -> None: ...


class Deadlines:
    """A set of things to do at given times of `time.monotonic`, and the thread that does them."""

    def __init__(self, idle: float = IDLE) -> None:
        """Have none yet, and no thread. The thread stays *idle* seconds without a deadline."""
        self._idle = idle
        self.forget()

    def forget(self) -> None:
        """Start anew, with no deadlines and no thread: what a forked child does."""
        self._pending: dict[int, Due] = {}
        self._inbox: SimpleQueue[tuple[float, int]] = SimpleQueue()
        self._runner: dict[int, object] = {}

    def add(self, due: Due, seconds: float) -> None:
        """Have *due* fired in *seconds*, unless it is discarded before.

        Raises:
            RuntimeError: No thread can be started.
        """
        self._pending[due._key] = due
        self._inbox.put((time.monotonic() + seconds, due._key))
        try:
            self._ensure_thread()
        except RuntimeError:
            self._pending.pop(due._key, None)
            raise

    def discard(self, key: int) -> None:
        """Forget the deadline of that key, if it is still there."""
        self._pending.pop(key, None)

    def is_running(self) -> bool:
        """Is there a thread now?"""
        return bool(self._runner)

    def _ensure_thread(self) -> None:
        claim = object()
        if self._runner.setdefault(0, claim) is not claim:
            return
        try:
            _thread.start_new_thread(self._run, (claim,))
        except RuntimeError:
            self._runner.pop(0, None)
            raise

    def _run(self, claim: object) -> None:
        threading.current_thread().name = "loopctl-deadlines"
        heap: list[tuple[float, int]] = []
        try:
            while self._receive(heap) or not self._leave(claim):
                self._fire_due(heap)
                self._sweep(heap)
        finally:
            # A thread that `threading` has not started is listed by it for ever, up to Python 3.12.
            getattr(threading, "_active", {}).pop(threading.get_ident(), None)

    def _receive(self, heap: list[tuple[float, int]]) -> bool:
        """Wait for a new deadline, or until the next one is due; False if there has been none for long."""
        patience = min(max(heap[0][0] - time.monotonic(), 0.0), _LONGEST_SLEEP) if heap else self._idle
        try:
            heapq.heappush(heap, self._inbox.get(timeout=patience))
        except Empty:
            return bool(heap)
        return True

    def _leave(self, claim: object) -> bool:
        """Give up running; False if a deadline has come in meanwhile and no other thread took over."""
        self._runner.pop(0, None)
        return self._inbox.empty() or self._runner.setdefault(0, claim) is not claim

    def _fire_due(self, heap: list[tuple[float, int]]) -> None:
        while heap and heap[0][0] <= time.monotonic():
            due = self._pending.pop(heapq.heappop(heap)[1], None)
            if due is not None:
                _fire_one(due)

    def _sweep(self, heap: list[tuple[float, int]]) -> None:
        if len(heap) > 2 * len(self._pending) + _SLACK:
            heap[:] = [entry for entry in heap if entry[1] in self._pending]
            heapq.heapify(heap)


def _fire_one(due: Due) -> None:
    """Fire one deadline. The thread outlives whatever a callback raises: nobody is above it to be told."""
    try:
        due._fire()
    except BaseException:  # noqa: ASYNC103 - no task runs on this thread
        _logger.exception("loopctl: a cancel callback, run by the deadline thread, raised")


deadlines: Final = Deadlines()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=deadlines.forget)
