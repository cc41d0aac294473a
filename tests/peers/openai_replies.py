"""Owns the scripts of the OpenAI-compatible test server: what it answers, as data, and the JSON it sends for that.

Rules: a `Reply` is frozen and may be used for any number of requests; the functions below name the usual ones. For
a streaming request each of `deltas` is one event, for another one they are joined into one `chat.completion`.
"""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

__all__ = [
    "Reply",
    "burst",
    "calls",
    "dropped",
    "endless",
    "error",
    "html",
    "never",
    "not_json",
    "prepared",
    "raw",
    "raw_stream",
    "stalled",
    "text",
    "truncated",
    "words",
]

_ids = itertools.count(1)


@dataclass(frozen=True)
class Reply:
    """One scripted answer. The first request of a kind of trouble that applies wins: never, body, then the deltas."""

    deltas: Sequence[Mapping[str, Any]] = ()
    finish_reason: str | None = "stop"
    usage: tuple[int, int] | None = (11, 7)
    """Prompt and completion tokens; sent in a stream only if the request has `include_usage`. None: never sent."""
    delay: float = 0.0
    """Seconds before each event."""
    gate: threading.Event | None = None
    """If set, nothing from event number `gate_at` on is sent before this event is set."""
    gate_at: int = 0
    stall_at: int | None = None
    """Send this many events, then nothing more, with the connection open."""
    drop_at: int | None = None
    """Send this many events, then half of the next one, then close the connection."""
    is_endless: bool = False
    """Repeat the deltas for ever."""
    is_one_write: bool = False
    """Send the whole stream in one write."""
    is_done_sent: bool = True
    is_never: bool = False
    """Take the request and answer nothing, not even a status."""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    """Sent as it is, for streaming requests too."""
    pieces: tuple[bytes, ...] | None = None
    """Sent as the stream's bytes, one HTTP chunk each, instead of the deltas."""
    content_type: str = "application/json"

    def but(self, **changes: Any) -> Reply:
        """Give the same reply with other fields."""
        return replace(self, **changes)


def text(*pieces: str, thinking: Sequence[str] = (), **options: Any) -> Reply:
    """Answer *pieces*, one event each, after the pieces of *thinking*."""
    deltas = [{"reasoning_content": piece} for piece in thinking] + [{"content": piece} for piece in pieces]
    return Reply(deltas, **options)


def words(count: int, **options: Any) -> Reply:
    """Answer `word0 word1 …`, one event each."""
    return text(*(f"word{number} " for number in range(count)), **options)


