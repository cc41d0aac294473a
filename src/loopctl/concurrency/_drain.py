"""From which urgency a wait acts: in a run as its checkpoint says, elsewhere from STOP."""

from __future__ import annotations

from loopctl.record import Checkpoint, Urgency

__all__ = ["ends_from", "refuses_from"]


def ends_from(at: Checkpoint | None) -> Urgency:
    """Give the urgency that ends a wait at *at*."""
    return Urgency.STOP if at is None else at.ends_from


def refuses_from(at: Checkpoint | None) -> Urgency:
    """Give the urgency from which nothing is begun at *at*."""
    return Urgency.STOP if at is None else at.refuses_from
