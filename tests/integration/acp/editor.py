"""Owns two clients of `loopctl acp` over pipes: `Editor`, by the SDK's client side, and `Lines`, which speaks itself.

Rule: the command is gone and reaped when the `with` ends.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import threading
import time
from contextlib import asynccontextmanager

import acp
from acp.schema import AllowedOutcome, DeniedOutcome, RequestPermissionResponse

from tests.integration.cli.terminal import COMMAND, clean_environment

__all__ = ["TOOLS", "Editor", "Lines", "command", "editor", "final_of", "text_of"]

TOOLS = '''
import asyncio, os, subprocess, sys
from loopctl import ToolContext, tool

async def wait(path: str, ctx: ToolContext) -> str:
    """Wait, and write down who stopped it."""
    open(path + ".begun", "w").close()
    try:
        await asyncio.sleep(3600)
    except asyncio.CancelledError:
        with open(path, "w") as file:
            file.write(ctx.reason.origin)
        raise

async def refuse(path: str) -> str:
    """Swallow every cancellation."""
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            pass

@tool(approval=True)
def touch(path: str) -> str:
    """Leave a file."""
    open(path, "w").close()
    return "touched"

async def report(path: str, ctx: ToolContext) -> str:
    """Say how far it is."""
    ctx.progress("half", 0.5)
    return "reported"

def shout(path: str) -> str:
    """Write to stdout by every way there is."""
    print("print", flush=True)
    os.write(1, b"descriptor\\n")
    done = subprocess.run(["sh", "-c", "echo process; cat"], stdout=None, stdin=None)
    return f"code {done.returncode}"
'''


def command(server, *options):
    """Give the command line."""
    return [*COMMAND, "acp", "--base-url", server.url, "--model", "test", *options]


class Editor:
    """What a client does, and what it was told; its method names are the SDK's."""

    def __init__(self):
        self.updates = []
        self.wire = []
        self.questions = []
        self.answer = asyncio.Event()
        self.choice = "allow"
        self.connection = None
        self.process = None

    async def session_update(self, session_id, update, **_):
        self.updates.append((session_id, update))

    async def request_permission(self, session_id, tool_call, options, **_):
        self.questions.append((tool_call, options))
        await self.answer.wait()
        if self.choice is None:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=self.choice))

    def observe(self, event):
        self.wire.append((event.direction.value, event.message))

    def received(self, method):
        return [
            message for direction, message in self.wire if direction == "incoming" and message.get("method") == method
        ]

    async def begin(self, cwd="/tmp"):
        session = await self.connection.new_session(cwd=str(cwd), mcp_servers=[])
        return session.session_id

    async def prompt(self, session, text="go"):
        response = await self.connection.prompt(prompt=[acp.text_block(text)], session_id=session)
        return response.stop_reason

    async def until(self, condition, timeout=20.0):
        deadline = time.monotonic() + timeout
        while not condition():
            assert time.monotonic() < deadline, self.updates
            await asyncio.sleep(0.005)

    def calls(self):
        """The statuses that were told of each tool call, in order."""
        told = {}
        for _, update in self.updates:
            if update.session_update in {"tool_call", "tool_call_update"}:
                told.setdefault(update.tool_call_id, []).append(update.status)
        return list(told.values())


@asynccontextmanager
async def editor(server, *options, cwd="/tmp"):
    """Start the command as an editor does, and shake hands."""
    client = Editor()
    process = acp.spawn_agent_process(
        lambda _: client,
        *command(server, *options),
        env=clean_environment(),
        cwd=cwd,
        observers=[client.observe],
    )
    async with process as (client.connection, client.process):
        await client.connection.initialize(protocol_version=acp.PROTOCOL_VERSION)
        yield client


def text_of(client):
    """The text that was shown."""
    return "".join(
        update.content.text for _, update in client.updates if update.session_update == "agent_message_chunk"
    )


def final_of(client):
    """The text of the last update of a tool call."""
    closing = [update for _, update in client.updates if update.session_update == "tool_call_update"][-1]
    return closing.content[0].content.text if closing.content else ""


class Lines:
    """A client that writes its own lines, several in one write if told so."""

    def __init__(self, server, *options, cwd="/tmp", argv=None):
        self.process = subprocess.Popen(
            argv or command(server, *options),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env=clean_environment(),
            bufsize=0,
        )
        self.errors = b""
        self._drain = threading.Thread(target=self._read_errors)
        self._drain.start()
        self.session = None

    def _read_errors(self):
        self.errors = self.process.stderr.read()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self._drain.join()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            stream.close()

    def write(self, *messages):
        self.process.stdin.write(b"".join(json.dumps(message).encode() + b"\n" for message in messages))

    def read(self):
        line = self.process.stdout.readline()
        assert line, (self.process.wait(), self.errors)
        return json.loads(line)

    def answers(self, *ids):
        """Read until each of these requests is answered; give the answers in the order of *ids*."""
        found = {}
        while not found.keys() >= set(ids):
            message = self.read()
            if "method" not in message:
                found[message["id"]] = message.get("result") or message["error"]
        return [found[asked] for asked in ids]

    def begin(self, cwd="/tmp"):
        self.write(
            request("init", "initialize", protocolVersion=1),
            request("new", "session/new", cwd=str(cwd), mcpServers=[]),
        )
        self.session = self.answers("init", "new")[1]["sessionId"]
        return self

    def prompt(self, id, text="go"):
        return request(id, "session/prompt", sessionId=self.session, prompt=[{"type": "text", "text": text}])

    def cancel(self, session=None):
        return {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session or self.session}}

    def end(self, timeout=20):
        """Close stdin and wait for the end of the command; give its code and what it still said."""
        self.process.stdin.close()
        rest = self.process.stdout.read()
        return self.process.wait(timeout), [json.loads(line) for line in rest.splitlines()]


def request(id, method, **params):
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
