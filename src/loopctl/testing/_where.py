"""Says what a suspended task runs and where it waits, for error texts."""

from __future__ import annotations

import asyncio
import gc
import inspect
from collections.abc import Iterable
from pathlib import Path
from types import FrameType

__all__ = ["describe_tasks", "frames_of", "task_place", "task_work"]

_ASYNCIO = str(Path(asyncio.__file__).parent)
_FRAMES = ("cr_frame", "ag_frame", "gi_frame")
_AWAITED = ("cr_await", "ag_await", "gi_yieldfrom")
_OPAQUE = ("async_generator_asend", "async_generator_athrow", "coroutine_wrapper")
"""Awaitables that do not name what they drive; only the collector knows."""
_DEPTH = 200


def describe_tasks(tasks: Iterable[asyncio.Task[object]]) -> str:
    """List *tasks*, one a line, each with the place where it waits."""
    lines = sorted(f"  {task.get_name()}: {task_work(task)} waits at {task_place(task)}" for task in tasks)
    return "\n".join(lines) or "  (no task is pending)"


def task_work(task: asyncio.Task[object]) -> str:
    """Name the coroutine that *task* runs."""
    return getattr(task.get_coro(), "__qualname__", repr(task.get_coro()))


def task_place(task: asyncio.Task[object]) -> str:
    """Give the innermost place of a suspended *task* outside of asyncio itself, as `file:line in function`."""
    frames = frames_of(task.get_coro())
    ours = [frame for frame in frames if not frame.f_code.co_filename.startswith(_ASYNCIO)]
    return _place(next(reversed(ours or frames), None))


def frames_of(awaited: object) -> list[FrameType]:
    """Give the frames that *awaited* is suspended in, the innermost last."""
    frames: list[FrameType] = []
    for _ in range(_DEPTH):
        if awaited is None:
            break
        frame = next((found for name in _FRAMES if (found := getattr(awaited, name, None)) is not None), None)
        if frame is not None:
            frames.append(frame)
        awaited = _next_awaited(awaited)
    return frames


def _next_awaited(awaited: object) -> object:
    found = next((value for name in _AWAITED if (value := getattr(awaited, name, None)) is not None), None)
    if found is None and type(awaited).__name__ in _OPAQUE:
        driven = gc.get_referents(awaited)
        return next((held for held in driven if inspect.isasyncgen(held) or inspect.iscoroutine(held)), None)
    return found


def _place(frame: FrameType | None) -> str:
    if frame is None:
        return "(no frame: not started, or finished)"
    return f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_qualname}"
