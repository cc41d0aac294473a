"""The tools of an agent, by name.

Invariant: names are unique, because a name is all that a model's call carries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from loopctl.errors import UsageError
from loopctl.model import ToolSpec
from loopctl.tools._decorator import tool
from loopctl.tools._tool import Tool

__all__ = ["ToolRegistry"]


class ToolRegistry:
    """Tools by name, in the order they were given."""

    def __init__(self, tools: Iterable[Tool[..., Any] | Callable[..., Any]] = ()) -> None:
        """Take *tools*; a plain function among them is made a tool.

        Raises:
            UsageError: Two have the same name, or something cannot be a tool.
        """
        self._tools: dict[str, Tool[..., Any]] = {}
        for given in tools:
            made = given if isinstance(given, Tool) else tool(given)
            if made.name in self._tools:
                raise UsageError(
                    f"two tools are named {made.name}: {_where(self._tools[made.name])} and {_where(made)}."
                    " Give one another name: @tool(name=…)."
                )
            self._tools[made.name] = made

    @property
    def names(self) -> frozenset[str]:
        """The names that a model may call."""
        return frozenset(self._tools)

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """What a model is shown."""
        return tuple(made.spec for made in self._tools.values())

    def get(self, name: str) -> Tool[..., Any] | None:
        """Give the tool called *name*, or None."""
        return self._tools.get(name)

    def __iter__(self) -> Iterator[Tool[..., Any]]:
        """Give the tools in the order they were given."""
        return iter(self._tools.values())

    def __len__(self) -> int:
        """Count the tools."""
        return len(self._tools)

    def __repr__(self) -> str:
        """Name the tools."""
        return f"<ToolRegistry {', '.join(self._tools)}>"


def _where(made: Tool[..., Any]) -> str:
    return f"{getattr(made, '__module__', '?')}.{getattr(made, '__qualname__', made.name)}"
