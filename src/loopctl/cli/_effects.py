"""`loopctl effects`: which effects are unknown, and what a person says of one.

Rules: stdout carries one line for each unknown effect and nothing else; a key is shown as it is typed.
"""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from time import localtime, strftime

from loopctl.cli._exit import COMPLETED
from loopctl.cli._options import EffectsOptions
from loopctl.cli._report import one_line
from loopctl.cli._screen import Screen
from loopctl.errors import UsageError
from loopctl.store import Effect, Ledger

__all__ = ["effects"]


def effects(options: EffectsOptions) -> int:
    """Show the unknown effects of a store, or resolve one.

    Returns:
        The exit code.

    Raises:
        UsageError: There is no store, or the key is not unknown.
        StoreError: It cannot be used.
    """
    if not Path(options.store).exists():
        raise UsageError(f"there is no store {options.store!r}: name the file that --store was given")
    ledger = Ledger(options.store)
    said = options.resolution
    if said is not None:
        ledger.resolve(said.key, done=said.is_done, result=said.result)
        told = "is done" if said.is_done else "is not done: the next call does it"
        Screen(sys.stderr, os.environ).tell(f"{shlex.quote(said.key)} {told}.")
        return COMPLETED
    unknown = ledger.unknown()
    if not unknown:
        Screen(sys.stderr, os.environ).tell("Nothing is unknown.", "dim")
    out = Screen(sys.stdout, os.environ)
    for effect in unknown:
        out.line(_line(effect))
    return COMPLETED


def _line(effect: Effect) -> str:
    begun = strftime("%Y-%m-%d %H:%M:%S", localtime(effect.begun_at))
    return f"{one_line(shlex.quote(effect.key))}  begun {begun} by {effect.by} in process {effect.pid}"
