"""The tasks of the engine: made here and nowhere else, and taken from asyncio's hands when they are abandoned.

Rule: they are made directly, never by the loop's factory, so that an eager factory cannot run user code before the
cancel was polled.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

from loopctl.errors import UsageError

__all__ = ["forget_task", "refuse_tasks", "spawn"]

T = TypeVar("T")

_refusals: list[str] = []


@contextlib.contextmanager
def refuse_tasks(why: str) -> Iterator[None]:
    """Refuse, inside of the block and with the text *why*, to make a task: nothing of loopctl can begin."""
    _refusals.append(why)
    try:
        yield
    finally:
        _refusals.remove(why)


def spawn(coroutine: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop, name: str) -> asyncio.Task[T]:
    """Make a task that never begins before the loop's next turn, whatever the loop's task factory is.

    Raises:
        UsageError: It is not the time for it: see `refuse_tasks`.
    """
    if _refusals:
        coroutine.close()
        raise UsageError(_refusals[-1])
    return asyncio.Task(coroutine, loop=loop, name=name)


def forget_task(task: asyncio.Task[Any]) -> None:
    """Let `asyncio.run` end without waiting for *task*, and say nothing when it is destroyed.

    Source: `asyncio.run` cancels and awaits every task that is registered, without a bound.
    """
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    unregister = getattr(asyncio, "_unregister_task", None) or getattr(asyncio.tasks, "_unregister_task", None)
    if unregister is not None:
        unregister(task)
