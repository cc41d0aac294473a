"""Replies of the real model, and what is left of one that was stopped."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import sys
import threading
from pathlib import Path

import httpx2
import pytest

from loopctl.errors import ModelError
from loopctl.messages import AssistantMessage, ToolCall, ToolMessage, ToolResult
from loopctl.model import ModelRequest, ReplyEnd, TextPart, ToolCallPart, ToolSpec, UsagePart

# A server that a test replaces belongs to the shared model.
pytestmark = pytest.mark.shares("children", "descriptors")

ADD = ToolSpec(
    "add",
    "Add two numbers.",
    {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
        "additionalProperties": False,
    },
)
STORY = "Tell me a very long story about a frog that travels around the world."
LONG = "one word and another word and " * 400


async def ended(task):
    with pytest.raises(asyncio.CancelledError):
        await task


def test_it_answers_with_text_usage_and_an_end(shared_model, talk):
    async def main():
        return [delta async for delta in shared_model.stream(talk.request("Say hello."))]

    deltas = asyncio.run(main())
    assert "".join(delta.text for delta in deltas if isinstance(delta, TextPart))
    [usage] = [delta for delta in deltas if isinstance(delta, UsagePart)]
    assert usage.input_tokens > 0
    assert usage.output_tokens > 0
    assert isinstance(deltas[-1], ReplyEnd)


def test_a_reply_cancelled_in_the_middle_frees_the_slot_and_the_next_one_works(shared_model, talk):
    async def main():
        got = []
        task = asyncio.create_task(talk.first_words(shared_model, STORY, count=10_000, into=got))
        assert await talk.until(lambda: len(got) > 2)
        assert await shared_model.is_busy()  # there is something to stop
        pid = shared_model.pid
        task.cancel()
        await ended(task)
        assert not any(isinstance(delta, ReplyEnd) for delta in got)
        assert await talk.until(lambda: idle(shared_model))
        assert await talk.first_words(shared_model)
        assert shared_model.pid == pid

    asyncio.run(main())


async def idle(model):
    return not await model.is_busy()


def test_closing_a_reply_early_closes_all_below_it_at_once(shared_model, talk):
    async def main():
        await shared_model.prepare()
        left_over = []
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(firstiter=hooks.firstiter, finalizer=left_over.append)
        assert await talk.first_words(shared_model, STORY)
        gc.collect()
        sys.set_asyncgen_hooks(*hooks)
        assert not left_over  # or the loop would close it some time later, in a task of its own
        assert await talk.until(lambda: idle(shared_model))

    asyncio.run(main())


def test_a_cancel_during_a_long_prompt_ends_at_once_and_the_busy_server_is_replaced(shared_model, talk):
    async def main():
        await shared_model.prepare()
        pid = shared_model.pid
        got = []
        task = asyncio.create_task(talk.first_words(shared_model, LONG, into=got))
        assert await talk.until(shared_model.is_busy)
        task.cancel()
        await ended(task)
        assert not got
        assert await shared_model.is_busy()  # the task ended before the server did
        assert [slot["is_processing"] for slot in await shared_model.slots()] == [True]
        await shared_model.prepare()
        assert shared_model.pid != pid
        assert not talk.exists(pid)
        assert await talk.first_words(shared_model)

    asyncio.run(main())


def test_a_busy_server_is_not_replaced_under_somebody_who_uses_it(shared_model, talk):
    async def main():
        got = []
        story = asyncio.create_task(talk.first_words(shared_model, STORY, count=10_000, into=got))
        assert await talk.until(lambda: len(got) > 2)
        pid = shared_model.pid
        dropped = asyncio.create_task(talk.first_words(shared_model, LONG))
        assert await talk.until(lambda: shared_model._server._life.streams == 2)
        dropped.cancel()
        await ended(dropped)
        await shared_model.prepare()
        assert shared_model.pid == pid
        before = len(got)
        assert await talk.until(lambda: len(got) > before)  # the story goes on
        story.cancel()
        await ended(story)
        await shared_model.prepare()
        assert await idle(shared_model)  # now that nobody else was there, it was replaced if it was still reading

    asyncio.run(main())


def test_a_server_that_is_killed_fails_its_request_as_retryable_and_the_next_one_starts_a_new_one(shared_model, talk):
    async def main():
        got = []
        task = asyncio.create_task(talk.first_words(shared_model, STORY, count=10_000, into=got))
        assert await talk.until(lambda: len(got) > 2)
        pid = shared_model.pid
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(ModelError, match=r"died in the middle of a request \(signal 9\)") as caught:
            await task
        assert caught.value.retryable
        assert not talk.exists(pid)
        assert await talk.first_words(shared_model)
        assert shared_model.pid not in {pid, None}

    asyncio.run(main())


def test_a_server_that_was_killed_between_requests_is_replaced(shared_model, talk):
    async def main():
        await shared_model.prepare()
        pid = shared_model.pid
        os.kill(pid, signal.SIGKILL)
        assert await talk.until(lambda: shared_model.pid is None)
        assert not await shared_model.is_busy()
        assert await talk.first_words(shared_model)
        assert shared_model.pid != pid

    asyncio.run(main())


def test_two_loops_in_two_threads_share_one_server(shared_model, talk):
    async def main():
        words = await talk.first_words(shared_model)
        return words, shared_model.pid

    answers = []
    threads = [threading.Thread(target=lambda: answers.append(asyncio.run(main()))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(words for words, _ in answers)
    assert len({pid for _, pid in answers}) == 1


def test_a_tool_that_is_asked_for_is_called_with_arguments_that_fit_and_its_result_gets_an_answer(shared_model, talk):
    async def main():
        request = talk.request("Please use add to add 17 and 25.", tools=(ADD,))
        deltas = [delta async for delta in shared_model.stream(request)]
        [call] = [delta for delta in deltas if isinstance(delta, ToolCallPart)]
        assert call.name == "add"
        assert call.id
        arguments = json.loads(call.arguments)
        assert {key: type(value) for key, value in arguments.items()} == {"a": int, "b": int}
        assert deltas[-1] == ReplyEnd("tool_calls")
        assert any(isinstance(delta, UsagePart) for delta in deltas)
        history = (
            *request.messages,
            AssistantMessage((ToolCall(call.id, "add", arguments),)),
            ToolMessage((ToolResult(call.id, "42"),)),
        )
        answer = [d async for d in shared_model.stream(ModelRequest(request.instructions, history, (ADD,)))]
        assert any(isinstance(delta, TextPart) for delta in answer)
        assert not any(isinstance(delta, ToolCallPart) for delta in answer)

    asyncio.run(main())


def test_talk_with_a_tool_on_offer_gets_text_and_the_usage_of_both_requests(shared_model, talk):
    async def main():
        deltas = [delta async for delta in shared_model.stream(talk.request("Hello!", tools=(ADD,)))]
        assert any(isinstance(delta, TextPart) for delta in deltas)
        first, last = [delta for delta in deltas if isinstance(delta, UsagePart)]
        assert first.input_tokens < last.input_tokens
        assert first.output_tokens < last.output_tokens

    asyncio.run(main())


def test_a_decision_can_be_cancelled_like_a_reply(shared_model, talk):
    async def main():
        await shared_model.prepare()
        task = asyncio.create_task(anext(shared_model.stream(talk.request("Please use add: 1 and 2", tools=(ADD,)))))
        assert await talk.until(shared_model.is_busy)
        task.cancel()
        await ended(task)
        assert await talk.until(lambda: idle(shared_model))

    asyncio.run(main())


def test_a_conversation_that_does_not_fit_says_how_much_does(shared_model, talk):
    with pytest.raises(ModelError, match="does not fit the 4096 tokens") as caught:
        asyncio.run(talk.first_words(shared_model, "word " * 6000))
    assert caught.value.status == 400
    assert not caught.value.retryable


def test_nobody_else_on_this_machine_can_use_the_server(shared_model, talk):
    async def main():
        await shared_model.prepare()
        endpoint = await shared_model._server.ready()
        async with httpx2.AsyncClient(trust_env=False) as client:
            answers = [
                await client.get(f"{endpoint.process.address}/slots"),
                await client.post(f"{endpoint.base_url}/chat/completions", json={"messages": []}),
            ]
        assert [answer.status_code for answer in answers] == [401, 401]
        assert shared_model._server._spec.key not in Path(f"/proc/{shared_model.pid}/cmdline").read_text()

    asyncio.run(main())


def test_the_terminals_ctrl_c_does_not_reach_the_server(shared_model):
    asyncio.run(shared_model.prepare())
    assert os.getsid(shared_model.pid) == shared_model.pid != os.getsid(0)
