"""An event loop whose clock jumps: hours of waiting in milliseconds, in a fixed order.

Invariants:

- `time()` moves only when nothing is ready, no descriptor has an event and no hold is open; then it moves exactly to
  the next timer.
- A hold (`hold_time`) is looked at *before* the descriptors are polled. A thread hands over its result and then
  releases, so whoever sees no hold also sees the result.
- Whatever cannot go on raises a `SimulationError` out of the loop instead of hanging.
"""

from __future__ import annotations

import asyncio
import itertools
import selectors
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeAlias

from loopctl.testing._errors import BusyLoop, Deadlock, TimeLimit
from loopctl.testing._where import describe_tasks

__all__ = ["VirtualLoop"]

_Events: TypeAlias = list[tuple[selectors.SelectorKey, int]]

_SPIN_LIMIT = 1_000_000
"""Steps in one virtual instant: about two seconds of a busy loop."""
_HELD_PATIENCE = 60.0
"""Real seconds to wait for a thread that holds the clock before the test is called hung."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """A selector event loop on virtual time.

    The clock starts at 0.0. When nothing is ready and only timers wait, it jumps to the next timer. It does not
    advance while

    - a real descriptor (a socket, a pipe) has an event;
    - a hold is open: see `hold_time`. `run_in_executor` and `asyncio.to_thread` hold it until their thread has ended.

    A thread or a process the loop does not know of does not hold the clock: hold it by hand, or timers come first.

    Attributes:
        steps: Callbacks that were started, which is also the number (from 0) of the next one. A task is one callback
            each time it runs on. Cancelled callbacks are not counted.
        turns: Rounds of the loop: each polls the descriptors once and runs what was ready.
    """

    def __init__(
        self,
        *,
        limit: float = 3600.0,
        patience: float = 5.0,
        blocked_after: float | None = None,
        spin_limit: int = _SPIN_LIMIT,
    ) -> None:
        """Make a loop; `virtual_run` makes one by itself.

        Args:
            limit: Virtual seconds after which the run is called endless (`TimeLimit`).
            patience: Real seconds to wait, with nothing scheduled at all, for a plain thread to call
                `call_soon_threadsafe` before `Deadlock` is raised.
            blocked_after: Real seconds of silence after which an open hold stops counting, as its thread is taken to
                be blocked for good. None: never; the test is called hung after a minute.
            spin_limit: Steps at one virtual instant after which the run is called a busy loop (`BusyLoop`).
        """
        super().__init__(_JumpingSelector(self._wait))
        self.steps: int = 0
        self.turns: int = 0
        self.limit = limit
        self.patience = patience
        self.blocked_after = blocked_after
        self._spin_limit = spin_limit
        self._spins = 0
        self._now = 0.0
        self._pool: ThreadPoolExecutor | None = None
        self._holds: dict[int, str] = {}
        self._blocked: dict[int, str] = {}
        self._hold_keys = itertools.count()
        self._hooks: list[Callable[[int], object]] = []
        self._after_hooks: list[Callable[[int], object]] = []
        self._is_in_step = False
        # The base class runs `self._ready.popleft()` once for each callback: the one place to count and to hook.
        self._ready = _CountedQueue(self._before_callback)

    @classmethod
    def running(cls) -> VirtualLoop:
        """Give the running loop.

        Raises:
            RuntimeError: No loop is running, or it is not a virtual one.
        """
        loop = asyncio.get_running_loop()
        if not isinstance(loop, cls):
            kind = type(loop).__name__
            raise RuntimeError(f"the running loop is a {kind}: start the test with virtual_run(main)")  # noqa: TRY004
        return loop

    def time(self) -> float:
        """Give the virtual time, in seconds since the loop was made."""
        return self._now

    def hold_time(self, what: str = "somebody") -> Callable[[], None]:
        """Stop the clock until the returned function is called.

        For work outside of the loop that it should wait for: a thread, a process, a real server. While the clock is
        held the loop really waits, and callbacks that are ready run as usual.

        Args:
            what: Who holds it, for error texts.

        Returns:
            The release: may be called from any thread, more than once, and after the loop was closed. Hand over the
            result first (`call_soon_threadsafe`), then release.
        """
        key = next(self._hold_keys)
        self._holds[key] = what

        def release() -> None:
            if self._holds.pop(key, None) is not None or self._blocked.pop(key, None) is not None:
                with suppress(RuntimeError):  # the loop is closed: nobody waits
                    self.call_soon_threadsafe(_nothing)

        return release

    @property
    def holders(self) -> tuple[str, ...]:
        """Who holds the clock, oldest first, and who was given up as blocked."""
        return (*self._holds.copy().values(), *self._blocked.copy().values())

    def before_step(self, hook: Callable[[int], object]) -> Callable[[], None]:
        """Call *hook* with the number of each step just before it runs, for instance to fire a signal at step 17.

        The hook runs between callbacks, in no task. What it raises ends the run.

        Returns:
            A function that takes the hook away again.
        """
        return _added(self._hooks, hook)

    def after_step(self, hook: Callable[[int], object]) -> Callable[[], None]:
        """Call *hook* with the number of each step just after it ran, before the next one and before the clock moves.

        As `before_step` otherwise. What the hook schedules runs behind what the step has scheduled.

        Returns:
            A function that takes the hook away again.
        """
        return _added(self._after_hooks, hook)

    def run_in_executor(self, executor: Executor | None, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """Run *func* in a thread, as every loop does, and hold the clock until it has ended there.

        Cancellation:
            The future that is returned can be cancelled; the thread, and with it the hold, goes on to its end.
        """
        if executor is None:
            executor = self._default_pool()
        recorder = _Recorder(executor)
        outcome: asyncio.Future[Any] = super().run_in_executor(recorder, func, *args)
        release = self.hold_time(f"a thread running {getattr(func, '__qualname__', func)!s}")
        # Added after asyncio's own callback, so the result is handed over before the release.
        recorder.futures[0].add_done_callback(lambda _: release())
        return outcome

    def _default_pool(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(thread_name_prefix="virtual-loop")
            self.set_default_executor(self._pool)
        return self._pool

    def _before_callback(self) -> None:
        if self._is_in_step:
            self._after_callback()
        self._is_in_step = True
        for hook in tuple(self._hooks):
            hook(self.steps)
        self.steps += 1
        self._spins += 1
        if self._spins > self._spin_limit:
            self._spins = 0
            raise BusyLoop(
                f"busy loop: {self._spin_limit} steps ran at the virtual time {self._now:g} s, and more are ready.\n"
                f"Pending:\n{self._pending()}"
            )

    def _after_callback(self) -> None:
        self._is_in_step = False
        for hook in tuple(self._after_hooks):
            hook(self.steps - 1)

    def _wait(self, poll: Callable[[float | None], _Events], timeout: float | None) -> _Events:
        """Stand in for `select`: poll, then jump or really wait."""
        self.turns += 1
        if self._is_in_step:
            self._after_callback()
        if (timeout is not None and timeout <= 0) or self._ready:
            return poll(0)
        while True:
            is_held = bool(self._holds)  # before the poll: see the invariants
            events = poll(0)
            if not events:
                if timeout is not None and not is_held:
                    self._jump()
                    return events
                events = poll(self._real_wait(is_held=is_held))
            self._spins = 0
            if events:
                return events
            self._nothing_came(is_held=is_held)

    def _real_wait(self, *, is_held: bool) -> float:
        if not is_held:
            return self.patience
        return _HELD_PATIENCE if self.blocked_after is None else self.blocked_after

    def _nothing_came(self, *, is_held: bool) -> None:
        if not is_held:
            raise Deadlock(
                f"deadlock: nothing is scheduled at the virtual time {self._now:g} s, and no other thread called in "
                f"within {self.patience:g} real seconds.\nPending:\n{self._pending()}"
            )
        if self.blocked_after is None:
            raise Deadlock(
                f"deadlock: the virtual clock is held at {self._now:g} s and nothing happened for "
                f"{_HELD_PATIENCE:g} real seconds. It is held by {', '.join(self.holders)}. Release it, or give "
                f"blocked_after= if that thread is meant to be blocked.\nPending:\n{self._pending()}"
            )
        for key in tuple(self._holds):
            what = self._holds.pop(key, None)
            if what is not None:
                self._blocked[key] = what

    def _jump(self) -> None:
        self._spins = 0
        timers: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        when = timers[0].when()  # and not `time() + timeout`, which rounds
        if when > self.limit:
            raise TimeLimit(
                f"time limit: the next timer is at the virtual time {when:g} s, past the limit of {self.limit:g} s. "
                f"Give limit= if the test is meant to last that long.\nPending:\n{self._pending()}"
            )
        self._now = max(self._now, when)

    def _pending(self) -> str:
        return describe_tasks(asyncio.all_tasks(self))


class _JumpingSelector(selectors.DefaultSelector):
    """A real selector that asks the loop how to wait."""

    def __init__(self, wait: Callable[[Callable[[float | None], _Events], float | None], _Events]) -> None:
        super().__init__()
        self._wait = wait

    def select(self, timeout: float | None = None) -> _Events:
        return self._wait(super().select, timeout)


class _CountedQueue(deque[asyncio.Handle]):
    """The loop's queue of ready callbacks, which tells before one is taken."""

    def __init__(self, before: Callable[[], None]) -> None:
        super().__init__()
        self._before = before

    def popleft(self) -> asyncio.Handle:
        if not self[0].cancelled():
            self._before()
        return super().popleft()


class _Recorder(Executor):
    """An executor that keeps the futures another one makes."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self.futures: list[Future[Any]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future = self._executor.submit(fn, *args, **kwargs)
        self.futures.append(future)
        return future


def _added(hooks: list[Callable[[int], object]], hook: Callable[[int], object]) -> Callable[[], None]:
    hooks.append(hook)

    def remove() -> None:
        with suppress(ValueError):
            hooks.remove(hook)

    return remove


def _nothing() -> None:
    """Exist to wake a loop."""
