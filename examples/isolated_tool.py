"""Stop a tool that cannot be stopped: C code that never comes back, in a process of its own.

Run it: `python examples/isolated_tool.py`
"""

from __future__ import annotations

import asyncio

from loopctl import Agent, ToolContext, tool
from loopctl.testing import ScriptedModel, call


@tool(isolation="process")
def add_up(to: int, ctx: ToolContext) -> int:
    """Add up all numbers below one."""
    ctx.progress("begun")
    return sum(range(to))  # it keeps the interpreter lock, and handles no signal, for days


async def main() -> None:
    """Run it, and stop it in the middle."""
    agent = Agent(ScriptedModel(call("add_up", {"to": 10**15}), "Done."), tools=[add_up])
    async with agent.session().start("How much is it?") as handle:
        async for event in handle:
            if type(event).__name__ == "ToolProgress":
                handle.cancel("that takes too long")
    run = await handle
    (record,) = run.tool_calls
    assert run.outcome == "cancelled"
    print(f"{record.name}: {record.status}; {run.stop}")


if __name__ == "__main__":  # the process of a tool imports this file
    asyncio.run(main())
