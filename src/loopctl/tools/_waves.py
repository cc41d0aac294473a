"""Which calls of one reply may run at once: a pure plan.

Rules: a call that may not run beside others is a wave of its own, and nothing moves across it; two calls of one wave
touch no common resource; of two calls that touch a common resource, the earlier one of the model runs in the earlier
wave.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

__all__ = ["Wish", "plan"]


@dataclass(frozen=True, slots=True)
class Wish:
    """What one call says of itself before it runs."""

    is_parallel: bool = False
    """May run beside others."""
    resources: frozenset[str] = frozenset()
    """What it touches."""


def plan(calls: Sequence[Wish]) -> tuple[tuple[int, ...], ...]:
    """Put *calls* into waves, greedily: each into the first wave that may take it.

    Args:
        calls: In the model's order.

    Returns:
        The waves in the order in which they run, each the indices of its calls in the model's order.
    """
    waves: list[list[int]] = []
    after: dict[str, int] = {}  # the first wave that a call on this resource may be in
    open_from = 0
    for index, call in enumerate(calls):
        wave = max((open_from, *_known(after, call.resources))) if call.is_parallel else len(waves)
        if wave == len(waves):
            waves.append([])
        waves[wave].append(index)
        if not call.is_parallel:
            open_from = len(waves)
        for resource in call.resources:
            after[resource] = wave + 1
    return tuple(map(tuple, waves))


def _known(after: dict[str, int], resources: Iterable[str]) -> list[int]:
    return [after[resource] for resource in resources if resource in after]
