"""Cancel a run by its id, and be told the truth about what that did."""

from loopctl.control._live import LiveRuns
from loopctl.control._receipt import Receipt, ReceiptState

__all__ = ["LiveRuns", "Receipt", "ReceiptState"]
