"""Owns the mending of text that UTF-8 has no form for."""

from __future__ import annotations

__all__ = ["without_lone_surrogates"]


def without_lone_surrogates(text: str) -> str:
    """Give *text* with each half of a surrogate pair replaced by U+FFFD, and each whole pair joined."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
