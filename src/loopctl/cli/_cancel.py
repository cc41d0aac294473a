"""`loopctl cancel`: stop runs of this user's processes on this machine, by their id.

Rules: stdout carries one line for each run, stderr nothing but what was called wrongly; the code says what became of
them, of several the largest.
"""

from __future__ import annotations

import os
import re
import sys
from functools import partial

from loopctl.cli._events import json_line
from loopctl.cli._options import CancelOptions
from loopctl.cli._others import Others, asked
from loopctl.cli._ps import short_ids
from loopctl.cli._report import WHERE, milliseconds
from loopctl.cli._screen import Screen, put
from loopctl.concurrency import together
from loopctl.control import Receipt, requester
from loopctl.errors import UsageError
from loopctl.record import CancelReason, Urgency

__all__ = ["cancel_runs"]

_WHOLE = re.compile(r"run_[0-9a-f]{32}")
_CODES = {"ended": 0, "cancelling": 1, "already_ended": 3, "unknown": 4}
_AT_ONCE = 16


async def cancel_runs(options: CancelOptions) -> int:
    """Cancel the runs that *options* name.

    Returns:
        The exit code.

    Raises:
        UsageError: A beginning of an id is that of several runs, or the folder of the sockets cannot be trusted.
        LoopError: The server cannot be reached, or says no.

    Cancellation:
        Ends the wait. What was cancelled stays cancelled.
    """
    reason = CancelReason("user", options.reason, requester("loopctl cancel"))
    async with asked(options.server) as others:
        run_ids = await _chosen(options, others)
        works = [partial(others.cancel, run_id, reason, Urgency[options.urgency.upper()]) for run_id in run_ids]
        receipts = await together(works, limit=_AT_ONCE, name="loopctl cancel")
    out = Screen(sys.stdout, os.environ)
    short = short_ids(run_ids)
    for receipt in receipts:
        if options.is_json:
            put(sys.stdout, json_line(receipt.to_json()))
        else:
            out.tell(f"{short[receipt.run_id]}: {said(receipt)}")
    if not receipts:
        Screen(sys.stderr, os.environ).line("No runs.", "dim")
    return max((_CODES[receipt.state] for receipt in receipts), default=0)


async def _chosen(options: CancelOptions, others: Others) -> list[str]:
    """Give the ids that *options* mean, each once."""
    if not options.is_all and all(map(_WHOLE.fullmatch, options.runs)):
        return list(dict.fromkeys(options.runs))
    there = [run.id for process in await others.list_processes() for run in process.runs]
    if options.is_all:
        return there
    return list(dict.fromkeys(resolve(text, there) for text in options.runs))


def resolve(text: str, there: list[str]) -> str:
    """Give the id of the run that *text* begins, among those that are *there*; *text* itself if it begins none.

    Raises:
        UsageError: It begins several, or is empty, as a variable of a shell that is not set.
    """
    if not text:
        raise UsageError("the id of a run is empty: loopctl ps lists them")
    found = [run_id for run_id in there if text in there or run_id.startswith((text, f"run_{text}"))]
    if text in there or not found:
        return text
    if len(found) > 1:
        raise UsageError(f"{text} begins the ids of {len(found)} runs: {', '.join(short_ids(found).values())}")
    return found[0]


def said(receipt: Receipt) -> str:
    """Say what *receipt* says."""
    match receipt.state:
        case "ended" if receipt.stop is not None:
            stop = receipt.stop
            left = ", ".join(straggler.name for straggler in stop.stragglers)
            still = f"; still running: {left}" if left else ""
            return (
                f"stopped {WHERE[stop.checkpoint]} [{stop.checkpoint.name}] after {milliseconds(stop.latency)}{still}"
            )
        case "ended":
            return "stopped"
        case "cancelling":
            blocked = f": the event loop is blocked at {receipt.blocked_at}"
            next_move = blocked if receipt.blocked_at else ". --urgency abandon waits for nothing"
            return f"told to stop, and has not ended yet{next_move}"
        case "already_ended":
            return f"had ended before: {receipt.outcome or 'its record is being written'}"
        case "unknown":
            silent = ", ".join(map(str, receipt.silent))
            where = f"; process {silent} does not answer, it may be there and stop when that goes on" if silent else ""
            return f"no such run goes on here{where}. loopctl ps lists them"
