"""One run's events as those of the AG-UI protocol.

Rules:

1. At most one message, of text or of reasoning, is open at a time; whatever follows it closes it.
2. What the protocol has no word for is a CUSTOM event `loopctl.<class>`, whose value is `event_to_json` of it.
3. The last event is RUN_FINISHED (success or cancelled) or RUN_ERROR, after the CUSTOM event of `RunEnded`.
4. What leaves is ASCII: a text with half a surrogate pair in it breaks nobody.

Source: ag-ui-protocol 1.0.
"""

from __future__ import annotations

import json
from typing import Any, Literal, TypeAlias

from ag_ui.core import EventType, RunFinishedCancelledOutcome, RunFinishedSuccessOutcome

from loopctl.concurrency import epoch
from loopctl.record import (
    ApprovalEnded,
    ApprovalRequested,
    Event,
    Run,
    RunEnded,
    RunStarted,
    TextDelta,
    ThinkingDelta,
    ToolCallRecord,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    event_to_json,
)

__all__ = ["PREFIX", "Encoder", "JsonObject", "events_missed", "to_line"]

JsonObject: TypeAlias = dict[str, Any]

PREFIX = "loopctl."
"""What the names of our own events begin with."""
_SUCCESS = RunFinishedSuccessOutcome().model_dump(by_alias=True)
_CANCELLED = RunFinishedCancelledOutcome().model_dump(by_alias=True)


class Encoder:
    """Says what a run tells in the words of the protocol."""

    def __init__(self, thread_id: str, client_run_id: str) -> None:
        """Speak of the run *client_run_id* of the conversation *thread_id*: the client's own names."""
        self._ids = {"threadId": thread_id, "runId": client_run_id}
        self._run_id = ""
        self._open: Literal["text", "reasoning"] | None = None
        self._number = 0

    def encode(self, event: Event) -> list[JsonObject]:
        """Give what the client is told of *event*, in order."""
        match event:
            case TextDelta():
                return self._say("text", event.text)
            case ThinkingDelta():
                return self._say("reasoning", event.text)
            case ToolProgress() | ApprovalRequested() | ApprovalEnded():
                return [_custom(event)]
        return [*self._close(), *self._whole(event)]

    def _whole(self, event: Event) -> list[JsonObject]:
        match event:
            case RunStarted():
                self._run_id = event.run_id
                started = _event(EventType.RUN_STARTED, **self._ids)
                return [started, _custom(event)]
            case ToolStarted():
                return [*_call(event.call), _custom(event)]
            case ToolFinished():
                return [self._result(event.call), _custom(event)]
            case RunEnded():
                report = _custom(event)
                report["value"]["run"]["session_id"] = self._ids["threadId"]  # ours may name the owner too
                return [report, self._end(event.run)]
        return [_custom(event)]

    def _say(self, what: Literal["text", "reasoning"], text: str) -> list[JsonObject]:
        if not text:  # the protocol forbids it
            return []
        begun: list[JsonObject] = []
        if self._open != what:
            begun = self._close()
            self._open = what
            self._number += 1
            begun += self._begin(what)
        kind = EventType.TEXT_MESSAGE_CONTENT if what == "text" else EventType.REASONING_MESSAGE_CONTENT
        return [*begun, _event(kind, messageId=self._message_id, delta=text)]

    def _begin(self, what: Literal["text", "reasoning"]) -> list[JsonObject]:
        if what == "text":
            return [_event(EventType.TEXT_MESSAGE_START, messageId=self._message_id, role="assistant")]
        return [
            _event(EventType.REASONING_START, messageId=self._message_id),
            _event(EventType.REASONING_MESSAGE_START, messageId=self._message_id, role="reasoning"),
        ]

    def _close(self) -> list[JsonObject]:
        was, self._open = self._open, None
        if was is None:
            return []
        if was == "text":
            return [_event(EventType.TEXT_MESSAGE_END, messageId=self._message_id)]
        return [
            _event(EventType.REASONING_MESSAGE_END, messageId=self._message_id),
            _event(EventType.REASONING_END, messageId=self._message_id),
        ]

    @property
    def _message_id(self) -> str:
        return f"{self._run_id}-{self._number}"

    def _result(self, call: ToolCallRecord) -> JsonObject:
        self._number += 1
        return _event(
            EventType.TOOL_CALL_RESULT,
            messageId=self._message_id,
            toolCallId=call.id,
            content=call.text,
            role="tool",
        )

    def _end(self, run: Run) -> JsonObject:
        match run.outcome:
            case "completed":
                return _event(EventType.RUN_FINISHED, **self._ids, outcome=_SUCCESS)
            case "cancelled":
                return _event(EventType.RUN_FINISHED, **self._ids, outcome=_CANCELLED)
        return _event(EventType.RUN_ERROR, message=str(run.error), code=run.outcome)


def events_missed(count: int) -> JsonObject:
    """Tell a client that its stream ends because it fell behind; the protocol has no gentler word."""
    text = f"this stream fell behind: {count} events are no longer kept. The run goes on; ask for its record"
    return _event(EventType.RUN_ERROR, message=text, code="events_missed")


def to_line(number: int | None, event: JsonObject) -> bytes:
    """Give *event* as one event of a stream, with its number if it has one."""
    data = json.dumps(event, default=str, separators=(",", ":"))
    head = "" if number is None else f"id: {number}\n"
    return f"{head}data: {data}\n\n".encode("ascii")


def _call(call: ToolCallRecord) -> list[JsonObject]:
    arguments = json.dumps(dict(call.arguments), default=str)
    return [
        _event(EventType.TOOL_CALL_START, toolCallId=call.id, toolCallName=call.name),
        _event(EventType.TOOL_CALL_ARGS, toolCallId=call.id, delta=arguments),
        _event(EventType.TOOL_CALL_END, toolCallId=call.id),
    ]


def _custom(event: Event) -> JsonObject:
    return _event(EventType.CUSTOM, name=PREFIX + type(event).__name__, value=event_to_json(event))


def _event(kind: EventType, **fields: Any) -> JsonObject:
    return {"type": kind.value, "timestamp": int(epoch() * 1000), **fields}
