"""An agent as a tool of the MCP server, called by the SDK's client: in this program, and by the command."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from loopctl import Agent, RunConfig, ToolContext, tool
from loopctl.adapters.mcp import AgentTool, McpServer
from loopctl.errors import ModelError
from loopctl.record import RunEnded
from loopctl.testing import ScriptedModel, call
from tests.integration.mcp.places import Peer
from tests.integration.mcp.test_server import served


@tool(read_only=True)
async def look(what: str, ctx: ToolContext) -> str:
    """Look at something."""
    ctx.progress(f"looking at {what}")
    await asyncio.sleep(0.3)
    return "a cat"


@tool
async def wait(name: str) -> str:
    """Wait for ever."""
    begun.append(name)
    await asyncio.sleep(3600)
    return "never"


@tool
async def cling() -> str:
    """Swallow every cancel."""
    begun.append("cling")
    while not released:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0.01)
    return "at last"


begun: list[str] = []
released: list[bool] = []


@pytest.fixture(autouse=True)
def _fresh():
    begun.clear()
    released.clear()


def ask(model, tools=(), **options):
    """A server whose one tool is an agent, and the runs of the agent."""
    runs = []
    agent = Agent(model, [*tools], observers=[lambda e: runs.append(e.run) if isinstance(e, RunEnded) else None])
    agent.config = RunConfig(**options)
    return McpServer([AgentTool(agent, "ask", "Ask the expert.")]), runs


async def until(condition):
    while not condition():
        await asyncio.sleep(0.01)


def test_a_call_is_one_run_that_tells_of_its_steps():
    async def main():
        model = ScriptedModel(call("look", {"what": "the sofa"}), "A cat.", "I know of no cat.")
        server, runs = ask(model, [look])
        told = []

        async def note(progress, total, message):
            told.append(message)

        async with Client(server.protocol) as client:
            (listed,) = (await client.list_tools()).tools
            first = await client.call_tool("ask", {"input": "What is there?"}, progress_callback=note)
            second = await client.call_tool("ask", {"input": "Is there a cat?"})
        assert (listed.name, listed.description) == ("ask", "Ask the expert.")
        assert list(listed.input_schema["properties"]) == ["input"]
        assert "remembers no earlier call" in listed.input_schema["properties"]["input"]["description"]
        assert listed.annotations.read_only_hint, "its only tool reads"
        assert (first.content[0].text, second.content[0].text) == ("A cat.", "I know of no cat.")
        assert [message.text for message in model.requests[-1].messages] == ["Is there a cat?"]
        assert [run.outcome for run in runs] == ["completed", "completed"]
        assert "look: looking at the sofa" in told
        assert told[-1] == "turn 2"

    asyncio.run(main())


def test_a_clients_cancel_stops_that_run_with_the_clients_reason_and_no_other():
    async def main():
        model = ScriptedModel(call("wait", {"name": "x"}), call("wait", {"name": "y"}))
        server, runs = ask(model, [wait])
        async with Client(server.protocol) as client:
            calls = []
            for name in "xy":
                calls.append(asyncio.ensure_future(client.call_tool("ask", {"input": name})))
                await until(lambda name=name: name in begun)
            calls[0].cancel()
            await until(lambda: runs)
            (run,) = runs
            assert (run.outcome, run.input.text) == ("cancelled", "x")
            assert (run.stop.reason.origin, run.stop.reason.requested_by) == ("user", "mcp")
            assert [record.status.value for record in run.tool_calls] == ["interrupted"]
            assert not calls[1].done()
            calls[1].cancel()
            await until(lambda: len(runs) == 2)
        assert server.stragglers == ()

    asyncio.run(main())


def test_the_end_of_the_server_stops_the_run_as_a_disconnect():
    async def main():
        server, runs = ask(ScriptedModel(call("wait", {"name": "x"})), [wait])
        async with Client(server.protocol) as client:
            asking = asyncio.ensure_future(client.call_tool("ask", {"input": "x"}))
            await until(lambda: begun)
            await server.aclose()
            assert [run.stop.reason.origin for run in runs] == ["disconnect"]
            assert (await asking).is_error

    asyncio.run(main())


@pytest.mark.parametrize(
    ("model", "options", "said"),
    [
        (ScriptedModel(ModelError("the key is wrong", status=401)), {}, "the key is wrong"),
        (ScriptedModel(call("look", {"what": "x"}), repeat=True), {"max_turns": 2}, "2 turns"),
        (ScriptedModel(call("wait", {"name": "x"})), {"deadline": 0.2}, "deadline"),
    ],
)
def test_a_run_that_does_not_complete_by_itself_is_an_error_in_words(model, options, said):
    async def main():
        server, _ = ask(model, [look, wait], **options)
        async with Client(server.protocol) as client:
            result = await client.call_tool("ask", {"input": "go"})
        assert result.is_error
        assert said in result.content[0].text

    asyncio.run(main())


def test_what_a_stopped_run_leaves_running_is_told_of():
    async def main():
        server, runs = ask(ScriptedModel(call("cling", {})), [cling], grace=0.1)
        async with Client(server.protocol) as client:
            asking = asyncio.ensure_future(client.call_tool("ask", {"input": "x"}))
            await until(lambda: begun)
            asking.cancel()
            await until(lambda: server.stragglers)
            (left,) = server.stragglers
            assert (left.name, left.is_ended) == ("cling", False)
            assert [record.status.value for record in runs[0].tool_calls] == ["abandoned"]
            released.append(True)
            await until(lambda: left.is_ended)

    asyncio.run(main())


@pytest.fixture
def peer(tmp_path):
    return Peer(tmp_path)


@pytest.mark.parametrize("way", ["stdio", "stdio legacy", "http", "http legacy"])
def test_the_command_serves_an_agent_and_a_cancel_stops_its_run(peer, way):
    async def main(client):
        async with client:
            tools = {each.name for each in (await client.list_tools()).tools}
            assert tools == {"add", "expert"}
            answer = await client.call_tool("expert", {"input": "add"})
            assert answer.content[0].text == "It is 3."
            asking = asyncio.ensure_future(client.call_tool("expert", {"input": "wait"}))
            await peer.until_logged("begun inner")
            asking.cancel()
            await peer.until_logged("run cancelled user mcp")
            with contextlib.suppress(asyncio.CancelledError, MCPError):
                await asking

    with served(peer, way, tools="mcp_served:add,mcp_served:expert") as client:
        asyncio.run(main(client))
    assert "cancelled inner" in peer.lines()
