"""The public test kit: a virtual-time event loop, a scripted model, tools that misbehave.

Rules: nothing here waits in real time unless a real thread or descriptor is involved, and nothing hangs: what cannot
go on raises a `SimulationError` that names who waits where.
"""

from loopctl.testing._errors import BusyLoop, Deadlock, Leftovers, SimulationError, TimeLimit
from loopctl.testing._loop import VirtualLoop
from loopctl.testing._run import virtual_run

__all__ = ["BusyLoop", "Deadlock", "Leftovers", "SimulationError", "TimeLimit", "VirtualLoop", "virtual_run"]
