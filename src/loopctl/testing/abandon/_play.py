"""One play of the tool, in a process of its own: whole, stopped at a point, or killed at one.

Rules: a play says what it found in a file, after each phase anew, because nobody knows how it ends; what it hangs in is
written by a watchdog that needs neither the loop nor the interpreter.
"""

from __future__ import annotations

import asyncio
import faulthandler
import os
import pickle
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from loopctl.errors import Cancelled, EffectUnknown
from loopctl.store import Ledger
from loopctl.testing.abandon._act import Act, TaskAct, ThreadAct
from loopctl.testing.abandon._left import Left, Look, hear_collected, minus
from loopctl.testing.abandon._points import Author, Passage, Place, Point, Tracer
from loopctl.testing.abandon._state import Expected, State, Verdict, snapshot
from loopctl.tools import TEMPORARY_PREFIX, Tool

__all__ = ["Outcome", "Play", "Setting", "Trouble", "temporaries"]

_PATIENCE = 0.5
"""Seconds, at least, that something may take to finish ending."""


@dataclass(frozen=True)
class Setting:
    """What all plays have in common."""

    tool: Tool
    arguments: Mapping[str, Any]
    author: Author
    function: Callable[..., Any]
    names: Callable[[], Iterable[tuple[str, object]]]
    """What the author's code can reach by name."""
    grace: float
    ignored: Sequence[str]
    accept: Callable[[Path], bool] | None
    patience: float
    """Seconds that a whole run may take."""


@dataclass(frozen=True)
class Trouble:
    """One thing that is wrong after a stop."""

    kind: str
    text: str
    subject: str = ""
    """What it is about; troubles of one kind and subject are one fault."""


@dataclass
class Outcome:
    """What a play has found."""

    phase: Literal["setup", "first", "second", "done"] = "setup"
    is_reached: bool = True
    seconds: float = 0.0
    points: list[Point] = field(default_factory=list)
    modules: list[str] = field(default_factory=list)
    """What a whole run imports of libraries."""
    error: str = ""
    state: State = field(default_factory=dict)
    left: list[Left] = field(default_factory=list)
    left_again: list[Left] = field(default_factory=list)
    temporaries: list[str] = field(default_factory=list)
    troubles: list[Trouble] = field(default_factory=list)
    verdict: Verdict | None = None


