"""From a model's deltas to a message and to readers."""

from loopctl.streaming._accumulate import Accumulator
from loopctl.streaming._fanout import Fanout, Reader
from loopctl.streaming._pump import pump

__all__ = ["Accumulator", "Fanout", "Reader", "pump"]
