"""Text for a model: every provider can encode it, and a quoted value stays short."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["encodable", "shorten"]

_QUOTED = 80
"""Characters of a quoted value, at most."""


def encodable(text: str) -> str:
    """Give *text* with each lone surrogate replaced by U+FFFD.

    Such code points come from undecodable file names and from broken JSON escapes, and no provider can encode them.
    """
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def shorten(value: Any) -> str:
    """Quote *value* as JSON, cut after a line's worth of it."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=repr)
    except (TypeError, ValueError, RecursionError):
        text = f"a value of type {type(value).__name__}"
    if len(text) > _QUOTED:
        text = f"{text[: _QUOTED - 20]}… ({len(text)} characters)"
    return encodable(text)
