"""The kinds of foreign work: a coroutine in a task of ours, a function in a thread of ours, somebody else's future.

Rule: threads are daemons, so that an abandoned one never holds up the interpreter's exit.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Awaitable, Callable, Coroutine
from types import CodeType
from typing import Any, Protocol

from loopctl.cancel import CancelToken, fired_from
from loopctl.concurrency._clock import hold_time, monotonic
from loopctl.concurrency._lane import Lane
from loopctl.concurrency._straggler import Straggler, frame_of_coroutine, frame_of_thread
from loopctl.concurrency._tasks import forget_task, spawn
from loopctl.errors import UsageError

__all__ = ["ForeignWork", "TaskWork", "ThreadWork", "Work", "work_of"]

TURNS = 32
"""A cooperative tree of tasks needs about 25 turns of the loop to unwind (docs/explanation/cancellation.md)."""


class Work(Protocol):
    """A piece of work that can be begun, pressed to end, and given up."""

    @property
    def can_unwind(self) -> bool:
        """False if pressing it is pointless: it is given up at once."""

    turns: int
    """Turns of the loop that it gets after each of the two presses, also when there is no grace."""

    def start(
        self, loop: asyncio.AbstractEventLoop, on_ended: Callable[[], None], may_begin: Callable[[], bool], /
    ) -> None:
        """Begin, unless *may_begin* says no when it comes to that; call *on_ended* on the loop when it has ended."""

    def discard(self) -> None:
        """Never begin."""

    def is_ended(self) -> bool:
        """True once it has returned or raised."""

    def has_begun(self) -> bool:
        """False if it was stopped before its first line ran."""

    def interrupt(self) -> None:
        """Ask it to end: one more cancellation at its next await."""

    def result(self) -> tuple[Any, BaseException | None]:
        """What it returned and what it raised, once it has ended."""

    def abandon(self) -> Straggler | None:
        """Give it up; None if it is somebody else's and simply goes on."""

    def hold(self, release: Callable[[], None], /) -> bool:
        """True if something in it is pressed and bounded like itself, and has not ended: *release* tells when it has.

        Then the work is not given up before that, and gets its turns after it.
        """


class TaskWork:
    """A coroutine of which we own the task."""

    __slots__ = (
        "_coroutine",
        "_has_begun",
        "_is_polling",
        "_is_spared",
        "_is_tidying",
        "_name",
        "_started",
        "_task",
        "can_unwind",
        "turns",
    )

    def __init__(
        self,
        coroutine: Coroutine[Any, Any, Any],
        name: str = "loopctl",
        is_tidying: Callable[[], bool] = lambda: False,
        has_begun: Callable[[], bool] | None = None,
    ) -> None:
        """Own *coroutine* from here on.

        Args:
            coroutine: The work.
            name: The task's name.
            is_tidying: True while the work is over and only tidies up: then the first press leaves it alone, because
                a cancellation would tear the cleanup that it is meant to cause.
            has_begun: Given if *coroutine* itself polls the token before it does anything, and raises
                `CancelledError` then; says whether it went on. It then runs without a frame of ours around it, which a
                long stream would pay for at each of its awaits.
        """
        self.turns: int = TURNS
        self.can_unwind: bool = True
        self._is_tidying = is_tidying
        self._is_spared = False
        self._coroutine = coroutine
        self._name = name
        self._is_polling = has_begun
        self._has_begun = False
        self._task: asyncio.Task[Any] | None = None
        self._started = 0.0

    def start(
        self, loop: asyncio.AbstractEventLoop, on_ended: Callable[[], None], may_begin: Callable[[], bool], /
    ) -> None:
        self._started = monotonic()
        work = self._coroutine if self._is_polling is not None else self._run(may_begin)
        self._task = spawn(work, loop, self._name)
        self._task.add_done_callback(lambda _: on_ended())

    async def _run(self, may_begin: Callable[[], bool]) -> Any:
        # The cancel may have come between the poll that preceded the task and the task's first step.
        if not may_begin():
            raise asyncio.CancelledError
        self._has_begun = True
        return await self._coroutine

    def discard(self) -> None:
        self._coroutine.close()

    def is_ended(self) -> bool:
        return self._task is not None and self._task.done()

    def has_begun(self) -> bool:
        return self._has_begun if self._is_polling is None else self._is_polling()

    def interrupt(self) -> None:
        if self._task is None:
            return
        if not self._is_spared and self._is_tidying():
            self._is_spared = True
            return
        self._task.cancel()

    def result(self) -> tuple[Any, BaseException | None]:
        task = self._task
        if self._is_polling is None and not self._has_begun:
            self._coroutine.close()
        if task is None:
            return None, None
        try:
            return task.result(), None
        except BaseException as error:
            return None, error

    def abandon(self) -> Straggler:
        task = self._task
        assert task is not None
        straggler = Straggler("task", self._started, lambda: frame_of_coroutine(self._coroutine))
        task.add_done_callback(lambda _: straggler.end(*self.result()))
        forget_task(task)
        return straggler

    def hold(self, _release: Callable[[], None], /) -> bool:
        return False


