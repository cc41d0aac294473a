"""What this costs, beside the machine's own floor measured in the same run: ratios, with bounds that must hold."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Row"]


class Row(NamedTuple):
    """One line of the table."""

    name: str
    """What was measured, and against which floor."""
    figure: float | str
    """A ratio to the floor; or text, for a figure that is only shown."""
    bound: float | str = ""
    """The highest ratio allowed; empty if the figure is only shown."""
    ok: bool = True
    """Whether the bound held."""
