"""Foreign text in a line of ours: one line, of a bounded length."""

from __future__ import annotations

__all__ = ["one_line"]

_LONGEST = 300
"""Characters of foreign text in a line of ours."""


def one_line(text: str) -> str:
    """Put *text* on one line, cut to a length that a log bears: a model or a server wrote it."""
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
