"""The public test kit: a virtual-time event loop, a scripted model, tools that misbehave.

Rules: nothing here waits in real time unless a real thread or descriptor is involved, and nothing hangs: what cannot
go on raises a `SimulationError` that names who waits where.
"""

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
from loopctl.testing._stopped import Stopped
from loopctl.testing._sweep import Sweep, SweepFailed, cancel_at, cancel_everywhere

__all__ = [
    "AsyncioErrors",
    "BusyLoop",
    "Deadlock",
    "Ending",
    "Exchange",
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
    "Stop",
    "Stopped",
    "Sweep",
    "SweepFailed",
    "TimeLimit",
    "Timing",
    "VirtualLoop",
    "absorb",
    "block_loop",
    "block_thread",
    "burst",
    "call",
    "cancel_at",
    "cancel_everywhere",
    "cancel_itself",
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
