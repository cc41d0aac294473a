"""`loopctl check`: is a tool safe to abandon?

Rules: stdout carries the report and nothing else; the exit code is for a build: 0 safe, 1 something was found, 2 it
could not be checked.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any, TextIO

from loopctl.cli._agent import load
from loopctl.cli._events import json_line
from loopctl.cli._exit import COMPLETED, FAILED
from loopctl.cli._options import CheckOptions
from loopctl.cli._screen import Screen, put
from loopctl.errors import UsageError
from loopctl.testing import AbandonMode, check_abandon
from loopctl.tools import Tool

__all__ = ["check"]

_MODES: dict[str, tuple[AbandonMode, ...]] = {"both": ("cancel", "kill"), "cancel": ("cancel",), "kill": ("kill",)}


def check(options: CheckOptions, stdout: TextIO) -> int:
    """Check the tool that *options* name, and print the report on *stdout*.

    Returns:
        The exit code.

    Raises:
        UsageError: It cannot be checked; the text says why.
    """
    tool = _tool(options.tool)
    arguments = _arguments(options.input, tool)
    screen = Screen(sys.stderr, os.environ)

    def show(done: int, every: int) -> None:
        screen.show(f"{tool.name}: abandoned at {done} of {every} points")

    try:
        report = check_abandon(
            tool,
            arguments,
            files=options.files,
            modes=_MODES[options.mode],
            grace=options.grace,
            ignore=options.ignore,
            may_repeat=options.may_repeat,
            limit=options.limit,
            show=show,
        )
    finally:
        screen.erase()
    put(stdout, json_line(report.to_json()) if options.is_json else f"{report}\n")
    return COMPLETED if report.is_safe else FAILED


def _tool(text: str) -> Tool:
    if "," in text:
        raise UsageError(f"{text!r} names several tools: check one at a time")
    (tool,) = load(text, "check")
    return tool


def _arguments(text: str, tool: Tool) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise UsageError(f"--input is no JSON: {error}. Write {_example(tool)}") from error
    if not isinstance(found, dict):
        raise UsageError(f"--input is no JSON object. Write {_example(tool)}")
    return found


def _example(tool: Tool) -> str:
    """Show how the arguments of *tool* could be written on a command line."""
    texts = {"string": "…", "integer": 1, "number": 1.5, "boolean": True, "array": [], "object": {}}
    properties: dict[str, Any] = tool.parameters["properties"]
    values = {name: texts.get(schema.get("type"), "…") for name, schema in properties.items()}
    return f"--input '{json.dumps(values, ensure_ascii=False)}'"
