"""The tools that a middleware is for."""

from __future__ import annotations

from collections.abc import Collection

from loopctl.errors import UsageError

__all__ = ["check_names"]


def check_names(who: str, tools: Collection[str] | None) -> frozenset[str] | None:
    """Give the names; None for all tools.

    Raises:
        UsageError: They are none; the text names *who*.
    """
    if tools is None:
        return None
    given: object = tools
    if isinstance(given, str) or not isinstance(given, Collection) or not all(isinstance(name, str) for name in tools):
        raise UsageError(f"{who}(tools=…) takes a collection of names, for instance [{str(tools)!r}], not {tools!r}")
    return frozenset(tools)
