"""Where a tool can be stopped: the points that it passes, and the hooks that see it pass them.

A point is a line of the author's and how often it was passed: what the library underneath does there, and how often it
waits, may differ from run to run. Kinds: at an `await` the tool suspends; at a `poll` it asks whether it is to stop;
a `line` is about to run; after a `change` something on disk is another. What takes its time has a point in its middle,
too.
"""

from __future__ import annotations

import asyncio
import sys
import sysconfig
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Generator, Iterable
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import Any, Literal, TypeAlias

from loopctl.cancel import CancelSignal, CancelToken
from loopctl.testing._where import frames_of

__all__ = ["Author", "Passage", "Place", "Point", "Tracer", "Watched", "watch_tasks"]

Kind: TypeAlias = Literal["await", "poll", "line", "change"]
Place: TypeAlias = tuple[str, int]
"""A file and a line."""

_LIBRARY = sysconfig.get_path("stdlib")
_HERE = str(Path(__file__).parent)
_OURS = str(Path(__file__).parents[2])
_POLLS: frozenset[CodeType] = frozenset(
    function.__code__
    for function in (
        CancelToken.is_cancelled,
        CancelToken.wait,
        CancelToken.raise_if_cancelled,
        CancelSignal.is_cancelled,
    )
)
_WRITES = 0o3 | 0o100 | 0o1000  # O_WRONLY or O_RDWR, O_CREAT, O_TRUNC as Linux has them
_CHANGES = frozenset(
    {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate", "shutil.copyfile"}
)
_MOST_SEEN = 100_000
_LONG = 0.02
"""Seconds from which on something takes its time."""


@dataclass(frozen=True, slots=True)
class Point:
    """One moment of a tool, which another run of it passes too."""

    kind: Kind
    file: str
    line: int
    nth: int
    """How often the line was passed in this way, from 1."""
    after: float = 0.0
    """Seconds after that, for one in the middle."""


class Author:
    """Tells the author's files from those of libraries."""

    def __init__(self, code: CodeType, packages: Iterable[str] = ()) -> None:
        """Take the file of *code* for the author's, with its folder if that is part of a library; and *packages*.

        Raises:
            ImportError: One of the packages cannot be found.
        """
        own = [Path(code.co_filename).parent] if _is_library(code.co_filename) else []
        self._own = tuple(f"{folder}/" for folder in (*own, *map(_folder_of, packages)))
        self._known: dict[str, bool] = {}

    def wrote(self, file: str) -> bool:
        """Say whether the author wrote *file*."""
        known = self._known.get(file)
        if known is None:
            known = self._known[file] = not _is_library(file) or file.startswith(self._own)
        return known

    def place_of(self, awaitable: object) -> Place | None:
        """Give the innermost line of the author's that *awaitable* is suspended at."""
        frames = [frame for frame in frames_of(awaitable) if self.wrote(frame.f_code.co_filename)]
        return (frames[-1].f_code.co_filename, frames[-1].f_lineno) if frames else None

    def place_under(self, frame: FrameType | None) -> Place | None:
        """Give the nearest line of the author's at *frame* or under it; nothing under a frame of the checker."""
        while frame is not None and not frame.f_code.co_filename.startswith(_HERE):
            if self.wrote(frame.f_code.co_filename):
                return frame.f_code.co_filename, frame.f_lineno
            frame = frame.f_back
        return None


def _folder_of(package: str) -> Path:
    file = import_module(package).__file__
    if file is None:
        raise ImportError(f"{package} is no package of one folder")
    return Path(file).parent


def _is_library(file: str) -> bool:
    return file.startswith((_LIBRARY, _OURS, "<frozen ", "<string>")) or "site-packages" in file


def _is_for_writing(flags: object) -> bool:
    return isinstance(flags, int) and bool(flags & _WRITES)


class Passage:
    """Counts the points that one run passes, and acts at one of them."""

    def __init__(self, target: Point | None = None, act: Callable[[], object] = lambda: None) -> None:
        """Call *act* when *target* is passed."""
        self.seen: list[Point] = []
        self._moments: list[float] = []
        self.is_reached = False
        self._target = target and replace(target, after=0.0)
        self._act = act
        self._counts: Counter[tuple[Kind, str, int]] = Counter()
        self._is_over = False

    def close(self) -> None:
        """Look at nothing more: the tool has ended."""
        if not self._is_over:
            self._is_over = True
            self._moments.append(time.monotonic())

    def note(self, kind: Kind, place: Place | None) -> None:
        """Note that *place* is passed."""
        if self._is_over or place is None:
            return
        key = (kind, *place)
        self._counts[key] += 1
        point = Point(*key, self._counts[key])
        if self._target is None:
            if len(self.seen) < _MOST_SEEN:
                self.seen.append(point)
                self._moments.append(time.monotonic())
        elif point == self._target:
            self.is_reached = self._is_over = True
            self._act()

    def middles(self) -> list[Point]:
        """Give a point in the middle of what took its time: each line that did, and each first wait of a line."""
        times = zip(self.seen, self._moments, self._moments[1:], strict=False)
        halves = [replace(point, after=(end - begin) / 2) for point, begin, end in times]
        return [p for p in halves if p.after > _LONG / 2 and (p.kind == "line" or (p.kind == "await" and p.nth == 1))]


class Watched(Coroutine[Any, Any, Any]):
    """A coroutine that tells of each of its suspensions, before anybody else hears of it."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], suspended: Callable[[object], object]) -> None:
        """Run *coroutine*, and call *suspended* with it each time it has suspended."""
        self._coroutine = coroutine
        self._suspended = suspended

    def send(self, value: Any) -> Any:
        """Go on."""
        waits_for = self._coroutine.send(value)
        self._suspended(self._coroutine)
        return waits_for

    def throw(
        self,
        kind: Any,
        value: BaseException | object = None,
        traceback: TracebackType | None = None,
    ) -> Any:
        """Go on with an exception."""
        error = kind if isinstance(kind, BaseException) else value if isinstance(value, BaseException) else kind()
        waits_for = self._coroutine.throw(error if traceback is None else error.with_traceback(traceback))
        self._suspended(self._coroutine)
        return waits_for

    def close(self) -> None:
        """End it where it is."""
        self._coroutine.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        """Await it unwatched: nobody does."""
        return self._coroutine.__await__()

    def __getattr__(self, name: str) -> Any:
        """Look like the coroutine: whoever asks where a task hangs reads `cr_frame` and `cr_await`."""
        return getattr(self._coroutine, name)


def watch_tasks(loop: asyncio.AbstractEventLoop, suspended: Callable[[object], object]) -> None:
    """Let each task that is made in a task of *loop* tell of its suspensions."""

    def make(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
        is_of_a_tool = asyncio.current_task(loop) is not None
        work = Watched(coroutine, suspended) if is_of_a_tool and asyncio.iscoroutine(coroutine) else coroutine
        return asyncio.Task(work, loop=loop, **options)

    loop.set_task_factory(make)


class Tracer:
    """Sees the lines, the polls and the changes on disk of a thread and of the threads that it starts."""

    def __init__(self, passage: Passage, author: Author, *, sees_lines: bool, sees_polls: bool) -> None:
        """Tell *passage*."""
        self._passage = passage
        self._author = author
        self._sees_lines = sees_lines
        self._sees_polls = sees_polls
        self._is_changed = False
        if sees_lines:
            sys.addaudithook(self._hear)

    def begin(self) -> None:
        """Look at this thread, and at those that it starts."""
        if self._sees_lines:
            threading.setprofile(self._call_of_c)
            sys.setprofile(self._call_of_c)
        threading.settrace(self._call)
        sys.settrace(self._call)

    def end(self) -> None:
        """Look no more."""
        self._passage.close()
        for trace in (threading.settrace, threading.setprofile, sys.settrace, sys.setprofile):
            trace(None)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event not in _CHANGES and not (event == "open" and _is_for_writing(arguments[2])):
            return
        # It is raised before the change: the next line runs after it, of whatever library that is.
        self._is_changed = True
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and not self._author.wrote(frame.f_code.co_filename):
            frame.f_trace = self._foreign_line
            frame = frame.f_back

    def _call(self, frame: FrameType, _event: str, _argument: object) -> Any:
        code = frame.f_code
        if self._sees_polls and code in _POLLS:
            self._poll(frame)
        return self._own_line if self._sees_lines and self._author.wrote(code.co_filename) else None

    def _call_of_c(self, frame: FrameType, event: str, _argument: object) -> None:
        # `open(path, "w").write(text)` is one line.
        if self._is_changed and event == "c_call" and self._author.wrote(frame.f_code.co_filename):
            self._is_changed = False
            self._passage.note("change", (frame.f_code.co_filename, frame.f_lineno))

    def _is_ours(self, file: str) -> bool:
        return file.startswith(_OURS) and not self._author.wrote(file)

    def _poll(self, frame: FrameType) -> None:
        outer = frame.f_back
        while outer is not None and not self._author.wrote(outer.f_code.co_filename):
            if outer.f_code in _POLLS:  # a poll that polls
                return
            outer = outer.f_back
        self._passage.note("poll", self._author.place_under(outer))

    def _own_line(self, frame: FrameType, event: str, _argument: object) -> Any:
        if event == "line":
            self._is_changed = False
            self._passage.note("line", (frame.f_code.co_filename, frame.f_lineno))
        return self._own_line

    def _foreign_line(self, frame: FrameType, _event: str, _argument: object) -> Any:
        if self._is_changed and not self._is_ours(frame.f_code.co_filename):
            place = self._author.place_under(frame)
            if place is not None:
                self._is_changed = False
                self._passage.note("change", place)
        return self._foreign_line
