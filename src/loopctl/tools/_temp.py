"""The temporary folder of one call: made when it is first asked for, removed when the work has ended.

Invariants: it lives as long as the work, also if that was abandoned; the folders of processes that died are swept when
one is removed; removing takes place off the event loop.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from loopctl.concurrency import off_the_loop
from loopctl.tools._leftovers import fresh_path, lock, sweep

__all__ = ["TemporaryFolder"]


class TemporaryFolder:
    """A folder that need not be there."""

    __slots__ = ("__weakref__", "_lock", "_path", "_remove")

    def __init__(self) -> None:
        """Make nothing yet."""
        self._lock = threading.Lock()
        self._path: Path | None = None
        self._remove: weakref.finalize[[Path, int], TemporaryFolder] | None = None

    @property
    def path(self) -> Path:
        """The folder, which is made if it is not there."""
        with self._lock:  # a call may have threads of its own
            if self._path is None:
                self._path, descriptor = _make(Path(tempfile.gettempdir()).resolve())
                # A context that a test made has no end but its collection.
                self._remove = weakref.finalize(self, _remove, self._path, descriptor)
                self._remove.atexit = False  # an exit waits for nothing: the next process sweeps
            return self._path

    def remove(self) -> None:
        """Remove the folder with what is in it; it is made anew if it is asked for again."""
        with self._lock:
            remove, self._remove, self._path = self._remove, None, None
        if remove is not None:
            remove()

    async def around(self, begin: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Await what *begin* gives, and remove the folder after it.

        Cancellation:
            Goes to the work. While the folder is being removed: waits for that, once.
        """
        try:
            value = await begin()
        except GeneratorExit:  # nothing can be awaited any more
            self.remove()
            raise
        except BaseException:
            await self._remove_off_the_loop()
            raise
        await self._remove_off_the_loop()
        return value

    async def _remove_off_the_loop(self) -> None:
        if self._path is not None:
            await off_the_loop(self.remove, "loopctl temporary folder")


def _make(parent: Path) -> tuple[Path, int]:
    while True:
        path = fresh_path(parent)
        path.mkdir(0o700)
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except FileNotFoundError:  # a sweep was quicker
            continue
        if lock(descriptor, path):
            return path, descriptor
        os.close(descriptor)


def _remove(path: Path, descriptor: int) -> None:
    shutil.rmtree(path, ignore_errors=True)
    os.close(descriptor)
    sweep(path.parent)
