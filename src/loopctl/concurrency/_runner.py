"""Run a program whose end is bounded: like `asyncio.run`, but nothing that refuses to stop can hold it up."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from loopctl.concurrency._interrupts import woken_by_signals
from loopctl.concurrency._tasks import forget_task
from loopctl.errors import UsageError

__all__ = ["run"]

T = TypeVar("T")

_TURNS = 200
"""Turns of the loop after the second cancellation: a run that abandons its work needs more than 64 to say so."""


def run(main: Coroutine[Any, Any, T], *, exit_grace: float = 1.0, debug: bool | None = None) -> T:
    """Run *main* on a new event loop, and end when it has ended.

    Like `asyncio.run`, with a bound: leftover tasks are cancelled and get *exit_grace* seconds together; those that
    refuse are given up in silence. So do async generators; threads of the default executor are not waited for here
    (Python itself joins them when the interpreter exits; the threads of loopctl's own tools are daemons).

    Args:
        main: The program.
        exit_grace: Seconds that leftover work gets after *main* has ended.
        debug: As for `asyncio.run`.

    Returns:
        What *main* returned.

    Raises:
        UsageError: An event loop is running in this thread already.

    Cancellation:
        Not a coroutine. The first Ctrl-C cancels the main task, as `asyncio.run` does.
    """
    if asyncio._get_running_loop() is not None:
        main.close()
        raise UsageError("loopctl.run cannot be called from a running event loop: await the coroutine there")
    runner = asyncio.Runner(debug=debug)
    loop = runner.get_loop()
    with woken_by_signals(loop):
        try:
            return runner.run(main)
        finally:
            try:
                _settle(loop, exit_grace)
            finally:
                # Also if a Ctrl-C ended the wait: closing would wait for what is left, without a bound.
                _let_go(loop)
                runner.close()


def _settle(loop: asyncio.AbstractEventLoop, grace: float) -> None:
    """Leave nothing that `Runner.close` would wait for without a bound."""
    leftovers = asyncio.all_tasks(loop)
    for task in leftovers:
        task.cancel()
    _run_bounded(loop, leftovers, grace)
    generators = loop.create_task(loop.shutdown_asyncgens())
    _run_bounded(loop, {generators}, grace)


def _let_go(loop: asyncio.AbstractEventLoop) -> None:
    for task in asyncio.all_tasks(loop):
        task.add_done_callback(lambda late: late.cancelled() or late.exception())
        forget_task(task)
    executor = getattr(loop, "_default_executor", None)
    if executor is not None:
        executor.shutdown(wait=False, cancel_futures=True)
        loop._default_executor = None  # type: ignore[attr-defined]


def _run_bounded(loop: asyncio.AbstractEventLoop, tasks: set[asyncio.Task[Any]], grace: float) -> None:
    if not tasks:
        return
    loop.run_until_complete(asyncio.wait(tasks, timeout=grace))
    for task in tasks:
        if not task.done():
            task.cancel()
    for _ in range(_TURNS):
        if all(task.done() for task in tasks):
            break
        loop.run_until_complete(asyncio.sleep(0))
    for task in tasks:
        if task.done():
            _report(loop, task)


def _report(loop: asyncio.AbstractEventLoop, task: asyncio.Task[Any]) -> None:
    if not task.cancelled() and task.exception() is not None:
        loop.call_exception_handler(
            {
                "message": "unhandled exception during loopctl.run() shutdown",
                "exception": task.exception(),
                "task": task,
            }
        )
