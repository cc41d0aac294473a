"""Plays the tool again and again, each time abandoned at another point, and gathers what was found."""

from __future__ import annotations

import gc
import importlib
import os
import pickle
import re
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from loopctl.testing.abandon._left import Left, minus
from loopctl.testing.abandon._play import Outcome, Play, Setting, Trouble, temporaries
from loopctl.testing.abandon._points import Point
from loopctl.testing.abandon._processes import Herd
from loopctl.testing.abandon._report import Finding, How, mend
from loopctl.testing.abandon._state import Expected, snapshot

__all__ = ["Stage", "Told"]

Files = Mapping[str, str | bytes] | Path | None

_TRIES = 3
"""A point that depends on real I/O may not come up each time."""
_PER_LINE = 3
"""Times that a line is killed at: the first two and the last."""
_FRAME = re.compile(r'File "([^"]+)", line (\d+) in (\S+)')


@dataclass
class Told:
    """What the stage tells whoever asked for the check."""

    error: str = ""
    """Why nothing could be checked."""
    findings: list[Finding] = field(default_factory=list)
    stops: int = 0
    kills: int = 0
    notes: list[str] = field(default_factory=list)


class Stage:
    """All plays of one check."""

    def __init__(self, setting: Setting, files: Files, herd: Herd, show: Callable[[int, int], object]) -> None:
        """Fork the plays by *herd*; *show* is told how many are done, and of how many."""
        self._setting = setting
        self._files = files
        self._herd = herd
        self._show = show
        self._told = Told()
        self._base = Path(tempfile.mkdtemp(prefix="loopctl-check-")).resolve()
        self._linger = 2 * max(setting.grace, 0.5)
        """Seconds that the processes of a play get to end by themselves."""
        self._plays = 0
        self._whole = Outcome()
        self._expected: Expected | None = None

    def run(self, modes: Sequence[str], limit: int, *, may_repeat: bool) -> Told:
        """Play them all.

        Args:
            modes: `cancel`, `kill`, or both.
            limit: Points of each mode, at most.
            may_repeat: An effect may be there twice after a second run.
        """
        try:
            kills = self._learn()
            if self._told.error:
                return self._told
            plan = [(self._stop, point) for point in self._stops(limit)] if "cancel" in modes else []
            plan += [(self._kill, point) for point in self._kills(kills, limit)] if "kill" in modes else []
            for number, (play, point) in enumerate(plan):
                self._show(number, len(plan))
                play(point)
            self._told.findings = list(_once(self._told.findings, may_repeat=may_repeat))
            return self._told
        finally:
            self._herd.end_all()
            shutil.rmtree(self._base, ignore_errors=True)

    # What the tool does if nobody stops it.

    def _learn(self) -> list[Point]:
        """Run it as a whole, twice; give the points of the second time, which sees each line."""
        root = self._root()
        before = snapshot(root / "work", self._setting.ignored)
        self._whole = self._play(root, lambda play: play.whole(sees_lines=False))
        if self._whole.error:
            self._told.error = self._whole.error
            return []
        _warm(self._whole.modules)
        seen = self._play(self._root(), lambda play: play.whole(sees_lines=True))
        if seen.error:
            self._told.error = f"a second run of its own differs from the first: {seen.error}"
            return []
        afters = [self._whole.state, seen.state]
        self._expected = Expected(before, afters, self._setting.accept, self._setting.ignored)
        if self._expected.varying:
            names = ", ".join(sorted(self._expected.varying)[:3])
            self._note(f"{names} differs from one whole run to the next: its content was not compared")
        self._judge_whole()
        return seen.points

    def _judge_whole(self) -> None:
        """What one run leaves may be a pool; what each run leaves is a leak."""
        first, again = self._whole.left, self._whole.left_again
        each_time = minus(again, minus(again, first))
        self._whole.left = [*minus(first, each_time), *each_time]
        self._add("whole", None, [Trouble(left.kind, left.text, left.alike) for left in each_time])
        texts = [f"{name} is left in the system's temporary folder" for name in self._whole.temporaries]
        self._add("whole", None, [Trouble("temporary", text) for text in texts])

    # The points.

    def _stops(self, limit: int) -> list[Point]:
        if self._setting.tool.isolation == "process":
            self._note("it has a process of its own, which a stop kills: it was killed only, and not stopped")
            return []
        kinds = {"await"} if self._setting.tool.is_async else {"poll"}
        points = [point for point in self._whole.points if point.kind in kinds and not point.after]
        if not points:
            self._note(
                "it never awaits, so that a stop cannot come in between"
                if self._setting.tool.is_async
                else "it never asks ctx.is_cancelled() or waits on ctx.signal: a stop cannot reach it, and the run goes"
                " on without it"
            )
        return self._sample(points, limit, "stopped")

    def _kills(self, traced: list[Point], limit: int) -> list[Point]:
        awaits = [point for point in self._whole.points if point.kind == "await"]
        lines = [point for point in traced if point.kind != "await"]
        last = {(point.kind, point.file, point.line): point.nth for point in lines}
        some = [p for p in lines if p.nth < _PER_LINE or p.nth == last[p.kind, p.file, p.line]]
        return self._sample(awaits + some, limit, "killed")

    def _sample(self, points: list[Point], limit: int, done: str) -> list[Point]:
        if len(points) <= limit:
            return points
        self._note(f"of its {len(points)} points, {limit} were {done} at: raise the limit for more, or give less input")
        step = (len(points) - 1) / max(1, limit - 1)
        return [points[round(index * step)] for index in range(limit)]

    # The plays.

    def _stop(self, point: Point) -> None:
        for _ in range(_TRIES):
            outcome = self._play(self._root(), lambda play: play.stop(point))
            if outcome.is_reached:
                break
        else:
            self._unreached(point)
            return
        self._told.stops += 1
        known = {left.pid for left in outcome.left}
        escaped = [left for left in self._herd.left(self._linger) if left.pid not in known and left.pid]
        self._add("stopped", point, [*outcome.troubles, *_of_processes(escaped)])

    def _kill(self, point: Point) -> None:
        for attempt in range(_TRIES):
            root = self._root()
            sooner = replace(point, after=point.after / 2**attempt)
            outcome = self._play(root, partial(Play.die, point=sooner))
            if outcome.is_reached:
                break
        else:
            self._unreached(point)
            return
        self._told.kills += 1
        troubles = [*outcome.troubles, *_of_processes(self._herd.left(self._linger))]
        assert self._expected is not None
        verdict, problems = self._expected.judge(root / "work")
        troubles += [Trouble(problem.kind, problem.text, problem.path) for problem in problems]
        for name in temporaries(root)[len(self._whole.temporaries) :]:
            troubles.append(Trouble("temporary", f"{name} is left in the system's temporary folder"))

        def again(play: Play) -> None:
            play.outcome.verdict = verdict
            play.again()

        troubles += self._play(root, again).troubles
        self._herd.end_all()
        self._add("killed", point, troubles)

    def _play(self, root: Path, script: Callable[[Play], object]) -> Outcome:
        def work() -> None:
            play = Play(self._setting, root, self._expected, self._whole)
            script(play)
            play.outcome.phase = "done"
            play.save()

        outcome_file = root / "outcome"
        outcome_file.unlink(missing_ok=True)
        code = self._herd.run(work, 60 + 2 * self._setting.patience)
        outcome: Outcome = pickle.loads(outcome_file.read_bytes()) if outcome_file.exists() else Outcome()  # noqa: S301 - of our own fork
        if outcome.phase == "done":
            return outcome
        if code in {-signal.SIGKILL, -signal.SIGALRM}:
            outcome.is_reached = True
            return outcome
        self._explain(outcome, root, code)
        return outcome

    def _explain(self, outcome: Outcome, root: Path, code: int | None) -> None:
        """Note why a play has not come to its end."""
        stack = (root / "stack").read_text() if (root / "stack").exists() else ""
        frames = [(file, line) for file, line, _ in _FRAME.findall(stack) if self._setting.author.wrote(file)]
        at = f" at {Path(frames[0][0]).name}:{frames[0][1]}" if frames else ""
        if not stack:
            outcome.error = f"it ended its process, with exit code {code}"
            outcome.troubles.append(Trouble("died", outcome.error))
        elif outcome.phase == "second":
            outcome.troubles.append(Trouble("hangs", f"a second run hangs{at}, and blocks its thread"))
        else:
            outcome.error = f"it blocks its thread{at}"
            outcome.troubles.append(Trouble("blocks", outcome.error))

    def _root(self) -> Path:
        """Make the folders of one play."""
        self._plays += 1
        root = self._base / str(self._plays)
        for name in ("work", "again", "tmp"):
            (root / name).mkdir(parents=True)
        for name in ("work", "again"):
            _fill(root / name, self._files)
        return root

    # What is told.

    def _add(self, how: How, point: Point | None, troubles: Iterable[Trouble]) -> None:
        code = self._setting.function.__code__ if hasattr(self._setting.function, "__code__") else None
        file, line = (code.co_filename, code.co_firstlineno) if code is not None else ("", 0)
        if point is not None:
            file, line = point.file, point.line
        for trouble in troubles:
            what = _words(trouble)
            words = what, mend(trouble.kind, what)
            self._told.findings.append(Finding(how, file, line, trouble.kind, trouble.subject, *words))

    def _unreached(self, point: Point) -> None:
        if point.after:  # this time it did not take so long
            return
        times = f"{point.nth} time{'' if point.nth == 1 else 's'}"
        self._note(f"{Path(point.file).name}:{point.line} was not passed {times} again: not checked there")

    def _note(self, text: str) -> None:
        if text not in self._told.notes:
            self._told.notes.append(text)


