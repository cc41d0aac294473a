"""The tools of an agent, by name.

Invariant: names are unique, because a name is all that a model's call carries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from loopctl.errors import UsageError
from loopctl.model import ToolSpec
from loopctl.tools._decorator import tool
from loopctl.tools._tool import Tool

__all__ = ["ToolRegistry"]


class ToolRegistry(Mapping[str, Tool]):
    """Tools by name, in the order they were given."""

    def __init__(self, tools: Iterable[Tool | Callable[..., Any]] = ()) -> None:
        """Take *tools*; a plain function among them is made a tool.

        Raises:
            UsageError: Two have the same name, or something cannot be a tool.
        """
        self._tools: dict[str, Tool] = {}
        given_as: object = tools
        if isinstance(given_as, str) or not isinstance(given_as, Iterable):
            raise UsageError(f"tools= takes a list of tools, not {given_as!r}: write tools=[…]")
        for given in tools:
            made = given if isinstance(given, Tool) else tool(given)
            if made.name in self._tools:
                raise UsageError(
                    f"two tools are named {made.name}: {_where(self._tools[made.name])} and {_where(made)}."
                    " Give one another name: @tool(name=…)."
                )
            self._tools[made.name] = made

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """What a model is shown."""
        return tuple(made.spec for made in self._tools.values())

    def __getitem__(self, name: str) -> Tool:
        """Give the tool called *name*."""
        return self._tools[name]

    def __iter__(self) -> Iterator[str]:
        """Give the names in the order the tools were given."""
        return iter(self._tools)

    def __len__(self) -> int:
        """Count the tools."""
        return len(self._tools)

    def __repr__(self) -> str:
        """Name the tools."""
        return f"<ToolRegistry {', '.join(self._tools)}>"


def _where(made: Tool) -> str:
    return f"{getattr(made, '__module__', '?')}.{getattr(made, '__qualname__', made.name)}"
