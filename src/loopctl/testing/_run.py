"""Runs a coroutine on a virtual loop and closes the loop within bounds, whatever is left on it.

Rules: what will not stop is named in an error, never waited for; it is then put to rest, so that nothing of it
surfaces later as an unraisable exception in another test.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from loopctl.concurrency import forget_task
from loopctl.testing._errors import Leftovers, SimulationError
from loopctl.testing._loop import VirtualLoop
from loopctl.testing._where import task_place, task_work

__all__ = ["virtual_run"]

_T = TypeVar("_T")

_WIND_DOWN = 60.0
"""Virtual seconds that cancelled leftovers have to end; they cost no real time."""
_TURNS = 64
"""Turns of the loop for what is ready when all else has ended."""
_BURIALS = 32
"""How often a coroutine that refuses to be closed is asked again."""


def virtual_run(
    main: Callable[[], Coroutine[Any, Any, _T]] | Coroutine[Any, Any, _T],
    *,
    limit: float = 3600.0,
    blocked_after: float | None = None,
    allow_leftovers: bool = False,
    debug: bool | None = None,
    loop: VirtualLoop | None = None,
) -> _T:
    """Run *main* as `asyncio.run` does, on a loop whose clock jumps.

    Afterwards the loop is closed as `asyncio.run` does it: leftover tasks are cancelled, asynchronous generators are
    closed. Unlike there, what refuses to end does not hang the test.

    Args:
        main: The coroutine function (called without arguments), or a coroutine.
        limit: Virtual seconds after which the run is called endless.
        blocked_after: Real seconds after which a silent thread no longer stops the clock; see `VirtualLoop`.
        allow_leftovers: Accept tasks and threads that will not stop, instead of failing.
        debug: Run in asyncio's debug mode; None lets the environment decide.
        loop: A loop made beforehand, for its hooks and its counts. Its own limits apply then.

    Returns:
        What *main* returns.

    Raises:
        SimulationError: `Deadlock`, `BusyLoop`, `TimeLimit`, or `Leftovers`, naming the tasks and where they wait. If
            *main* raises, its exception goes on with the leftovers in a note.
    """
    loop = VirtualLoop(limit=limit, blocked_after=blocked_after) if loop is None else loop
    if debug is not None:
        loop.set_debug(debug)
    try:
        result = loop.run_until_complete(loop.create_task(main() if callable(main) else main, name="main"))
    except BaseException as error:
        left = _close(loop, is_waiting=not allow_leftovers)
        if left and not allow_leftovers:
            error.add_note(_report(left))
        raise
    left = _close(loop, is_waiting=not allow_leftovers)
    if left and not allow_leftovers:
        raise Leftovers(_report(left))
    return result


def _report(left: list[str]) -> str:
    return (
        "left over: when main had ended, this was cancelled and would not stop (end it in the test, or give "
        "allow_leftovers=True):\n" + "\n".join(f"  {line}" for line in left)
    )


def _close(loop: VirtualLoop, *, is_waiting: bool) -> list[str]:
    try:
        loop.limit = float("inf")
        if loop.blocked_after is None:
            loop.blocked_after = loop.patience
        left = _stop_tasks(loop, asyncio.all_tasks(loop))
        left += _stop_tasks(loop, asyncio.all_tasks(loop))  # what the first round's cleanup has started
        left += _stop_generators(loop)
        _finish_what_is_ready(loop)
        if is_waiting:
            left += _wait_for_threads(loop)
        return left
    finally:
        loop.close()


def _stop_tasks(loop: VirtualLoop, tasks: set[asyncio.Task[Any]]) -> list[str]:
    if not tasks:
        return []
    for task in tasks:
        task.cancel()
    _settle(loop, tasks)
    left = []
    for task in tasks:
        if not task.done():
            left.append(f"task {task.get_name()}: {task_work(task)} hangs at {task_place(task)}")
            _bury(task)
        elif not task.cancelled() and (error := task.exception()) is not None:
            loop.call_exception_handler(
                {"message": "unhandled exception while virtual_run closed", "exception": error, "task": task}
            )
    return sorted(left)


def _stop_generators(loop: VirtualLoop) -> list[str]:
    if not loop._asyncgens:  # type: ignore[attr-defined]  # most runs have none, and a task costs
        return []
    closing = loop.create_task(loop.shutdown_asyncgens(), name="closing of asynchronous generators")
    _settle(loop, {closing})
    if closing.done():
        return []
    stuck = asyncio.all_tasks(loop) - {closing}
    places = [f"an asynchronous generator that is being closed hangs at {task_place(task)}" for task in stuck]
    return [*places, *_stop_tasks(loop, stuck | {closing})]


def _finish_what_is_ready(loop: VirtualLoop) -> None:
    """Take the turns that are left: work that its run abandoned is no task of the loop's, and may be about to end."""
    with suppress(SimulationError):
        for _ in range(_TURNS):
            if not loop._ready:
                return
            loop.call_soon(loop.stop)
            loop.run_forever()


def _settle(loop: VirtualLoop, tasks: set[asyncio.Task[Any]]) -> None:
    """Run the loop until *tasks* are done, or can be seen not to end."""
    waiting = loop.create_task(_wait(tasks), name="virtual_run closing")
    with suppress(SimulationError):  # a deadlock or a busy loop of theirs: they are reported as not done
        loop.run_until_complete(waiting)
    if not waiting.done():
        _bury(waiting)


async def _wait(tasks: set[asyncio.Task[Any]]) -> None:
    await asyncio.wait(tasks, timeout=_WIND_DOWN)


def _wait_for_threads(loop: VirtualLoop) -> list[str]:
    end = time.monotonic() + loop.patience
    while loop.holders and time.monotonic() < end:
        time.sleep(0.001)
    return list(loop.holders)


def _bury(task: asyncio.Task[Any]) -> None:
    """End a coroutine that does not want to, without a word from asyncio or the collector afterwards."""
    forget_task(task)
    # If it is woken once more it finds its coroutine closed: that error is nobody's concern.
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    coroutine = task.get_coro()
    for _ in range(_BURIALS):
        with suppress(BaseException):  # whatever it says while it is being closed, it was asked to stop
            coroutine.close()
            return
