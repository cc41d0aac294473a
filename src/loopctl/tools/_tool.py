"""A function that a model may call, with everything that is known of it before it is called.

Invariants: made once, never changed; a direct call is a call of the function, so a tool stays as usable and as testable
as the function it was.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, Literal, TypeAlias

from typing_extensions import ParamSpec, TypeVar

from loopctl.errors import UsageError
from loopctl.model import ToolSpec
from loopctl.tools._annotations import origin
from loopctl.tools._arguments import bind_arguments
from loopctl.tools._carry import check_carried
from loopctl.tools._context import ToolContext
from loopctl.tools._schema import read_signature
from loopctl.tools._waves import Wish

__all__ = ["Resource", "Tool", "names_of"]

Resource: TypeAlias = str | Iterable[str] | None
"""The names of what a call touches."""

P = ParamSpec("P", default=...)
R_co = TypeVar("R_co", covariant=True, default=Any)

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""Source: the name rule of the OpenAI and Anthropic APIs."""


class Tool(Generic[P, R_co]):
    """A function that a model may call. Made by `tool`."""

    name: str
    """What the model calls it."""
    description: str
    """What the model is told that it does; empty if nobody said."""
    parameters: Mapping[str, Any]
    """JSON Schema of the arguments; the `ToolContext` is not in it."""
    is_async: bool
    """True for an `async def`: it runs as a task. Else it runs on a thread of its own."""
    approval: bool | Callable[[Mapping[str, Any]], bool]
    """Whether somebody is asked before each call, or a function of its arguments that says so."""
    read_only: bool
    """True if it changes nothing."""
    timeout: float | None
    """Seconds that each attempt of a call may take; None is no limit."""
    finish_within: float | None
    """Seconds in which a running call may finish after a cancel; None if a cancel interrupts it."""
    isolation: Literal["process"] | None
    """`"process"` if each call runs in a process of its own."""

    def __init__(  # noqa: PLR0913 - the options of `tool`, by name
        self,
        function: Callable[P, R_co],
        *,
        name: str | None = None,
        description: str | None = None,
        parallel: bool | Callable[[Mapping[str, Any]], bool] = False,
        resource: Resource | Callable[[Mapping[str, Any]], Resource] = None,
        approval: bool | Callable[[Mapping[str, Any]], bool] = False,
        read_only: bool = False,
        timeout: float | None = None,
        finish_within: float | None = None,
        isolation: Literal["process"] | None = None,
    ) -> None:
        """Make a tool of *function*; see `tool`, which is the way to do it.

        Raises:
            UsageError: A model could not call it; the text says why.
        """
        _refuse(function)
        self.name = _checked_name(function, name)
        signature = read_signature(function, self.name)
        self.description = inspect.cleandoc(description) if description is not None else signature.description
        self.parameters = signature.parameters
        self.is_async = _is_async(function)
        self._parallel = parallel
        self._resource = resource
        self.approval = approval
        self.read_only = read_only
        self.timeout = timeout
        self.finish_within = finish_within
        if isolation is not None:
            check_carried(function, self.name)
        self.isolation = isolation
        self._function = function
        self._adapter = signature.adapter
        self._context_parameter = signature.context_parameter
        functools.update_wrapper(self, function, updated=())

    @property
    def spec(self) -> ToolSpec:
        """The tool as a model sees it."""
        return ToolSpec(self.name, self.description, self.parameters)

    @property
    def takes_context(self) -> bool:
        """True if the function has a parameter for the `ToolContext`."""
        return self._context_parameter is not None

    def wish(self, arguments: Mapping[str, Any]) -> Wish:
        """Ask the tool what a call may run beside, and what it touches.

        Args:
            arguments: As the model sent them: not validated.

        Returns:
            What `parallel` and `resource` of `tool` say.

        Raises:
            UsageError: They say something that cannot be; the text names it.
            Exception: Whatever they raise.
        """
        parallel: object = self._parallel(arguments) if callable(self._parallel) else self._parallel
        if not isinstance(parallel, bool):
            raise UsageError(f"tool {self.name}: parallel= gave {parallel!r}. Give True or False.")
        touched = self._resource(arguments) if callable(self._resource) else self._resource
        return Wish(parallel, names_of(touched, self.name))

    def needs_approval(self, arguments: Mapping[str, Any]) -> bool:
        """Ask the tool whether somebody must say yes to a call.

        Args:
            arguments: As the model sent them: not validated.

        Raises:
            UsageError: `approval` of `tool` says something else than yes or no.
            Exception: Whatever it raises.
        """
        needed: object = self.approval(arguments) if callable(self.approval) else self.approval
        if not isinstance(needed, bool):
            raise UsageError(f"tool {self.name}: approval= gave {needed!r}. Give True or False.")
        return needed

    def bind(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Validate what a model sent.

        Args:
            arguments: The decoded JSON object.

        Returns:
            Keyword arguments for `call`: those that were sent, coerced to the types of the signature.

        Raises:
            ToolError: They do not fit. The text names each argument, what was given and what was expected.
        """
        return bind_arguments(self._adapter, self.name, self.parameters, arguments)

    def call(self, kwargs: Mapping[str, Any], ctx: ToolContext) -> Any:
        """Call the function.

        Args:
            kwargs: What `bind` gave.
            ctx: Given to the function if it takes one.

        Returns:
            A coroutine if `is_async`, and then nothing has run yet; else the result.

        Raises:
            Exception: Whatever a plain function raises.

        Cancellation:
            Never waits.
        """
        context = {self._context_parameter: ctx} if self._context_parameter is not None else {}
        arguments = {**kwargs, **context}
        function: Callable[..., Any] = self._function
        if self.is_async and not inspect.iscoroutinefunction(function):
            return _inside(function, arguments)
        return function(**arguments)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Call the function directly: nothing is validated, nothing rendered."""
        return self._function(*args, **kwargs)

    def __repr__(self) -> str:
        """Name the tool and its arguments."""
        return f"<Tool {self.name}({', '.join(self.parameters['properties'])})>"


def names_of(touched: object, tool: str) -> frozenset[str]:
    """Give the names of resources that *tool* declared.

    Raises:
        UsageError: They are not texts; the text names the tool.
    """
    if touched is None:
        return frozenset()
    names = (touched,) if isinstance(touched, str) else tuple(touched) if isinstance(touched, Iterable) else (touched,)
    if not all(isinstance(name, str) for name in names):
        raise UsageError(f"tool {tool}: resource= gave {touched!r}. Give a text, several texts, or None.")
    return frozenset(names)


def _checked_name(function: Callable[..., Any], name: str | None) -> str:
    found = name if name is not None else getattr(function, "__name__", None)
    if found is None:
        raise UsageError(f"{function!r} has no name of its own. Give it one: tool(…, name=…).")
    if not isinstance(found, str) or not _NAME.fullmatch(found):
        raise UsageError(
            f"{found!r} cannot be a tool's name: model servers allow 1 to 64 of a-z, A-Z, 0-9, _ and -. Give it another"
            " with name=…."
        )
    return found


def _refuse(function: Callable[..., Any]) -> None:
    if isinstance(function, Tool):
        raise UsageError(f"{function.name} is a tool already. To rename it, make one of its __wrapped__.")
    name = getattr(function, "__name__", repr(function))
    if inspect.isclass(function):
        raise UsageError(f"{name} is a class, not a tool. Make a tool of a function, or of a bound method.")
    plain = origin(function)
    if inspect.isgeneratorfunction(plain) or inspect.isasyncgenfunction(plain):
        raise UsageError(f"{name} yields, and a tool gives one result. Return it; tell progress by ctx.progress.")


async def _inside(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    """Call a plain function that wraps an async one, so that what it raises comes out of the coroutine."""
    result = function(**arguments)
    return await result if inspect.isawaitable(result) else result


def _is_async(function: Callable[..., Any]) -> bool:
    # The origin too: a wrapping decorator is mostly a plain def that returns the coroutine of what it wraps.
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(origin(function))
