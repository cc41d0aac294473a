"""What tools print while a reply is shown, on lines of its own.

Rules: only while a run goes on; what is printed is passed on at once, from whatever thread.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import lru_cache
from typing import Any, TextIO

from loopctl.cli._screen import Screen

__all__ = ["printing_beside"]


class _Beside(io.TextIOBase):
    def __init__(self, stream: TextIO, screen: Screen) -> None:
        self._stream = stream
        self._screen = screen

    @property
    def encoding(self) -> str:  # type: ignore[override] # what the base class has is set on no stream of text
        return self._stream.encoding

    def __getattr__(self, name: str) -> Any:
        """Be the stream itself in all else: its `buffer`, its `name`."""
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        self._screen.beside(text, self._put)
        return len(text)

    def _put(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()

    def flush(self) -> None:
        self._stream.flush()

    def close(self) -> None:
        """Leave the stream as it is: it is not ours, and may be closed already when this is collected."""

    def isatty(self) -> bool:
        return self._stream.isatty()

    def fileno(self) -> int:
        return self._stream.fileno()

    def writable(self) -> bool:
        return True


@contextmanager
def printing_beside(screen: Screen) -> Iterator[None]:
    """Let what others print leave the lines of *screen* whole while the block runs; nothing where it is no terminal."""
    if not screen.is_terminal:
        yield
        return
    with redirect_stdout(_beside(sys.stdout, screen)), redirect_stderr(_beside(sys.stderr, screen)):
        yield


@lru_cache(maxsize=8)
def _beside(stream: TextIO, screen: Screen) -> _Beside:
    """Make one for each stream, and keep it: `print` on 3.11 only borrows `sys.stdout`.

    A tool on a thread may be in the middle of a `print` when the block ends. Were its stream given up with the block,
    the rest of that `print` would find it closed.
    """
    return _Beside(stream, screen)
