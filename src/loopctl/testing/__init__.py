"""The public test kit: virtual time, a scripted model, tools that misbehave, the sweep, a stepper, a pytest plug-in.

Rules:
1. Nothing here waits in real time unless a real thread or descriptor is involved, and nothing hangs: what cannot go
   on raises a `SimulationError` that names who waits where.
2. Importing this package loads nothing: pytest does it in every project, for the plug-in. Each name is looked up when
   it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from loopctl.testing._errors import BusyLoop, Deadlock, Leftovers, SimulationError, TimeLimit
    from loopctl.testing._leaks import AsyncioErrors, Leaks
    from loopctl.testing._loop import VirtualLoop
    from loopctl.testing._misbehaving import (
        block_loop,
        block_thread,
        cancel_itself,
        cleanup_slowly,
        count,
        end_normally,
        finally_endless,
        poll_thread,
        raise_odd_error,
        shield_work,
        swallow_always,
        swallow_once,
        uncancel,
        wait_politely,
    )
    from loopctl.testing._model import NonStreamingModel, ScriptedModel
    from loopctl.testing._probe import Flag, Probe
    from loopctl.testing._run import virtual_run
    from loopctl.testing._scenario import Hand, Scenario, Source, Stop, Timing
    from loopctl.testing._script import (
        Ending,
        Exchange,
        Reply,
        Script,
        Step,
        absorb,
        burst,
        call,
        do,
        end,
        fail,
        no_end,
        own_cancelled_error,
        pause,
        raise_on_cancel,
        say,
        slow_close,
        stall,
        think,
        usage,
    )
    from loopctl.testing._stepper import Stepper, Taken
    from loopctl.testing._stopped import Stopped
    from loopctl.testing._sweep import Sweep, SweepFailed, cancel_at, cancel_everywhere
    from loopctl.testing.abandon import (
        AbandonFailed,
        AbandonMode,
        AbandonReport,
        CheckOptions,
        Finding,
        abandon_everywhere,
        check_abandon,
    )

__all__ = [
    "AbandonFailed",
    "AbandonMode",
    "AbandonReport",
    "AsyncioErrors",
    "BusyLoop",
    "CheckOptions",
    "Deadlock",
    "Ending",
    "Exchange",
    "Finding",
    "Flag",
    "Hand",
    "Leaks",
    "Leftovers",
    "NonStreamingModel",
    "Probe",
    "Reply",
    "Scenario",
    "Script",
    "ScriptedModel",
    "SimulationError",
    "Source",
    "Step",
    "Stepper",
    "Stop",
    "Stopped",
    "Sweep",
    "SweepFailed",
    "Taken",
    "TimeLimit",
    "Timing",
    "VirtualLoop",
    "abandon_everywhere",
    "absorb",
    "block_loop",
    "block_thread",
    "burst",
    "call",
    "cancel_at",
    "cancel_everywhere",
    "cancel_itself",
    "check_abandon",
    "cleanup_slowly",
    "count",
    "do",
    "end",
    "end_normally",
    "fail",
    "finally_endless",
    "no_end",
    "own_cancelled_error",
    "pause",
    "poll_thread",
    "raise_odd_error",
    "raise_on_cancel",
    "say",
    "shield_work",
    "slow_close",
    "stall",
    "swallow_always",
    "swallow_once",
    "think",
    "uncancel",
    "usage",
    "virtual_run",
    "wait_politely",
]

_HOMES = (
    "_errors",
    "_stepper",
    "_leaks",
    "_loop",
    "_run",
    "_script",
    "_model",
    "_probe",
    "_misbehaving",
    "_scenario",
    "_stopped",
    "_sweep",
    "abandon",
)
"""Where the names are, what loads little first."""


def __getattr__(name: str) -> object:
    if name not in __all__:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    homes = (import_module(f"{__name__}.{home}") for home in _HOMES)
    value: object = getattr(next(home for home in homes if name in home.__all__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__]
