"""One call of an MCP client: its own signal, its progress, its end, in virtual time."""

from __future__ import annotations

import asyncio
import itertools

from loopctl import ToolContext, tool
from loopctl.adapters.mcp._served_call import ServedCall, Serving
from loopctl.messages import ToolCall
from loopctl.testing import virtual_run
from loopctl.tools import ToolRegistry

begun: list[str] = []


@tool
async def quiet(ctx: ToolContext) -> str:
    """Say nothing for a long time."""
    begun.append("quiet")
    await ctx.sleep(22)
    return "done"


@tool
async def chatty(ctx: ToolContext) -> str:
    """Say a lot."""
    for step in range(1, 1001):
        ctx.progress(f"step {step}", step / 1000)
        await ctx.sleep(0.001)
    return "done"


@tool
async def dithering(ctx: ToolContext) -> str:
    """Go back and forth."""
    for fraction in (0.5, 0.2, None, 0.6):
        ctx.progress("", fraction)
        await ctx.sleep(1)
    return "done"


@tool
async def deaf() -> str:
    """Swallow a cancel."""
    try:
        await asyncio.sleep(1000)
    except asyncio.CancelledError:
        await asyncio.sleep(1000)
    return "late"


def served(name):
    tools = ToolRegistry([quiet, chatty, dithering, deaf])
    return ServedCall(ToolCall("call-1", name, {}), Serving(tools))


def attended(name):
    async def main():
        loop = asyncio.get_running_loop()
        told = []

        async def tell(progress, total, message):
            told.append((round(loop.time() - start, 3), progress, total, message))

        start = loop.time()
        result = await served(name).attend(tell)
        return result, told

    return virtual_run(main)


def test_a_call_that_says_nothing_tells_the_client_every_five_seconds_that_it_lives():
    result, told = attended("quiet")
    assert result.content == "done"
    assert [round(at) for at, *_ in told] == [5, 10, 15, 20]
    assert [progress for _, progress, *_ in told] == sorted({progress for _, progress, *_ in told})
    assert {total for _, _, total, _ in told} == {None}


def test_what_is_said_too_often_is_told_by_its_last():
    _, told = attended("chatty")
    assert told[0][1:] == (0.1, 100.0, "step 1")
    assert 40 <= len(told) <= 52
    assert all(later[0] - earlier[0] >= 0.019 for earlier, later in itertools.pairwise(told))


def test_progress_grows_whatever_the_tool_says():
    _, told = attended("dithering")
    values = [progress for _, progress, *_ in told]
    assert len(values) == 4
    assert values == sorted(set(values))


def test_a_call_whose_client_cancels_in_the_turn_in_which_it_came_never_begins():
    async def main():
        begun.clear()
        calls = []

        async def handle():
            calls.append(served("quiet"))
            await calls[0].attend(None)

        handling = asyncio.ensure_future(handle())
        await asyncio.sleep(0)
        handling.cancel()
        await asyncio.wait([handling, calls[0].task])
        return handling.cancelled(), calls[0].task.result()

    assert virtual_run(main) == (True, None)
    assert begun == []


def test_a_cancel_leaves_the_client_at_once_and_the_tool_its_grace():
    async def main():
        loop = asyncio.get_running_loop()
        call = served("deaf")
        attending = asyncio.ensure_future(call.attend(None))
        await asyncio.sleep(1)
        start = loop.time()
        attending.cancel()
        await asyncio.wait([attending])
        left = loop.time() - start
        await asyncio.wait([call.task])
        return left, loop.time() - start, attending.cancelled(), call.task.result()

    left, ended, is_cancelled, result = virtual_run(main)
    assert left == 0
    assert 0.9 <= ended <= 1.1
    assert is_cancelled
    assert result is None
