"""What the MCP conformance suite starts as the client under test, with a URL: lists the tools and calls them."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from typing import Any

from loopctl import CancelSignal, ToolContext, ToolError
from loopctl.adapters.mcp import McpClient
from loopctl.tools import RemoteTool

_VALUES: dict[str, Any] = {"string": "x", "integer": 5, "number": 5, "boolean": True, "array": [], "object": {}}


def _calls(tools: dict[str, RemoteTool]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The calls that the scenario wants, or else one of each tool."""
    wanted = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}")).get("toolCalls")
    if wanted is not None:
        yield from ((call["name"], call["arguments"]) for call in wanted)
    elif "json_schema_echo" in tools:  # which sends back what we know of the other one
        yield "json_schema_echo", {"schema": tools["json_schema_2020_12_tool"].schema}
    else:
        for name, made in tools.items():
            properties = made.parameters["properties"].items()
            yield name, {key: _VALUES[value.get("type", "string")] for key, value in properties}


async def main() -> None:
    """Connect, and call."""
    version = os.environ["MCP_CONFORMANCE_PROTOCOL_VERSION"]
    async with McpClient(sys.argv[1], prefix="", protocol="auto" if version >= "2026" else "legacy") as client:
        tools = {made.name: made for made in client.tools if isinstance(made, RemoteTool)}
        for name, arguments in _calls(tools):
            context = ToolContext("call-1", name, CancelSignal().token)
            try:
                print(name, await tools[name].call(tools[name].bind(arguments), context))
            except ToolError as error:
                print(name, error)


asyncio.run(main())
