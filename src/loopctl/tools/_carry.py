"""What is carried to a worker process and back: the function, its arguments, its result, its error.

Rules: a function is carried by its name, else pickled; what cannot be carried is named, with what to do instead; an
error that cannot be carried becomes a `ToolError` with the same words.
"""

from __future__ import annotations

import functools
import importlib
import os
import pickle
import sys
import traceback
from collections.abc import Callable, Mapping
from typing import Any

from loopctl.concurrency import describe
from loopctl.errors import ToolError, UsageError
from loopctl.tools._annotations import origin

__all__ = [
    "carried_error",
    "carried_function",
    "check_carried",
    "find",
    "main_module",
    "pickled",
    "pickled_arguments",
    "pickled_error",
    "unwrap",
]


def check_carried(function: Callable[..., Any], name: str) -> None:
    """Refuse a function that no other process can find.

    Raises:
        UsageError: It is local to another function.
    """
    behind = origin(function)
    qualname = getattr(behind, "__qualname__", "")
    if "<" in qualname:
        raise UsageError(
            f"tool {name}: isolation='process' needs a function that another process can find by its name, and"
            f" {qualname} is local to where it was made. Define it at the top level of a module, and give it what"
            " it closes over as arguments."
        )


def carried_function(function: Callable[..., Any], name: str) -> tuple[str, str] | bytes:
    """Give the module and the name of *function*, or what it is pickled to.

    Raises:
        UsageError: It can neither be found by its name nor pickled.
    """
    where = getattr(function, "__module__", None) or "", getattr(function, "__qualname__", None) or ""
    try:
        if unwrap(find(*where)) is function:
            return where
    except (ImportError, AttributeError, ValueError):  # not under that name
        return pickled(function, f"tool {name}: isolation='process': the function {where[1] or function!r}")
    return pickled(function, f"tool {name}: isolation='process': the function {where[1]}")


def find(module: str, qualname: str) -> Any:
    """Find a thing by the names that it says it has.

    Raises:
        ImportError: There is no such module.
        AttributeError: There is no such name in it.
    """
    return functools.reduce(getattr, qualname.split("."), importlib.import_module(module))


def unwrap(found: Any) -> Any:
    """Give the function, if a tool was made of it under its own name."""
    return getattr(found, "_function", found)


def pickled(thing: object, what: str) -> bytes:
    """Pickle *thing*.

    Raises:
        UsageError: It cannot be; the text begins with *what*.
    """
    try:
        return pickle.dumps(thing)
    except Exception as error:  # whatever the type's own hooks raise
        raise UsageError(f"{what} cannot be carried to another process: {describe(error)}") from error


def pickled_arguments(arguments: Mapping[str, Any], name: str) -> bytes:
    """Pickle arguments, and name the one that cannot be.

    Raises:
        UsageError: One cannot be carried.
    """
    for key, value in arguments.items():
        pickled(value, f"tool {name}: the argument {key} ({type(value).__name__})")
    return pickle.dumps(dict(arguments))


def main_module() -> dict[str, str]:
    """Say how another process finds what is the program here, as `multiprocessing` does.

    Raises:
        UsageError: It has no file: an interactive session, or `python -c`.
    """
    main = sys.modules["__main__"]
    sys.modules["__mp_main__"] = main  # what the other process calls it: its results may be of types from there
    name = getattr(getattr(main, "__spec__", None), "name", None)
    if name is not None:
        return {"init_main_from_name": name}
    path = getattr(main, "__file__", None)
    if path is None:
        raise UsageError("isolation='process' needs a program with a file. Put the tool into a module, and import it.")
    return {"init_main_from_path": os.path.abspath(path)}  # noqa: PTH100 - as multiprocessing does it


def pickled_error(error: BaseException) -> bytes:
    """Pickle *error* with the lines that it came through, as a note."""
    lines = "".join(traceback.format_exception(error)).rstrip()
    try:
        error.add_note(f"in the process of the tool:\n{lines}")
        data = pickle.dumps(error)
        pickle.loads(data)  # noqa: S301 - our own: many errors can be pickled and not read again
    except Exception:  # whatever the type's own hooks raise
        substitute = ToolError(describe(error))
        substitute.add_note(f"in the process of the tool:\n{lines}")
        return pickle.dumps(substitute)
    return data


def carried_error(data: bytes) -> BaseException:
    """Read what `pickled_error` gave."""
    error: BaseException = pickle.loads(data)  # noqa: S301 - of our own worker, which runs code that we were given
    return error
