"""What a call runs as: a task for an `async def`, a thread of its own for a plain `def`, or a process for either."""

from __future__ import annotations

import functools
from typing import Any

from loopctl.concurrency import TaskWork, ThreadWork, Work
from loopctl.tools._context import ToolContext, means_of
from loopctl.tools._isolation import IsolatedWork
from loopctl.tools._tool import Tool

__all__ = ["work_of_call"]


def work_of_call(tool: Tool, arguments: dict[str, Any], context: ToolContext) -> Work:
    """Prepare a call of *tool*, with the folder of its context removed at its end."""
    name = f"loopctl tool {tool.name}"
    if tool.isolation == "process":
        return IsolatedWork(tool, arguments, context)
    if tool.is_async:
        return TaskWork(means_of(context).folder.around(lambda: tool.call(arguments, context)), name=name)
    return ThreadWork(
        functools.partial(_on_thread, tool, arguments, context),
        name=name,
        can_unwind=tool.takes_context,
        token=context.signal,
    )


def _on_thread(tool: Tool, arguments: dict[str, Any], context: ToolContext) -> Any:
    try:
        return tool.call(arguments, context)
    finally:
        means_of(context).folder.remove()
