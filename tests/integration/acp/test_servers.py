"""The MCP servers of a session and of the command: connected, asked about, told of, closed. By real processes."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time

import acp
import pytest
from acp.schema import AcpMcpServer, EnvVariable, HttpHeader, HttpMcpServer, McpServerStdio, SseMcpServer

from tests.integration.acp.editor import Lines, editor, final_of, request
from tests.integration.mcp.places import PEERS, Peer, is_alive
from tests.peers.openai_server import OpenAIServer, calls, text

ADD = [calls(("peer_one_add", {"a": 1, "b": 2})), text("three.")]


@pytest.fixture
def peer(tmp_path):
    return Peer(tmp_path)


def good(peer, name="peer one", file="mcp_server.py", *words):
    env = [EnvVariable(name="MCP_LOG", value=str(peer.log))]
    return McpServerStdio(name=name, command=sys.executable, args=[str(PEERS / file), *words], env=env)


def bad(peer, mode):
    return good(peer, "bad", "mcp_stubborn.py", mode)


def late(peer):
    """A server that ends when the other one, which logs what it is asked, has been connected."""
    script = f"until grep -q tools/list {peer.log}; do sleep 0.1; done; sleep 1; echo too late >&2; exit 3"
    return McpServerStdio(name="late", command="/bin/sh", args=["-c", script], env=[])


def raw(described):
    return described.model_dump(mode="json", by_alias=True, exclude_none=True)


def names_of(server):
    return [each["function"]["name"] for each in server.bodies[-1].get("tools", ())]


def wait_until(condition):
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


async def begin(client, *described, cwd="/tmp"):
    return (await client.connection.new_session(cwd=str(cwd), mcp_servers=list(described))).session_id


def test_the_servers_of_a_session_are_for_it_alone_and_each_call_asks(peer, tmp_path):
    async def main(server):
        async with editor(server) as client:
            session = await begin(client, good(peer), cwd=tmp_path)
            (pid,) = peer.pids()
            assert os.readlink(f"/proc/{pid}/cwd") == str(tmp_path)
            prompt = asyncio.create_task(client.prompt(session))
            await client.until(lambda: client.questions)
            ((asked, _),) = client.questions
            assert asked.title == "peer_one_add 1 2"
            client.answer.set()
            assert await prompt == "end_turn"
            assert client.calls() == [["in_progress", "pending", "in_progress", "completed"]]
            assert final_of(client) == "3"
            assert "peer_one_add" in names_of(server)
            assert await client.prompt(await begin(client)) == "end_turn"
            assert names_of(server) == []
            await client.connection.close_session(session_id=session)
            assert not is_alive(pid)
            assert client.process.returncode is None

    with OpenAIServer([*ADD, text("no tools.")]) as server:
        asyncio.run(main(server))


def test_yes_to_all_asks_nobody_about_the_calls_of_a_server(peer):
    async def main(server):
        async with editor(server, "--yes") as client:
            assert await client.prompt(await begin(client, good(peer))) == "end_turn"
            assert client.questions == []
            assert final_of(client) == "3"

    with OpenAIServer(ADD) as server:
        asyncio.run(main(server))


def test_what_can_be_connected_is_told_and_a_server_over_http_is(peer):
    async def main(server, url):
        async with editor(server, "--yes") as client:
            hello = await client.connection.initialize(protocol_version=acp.PROTOCOL_VERSION)
            assert raw(hello.agent_capabilities.mcp_capabilities) == {"http": True, "sse": False, "acp": False}
            there = HttpMcpServer(
                type="http", name="peer one", url=url, headers=[HttpHeader(name="Authorization", value="Bearer x")]
            )
            assert await client.prompt(await begin(client, there)) == "end_turn"
            assert final_of(client) == "3"

    argv = [sys.executable, str(PEERS / "mcp_server.py"), "http"]
    with OpenAIServer(ADD) as server, subprocess.Popen(argv, env={**os.environ, **peer.env}) as process:
        try:
            wait_until(lambda: any(line.startswith("port") for line in peer.lines()))
            (port,) = [line.split()[1] for line in peer.lines() if line.startswith("port")]
            asyncio.run(main(server, f"http://127.0.0.1:{port}/mcp"))
        finally:
            process.terminate()


def test_what_cannot_be_connected_is_told_in_words_and_nothing_of_the_session_stays(peer):
    sse = SseMcpServer(type="sse", name="old", url="http://127.0.0.1:1/sse", headers=[])
    ours = AcpMcpServer(type="acp", name="inner", server_id="1")
    none = McpServerStdio(name="none", command="/no/such/server", args=[], env=[])

    async def refused(client, *described):
        with pytest.raises(acp.RequestError) as caught:
            await begin(client, *described)
        return caught.value.code, str(caught.value)

    async def main(server):
        async with editor(server) as client:
            code, said = await refused(client, sse)
            assert code == -32602
            assert said.startswith("the MCP server old is reached by sse, which loopctl does not speak: it takes")
            assert (await refused(client, ours))[0] == -32602
            code, said = await refused(client, good(peer), none)
            assert code == -32603
            assert said.startswith("the MCP server `server` cannot be started: ")
            assert not any(map(is_alive, peer.pids()))
            code, said = await refused(client, bad(peer, "loud"), late(peer))
            assert code == -32603
            assert "ended with exit code 3 (too late)" in said
            assert not any(map(is_alive, peer.pids()))
            code, said = await refused(client, good(peer), good(peer, "peer_one"))
            assert code == -32602
            assert said.startswith("two tools are named peer_one_add")
            assert not any(map(is_alive, peer.pids()))
            assert await client.prompt(await begin(client)) == "end_turn"

    with OpenAIServer(text("on we go.")) as server:
        asyncio.run(main(server))


def connecting(client, peer):
    """Ask for a session whose one server is there, and the other never answers; wait until both have begun."""
    client.write(
        request("init", "initialize", protocolVersion=1),
        request("new", "session/new", cwd="/tmp", mcpServers=[raw(good(peer)), raw(bad(peer, "deaf"))]),
    )
    wait_until(lambda: len(peer.pids()) == 3 and any("server/discover" in line for line in peer.lines()))


def test_a_cancel_while_connecting_leaves_no_child_and_the_client_goes_on(peer):
    """Case G14."""
    with OpenAIServer() as server, Lines(server) as client:
        connecting(client, peer)
        client.write({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": "new"}})
        (answer,) = client.answers("new")
        assert answer["code"] == -32800
        assert answer["message"] == "the session was not begun: the client cancelled its request"
        assert not any(map(is_alive, peer.pids()))
        client.begin()
        assert client.end()[0] == 0


@pytest.mark.parametrize(("way", "code"), [("SIGTERM", 143), ("end of input", 0)])
def test_an_end_while_connecting_leaves_no_child(peer, way, code):
    """Case G14."""
    with OpenAIServer() as server, Lines(server) as client:
        connecting(client, peer)
        if way == "SIGTERM":
            client.process.terminate()
        else:
            client.process.stdin.close()
        (answer,) = client.answers("new")
        assert answer["code"] == -32800
        assert client.process.wait(20) == code
        assert not any(map(is_alive, peer.pids()))
        client._drain.join()
        assert client.errors == b""


@pytest.mark.parametrize("is_closing", [False, True])
def test_the_end_of_the_client_ends_the_servers_also_one_that_refuses(peer, is_closing):
    stubborn = bad(peer, "clinging")
    with OpenAIServer() as server, Lines(server) as client:
        client.write(
            request("init", "initialize", protocolVersion=1),
            request("new", "session/new", cwd="/tmp", mcpServers=[raw(stubborn), raw(good(peer))]),
        )
        (answer,) = client.answers("new")
        assert len(peer.pids()) == 2
        if is_closing:
            client.write(request("close", "session/close", sessionId=answer["sessionId"]))
        assert client.end()[0] == 0
        assert not any(map(is_alive, peer.pids()))


def test_a_cancelled_call_tells_the_server_and_the_next_prompt_can_use_it(peer):
    """Case G16."""

    async def main(server):
        async with editor(server, "--yes") as client:
            session = await begin(client, good(peer))
            prompt = asyncio.create_task(client.prompt(session))
            await peer.until_logged("begun x")
            await client.connection.cancel(session_id=session)
            assert await prompt == "cancelled"
            await peer.until_logged("cancelled x")
            assert await client.prompt(session) == "end_turn"
            assert final_of(client) == "3"

    with OpenAIServer([calls(("peer_one_slow", {"name": "x"})), *ADD]) as server:
        asyncio.run(main(server))


def test_the_servers_of_the_command_are_for_every_session_and_end_with_it(peer):
    line = f"env MCP_LOG={peer.log} {sys.executable} {PEERS / 'mcp_server.py'}"
    script = [calls(("the_peer_add", {"a": 1, "b": 2})), text("three.")]

    async def main(server):
        async with editor(server, "--mcp", line) as client:
            client.answer.set()
            for number in (1, 2):
                assert await client.prompt(await client.begin()) == "end_turn"
                assert len(client.questions) == number
                assert final_of(client) == "3"
            assert len(peer.pids()) == 1

    with OpenAIServer(script * 2) as server:
        asyncio.run(main(server))
    assert not any(map(is_alive, peer.pids()))


def test_a_server_of_the_command_that_cannot_be_started_is_one_line(peer):
    with OpenAIServer() as server, Lines(server, "--mcp", "no-such-server") as client:
        assert client.process.wait(20) == 1
        client._drain.join()
    assert client.errors.startswith(b"loopctl: the MCP server `no-such-server` cannot be started")
    assert client.errors.count(b"\n") == 1


def test_a_signal_while_a_server_of_the_command_is_being_connected_leaves_no_child(peer):
    line = f"env MCP_LOG={peer.log} {sys.executable} {PEERS / 'mcp_stubborn.py'} deaf"
    with OpenAIServer() as server, Lines(server, "--mcp", line) as client:
        wait_until(lambda: any("server/discover" in line for line in peer.lines()))
        client.process.terminate()
        assert client.process.wait(20) == 143
    assert len(peer.pids()) == 2
    assert not any(map(is_alive, peer.pids()))
