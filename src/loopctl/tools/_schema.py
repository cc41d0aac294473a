"""What a model may send to a function: read once, when the tool is made, from its signature and docstring.

Rules: whatever cannot be offered to a model is refused here, with the tool and the parameter named, so that no schema
ever promises what a call cannot keep. Defaults stay in the function: they are shown in the schema and never validated.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import Parameter
from typing import Annotated, Any, NotRequired, Optional, Union, cast, get_args, get_origin

from pydantic import ConfigDict, Field, TypeAdapter
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python
from typing_extensions import TypedDict

from loopctl.errors import UsageError
from loopctl.tools._annotations import local_names, origin, resolve
from loopctl.tools._context import ToolContext
from loopctl.tools._docstring import parse_docstring
from loopctl.tools._json_schema import plain_schema

__all__ = ["Signature", "read_signature"]


@dataclass(frozen=True, slots=True)
class Signature:
    """What `read_signature` found."""

    description: str
    parameters: dict[str, Any]
    """JSON Schema of the arguments."""
    adapter: TypeAdapter[dict[str, Any]]
    """Validates the arguments; gives those that were sent, by parameter name."""
    context_parameter: str | None
    """The parameter that takes the `ToolContext`."""


def read_signature(function: Callable[..., Any], tool_name: str) -> Signature:
    """Read what a model may send to *function*.

    Raises:
        UsageError: A parameter cannot be filled by a model; the text names it and what to write instead.
    """
    declared = _declared(function, tool_name)
    hints = {parameter.name: resolve(function, tool_name, parameter) for parameter in declared}
    contexts = [name for name, hint in hints.items() if _is_context(hint, tool_name, name)]
    if len(contexts) > 1:
        raise UsageError(f"tool {tool_name}: {' and '.join(contexts)} both take the ToolContext. Keep one.")
    offered = [parameter for parameter in declared if parameter.name not in contexts]
    documented = parse_docstring(_docstring(function), hints.keys())
    fields = {
        parameter.name: _field(tool_name, parameter, hints[parameter.name], documented.parameters.get(parameter.name))
        for parameter in offered
    }
    adapter = _adapter(fields, tool_name, function)
    return Signature(
        description=documented.description,
        parameters=_parameters(adapter, offered),
        adapter=adapter,
        context_parameter=contexts[0] if contexts else None,
    )


def _declared(function: Callable[..., Any], tool_name: str) -> list[Parameter]:
    try:
        declared = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError) as error:
        raise UsageError(f"tool {tool_name}: {error}. Wrap it in a def with annotated parameters.") from error
    for parameter in declared:
        if parameter.kind in _REFUSED:
            raise UsageError(f"tool {tool_name}: parameter {parameter} {_REFUSED[parameter.kind]}")
    return declared


_REFUSED = {
    Parameter.VAR_POSITIONAL: (
        "cannot be filled by a model, which names each argument. Declare a list parameter instead."
    ),
    Parameter.VAR_KEYWORD: "has no schema that a model could follow. Declare the parameters, or one dict parameter.",
    Parameter.POSITIONAL_ONLY: "is positional-only, and a model names each argument. Take the / out of the signature.",
}


def _docstring(function: Callable[..., Any]) -> str | None:
    plain = origin(function)
    return plain.__doc__ if inspect.isroutine(plain) and plain.__doc__ else function.__doc__


def _is_context(hint: Any, tool_name: str, name: str) -> bool:
    while get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    members = get_args(hint) if get_origin(hint) in {Union, types.UnionType} else (hint,)
    if ToolContext not in members:
        return False
    if not set(members) <= {ToolContext, types.NoneType}:
        raise UsageError(f"tool {tool_name}: parameter {name} is either the ToolContext or an argument, not both.")
    return True


def _field(tool_name: str, parameter: Parameter, hint: Any, documented: str | None) -> Any:
    """Give the annotation of one key of the arguments."""
    if isinstance(parameter.default, FieldInfo):
        raise UsageError(
            f"tool {tool_name}: parameter {parameter.name} has a Field as its default, which a direct call would get"
            f" as its value. Write {parameter.name}: Annotated[<type>, Field(…)] = <default>."
        )
    metadata: tuple[Any, ...] = ()
    if get_origin(hint) is Annotated:
        hint, *rest = get_args(hint)
        metadata = tuple(rest)
    description = _description(metadata) or documented
    if parameter.default is None and not _takes_none(hint):
        # The function takes None, whatever its annotation says, and models like to send null for "not given".
        hint, metadata = Optional[_annotated(hint, *metadata)], ()  # noqa: UP045 - a hint need not support |
    if description:
        metadata = (*metadata, Field(description=description))
    field = _annotated(hint, *metadata)
    return field if parameter.default is Parameter.empty else NotRequired[field]


def _annotated(hint: Any, *metadata: Any) -> Any:
    return Annotated[(hint, *metadata)] if metadata else hint


def _description(metadata: tuple[Any, ...]) -> str | None:
    """Give what `Annotated[…, Field(description=…)]` or `Annotated[…, "…"]` says."""
    said = [item.description for item in metadata if isinstance(item, FieldInfo) and item.description]
    said += [item for item in metadata if isinstance(item, str)]
    return said[0] if said else None


def _takes_none(hint: Any) -> bool:
    return hint in {Any, object, None, types.NoneType} or types.NoneType in get_args(hint)


def _adapter(fields: Mapping[str, Any], tool_name: str, function: Callable[..., Any]) -> TypeAdapter[dict[str, Any]]:
    """Make the validator of the arguments, and make sure that it has a schema.

    A TypedDict, because its keys may have any name, and because it tells a key that was not sent from a default.
    """
    make_dict = cast("Callable[[str, Mapping[str, Any]], Any]", TypedDict)
    arguments = make_dict(tool_name, fields)
    arguments.__pydantic_config__ = ConfigDict(extra="forbid")
    try:
        return _ready_adapter(arguments, function)
    except Exception as error:  # a type's own schema hooks run here
        for name, field in fields.items():
            _blame(name, field, tool_name, function)
        raise UsageError(f"tool {tool_name}: its parameters have no JSON schema: {_first_line(error)}.") from error


def _ready_adapter(hint: Any, function: Callable[..., Any]) -> TypeAdapter[Any]:
    adapter: TypeAdapter[Any] = TypeAdapter(hint)
    if not adapter.pydantic_complete:  # a type that refers to another one by a name that is local to a function
        adapter.rebuild(force=True, _types_namespace=local_names(function))
    adapter.json_schema()
    return adapter


def _blame(name: str, field: Any, tool_name: str, function: Callable[..., Any]) -> None:
    """Raise the error that names this parameter, if it is the one that has no schema."""
    alone = get_args(field)[0] if get_origin(field) is NotRequired else field
    try:
        _ready_adapter(alone, function)
    except Exception as error:  # as above
        raise UsageError(
            f"tool {tool_name}: parameter {name} has a type that JSON cannot carry: {_first_line(error)}. Take text,"
            " numbers, lists, dicts, enums, dataclasses or pydantic models, and look the rest up inside the tool."
        ) from error


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0].rstrip(".")


def _parameters(adapter: TypeAdapter[dict[str, Any]], offered: list[Parameter]) -> dict[str, Any]:
    schema = adapter.json_schema()
    # pydantic keeps the order, and an alias changes the key.
    for parameter, shown in zip(offered, schema["properties"].values(), strict=True):
        if parameter.default is not Parameter.empty:
            shown.update(_default(parameter.default))
    return plain_schema(schema)


def _default(value: Any) -> dict[str, Any]:
    try:
        return {"default": to_jsonable_python(value)}
    except ValueError:  # an object of the program's own: nothing that a model could send
        return {}
