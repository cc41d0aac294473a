"""The progress that a running tool tells, from its thread to the readers of the run."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from loopctl.cancel import CancelToken
from loopctl.record import Event, ToolProgress, Urgency

__all__ = ["Report"]


class Report:
    """What `ctx.progress` calls, from whatever thread the tool is on; once the call is over it is only counted."""

    __slots__ = ("_drop", "_hand", "_loop", "_rewrite", "_thread", "_token", "_who", "is_open")

    def __init__(
        self,
        who: tuple[str, str, str],
        token: CancelToken,
        hand: Callable[[Event], object],
        rewrite: Callable[[str], str],
        drop: Callable[[], object],
    ) -> None:
        """Tell *hand*, on the running loop, until *token* fires.

        Args:
            who: The id of the call, its name, the id of the run.
            token: After it fired nothing is told any more.
            hand: Takes the events.
            rewrite: Gives each message as it may be told.
            drop: Counts what comes after the call.
        """
        self._who = who
        self._rewrite = rewrite
        self._drop = drop
        self._token = token
        self._hand = hand
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self.is_open = True

    def __call__(self, message: str, fraction: float | None) -> None:
        """Hand it over, from any thread."""
        if threading.get_ident() == self._thread:
            self._offer(message, fraction)
            return
        try:
            self._loop.call_soon_threadsafe(self._offer, message, fraction)
        except RuntimeError:  # the loop is closed: nobody reads any more
            return

    def _offer(self, message: str, fraction: float | None) -> None:
        if self.is_open and not self._token.is_cancelled(Urgency.STOP):
            call_id, name, run_id = self._who
            self._hand(ToolProgress(call_id, name, self._rewrite(message), fraction, run_id))
        elif not self.is_open:
            self._drop()
