"""Serves one client by the protocol until it goes away.

Rules: the client's going away, and the signal of whoever serves, are one signal that every run was given; the end
waits for runs, each of which is bounded, and for a client that does not read only so long. The SDK's tasks handle
messages and wait for runs; a run is never one of them, so that what the SDK does to its tasks reaches no run.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from copy import copy
from io import FileIO
from typing import Any, BinaryIO, cast

from acp.agent.connection import AgentSideConnection

from loopctl.adapters._stdio import own_stdio
from loopctl.adapters.acp._editor import Editor
from loopctl.adapters.acp._prompt import Client
from loopctl.adapters.acp._wire import Wire
from loopctl.cancel import CancelSignal, watch
from loopctl.concurrency import race
from loopctl.driver import Agent, Session
from loopctl.errors import Cancelled
from loopctl.record import CancelReason
from loopctl.tools import Tool, ToolRegistry

__all__ = ["serve"]

_SERVED = CancelReason("shutdown", "the agent is no longer served", "acp")


async def serve(
    agent: Agent | Callable[[str], Agent],
    *,
    store: str | os.PathLike[str] | None = None,
    signal: CancelSignal | None = None,
    streams: tuple[BinaryIO, BinaryIO] | None = None,
) -> None:
    """Be an agent for one client of the Agent Client Protocol, until the client goes away.

    Args:
        agent: What answers, made with `approve=loopctl.adapters.acp.approve`; or what makes one for the folder of a
            new session. Closing it is the caller's.
        store: As of `Agent.session`, for every session.
        signal: Ends the serving, and with it every run.
        streams: To read from and to write to, which are closed at the end; None takes stdin and stdout of the process
            for it, and sends what others print there to stderr meanwhile.

    Raises:
        UsageError: The streams are no pipes.

    Cancellation:
        Cancels every run (origin `shutdown`), waits for their ends, then goes on.
    """
    gone = CancelSignal() if signal is None else signal.child()

    def session_in(cwd: str, served: Sequence[Tool]) -> Session:
        made = agent if isinstance(agent, Agent) else agent(cwd)
        if served:
            made = copy(made)  # the tools are this session's alone
            made.tools = ToolRegistry((*made.tools.values(), *served))
        return made.session(store=store)

    if streams is not None:
        await _serve(session_in, gone, *streams)
        return
    with own_stdio() as (inlet, outlet):
        await _serve(session_in, gone, FileIO(inlet, "rb"), FileIO(outlet, "wb"))


async def _serve(
    session_in: Callable[[str, Sequence[Tool]], Session], gone: CancelSignal, stdin: BinaryIO, stdout: BinaryIO
) -> None:
    wire = Wire()
    client = Client(wire, gone)
    editor = Editor(client, session_in)
    wire.on_end = lambda how: _disconnect(gone, how)
    wire.on_cancel_request = editor.cancel_request
    await wire.open(stdin, stdout)
    # A client that reads nothing must not hold up the end: from then on nothing waits for room.
    released = watch(gone.token, asyncio.get_running_loop(), wire.release)
    # Not the SDK's `run_agent`: it takes its own streams, and its end is not bounded.
    connection = client.connection = AgentSideConnection(
        cast("Any", editor), cast("Any", wire), listening=False, use_unstable_protocol=True
    )
    try:
        await race(connection.listen(), gone)
    except Cancelled:
        pass  # the ordinary end, by the client or by the signal
    finally:
        gone.cancel(_SERVED)
        await editor.aclose()
        await connection.close()
        released.close()


def _disconnect(gone: CancelSignal, how: str) -> None:
    gone.cancel(CancelReason("disconnect", f"the client has gone: {how}", "acp"))
