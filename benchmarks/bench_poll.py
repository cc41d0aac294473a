"""Measures what it costs to ask `is_cancelled()`: against a method that does nothing."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

from benchmarks import Row
from loopctl import CancelSignal

CALLS = 200_000
ROUNDS = 15
BOUND = 2.0


class Empty:
    """Has the floor: a method that does nothing."""

    __slots__ = ()

    def nothing(self) -> bool:
        """Do nothing."""
        return False


def timed(call: Callable[[], object]) -> float:
    """Give the nanoseconds of one call, the empty loop included."""
    gc.collect()
    began = time.perf_counter_ns()
    for _ in range(CALLS):
        call()
    return (time.perf_counter_ns() - began) / CALLS


def main() -> list[Row]:
    """Give the poll of a signal and of a token."""
    signal = CancelSignal()
    empty = Empty()
    rounds = [
        (timed(empty.nothing), timed(signal.is_cancelled), timed(signal.token.is_cancelled)) for _ in range(ROUNDS)
    ]
    floor, of_signal, of_token = (min(column) for column in zip(*rounds, strict=True))
    return [
        Row("an empty method call", f"{floor:.1f} ns"),
        Row("signal.is_cancelled() / an empty method call", of_signal / floor, BOUND, of_signal / floor <= BOUND),
        Row("token.is_cancelled() / an empty method call", of_token / floor, BOUND, of_token / floor <= BOUND),
    ]
