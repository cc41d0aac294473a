"""The tools of one MCP server, as tools of an agent.

Rules:

- A call is made in the task of its tool call: a cancel of the run drops it there, and the SDK tells the server on the
  way out (`notifications/cancelled`, or by closing the request where the protocol says so) without waiting for an
  answer; what comes late has nobody to come to. That way out is bounded by the run's grace.
- Everything that is wrong with the server is a `ToolError` that names the server, its state and the next move.
- The tools are those of the time of connecting. What the server changes later is said when such a tool is called.
"""

from __future__ import annotations

import asyncio
import functools
import json
import math
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

import mcp_types as types
from mcp.client import Client
from mcp.shared.exceptions import MCPError

from loopctl.adapters.mcp._life import Life, Protocol, list_tools
from loopctl.adapters.mcp._names import prefixed, word
from loopctl.adapters.mcp._results import text_of
from loopctl.adapters.mcp._target import read_target
from loopctl.cancel import CancelSignal, CancelToken, token_of
from loopctl.concurrency import ForeignWork, Grace, Patience, check_seconds, supervise
from loopctl.errors import ToolError, UsageError
from loopctl.record import Checkpoint
from loopctl.tools import RemoteTool, Tool, ToolContext

__all__ = ["McpClient"]

_SHOWN = 500
"""Characters of a schema in an error's text."""


