"""Looks at what a piece of a program leaves behind: threads, children, descriptors, tasks, loops, words of asyncio.

Rules: what is on its way out gets some time; what leaves nothing waits for nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import multiprocessing.resource_tracker
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

__all__ = ["AsyncioErrors", "Leaks", "children", "children_of"]

SHARED_THREADS = frozenset({"loopctl-deadlines"})
"""Threads that the library starts once per process and keeps, by name."""

_HANDLED = (signal.SIGINT, signal.SIGTERM)
_PROC = Path("/proc/self")


def threads() -> dict[str, object]:
    """Give the threads that are alive; a name may be used twice, an ident not."""
    return {
        f"{thread.name} ({thread.ident}{', daemon' if thread.daemon else ''})": thread.ident
        for thread in threading.enumerate()
        if thread.name not in SHARED_THREADS
    }


def children() -> dict[str, object]:
    """Give the child processes, those that nobody has waited for included (on Linux)."""
    return {str(pid): pid for pid in children_of(os.getpid())}


def children_of(pid: int) -> list[int]:
    """Give the child processes of *pid*, those that nobody has waited for included; on Linux."""
    tracker = getattr(multiprocessing.resource_tracker._resource_tracker, "_pid", None)
    found: list[int] = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # that thread ended just now
            found += [int(child) for child in path.read_text().split() if int(child) != tracker]
    return found


def descriptors() -> dict[str, object]:
    """Give the open descriptors and what they lead to (on Linux)."""
    found: dict[str, object] = {}
    for path in (_PROC / "fd").iterdir() if _PROC.exists() else ():
        with contextlib.suppress(OSError):  # the one that lists this folder
            target = str(path.readlink())
            if not target.startswith(("/proc/", "/dev/pts", "/dev/urandom")):
                found[f"{path.name} -> {target}"] = target
    return found


def handlers() -> dict[str, object]:
    """Give the signal handlers and the descriptor that signals wake; only the main thread can look."""
    found: dict[str, object] = {f"{number.name}: {signal.getsignal(number)!r}": number for number in _HANDLED}
    if threading.current_thread() is threading.main_thread():
        wakeup = signal.set_wakeup_fd(-1)
        signal.set_wakeup_fd(wakeup)
        found[f"wakeup descriptor {wakeup}"] = wakeup
    return found


def asyncio_objects() -> dict[str, object]:
    """Give unfinished tasks and unclosed event loops, without those that were frozen out of the collector."""
    found: dict[str, object] = {}
    for thing in gc.get_objects():
        kind = type(thing)  # not isinstance: a proxy may answer to that by importing, connecting, or raising
        is_task, is_loop = issubclass(kind, asyncio.Task), issubclass(kind, asyncio.AbstractEventLoop)
        if (is_task and not thing.done()) or (is_loop and not thing.is_closed()):
            found[repr(thing)] = id(thing)
    return found


_LOOKS: dict[str, Callable[[], dict[str, object]]] = {
    "threads": threads,
    "children": children,
    "descriptors": descriptors,
    "handlers": handlers,
    "asyncio": asyncio_objects,
}
"""What can be looked at, by name."""


class Leaks:
    """What was not there when this was made, and is there now.

    Looked at: threads (daemons too), child processes, descriptors, signal handlers, unfinished tasks and open event
    loops. Children and descriptors are seen on Linux only. A `gc.freeze()` before keeps older tasks and loops out.
    """

    def __init__(self, *, allowed: Iterable[str] = ()) -> None:
        """Look at what is there.

        Args:
            allowed: What not to look at: `threads`, `children`, `descriptors`, `handlers`, `asyncio`.
        """
        self._looks = {name: look for name, look in _LOOKS.items() if name not in set(allowed)}
        self._before = {name: look().keys() for name, look in self._looks.items()}

    def left(self, patience: float = 2.0) -> list[str]:
        """Collect garbage, and say what is there now and was not before.

        Args:
            patience: Real seconds that something may take to finish ending; spent only if there is something.
        """
        until = time.monotonic() + patience
        gc.collect()
        while True:
            left = [
                f"{name}: {what}" for name, look in self._looks.items() for what in look().keys() - self._before[name]
            ]
            if not left or time.monotonic() > until:
                return left
            time.sleep(0.01)
            gc.collect()


class AsyncioErrors(logging.Handler):
    """Keeps what asyncio reports through its logger, which is where a loop's default exception handler goes."""

    def __init__(self) -> None:
        """Keep nothing yet; `with` it."""
        super().__init__(logging.ERROR)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the text of *record*."""
        self.messages.append(record.getMessage())

    def __enter__(self) -> AsyncioErrors:
        """Begin to listen."""
        logging.getLogger("asyncio").addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        """Listen no more."""
        logging.getLogger("asyncio").removeHandler(self)
