"""What the test kit raises when a test cannot go on.

Rule: they are assertion errors, so a test runner counts them as failures of the test, and no `except LoopError`
of the code under test hides them.
"""

from __future__ import annotations

__all__ = ["BusyLoop", "Deadlock", "Leftovers", "SimulationError", "TimeLimit"]


class SimulationError(AssertionError):
    """The root of what `virtual_run` raises about the run itself."""


class Deadlock(SimulationError):
    """Nothing is scheduled, so nothing can ever happen again."""


class BusyLoop(SimulationError):
    """Callbacks keep running while the virtual clock stands still."""


class TimeLimit(SimulationError):
    """The virtual clock would pass the limit of the run."""


class Leftovers(SimulationError):
    """Tasks or threads were still running when the loop was closed, and would not stop."""
