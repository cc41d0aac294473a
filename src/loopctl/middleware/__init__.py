"""Middleware: what stands around tool calls, and may change them, answer them or say no.

Rules: the first one is the outermost; no middleware repeats a call: what is tried again is a matter of the recovery.
"""

from loopctl.middleware._check import Layers, Middleware, check_middleware
from loopctl.middleware._output import OutputLimit, Redact
from loopctl.middleware._timeout import Timeout
from loopctl.tools import CallNext, ToolMiddleware, ToolOutcome

__all__ = [
    "CallNext",
    "Layers",
    "Middleware",
    "OutputLimit",
    "Redact",
    "Timeout",
    "ToolMiddleware",
    "ToolOutcome",
    "check_middleware",
]
