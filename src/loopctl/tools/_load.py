"""From the text of a command line to tools: `module:function,package.module:thing.method`."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from loopctl.errors import LoopError, UsageError
from loopctl.tools._registry import ToolRegistry
from loopctl.tools._tool import Tool

__all__ = ["load_tools"]


def load_tools(text: str, convert: Callable[[Any, str], Any] | None = None) -> list[Tool]:
    """Import the tools that *text* names.

    Args:
        text: `module:name`, separated by commas. A plain function is made a tool. Modules are found where Python finds
            them, and in the current directory.
        convert: Called with what was found and the last word of its name; gives what is to be the tool.

    Returns:
        The tools in the order of *text*.

    Raises:
        UsageError: A part has another form, a module or name is not there, importing raised, something named is no
            tool, or two have one name. The text names the part.
    """
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts:
        raise UsageError("no tools named: write module:function, several separated by commas")
    _check_form(parts)
    return list(ToolRegistry(_load(part, convert) for part in parts).values())


def _check_form(parts: list[str]) -> None:
    for part in parts:
        if not all(part.partition(":")):
            raise UsageError(f"{part!r} does not name a tool: write module:function{_correction(parts)}")


def _correction(parts: list[str]) -> str:
    """Write *parts* with the module of the one before where it was left out, if that makes each of them whole."""
    module, written = "", []
    for part in parts:
        before, colon, after = part.partition(":")
        module = before if colon else module
        written.append(f"{module}:{after if colon else before}")
    return f" for each: {','.join(written)}" if all(all(part.partition(":")) for part in written) else ""


def _load(part: str, convert: Callable[[Any, str], Any] | None) -> Any:
    module_name, _, path = part.partition(":")
    module = _import(module_name, part)
    found: Any = module
    for name in path.split("."):
        try:
            found = getattr(found, name)
        except AttributeError as error:
            raise UsageError(f"{part!r}: {_title(found)} has no {name!r}. {_choice(module)}") from error
    if convert is not None:
        found = convert(found, path.rpartition(".")[2])
    if not callable(found):
        raise UsageError(f"{part!r} is {type(found).__name__}, not a function. {_choice(module)}")
    return found


def _import(name: str, part: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path and "" not in sys.path:
        # As `python -m` does; an installed command starts without it. Kept, for what the module imports later.
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except LoopError:
        raise
    except Exception as error:  # importing runs the module
        if isinstance(error, ModuleNotFoundError) and error.name and f"{name}.".startswith(f"{error.name}."):
            raise UsageError(f"{part!r}: there is no module {error.name!r} here or on Python's path") from error
        raise UsageError(f"{part!r}: importing {name} raised {type(error).__name__}: {error}") from error


def _title(found: Any) -> str:
    return f"module {found.__name__}" if isinstance(found, ModuleType) else type(found).__name__


def _choice(module: ModuleType) -> str:
    names = [name for name, value in vars(module).items() if isinstance(value, Tool)]
    return f"Its tools are: {', '.join(names)}." if names else f"{module.__name__} defines no @tool."
