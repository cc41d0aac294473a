"""An event loop on a thread of its own, for what must answer while the program's own loop is blocked.

Rule: it keeps nothing waiting: its thread is a daemon, and its end is bounded.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final

from loopctl.cancel import CancelSignal, CancelToken
from loopctl.concurrency._runner import run

__all__ = ["SideLoop"]

_log = logging.getLogger("loopctl")

_END: Final = 0.2
"""Seconds that what is left on it gets at its end."""
_JOIN: Final = 2.0
"""Seconds for which its end is waited for."""


class SideLoop:
    """Runs one coroutine function until `close`."""

    def __init__(self, main: Callable[[CancelToken], Coroutine[Any, Any, None]], name: str) -> None:
        """Run *main* on a thread called *name*; its token is cancelled when it is to end.

        Raises:
            RuntimeError: The system has no thread for it.
        """
        self._main = main
        self._signal = CancelSignal()
        self._pid = os.getpid()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            run(self._main(self._signal.token), exit_grace=_END)
        except Exception:
            _log.exception("%s has ended by an error", self._thread.name)

    def close(self) -> None:
        """End it, and wait for that a bounded time; again changes nothing. In a fork there is nothing to end."""
        if os.getpid() == self._pid:
            self._signal.cancel()
            self._thread.join(_JOIN)
