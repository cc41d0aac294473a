"""What stops a prompt, and what comes of it: by the SDK's client, over pipes, against a real command."""

from __future__ import annotations

import asyncio

import pytest

from loopctl import control
from tests.integration.acp.editor import TOOLS, editor, final_of, text_of
from tests.peers.openai_server import OpenAIServer, calls, endless, error, text


@pytest.fixture
def tools(tmp_path):
    (tmp_path / "edtools.py").write_text(TOOLS)
    return tmp_path


def wanted(name, path="x"):
    return calls((name, {"path": str(path)}))


async def stop(client, session, prompt, *conditions):
    for condition in conditions:
        await client.until(condition)
    assert not prompt.done(), "there was nothing to stop"
    await client.connection.cancel(session_id=session)
    return await prompt


def test_a_cancel_ends_a_streamed_reply_and_the_next_prompt_is_a_fresh_one():
    async def main(server):
        async with editor(server) as client:
            session = await client.begin()
            prompt = asyncio.create_task(client.prompt(session))
            ended = await stop(client, session, prompt, lambda: "token" in text_of(client), lambda: server.open == 1)
            assert ended == "cancelled"
            await server.until(lambda s: s.disconnects == 1)
            (answer,) = [m for d, m in client.wire if "stopReason" in (m.get("result") or {})]
            assert answer["result"] == {"stopReason": "cancelled"}  # no usage, least of all one of 0
            assert await client.prompt(session, "again") == "end_turn"
            assert text_of(client).endswith("fresh")
            said = [message["content"] for message in server.bodies[-1]["messages"] if message["role"] == "user"]
            assert said == ["go", "again"]

    with OpenAIServer([endless(), text("fresh")]) as server:
        asyncio.run(main(server))


def test_a_prompt_can_be_stopped_from_another_process_too(tmp_path, monkeypatch):
    monkeypatch.setenv("LOOPCTL_CONTROL_DIR", str(tmp_path / "sockets"))

    async def main(server):
        async with editor(server) as client:
            session = await client.begin()
            prompt = asyncio.create_task(client.prompt(session))
            await client.until(lambda: "token" in text_of(client))
            [run] = await control.list_runs()
            assert (run.command, run.pid) == ("loopctl acp", client.process.pid)
            assert (await control.cancel(run.id)).state == "ended"
            assert await prompt == "cancelled"
            assert await client.prompt(session, "again") == "end_turn"

    with OpenAIServer([endless(), text("fresh")]) as server:
        asyncio.run(main(server))


def test_a_cancel_closes_the_tool_call_and_tells_the_tool_that_a_user_asked(tools):
    async def main(server):
        async with editor(server, "--tools", "edtools:wait", cwd=tools) as client:
            session = await client.begin()
            prompt = asyncio.create_task(client.prompt(session))
            ended = await stop(client, session, prompt, (tools / "log.begun").exists)
            assert ended == "cancelled"
            assert client.calls() == [["in_progress", "failed"]]
            assert "stopped" in final_of(client)
            assert (tools / "log").read_text() == "user"
            assert await client.prompt(session, "again") == "end_turn"  # the server refuses a call without its result

    with OpenAIServer([wanted("wait", "log"), text("fresh")]) as server:
        asyncio.run(main(server))


def test_a_cancel_withdraws_an_open_question_and_a_late_yes_runs_nothing(tools):
    async def main(server):
        async with editor(server, "--tools", "edtools:touch", cwd=tools) as client:
            session = await client.begin()
            prompt = asyncio.create_task(client.prompt(session))
            ended = await stop(client, session, prompt, lambda: client.questions)
            assert ended == "cancelled"
            (asked,) = client.received("session/request_permission")
            (withdrawn,) = client.received("$/cancel_request")
            assert withdrawn["params"] == {"requestId": asked["id"]}
            assert client.calls() == [["in_progress", "pending", "failed"]]
            client.answer.set()  # yes, but too late
            assert await client.prompt(session, "again") == "end_turn"
            assert not (tools / "file").exists()

    with OpenAIServer([wanted("touch", "file"), text("fresh")]) as server:
        asyncio.run(main(server))


def test_a_question_that_the_client_cancels_stops_the_prompt(tools):
    """By the protocol it means that the prompt was cancelled; some clients say it before they send the cancel."""

    async def main(server):
        async with editor(server, "--tools", "edtools:touch", cwd=tools) as client:
            client.choice = None
            client.answer.set()
            assert await client.prompt(await client.begin()) == "cancelled"
            assert client.questions
            assert len(server.records) == 1

    with OpenAIServer([wanted("touch", "file"), text("never asked")]) as server:
        asyncio.run(main(server))


def test_a_tool_that_swallows_cancellations_holds_up_no_answer(tools):
    async def main(server):
        async with editor(server, "--tools", "edtools:refuse", cwd=tools) as client:
            session = await client.begin()
            prompt = asyncio.create_task(client.prompt(session))
            ended = await stop(client, session, prompt, lambda: client.calls() == [["in_progress"]])
            assert ended == "cancelled"
            assert client.calls() == [["in_progress", "failed"]]
            assert "still runs" in final_of(client)

    with OpenAIServer([wanted("refuse")]) as server:
        asyncio.run(main(server))


def test_a_cancel_with_nothing_to_cancel_reaches_no_later_prompt():
    async def main(server):
        async with editor(server) as client:
            session = await client.begin()
            await client.connection.cancel(session_id=session)
            assert await client.prompt(session) == "end_turn"
            await client.connection.cancel(session_id=session)
            await client.connection.cancel(session_id="nobody's")
            assert await client.prompt(session) == "end_turn"

    with OpenAIServer(text("fresh")) as server:
        asyncio.run(main(server))


def test_a_cancel_stops_its_own_session_and_no_other():
    async def main(server):
        async with editor(server) as client:
            one, other = await client.begin(), await client.begin()
            prompts = [asyncio.create_task(client.prompt(session)) for session in (one, other)]
            await server.until(lambda s: s.open == 2)
            assert await stop(client, one, prompts[0]) == "cancelled"
            await server.until(lambda s: s.disconnects == 1)
            shown = len(client.updates)
            await client.until(lambda: len(client.updates) > shown + 5)  # the other goes on
            assert {session for session, _ in client.updates[shown:]} == {other}
            assert await stop(client, other, prompts[1]) == "cancelled"

    with OpenAIServer(endless()) as server:
        asyncio.run(main(server))


def test_closing_a_session_stops_its_prompt_for_the_user(tools):
    async def main(server):
        async with editor(server, "--tools", "edtools:wait", cwd=tools) as client:
            session = await client.begin()
            prompt = asyncio.create_task(client.prompt(session))
            await client.until((tools / "log.begun").exists)
            await client.connection.close_session(session_id=session)
            assert await prompt == "cancelled"
            assert (tools / "log").read_text() == "user"
            with pytest.raises(Exception, match="no session"):
                await client.prompt(session)

    with OpenAIServer(wanted("wait", "log")) as server:
        asyncio.run(main(server))


def test_a_deadline_is_no_cancel_of_the_client():
    async def main(server):
        async with editor(server, "--deadline", "0.3") as client:
            with pytest.raises(Exception, match="the run was stopped: deadline"):
                await client.prompt(await client.begin())

    with OpenAIServer(endless()) as server:
        asyncio.run(main(server))


def test_a_run_that_fails_is_an_error_with_its_cause():
    async def main(server):
        async with editor(server) as client:
            with pytest.raises(Exception, match="no such key"):
                await client.prompt(await client.begin())

    with OpenAIServer(error(401, "no such key")) as server:
        asyncio.run(main(server))
