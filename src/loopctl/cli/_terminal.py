"""The terminal's own line: what is typed while a reply comes is kept, and everything is put back.

Rules: a terminal drops what was typed when Ctrl-C comes, unless it is asked not to (NOFLSH); nothing here waits, and
where there is no terminal nothing is done.

Source: termios(3).
"""

from __future__ import annotations

import os
import select
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

try:
    import termios
except ImportError:  # no Unix: there is no such terminal either
    _CAN_CHANGE = False
else:
    _CAN_CHANGE = True

__all__ = ["keeping_typed", "say_at_once", "take_typed"]

_LFLAG = 3
_PORTION = 65536


@contextmanager
def keeping_typed(descriptor: int) -> Iterator[Callable[[], None]]:
    """Let a Ctrl-C drop nothing that was typed while the block runs; give what puts the terminal back.

    What is given may be called at any time, also in a signal handler, and does no harm twice.
    """
    if not _CAN_CHANGE or not os.isatty(descriptor):
        yield lambda: None
        return
    before = termios.tcgetattr(descriptor)

    def put_back() -> None:
        with suppress(termios.error):  # the terminal is gone
            termios.tcsetattr(descriptor, termios.TCSANOW, before)

    changed = termios.tcgetattr(descriptor)
    changed[_LFLAG] |= termios.NOFLSH
    termios.tcsetattr(descriptor, termios.TCSANOW, changed)
    try:
        yield put_back
    finally:
        put_back()


def take_typed(descriptor: int) -> bytes:
    """Take what was typed and not read yet, the line that is not finished included."""
    if not _CAN_CHANGE or not os.isatty(descriptor):
        return b""
    before = termios.tcgetattr(descriptor)
    changed = termios.tcgetattr(descriptor)
    changed[_LFLAG] &= ~termios.ICANON  # only so is an unfinished line readable
    try:
        termios.tcsetattr(descriptor, termios.TCSANOW, changed)
        return os.read(descriptor, _PORTION) if _is_ready(descriptor) else b""
    finally:
        termios.tcsetattr(descriptor, termios.TCSANOW, before)


def _is_ready(descriptor: int) -> bool:
    return bool(select.select([descriptor], [], [], 0)[0])


def say_at_once(text: str, descriptor: int = 2) -> None:
    """Write *text* past every buffer and lock; nothing if the other side takes nothing now."""
    with suppress(OSError, ValueError):
        if select.select([], [descriptor], [], 0)[1]:
            os.write(descriptor, text.encode("utf-8", "replace"))
