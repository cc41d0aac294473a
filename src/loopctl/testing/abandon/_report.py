"""What a check has found, as data and as text: where the tool was stopped, what was left, how to mend it."""

from __future__ import annotations

import linecache
import os.path
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

__all__ = ["AbandonReport", "Finding", "mend"]

_SHOWN = 5
_WAYS = {"stopped": "stopped at", "killed": "killed at ", "whole": "after a whole run, of"}
_MENDS = {
    "half": "write it whole or not at all: with ctx.atomic_write(path) as file: ...",
    "rows": "do it all in one transaction: commit once, at the end",
    "left": "write with ctx.atomic_write(path), or keep what is temporary in ctx.temp_dir; else remove it in `finally`",
    "lock file": "remove it in `finally`; better, lock with fcntl.flock: the system lets go of that however you end",
    "gone": "do not remove a file before its successor is there: with ctx.atomic_write(path) as file: ...",
    "mixed": "files are not replaced together: write them to a new folder, and last, by ctx.atomic_write, the one that"
    " names it; or do them all in one database transaction",
    "temporary": "keep it in ctx.temp_dir, which goes away with the call, and after a kill with the next one",
    "swallowed": "let asyncio.CancelledError through: tidy up in `finally`, and raise it again if you catch it",
    "odd": "let asyncio.CancelledError through: tidy up in `finally`, and raise it again if you catch it",
    "slow": "let cleanup be short, and bounded: async with asyncio.timeout(0.5); what must not be interrupted is"
    ' @tool(on_cancel="finish", finish_within=seconds)',
    "endless": "let cleanup be short, and bounded: async with asyncio.timeout(0.5); ask ctx.is_cancelled() in each loop"
    " of a plain def, and return then",
    "task": "cancel it in `finally` and await it, or run it in `async with asyncio.TaskGroup()`",
    "thread": "let it ask ctx.is_cancelled(), or wait on ctx.signal.wait(seconds), and join it in `finally`",
    "process": "run it by await ctx.run_process([...]), in an async def: it ends with the call, and with this process",
    "descriptor": "open it in a `with` block, or close it in `finally`",
    "collected": "open it in a `with` block, or close it in `finally`: now only Python's collector closes it",
    "lock": "hold it in a `with` (`async with`) block, or release it in `finally`",
    "folder": "do not change the folder of the process: pass cwd= or whole paths",
    "hangs": "something of the stopped run is still held: a lock, a lock file, a slot. Let it go in `finally`",
    "fails": "let a second run find what the first has left: overwrite it, or use what is there",
    "twice": "do the effect inside of ctx.once(key, function), which does it at most once; or write the whole state by"
    " ctx.atomic_write. If twice is right, say may_repeat=True (--may-repeat)",
    "differs": "let a second run make the whole state anew, whatever the first has left",
    "blocks": "never block the event loop: await asyncio.to_thread(function), or make the tool a plain def",
    "died": "find what calls sys.exit or os._exit there, or crashes: raise an exception instead",
}

How = Literal["stopped", "killed", "whole"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault."""

    how: How
    """What was done to the tool: `stopped` or `killed` at the line, or run as a `whole`."""
    file: str
    line: int
    kind: str
    """One word for it: `half`, `left`, `lock`, `task`, `process`, …"""
    subject: str
    """What it is about: a path, a task, a lock."""
    what: str
    """What is wrong, for a person."""
    mend: str
    """What to do about it."""

    def __str__(self) -> str:
        """One line: where, how, what."""
        return f"{short(self.file)}:{self.line}, {self.how}: {self.what}"


@dataclass(frozen=True, slots=True)
class AbandonReport:
    """What came of a check."""

    tool: str
    file: str
    """Where the tool is defined."""
    line: int
    findings: tuple[Finding, ...]
    """The faults, in the order of the lines; equal ones once."""
    stops: int
    """At how many points it was cancelled."""
    kills: int
    """At how many points it was killed."""
    seconds: float
    notes: tuple[str, ...] = ()
    """What could not be checked, and why."""

    @property
    def is_safe(self) -> bool:
        """True if nothing was found."""
        return not self.findings

    def to_json(self) -> dict[str, Any]:
        """Give it as JSON types."""
        return {**asdict(self), "is_safe": self.is_safe}

    @property
    def faults(self) -> tuple[tuple[Finding, ...], ...]:
        """The findings, those together that are one fault seen at several points."""
        groups: dict[tuple[str, str], list[Finding]] = {}
        for finding in self.findings:
            groups.setdefault((finding.kind, finding.subject), []).append(finding)
        return tuple(map(tuple, groups.values()))

    def __str__(self) -> str:
        """The whole report, for a person."""
        lines = [line for fault in self.faults for line in (*_tell(fault), "")]
        return "\n".join([*lines, self._summary(), *(f"note: {note}" for note in self.notes)])

    def _summary(self) -> str:
        at = f"{self.tool} ({short(self.file)}:{self.line})"
        ways = [f"stopped at {_count(self.stops, 'point')}"] if self.stops else []
        ways += [f"killed at {_count(self.kills, 'point')}"] if self.kills else []
        how = f"{' and '.join(ways) or 'run as a whole'}, in {self.seconds:.1f} s"
        if self.is_safe:
            return f"{at} is safe to abandon: {how}"
        return f"{at} is not safe to abandon: {_count(len(self.faults), 'fault')}; {how}"


def _tell(fault: tuple[Finding, ...]) -> Iterator[str]:
    """Tell of one fault: what, where, how to mend it."""
    yield fault[0].what
    for how in dict.fromkeys(finding.how for finding in fault):
        yield f"  {_WAYS[how]} {_places([finding for finding in fault if finding.how == how])}"
    yield f"  mend: {fault[0].mend}"


def _places(findings: list[Finding]) -> str:
    places = list(dict.fromkeys((finding.file, finding.line) for finding in findings))
    (file, line), others = places[0], sorted(places[1:])
    code = linecache.getline(file, line).strip()
    first = f"{short(file)}:{line}" + (f"  {code}" if code else "")
    if not others:
        return first
    shown = ", ".join(str(at) if name == file else f"{short(name)}:{at}" for name, at in others[:_SHOWN])
    more = f" and {len(others) - _SHOWN} more" if len(others) > _SHOWN else ""
    return f"{first}\n    (also at line{'s' if len(others) > 1 else ''} {shown}{more})"


def mend(kind: str, what: str) -> str:
    """Say what to do about a fault of *kind*."""
    if kind == "left" and ".lock" in what:
        return _MENDS["lock file"]
    return _MENDS[kind]


def short(file: str) -> str:
    """Give the path of *file* as one would type it here."""
    here = os.path.join(os.getcwd(), "")  # noqa: PTH109, PTH118 - a prefix of a text, not a path
    return file.removeprefix(here) if file.startswith(here) else str(Path(file))


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"
