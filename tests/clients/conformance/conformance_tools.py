"""The tools that the scenarios of the MCP conformance suite call; their names and results are the suite's.

Those are missing that need what we do not offer: see `expected-failures.yml`.
"""

from __future__ import annotations

import logging
from typing import Any

from loopctl import ToolContext, tool
from loopctl.tools import RemoteTool

__all__ = ["failing", "logging_tool", "progressing", "region", "schema", "simple", "streaming"]


@tool(name="test_simple_text")
def simple() -> str:
    """Give a text."""
    return "This is a simple text response for testing."


@tool(name="test_error_handling")
def failing() -> str:
    """Fail."""
    raise RuntimeError("This tool intentionally returns an error for testing")


@tool(name="test_tool_with_progress")
async def progressing(ctx: ToolContext) -> str:
    """Tell of progress."""
    for fraction in (0.0, 0.5, 1.0):
        ctx.progress(fraction=fraction)
        await ctx.sleep(0.05)
    return "done"


@tool(name="test_logging_tool")
def logging_tool() -> str:
    """Print and log, which is nothing for the client."""
    print("printed")
    logging.getLogger("loopctl.tools").warning("logged")
    return "done"


@tool(name="test_streaming_elicitation")
async def streaming(ctx: ToolContext) -> str:
    """Tell of progress, and ask the client nothing."""
    return await progressing(ctx)


async def _echo(arguments: dict[str, Any], _: ToolContext) -> Any:
    return arguments


schema = RemoteTool(
    _echo,
    name="json_schema_2020_12_tool",
    description="Tool with JSON Schema 2020-12 features",
    parameters={
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            }
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    },
)
region = RemoteTool(
    _echo,
    name="with_a_header",
    description="Take an argument that is sent as a header too.",
    parameters={"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}},
)
