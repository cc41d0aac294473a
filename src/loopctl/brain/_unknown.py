"""What the model is told when it calls a tool that does not exist.

Rules: a name is suggested only if it is much like the one that was called; the list of names stays short whatever the
number of tools, and then holds those that are the most alike. The same call gives the same text, always.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from difflib import get_close_matches

__all__ = ["other_names"]

_LISTED = 40
"""Names in one text: a few hundred tokens, and an agent with more tools is given those that may have been meant."""
_COMPARED = 64
"""Characters of a name that are compared: the longest that providers allow; a longer one was never a tool's."""


def other_names(called: str, tools: AbstractSet[str]) -> str:
    """Name the tools that *called* may have meant, and those that exist.

    Args:
        called: A name that is not one of *tools*.
        tools: The names of the tools that exist.
    """
    if not tools:
        return "There are none: answer in text."
    meant = _alike(called, tools, 1, cutoff=0.6)
    hint = f"Did you mean {meant[0]!r}? " if meant else ""
    if len(tools) <= _LISTED:
        return f"{hint}The tools that exist are: {', '.join(sorted(tools))}."
    listed = sorted(_alike(called, tools, _LISTED, cutoff=0))
    return f"{hint}{len(tools)} tools exist; those with a similar name are: {', '.join(listed)}."


def _alike(called: str, tools: AbstractSet[str], most: int, *, cutoff: float) -> list[str]:
    """Give the names that are most like *called*, best first; case and a prefix like `functions.` do not count."""
    by_form: dict[str, list[str]] = {}
    for name in sorted(tools):
        by_form.setdefault(name[:_COMPARED].casefold(), []).append(name)
    form = called.rpartition(".")[2][:_COMPARED].casefold()
    forms = get_close_matches(form, by_form, most, cutoff)
    return [name for close in forms for name in by_form[close]][:most]
