"""What a prompt's blocks say as one text: the model takes no other input.

Rule: what cannot be said as text is refused with words, never dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from acp import RequestError
from acp.schema import (
    AudioContentBlock,
    EmbeddedResourceContentBlock,
    ImageContentBlock,
    ResourceContentBlock,
    TextContentBlock,
    TextResourceContents,
)

__all__ = ["ContentBlock", "text_of"]

ContentBlock: TypeAlias = (
    TextContentBlock | ImageContentBlock | AudioContentBlock | ResourceContentBlock | EmbeddedResourceContentBlock
)


def text_of(blocks: Sequence[ContentBlock]) -> str:
    """Give the text of a prompt.

    Raises:
        RequestError: A block is an image, a sound or a binary file, or nothing is said at all.
    """
    parts = [_text(block) for block in blocks]
    text = "".join(parts)
    if not text.strip():
        raise RequestError.invalid_params({"details": "the prompt is empty"})
    return text


def _text(block: ContentBlock) -> str:
    match block:
        case TextContentBlock():
            return block.text
        case ResourceContentBlock():
            return f"[{block.name}]({block.uri})"
        case EmbeddedResourceContentBlock(resource=TextResourceContents() as resource):
            return f'\n<file uri="{resource.uri}">\n{resource.text}\n</file>\n'
    raise RequestError.invalid_params({"details": f"a prompt may hold text and links, not {block.type}"})
