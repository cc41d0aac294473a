"""What a tool returned, as the text that the model is given.

Rules: a text goes through as it is, None is empty, everything else is JSON as pydantic writes it. What has no useful
text form (bytes, a generator, a coroutine that nobody awaited) is the tool's mistake and says what to return instead.
"""

from __future__ import annotations

import inspect
import json

from pydantic_core import to_jsonable_python

from loopctl.errors import ToolError
from loopctl.tools._text import encodable

__all__ = ["render"]

_INSTEAD = "Return text, None, or what JSON can hold (numbers, lists, dicts, dataclasses, pydantic models)"


def render(value: object) -> str:
    """Give the text of a tool's result.

    Args:
        value: What the tool returned.

    Returns:
        A text as it is (lone surrogates replaced by U+FFFD), "" for None, else compact JSON.

    Raises:
        ToolError: *value* has no text form; the message says what the tool should return.
    """
    if value is None:
        return ""
    if isinstance(value, str):
        return encodable(str(value))
    _refuse(value)
    try:
        # Not pydantic's own to_json: it stops at a lone surrogate.
        text = json.dumps(to_jsonable_python(value), ensure_ascii=False, separators=(",", ":"))
    except Exception as error:  # serialisers and properties of the tool's own types run here
        raise ToolError(f"the tool returned {_name(value)}, which has no JSON form: {error}. {_INSTEAD}.") from error
    return encodable(text)


def _refuse(value: object) -> None:
    if isinstance(value, bytes | bytearray | memoryview):
        raise ToolError(
            f"the tool returned {_name(value)}, which a model cannot read. {_INSTEAD}: decode it, or write it to"
            " a file and return the path."
        )
    if inspect.iscoroutine(value):
        value.close()  # unstarted; without this it would warn that it was never awaited
        raise ToolError("the tool returned a coroutine that nobody awaited. Make the tool an async def and await it.")
    if inspect.isgenerator(value) or inspect.isasyncgen(value):
        raise ToolError(f"the tool returned {_name(value)}, which may never end. {_INSTEAD}: collect it in a list.")


def _name(value: object) -> str:
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
