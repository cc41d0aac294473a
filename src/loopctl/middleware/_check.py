"""What can be middleware, sorted by what it stands around."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from loopctl.errors import LoopError, UsageError
from loopctl.tools import ToolLayer

__all__ = ["Layers", "Middleware", "check_middleware"]

Middleware: TypeAlias = ToolLayer
"""An object with `async tool_call(call, ctx, call_next)`, or `tool_text(text)`, or both."""


@dataclass(frozen=True, slots=True)
class Layers:
    """The middleware of an agent, outermost first."""

    around_tools: tuple[ToolLayer, ...] = ()


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
        if inspect.isclass(layer) or not _is_around_tools(layer):
            raise UsageError(
                f"middleware= takes objects with an async def tool_call or a plain def tool_text, not {layer!r}"
            )
    return Layers(layers)


def _is_around_tools(layer: object) -> bool:
    call, text = getattr(layer, "tool_call", None), getattr(layer, "tool_text", None)
    is_text = callable(text) and not inspect.iscoroutinefunction(text)
    return (inspect.iscoroutinefunction(call) or call is None) and (is_text or text is None) and call is not text
