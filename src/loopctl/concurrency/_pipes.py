"""Read and write descriptors on a loop, without tasks, threads or transports.

Invariants: a descriptor is owned from the construction on and closed once; nothing is called after `close`; one
portion a turn of the loop, so that a flood of output does not hold up anything else.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

__all__ = ["Drain", "Feed"]

_PORTION = 65536
_LAST_PORTIONS = 64
"""What is read of a pipe once nobody waits for its end, in portions: 4 MiB, which is more than a pipe holds."""


class Drain:
    """Hands over what comes out of a descriptor."""

    __slots__ = ("_descriptor", "_loop", "_on_bytes")

    def __init__(self, loop: asyncio.AbstractEventLoop, descriptor: int, on_bytes: Callable[[bytes], None]) -> None:
        """Read *descriptor*; call *on_bytes* for each portion, and with `b""` at the end."""
        self._loop = loop
        self._descriptor = descriptor
        self._on_bytes = on_bytes
        os.set_blocking(descriptor, False)
        loop.add_reader(descriptor, self._read)

    def hold(self, *, is_held: bool) -> None:
        """Read nothing for a while, or read on."""
        if self._descriptor < 0 or self._loop.is_closed():
            return
        if is_held:
            self._loop.remove_reader(self._descriptor)
        else:
            self._loop.add_reader(self._descriptor, self._read)

    def finish(self) -> None:
        """Take what is there, wait for nothing, and close."""
        for _ in range(_LAST_PORTIONS):
            if self._descriptor < 0 or not self._read():
                break
        self.close()

    def close(self) -> None:
        """Read no more."""
        if self._descriptor >= 0:
            if not self._loop.is_closed():
                self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1

    def _read(self) -> bool:
        try:
            portion = os.read(self._descriptor, _PORTION)
        except BlockingIOError:
            return False
        except OSError:  # the other side of a socket was killed
            portion = b""
        if not portion:
            self.close()
        self._on_bytes(portion)
        return bool(portion)


class Feed:
    """Writes into a descriptor as fast as the other side reads."""

    __slots__ = ("_data", "_descriptor", "_is_ending", "_is_waiting", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop, descriptor: int) -> None:
        """Own *descriptor*."""
        self._loop = loop
        self._descriptor = descriptor
        self._data = memoryview(b"")
        self._is_ending = False
        self._is_waiting = False
        os.set_blocking(descriptor, False)

    @property
    def backlog(self) -> int:
        """Bytes that the other side has not taken yet."""
        return len(self._data)

    def write(self, data: bytes) -> None:
        """Write *data* after what is not yet written. What nobody reads any more is dropped."""
        if self._descriptor >= 0:
            self._data = memoryview(bytes(self._data) + data)
            self._write()

    def end(self) -> None:
        """Close when everything is written."""
        self._is_ending = True
        self._write()

    def finish(self) -> None:
        """Close; nobody waits for what is not yet written."""
        self.close()

    def close(self) -> None:
        """Write no more."""
        if self._descriptor < 0:
            return
        self._wait(is_needed=False)
        os.close(self._descriptor)
        self._descriptor = -1
        self._data = memoryview(b"")

    def _write(self) -> None:
        if self._descriptor < 0:
            return
        try:
            while self._data:
                self._data = self._data[os.write(self._descriptor, self._data[:_PORTION]) :]
        except BlockingIOError:
            self._wait(is_needed=True)
            return
        except OSError:  # nobody reads it: the reader's end says what there is to say
            self.close()
            return
        self._wait(is_needed=False)
        if self._is_ending:
            self.close()

    def _wait(self, *, is_needed: bool) -> None:
        if is_needed == self._is_waiting or self._loop.is_closed():
            return
        self._is_waiting = is_needed
        if is_needed:
            self._loop.add_writer(self._descriptor, self._write)
        else:
            self._loop.remove_writer(self._descriptor)
