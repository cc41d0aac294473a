"""The progress that a running tool tells, from its thread to the readers of the run."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from loopctl.cancel import CancelToken
from loopctl.record import Event, ToolProgress, Urgency

__all__ = ["Report"]


class Report:
    """What `ctx.progress` calls, from whatever thread the tool is on; silent once the call is over."""

    __slots__ = ("_hand", "_loop", "_name", "_thread", "_token", "_who", "is_open")

    def __init__(
        self, call_id: str, name: str, run_id: str, token: CancelToken, hand: Callable[[Event], object]
    ) -> None:
        """Tell of the call *call_id* of *name* to *hand*, on the running loop, until *token* fires."""
        self._who = (call_id, run_id)
        self._name = name
        self._token = token
        self._hand = hand
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self.is_open = True

    def __call__(self, message: str, fraction: float | None) -> None:
        """Hand it over, from any thread."""
        call_id, run_id = self._who
        event = ToolProgress(call_id, self._name, message, fraction, run_id)
        if threading.get_ident() == self._thread:
            self._offer(event)
            return
        try:
            self._loop.call_soon_threadsafe(self._offer, event)
        except RuntimeError:  # the loop is closed: nobody reads any more
            return

    def _offer(self, event: ToolProgress) -> None:
        if self.is_open and not self._token.is_cancelled(Urgency.STOP):
            self._hand(event)
