"""The arguments a model sent, as the keyword arguments of a function, or as a text that tells the model what is wrong.

Rules: the text names every argument that does not fit, what was given (shortened) and what was expected; an unknown
argument is refused, never dropped. Values are read as JSON, with pydantic's lax coercions ("3" is a number, a date
comes as text).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails, PydanticSerializationError, to_json

from loopctl.errors import LoopError, ToolError
from loopctl.tools._text import encodable, shorten

__all__ = ["bind_arguments"]

_LINES = 12
"""Problems that one text names, at most."""
_UNKNOWN = frozenset({"extra_forbidden", "unexpected_keyword_argument"})
"""pydantic's words for an argument that there is not: in a dict or model, and in a dataclass."""
_PREFIXES = ("Input ", "Value error, ", "Assertion failed, ")


def bind_arguments(
    adapter: TypeAdapter[dict[str, Any]], tool_name: str, parameters: Mapping[str, Any], arguments: Mapping[str, Any]
) -> dict[str, Any]:
    """Validate *arguments*.

    Args:
        adapter: The validator of the tool's arguments.
        tool_name: For the text.
        parameters: The JSON Schema that the model was shown.
        arguments: What the model sent.

    Returns:
        The validated values, by parameter name; without those that were not sent.

    Raises:
        ToolError: They do not fit; the text is made for the model.
    """
    if not isinstance(arguments, Mapping):
        raise ToolError(f"{tool_name} was not run: its arguments must be a JSON object, not {shorten(arguments)}.")
    try:
        return _validate(adapter, arguments)
    except ValidationError as error:
        problems = _problems(error.errors(include_url=False, include_context=False), arguments, parameters)
        raise ToolError(_text(tool_name, problems)) from error
    except LoopError:
        raise
    except Exception as error:  # a type's own validators run here
        raise ToolError(
            f"{tool_name} was not run: checking its arguments raised {type(error).__name__}: {encodable(str(error))}."
        ) from error


def _validate(adapter: TypeAdapter[dict[str, Any]], arguments: Mapping[str, Any]) -> dict[str, Any]:
    try:
        text = to_json(dict(arguments), inf_nan_mode="constants")
    except (PydanticSerializationError, UnicodeError):
        # Not JSON: put there by a program, or a lone surrogate. Validated as Python values, errors and all.
        return adapter.validate_python(dict(arguments))
    return adapter.validate_json(text)


def _text(tool_name: str, problems: list[str]) -> str:
    lines = problems[:_LINES]
    if len(problems) > _LINES:
        lines.append(f"and {len(problems) - _LINES} more")
    return "\n- ".join([f"{tool_name} was not run, because its arguments do not fit:", *lines])


def _problems(errors: Iterable[ErrorDetails], arguments: Mapping[str, Any], parameters: Mapping[str, Any]) -> list[str]:
    """Give one line for each argument, or part of one, that does not fit."""
    complaints: dict[str, list[str]] = {}
    given: dict[str, str] = {}
    for error in errors:
        path = _path(error, arguments)
        complaints.setdefault(path, []).append(_complaint(error, path, parameters))
        if error["type"] not in _UNKNOWN | {"missing"}:
            given.setdefault(path, f"given {shorten(error['input'])}, ")
    return [f"{path}: {given.get(path, '')}{' or '.join(dict.fromkeys(said))}" for path, said in complaints.items()]


def _path(error: ErrorDetails, arguments: Mapping[str, Any]) -> str:
    """Say where: `filters[0].size`. Steps that name a member of a union, and not a place in the data, are left out."""
    here: Any = arguments
    path = ""
    last = len(error["loc"]) - 1
    for at, step in enumerate(error["loc"]):
        if isinstance(step, int) and isinstance(here, list | tuple) and step < len(here):
            path, here = f"{path}[{step}]", here[step]
        elif isinstance(here, Mapping) and step in here:
            path, here = f"{path}.{step}", here[step]
        elif at == last and error["type"] == "missing":
            path = f"{path}.{step}"
    return path.removeprefix(".") or "arguments"


def _complaint(error: ErrorDetails, path: str, parameters: Mapping[str, Any]) -> str:
    properties: Mapping[str, Any] = parameters["properties"]
    if error["type"] == "missing":
        expected = _expected(properties[path]) if path in properties else ""
        return f"missing, should be {expected}" if expected else "missing"
    if error["type"] in _UNKNOWN:
        takes = f"there are: {', '.join(properties)}" if properties else "it takes none"
        return f"unknown argument; {takes}" if len(error["loc"]) == 1 else "unknown, leave it out"
    message = error["msg"]
    for prefix in _PREFIXES:
        message = message.removeprefix(prefix)
    return message


def _expected(schema: Mapping[str, Any]) -> str:
    """Say in a few words what *schema* asks for; "" if anything will do."""
    match schema:
        case {"anyOf": [*members]} | {"oneOf": [*members]}:
            return " or ".join(filter(None, (_expected(member) for member in members)))
        case {"enum": [*values]} | {"const": values}:
            listed = values if isinstance(values, list) else [values]
            return " or ".join(shorten(value) for value in listed)
        case {"type": "array", "items": items} if items:
            return f"array of {_expected(items)}"
        case {"type": "object", "properties": fields} if fields:
            return f"object with {', '.join(fields)}"
        case {"type": kind}:
            form = schema.get("format")
            return f"{kind} ({form})" if form else str(kind)
        case _:
            return ""
