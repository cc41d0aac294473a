"""What is answered from memory, what never is, and what empties it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from loopctl import Agent, Run, ToolError, UsageError, tool
from loopctl.messages import ToolCall
from loopctl.middleware import CallNext, Memoize, Permission, Redact, Timeout, ToolOutcome
from loopctl.testing import ScriptedModel, call, virtual_run
from tests.unit.middleware.layers import Own, Setup, ends

READ: list[str] = []


@tool(read_only=True, parallel=True)
async def read(path: str = "a", line: int = 1, seconds: float = 0) -> str:
    """Read."""
    READ.append(path)
    await asyncio.sleep(seconds)
    if path == "missing":
        raise ToolError("no such file")
    return f"{path}:{line} sk-123"


@tool
async def write() -> str:
    """Write."""
    READ.append("write")
    return "written"


@pytest.fixture(autouse=True)
def _clear() -> None:
    READ.clear()


def run_of(memory: Memoize, *calls: Any, layers: Any = (), **setup: Any) -> Run:
    return Setup([*layers, memory], calls, [read, write], **setup).run()


def once(path: str = "a", **more: Any) -> Any:
    return call("read", {"path": path, **more})


def test_an_equal_call_is_answered_from_memory() -> None:
    run = run_of(Memoize(), once(line=2), call("read", {"line": 2, "path": "a"}))
    assert READ == ["a"]
    assert ends(run) == [("completed", 1), ("completed", 0)]
    assert {record.result for record in run.tool_calls} == {"a:2 sk-123"}


def test_other_arguments_are_another_call() -> None:
    run_of(Memoize(), once(line=1), once(line=2), once("b", line=1))
    assert READ == ["a", "a", "b"]


def test_a_failed_call_is_not_remembered() -> None:
    run = run_of(Memoize(), once("missing"), once("missing"))
    assert ends(run) == [("failed", 1), ("failed", 1)]


def test_a_call_that_took_too_long_is_not_remembered() -> None:
    memory = Memoize()
    run = Setup([memory, Timeout(1)], [once(seconds=5), once(seconds=5)], [read]).run()
    assert ends(run) == [("failed", 1), ("failed", 1)]


def test_a_stopped_call_is_not_remembered_even_if_a_layer_says_that_it_is_whole() -> None:
    async def swallow(call_: Any, ctx: Any, call_next: CallNext) -> ToolOutcome:
        try:
            return await call_next(call_)
        except asyncio.CancelledError:
            return ToolOutcome.completed("half")

    memory = Memoize()
    Setup([memory, Own(swallow)], [once(seconds=5)], [read], stop_at=1).run()
    assert ends(run_of(memory, once(seconds=5))) == [("completed", 1)]


def test_a_denied_call_is_not_remembered() -> None:
    verdicts = iter(["deny", "allow"])
    rules: Any = {"read": lambda _: next(verdicts)}
    run = Setup([Memoize(), Permission(rules)], [once(), once()], [read]).run()
    assert ends(run) == [("denied", 0), ("completed", 1)]


async def yes(call_: ToolCall, ctx: Any) -> bool:
    return True


@pytest.mark.parametrize("is_outside", [False, True])
def test_a_call_that_somebody_says_yes_to_is_asked_about_each_time(is_outside: bool) -> None:
    memory, ask = Memoize(), Permission({"read": "ask"})
    layers = [ask, memory] if is_outside else [memory, ask]
    run = Setup(layers, [once(), once()], [read], agent={"approve": yes}).run()
    assert ends(run) == [("completed", 1), ("completed", 1)]


def test_memory_does_not_answer_where_somebody_is_to_be_asked() -> None:
    verdicts = iter(["allow", "ask"])
    rules: Any = {"read": lambda _: next(verdicts)}
    run = Setup([Permission(rules), Memoize()], [once(), once()], [read], agent={"approve": yes}).run()
    assert ends(run) == [("completed", 1), ("completed", 1)]


def test_a_tool_that_may_change_something_is_never_remembered_and_empties_the_memory() -> None:
    run = run_of(Memoize(), once(), call("write"), call("write"), once())
    assert READ == ["a", "write", "write", "a"]
    assert ends(run) == [("completed", 1)] * 4


def test_what_was_read_while_something_changed_is_not_remembered() -> None:
    @tool(parallel=True)
    async def change() -> str:
        await asyncio.sleep(1)
        return ""

    memory = Memoize()
    calls = [once(seconds=5), call("change")]
    Setup([memory], calls, [read, change], config={"dispatch": "parallel"}).run()
    assert ends(run_of(memory, once(seconds=5))) == [("completed", 1)]


def test_equal_calls_side_by_side_all_run() -> None:
    run = run_of(Memoize(), once(), once(), config={"dispatch": "parallel"})
    assert ends(run) == [("completed", 1), ("completed", 1)]


def test_only_the_tools_that_are_named_are_remembered() -> None:
    assert ends(run_of(Memoize(tools=["other"]), once(), once())) == [("completed", 1), ("completed", 1)]


def test_the_oldest_go_first() -> None:
    run = run_of(Memoize(2), once("a"), once("b"), once("c"), once("b"), once("a"))
    assert READ == ["a", "b", "c", "a"]
    assert [attempts for _, attempts in ends(run)] == [1, 1, 1, 0, 1]


def test_nothing_is_remembered_for_longer_than_it_may_be() -> None:
    async def main() -> list[list[tuple[str, int]]]:
        memory = Memoize(seconds=10)
        found = []
        for pause in (9, 2, 0):
            found.append(ends(await Setup([memory], [once()], [read]).go()))
            await asyncio.sleep(pause)
        return found

    assert [attempts for [(_, attempts)] in virtual_run(main)] == [1, 0, 1]


def test_the_sessions_that_share_the_object_share_the_memory_and_forget_empties_it() -> None:
    memory = Memoize()
    assert ends(run_of(memory, once())) == [("completed", 1)]
    assert ends(run_of(memory, once())) == [("completed", 0)]
    memory.forget()
    assert ends(run_of(memory, once())) == [("completed", 1)]


def test_arguments_that_no_model_can_send_are_not_remembered() -> None:
    async def odd(call_: ToolCall, ctx: Any, call_next: CallNext) -> ToolOutcome:
        return await call_next(ToolCall("", "", {"path": {1, 2}}))

    run = Setup([Own(odd), Memoize()], [once(), once()], [read]).run()
    assert ends(run) == [("failed", 0), ("failed", 0)], "the tool's own check of its arguments answers"


def test_what_is_remembered_has_been_through_the_layers_inside() -> None:
    memory = Memoize()
    run = Setup([memory, Redact([r"sk-\d+"])], [once(), once()], [read]).run()
    assert [record.result for record in run.tool_calls] == ["a:1 [redacted]"] * 2


@pytest.mark.parametrize("values", [{"entries": True}, {"seconds": -1}, {"tools": "read"}, {"tools": 1}], ids=str)
def test_a_setting_out_of_range_is_refused(values: Any) -> None:
    with pytest.raises(UsageError, match="Memoize"):
        Memoize(**values)


def test_what_was_left_running_empties_the_memory_when_it_has_ended() -> None:
    @tool(timeout=1)
    async def stubborn() -> None:
        """Write in the end, whatever it is told."""
        end = asyncio.get_running_loop().time() + 10
        while (left := end - asyncio.get_running_loop().time()) > 0:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(left)

    async def main() -> list[list[tuple[str, int]]]:
        model = ScriptedModel([call("stubborn")], [call("read")], "a", [call("read")], "b", [call("read")], "c")
        session = Agent(model, [stubborn, read], middleware=[Memoize()]).session()
        runs = [await session.run("write, then read"), await session.run("read again")]
        await asyncio.sleep(20)
        return [ends(run) for run in (*runs, await session.run("read what was written late"))]

    assert virtual_run(main) == [[("failed", 1), ("completed", 1)], [("completed", 0)], [("completed", 1)]]
