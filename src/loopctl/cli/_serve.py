"""`loopctl serve`: the page, and the HTTP API under it.

Rules: the address is told on stdout as soon as it is listened at; what models and tools print goes to stderr; a signal
of the process ends what runs, tells its clients, and ends the command within a bound.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import redirect_stdout
from typing import TextIO

from loopctl.cancel import CancelSignal
from loopctl.cli._agent import make_agent
from loopctl.cli._exit import COMPLETED, code_of_reason
from loopctl.cli._listening import listening
from loopctl.cli._options import ServeOptions
from loopctl.cli._others import read_token
from loopctl.cli._presses import Presses
from loopctl.cli._servers import served_tools
from loopctl.driver import Agent
from loopctl.errors import Cancelled, MissingExtra, UsageError
from loopctl.tools import ToolRegistry

__all__ = ["serve"]


async def serve(options: ServeOptions, presses: Presses) -> tuple[int, bool]:
    """Serve until a signal of the process comes.

    Returns:
        The exit code, and whether tasks are left.

    Raises:
        UsageError: The options describe no agent, or nothing can listen there.

    Cancellation:
        As of `loopctl.web.serve`.
    """
    try:
        from loopctl.web import approve
    except ImportError as error:
        raise MissingExtra.of("loopctl serve", "web") from error
    signal = CancelSignal()
    stdout = sys.stdout
    with redirect_stdout(sys.stderr):
        agent = make_agent(options.agent, approve=approve)
        try:
            async with served_tools(options.agent.servers, presses) as served:
                agent.tools = ToolRegistry((*agent.tools.values(), *served))
                with listening("serve", agent), presses.running(signal.cancel):
                    await _serve(agent, options, signal, stdout)
        except Cancelled as stop:  # while a server of tools was being connected
            signal.cancel(stop.reason)
        finally:
            await agent.aclose()
    code = COMPLETED if signal.reason is None else code_of_reason(signal.reason)
    return code, len(asyncio.all_tasks()) > 1


async def _serve(agent: Agent, options: ServeOptions, signal: CancelSignal, stdout: TextIO) -> None:
    from loopctl.web import create_app, serve

    token = None if options.token_file is None else read_token(options.token_file)
    app = create_app(agent, store=options.agent.store, on_disconnect=options.on_disconnect, token=token)

    def tell(url: str) -> None:
        print(f"loopctl: {url} (Ctrl-C ends)", file=stdout, flush=True)

    try:
        await serve(app, host=options.host, port=options.port, signal=signal, on_ready=tell)
    except OSError as error:
        raise UsageError(f"cannot listen at {options.host}, port {options.port}: {error.strerror or error}") from error
