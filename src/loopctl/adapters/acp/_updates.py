"""What a client is told of a run while it goes on: our events as the protocol's updates.

Rules: a `tool_call` is closed by exactly one `tool_call_update` with a last status; the protocol knows no cancelled
call, so one that did not complete is `failed`, and says in words what became of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeAlias

from acp import (
    start_tool_call,
    text_block,
    tool_content,
    update_agent_message_text,
    update_agent_thought_text,
    update_tool_call,
)
from acp.schema import AgentMessageChunk, AgentThoughtChunk, ToolCallProgress, ToolCallStart, ToolKind

from loopctl.record import (
    ApprovalEnded,
    ApprovalRequested,
    AttemptReset,
    CallStatus,
    Event,
    TextDelta,
    ThinkingDelta,
    ToolCallRecord,
    ToolFinished,
    ToolProgress,
    ToolStarted,
)

__all__ = ["Update", "kind_of", "title_of", "tool_call_id", "update_of"]

Update: TypeAlias = AgentMessageChunk | AgentThoughtChunk | ToolCallStart | ToolCallProgress

_KINDS: dict[str, ToolKind] = {
    "read_file": "read",
    "list_dir": "read",
    "search": "search",
    "write_file": "edit",
    "edit_file": "edit",
    "run_command": "execute",
    "fetch_url": "fetch",
}
"""What an editor draws beside the built-in tools; it does not know others."""
_LONGEST_TITLE = 100


def tool_call_id(run_id: str, call_id: str) -> str:
    """Give the id of a call for the client: models give the same ids again in other runs."""
    return f"{run_id}/{call_id}"


def title_of(name: str, arguments: Mapping[str, Any]) -> str:
    """Say in one line what a call does."""
    said = " ".join(
        value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        for value in arguments.values()
    )
    title = " ".join(f"{name} {said}".split())
    return title if len(title) <= _LONGEST_TITLE else f"{title[: _LONGEST_TITLE - 1]}…"


def kind_of(name: str) -> ToolKind:
    """Give the kind of a tool."""
    return _KINDS.get(name, "other")


def update_of(event: Event) -> Update | None:
    """Give the update that tells of *event*, if the client is told of it."""
    match event:
        case TextDelta():
            return update_agent_message_text(event.text)
        case ThinkingDelta():
            return update_agent_thought_text(event.text)
        case AttemptReset():  # what was shown cannot be taken back
            return update_agent_message_text("\n\n(The reply broke off. It begins again.)\n\n")
        case ToolStarted():
            return _started(event.call, event.run_id)
        case ApprovalRequested() | ApprovalEnded() | ToolProgress() | ToolFinished():
            return _went_on(event)
    return None


def _started(call: ToolCallRecord, run_id: str) -> Update:
    return start_tool_call(
        tool_call_id(run_id, call.id),
        title_of(call.name, call.arguments),
        kind=kind_of(call.name),
        status="in_progress",
        raw_input=dict(call.arguments),
    )


def _went_on(event: ApprovalRequested | ApprovalEnded | ToolProgress | ToolFinished) -> Update | None:
    named = tool_call_id(event.run_id, event.id)
    match event:
        case ApprovalRequested():
            return update_tool_call(named, status="pending")
        case ApprovalEnded():
            return update_tool_call(named, status="in_progress") if event.answer == "allowed" else None
        case ToolProgress():
            share = "" if event.fraction is None else f"{event.fraction:.0%}"
            return update_tool_call(named, content=[tool_content(text_block(f"{event.message} {share}".strip()))])
        case ToolFinished():
            return _finished(named, event.call)


def _finished(named: str, call: ToolCallRecord) -> Update:
    text = call.text
    return update_tool_call(
        named,
        status="completed" if call.status is CallStatus.COMPLETED else "failed",
        content=[tool_content(text_block(text))] if text else None,
    )