class ThreadWork:
    """A plain function on a daemon thread: one of its own, or that of a lane."""

    __slots__ = (
        "_begun",
        "_can_unwind",
        "_error",
        "_function",
        "_is_ended",
        "_is_withdrawn",
        "_lane",
        "_loop",
        "_name",
        "_on_ended",
        "_release",
        "_result",
        "_started",
        "_straggler",
        "_thread",
        "_token",
        "turns",
    )

    def __init__(
        self,
        function: Callable[[], Any],
        name: str,
        *,
        can_unwind: bool,
        token: CancelToken | None = None,
        lane: Lane | None = None,
    ) -> None:
        """Prepare to call *function* on a thread called *name*.

        Args:
            function: Called once, in a copy of the caller's context variables.
            name: The thread's name.
            can_unwind: True if the function can notice a cancel by itself, and so deserves the grace.
            token: What may stop it; a function that fires it itself has noticed.
            lane: Where it is done, if not on a thread of its own; what has its turn there after it was pressed or
                given up is not begun.
        """
        self.turns: int = TURNS
        self._lane = lane
        self._can_unwind = can_unwind
        self._token = token
        self._function = function
        self._name = name
        self._is_ended = False
        self._result: Any = None
        self._error: BaseException | None = None
        self._straggler: Straggler | None = None
        self._thread: threading.Thread | None = None
        self._begun = threading.Lock()
        """Taken by who comes first: the thread that does it, or who withdraws it while it waits in its lane."""
        self._is_withdrawn = False
        self._release: Callable[[], None] = _nothing
        self._started = 0.0

    @property
    def can_unwind(self) -> bool:
        thread = self._thread
        if self._can_unwind or self._token is None or thread is None:
            return self._can_unwind
        return fired_from(self._token) == thread.ident

    def start(
        self, loop: asyncio.AbstractEventLoop, on_ended: Callable[[], None], _may_begin: Callable[[], bool], /
    ) -> None:
        self._loop = loop
        self._on_ended = on_ended
        self._started = monotonic()
        self._release = hold_time(loop)
        context = contextvars.copy_context()
        try:
            if self._lane is not None:
                self._lane.do(lambda: context.run(self._body))
            else:
                self._thread = threading.Thread(target=context.run, args=(self._body,), name=self._name, daemon=True)
                self._thread.start()
        except RuntimeError as error:  # the system has no thread for us
            self._error = error
            self._is_ended = True
            self._release()
            loop.call_soon(self._tell)

    def _body(self) -> None:
        if not self._begun.acquire(blocking=False):
            return
        self._thread = threading.current_thread()
        try:
            self._result = self._function()
        except BaseException as error:
            self._error = error
        self._is_ended = True
        try:
            self._loop.call_soon_threadsafe(self._tell)
        except RuntimeError:  # the loop is closed: nobody waits any more
            self._end_straggler()
        self._release()

    def _tell(self) -> None:
        self._end_straggler()
        self._on_ended()

    def _end_straggler(self) -> None:
        if self._straggler is not None:
            self._straggler.end(self._result, self._error)

    def discard(self) -> None:
        pass

    def is_ended(self) -> bool:
        return self._is_ended

    def has_begun(self) -> bool:
        return not self._is_withdrawn

    def interrupt(self) -> None:
        if self._lane is not None and self._begun.acquire(blocking=False):
            self._is_withdrawn = self._is_ended = True
            self._error = asyncio.CancelledError()
            self._release()
            self._loop.call_soon(self._tell)

    def result(self) -> tuple[Any, BaseException | None]:
        return self._result, self._error

    def abandon(self) -> Straggler:
        self._release()
        self._straggler = Straggler("thread", self._started, self._place)
        self.interrupt()  # in its lane it need not be begun any more
        return self._straggler

    def _place(self) -> tuple[CodeType, int] | None:
        return None if self._thread is None else frame_of_thread(self._thread)

    def hold(self, _release: Callable[[], None], /) -> bool:
        return False


class ForeignWork:
    """A future that belongs to somebody else: waited for, never cancelled."""

    __slots__ = ("_callback", "_future", "can_unwind", "turns")

    def __init__(self, future: asyncio.Future[Any]) -> None:
        """Wait for *future*, which must be of the running loop."""
        self.turns: int = TURNS
        self.can_unwind: bool = False
        self._future = future

    def start(
        self, loop: asyncio.AbstractEventLoop, on_ended: Callable[[], None], _may_begin: Callable[[], bool], /
    ) -> None:
        if self._future.get_loop() is not loop:
            raise UsageError(f"{self._future!r} belongs to another event loop. Await it there.")
        self._callback: Callable[[object], None] = lambda _: on_ended()
        self._future.add_done_callback(self._callback)

    def discard(self) -> None:
        pass

    def is_ended(self) -> bool:
        return self._future.done()

    def has_begun(self) -> bool:
        return True

    def interrupt(self) -> None:
        pass

    def result(self) -> tuple[Any, BaseException | None]:
        try:
            return self._future.result(), None
        except BaseException as error:
            return None, error

    def abandon(self) -> None:
        self._future.remove_done_callback(self._callback)

    def hold(self, _release: Callable[[], None], /) -> bool:
        return False


def work_of(work: Awaitable[Any]) -> Work:
    """Choose the kind of work that *work* is.

    Raises:
        UsageError: *work* cannot be awaited.
    """
    if inspect.iscoroutine(work):
        return TaskWork(work)
    if asyncio.isfuture(work):
        return ForeignWork(work)
    if inspect.isawaitable(work):
        return TaskWork(_await(work))
    raise UsageError(f"{work!r} cannot be awaited: give a coroutine, a task or a future")


async def _await(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


def _nothing() -> None:
    pass
