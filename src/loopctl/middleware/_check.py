"""What can be middleware, sorted by what it stands around."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from loopctl.errors import LoopError, UsageError
from loopctl.tools import ToolMiddleware

__all__ = ["Layers", "Middleware", "check_middleware"]

Middleware: TypeAlias = ToolMiddleware
"""An object with `async tool_call(call, ctx, call_next)`."""


@dataclass(frozen=True, slots=True)
class Layers:
    """The middleware of an agent, outermost first."""

    around_tools: tuple[ToolMiddleware, ...] = ()


def check_middleware(given: Iterable[Middleware]) -> Layers:
    """Sort *given*.

    Raises:
        UsageError: Something in it is no middleware.
        LoopError: It stands around model calls, which is not built yet.
    """
    layers = tuple(given)
    candidates: tuple[object, ...] = layers
    for layer in candidates:
        if hasattr(layer, "model_call"):
            raise LoopError(f"{type(layer).__name__}.model_call: middleware around model calls is not built yet")
        if inspect.isclass(layer) or not inspect.iscoroutinefunction(getattr(layer, "tool_call", None)):
            raise UsageError(f"middleware= takes objects with an async def tool_call, not {layer!r}")
    return Layers(layers)
