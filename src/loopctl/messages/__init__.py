"""The conversation as data: blocks, messages, usage, the JSON codec, and what makes a conversation well-formed.

Rules: everything here is frozen and does nothing by itself; `find_problems` is the one authority on whether a
provider would accept a conversation.
"""

from loopctl.messages._blocks import Block, Text, Thinking, ToolCall, ToolResult
from loopctl.messages._codec import history_from_json, history_to_json, message_from_json, message_to_json
from loopctl.messages._history import find_problems
from loopctl.messages._messages import AssistantMessage, Message, ToolMessage, UserMessage
from loopctl.messages._usage import Usage

__all__ = [
    "AssistantMessage",
    "Block",
    "Message",
    "Text",
    "Thinking",
    "ToolCall",
    "ToolMessage",
    "ToolResult",
    "Usage",
    "UserMessage",
    "find_problems",
    "history_from_json",
    "history_to_json",
    "message_from_json",
    "message_to_json",
]
