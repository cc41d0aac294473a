"""`loopctl mcp serve`, called by the official SDK's client, over stdio and over HTTP on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import re
import signal
import subprocess

import pytest
from mcp import Client, StdioServerParameters
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from loopctl.adapters.mcp import McpServer
from tests.integration.cli.terminal import COMMAND
from tests.integration.mcp.places import PEERS, Peer

TOOLS = ",".join(f"mcp_served:{name}" for name in ("add", "slow", "plain", "steps", "fail", "wipe"))
WAYS = pytest.mark.parametrize("way", ["stdio", "stdio legacy", "http", "http legacy"])


@pytest.fixture
def peer(tmp_path):
    return Peer(tmp_path)


def command(*options, tools=TOOLS):
    return [*COMMAND, "mcp", "serve", tools, *options]


def environment(peer):
    path = os.pathsep.join(filter(None, (str(PEERS), os.environ.get("PYTHONPATH"))))
    return {**os.environ, **peer.env, "PYTHONPATH": path}


@contextlib.contextmanager
def http_server(peer, *options, tools=TOOLS):
    argv = command(*options, "--http", "0", tools=tools)
    with subprocess.Popen(argv, env=environment(peer), stderr=subprocess.PIPE, text=True) as process:
        try:
            (url,) = re.findall(r"http://\S+", process.stderr.readline())
            yield url, process
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 143


@contextlib.contextmanager
def served(peer, way, *options, tools=TOOLS):
    mode = "legacy" if "legacy" in way else "auto"
    if "stdio" in way:
        program, *words = command(*options, tools=tools)
        yield Client(StdioServerParameters(command=program, args=words, env=environment(peer)), mode=mode)
    else:
        with http_server(peer, *options, tools=tools) as (url, _):
            yield Client(url, mode=mode)


@WAYS
def test_a_clients_cancel_stops_that_call_and_no_other(peer, way):
    async def main(client):
        async with client:
            calls = {
                (tool, name): asyncio.ensure_future(client.call_tool(tool, {"name": name}))
                for tool in ("slow", "plain")
                for name in (f"{tool} x", f"{tool} y")
            }
            await peer.until(lambda: sum(line.startswith("begun") for line in peer.lines()) == 4)
            for (tool, name), task in calls.items():
                if name.endswith("x"):
                    task.cancel()
                    await peer.until_logged(f"{'cancelled' if tool == 'slow' else 'told'} {name}")
            await asyncio.sleep(0.1)
            assert not any(line.startswith(("cancelled slow y", "told plain y")) for line in peer.lines())
            result = await client.call_tool("add", {"a": 1, "b": 2})
            assert result.content[0].text == "3"
            for task in calls.values():
                task.cancel()
            await asyncio.wait(calls.values())

    with served(peer, way) as client:
        asyncio.run(main(client))
    assert any("the client cancelled the call" in line for line in peer.lines())


@pytest.mark.parametrize("way", ["http", "http legacy"])
def test_a_cancel_of_one_client_reaches_no_call_of_another_with_the_same_id(peer, way):
    async def main(one):
        other = Client(one.server, mode=one.mode)
        async with one, other:
            calls = [
                asyncio.ensure_future(each.call_tool("slow", {"name": name}))
                for each, name in ((one, "1"), (other, "2"))
            ]
            await peer.until(lambda: {"begun 1", "begun 2"} <= {*peer.lines()})
            calls[0].cancel()
            await peer.until_logged("cancelled 1")
            assert (await other.call_tool("add", {"a": 1, "b": 2})).content[0].text == "3"
            assert "cancelled 2" not in peer.lines()
            calls[1].cancel()
            await asyncio.wait(calls)

    with served(peer, way) as client:
        asyncio.run(main(client))


@WAYS
def test_what_is_known_of_a_tool_is_told_and_its_results_errors_and_progress_too(peer, way):
    async def main(client):
        async with client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            told = []

            async def note(progress, total, message):
                told.append((progress, total, message))

            done = await client.call_tool("steps", {}, progress_callback=note)
            assert done.content[0].text == "done"
            failed = await client.call_tool("fail", {})
            unfit = await client.call_tool("add", {"a": "x", "b": 2})
            denied = await client.call_tool("wipe", {})
            with pytest.raises(MCPError, match="Unknown tool: nothing") as caught:
                await client.call_tool("nothing", {})
            assert caught.value.code == INVALID_PARAMS
            return tools, told, failed, unfit, denied

    with served(peer, way) as client:
        tools, told, failed, unfit, denied = asyncio.run(main(client))
    assert tools["add"].description == "Add two numbers."
    assert tools["add"].input_schema["properties"]["a"] == {"description": "The first.", "type": "integer"}
    assert tools["add"].annotations.read_only_hint
    assert told == [(50.0, 100.0, "half"), (100.0, 100.0, "all")]
    assert failed.is_error
    assert "the disk is full" in failed.content[0].text
    assert unfit.is_error
    assert "a: given" in unfit.content[0].text
    assert denied.is_error


@pytest.mark.parametrize(("way", "count"), [("stdio", 200), ("http", 80)])  # the SDK's client has 100 connections
def test_of_many_calls_at_once_the_right_half_is_cancelled(peer, way, count):
    async def main(client):
        async with client:
            names = [f"{n:03}" for n in range(count)]
            calls = {name: asyncio.ensure_future(client.call_tool("slow", {"name": name})) for name in names}
            await peer.until(lambda: sum(line.startswith("begun") for line in peer.lines()) == count)
            chosen = set(random.Random(5).sample(names, count // 2))
            for name in chosen:
                calls[name].cancel()
            await peer.until(lambda: sum(line.startswith("cancelled") for line in peer.lines()) >= len(chosen))
            await client.call_tool("add", {"a": 1, "b": 2})
            told = {line.removeprefix("cancelled ") for line in peer.lines() if line.startswith("cancelled")}
            for task in calls.values():
                task.cancel()
            await asyncio.wait(calls.values())
            return told == chosen

    with served(peer, way) as client:
        assert asyncio.run(main(client))


def test_a_yes_to_everything_lets_run_what_needs_one(peer):
    async def main(client):
        async with client:
            return await client.call_tool("wipe", {})

    with served(peer, "stdio", "--yes") as client:
        assert asyncio.run(main(client)).content[0].text == "wiped"


def test_the_end_of_the_client_stops_its_calls_and_ends_the_server(peer):
    async def main(client):
        async with client:
            call = asyncio.ensure_future(client.call_tool("plain", {"name": "x"}))
            await peer.until_logged("begun x")
        await asyncio.wait([call])
        with contextlib.suppress(MCPError):
            call.result()

    with served(peer, "stdio") as client:
        asyncio.run(main(client))
    assert any(line.startswith("told x") for line in peer.lines())


def test_the_tools_of_another_server_are_served_with_their_schemas_whole(peer):
    async def main():
        async with peer.good() as source:
            async with Client(McpServer(source.tools).protocol) as client:
                listed = {tool.name: tool.input_schema for tool in (await client.list_tools()).tools}
                added = await client.call_tool("the_peer_add", {"a": 1, "b": 2})
            return listed, {tool.name: tool.schema for tool in source.tools}, added.content[0].text

    listed, given, added = asyncio.run(main())
    assert listed == given
    assert added == "3"


def test_nothing_to_serve_is_one_line(peer):
    done = subprocess.run(
        [*COMMAND, "mcp", "serve", "no_such_module:f"], capture_output=True, text=True, timeout=50, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith("loopctl: ")


HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "by hand", "version": "1"},
}


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (lambda process: process.stdin.close(), "disconnect: the client has left (by mcp)"),
        (lambda process: process.send_signal(signal.SIGTERM), "shutdown: asked to terminate (by SIGTERM)"),
        (lambda process: process.send_signal(signal.SIGINT), "user: Ctrl-C (by SIGINT)"),
    ],
    ids=["the client leaves", "SIGTERM", "Ctrl-C"],
)
def test_a_call_that_ends_with_its_server_is_told_why(peer, end, reason):
    call = {"name": "plain", "arguments": {"name": "x"}}
    messages = (
        {"id": 1, "method": "initialize", "params": HELLO},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": call},
    )
    with subprocess.Popen(command(), env=environment(peer), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        for message in messages:
            process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        process.stdin.flush()
        asyncio.run(peer.until_logged("begun x"))
        end(process)
        process.wait(20)
    assert f"told x: {reason}" in peer.lines()


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_a_server_that_ends_tells_its_calls_and_their_clients(peer, mode):
    async def main(url, process):
        async with Client(url, mode=mode) as client:
            calls = [asyncio.ensure_future(client.call_tool(tool, {"name": tool})) for tool in ("plain", "slow")]
            await peer.until(lambda: sum(line.startswith("begun") for line in peer.lines()) == len(calls))
            process.send_signal(signal.SIGTERM)
            return await asyncio.gather(*calls)

    with http_server(peer) as (url, process):
        results = asyncio.run(main(url, process))
    assert all(result.is_error and "the server is ending" in result.content[0].text.lower() for result in results)
    assert "told plain: shutdown: asked to terminate (by SIGTERM)" in peer.lines()
