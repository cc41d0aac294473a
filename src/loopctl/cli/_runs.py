"""`loopctl runs` and `loopctl sessions`: what a store knows, for people as a table and for programs as JSON.

Rules: stdout carries the table, or the JSON, and nothing else; what is not known is not shown as if it were.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from time import localtime, strftime

from loopctl.cli._exit import COMPLETED
from loopctl.cli._options import RunsOptions, SessionsOptions
from loopctl.cli._screen import Screen, shorten
from loopctl.errors import UsageError
from loopctl.store import Store, StoredRun

__all__ = ["default_store", "made_default_store", "runs", "sessions"]

_ID = 12
"""Characters of a run's id that a table shows: its beginning is enough for `loopctl runs show`."""
_NAME = 40
"""Characters of a session's id: people give them."""
_WORDS = 60
"""Characters of what a person said."""


def default_store() -> Path:
    """Give the store of who names none."""
    state = os.environ.get("XDG_STATE_HOME", "")
    base = Path(state) if os.path.isabs(state) else Path.home() / ".local" / "state"  # noqa: PTH117 - a text
    return base / "loopctl" / "store.db"


def made_default_store() -> Path:
    """Give the store of who names none, its folder made, for its owner alone.

    Raises:
        UsageError: It cannot be made.
    """
    file = default_store()
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{file.parent} cannot be made: {error.strerror}. Give --store FILE") from error
    return file


def runs(options: RunsOptions) -> int:
    """Show the newest runs, or one.

    Returns:
        The exit code.

    Raises:
        UsageError: There is no store, or no such run.
        StoreError: It cannot be used.
    """
    store = _store(options.store)
    for given in (options.run, options.session):
        if given is not None and (not given or not _is_text(given)):
            raise UsageError(f"{given!r} is no id: loopctl runs and loopctl sessions list them")
    if options.run is not None:
        found = store.find(options.run)
        if found is None:
            raise UsageError(f"there is no run {options.run!r} in {store.path}: loopctl runs lists them")
        return _print(found.to_json()) if options.is_json else _show(found)
    newest = store.runs(options.limit, session=options.session, outcome=options.outcome)
    if options.is_json:
        return _print([run.to_json() for run in newest])
    rows = [
        (
            run.id[:_ID],
            _time(run.started_at),
            _took(run),
            run.outcome,
            shorten(run.session_id, _NAME),
            shorten(run.input, _WORDS),
        )
        for run in newest
    ]
    return _table(("run", "started", "took", "outcome", "session", "input"), rows)


def sessions(options: SessionsOptions) -> int:
    """Show the sessions that were used last.

    Returns:
        The exit code.

    Raises:
        UsageError: There is no store.
        StoreError: It cannot be used.
    """
    found = _store(options.store).sessions(options.limit)
    if options.is_json:
        return _print([session.to_json() for session in found])
    rows = [
        (
            shorten(session.id, _NAME),
            _time(session.used_at),
            str(session.run_count),
            "" if session.pid is None else f"process {session.pid}",
            shorten(session.title, _WORDS),
        )
        for session in found
    ]
    return _table(("session", "last used", "runs", "open in", "title"), rows)


def _is_text(given: str) -> bool:
    """True unless it holds a stray byte, as a terminal may send: no id does."""
    return given.encode(errors="replace").decode() == given


def _store(path: str | None) -> Store:
    file = Path(path) if path is not None else default_store()
    if not file.exists():
        raise UsageError(f"there is no store {file}: give --store FILE, or begin one by loopctl chat --session NAME")
    return Store(file)


def _print(value: object) -> int:
    Screen(sys.stdout, os.environ).line(json.dumps(value))
    return COMPLETED


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> int:
    every = list(rows)
    if not every:
        Screen(sys.stderr, os.environ).tell("There is nothing yet.", "dim")
        return COMPLETED
    out = Screen(sys.stdout, os.environ)
    widths = [max(map(len, column)) for column in zip(heads, *every, strict=True)]
    for row in ([head.upper() for head in heads], *every):
        out.row("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    return COMPLETED


def _show(run: StoredRun) -> int:
    out = Screen(sys.stdout, os.environ)
    out.line(f"{run.id}  {run.outcome}{' (adopted)' if run.is_adopted else ''}", "bold")
    out.line(f"session   {shorten(run.session_id, 10 * _WORDS)}")
    out.line(f"started   {_time(run.started_at)} in process {run.pid}")
    out.line(f"took      {_took(run) or 'not known: nobody saw its end'}")
    out.line(f"input     {shorten(run.input, 10 * _WORDS)}")
    record = run.record or {}
    stop = record.get("stop")
    if stop is not None:
        reason = ": ".join(part for part in (stop["reason"]["origin"], stop["reason"]["message"]) if part)
        out.line(f"stopped   {reason}, at {stop['checkpoint']} after {stop['latency'] * 1000:.0f} ms", "yellow")
    for call in run.calls:
        late = ", late" if call.is_late else ""
        result = "" if call.result is None else f"  {shorten(call.result, _WORDS)}"
        out.row(f"call      {call.name} {json.dumps(dict(call.arguments))}  {call.status}{late}{result}")
    for name, title in (("output", "output"), ("partial_text", "partial")):
        if record.get(name):
            out.line(f"{title:<9} {shorten(record[name], 10 * _WORDS)}")
    if record.get("error") is not None and stop is None:
        out.line(f"error     {shorten(record['error']['message'], 10 * _WORDS)}", "red")
    return COMPLETED


def _time(at: float) -> str:
    return strftime("%Y-%m-%d %H:%M:%S", localtime(at))


def _took(run: StoredRun) -> str:
    return "" if run.ended_at is None else f"{run.ended_at - run.started_at:.1f} s"
