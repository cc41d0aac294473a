"""What a folder holds, as data; and whether that is the state before, the state after, or something between.

Rules: names, kinds and contents count; ages, owners and permissions do not. Marked temporary files of ours do not, as
the next write removes them; nor do folders with nothing in them, unless a whole run makes or removes one. A SQLite
database is its rows: what a crash leaves beside it is part of how it works.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Literal, TypeAlias

from loopctl.tools import TEMPORARY_PREFIX

__all__ = ["Content", "Expected", "Problem", "State", "Verdict", "snapshot"]

_KEPT = 4_000_000
_SQLITE = b"SQLite format 3\0"
_NOTHING = hashlib.sha256(b"").hexdigest()
_NO_ROWS = hashlib.sha256(b"BEGIN TRANSACTION;\nCOMMIT;").hexdigest()
_COMPANIONS = ("-journal", "-wal", "-shm")

Verdict: TypeAlias = Literal["before", "after", "declared", "between"]


@dataclass(frozen=True, slots=True)
class Content:
    """What stands under one name."""

    kind: Literal["file", "folder", "link", "database", "other"]
    size: int = 0
    digest: str = ""
    beginning: bytes = b""
    """All of it, if it is not too long."""

    def __eq__(self, other: object) -> bool:
        """Compare without the beginning."""
        if not isinstance(other, Content):
            return NotImplemented
        return (self.kind, self.size, self.digest) == (other.kind, other.size, other.digest)

    def __hash__(self) -> int:
        return hash((self.kind, self.size, self.digest))


State: TypeAlias = dict[str, Content]
"""By the path in the folder."""


def snapshot(folder: Path, ignored: Sequence[str] = ()) -> State:
    """Read *folder*, but for the names that match a pattern of *ignored*."""
    state: State = {}
    for parent, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if _counts(name, ignored)]
        here = Path(parent)
        is_empty = not folders and not any(_counts(name, ignored) for name in files)
        if is_empty and here != folder:
            state[here.relative_to(folder).as_posix()] = Content("folder")
        for name in files:
            if _counts(name, ignored):
                content = _read(here / name)
                if content is not None:
                    state[(here / name).relative_to(folder).as_posix()] = content
    return _without_companions(state)


def _counts(name: str, ignored: Sequence[str]) -> bool:
    return not name.startswith(TEMPORARY_PREFIX) and not any(fnmatch(name, pattern) for pattern in ignored)


def _read(path: Path) -> Content | None:
    if path.is_symlink():
        return Content("link", digest=str(path.readlink()))
    if not path.is_file():
        return Content("other") if path.exists() else None
    try:
        data = path.read_bytes()
    except FileNotFoundError:  # what was left running has removed it just now
        return None
    if data.startswith(_SQLITE):
        rows = _rows(path)
        if rows is not None:
            return Content("database", 0, hashlib.sha256(rows).hexdigest())
    return Content("file", len(data), hashlib.sha256(data).hexdigest(), data[:_KEPT])


def _rows(path: Path) -> bytes | None:
    """Give what a database holds; None if it cannot be read."""
    try:
        with closing(sqlite3.connect(path, timeout=1)) as database:
            return "\n".join(database.iterdump()).encode()
    except sqlite3.Error:
        return None


def _without_companions(state: State) -> State:
    mains = {path for path, content in state.items() if content.kind == "database" or not content.size}
    beside = {main + suffix for main in mains for suffix in _COMPANIONS}
    return {path: content for path, content in state.items() if path not in beside}


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is between."""

    kind: Literal["half", "rows", "left", "gone", "mixed"]
    path: str
    text: str