def _warm(modules: Iterable[str]) -> None:
    """Import what each play would import by itself, at the same price each time."""
    for name in modules:
        with suppress(Exception):  # then the play finds out
            importlib.import_module(name)
    gc.freeze()


def _words(trouble: Trouble) -> str:
    text = trouble.text
    if trouble.kind == "twice":
        return f"its effect was done; a second run does it once more: {text}"
    if trouble.kind == "differs":
        return f"a second run does not lead to what a whole run leads to: {text}"
    if trouble.kind == "mixed":
        return f"not all or nothing: {text}"
    if trouble.kind in {"task", "thread", "process", "descriptor"}:
        return f"{text} is left" if trouble.kind != "process" else f"{text} still runs"
    return text


def _of_processes(found: Iterable[Left]) -> list[Trouble]:
    return [Trouble("process", left.text, left.alike) for left in found]


def _once(findings: Iterable[Finding], *, may_repeat: bool) -> Iterator[Finding]:
    seen: set[object] = set()
    kept = [finding for finding in findings if not (may_repeat and finding.kind == "twice")]
    for finding in kept:
        key = (finding.how, finding.file, finding.line, finding.kind, finding.subject)
        if key not in seen:
            seen.add(key)
            yield finding


def _fill(folder: Path, files: Files) -> None:
    if isinstance(files, Path):
        shutil.copytree(files, folder, symlinks=True, dirs_exist_ok=True)
        return
    for name, content in (files or {}).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        os.utime(path, (0, 0))
