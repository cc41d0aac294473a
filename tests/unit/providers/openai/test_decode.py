"""The reply: streamed and whole, with the deviations of compatible servers."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, strategies as st

from loopctl.errors import ModelError
from loopctl.model import Delta, ReplyEnd, TextPart, ThinkingPart, ToolCallPart, UsagePart
from loopctl.providers.openai._decode import StreamDecoder, decode_completion
from loopctl.providers.openai._errors import Where

WHERE = Where("openai:m", "http://127.0.0.1:1/v1")


def event(delta: Any = None, finish: str | None = None, **more: Any) -> bytes:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    return b"data: " + json.dumps({"choices": choices, **more}).encode() + b"\n\n"


def fragment(**fields: Any) -> Any:
    function = {key: fields.pop(key) for key in ("name", "arguments") if key in fields}
    return {"tool_calls": [{**fields, "function": function}]}


def decode(*portions: bytes) -> list[Delta]:
    decoder = StreamDecoder(WHERE)
    return [delta for portion in portions for delta in decoder.feed(portion)] + list(decoder.end())


DONE = b"data: [DONE]\n\n"
STOP = event({}, "stop")


@pytest.mark.parametrize(
    ("stream", "deltas"),
    [
        ([event({"content": "a"}), event({"content": "b"})], [TextPart("a"), TextPart("b")]),
        ([event({"role": "assistant", "content": ""}), event({"content": None}), event({})], []),
        ([event({"reasoning_content": "r"})], [ThinkingPart("r")]),
        ([event({"reasoning": "r", "content": "a"})], [ThinkingPart("r"), TextPart("a")]),
        ([event({"refusal": "no"})], [TextPart("no")]),
        ([event({"content": [{"type": "text", "text": "a"}]})], [TextPart("a")]),
        (
            [event({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "r"}]}]})],
            [ThinkingPart("r")],
        ),
        ([event(None, usage={"prompt_tokens": 3, "completion_tokens": 4})], [UsagePart(3, 4)]),
        ([event({"content": "a"}, usage=None)], [TextPart("a")]),
        ([event({"content": "a", "unknown": [{}]}, system_fingerprint="x", created=1.5)], [TextPart("a")]),
        ([b": ping\n\n", event({"content": "a"})], [TextPart("a")]),
        ([event({"content": "\U0001f600"})], [TextPart("\U0001f600")]),
        ([b'data: {"choices":[{"index":1,"delta":{"content":"other"}}]}\n\n'], []),
        ([b'data: {"choices":[{"delta":{"content":"\\ud83d"}}]}\n\n'], [TextPart("\ufffd")]),
        ([b'data: {"choices":[{"delta":{"content":"a"},"logprob":NaN}]}\n\n'], [TextPart("a")]),
        ([b'data: {"choices":[{"delta":{"content":"\xff"}}]}\n\n'], [TextPart("\ufffd")]),
    ],
)
def test_events_become_deltas(stream: list[bytes], deltas: list[Delta]) -> None:
    assert decode(*stream, STOP, DONE) == [*deltas, ReplyEnd("stop")]


@pytest.mark.parametrize(
    ("stream", "parts"),
    [
        (
            [
                fragment(index=0, id="a", name="f", arguments=""),
                fragment(index=0, arguments='{"x"'),
                fragment(index=0, arguments=":1}"),
            ],
            [ToolCallPart(0, "a", "f", ""), ToolCallPart(0, "", "", '{"x"'), ToolCallPart(0, "", "", ":1}")],
        ),
        (
            [fragment(index=0, id="a", name="f", arguments="{}"), fragment(index=1, id="b", name="g", arguments="{}")],
            [ToolCallPart(0, "a", "f", "{}"), ToolCallPart(1, "b", "g", "{}")],
        ),
        (  # Gemini's compatible endpoint: whole calls, all with the index 0
            [fragment(index=0, id="a", name="f", arguments="{}"), fragment(index=0, id="b", name="f", arguments="{}")],
            [ToolCallPart(0, "a", "f", "{}"), ToolCallPart(1, "b", "f", "{}")],
        ),
        (  # no index at all
            [
                fragment(id="a", name="f", arguments="{"),
                fragment(arguments="}"),
                fragment(id="b", name="g", arguments="{}"),
            ],
            [ToolCallPart(0, "a", "f", "{"), ToolCallPart(0, "", "", "}"), ToolCallPart(1, "b", "g", "{}")],
        ),
        (  # neither index nor id
            [fragment(name="f", arguments="{}"), fragment(name="f", arguments="{}")],
            [ToolCallPart(0, "", "f", "{}"), ToolCallPart(1, "", "f", "{}")],
        ),
        (  # the id again in every fragment, or a new one without a name
            [
                fragment(index=0, id="a", name="f", arguments="{"),
                fragment(index=0, id="a", name="f", arguments=""),
                fragment(index=0, id="z", arguments="}"),
            ],
            [ToolCallPart(0, "a", "f", "{"), ToolCallPart(0, "a", "f", ""), ToolCallPart(0, "z", "", "}")],
        ),
        (  # the id comes late
            [fragment(index=0, name="f", arguments="{"), fragment(index=0, id="a", arguments="}")],
            [ToolCallPart(0, "", "f", "{"), ToolCallPart(0, "a", "", "}")],
        ),
        (  # the arguments as an object
            [fragment(index=0, id="a", name="f", arguments={"x": 1})],
            [ToolCallPart(0, "a", "f", '{"x":1}')],
        ),
        ([{"tool_calls": [{"index": 0, "id": "a"}]}], [ToolCallPart(0, "a", "", "")]),
    ],
)
def test_fragments_of_tool_calls_are_numbered(stream: list[Any], parts: list[Delta]) -> None:
    events = [event(delta) for delta in stream]
    assert decode(*events, event({}, "tool_calls"), DONE) == [*parts, ReplyEnd("tool_calls")]


@pytest.mark.parametrize(
    ("finish", "reason"),
    [
        ("stop", "stop"),
        ("tool_calls", "tool_calls"),
        ("function_call", "tool_calls"),
        ("length", "length"),
        ("content_filter", "content_filter"),
        ("weird", "other"),
    ],
)
def test_finish_reasons_become_stop_reasons(finish: str, reason: str) -> None:
    assert decode(event({}, finish), DONE)[-1] == ReplyEnd(reason)  # type: ignore[arg-type]


def test_a_reply_without_done_is_whole_if_a_finish_reason_came() -> None:
    assert decode(event({"content": "a"}), STOP) == [TextPart("a"), ReplyEnd("stop")]


def test_usage_after_the_finish_reason_comes_before_the_end() -> None:
    usage = event(None, usage={"prompt_tokens": 1, "completion_tokens": None})
    assert decode(STOP, usage, DONE) == [UsagePart(1, None), ReplyEnd("stop")]


def test_done_without_a_finish_reason_ends_the_reply_by_what_it_held() -> None:
    assert decode(event({"content": "a"}), DONE)[-1] == ReplyEnd("stop")
    assert decode(event(fragment(index=0, id="a", name="f", arguments="{}")), DONE)[-1] == ReplyEnd("tool_calls")


def test_nothing_is_given_after_the_end() -> None:
    assert decode(STOP, DONE, event({"content": "late"}), DONE) == [ReplyEnd("stop")]


def test_the_last_empty_line_may_be_missing() -> None:
    assert decode(event({"content": "a"}), b"data: [DONE]") == [TextPart("a"), ReplyEnd("stop")]
    assert decode(event({"content": "a"}), STOP.rstrip()) == [TextPart("a"), ReplyEnd("stop")]


@pytest.mark.parametrize("stream", [b"", event({"content": "a"}), event({"content": "a"})[:-9], b'data: {"cho'])
def test_a_reply_that_ends_too_early_is_truncated_and_may_be_tried_again(stream: bytes) -> None:
    with pytest.raises(ModelError, match="too early") as caught:
        decode(stream)
    assert caught.value.retryable
    assert "openai:m at http://127.0.0.1:1/v1" in str(caught.value)


def test_what_came_before_an_error_is_given_before_it_is_raised() -> None:
    decoder = StreamDecoder(WHERE)
    deltas = decoder.feed(event({"content": "a"}) + b'data: {"error": {"message": "boom"}}\n\n')
    assert next(deltas) == TextPart("a")
    with pytest.raises(ModelError, match="boom"):
        next(deltas)


@pytest.mark.parametrize(
    ("error", "status", "retryable"),
    [
        ({"error": {"message": "boom", "type": "server_error"}}, None, True),
        ({"error": {"message": "boom", "type": "invalid_request_error"}}, None, False),
        ({"error": {"message": "boom", "code": 503}}, 503, True),
        ({"error": {"message": "boom", "code": "400"}}, 400, False),
        ({"error": {"message": "boom", "code": "insufficient_quota"}}, None, False),
        ({"error": "boom"}, None, True),
        ({"object": "error", "message": "boom"}, None, True),
        ({"error": {"message": "boom", "code": 502}, "choices": [{"delta": {}, "finish_reason": "error"}]}, 502, True),
    ],
)
def test_an_error_inside_a_stream_is_a_model_error(error: Any, status: int | None, retryable: bool) -> None:
    with pytest.raises(ModelError, match="boom") as caught:
        decode(event({"content": "a"}), b"data: " + json.dumps(error).encode() + b"\n\n", DONE)
    assert (caught.value.status, caught.value.retryable) == (status, retryable)


@pytest.mark.parametrize("payload", [b"nonsense", b"[1]", b'{"choices": "none"}', b'{"choices": [{"delta": 5}]}'])
def test_an_event_of_another_shape_is_quoted_and_not_tried_again(payload: bytes) -> None:
    with pytest.raises(ModelError, match="no reply") as caught:
        decode(b"data: " + payload + b"\n\n", DONE)
    assert not caught.value.retryable


def test_what_is_no_event_stream_is_quoted() -> None:
    with pytest.raises(ModelError, match=r"no event stream.*'hello there'"):
        decode(b"hello there")


STREAM = b"".join([
    b"\xef\xbb\xbf: ping\r\n\r\n", event({"reasoning": "r"}), event({"content": "h\u00e9 \U0001f600"}),
    event(fragment(index=0, id="a", name="f", arguments='{"q":')).replace(b"\n", b"\r\n"),
    event(fragment(index=0, arguments='"\\n"}')), event({}, "tool_calls"),
    event(None, usage={"prompt_tokens": 3, "completion_tokens": 4}), DONE,
])  # fmt: skip


@given(st.lists(st.integers(1, len(STREAM) - 1), max_size=20))
def test_any_portions_give_the_same_deltas(cuts: list[int]) -> None:
    places = sorted({0, len(STREAM), *cuts})
    portions = [STREAM[start:end] for start, end in pairwise(places)]
    assert decode(*portions) == decode(STREAM) == [
        ThinkingPart("r"), TextPart("h\u00e9 \U0001f600"), ToolCallPart(0, "a", "f", '{"q":'),
        ToolCallPart(0, "", "", '"\\n"}'), UsagePart(3, 4), ReplyEnd("tool_calls"),
    ]  # fmt: skip


@given(st.binary(max_size=200))
def test_any_bytes_give_deltas_or_a_model_error(stream: bytes) -> None:
    for wrapped in (stream, b"data: " + stream + b"\n\n"):
        try:
            assert isinstance(decode(wrapped)[-1], ReplyEnd)
        except ModelError:
            continue


def whole(value: Any) -> list[Delta]:
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return decode_completion(WHERE, 200, "application/json", body)


def test_a_whole_reply_becomes_deltas() -> None:
    calls = [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    message = {"role": "assistant", "content": "t", "reasoning_content": "r", "tool_calls": calls}
    usage = {"prompt_tokens": 1, "completion_tokens": 2}
    assert whole({"choices": [{"message": message, "finish_reason": "tool_calls"}], "usage": usage}) == [
        ThinkingPart("r"), TextPart("t"), ToolCallPart(0, "a", "f", "{}"), UsagePart(1, 2), ReplyEnd("tool_calls"),
    ]  # fmt: skip


def test_a_whole_reply_without_a_finish_reason_or_usage_is_whole() -> None:
    assert whole({"choices": [{"message": {"content": "t"}}]}) == [TextPart("t"), ReplyEnd("stop")]


@pytest.mark.parametrize(
    ("body", "words", "retryable"),
    [
        (b"", "not JSON", False),
        (b"<html><b>Login</b></html>", "not JSON.*'Login'", False),
        (b"{}", "without choices", False),
        (b'{"choices": []}', "without choices", False),
        (b'{"choices": 5}', "no reply", False),
        (b'{"error": {"message": "busy", "code": 503}}', "busy", True),
        (b'{"object": "error", "message": "busy"}', "busy", True),
    ],
)
def test_what_is_no_whole_reply_is_a_model_error(body: bytes, words: str, retryable: bool) -> None:
    with pytest.raises(ModelError, match=words) as caught:
        whole(body)
    assert caught.value.retryable is retryable
