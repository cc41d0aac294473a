"""What can be middleware, sorted by what it stands around."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias, cast

from loopctl.errors import UsageError
from loopctl.middleware._model import ModelMiddleware
from loopctl.tools import ToolLayer

__all__ = ["Layers", "Middleware", "check_middleware"]

Middleware: TypeAlias = ToolLayer | ModelMiddleware
"""An object with `tool_call(call, ctx, call_next)`, `tool_text(text)`, `model_call(request, call_next)`, or several."""


@dataclass(frozen=True, slots=True)
class Layers:
    """The middleware of an agent, outermost first."""

    around_tools: tuple[ToolLayer, ...] = ()
    around_models: tuple[ModelMiddleware, ...] = ()


def check_middleware(given: Iterable[Middleware]) -> Layers:
    """Sort *given*.

    Raises:
        UsageError: Something in it is no middleware.
    """
    if not isinstance(given, Iterable):
        raise UsageError(f"middleware= takes a list of objects, not {given!r}: write middleware=[…]")
    around_tools, around_models = [], []
    for layer in given:
        problem = _problem_of(layer)
        if problem:
            raise UsageError(
                "middleware= takes objects with an async def tool_call, a plain def tool_text, or a model_call that is"
                f" an async generator (an async def with a yield), {problem}"
            )
        if hasattr(layer, "tool_call") or hasattr(layer, "tool_text"):
            around_tools.append(cast("ToolLayer", layer))
        if hasattr(layer, "model_call"):
            around_models.append(cast("ModelMiddleware", layer))
    return Layers(tuple(around_tools), tuple(around_models))


def _problem_of(layer: object) -> str | None:
    """Say why *layer* is no middleware."""
    if inspect.isclass(layer):
        return f"not a class: write {layer.__name__}(…)"
    call, text, model = (getattr(layer, name, None) for name in ("tool_call", "tool_text", "model_call"))
    if call is None and text is None and model is None:
        return f"not {layer!r}"
    good = {
        "tool_call": call is None or inspect.iscoroutinefunction(call),
        "tool_text": _is_plain(text),
        "model_call": _is_plain(model),
    }
    return next((f"and {type(layer).__name__}.{name} is not" for name, is_good in good.items() if not is_good), None)


def _is_plain(part: object) -> bool:
    return part is None or (callable(part) and not inspect.iscoroutinefunction(part))
