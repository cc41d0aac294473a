"""The clients of the TypeScript SDKs, each a process of its own, and the server of ours that they call.

`mcp_client.cjs` is the client; here are its orders and what it said.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from tests.integration.cli.terminal import COMMAND
from tests.integration.mcp.places import PEERS, Peer

__all__ = ["SdkClient", "served_http", "stdio_command"]

_PROGRAM = Path(__file__).with_name("mcp_client.cjs")
_TOOLS = ",".join(
    f"mcp_served:{name}" for name in ("add", "slow", "plain", "steps", "fail", "held", "lasting", "flood")
)


def stdio_command(*options: str) -> list[str]:
    """Give the command that serves the tools to whoever starts it."""
    return [*COMMAND, "mcp", "serve", _TOOLS, *options]


def _environment(peer: Peer) -> dict[str, str]:
    path = os.pathsep.join(filter(None, (str(PEERS), os.environ.get("PYTHONPATH"))))
    return {**os.environ, **peer.env, "PYTHONPATH": path}


@contextlib.contextmanager
def served_http(peer: Peer) -> Iterator[str]:
    """Serve the tools over HTTP, and give the URL."""
    command = stdio_command("--http", "0")
    with subprocess.Popen(command, env=_environment(peer), stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            (url,) = re.findall(r"http://\S+", process.stderr.readline())
            yield url
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 143


class SdkClient:
    """One client; `process` is its process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.tools: list[str] = []
        self.progress: dict[str, list[dict[str, Any]]] = {}
        self._ends: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._reader: asyncio.Task[None] | None = None

    @classmethod
    @contextlib.asynccontextmanager
    async def connect(cls, clients: Path, era: str, peer: Peer, *server: str) -> AsyncIterator[SdkClient]:
        """Start a client of the SDK of that era, with the URL or the command of its server."""
        process = await asyncio.create_subprocess_exec(
            *(clients / "bin/node", _PROGRAM, clients, era, *server),
            env=_environment(peer),
            stdin=subprocess.PIPE,
            limit=2**22,
            stdout=subprocess.PIPE,
        )
        client = cls(process)
        try:
            first = await client._read()
            assert first is not None, "the client has ended"
            client.tools = first["tools"]
            client._reader = asyncio.ensure_future(client._listen())
            yield client
            client._say(do="close")
            await process.wait()
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            if client._reader is not None:
                await client._reader

    def begin(self, name: str, tool: str, /, *, options: dict[str, Any] | None = None, **arguments: Any) -> None:
        """Begin a call of *tool*, which is *name* from now on."""
        self._ends[name] = asyncio.get_running_loop().create_future()
        self.progress[name] = []
        self._say(do="call", id=name, tool=tool, arguments=arguments, options=options or {})

    def abort(self, *names: str) -> None:
        """Fire the AbortSignals of these calls."""
        self._say(do="abort", ids=names)

    async def end(self, name: str) -> dict[str, Any]:
        """Wait for the `result` or the `error` of a call."""
        return await self._ends[name]

    async def call(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """Make a call of *tool*, to its end."""
        name = f"call {len(self._ends)}"
        self.begin(name, tool, **arguments)
        return await self.end(name)

    async def _read(self) -> dict[str, Any] | None:
        assert self.process.stdout is not None
        line = await self.process.stdout.readline()
        return json.loads(line) if line.endswith(b"\n") else None  # or it was killed in the middle of one

    async def _listen(self) -> None:
        while (said := await self._read()) is not None:
            if "progress" in said:
                self.progress[said["id"]].append(said["progress"])
            else:
                self._ends[said["id"]].set_result(said)

    def _say(self, **order: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(order).encode() + b"\n")
