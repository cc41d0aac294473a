"""Files as text: what is text, how much of it is given to a model, and which line ends it has.

Rules: a text is UTF-8 without zeros; everything else is refused with words, never shown in part.
"""

from __future__ import annotations

from typing import BinaryIO

from loopctl.errors import ToolError
from loopctl.tools import ToolContext

__all__ = ["LARGEST", "SHOWN", "read_text", "shorten", "to_text"]

LARGEST = 10_000_000
"""Bytes of the largest file that is read whole."""
SHOWN = 50_000
"""Characters that one call gives to the model, at most."""
_PORTION = 1 << 18


def read_text(file: BinaryIO, shown: str, ctx: ToolContext) -> str:
    """Read all of *file*, with its line ends as they are; a stop ends it between two portions.

    Raises:
        ToolError: It is too large, or no text.
        Cancelled: The call was asked to stop.
    """
    portions: list[bytes] = []
    size = 0
    while portion := file.read(_PORTION):
        ctx.signal.raise_if_cancelled()
        size += len(portion)
        if size > LARGEST:
            raise ToolError(
                f"{shown} is larger than {LARGEST:,} bytes: too large for this tool. run_command can cut it."
            )
        portions.append(portion)
    return to_text(b"".join(portions), shown)


def to_text(content: bytes, shown: str) -> str:
    """Decode *content*.

    Raises:
        ToolError: It is no text.
    """
    if b"\0" not in content:
        try:
            return content.decode()
        except UnicodeDecodeError:
            pass
    raise ToolError(f"{shown} is not UTF-8 text ({len(content):,} bytes). These tools read and edit text only.")


def shorten(text: str, limit: int = SHOWN) -> str:
    """Cut *text* after *limit* characters, and say so."""
    return text if len(text) <= limit else f"{text[:limit]}\n[… {len(text) - limit:,} characters left out …]"
