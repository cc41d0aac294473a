"""What became of one attempt of a call: its status, and the text that the model is given."""

from __future__ import annotations

import asyncio
from typing import Any

from loopctl.concurrency import Ending, describe
from loopctl.errors import Cancelled, ToolError
from loopctl.record import CallStatus
from loopctl.tools._render import render
from loopctl.tools._text import encodable

__all__ = ["explain", "render_late", "status_of"]


def render_late(value: Any, error: BaseException | None) -> tuple[CallStatus, str | None]:
    """Say what an abandoned call came to after all.

    Args:
        value: What it returned.
        error: What it raised; None if it returned.

    Returns:
        Its status (a late cancellation leaves the effect unknown), and the text for the model.
    """
    if error is not None:
        is_unwound = isinstance(error, asyncio.CancelledError | Cancelled)
        return (CallStatus.INTERRUPTED, None) if is_unwound else (CallStatus.FAILED, explain(error))
    try:
        return CallStatus.COMPLETED, render(value)
    except Exception as unfit:  # the value's own code runs here
        return CallStatus.FAILED, explain(unfit)


def status_of(ending: Ending) -> tuple[CallStatus, str | None]:
    """Give the status of a call that was begun, and the text for the model if there is one."""
    if ending.how == "abandoned":
        return CallStatus.ABANDONED, None
    if ending.how == "returned":
        return render_late(ending.value, None)
    is_unwound = ending.how == "unwound" or isinstance(ending.error, Cancelled)
    if ending.stopped_by is not None and is_unwound:
        return CallStatus.INTERRUPTED, None
    return CallStatus.FAILED, explain(ending.error)


def explain(error: BaseException | None) -> str:
    """What the model is told of a tool's error: its own text, or the error's name and text."""
    if isinstance(error, asyncio.CancelledError):
        return "the tool was cancelled from inside: it raised CancelledError, and nobody had stopped the run"
    text = describe(error)
    if isinstance(error, ToolError):
        # The text is the tool's own, made for the model: no name before it.
        _, _, text = text.partition(": ")
        text = text or "the tool failed without saying why"
    return encodable(text)
