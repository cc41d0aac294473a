"""`@tool`: from a function to a `Tool`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, ParamSpec, TypedDict, TypeVar, Unpack, overload

from loopctl.concurrency import check_seconds
from loopctl.errors import UsageError
from loopctl.tools._limit import check_limit
from loopctl.tools._tool import Resource, Tool, names_of

__all__ = ["ToolOptions", "tool"]

P = ParamSpec("P")
R = TypeVar("R")


class ToolOptions(TypedDict, total=False):
    """What `tool` can be told; everything has a default."""

    name: str | None
    """What the model calls it (default: the function's name)."""
    description: str | None
    """What the model is told that it does (default: the docstring without its sections on parameters and errors)."""
    parallel: bool | Callable[[Mapping[str, Any]], bool]
    """May run beside other calls of the same reply; or a function that says it of a call's arguments, which come as the
    model sent them (default False)."""
    resource: Resource | Callable[[Mapping[str, Any]], Resource]
    """What it touches, so that two calls never touch it at once: a name, several, or a function that gives them for a
    call's arguments, which come as the model sent them (default None)."""
    read_only: bool
    """Changes nothing (default False): a middleware may answer a call again from memory."""
    approval: bool | Callable[[Mapping[str, Any]], bool]
    """`approve` of the agent must say yes before each call; or a function that says it of a call's arguments, which
    come as the model sent them (default False)."""
    isolation: Literal["process"] | None
    """Where it runs (default None: a task for an `async def`, else a thread): `"process"` gives each call a process of
    its own, which can be killed. The function must be found by its name there."""
    timeout: float | None
    """Seconds that each attempt of a call may take, more than 0; then it is stopped and has failed (default None)."""
    on_cancel: Literal["interrupt", "finish"]
    """What a cancel does to a running call (default "interrupt"): "finish" lets it go on, and records its result."""
    finish_within: float | None
    """Seconds that a call with `on_cancel="finish"` has from the cancel on; then it is abandoned (default None)."""


_PASSED_ON = (
    "name",
    "description",
    "parallel",
    "resource",
    "read_only",
    "approval",
    "isolation",
    "timeout",
    "finish_within",
)
"""The options that a `Tool` is made with."""


@overload
def tool(function: Callable[P, R], /, **options: Unpack[ToolOptions]) -> Tool[P, R]: ...


@overload
def tool(**options: Unpack[ToolOptions]) -> Callable[[Callable[P, R]], Tool[P, R]]: ...


def tool(
    function: Callable[P, R] | None = None, /, **options: Unpack[ToolOptions]
) -> Tool[P, R] | Callable[[Callable[P, R]], Tool[P, R]]:
    """Make a tool of a function: `@tool`, `@tool(name="…")`, or `tool(thing.method)`.

    The model is shown the function's name, its docstring, and a JSON Schema made of its annotations; the text for each
    parameter comes from the docstring (Google, NumPy or Sphinx style), from `Annotated[…, "text"]` or from
    `Annotated[…, Field(description=…)]`. A parameter annotated `ToolContext` is filled by the engine and not shown.

    Args:
        function: An `async def`, which will run as a task, or a plain `def`, which will run on a thread of its own.
        **options: See `ToolOptions`.

    Returns:
        The tool, or a decorator that makes one.

    Raises:
        UsageError: A model could not call the function; the text names the parameter and what to write instead.
    """
    _check(options)
    if function is None:
        return lambda decorated: Tool(decorated, **_built(options))
    if not callable(function):
        raise UsageError(f"@tool takes a function, not {function!r}. Options go by name: @tool(name=…).")
    return Tool(function, **_built(options))


def _check(options: ToolOptions) -> None:
    for option in options:
        if option not in ToolOptions.__annotations__:
            known = ", ".join(ToolOptions.__annotations__)
            raise UsageError(f"@tool has no option {option!r}: it has {known}.")
    _check_values(options)


def _check_values(options: ToolOptions) -> None:
    given: Mapping[str, Any] = options
    for option in ("parallel", "approval"):
        value = given.get(option, False)
        if not isinstance(value, bool) and not callable(value):
            raise UsageError(f"@tool({option}={value!r}): give True, False, or a function of a call's arguments.")
    if not isinstance(given.get("read_only", False), bool):
        raise UsageError(f"@tool(read_only={given['read_only']!r}): give True or False.")
    if given.get("timeout") is not None:
        check_limit("@tool(timeout=…)", given["timeout"])
    if given.get("isolation") not in (None, "process"):
        raise UsageError(f"@tool(isolation={given['isolation']!r}): give 'process' or None.")
    resource = options.get("resource")
    if not callable(resource):
        names_of(resource, "@tool")
    _check_finish(given)


def _check_finish(given: Mapping[str, Any]) -> None:
    on_cancel, seconds = given.get("on_cancel", "interrupt"), given.get("finish_within")
    if on_cancel not in ("interrupt", "finish"):
        raise UsageError(f'@tool(on_cancel={on_cancel!r}): give "interrupt" or "finish".')
    if seconds is not None and not check_seconds("finish_within", seconds):
        raise UsageError("@tool(finish_within=…) takes more than 0 seconds.")
    if (on_cancel == "finish") != (seconds is not None):
        raise UsageError(
            '@tool(on_cancel="finish", finish_within=seconds): give both; no call runs on without a bound.'
        )


def _built(options: ToolOptions) -> dict[str, Any]:
    given: Mapping[str, Any] = options
    return {option: given[option] for option in _PASSED_ON if option in given}
