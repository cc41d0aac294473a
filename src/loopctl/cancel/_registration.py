"""Registrations: what observes a latch, each run or called off exactly once.

Invariants:

1. What is to be run lies in a box, a list of at most one; whoever pops it owns it. So a callback runs once, however
   many cancels, helpers and `close` calls meet there, and `close` knows whether it came first.
2. Insert, then look: an entry is attached before the latch's state is read; a cancel publishes before it lists the
   entries. One of the two sees the other, and the box decides if both do.
3. A waiter is told first and taken out of the tables afterwards, so a cancel that is torn in between is made good by
   the next one; being told twice is harmless.
4. A callback that a `KeyboardInterrupt` kept from starting goes back into its box.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import math
import threading
import time
from collections.abc import Callable
from contextvars import Context, copy_context
from types import TracebackType
from typing import Final, Self

from loopctl.cancel._latch import Latch, new_key
from loopctl.cancel._links import attach, detach
from loopctl.cancel._post import Post

__all__ = ["Callback", "LoopWatch", "Registration", "ThreadWaiter"]

_logger = logging.getLogger("loopctl")

_LOOK: Final = 0.25
"""Seconds for which the main thread waits in one piece. A signal that another thread took, or that came in the instant
before the wait, does not end it, and only between two pieces the signal's handler can run, which may cancel."""


class Registration:
    """Something that will happen when a signal fires, or when a deadline comes; it can be called off.

    Dropping it calls nothing off. As a context manager it is closed at the end of the block.
    """

    __slots__ = ("_at_least", "_box", "_key", "_latch")

    def __init__(self, latch: Latch, at_least: int, work: Callable[[], object]) -> None:
        """Observe *latch* from the level *at_least* on, to have *work* done."""
        self._latch = latch
        self._at_least = at_least
        self._key = new_key()
        self._box = [work]

    def close(self) -> bool:
        """Call it off.

        Never waits, also not for a callback that is running now; may be called from anywhere, a finalizer and the
        callback itself included.

        Returns:
            True if it will now never run; False if it has run, is running, or was called off before.
        """
        was_first = self._take() is not None
        detach(self)
        return was_first

    def __enter__(self) -> Self:
        """Give itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()

    def __repr__(self) -> str:
        """Say what would be run, or that nothing will be."""
        work = self._box[:]
        return f"<{type(self).__name__} of {work[0]!r}>" if work else f"<{type(self).__name__}, spent>"

    def _take(self) -> Callable[[], object] | None:
        """Take the work out of the box: the right and the duty to do it."""
        try:
            return self._box.pop()
        except IndexError:
            return None

    def _is_due(self) -> bool:
        return self._latch._reached[self._at_least]

    def _arm(self) -> None:
        """Enter the tables; act at once if the latch is already there, or never will be."""
        attach(self)
        if self._is_due():
            self._catch_up()
        elif self._latch._is_sealed():
            self._give_up()

    def _catch_up(self) -> None:
        """Act on a latch that had reached the level before the entry stood in its table."""
        post = Post()
        self._wake(post)
        post.deliver()
        detach(self)

    def _give_up(self) -> None:
        """Leave a latch that will never reach the level."""
        post = Post()
        self._retire(post)
        post.deliver()
        detach(self)

    def _wake(self, post: Post, /) -> bool:
        """Tell a waiter, at once or by *post*; False if there is none here, but a callback to run later."""
        raise NotImplementedError

    def _retire(self, post: Post, /) -> None:
        """Let go of what the latch, which will never reach the level, was to be told by."""


class ThreadWaiter(Registration):
    """A thread that waits. Its lock is the wake-up: releasing one needs no other lock and never waits."""

    __slots__ = ("lock",)

    def __init__(self, latch: Latch, at_least: int) -> None:
        """Make a waiter whose `lock` can be acquired as soon as the level is reached."""
        self.lock = threading.Lock()
        self.lock.acquire()
        super().__init__(latch, at_least, self.lock.release)

    def wait(self, seconds: float) -> None:
        """Block this thread until the level is reached, or *seconds* have passed; a negative number is no bound."""
        if threading.get_ident() != threading.main_thread().ident:
            self.lock.acquire(timeout=seconds)
            return
        deadline = math.inf if seconds < 0 else time.monotonic() + seconds
        while not self.lock.acquire(timeout=min(_LOOK, max(deadline - time.monotonic(), 0.0))):
            if time.monotonic() >= deadline:
                return

    def _release(self) -> None:
        with contextlib.suppress(RuntimeError):  # a helper has released it already
            self.lock.release()

    def _wake(self, _post: Post) -> bool:
        self._release()
        return True


class LoopWatch(Registration):
    """A callback that runs on an event loop."""

    __slots__ = ("_loop",)

    def __init__(
        self, latch: Latch, at_least: int, callback: Callable[[], object], loop: asyncio.AbstractEventLoop
    ) -> None:
        """Run *callback* on *loop* when the level is reached."""
        super().__init__(latch, at_least, callback)
        self._loop = loop

    def _wake(self, post: Post) -> bool:
        post.add(self._loop, self._run)
        return True

    def _run(self) -> None:
        callback = self._take()
        if callback is not None:
            callback()


class Callback(Registration):
    """A callback that runs inline, where the cancel is, in the context variables of where it was registered."""

    __slots__ = ("_context", "_has_begun")

    def __init__(self, latch: Latch, at_least: int, callback: Callable[[], object]) -> None:
        """Run *callback* when the level is reached."""
        super().__init__(latch, at_least, callback)
        # A copy for each: a context cannot be entered twice, and callbacks may fire one another.
        self._context: Context = copy_context()
        self._has_begun = False

    def _wake(self, _post: Post) -> bool:
        return False

    def _catch_up(self) -> None:
        self._tell()

    def _tell(self) -> None:
        """Run the callback, unless somebody has: its `Exception` is logged, anything stronger is raised."""
        callback = None
        try:
            callback = self._take()
            if callback is not None:
                self._context.run(self._call, callback)
        except Exception:
            with contextlib.suppress(Exception):  # a broken log handler must not stop the other callbacks
                _logger.exception("loopctl: cancel callback %r raised; the others still run", callback)
        except BaseException:
            if callback is not None and not self._has_begun:
                self._box.append(callback)
            raise
        finally:
            if callback is not None and not self._box:
                detach(self)

    def _call(self, callback: Callable[[], object]) -> None:
        self._has_begun = True
        result = callback()
        if inspect.iscoroutine(result):
            result.close()
            _logger.error("loopctl: cancel callback %r gave a coroutine, which nothing runs: use a plain def", callback)
