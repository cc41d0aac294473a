"""A tool that somebody else declares: its arguments are described by a JSON Schema, and checked where it runs.

Rule: the schema is shown to models in the plain form (`_json_schema.py`), since a server's may be anything.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Unpack

from loopctl.errors import ToolError
from loopctl.tools._context import ToolContext
from loopctl.tools._decorator import ToolOptions
from loopctl.tools._json_schema import plain_schema
from loopctl.tools._text import shorten
from loopctl.tools._tool import Tool

__all__ = ["RemoteCall", "RemoteTool"]

RemoteCall = Callable[[dict[str, Any], ToolContext], Awaitable[Any]]
"""Makes a call: takes the arguments as the model sent them, and the context."""


class RemoteTool(Tool[..., Any]):
    """A tool whose arguments another program declares and checks."""

    annotations: Mapping[str, Any]
    """What the other program says of it beside its arguments; hints, which bind nobody."""
    schema: Mapping[str, Any]
    """The schema of its arguments as the other program gave it; `parameters` is its plain form, for models."""

    def __init__(
        self,
        call: RemoteCall,
        *,
        parameters: Mapping[str, Any],
        annotations: Mapping[str, Any] | None = None,
        **options: Unpack[ToolOptions],
    ) -> None:
        """Make a tool of *call*.

        Args:
            call: Awaited for each call.
            parameters: JSON Schema of the arguments, of an object.
            annotations: Kept as they are.
            **options: As of `tool`.

        Raises:
            UsageError: A model could not call it; the text says why.
        """

        async def remote(arguments: dict[str, Any], ctx: ToolContext) -> Any:
            return await call(arguments, ctx)

        super().__init__(remote, **options)  # type: ignore[misc]  # `on_cancel` is of the decorator
        self.parameters: Mapping[str, Any] = {"type": "object", "properties": {}, **plain_schema(parameters)}
        self.schema: Mapping[str, Any] = parameters
        self.annotations: Mapping[str, Any] = dict(annotations or {})

    def bind(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Take *arguments* as they are, if nothing that is required is missing: the other program checks the rest.

        Raises:
            ToolError: They are no object, or incomplete.
        """
        if not isinstance(arguments, Mapping):
            raise ToolError(f"{self.name} was not run: its arguments must be a JSON object, not {shorten(arguments)}.")
        missing = [name for name in self.parameters.get("required", ()) if name not in arguments]
        if missing:
            raise ToolError(f"{self.name} was not run: it needs {', '.join(map(str, missing))} too.")
        return {"arguments": dict(arguments)}
