"""What a type checker must see of tools; `test_types` runs mypy over this file. An unused ignore is an error too."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, assert_type

from loopctl.tools import Tool, ToolContext, ToolRegistry, load_tools, tool

__all__: list[str] = []


@tool
async def fetch(url: str, ctx: ToolContext) -> str:
    return f"{url} {ctx.call_id}"


@tool(name="save_it", description="Save.")
def save(number: int, *, again: bool = False) -> int:
    return number if again else 0


class Shop:
    def buy(self, count: int) -> float:
        return float(count)


async def check(ctx: ToolContext) -> list[Tool]:
    coroutine = assert_type(fetch("u", ctx), Coroutine[Any, Any, str])
    assert_type(await coroutine, str)
    assert_type(save(3, again=True), int)
    assert_type(tool(Shop().buy)(3), float)
    assert_type(tool(Shop().buy, name="purchase")(count=3), float)
    save("3")  # type: ignore[arg-type]
    save(3, agian=True)  # type: ignore[call-arg]
    await fetch("u")  # type: ignore[call-arg]
    tool(nmae="x")  # type: ignore[call-overload]
    tool(Shop().buy, timeout="long")  # type: ignore[call-overload]
    tool(3)  # type: ignore[call-overload]
    tools: list[Tool] = [fetch, save, *load_tools("a:b")]
    return [*ToolRegistry([fetch, save, Shop().buy]).values(), *tools]
