"""Whole messages over a stream of bytes: eight bytes of length, then the message."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Frames", "frame"]

_HEADER = 8


def frame(message: bytes) -> bytes:
    """Put the length before a message."""
    return len(message).to_bytes(_HEADER, "big") + message


class Frames:
    """Puts messages together again."""

    __slots__ = ("_data", "_on_message")

    def __init__(self, on_message: Callable[[bytes], object]) -> None:
        """Call *on_message* for each whole message."""
        self._on_message = on_message
        self._data = bytearray()

    def take(self, portion: bytes) -> None:
        """Take what has come."""
        self._data += portion
        while len(self._data) >= _HEADER:
            end = _HEADER + int.from_bytes(self._data[:_HEADER], "big")
            if len(self._data) < end:
                return
            message = bytes(self._data[_HEADER:end])
            del self._data[:end]
            self._on_message(message)
