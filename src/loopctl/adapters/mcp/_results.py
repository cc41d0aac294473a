"""What a server answered, as the text that the model is given."""

from __future__ import annotations

import json

import mcp_types as types

__all__ = ["text_of"]


def text_of(result: types.CallToolResult) -> str:
    """Give the text of *result*: its texts as they are; what is no text is named; else its structure, as JSON."""
    if not result.content and result.structured_content is not None:
        return json.dumps(result.structured_content, ensure_ascii=False, separators=(",", ":"))
    return "\n".join(map(_text, result.content))


def _text(block: types.ContentBlock) -> str:
    match block:
        case types.TextContent(text=text) | types.EmbeddedResource(resource=types.TextResourceContents(text=text)):
            return text
        case types.ImageContent(mime_type=kind, data=data) | types.AudioContent(mime_type=kind, data=data):
            return f"[{kind}, {len(data) * 3 // 4} bytes, which cannot be shown here]"
        case types.ResourceLink(uri=uri, name=name):
            return f"[{name}: {uri}]"
        case types.EmbeddedResource(resource=resource):
            return f"[{resource.uri}, not a text]"