class Play:
    """One play, in the process that was made for it."""

    def __init__(self, setting: Setting, root: Path, expected: Expected | None, whole: Outcome | None) -> None:
        """Play in the folder `work` of *root*; *expected* and *whole* are known once the tool was run as a whole."""
        self.outcome = Outcome()
        self._setting = setting
        self._root = root
        self._folder = root / "work"
        self._expected = expected
        self._whole = whole or Outcome()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stack = (root / "stack").open("w")
        self._take_over()

    def _take_over(self) -> None:
        """Make the process one of its own."""
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nothing, descriptor)
        sys.stdout = sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123 - for good
        os.environ["TMPDIR"] = str(self._root / "tmp")
        tempfile.tempdir = str(self._root / "tmp")
        os.chdir(self._folder)
        sys.unraisablehook = lambda _: None
        if self._setting.tool.is_async:
            self._loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self._loop)

    def save(self) -> None:
        """Write down what was found."""
        (self._root / "outcome").write_bytes(pickle.dumps(self.outcome))

    @contextmanager
    def _phase(self, name: Literal["first", "second"], seconds: float) -> Iterator[None]:
        """Bound a part of the play from outside of the interpreter."""
        self.outcome.phase = name
        self.save()
        faulthandler.dump_traceback_later(seconds, exit=True, file=self._stack)
        yield
        faulthandler.cancel_dump_traceback_later()

    def _act(self, passage: Passage, tracer: Tracer | None = None) -> Act:
        setting = self._setting
        if self._loop is not None:
            task = TaskAct(setting.tool, setting.arguments, setting.author, self._ledger(), self._loop)
            task.watch(passage)
            return task
        thread = ThreadAct(setting.tool, setting.arguments, setting.author, self._ledger())
        if tracer is not None:
            thread.trace(tracer)
        return thread

    def _ledger(self) -> Ledger:
        return Ledger(self._root / "ledger.sqlite")  # beside the folder that is compared

    def _look(self) -> Look:
        return Look(self._setting.author, self._setting.names, self._loop)

    # The plays.

    def whole(self, *, sees_lines: bool) -> None:
        """Run the tool as a whole, to learn its points and what it does."""
        passage, known = Passage(), set(sys.modules)
        with self._phase("first", self._setting.patience + self._linger() + 2):
            look = self._look()
            with hear_collected() as collected:
                # Nothing may hold on to the call: its error holds its frames, and they hold what they had opened.
                self._note_failure(self._run(passage, sees_lines=sees_lines))
                self.outcome.left = [*self._settle(look), *collected]
            self.outcome.points = [*passage.seen, *passage.middles()]
            self.outcome.modules = [name for name in list(sys.modules) if name not in known and self._is_library(name)]
            self.outcome.state = snapshot(self._folder, self._setting.ignored)
            self.outcome.temporaries = temporaries(self._root)
        if not self.outcome.error and not sees_lines:
            self._whole_again()

    def _is_library(self, name: str) -> bool:
        file = getattr(sys.modules[name], "__file__", None)
        return isinstance(file, str) and not self._setting.author.wrote(file)

    def _whole_again(self) -> None:
        """Run it once more in the same process: what is left then too is left each time."""
        os.chdir(self._root / "again")
        with self._phase("second", self._setting.patience + self._linger() + 2):
            look = self._look()
            with hear_collected() as collected:
                self._run(Passage())
                self.outcome.left_again = [*self._settle(look), *collected]

    def stop(self, point: Point) -> None:
        """Run the tool, cancel it at *point*, look, and run it again."""
        with self._phase("first", self._budget() + self._grace() + self._linger() + 2):
            self._stop(point)
        if self.outcome.is_reached and not any(trouble.kind == "endless" for trouble in self.outcome.troubles):
            self.again()

    def _stop(self, point: Point) -> None:
        act: Act | None = None
        passage = Passage(point, lambda: act.press() if act is not None else None)
        tracer = self._tracer(passage, sees_lines=False)
        look = self._look()
        with hear_collected() as collected:
            act = self._act(passage, tracer)
            act.begin()
            act.wait(self._budget())
            self.outcome.is_reached = passage.is_reached
            if not passage.is_reached:
                return
            escaped = act.escaped
            if self._end(act):
                act = None  # its error holds its frames, and they hold what they had opened
            left = [*self._settle(look), *collected]
        self.outcome.left = [*minus(left, self._whole.left), *map(_escaped, escaped)]
        self.outcome.troubles += [Trouble(thing.kind, thing.text, thing.alike) for thing in self.outcome.left]
        self.judge()

    def _end(self, act: Act) -> bool:
        """Let it end within its grace, press once more, and note how it took that; say whether it has ended."""
        troubles = self.outcome.troubles
        if not act.wait(self._grace()):
            at = _at(act.place())
            act.press()
            is_ended = act.wait(0)
            how = "and ended only by the second cancel" if is_ended else "and did not end by the second cancel either"
            if not self._setting.tool.is_async:
                how = "though it had been told to stop"
            kind = "slow" if is_ended else "endless"
            troubles.append(Trouble(kind, f"it went on for more than the grace of {self._grace():g} s{at}, {how}"))
            if not is_ended:
                return False
        _, error = act.result()
        if not self._setting.tool.is_async or self._setting.tool.finish_within is not None:
            return True
        if error is None:
            troubles.append(Trouble("swallowed", "it swallowed the cancel, and returned a result"))
        elif not isinstance(error, asyncio.CancelledError | Cancelled):
            text = f"it answered the cancel with {_said(error)}"
            troubles.append(Trouble("odd", text))
        return True

    def die(self, point: Point) -> None:
        """Run the tool and be killed at *point*."""
        passage = Passage(point, lambda: _die(point))
        with self._phase("first", 2 * self._budget()):
            self._run(passage, sees_lines=point.kind in {"line", "change"})
        self.outcome.is_reached = False

    def again(self) -> None:
        """Run it once more where it was abandoned."""
        seconds = self._budget()
        with self._phase("second", seconds + 1):
            act = self._act(Passage())
            act.begin()
            if not act.wait(seconds):
                self.outcome.troubles.append(Trouble("hangs", f"a second run hangs{_at(act.place())}"))
                return
            _, error = act.result()
            if error is not None and not isinstance(error, EffectUnknown):
                at = _at(_place_of(error, self._setting.author))
                text = f"a second run fails{at}: {_said(error)}"
                self.outcome.troubles.append(Trouble("fails", text))
            self._check_second(has_failed=error is not None)

    def _check_second(self, *, has_failed: bool) -> None:
        expected, verdict = self._expected, self.outcome.verdict
        if expected is None or has_failed or verdict == "between" or expected.is_after(self._folder):
            return
        kind = "twice" if verdict == "after" else "differs"
        self.outcome.troubles.append(Trouble(kind, expected.difference(self._folder)))

    def judge(self) -> None:
        """Look at what stands in the folders."""
        assert self._expected is not None
        self.outcome.verdict, problems = self._expected.judge(self._folder)
        self.outcome.troubles += [Trouble(problem.kind, problem.text, problem.path) for problem in problems]
        for name in temporaries(self._root)[len(self._whole.temporaries) :]:
            self.outcome.troubles.append(Trouble("temporary", f"{name} is left in the system's temporary folder"))

    # Their parts.

    def _run(self, passage: Passage, *, sees_lines: bool = False) -> Act:
        tracer = self._tracer(passage, sees_lines=sees_lines)
        act = self._act(passage, tracer)
        started = time.monotonic()
        if self._loop is not None and sees_lines:
            tracer.begin()
        act.begin()
        act.wait(self._setting.patience)
        if self._loop is not None and sees_lines:
            tracer.end()
        passage.close()
        self.outcome.seconds = max(self.outcome.seconds, time.monotonic() - started)
        return act

    def _tracer(self, passage: Passage, *, sees_lines: bool) -> Tracer:
        return Tracer(passage, self._setting.author, sees_lines=sees_lines, sees_polls=not self._setting.tool.is_async)

    def _settle(self, look: Look) -> list[Left]:
        until = time.monotonic() + self._linger()
        pause = 0.001
        while (left := minus(look.left(), self._whole.left)) and time.monotonic() < until:
            if self._loop is not None:
                self._loop.run_until_complete(asyncio.sleep(pause))
            else:
                time.sleep(pause)
            pause = min(0.05, pause * 2)
        return left

    def _note_failure(self, act: Act) -> None:
        if not act.wait(0):
            self.outcome.error = f"it did not end within {self._setting.patience:g} s{_at(act.place())}"
            return
        _, error = act.result()
        if error is not None:
            at = _at(_place_of(error, self._setting.author))
            self.outcome.error = f"it failed{at}: {_said(error)}"

    def _budget(self) -> float:
        """Seconds that a run takes at most, to judge by the first one."""
        return 2 + 5 * self._whole.seconds

    def _linger(self) -> float:
        """Seconds that what is on its way out gets."""
        return max(self._setting.grace, _PATIENCE)

    def _grace(self) -> float:
        finish = self._setting.tool.finish_within
        return self._setting.grace if finish is None else finish


def _die(point: Point) -> None:
    """End the process as `kill -9` does: at once, or in the middle of what takes its time."""
    if point.after:
        signal.setitimer(signal.ITIMER_REAL, point.after)  # nobody handles it, so that it ends the process
    else:
        os.kill(os.getpid(), signal.SIGKILL)


def temporaries(root: Path) -> list[str]:
    """Give what is in the system's temporary folder, as the play sees it."""
    return sorted(path.name for path in (root / "tmp").iterdir() if not path.name.startswith(TEMPORARY_PREFIX))


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".rstrip(": ")


def _at(place: Place | None) -> str:
    return "" if place is None else f" at {Path(place[0]).name}:{place[1]}"


def _place_of(error: BaseException, author: Author) -> Place | None:
    """Give the innermost line of the author's that *error* came through."""
    frames = traceback.walk_tb(error.__traceback__)
    places = [(frame.f_code.co_filename, line) for frame, line in frames if author.wrote(frame.f_code.co_filename)]
    return places[-1] if places else None


def _escaped(straggler: Any) -> Left:
    return Left("process", f"what ctx.run_process ran: {straggler.where}", "process")