class Expected:
    """The state before, the state after, and what differs from one whole run to the next."""

    def __init__(
        self, before: State, afters: Sequence[State], accept: Callable[[Path], bool] | None, ignored: Sequence[str]
    ) -> None:
        """Take *afters* of whole runs, each for itself from the state *before*."""
        self.before = before
        self.after = afters[0]
        self.ignored = ignored
        self._accept = accept
        paths = set().union(*afters)
        self.varying = {path for path in paths if any(after.get(path) != self.after.get(path) for after in afters)}
        sizes = {path: {after[path].size if path in after else -1 for after in afters} for path in self.varying}
        self._sizes = {path: found.pop() for path, found in sizes.items() if len(found) == 1}

    def judge(self, folder: Path) -> tuple[Verdict, list[Problem]]:
        """Say what *folder* holds, and what of it is between."""
        found = snapshot(folder, self.ignored)
        if self._is(self.before, found):
            return "before", []
        if self._is(self.after, found):
            return "after", []
        if self._accept is not None and self._accept(folder):
            return "declared", []
        paths = sorted(set(found) | set(self.before) | set(self.after))
        problems = [problem for path in paths for problem in self._problems(path, found)]
        return "between", problems or [Problem("mixed", "", self._mixture(found))]

    def is_after(self, folder: Path) -> bool:
        """Say whether *folder* holds what a whole run leaves, or what the author declared."""
        found = snapshot(folder, self.ignored)
        return self._is(self.after, found) or (self._accept is not None and self._accept(folder))

    def difference(self, folder: Path) -> str:
        """Name what in *folder* is not as after a whole run."""
        found = snapshot(folder, self.ignored)
        paths = sorted(set(found) | set(self.after))
        wrong = [path for path in paths if not self._fits(path, self.after, found)]
        return ", ".join(
            f"{path} ({_size(found.get(path))} instead of {_size(self.after.get(path))})" for path in wrong
        )

    def _is(self, wanted: State, found: State) -> bool:
        return all(self._fits(path, wanted, found) for path in set(wanted) | set(found))

    def _fits(self, path: str, wanted: State, found: State) -> bool:
        expected, there = wanted.get(path), found.get(path)
        if there is not None and there.kind == "folder" and expected is None:
            # Part of the way to a file that is there before or after.
            return any(name.startswith(f"{path}/") for name in (*self.before, *self.after)) or path in self.varying
        if there is not None and expected is None and self._is_new_database(path, there):
            return True
        if path in self.varying and wanted is self.after:
            return there is None or there.size == self._sizes.get(path, there.size)
        return expected == there

    def _is_new_database(self, path: str, there: Content) -> bool:
        """Say whether it is a database that was made and not written yet: for a reader, that is none."""
        is_empty = there in (Content("file", digest=_NOTHING), Content("database", digest=_NO_ROWS))
        return is_empty and any(path in state and state[path].kind == "database" for state in (self.before, self.after))

    def _problems(self, path: str, found: State) -> list[Problem]:
        if self._fits(path, self.before, found) or self._fits(path, self.after, found):
            return []
        there, old, new = found.get(path), self.before.get(path), self.after.get(path)
        if there is None:
            return [Problem("gone", path, f"{path} is gone")]
        if old is None and new is None:
            return [Problem("left", path, f"{path} ({_size(there)}) is left, which is there neither before nor after")]
        if there.kind == "database":
            return [Problem("rows", path, f"{path} holds rows that it holds neither before nor after")]
        return [Problem("half", path, f"{path} {_partly(there, old, new)}")]

    def _mixture(self, found: State) -> str:
        changed = [path for path in sorted(set(self.before) | set(self.after)) if self._changes(path)]
        new = [path for path in changed if self._fits(path, self.after, found)]
        old = [path for path in changed if path not in new]
        return f"{_names(new)} as after, but {_names(old)} as before"

    def _changes(self, path: str) -> bool:
        return self.before.get(path) != self.after.get(path)


def _partly(there: Content, old: Content | None, new: Content | None) -> str:
    """Say what a file is that is neither the old one nor the new one."""
    if there.size == 0:
        return f"is empty (before: {_size(old)}, after: {_size(new)})"
    for whole in filter(None, (new, old)):
        if there.size < whole.size and whole.beginning[: there.size] == there.beginning:
            return f"is half written: the first {there.size} of {whole.size} bytes"
    return f"is neither the old one ({_size(old)}) nor the new one ({_size(new)}): {_size(there)}"


def _size(content: Content | None) -> str:
    if content is None:
        return "not there"
    if content.kind != "file":
        return f"a {content.kind}"
    return f"{content.size} byte{'' if content.size == 1 else 's'}"


def _names(paths: Sequence[str]) -> str:
    shown = ", ".join(paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")  # noqa: PLR2004
    return f"{shown} {'is' if len(paths) == 1 else 'are'}"
