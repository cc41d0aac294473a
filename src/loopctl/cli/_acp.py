"""`loopctl acp`: an agent that an editor drives.

Rules: stdout carries the protocol and nothing else; the end of stdin ends the command, and so does a signal of the
process; one model serves every session.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from loopctl.cancel import CancelSignal
from loopctl.cli._agent import make_agent
from loopctl.cli._exit import COMPLETED, code_of_reason
from loopctl.cli._listening import listening
from loopctl.cli._options import Options
from loopctl.cli._presses import Presses
from loopctl.cli._servers import served_tools
from loopctl.driver import Agent
from loopctl.errors import Cancelled, MissingExtra
from loopctl.tools import ToolRegistry

__all__ = ["acp"]


async def acp(options: Options, presses: Presses) -> tuple[int, bool]:
    """Serve the editor at stdin and stdout until it goes away.

    Returns:
        The exit code, and whether tasks are left.

    Raises:
        UsageError: The options describe no agent, or stdin and stdout are no pipes.

    Cancellation:
        As of `loopctl.adapters.acp.serve`.
    """
    try:
        from loopctl.adapters.acp import approve, serve
    except ImportError as error:
        raise MissingExtra.of("loopctl acp", "acp") from error
    first = make_agent(options)  # what is wrong with the options is told now, not in the first session
    signal = CancelSignal()

    try:
        with listening("acp") as listener:
            async with served_tools(options.servers, presses) as served:

                def agent_in(folder: str) -> Agent:
                    ours = replace(options, workspace=folder) if options.has_workspace else options
                    agent = make_agent(ours, model=first.model, approve=approve)
                    agent.tools = ToolRegistry((*agent.tools.values(), *served))
                    if listener is not None:
                        listener.add(agent)
                    return agent

                with presses.running(signal.cancel):
                    await serve(agent_in, store=options.store, signal=signal)
    except Cancelled as stop:  # while a server was being connected
        signal.cancel(stop.reason)
    finally:
        await first.aclose()
    code = COMPLETED if signal.reason is None else code_of_reason(signal.reason)
    return code, len(asyncio.all_tasks()) > 1
