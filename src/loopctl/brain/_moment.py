"""What a decision takes from outside of the run: the time, the luck, and how the models did so far.

Rule: an input that may lead to a model request carries one, so that equal inputs give equal effects.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from loopctl.fallback import Chain

__all__ = ["Moment"]


def _alone() -> Chain:
    return Chain.of(("model",))


@dataclass(frozen=True, slots=True)
class Moment:
    """When something happened. `Moment()` is for one model without a clock."""

    now: float = 0.0
    """Seconds of any clock that does not go back; the same for all runs that share a chain."""
    jitter: float = 0.0
    """Drawn anew for each input, from minus to plus `ModelRecovery.jitter`."""
    chain: Chain = field(default_factory=_alone)
    """The models and their breakers; the number of models stays the same in a run."""