def calls(*wanted: tuple[str, Mapping[str, Any] | str], before: Sequence[str] = (), **options: Any) -> Reply:
    """Ask for tools: pairs of a name and arguments (an object, or raw text), each streamed in four fragments."""
    deltas: list[dict[str, Any]] = [{"content": piece} for piece in before]
    for index, (name, arguments) in enumerate(wanted):
        raw_arguments = arguments if isinstance(arguments, str) else json.dumps(arguments)
        head = {"index": index, "id": f"call_{next(_ids)}", "type": "function"}
        deltas.append({"tool_calls": [{**head, "function": {"name": name, "arguments": ""}}]})
        size = max(1, -(-len(raw_arguments) // 3))
        for start in range(0, len(raw_arguments), size):
            fragment = {"index": index, "function": {"arguments": raw_arguments[start : start + size]}}
            deltas.append({"tool_calls": [fragment]})
    return Reply(deltas, finish_reason="tool_calls", **options)


def never() -> Reply:
    """Never answer."""
    return Reply(is_never=True)


def stalled(after: int, **options: Any) -> Reply:
    """Send *after* words of a longer answer, then nothing more."""
    return words(after + 5, stall_at=after, **options)


def truncated(after: int = 2, **options: Any) -> Reply:
    """End the stream properly for HTTP, but without `finish_reason` and without `[DONE]`."""
    return words(after, finish_reason=None, is_done_sent=False, usage=None, **options)


def dropped(after: int = 2, **options: Any) -> Reply:
    """Close the connection in the middle of an event."""
    return words(after + 5, drop_at=after, **options)


def burst(count: int = 2000) -> Reply:
    """Send *count* words in one write."""
    return words(count, is_one_write=True)


def prepared(reply: Reply, model: str = "bench") -> Reply:
    """Give a streamed *reply* as bytes made beforehand, so that a benchmark measures its reader."""
    events = [event_bytes(model, delta) for delta in reply.deltas]
    return raw_stream(b"".join(events + closing_bytes(reply, model, is_usage_wanted=True)))


def endless(delay: float = 0.002) -> Reply:
    """Say `token ` for ever, every *delay* seconds."""
    return text("token ", is_endless=True, delay=delay)


def error(status: int, message: str = "", *, retry_after: str | None = None, kind: str = "server_error") -> Reply:
    """Refuse with *status* and OpenAI's error body."""
    body = {"error": {"message": message or f"scripted {status}", "type": kind, "param": None, "code": None}}
    headers = {} if retry_after is None else {"Retry-After": retry_after}
    return Reply(status=status, headers=headers, body=json.dumps(body).encode())


def not_json(status: int = 200) -> Reply:
    """Answer text that is not JSON."""
    return Reply(status=status, body=b"upstream said hello", content_type="text/plain")


def html(status: int = 502) -> Reply:
    """Answer a proxy's error page."""
    page = b"<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>"
    return Reply(status=status, body=page, content_type="text/html")


def raw(body: bytes, status: int = 200, content_type: str = "application/json", **headers: str) -> Reply:
    """Answer *body* as it is."""
    return Reply(status=status, body=body, content_type=content_type, headers=headers)


def raw_stream(*pieces: bytes, **options: Any) -> Reply:
    """Stream *pieces*, one HTTP chunk each."""
    return Reply(pieces=pieces, **options)


def event_bytes(model: str, delta: Mapping[str, Any], finish_reason: str | None = None) -> bytes:
    """Give one event of a stream as OpenAI sends it."""
    choice = {"index": 0, "delta": {"role": "assistant", **delta}, "logprobs": None, "finish_reason": finish_reason}
    return _sse(_envelope("chat.completion.chunk", model) | {"choices": [choice]})


def closing_bytes(reply: Reply, model: str, *, is_usage_wanted: bool) -> list[bytes]:
    """Give the events after the deltas: the finish reason, the usage, `[DONE]`."""
    events = []
    if reply.finish_reason is not None:
        events.append(event_bytes(model, {}, reply.finish_reason))
    if is_usage_wanted and reply.usage is not None:
        events.append(_sse(_envelope("chat.completion.chunk", model) | {"choices": [], "usage": _usage(reply.usage)}))
    if reply.is_done_sent:
        events.append(b"data: [DONE]\n\n")
    return events


def completion_bytes(reply: Reply, model: str) -> bytes:
    """Give the whole reply as one `chat.completion`."""
    content = "".join(delta.get("content") or "" for delta in reply.deltas)
    thinking = "".join(delta.get("reasoning_content") or "" for delta in reply.deltas)
    joined: dict[int, dict[str, Any]] = {}
    for fragment in itertools.chain.from_iterable(delta.get("tool_calls", ()) for delta in reply.deltas):
        if "id" in fragment:
            joined[fragment["index"]] = {"id": fragment["id"], "type": "function", "function": fragment["function"]}
        else:
            function = joined[fragment["index"]]["function"]
            more = function["arguments"] + fragment["function"]["arguments"]
            joined[fragment["index"]]["function"] = {**function, "arguments": more}
    message: dict[str, Any] = {"role": "assistant", "content": content or None}
    message |= {"reasoning_content": thinking} if thinking else {}
    message |= {"tool_calls": list(joined.values())} if joined else {}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reply.finish_reason}
    usage = {} if reply.usage is None else {"usage": _usage(reply.usage)}
    return json.dumps(_envelope("chat.completion", model) | {"choices": [choice]} | usage).encode()


def _envelope(kind: str, model: str) -> dict[str, Any]:
    return {"id": "chatcmpl-test", "object": kind, "created": 1_700_000_000, "model": model}


def _usage(counts: tuple[int, int]) -> dict[str, int]:
    return {"prompt_tokens": counts[0], "completion_tokens": counts[1], "total_tokens": sum(counts)}


def _sse(value: Mapping[str, Any]) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"
