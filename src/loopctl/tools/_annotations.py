"""From a function's annotations, which may be strings, to types.

Rules: a name in a string is looked for where Python would have looked: in the functions that enclose the tool while
they still run, in its closure, in its module. `ToolContext` is known even if it was imported for type checkers only.
What is not found is an error that names the parameter, never a guess.
"""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable, Iterator
from typing import Any

from loopctl.errors import UsageError
from loopctl.tools._context import ToolContext

__all__ = ["local_names", "origin", "resolve"]


def origin(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give the `def` behind *function*: behind bound methods, partials, wrapping decorators and callable objects."""
    while True:
        behind = _behind(function)
        if behind is None:
            return function
        function = behind


def _behind(function: Callable[..., Any]) -> Callable[..., Any] | None:
    if isinstance(function, functools.partial):
        return function.func
    if inspect.ismethod(function):
        return function.__func__
    wrapped: Callable[..., Any] | None = getattr(function, "__wrapped__", None)
    if wrapped is not None:
        return wrapped
    call = type(function).__call__
    return call if inspect.isfunction(call) and not inspect.isfunction(function) else None


def local_names(function: Callable[..., Any]) -> dict[str, Any]:
    """Give the names that *function* sees beyond its module, as far as they can still be seen."""
    plain = origin(function)
    if not inspect.isfunction(plain):
        return {}
    names: dict[str, Any] = {}
    for scope in _enclosing_scopes(plain):
        names |= scope
    for name, cell in zip(plain.__code__.co_freevars, plain.__closure__ or (), strict=True):
        try:
            names[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    return names


def _enclosing_scopes(function: types.FunctionType) -> Iterator[dict[str, Any]]:
    """Give the local variables of the running functions and class bodies around *function*, outermost first."""
    around: list[str] = []
    scope = function.__qualname__
    while "." in scope:
        scope = scope.rpartition(".")[0].removesuffix(".<locals>")
        around.append(scope)
    found: dict[str, dict[str, Any]] = {}
    frame = inspect.currentframe()
    while frame is not None:
        name = frame.f_code.co_qualname
        if name in around and frame.f_globals is function.__globals__:
            found.setdefault(name, dict(frame.f_locals))  # the innermost call, if the function recurses
        frame = frame.f_back
    return (found[name] for name in reversed(around) if name in found)


def resolve(function: Callable[..., Any], tool_name: str, parameter: inspect.Parameter) -> Any:
    """Give the type of *parameter*, with its `Annotated` metadata.

    Raises:
        UsageError: There is no annotation, or it names something that cannot be found.
    """
    where = f"tool {tool_name}: parameter {parameter.name}"
    if parameter.annotation is inspect.Parameter.empty:
        raise UsageError(f"{where} has no annotation. {_advice(parameter.name)}")
    plain = origin(function)
    namespace = {"ToolContext": ToolContext} | getattr(plain, "__globals__", {})
    holder = types.SimpleNamespace(
        __annotations__={parameter.name: parameter.annotation},
        __type_params__=getattr(plain, "__type_params__", ()),
    )
    try:
        return typing.get_type_hints(holder, namespace, local_names(function), include_extras=True)[parameter.name]
    except Exception as error:  # an annotation is foreign code, evaluated here
        raise UsageError(
            f"{where}: its annotation {parameter.annotation!r} cannot be resolved ({error}). Define or import what it"
            " names before the tool, where it can be seen at run time (an import under TYPE_CHECKING cannot)."
        ) from error


def _advice(name: str) -> str:
    if name in {"self", "cls"}:
        return "A tool is not made of an unbound method: make it of the bound one, tool(thing.method)."
    if name in {"ctx", "context"}:
        return f"If it is the engine's context, write {name}: ToolContext; else write its type: a model needs it."
    return f"A model needs a type to fill it in: write {name}: str, or {name}: Any if anything will do."
