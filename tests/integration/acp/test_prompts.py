"""What a client sees of prompts that nobody stops: by the SDK's client, over pipes, against a real command."""

from __future__ import annotations

import asyncio

import acp
import pytest
from acp.schema import ImageContentBlock

from tests.integration.acp.editor import TOOLS, editor, final_of, text_of
from tests.peers.openai_server import OpenAIServer, calls, text


@pytest.fixture
def tools(tmp_path):
    (tmp_path / "edtools.py").write_text(TOOLS)
    return tmp_path


def test_a_reply_is_streamed_and_the_conversation_goes_on():
    async def main(server):
        async with editor(server) as client:
            session = await client.begin()
            assert await client.prompt(session, "one") == "end_turn"
            kinds = [update.session_update for _, update in client.updates]
            assert kinds == ["agent_thought_chunk", "agent_message_chunk", "agent_message_chunk"]
            assert text_of(client) == "Hello!"
            assert await client.prompt(session, "two") == "end_turn"
            roles = [message["role"] for message in server.bodies[-1]["messages"]]
            assert roles == ["user", "assistant", "user"]

    with OpenAIServer(text("Hello", "!", thinking=["hm"])) as server:
        asyncio.run(main(server))


@pytest.mark.parametrize(
    ("choice", "statuses", "is_there"),
    [
        ("allow", ["in_progress", "pending", "in_progress", "completed"], True),
        ("reject", ["in_progress", "pending", "failed"], False),
        ("an option that was not offered", ["in_progress", "pending", "failed"], False),
    ],
)
def test_a_tool_that_needs_a_yes_runs_after_one_and_only_then(tools, choice, statuses, is_there):
    async def main(server):
        async with editor(server, "--tools", "edtools:touch", cwd=tools) as client:
            client.choice = choice
            prompt = asyncio.create_task(client.prompt(await client.begin()))
            await client.until(lambda: client.questions)
            ((asked, options),) = client.questions
            assert asked.title == "touch file"
            assert asked.raw_input == {"path": "file"}
            assert [option.kind for option in options] == ["allow_once", "reject_once"]
            assert not (tools / "file").exists()
            client.answer.set()
            assert await prompt == "end_turn"
            assert client.calls() == [statuses]
            assert (tools / "file").exists() is is_there

    with OpenAIServer([calls(("touch", {"path": "file"})), text("done")]) as server:
        asyncio.run(main(server))


def test_yes_to_all_asks_nobody(tools):
    async def main(server):
        async with editor(server, "--tools", "edtools:touch", "--yes", cwd=tools) as client:
            assert await client.prompt(await client.begin()) == "end_turn"
            assert client.questions == []
            assert (tools / "file").exists()

    with OpenAIServer([calls(("touch", {"path": "file"})), text("done")]) as server:
        asyncio.run(main(server))


def test_progress_of_a_tool_is_shown(tools):
    async def main(server):
        async with editor(server, "--tools", "edtools:report", cwd=tools) as client:
            assert await client.prompt(await client.begin()) == "end_turn"
            told = [update for _, update in client.updates if update.session_update == "tool_call_update"]
            assert [update.content[0].content.text for update in told] == ["half 50%", "reported"]

    with OpenAIServer([calls(("report", {"path": "x"})), text("done")]) as server:
        asyncio.run(main(server))


def test_the_built_in_tools_work_in_the_folder_of_the_session(tmp_path):
    async def main(server):
        async with editor(server, "--workspace") as client:
            (tmp_path / "note.txt").write_text("the note")
            assert await client.prompt(await client.begin(tmp_path)) == "end_turn"
            assert client.calls() == [["in_progress", "completed"]]
            assert "the note" in final_of(client)

    with OpenAIServer([calls(("read_file", {"path": "note.txt"})), text("done")]) as server:
        asyncio.run(main(server))


def test_a_second_prompt_of_a_busy_session_is_refused_and_the_first_goes_on(tools):
    async def main(server):
        async with editor(server, "--tools", "edtools:touch", cwd=tools) as client:
            session = await client.begin()
            prompt = asyncio.create_task(client.prompt(session))
            await client.until(lambda: client.questions)
            with pytest.raises(acp.RequestError, match="busy"):
                await client.prompt(session)
            client.answer.set()
            assert await prompt == "end_turn"

    with OpenAIServer([calls(("touch", {"path": "file"})), text("done")]) as server:
        asyncio.run(main(server))


def test_the_last_turn_is_told_by_its_own_reason(tools):
    async def main(server):
        async with editor(server, "--tools", "edtools:report", "--max-turns", "2", cwd=tools) as client:
            assert await client.prompt(await client.begin()) == "max_turn_requests"

    with OpenAIServer(calls(("report", {"path": "x"}))) as server:
        asyncio.run(main(server))


def test_what_a_prompt_cannot_hold_is_refused_in_words():
    async def main(server):
        async with editor(server) as client:
            session = await client.begin()
            picture = ImageContentBlock(type="image", data="", mime_type="image/png")
            for blocks in ([picture], []):
                with pytest.raises(acp.RequestError) as refused:
                    await client.connection.prompt(prompt=blocks, session_id=session)
                assert refused.value.code == -32602
            with pytest.raises(acp.RequestError, match="no session"):
                await client.prompt("nobody's")
            link = acp.resource_link_block("a.py", "file:///a.py")
            file = acp.resource_block(acp.embedded_text_resource("file:///b.py", "b = 1"))
            blocks = [acp.text_block("look: "), link, file]
            await client.connection.prompt(prompt=blocks, session_id=session)
            said = server.bodies[0]["messages"][-1]["content"]
            assert said == 'look: [a.py](file:///a.py)\n<file uri="file:///b.py">\nb = 1\n</file>\n'

    with OpenAIServer(text("seen")) as server:
        asyncio.run(main(server))
