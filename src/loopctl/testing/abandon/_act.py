"""One call of a tool, as the engine runs it: a task for an `async def`, a thread for a plain `def`.

Rules: the first press comes at the point itself, so that the `CancelledError` is raised at exactly that await; the
second comes after the grace, and each is given as many turns of the loop as the engine gives.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from loopctl.cancel import CancelSignal
from loopctl.testing.abandon._points import Author, Passage, Place, Tracer, Watched, watch_tasks
from loopctl.tools import EffectLedger, Tool, ToolContext, means_of

__all__ = ["Act", "TaskAct", "ThreadAct"]

_TURNS = 32
CALL_ID = "checked"


class Act(Protocol):
    """One call that runs."""

    signal: CancelSignal
    escaped: list[Any]

    def begin(self) -> None:
        """Start it."""

    def wait(self, seconds: float) -> bool:
        """Let it run for so long at most, or until it was stopped; say whether it has ended."""

    def press(self) -> None:
        """Cancel it."""

    def place(self) -> Place | None:
        """Where it is now."""

    def result(self) -> tuple[Any, BaseException | None]:
        """What it returned and what it raised, once it has ended."""


class _Call:
    """What both kinds of call are made of."""

    def __init__(self, tool: Tool, arguments: Mapping[str, Any], author: Author, ledger: EffectLedger | None) -> None:
        self.signal: CancelSignal = CancelSignal()
        self.escaped: list[Any] = []
        self._tool = tool
        self._arguments = arguments
        self._author = author
        # The key is that of every attempt of one call.
        self._context = ToolContext(CALL_ID, tool.name, self.signal.token, CALL_ID, ledger=ledger)
        self._means = means_of(self._context)
        self._means.commands.keep = self.escaped.append
        if tool.finish_within is not None:  # a stop does not end its waits
            self._means.acting = CancelSignal().token


class TaskAct(_Call):
    """A call of an `async def`."""

    def __init__(
        self,
        tool: Tool,
        arguments: Mapping[str, Any],
        author: Author,
        ledger: EffectLedger | None,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """Prepare to run it on *loop*, which runs only while somebody waits for the call."""
        super().__init__(tool, arguments, author, ledger)
        self._loop = loop
        self._task: asyncio.Task[Any] | None = None
        self._stop: Callable[[], object] = lambda: None
        self._passage = Passage()

    def watch(self, passage: Passage) -> None:
        """Tell *passage* of each suspension."""
        self._passage = passage

    def begin(self) -> None:
        def suspended(coroutine: object) -> None:
            self._passage.note("await", self._author.place_of(coroutine))

        watch_tasks(self._loop, suspended)
        work = self._means.folder.around(lambda: self._tool.call(self._arguments, self._context))
        self._task = asyncio.Task(Watched(work, suspended), loop=self._loop, name=f"loopctl tool {self._tool.name}")
        self._task.add_done_callback(lambda _: self._passage.close())

    def wait(self, seconds: float) -> bool:
        task = self._task
        assert task is not None
        stopped = self._loop.create_future()
        self._stop = lambda: None if stopped.done() else stopped.set_result(None)
        if not self.signal.is_cancelled() or task.done():
            waits: set[asyncio.Future[Any]] = {task, stopped}
        else:
            waits = {task}
        first = asyncio.FIRST_COMPLETED
        self._loop.run_until_complete(asyncio.wait(waits, timeout=seconds, return_when=first))
        return task.done()

    def press(self) -> None:
        assert self._task is not None
        if not self.signal.is_cancelled():
            self.signal.cancel()
            self._stop()
            if self._tool.finish_within is None:
                self._task.cancel()
            return
        self._task.cancel()
        for _ in range(_TURNS):
            if self._task.done():
                break
            self._loop.run_until_complete(asyncio.sleep(0))

    def place(self) -> Place | None:
        return None if self._task is None else self._author.place_of(self._task.get_coro())

    def result(self) -> tuple[Any, BaseException | None]:
        assert self._task is not None
        self._means.is_over = True
        try:
            return self._task.result(), None
        except BaseException as error:
            return None, error


class ThreadAct(_Call):
    """A call of a plain `def`."""

    def __init__(self, tool: Tool, arguments: Mapping[str, Any], author: Author, ledger: EffectLedger | None) -> None:
        """Prepare to run it on a thread."""
        super().__init__(tool, arguments, author, ledger)
        self._result: tuple[Any, BaseException | None] = None, None
        self._changed = threading.Condition()
        self._is_ended = False
        self._tracer: Tracer | None = None
        self._thread = threading.Thread(target=self._run, name=f"loopctl tool {tool.name}", daemon=True)

    def trace(self, tracer: Tracer) -> None:
        """Let *tracer* see what the thread does."""
        self._tracer = tracer

    def begin(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        if self._tracer is not None:
            self._tracer.begin()
        try:
            self._result = self._tool.call(self._arguments, self._context), None
        except BaseException as error:
            self._result = None, error
        if self._tracer is not None:
            self._tracer.end()
        self._means.folder.remove()
        with self._changed:
            self._is_ended = True
            self._changed.notify_all()

    def wait(self, seconds: float) -> bool:
        until = time.monotonic() + seconds
        was_stopped = self.signal.is_cancelled()
        with self._changed:
            while not self._is_ended and self.signal.is_cancelled() == was_stopped:
                rest = until - time.monotonic()
                if rest <= 0:
                    break
                self._changed.wait(rest)
        if self._is_ended:
            self._thread.join()
        return self._is_ended

    def press(self) -> None:
        if self.signal.cancel():
            with self._changed:
                self._changed.notify_all()

    def place(self) -> Place | None:
        return self._author.place_under(sys._current_frames().get(self._thread.ident or -1))

    def result(self) -> tuple[Any, BaseException | None]:
        self._means.is_over = True
        return self._result
