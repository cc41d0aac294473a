"""Tools of ours, served to MCP clients over stdio or HTTP.

Rules:

- A cancel of the client (`notifications/cancelled`, or the end of its request where the protocol says so) is a cancel
  of that call alone: an `async def` is dropped at its next await, a plain function is told through its context. Nothing
  is answered to it beyond what the protocol wants.
- An unknown tool is a protocol error; arguments that do not fit, and what a tool raises, are results with `isError`.
- Schemas are checked before anybody is told of them.
- When the server ends, so do its calls, for its reason; a client that leaves ends what it has asked for over stdio.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import socket
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import version
from itertools import chain
from typing import Any

import jsonschema
import mcp_types as types
import uvicorn
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from starlette.applications import Starlette

from loopctl.adapters.mcp._agent_tool import AgentTool
from loopctl.adapters.mcp._child import wait_for
from loopctl.adapters.mcp._served_call import ServedCall, Serving
from loopctl.adapters.mcp._stdio import standard_streams
from loopctl.cancel import CancelSignal, CancelToken, Registration, token_of
from loopctl.concurrency import Grace, Straggler, TaskWork, check_seconds, fresh_id, settle, supervise
from loopctl.errors import UsageError
from loopctl.messages import ToolCall
from loopctl.record import CancelReason
from loopctl.tools import Approver, RemoteTool, Tool, ToolRegistry

__all__ = ["McpServer"]

_LEFT = CancelReason("disconnect", "the client has left", "mcp")
_CLOSED = CancelReason("disconnect", "the connection was closed", "mcp")


class McpServer:
    """An MCP server for tools."""

    def __init__(
        self,
        tools: Iterable[Tool | Callable[..., Any]],
        *,
        name: str = "loopctl",
        approve: Approver | None = None,
        grace: float = 1.0,
    ) -> None:
        """Serve *tools*.

        Args:
            tools: As of `Agent`; an `AgentTool` makes one of an agent.
            name: What the server calls itself.
            approve: Asked before each call of a tool that needs it, as of `Agent`; None refuses those calls.
            grace: Seconds that a stopped call gets to unwind.

        Raises:
            UsageError: Something cannot be a tool, or a schema is none.
        """
        self.tools: ToolRegistry = ToolRegistry(tools)
        self._serving = Serving(self.tools, approve, check_seconds("grace", grace))
        self._calls: set[ServedCall] = set()
        self._listing = types.ListToolsResult(tools=[_described(made) for made in self.tools.values()])
        self._server: Server[Any] = Server(
            name, version=version("loopctl-py"), on_list_tools=self._list, on_call_tool=self._call
        )

    @property
    def protocol(self) -> Server[Any]:
        """The SDK's own server, to be given to its client in the same program, or to another transport."""
        return self._server

    @property
    def stragglers(self) -> tuple[Straggler, ...]:
        """The work that stopped calls had to leave, also that of agents, and what of it has ended since; the newest."""
        agents = (made.stragglers for made in self.tools.values() if isinstance(made, AgentTool))
        return tuple(chain(self._serving.stragglers, *agents))

    async def serve_stdio(self, signal: CancelSignal | CancelToken | None = None) -> None:
        """Serve one client on the standard input and output, until it closes them.

        Args:
            signal: Ends the server.

        Raises:
            Cancelled: The signal fired.

        Cancellation:
            The calls are cancelled and end in their grace.
        """
        token = token_of(CancelSignal() if signal is None else signal)
        with self._stopped_by(token):
            await self._serve(self._on_stdio(), token)

    def app(self) -> Starlette:
        """Give an ASGI application that serves any number of clients at `/mcp`; see also `aclose`."""
        return self._server.streamable_http_app()

    async def serve_http(
        self,
        host: str = "127.0.0.1",
        port: int = 8000,
        signal: CancelSignal | CancelToken | None = None,
        on_ready: Callable[[str], object] = lambda _: None,
    ) -> None:
        """Serve any number of clients over HTTP.

        Args:
            host: Where to listen. Only on loopback are requests refused that another web page may have sent.
            port: Where to listen; 0 takes a free one.
            signal: Ends the server.
            on_ready: Called with the URL when it listens.

        Raises:
            Cancelled: The signal fired.
            OSError: Nothing can listen there.

        Cancellation:
            The calls are cancelled and end in their grace; connections get a second, to hear of it.
        """
        token = token_of(CancelSignal() if signal is None else signal)
        token.raise_if_cancelled()
        with socket.create_server((host, port)) as listener:
            app = self._server.streamable_http_app(host=host)
            server = _Uvicorn(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1))

            # After `Config`, which sets up the logging anew; it stays, because what is cancelled ends later.
            logging.getLogger("uvicorn.error").addFilter(_is_news)

            def stop() -> None:
                server.should_exit = True

            on_ready(f"http://{host}:{listener.getsockname()[1]}/mcp")
            with token.on_cancel(stop), self._stopped_by(token):
                await self._serve(server.serve(sockets=[listener]), CancelSignal().token)
        token.raise_if_cancelled()

    async def aclose(self) -> None:
        """Cancel the calls that run, and wait for their end.

        Cancellation:
            Goes on to the host.
        """
        self._serving.signal.cancel(_CLOSED)
        for call in tuple(self._calls):
            await wait_for(call.task, 2 * self._serving.grace + 1)
        await settle(self.stragglers, self._serving.grace)

    def _stopped_by(self, token: CancelToken) -> Registration:
        return token.on_cancel(lambda: self._serving.signal.cancel(token.reason))

    async def _serve(self, serving: Any, token: CancelToken) -> None:
        try:
            ending = await supervise(TaskWork(serving, "loopctl mcp server"), token, grace=Grace(self._serving.grace))
        finally:
            await self.aclose()
        ending.unwrap()

    async def _on_stdio(self) -> None:
        async with standard_streams(lambda: self._serving.signal.cancel(_LEFT)) as (incoming, outgoing):
            await self._server.run(incoming, outgoing, self._server.create_initialization_options())

    async def _list(
        self, _ctx: ServerRequestContext[Any], _params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return self._listing

    async def _call(self, ctx: ServerRequestContext[Any], params: types.CallToolRequestParams) -> types.CallToolResult:
        if params.name not in self.tools:
            known = ", ".join(self.tools) or "none"
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name}. There are: {known}")
        call = ToolCall(fresh_id("call"), params.name, dict(params.arguments or {}))
        served = ServedCall(call, self._serving)
        self._calls.add(served)
        served.task.add_done_callback(lambda _: self._calls.discard(served))
        result = await served.attend(ctx.session.report_progress)
        if result is None:  # stopped by the end of the server
            return _result("The server is ending; the call was stopped.", is_error=True)
        return _result(result.content, is_error=result.is_error)


class _Uvicorn(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals of the process to whoever has them."""
        yield


def _is_news(record: logging.LogRecord) -> bool:
    """Drop the tracebacks of requests that uvicorn itself has cancelled at its end."""
    return record.exc_info is None or not isinstance(record.exc_info[1], asyncio.CancelledError)


def _result(text: str, *, is_error: bool) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=text)], is_error=is_error)


def _described(made: Tool) -> types.Tool:
    # That of another server is passed on whole; it must not lose what only its own clients understand.
    parameters = made.schema if isinstance(made, RemoteTool) else made.parameters
    schema = json.loads(json.dumps(dict(parameters)))
    try:
        jsonschema.Draft202012Validator.check_schema(schema)
    except jsonschema.SchemaError as error:
        raise UsageError(f"tool {made.name}: its parameters are no JSON Schema: {error.message}") from error
    hints = types.ToolAnnotations(read_only_hint=True) if made.read_only else None
    return types.Tool(name=made.name, description=made.description, input_schema=schema, annotations=hints)
