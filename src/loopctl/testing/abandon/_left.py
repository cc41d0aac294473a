"""What a tool has left open in its process: tasks, threads, child processes, descriptors, locks.

Rules: what is on its way out gets some time; what a whole run leaves too, a pool for instance, is not held against a
run that was stopped.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import re
import sys
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import thread as pools
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from loopctl.testing._leaks import children_of
from loopctl.testing._where import task_work
from loopctl.testing.abandon._points import Author

__all__ = ["Left", "Look", "command_of", "hear_collected", "minus", "reachable"]

LeftKind: TypeAlias = Literal["task", "thread", "process", "descriptor", "lock", "folder", "collected"]

_PROC = Path("/proc/self")
_IDLE = pools._worker.__code__
_UNSEEN = re.compile(r"/proc/|/dev/(pts|urandom|random|null|tty)|anon_inode:\[(eventpoll|pidfd)\]")
_OUR_THREADS = re.compile(r"loopctl-deadlines|waitpid-\d+")
"""One that the library keeps, and those that asyncio has for child processes, which are told of by themselves."""
_DEEPEST = 2


@dataclass(frozen=True, slots=True)
class Left:
    """One thing that is open."""

    kind: LeftKind
    text: str
    """What it is, for a person."""
    alike: str = ""
    """The same for things that are alike from run to run."""
    pid: int = 0


class Look:
    """Sees what has been opened since it was made."""

    def __init__(
        self,
        author: Author,
        names: Callable[[], Iterable[tuple[str, object]]],
        loop: asyncio.AbstractEventLoop | None,
    ) -> None:
        """Take what is open now for given."""
        self._author = author
        self._names = names
        self._loop = loop
        self._given = frozenset[object]()
        self._given = frozenset(key for key, _ in self._open())

    def left(self) -> list[Left]:
        """Give what is open now and was not."""
        gc.collect()
        return [left for key, left in self._open() if key not in self._given]

    def _open(self) -> Iterator[tuple[object, Left]]:
        yield from self._tasks()
        yield from self._threads()
        for pid in children_of(os.getpid()):
            yield ("process", pid), Left("process", f"the process {command_of(pid)}", "process", pid)
        yield from self._descriptors()
        yield from self._locks()
        here = Path.cwd()
        yield ("folder", str(here)), Left("folder", f"the current folder is {here}", "folder")

    def _tasks(self) -> Iterator[tuple[object, Left]]:
        for task in asyncio.all_tasks(self._loop) if self._loop is not None else ():
            work = task_work(task)
            at = self._author.place_of(task.get_coro())
            place = f", which waits at {Path(at[0]).name}:{at[1]}" if at is not None else ""
            yield task, Left("task", f"the task of {work}(){place}", work)

    def _threads(self) -> Iterator[tuple[object, Left]]:
        frames = sys._current_frames()
        for thread in threading.enumerate():
            frame = frames.get(thread.ident or -1)
            is_idle = frame is not None and frame.f_code is _IDLE
            if thread is threading.main_thread() or is_idle or _OUR_THREADS.match(thread.name):
                continue
            at = self._author.place_under(frame)
            place = f", which is at {Path(at[0]).name}:{at[1]}" if at is not None else ""
            text = f"the thread {thread.name!r}{' (a daemon)' if thread.daemon else ''}{place}"
            yield thread, Left("thread", text, re.sub(r"\d+", "N", thread.name))

    def _descriptors(self) -> Iterator[tuple[object, Left]]:
        for path in (_PROC / "fd").iterdir() if _PROC.exists() else ():
            try:
                target = str(path.readlink())
            except OSError:  # the one that lists this folder
                continue
            if not _UNSEEN.match(target):
                shown = _shown(target)
                lock = _file_lock(path.name)
                text = f"a descriptor of {shown}" + (f", with {lock} on it" if lock else "")
                yield ("descriptor", path.name, target), Left("descriptor", text, re.sub(r"\d+", "N", shown))

    def _locks(self) -> Iterator[tuple[object, Left]]:
        seen: set[int] = set()
        for name, value in self._names():
            if id(value) not in seen and _is_locked(value):
                seen.add(id(value))
                yield ("lock", id(value)), Left("lock", f"the lock `{name}` is held", name)


def reachable(author: Author, function: Callable[..., Any]) -> Callable[[], Iterator[tuple[str, object]]]:
    """Give a function that gives what the author's code reaches by name: its modules, what *function* closes over."""
    modules = [vars(module) for module in list(sys.modules.values()) if author.wrote(_file_of(module))]
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=False))

    def names() -> Iterator[tuple[str, object]]:
        for space in (function.__globals__, *modules):
            yield from _values(space.items(), _DEEPEST)
        for name, cell in cells.items():
            with contextlib.suppress(ValueError):  # it is empty
                yield from _values([(name, cell.cell_contents)], _DEEPEST)

    return names


def _file_of(module: object) -> str:
    file = getattr(module, "__file__", None)
    return file if isinstance(file, str) else "<frozen >"


def _values(items: Iterable[tuple[str, object]], depth: int) -> Iterator[tuple[str, object]]:
    for name, value in list(items):
        yield name, value
        if depth and isinstance(value, dict):
            yield from _values([(f"{name}[{key!r}]", inner) for key, inner in list(value.items())[:100]], depth - 1)
        elif depth and isinstance(getattr(value, "__dict__", None), dict) and not isinstance(value, type | type(sys)):
            yield from _values([(f"{name}.{key}", inner) for key, inner in vars(value).items()], depth - 1)


def _is_locked(value: object) -> bool:
    kind = type(value)
    if kind.__module__ not in {"_thread", "threading", "asyncio.locks", "multiprocessing.synchronize"}:
        return False
    locked = getattr(value, "locked", None)
    if callable(locked):
        return bool(locked())
    return kind.__name__ == "RLock" and repr(value).startswith("<locked")


def _file_lock(descriptor: str) -> str:
    with contextlib.suppress(OSError):
        for line in (_PROC / "fdinfo" / descriptor).read_text().splitlines():
            if line.startswith("lock:"):
                return "a lock"
    return ""


def _shown(target: str) -> str:
    if target.startswith("socket:"):
        return "a socket"
    if target.startswith("pipe:"):
        return "a pipe"
    return target.removeprefix(f"{Path.cwd()}/")


def command_of(pid: int) -> str:
    """Say what a process runs."""
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
        if words == Path("/proc/self/cmdline").read_bytes():
            return "(a fork of the tool's own process)"
        text = words.rstrip(b"\0").replace(b"\0", b" ").decode(errors="replace")
        return f"`{text[:80]}`" if text else "(ended, and not waited for)"
    return str(pid)


@contextlib.contextmanager
def hear_collected() -> Iterator[list[Left]]:
    """Note what is closed only because Python collects it."""
    heard: list[Left] = []

    def show(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
        if issubclass(category, ResourceWarning):
            text = re.sub(r"\bfd=\d+,? ?|0x[0-9a-f]+|pid=\d+", "", str(message))
            heard.append(Left("collected", text, re.sub(r"\d+", "N", text)))

    with warnings.catch_warnings():
        warnings.simplefilter("always", ResourceWarning)
        warnings.showwarning = show
        yield heard


def minus(found: Iterable[Left], allowed: Iterable[Left]) -> list[Left]:
    """Give *found* without as many of each kind as are allowed."""
    room = Counter((left.kind, left.alike) for left in allowed)
    over = []
    for left in found:
        key = (left.kind, left.alike)
        if room[key]:
            room[key] -= 1
        else:
            over.append(left)
    return over
