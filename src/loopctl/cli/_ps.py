"""`loopctl ps`: the runs that go on in this user's processes on this machine.

Rules: stdout carries the runs and nothing else, stderr who did not answer; the code is 0 if everybody did.
"""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Iterable

from loopctl.cli._events import json_line
from loopctl.cli._exit import COMPLETED, FAILED
from loopctl.cli._options import PsOptions
from loopctl.cli._others import asked
from loopctl.cli._report import WHERE
from loopctl.cli._screen import Screen, put
from loopctl.concurrency import epoch
from loopctl.control import LiveProcess
from loopctl.record import Checkpoint, RunStatus

__all__ = ["ps", "short_ids", "silence_line"]

_SHORTEST = len("run_") + 8
"""Characters of an id, at least: so many tell runs apart that will be there tomorrow, too."""
_SESSION = len("session_") + 12
_MINUTE, _HOUR, _DAY = 60, 3600, 86400


async def ps(options: PsOptions) -> int:
    """Show the runs.

    Returns:
        The exit code.

    Raises:
        UsageError: The folder of the sockets cannot be trusted.
        LoopError: The server cannot be reached, or says no.

    Cancellation:
        Leaves the questions.
    """
    async with asked(options.server) as others:
        processes = await others.list_processes()
    runs = [run for process in processes for run in process.runs]
    silent = [process for process in processes if process.problem]
    if options.is_json:
        unanswered = [{"pid": process.pid, "problem": process.problem} for process in silent]
        put(sys.stdout, json_line({"runs": [run.to_json() for run in runs], "silent": unanswered}))
        return FAILED if silent else COMPLETED
    notes, out = Screen(sys.stderr, os.environ), Screen(sys.stdout, os.environ)
    if not runs and not silent:
        notes.line("No runs.", "dim")
    for line in table(runs, epoch()):
        is_more = line.startswith(" ")
        if is_more and out.is_terminal:
            out.line(wrapped(line, shutil.get_terminal_size().columns), "dim")
        else:
            out.row(line)
    for process in silent:
        notes.tell(f"loopctl: {silence_line(process)}", "yellow")
    return FAILED if silent else COMPLETED


def table(runs: list[RunStatus], now: float) -> list[str]:
    """Give the lines that show *runs*, as of *now* (epoch seconds): two for each, more if it is being stopped."""
    short = short_ids(run.id for run in runs)
    width = max(map(len, short.values()), default=0)
    lines = [f"{'RUN':<{width}}  STATE     AGE     TURN  NOW"] if runs else []
    for run in runs:
        age = age_of(now - run.started_at)
        lines.append(f"{short[run.id]:<{width}}  {run.state:<8}  {age:<6}  {run.turn:>4}  {place_of(run)}")
        lines += [f"{'':<{width}}  {more}" for more in _more(run)]
    return lines


def _more(run: RunStatus) -> list[str]:
    lines = [f"{run.command} (pid {run.pid}) · {run.model} · {run.session_id[:_SESSION]}"]
    if run.stopping is not None:
        lines.append(f"stopping: {run.stopping}")
    if run.blocked_at:
        lines.append(f"the event loop is blocked at {run.blocked_at}")
    return lines


def wrapped(line: str, columns: int) -> str:
    """Break *line* between words, each part as far from the left as the first."""
    indent = " " * (len(line) - len(line.lstrip()))
    return textwrap.fill(line, columns, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def place_of(run: RunStatus) -> str:
    """Say what *run* is doing."""
    tools = ", ".join(run.tools)
    match run.checkpoint:
        case Checkpoint.TOOL_CALL if tools:
            return f"in the tool {tools}" if len(run.tools) == 1 else f"in the tools {tools}"
        case Checkpoint.APPROVAL if tools:
            return f"{WHERE[run.checkpoint]} of {tools}"
    return WHERE[run.checkpoint]


def age_of(seconds: float) -> str:
    """Give a time for people, in six columns at most."""
    whole = max(0, int(seconds))
    if whole < _MINUTE:
        return f"{whole}s"
    if whole < _HOUR:
        return f"{whole // _MINUTE}m{whole % _MINUTE:02}s"
    if whole < _DAY:
        return f"{whole // _HOUR}h{whole % _HOUR // _MINUTE:02}m"
    return f"{whole // _DAY}d{whole % _DAY // _HOUR:02}h"


def short_ids(ids: Iterable[str]) -> dict[str, str]:
    """Give the beginning of each of *ids* that tells it from the others."""
    every, length = sorted(set(ids)), _SHORTEST
    while len({run_id[:length] for run_id in every}) < len(every):
        length += 1
    return {run_id: run_id[:length] for run_id in every}


def silence_line(process: LiveProcess) -> str:
    """Say that nothing is known of the runs of *process*."""
    return f"process {process.pid} does not answer ({process.problem}): what runs there is not known"
