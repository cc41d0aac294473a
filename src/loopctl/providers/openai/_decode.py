"""Owns the reply: the JSON of a chat completion, whole or streamed, as deltas.

Rules: no I/O. A stream's reply is whole when a `finish_reason` or `[DONE]` has come; only then a `ReplyEnd` is given.
Only the fields that are used are decoded, straight from the bytes into structs: this is the hot path of every token.
Only the first choice counts.

Source: OpenAI API reference, "Chat completion object" and "Chat completion chunk object"; the deviations of compatible
servers that are accepted here are named where they are.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec

from loopctl.model import Delta, ReplyEnd, StopReason, TextPart, ThinkingPart, ToolCallPart, UsagePart
from loopctl.providers._sse import SseDecoder
from loopctl.providers.openai import _errors
from loopctl.providers.openai._errors import Where
from loopctl.providers.openai._text import without_lone_surrogates

__all__ = ["StreamDecoder", "decode_completion"]

_STOP_REASONS: dict[str, StopReason] = {
    "stop": "stop",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "content_filter": "content_filter",
}


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: Any = None  # JSON text; some servers send the object itself


class _Call(msgspec.Struct):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Message(msgspec.Struct):
    content: str | list[Any] | None = None  # a list of parts from Mistral's reasoning models
    reasoning_content: str | None = None  # DeepSeek, vLLM, llama.cpp
    reasoning: str | None = None  # OpenRouter, Ollama
    refusal: str | None = None
    tool_calls: list[_Call] | None = None


class _Choice(msgspec.Struct):
    delta: _Message | None = None
    message: _Message | None = None
    finish_reason: str | None = None
    index: int = 0


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class _Completion(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    error: Any = None
    message: Any = None  # older vLLM: an error without a wrapping object


_EVENT_STARTS = (b"data", b"event", b"id", b"retry", b":", b"\xef\xbb\xbf", b"\r", b"\n")
_decoder = msgspec.json.Decoder(_Completion)


class StreamDecoder:
    """Turns the bytes of one stream into deltas, wherever they are cut."""

    __slots__ = ("_calls", "_content_type", "_events", "_first", "_is_ended", "_sse", "_stop_reason", "_where")

    def __init__(self, where: Where, content_type: str = "text/event-stream") -> None:
        self._where = where
        self._content_type = content_type
        self._sse = SseDecoder()
        self._calls = _Calls()
        self._first = b""
        self._events = 0
        self._stop_reason: StopReason | None = None
        self._is_ended = False

    @property
    def is_whole(self) -> bool:
        """The reply is whole, whatever the connection does now."""
        return self._is_ended or self._stop_reason is not None

    @property
    def received(self) -> str:
        """How far it came, for an error."""
        return f"after {self._events} events" if self._events else "before its first event"

    def feed(self, portion: bytes) -> Iterator[Delta]:
        """Give what the next *portion* of the stream completes.

        Raises:
            ModelError: The server reported an error, or sent something that is not part of a reply.
        """
        self._first = self._first or portion
        for payload in self._sse.feed(portion):
            if self._is_ended:
                return
            yield from self._payload(payload)

    def end(self) -> Iterator[Delta]:
        """Give the end of the reply, if it was not given yet.

        Raises:
            ModelError: The reply is not whole.
        """
        for payload in self._sse.end():  # without its last empty line it may have been cut off
            if not self._is_ended and (payload == b"[DONE]" or _is_json(payload)):
                yield from self._payload(payload)
        if self._is_ended:
            return
        if self._stop_reason is None:
            if self._first and not self._first.startswith(_EVENT_STARTS):
                raise _errors.unreadable(self._where, 200, self._content_type, self._first, "no event stream")
            raise _errors.truncated(self._where, received=self.received)
        self._is_ended = True
        yield ReplyEnd(self._stop_reason)

    def _payload(self, payload: bytes) -> list[Delta]:
        if payload != b"[DONE]":
            return self._event(_decode(self._where, payload))
        self._is_ended = True
        return [ReplyEnd(self._stop_reason or ("tool_calls" if self._calls else "stop"))]

    def _event(self, event: _Completion) -> list[Delta]:
        self._events += 1
        deltas: list[Delta] = []
        if event.error is not None:
            raise _errors.in_stream(self._where, event.error)
        if event.choices:
            choice = event.choices[0]
            message = choice.delta or choice.message
            if choice.index == 0 and message is not None:
                deltas = _parts(message, self._calls)
            if choice.finish_reason is not None:
                self._stop_reason = _STOP_REASONS.get(choice.finish_reason, "other")
        elif event.message is not None:
            raise _errors.in_stream(self._where, event.message)
        if event.usage is not None:
            deltas.append(UsagePart(event.usage.prompt_tokens, event.usage.completion_tokens))
        return deltas


class _Calls:
    """Numbers the calls of a reply.

    Needed because compatible servers leave the index out, or give every call the index 0 (Gemini's): a fragment
    with a name and an id that is not the call's own begins another call.
    """

    __slots__ = ("_by_index", "_ids")

    def __init__(self) -> None:
        self._ids: list[str] = []
        self._by_index: dict[int | None, int] = {}

    def __len__(self) -> int:
        return len(self._ids)

    def part(self, call: _Call) -> ToolCallPart:
        function = call.function or _Function()
        name, call_id, arguments = function.name or "", call.id or "", function.arguments
        if arguments is not None and not isinstance(arguments, str):
            arguments = msgspec.json.encode(arguments).decode()
        return ToolCallPart(self._place(call.index, call_id, name), call_id, name, arguments or "")

    def _place(self, index: int | None, call_id: str, name: str) -> int:
        place = self._by_index.get(index)
        if place is None or (name and self._is_other(place, index, call_id)):
            place = self._by_index[index] = len(self._ids)
            self._ids.append(call_id)
        elif not self._ids[place]:
            self._ids[place] = call_id
        return place

    def _is_other(self, place: int, index: int | None, call_id: str) -> bool:
        if not call_id:
            return index is None
        return self._ids[place] not in {"", call_id}


def decode_completion(where: Where, status: int, content_type: str, body: bytes) -> list[Delta]:
    """Give the deltas of a reply that came whole.

    Raises:
        ModelError: It is not a chat completion, or an error in the place of one.
    """
    try:
        completion = _decoder.decode(body)
    except msgspec.DecodeError as error:
        if not _is_json(body):
            raise _errors.unreadable(where, status, content_type, body) from error
        completion = _decode(where, body)
    if not completion.choices:
        if completion.error is not None or completion.message is not None:
            raise _errors.in_stream(where, completion.error or completion.message)
        raise _errors.unreadable(where, status, content_type, body, "a reply without choices")
    choice, calls = completion.choices[0], _Calls()
    deltas = _parts(choice.message or choice.delta or _Message(), calls)
    if completion.usage is not None:
        deltas.append(UsagePart(completion.usage.prompt_tokens, completion.usage.completion_tokens))
    default = "tool_calls" if calls else "stop"
    deltas.append(ReplyEnd(_STOP_REASONS.get(choice.finish_reason or default, "other")))
    return deltas


def _parts(message: _Message, calls: _Calls) -> list[Delta]:
    deltas: list[Delta] = []
    if thinking := message.reasoning_content or message.reasoning:
        deltas.append(ThinkingPart(thinking))
    if isinstance(message.content, list):
        deltas += _listed(message.content)
    elif message.content:
        deltas.append(TextPart(message.content))
    if message.refusal:
        deltas.append(TextPart(message.refusal))
    if message.tool_calls:
        deltas += map(calls.part, message.tool_calls)
    return deltas


def _listed(parts: list[Any]) -> Iterator[Delta]:
    for part in parts:
        match part:
            case {"type": "text", "text": str(text)} if text:
                yield TextPart(text)
            case {"type": "thinking", "thinking": list(inner)}:
                yield from (ThinkingPart(delta.text) for delta in _listed(inner) if isinstance(delta, TextPart))


def _decode(where: Where, payload: bytes) -> _Completion:
    try:
        return _decoder.decode(payload)
    except msgspec.DecodeError as error:
        try:
            return _decoder.decode(_repaired(payload))
        except ValueError:
            raise _errors.unreadable(where, 200, "text/event-stream", payload, f"no reply ({error})") from error


def _repaired(payload: bytes) -> bytes:
    """Make strict JSON of what servers written in Python let through: NaN, halves of surrogate pairs, bad UTF-8."""
    value = json.loads(payload.decode("utf-8", "replace"), parse_constant=lambda _: None)
    return without_lone_surrogates(json.dumps(value, ensure_ascii=False)).encode()


def _is_json(payload: bytes) -> bool:
    try:
        json.loads(payload)
    except ValueError:
        return False
    return True
