"""A call that may finish after a cancel: `@tool(on_cancel="finish", finish_within=…)`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from loopctl.cancel import CancelSignal, CancelToken
from loopctl.concurrency import FinishGrace, Grace
from loopctl.record import Urgency
from loopctl.tools._tool import Tool

__all__ = ["acting_token", "grace_of"]


def grace_of(tool: Tool, grace: Grace, is_running: Callable[[], bool]) -> Grace:
    """Give what a call of *tool* gets when it is cancelled: *grace*, or more while it *is_running* and may finish."""
    return grace if tool.finish_within is None else FinishGrace(grace, tool.finish_within, is_running)


@contextmanager
def acting_token(tool: Tool, token: CancelToken) -> Iterator[CancelToken]:
    """Give what ends the waits of a call's context: *token*, or one that fires only when *token* abandons."""
    if tool.finish_within is None:
        yield token
        return
    abandoned = CancelSignal()

    def abandon() -> None:
        abandoned.cancel(token.reason, urgency=Urgency.ABANDON)

    with token.on_cancel(abandon, at_least=Urgency.ABANDON):
        yield abandoned.token
