"""List runs and cancel them by their id, from this process and from others, and be told the truth of what that did."""

from loopctl.control._ask import LiveProcess, cancel, list_processes, list_runs, requester
from loopctl.control._listener import Listener, listen
from loopctl.control._live import LiveRuns, Pressed
from loopctl.control._receipt import Receipt, ReceiptState

__all__ = [
    "Listener",
    "LiveProcess",
    "LiveRuns",
    "Pressed",
    "Receipt",
    "ReceiptState",
    "cancel",
    "list_processes",
    "list_runs",
    "listen",
    "requester",
]
