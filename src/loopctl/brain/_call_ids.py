"""The ids of tool calls: every call of a conversation has one of its own.

Rule: a renaming depends on the reply and the taken ids alone, so that a replay renames in the same way.

Source: small servers leave ids empty or begin at `call_0` in every reply, while larger ones reject a conversation in
which two calls share an id.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Set as AbstractSet
from dataclasses import replace
from itertools import count

from loopctl.messages import AssistantMessage, Block, Message, ToolCall

__all__ = ["ids_of", "with_unique_ids"]


def ids_of(messages: Iterable[Message]) -> frozenset[str]:
    """Collect the ids of all tool calls in *messages*."""
    return frozenset(
        call.id for message in messages if isinstance(message, AssistantMessage) for call in message.tool_calls
    )


def with_unique_ids(reply: AssistantMessage, taken: AbstractSet[str]) -> AssistantMessage:
    """Rename the calls of *reply* whose id is empty, taken, or used before in the same reply.

    Args:
        reply: What a model sent.
        taken: The ids that the conversation has already: `Brain.call_ids`.

    Returns:
        *reply* itself if nothing had to be renamed. An id that is good is never changed, and never given to
        another call.
    """
    if not reply.tool_calls:
        return reply
    unavailable = {*taken, "", *(call.id for call in reply.tool_calls)}
    kept: set[str] = {*taken, ""}
    numbers: defaultdict[str, Iterator[int]] = defaultdict(count)
    blocks: list[Block] = []
    for block in reply.blocks:
        if not isinstance(block, ToolCall):
            blocks.append(block)
        elif block.id in kept:
            fresh = _fresh(block.id, numbers[block.id], unavailable)
            unavailable.add(fresh)
            blocks.append(replace(block, id=fresh))
        else:
            kept.add(block.id)
            blocks.append(block)
    return reply if tuple(blocks) == reply.blocks else AssistantMessage(tuple(blocks))


def _fresh(wanted: str, numbers: Iterator[int], unavailable: AbstractSet[str]) -> str:
    """Give the next free name; *numbers* goes on where the last call for the same id stopped."""
    stem, first = (wanted, 2) if wanted else ("call", 1)
    return next(name for name in (f"{stem}_{first + number}" for number in numbers) if name not in unavailable)
