"""Tools: functions that a model may call, their schemas, their arguments, their context, the text of their results.

Rules: a model sees what a signature says and nothing more; every way in which a model can call a tool wrongly ends in
a `ToolError` whose text lets it do better.
"""

from loopctl.tools._approval import Approval, Approver, check_approver
from loopctl.tools._call_context import CallContext
from loopctl.tools._commands import ProcessOptions, ProcessResult
from loopctl.tools._context import ToolContext, means_of
from loopctl.tools._decorator import ToolOptions, tool
from loopctl.tools._dispatch import run_in_waves, run_sequentially
from loopctl.tools._ledger import EffectLedger
from loopctl.tools._leftovers import TEMPORARY_PREFIX
from loopctl.tools._limit import check_limit
from loopctl.tools._load import load_tools
from loopctl.tools._outcome import ToolOutcome
from loopctl.tools._pipeline import CallNext, ToolLayer, ToolMiddleware, ToolText, rewritten
from loopctl.tools._registry import ToolRegistry
from loopctl.tools._remote import RemoteCall, RemoteTool
from loopctl.tools._render import render
from loopctl.tools._round import Round
from loopctl.tools._status import render_late
from loopctl.tools._tool import Tool

__all__ = [
    "TEMPORARY_PREFIX",
    "Approval",
    "Approver",
    "CallContext",
    "CallNext",
    "EffectLedger",
    "ProcessOptions",
    "ProcessResult",
    "RemoteCall",
    "RemoteTool",
    "Round",
    "Tool",
    "ToolContext",
    "ToolLayer",
    "ToolMiddleware",
    "ToolOptions",
    "ToolOutcome",
    "ToolRegistry",
    "ToolText",
    "check_approver",
    "check_limit",
    "load_tools",
    "means_of",
    "render",
    "render_late",
    "rewritten",
    "run_in_waves",
    "run_sequentially",
    "tool",
]
