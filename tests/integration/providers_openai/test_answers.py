"""Everything a server can answer, over a real connection."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Sequence
from typing import Any

import pytest

from loopctl.errors import ModelError
from loopctl.messages import AssistantMessage, ToolCall, ToolMessage, ToolResult, UserMessage
from loopctl.model import Delta, ModelRequest, ReplyEnd, TextPart, ThinkingPart, ToolCallPart, ToolSpec, UsagePart
from loopctl.providers.openai import HttpOptions, OpenAIModel
from tests.peers import openai_server as peer
from tests.peers.openai_server import OpenAIServer

REQUEST = ModelRequest("be brief", (UserMessage("hi"),))


def ask(script: Any, *, is_streamed: bool = True, request: ModelRequest = REQUEST) -> list[Delta]:
    async def main() -> list[Delta]:
        model = OpenAIModel("test", base_url=server.url)
        if is_streamed:
            return [delta async for delta in model.stream(request)]
        return list(await model.complete(request))

    with OpenAIServer(script) as server:
        return asyncio.run(main())


def text_of(deltas: Sequence[Delta]) -> str:
    return "".join(delta.text for delta in deltas if isinstance(delta, TextPart))


def test_a_stream_is_given_piece_by_piece() -> None:
    assert ask(peer.text("Hello", " world", thinking=["hm"])) == [
        ThinkingPart("hm"),
        TextPart("Hello"),
        TextPart(" world"),
        UsagePart(11, 7),
        ReplyEnd("stop"),
    ]


def test_a_reply_in_one_piece_is_the_same_reply() -> None:
    assert ask(peer.text("Hello", " world", thinking=["hm"]), is_streamed=False) == [
        ThinkingPart("hm"),
        TextPart("Hello world"),
        UsagePart(11, 7),
        ReplyEnd("stop"),
    ]


@pytest.mark.parametrize("is_streamed", [True, False])
def test_tool_calls_arrive_whole(is_streamed: bool) -> None:
    deltas = ask(
        peer.calls(("fetch", {"url": "http://x"}), ("list", {}), before=["Let me look."]), is_streamed=is_streamed
    )
    arguments = {0: "", 1: ""}
    for delta in deltas:
        if isinstance(delta, ToolCallPart):
            arguments[delta.index] += delta.arguments
    assert [json.loads(raw) for raw in arguments.values()] == [{"url": "http://x"}, {}]
    assert [delta.name for delta in deltas if isinstance(delta, ToolCallPart) and delta.name] == ["fetch", "list"]
    assert text_of(deltas) == "Let me look."
    assert deltas[-1] == ReplyEnd("tool_calls")


def test_a_burst_in_one_write_arrives_whole() -> None:
    deltas = ask(peer.burst(2000))
    assert text_of(deltas) == "".join(f"word{number} " for number in range(2000))
    assert len(deltas) == 2002


def test_the_request_holds_instructions_conversation_tools_and_options() -> None:
    spec = ToolSpec("fetch", "Fetch a page.", {"type": "object", "properties": {"url": {"type": "string"}}})
    history = (
        UserMessage("hi"),
        AssistantMessage((ToolCall("c1", "fetch", {"url": "x"}),)),
        ToolMessage((ToolResult("c1", "page"),)),
    )

    async def main() -> None:
        http = HttpOptions(headers={"x-team": "tests"})
        model = OpenAIModel("test", base_url=server.url, api_key="k", extra_body={"temperature": 0.5}, http=http)
        [_ async for _ in model.stream(ModelRequest("be brief", history, (spec,)))]

    with OpenAIServer(api_key="k") as server:
        asyncio.run(main())
    (record,) = server.records
    assert [message["role"] for message in record.body["messages"]] == ["system", "user", "assistant", "tool"]
    assert record.body["tools"][0]["function"]["name"] == "fetch"
    assert record.body["temperature"] == 0.5
    assert record.body["stream_options"] == {"include_usage": True}
    assert record.headers["x-team"] == "tests"
    assert record.headers["accept-encoding"] == "identity"


def test_an_open_call_is_refused_in_the_servers_words() -> None:
    request = ModelRequest("", (AssistantMessage((ToolCall("c1", "fetch"),)), UserMessage("hi")))
    with pytest.raises(
        ModelError, match="must be followed by tool messages responding to each 'tool_call_id'"
    ) as caught:
        ask(peer.text("x"), request=request)
    assert (caught.value.status, caught.value.retryable) == (400, False)


def test_a_server_that_refuses_to_tell_the_usage_is_asked_without_and_that_is_remembered() -> None:
    def script(record: peer.Record) -> peer.Reply:
        if "stream_options" in record.body:
            return peer.error(400, "Unrecognized request argument supplied: stream_options")
        return peer.text("fine")

    async def main() -> list[str]:
        model = OpenAIModel("test", base_url=server.url)
        return [text_of([delta async for delta in model.stream(REQUEST)]) for _ in range(2)]

    with OpenAIServer(script) as server:
        assert asyncio.run(main()) == ["fine", "fine"]
    assert ["stream_options" in body for body in server.bodies] == [True, False, False]


def test_another_refusal_is_not_sent_again() -> None:
    with pytest.raises(ModelError, match="no such thing"):
        ask([peer.error(400, "no such thing"), peer.text("never")])


def test_a_server_that_ignores_the_wish_for_usage_leaves_it_unknown() -> None:
    assert ask(peer.text("a", usage=None)) == [TextPart("a"), ReplyEnd("stop")]


def test_a_server_that_does_not_stream_is_read_all_the_same() -> None:
    body = {"choices": [{"message": {"content": "whole"}, "finish_reason": "stop"}]}
    assert ask(peer.raw(json.dumps(body).encode())) == [TextPart("whole"), ReplyEnd("stop")]


def test_a_stream_of_an_odd_content_type_is_read_all_the_same() -> None:
    stream = b'data: {"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    assert ask(peer.raw(stream, content_type="text/plain")) == [TextPart("a"), ReplyEnd("stop")]


def test_a_compressed_answer_is_unpacked_though_none_was_asked_for() -> None:
    import gzip

    stream = b'data: {"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    reply = peer.raw(gzip.compress(stream), content_type="text/event-stream", Content_Encoding="gzip")
    assert ask(reply) == [TextPart("a"), ReplyEnd("stop")]


@pytest.mark.parametrize("is_streamed", [True, False])
@pytest.mark.parametrize(
    ("reply", "words", "status", "retryable"),
    [
        (peer.not_json(), "(not JSON|no event stream).*upstream said hello", 200, False),
        (peer.html(200), "not JSON.*502 Bad Gateway", 200, False),
        (peer.html(502), "502 Bad Gateway", 502, True),
        (peer.error(401, "Incorrect API key provided: x."), "Incorrect API key.*OPENAI_API_KEY", 401, False),
        (peer.error(404, "no such model"), "no such model.*model's name", 404, False),
        (peer.error(429, "slow down", retry_after="2"), "slow down.*asks to wait 2 s", 429, True),
        (peer.error(500, "oops"), "oops.*again", 500, True),
        (peer.error(503, "loading"), "loading", 503, True),
        (peer.dropped(2), "(broke off|in the middle)", None, True),
        (peer.raw(b""), "not JSON.*nothing", 200, False),
        (peer.raw(b"", status=307, Location="http://elsewhere/v1"), "redirects to http://elsewhere/v1", 307, False),
    ],
)
def test_each_failure_is_its_own_model_error(
    reply: peer.Reply, words: str, status: int | None, retryable: bool, is_streamed: bool
) -> None:
    with pytest.raises(ModelError, match=words) as caught:
        ask(reply, is_streamed=is_streamed)
    assert (caught.value.status, caught.value.retryable) == (status, retryable)
    assert "openai:test at http://127.0.0.1:" in str(caught.value)


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (peer.truncated(2), "ended its answer too early, after 2 events"),
        (peer.raw_stream(b'data: {"choices":[{"del'), "ended its answer too early, before its first event"),
        (peer.raw_stream(b'data: {"error":{"message":"out of memory"}}\n\n'), "out of memory"),
    ],
)
def test_a_stream_that_is_not_whole_may_be_tried_again(reply: peer.Reply, words: str) -> None:
    with pytest.raises(ModelError, match=words) as caught:
        ask(reply)
    assert caught.value.retryable


def test_what_had_come_of_a_dropped_stream_was_given() -> None:
    async def main() -> list[Delta]:
        deltas = []
        with pytest.raises(ModelError, match="broke off after 2 events"):
            async for delta in OpenAIModel("test", base_url=server.url).stream(REQUEST):
                deltas.append(delta)  # noqa: PERF401 - what came before the error counts
        return deltas

    with OpenAIServer(peer.dropped(2)) as server:
        assert asyncio.run(main()) == [TextPart("word0 "), TextPart("word1 ")]


def test_a_connection_lost_after_the_finish_reason_takes_nothing_from_the_reply() -> None:
    reply = peer.text("a", drop_at=2)  # the text, the finish reason, and half of the usage
    assert ask(reply) == [TextPart("a"), ReplyEnd("stop")]


def test_where_nothing_listens_it_says_so() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    with pytest.raises(ModelError, match=rf"{url} did not answer: nothing listens there") as caught:
        asyncio.run(OpenAIModel("test", base_url=url).complete(REQUEST))
    assert (caught.value.status, caught.value.retryable) == (None, True)


@pytest.mark.parametrize(
    ("scheme", "answer", "words"),
    [
        ("http", b"", "lost before it answered"),
        ("http", b"SSH-2.0-OpenSSH\r\n\r\n", "lost before it answered"),
        ("https", b"HTTP/1.1 400 Bad Request\r\n\r\n", "no secure connection"),
    ],
    ids=["closes", "no http", "no tls"],
)
def test_what_does_not_speak_the_protocol_is_told_apart(scheme: str, answer: bytes, words: str) -> None:
    async def main() -> None:
        def reply(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(answer)
            writer.close()

        server = await asyncio.start_server(reply, "127.0.0.1", 0)
        url = f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        try:
            with pytest.raises(ModelError, match=words) as caught:
                await OpenAIModel("test", base_url=url).complete(REQUEST)
            assert caught.value.retryable
        finally:
            server.close()

    asyncio.run(main())


@pytest.fixture
def _proxy_that_is_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("_proxy_that_is_dead")
def test_a_proxy_of_the_environment_is_not_asked_for_a_server_on_this_machine() -> None:
    assert text_of(ask(peer.text("direct"))) == "direct"


def test_a_proxy_of_the_environment_is_asked_for_every_other_server(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    with OpenAIServer(peer.text("by proxy")) as server:
        monkeypatch.setenv("HTTP_PROXY", server.url.removesuffix("/v1"))
        model = OpenAIModel("test", base_url="http://model.invalid/v1", api_key="")
        assert text_of(asyncio.run(_complete(model))) == "by proxy"
        assert server.records[0].path == "http://model.invalid/v1/chat/completions"


async def _complete(model: OpenAIModel) -> Sequence[Delta]:
    return await model.complete(REQUEST)
