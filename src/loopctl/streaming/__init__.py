"""From a model's deltas to a message and to readers."""

from loopctl.streaming._accumulate import Accumulator
from loopctl.streaming._fanout import Fanout, Reader
from loopctl.streaming._pump import Attempt, iterator_of, pump

__all__ = ["Accumulator", "Attempt", "Fanout", "Reader", "iterator_of", "pump"]
