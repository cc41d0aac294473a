"""MCP servers that do not listen, do not end, do not stop talking, or change their minds."""

from __future__ import annotations

import asyncio

import pytest

from loopctl import Agent, Cancelled, CancelSignal, Checkpoint, ToolError
from loopctl.adapters.mcp import McpClient
from loopctl.record import CallStatus, ToolProgress
from loopctl.testing import ScriptedModel, call as scripted
from tests.integration.mcp.places import Peer, call, is_alive, named


@pytest.fixture
def peer(tmp_path):
    return Peer(tmp_path)


@pytest.mark.parametrize("mode", ["mute", "deaf"])
def test_a_cancel_while_connecting_leaves_no_process(peer, mode):
    """Case G14."""

    async def main():
        signal = CancelSignal()
        connecting = asyncio.ensure_future(peer.bad(mode).connect(signal))
        await peer.until_logged("server/discover")
        signal.cancel("enough")
        with pytest.raises(Cancelled) as caught:
            await connecting
        assert caught.value.checkpoint is Checkpoint.SETUP
        assert not any(map(is_alive, peer.pids()))

    asyncio.run(main())
    assert len(peer.pids()) == (2 if mode == "deaf" else 1)


def test_a_cancel_while_connecting_over_http_closes_the_request():
    async def main():
        ended = asyncio.Event()
        asked = asyncio.Event()

        async def never_answer(reader, writer):
            await reader.readuntil(b"\r\n\r\n")
            asked.set()
            await reader.read()
            writer.close()
            ended.set()

        async with await asyncio.start_server(never_answer, "127.0.0.1", 0) as listener:
            port = listener.sockets[0].getsockname()[1]
            signal = CancelSignal()
            connecting = asyncio.ensure_future(McpClient(f"http://127.0.0.1:{port}/mcp").connect(signal))
            await asked.wait()
            signal.cancel("enough")
            with pytest.raises(Cancelled):
                await connecting
            await ended.wait()

    asyncio.run(main())


def test_the_callers_own_cancel_while_connecting_leaves_no_process(peer):
    async def main():
        connecting = asyncio.ensure_future(peer.bad("mute").connect())
        await peer.until_logged("server/discover")
        connecting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await connecting
        assert not any(map(is_alive, peer.pids()))

    asyncio.run(main())


def test_a_server_that_never_answers_is_given_up(peer):
    async def main():
        with pytest.raises(ToolError, match=r"has not listed its tools within 0\.5 s"):
            await peer.bad("mute", connect_timeout=0.5).connect()
        assert not any(map(is_alive, peer.pids()))

    asyncio.run(main())


def test_the_call_of_a_server_that_ignores_cancels_is_dropped_and_what_comes_late_too(peer):
    """Cases G16, G17."""

    async def main():
        async with peer.bad("loud") as client:
            agent = Agent(ScriptedModel(scripted(named(client, "work").name, {}), "never"), client.tools)
            progress = []
            handle = agent.session().start("go")
            async for event in handle:
                if isinstance(event, ToolProgress):
                    progress.append(event.message)
                    handle.cancel("enough")
            run = await handle
            assert "answered" not in peer.lines()  # nobody waited for it
            await peer.until_logged("answered")
            await asyncio.sleep(0.05)
            return run, progress

    run, progress = asyncio.run(main())
    (made,) = (message for message in peer.messages() if message["method"] == "tools/call")
    (told,) = (message for message in peer.messages() if message["method"] == "notifications/cancelled")
    assert told["params"]["requestId"] == made["id"]
    assert progress == ["step 1"]
    assert run.tool_calls[0].status is CallStatus.INTERRUPTED
    assert run.stop.stragglers == ()


def test_a_server_that_floods_holds_up_neither_the_loop_nor_the_cancel(peer):
    async def main():
        async with peer.bad("loud") as client:
            agent = Agent(ScriptedModel(scripted(named(client, "flood").name, {}), "never"), client.tools)
            handle = agent.session().start("go")
            await peer.until_logged("flooding")
            for _ in range(20):
                await asyncio.sleep(0.01)
            handle.cancel("enough")
            run = await handle
            (pid,) = peer.pids()
        assert not is_alive(pid)
        return run

    run = asyncio.run(main())
    assert run.outcome == "cancelled"
    assert run.stop.stragglers == ()


def test_a_server_that_writes_without_an_end_is_stopped_and_told_of(peer):
    async def main():
        async with peer.bad("endless") as client:
            with pytest.raises(ToolError, match="a message of more than 64 MiB"):
                await call(client, "work")

    asyncio.run(main())


def test_a_server_that_closes_its_output_and_lives_on_is_told_of_and_ended(peer):
    async def main():
        async with peer.bad("silent", timeout=3600) as client:
            for said in ("closed its output.*in the middle of the call", "closed its output.*the call was not made"):
                with pytest.raises(ToolError, match=said):
                    await call(client, "work")
                await peer.until(lambda: not any(map(is_alive, peer.pids())))

    asyncio.run(main())


def test_a_server_that_refuses_to_list_its_tools_is_told_of_by_its_own_words(peer):
    async def main():
        with pytest.raises(ToolError, match="failed: MCPError: the licence has ended"):
            await peer.bad("refusing").connect()
        assert not any(map(is_alive, peer.pids()))

    asyncio.run(main())


def test_an_answer_with_half_of_a_character_is_taken_and_one_that_is_none_is_a_failed_call_at_once(peer):
    async def main():
        async with peer.bad("garbled", timeout=10) as client:
            assert await call(client, "work") == "cut \N{REPLACEMENT CHARACTER}"
            with pytest.raises(ToolError, match="what came of it is unknown"):
                await call(client, "other")
            assert await call(client, "work") == "cut \N{REPLACEMENT CHARACTER}"

    asyncio.run(main())


def test_a_server_that_changes_its_tools_is_told_of_when_they_are_called(peer):
    async def main():
        async with peer.bad("fickle") as client:
            assert await call(client, "work", n=1) == "changed"
            with pytest.raises(ToolError, match=r'has changed what work takes, to .*"m"'):
                await call(client, "work", n=1)
            with pytest.raises(ToolError, match="has no flood any more; it has now: work, other"):
                await call(client, "flood")
            assert await call(client, "other") == "changed"

    asyncio.run(main())


def test_a_server_that_does_not_end_is_killed(peer):
    async def main():
        async with peer.bad("loud") as client:
            await call_and_leave(client)
        assert not any(map(is_alive, peer.pids()))

    async def call_and_leave(client):
        flooding = asyncio.ensure_future(call(client, "flood"))
        await peer.until_logged("flooding")
        flooding.cancel()
        await asyncio.wait([flooding])

    asyncio.run(main())