class McpClient:
    """A connection to one MCP server; `async with McpClient("command args") as files:` gives `files.tools`."""

    def __init__(  # noqa: PLR0913 - options, by name
        self,
        server: str | Sequence[str],
        *,
        prefix: str | None = None,
        timeout: float | None = 60.0,
        connect_timeout: float = 30.0,
        approval: bool = False,
        protocol: Protocol = "auto",
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Describe a server; nothing is started before `connect`.

        Args:
            server: A command with its arguments, as a line or as a list of words, which speaks MCP on its standard
                input and output; or the http(s) URL of a streamable-HTTP server.
            prefix: What the names of its tools begin with (default: the server's own name); "" for nothing.
            timeout: Seconds that each call may take; None is no limit.
            connect_timeout: Seconds until the server must have listed its tools.
            approval: `approve` of the agent must say yes before each call.
            protocol: "legacy" for a server that is confused by the protocol of 2026.
            env: Environment of the command, beside the few variables that every program needs.
            cwd: Folder of the command.
            headers: Sent with each request to the URL.

        Raises:
            UsageError: That cannot be; the text says why.
        """
        self._target = read_target(server, env, cwd, headers)
        self._prefix = prefix
        self._timeout = None if timeout is None else check_seconds("timeout", timeout)
        self._connect_timeout = check_seconds("connect_timeout", connect_timeout)
        self._approval = approval
        self._protocol: Protocol = protocol
        self._life: Life | None = None
        self._beginning: Life | None = None
        self._changes = 0
        self._changes_listed = 0
        self._schemas: dict[str, Any] = {}
        self._tools: tuple[Tool, ...] = ()

    @property
    def tools(self) -> tuple[Tool, ...]:
        """Its tools, for an `Agent`; empty before `connect`."""
        return self._tools

    async def connect(self, signal: CancelSignal | CancelToken | None = None) -> None:
        """Start the server or reach it, and list its tools. After an end of the connection it may be called again.

        Args:
            signal: Ends the wait.

        Raises:
            Cancelled: The signal fired.
            ToolError: The server cannot be started or reached, or does not answer as it should.
            UsageError: It is connected, or is being connected.

        Cancellation:
            The checkpoint `SETUP`. What had been begun is taken down before this ends: the process is killed and
            reaped, the request closed.
        """
        if self._life is not None and not self._life.is_over:
            raise UsageError(f"{self} is connected: use its tools, or aclose it")
        if self._beginning is not None:
            raise UsageError(f"{self} is being connected: wait for that")
        token = token_of(CancelSignal() if signal is None else signal)
        life = self._beginning = Life(self._target, self._protocol, self._on_changed)
        try:
            await self._begin(life, token)
        finally:
            self._beginning = None

    async def _begin(self, life: Life, token: CancelToken) -> None:
        ending = await supervise(
            ForeignWork(life.ready),
            token,
            grace=Grace(0),
            at=Checkpoint.SETUP,
            patience=Patience(total=self._connect_timeout),
        )
        if ending.stopped_by is not None or life.client is None:
            await life.end(is_polite=False)
            ending.raise_if_stopped()
            if ending.stopped_by == "timeout":
                why = f"has not listed its tools within {self._connect_timeout:g} s"
            else:
                why = life.why()
            raise ToolError(f"{self} {why}. Check the command or the URL, then connect again.")
        self._take(life, life.client.server_info)

    async def aclose(self) -> None:
        """End the connection, and the server's process; also one that is being made. Idempotent.

        Cancellation:
            Goes on to the host; the process is killed meanwhile.
        """
        if self._beginning is not None:
            await self._beginning.end(is_polite=False)
        if self._life is not None:
            await self._life.end(is_polite=True)

    async def __aenter__(self) -> McpClient:
        await self.connect()
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, _value: BaseException | None, _trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def _take(self, life: Life, info: types.Implementation | None) -> None:
        """Make tools of what the server has listed."""
        own = word(info.name if info is not None else "") or "mcp"
        prefix = own if self._prefix is None else word(self._prefix)
        names = prefixed((listed.name for listed in life.tools), prefix)
        tools = {listed.name: self._tool(listed, names[listed.name]) for listed in life.tools}
        self._life = life
        self._changes_listed = self._changes
        self._schemas = {listed.name: listed.input_schema for listed in life.tools}
        self._tools = tuple(tools.values())

    def _tool(self, listed: types.Tool, name: str) -> Tool:
        hints = listed.annotations
        return RemoteTool(
            functools.partial(self._call, listed),
            parameters=listed.input_schema,
            annotations={} if hints is None else hints.model_dump(by_alias=True, exclude_none=True),
            name=name,
            description=listed.description or listed.title or "",
            read_only=hints is not None and hints.read_only_hint is True,
            approval=self._approval,
            timeout=self._timeout,
        )

    async def _call(self, listed: types.Tool, arguments: dict[str, Any], ctx: ToolContext) -> str:
        life = self._living()
        client = life.client
        assert client is not None
        try:
            await self._check_unchanged(client, listed)
            result = await client.call_tool(
                listed.name, arguments, progress_callback=functools.partial(_report_progress, ctx)
            )
        except MCPError as error:
            if life.is_over or error.code == types.CONNECTION_CLOSED:
                raise ToolError(
                    f"{self} {life.why()} in the middle of the call. Whether it had an effect is unknown. The server"
                    " has to be connected again."
                ) from error
            raise ToolError(f"{self} refused the call of {listed.name}: {error.message}") from error
        except (ValueError, RuntimeError) as error:
            raise ToolError(f"{self} answered {listed.name} with what it must not: {error}") from error
        if result.is_error:
            raise ToolError(text_of(result) or f"{listed.name} failed, and {self} says no more")
        return text_of(result)

    def _living(self) -> Life:
        life = self._life
        assert life is not None
        if life.is_over:
            raise ToolError(f"{self} {life.why()}: the call was not made. The server has to be connected again.")
        if life.loop is not asyncio.get_running_loop():
            raise ToolError(f"{self} was connected on another event loop: connect it on the one that runs the agent")
        return life

    async def _check_unchanged(self, client: Client, listed: types.Tool) -> None:
        """Refuse a call of a tool that is not any more what the model was told."""
        if self._changes_listed != self._changes:
            changes = self._changes
            self._schemas = {tool.name: tool.input_schema for tool in await list_tools(client)}
            self._changes_listed = changes
        if listed.name not in self._schemas:
            names = ", ".join(self._schemas) or "none"
            raise ToolError(f"{self} has no {listed.name} any more; it has now: {names}. Connect again to use them.")
        schema = self._schemas[listed.name]
        if schema != listed.input_schema:
            shown = json.dumps(schema, ensure_ascii=False)[:_SHOWN]
            raise ToolError(f"{self} has changed what {listed.name} takes, to {shown}. Connect again to use it.")

    def _on_changed(self) -> None:
        self._changes += 1

    def __repr__(self) -> str:
        """Name the server."""
        return f"<McpClient {self._target}, {len(self._tools)} tools>"

    def __str__(self) -> str:
        """Name the server, for an error's text."""
        return f"the MCP server {self._target}"


async def _report_progress(ctx: ToolContext, progress: float, total: float | None, message: str | None) -> None:
    """Pass on what the server says of a call.

    Cancellation:
        Never waits.
    """
    has_total = total is not None and math.isfinite(total) and total > 0
    fraction = progress / total if has_total and total is not None else None
    ctx.progress(message or (f"{progress:g} of {total:g}" if has_total else f"{progress:g}"), fraction)
