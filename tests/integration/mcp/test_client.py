"""The tools of a real MCP server, made with the official SDK, over stdio and over HTTP on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys

import pytest

from loopctl import Agent, Cancelled, CancelSignal, Checkpoint, ToolContext, ToolError, Urgency, UsageError
from loopctl.adapters.mcp import McpClient
from loopctl.record import CallStatus, ToolProgress
from loopctl.testing import ScriptedModel, call as scripted
from tests.integration.mcp.places import PEERS, Peer, call, is_alive, named


@pytest.fixture
def peer(tmp_path):
    return Peer(tmp_path)


@contextlib.contextmanager
def over_http(peer):
    argv = [sys.executable, str(PEERS / "mcp_server.py"), "http"]
    with subprocess.Popen(argv, env={**os.environ, **peer.env}) as process:
        try:
            while not any(line.startswith("port ") for line in peer.lines()):
                assert process.poll() is None
            (port,) = (line.removeprefix("port ") for line in peer.lines() if line.startswith("port "))
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.kill()


@contextlib.contextmanager
def served(peer, way, **options):
    protocol = "legacy" if "legacy" in way else "auto"
    if "stdio" in way:
        yield peer.good(protocol=protocol, **options)
    else:
        with over_http(peer) as url:
            yield McpClient(url, protocol=protocol, **options)


WAYS = pytest.mark.parametrize("way", ["stdio", "stdio legacy", "http", "http legacy"])


@WAYS
def test_a_run_calls_a_tool_of_a_server_and_a_cancel_drops_the_call_and_tells_the_server(peer, way):
    """Case G16."""

    async def main(client):
        async with client:
            name = named(client, "slow").name
            sum_of = scripted(named(client, "add").name, {"a": 1, "b": 2})
            agent = Agent(ScriptedModel(sum_of, scripted(name, {"name": "x"}), "never", "hello"), client.tools)
            session = agent.session()
            handle = session.start("go")
            await peer.until_logged("begun x")
            handle.cancel("enough")
            run = await handle
            await peer.until_logged("cancelled x")
            # The connection is as good as before.
            other = asyncio.ensure_future(call(client, "slow", name="y"))
            await peer.until_logged("begun y")
            assert await call(client, "add", a=2, b=2) == "4"
            assert not other.done()
            other.cancel()
            await asyncio.wait([other])
            await peer.until_logged("cancelled y")
            return run

    with served(peer, way) as client:
        run = asyncio.run(main(client))
    added, dropped = run.tool_calls
    assert (added.status, added.result) == (CallStatus.COMPLETED, "3")
    assert dropped.status is CallStatus.INTERRUPTED
    assert run.outcome == "cancelled"
    assert run.stop.checkpoint is Checkpoint.TOOL_CALL
    assert run.stop.stragglers == ()


@WAYS
def test_a_cancel_without_any_grace_tells_the_server_too(peer, way):
    async def main(client):
        async with client:
            agent = Agent(ScriptedModel(scripted(named(client, "slow").name, {"name": "x"}), "never"), client.tools)
            handle = agent.session().start("go")
            await peer.until_logged("begun x")
            handle.cancel("enough", urgency=Urgency.ABANDON)
            run = await handle
            await peer.until_logged("cancelled x")
            return run

    with served(peer, way) as client:
        run = asyncio.run(main(client))
    assert run.outcome == "cancelled"
    assert run.stop.stragglers == ()


@WAYS
def test_what_a_server_says_of_a_tool_is_kept(peer, way):
    async def main(client):
        async with client:
            return client.tools

    with served(peer, way) as client:
        tools = {tool.name: tool for tool in asyncio.run(main(client))}
    add = tools["the_peer_add"]
    assert add.description == "Add two numbers."
    assert add.parameters["properties"]["a"] == {"type": "integer", "description": "The first."}
    assert add.parameters["required"] == ["a", "b"]
    assert add.schema["properties"]["a"] == {"title": "A", "type": "integer", "description": "The first."}
    assert add.annotations == {"title": "Adding", "readOnlyHint": True}
    assert add.read_only
    assert not tools["the_peer_slow"].read_only
    assert "the_peer_odd_name_with_signs" in tools


@WAYS
def test_progress_of_a_server_is_progress_of_the_call(peer, way):
    async def main(client):
        async with client:
            model = ScriptedModel(scripted(named(client, "steps").name, {}), "done")
            async with Agent(model, client.tools).session().start("go") as handle:
                return [event async for event in handle]

    with served(peer, way) as client:
        events = asyncio.run(main(client))
    told = [(event.message, event.fraction) for event in events if isinstance(event, ToolProgress)]
    assert told == [("step 1", 0.5), ("step 2", 1.0)]


def test_the_tool_with_an_odd_name_is_called_by_its_own(peer):
    async def main():
        async with peer.good(prefix="") as client:
            assert named(client, "signs").name == "odd_name_with_signs"
            return await call(client, "signs")

    assert asyncio.run(main()) == "odd"


def test_what_a_tool_of_a_server_raises_and_what_it_refuses_are_tool_errors(peer):
    async def main():
        async with peer.good() as client:
            with pytest.raises(ToolError, match="Error executing tool fail"):
                await call(client, "fail")
            with pytest.raises(ToolError, match="valid integer"):
                await call(client, "add", a="x", b=2)
            with pytest.raises(ToolError, match="it needs b too"):
                await call(client, "add", a=1)

    asyncio.run(main())


def test_a_call_that_takes_too_long_is_dropped_and_the_server_told(peer):
    async def main():
        async with peer.good(timeout=0.3) as client:
            model = ScriptedModel(scripted(named(client, "slow").name, {"name": "x"}), "too slow")
            run = await Agent(model, client.tools).session().run("go")
            await peer.until_logged("cancelled x")
            return run

    run = asyncio.run(main())
    assert run.tool_calls[0].status is CallStatus.FAILED
    assert "took longer than 0.3 s" in run.tool_calls[0].result


def test_a_server_that_dies_in_a_call_is_told_of_and_can_be_connected_again(peer):
    async def main():
        async with peer.good() as client:
            with pytest.raises(ToolError, match=r"ended with exit code 3 \(out of luck\) in the middle of the call"):
                await call(client, "die")
            with pytest.raises(ToolError, match=r"exit code 3 .*: the call was not made"):
                await call(client, "steps")
            await client.connect()
            assert await call(client, "steps") == "done"

    asyncio.run(main())


def test_a_server_that_goes_away_over_http_is_told_of(peer):
    async def main(url):
        async with McpClient(url) as client:
            begun = asyncio.ensure_future(call(client, "slow", name="x"))
            await peer.until_logged("begun x")
            os.kill(peer.pids()[0], 9)
            with pytest.raises(ToolError, match=r"MCP server http://127.0.0.1"):
                await begun
            with pytest.raises(ToolError, match=r"MCP server http://127.0.0.1"):
                await call(client, "add", a=1, b=2)

    with over_http(peer) as url:
        asyncio.run(main(url))


def test_an_address_at_which_nobody_listens_is_named(peer):
    async def main():
        with pytest.raises(ToolError, match=r"the MCP server http://127.0.0.1:1/mcp failed: .*connect"):
            await McpClient("http://user:secret@127.0.0.1:1/mcp").connect()

    asyncio.run(main())


def test_a_command_that_there_is_not_is_named():
    async def main():
        with pytest.raises(ToolError, match=r"`no-such-server --x` cannot be started: .*No such file"):
            await McpClient("no-such-server --x").connect()

    asyncio.run(main())


def test_a_command_that_ends_at_once_is_told_of_with_its_last_words():
    async def main():
        with pytest.raises(ToolError, match=r"ended with exit code 5 \(oh no\)\. Check the command"):
            await McpClient("sh -c 'echo oh no >&2; exit 5'").connect()

    asyncio.run(main())


def test_a_cancel_that_came_before_connecting_starts_nothing(peer):
    async def main():
        signal = CancelSignal()
        signal.cancel()
        with pytest.raises(Cancelled) as caught:
            await peer.good().connect(signal)
        assert caught.value.checkpoint is Checkpoint.SETUP

    asyncio.run(main())
    assert peer.lines() == []


def test_the_end_of_a_connection_ends_the_process(peer):
    async def main():
        async with peer.good() as client:
            (pid,) = peer.pids()
            with pytest.raises(UsageError, match="is connected"):
                await client.connect()
        assert not is_alive(pid)
        with pytest.raises(ToolError, match="was not made"):
            await call(client, "add", a=1, b=2)

    asyncio.run(main())


def test_a_second_connect_meanwhile_is_refused_and_starts_nothing(peer):
    async def main():
        client = peer.good()
        first, second = await asyncio.gather(client.connect(), client.connect(), return_exceptions=True)
        assert first is None
        assert isinstance(second, UsageError)
        await client.aclose()

    asyncio.run(main())
    (pid,) = peer.pids()
    assert not is_alive(pid)


def test_a_close_while_connecting_ends_both(peer):
    async def main():
        client = peer.bad("mute", connect_timeout=600)  # more than the test may take
        connecting = asyncio.ensure_future(client.connect())
        await peer.until_logged("server/discover")
        await client.aclose()
        with pytest.raises(ToolError, match="connect again"):
            await connecting

    asyncio.run(main())
    (pid,) = peer.pids()
    assert not is_alive(pid)


def test_a_connection_that_nobody_closes_ends_with_the_loop(peer):
    async def main():
        await peer.good().connect()

    asyncio.run(main())
    (pid,) = peer.pids()
    assert not is_alive(pid)


def test_calls_at_once_are_cancelled_one_by_one(peer):
    async def main():
        async with peer.good() as client:
            calls = {f"{n:03}": asyncio.ensure_future(call(client, "slow", name=f"{n:03}")) for n in range(60)}
            await peer.until(lambda: sum(line.startswith("begun") for line in peer.lines()) == 60)
            for name in sorted(calls)[::2]:
                calls[name].cancel()
            await peer.until(lambda: sum(line.startswith("cancelled") for line in peer.lines()) == 30)
            cancelled = {line.removeprefix("cancelled ") for line in peer.lines() if line.startswith("cancelled")}
            assert cancelled == set(sorted(calls)[::2])
            assert [name for name, task in calls.items() if not task.done()] == sorted(calls)[1::2]
            for task in calls.values():
                task.cancel()
            await asyncio.wait(calls.values())

    asyncio.run(main())


def test_the_context_of_a_call_on_another_loop_is_refused(peer):
    client = peer.good()

    async def main():
        async with client:
            made = named(client, "add")
            context = ToolContext("call-1", made.name, CancelSignal().token)
            on_thread = asyncio.to_thread(lambda: asyncio.run(made.call(made.bind({"a": 1, "b": 2}), context)))
            with pytest.raises(ToolError, match="another event loop"):
                await on_thread

    asyncio.run(main())
