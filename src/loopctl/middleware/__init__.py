"""Middleware: what stands around model requests and tool calls, and may change them, answer them or say no.

Rules: the first one is the outermost; no middleware repeats a call: what is tried again is a matter of the recovery;
what became of a tool is said by the record, and no middleware changes that.
"""

from loopctl.middleware._check import Layers, Middleware, check_middleware
from loopctl.middleware._gate import RateGate
from loopctl.middleware._memoize import Memoize
from loopctl.middleware._model import Ask, Deltas, ModelMiddleware, ModelNext, Passage, Surroundings
from loopctl.middleware._output import OutputLimit, Redact
from loopctl.middleware._permission import Permission, Policy, Verdict
from loopctl.middleware._timeout import Timeout
from loopctl.tools import CallContext, CallNext, ToolMiddleware, ToolOutcome, ToolText

__all__ = [
    "Ask",
    "CallContext",
    "CallNext",
    "Deltas",
    "Layers",
    "Memoize",
    "Middleware",
    "ModelMiddleware",
    "ModelNext",
    "OutputLimit",
    "Passage",
    "Permission",
    "Policy",
    "RateGate",
    "Redact",
    "Surroundings",
    "Timeout",
    "ToolMiddleware",
    "ToolOutcome",
    "ToolText",
    "Verdict",
    "check_middleware",
]
