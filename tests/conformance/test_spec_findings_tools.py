"""Sentences of spec sections 3 and 5 against what tools bring along: types, values, threads, awaitables."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator
from typing import Annotated, Any

import pytest
from pydantic import BeforeValidator

from loopctl import Agent, Cancelled, CancelReason, Event, Run, RunConfig, StragglerEnded
from loopctl.testing import ScriptedModel, call, virtual_run


class Mute(Exception):
    """An error that cannot say what it is."""

    def __str__(self) -> str:
        raise ValueError("no text")


def run_of(tool: Any, arguments: dict[str, Any]) -> Run:
    session = Agent(ScriptedModel([call(tool.__name__, arguments)], "done"), [tool]).session()

    async def main() -> Run:
        return await session.start("a")

    return virtual_run(main)


@pytest.mark.parametrize("error", [Cancelled(CancelReason("user", "forged")), KeyError("k"), Mute()])
def test_whatever_the_validator_of_an_argument_raises_fails_that_call_only(error: Exception) -> None:
    """ "`failed` is also: ... bad arguments (`attempts` 0)", and a cancel is "Decided by the signal"."""

    def check(value: object) -> object:
        raise error

    async def work(x: Annotated[int, BeforeValidator(check)]) -> str:
        """Work."""
        return "ok"

    # As a name of this function the checked type is not found by a string annotation.
    work.__annotations__["x"] = Annotated[int, BeforeValidator(check)]
    run = run_of(work, {"x": 1})
    assert run.outcome == "completed"
    assert [(record.status, record.attempts) for record in run.tool_calls] == [("failed", 0)]


def test_a_value_that_cannot_be_turned_into_text_fails_its_call_only() -> None:
    """ "`failed` (raised something else)": code of the value's own runs when it is rendered."""

    class Text(str):
        __slots__ = ()

        def __str__(self) -> str:
            raise ValueError("no text")

    async def work() -> str:
        """Work."""
        return Text("x")

    run = run_of(work, {})
    assert run.outcome == "completed"
    assert [(record.status, record.attempts) for record in run.tool_calls] == [("failed", 1)]


def test_a_thread_that_cannot_be_had_fails_its_call_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """ "`failed` (raised something else)": the system's limit of threads is no fault of the run."""
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name.startswith("loopctl tool"):
            raise RuntimeError("can't start new thread")
        start(thread)

    def work() -> str:
        """Work."""
        return "ok"

    monkeypatch.setattr(threading.Thread, "start", refuse)
    run = run_of(work, {})
    assert run.outcome == "completed"
    assert [(record.status, record.result) for record in run.tool_calls] == [
        ("failed", "RuntimeError: can't start new thread")
    ]


class Odd:
    """An awaitable that takes no cancellation, and whose unknown attributes are an error of its own."""

    is_over = False

    def __await__(self) -> Generator[Any, None, None]:
        return self

    def __iter__(self) -> Odd:
        return self

    def __next__(self) -> Any:
        if self.is_over:
            raise StopIteration
        self.future = asyncio.get_running_loop().create_future()
        self.future._asyncio_future_blocking = True
        return self.future

    def throw(self, *error: Any) -> Any:
        return self.__next__()

    def end(self) -> None:
        self.is_over = True
        self.future.set_result(None)

    def __getattr__(self, name: str) -> Any:
        raise ValueError(f"what is {name}?")


def test_a_straggler_that_hangs_in_an_odd_awaitable_is_listed_without_its_line() -> None:
    """ "Every ending goes through the same finalizer", which asks each straggler where it hangs."""
    odd = Odd()

    async def work() -> str:
        """Work."""
        await odd
        return "late"

    session = Agent(ScriptedModel([call("work", {})]), [work], config=RunConfig(grace=0.1)).session()

    async def main() -> None:
        handle = session.start("a")
        await asyncio.sleep(1)
        handle.cancel()
        run = await asyncio.wait_for(asyncio.shield(handle), 10)
        assert [(straggler.name, straggler.where) for straggler in run.stragglers] == [("work", "")]
        odd.end()
        await asyncio.sleep(1)
        assert session.stragglers[0].result == "late"

    virtual_run(main)


class Unspeakable:
    """A value that cannot be written down."""

    def __repr__(self) -> str:
        raise ValueError("no words")


def test_a_late_result_that_cannot_be_written_down_is_announced_all_the_same() -> None:
    """Section 4: "its late result or error recorded and announced"; and `aclose` hears of its end."""
    gate = asyncio.Event()
    told: list[Event] = []

    async def work() -> Any:
        """Work."""
        while not gate.is_set():
            try:
                await gate.wait()
            except asyncio.CancelledError:
                continue
        return Unspeakable()

    model = ScriptedModel([call("work", {})])
    session = Agent(model, [work], observers=[told.append], config=RunConfig(grace=1)).session()

    async def main() -> None:
        handle = session.start("a")
        await asyncio.sleep(1)
        handle.cancel()
        await handle
        loop = asyncio.get_running_loop()
        loop.call_later(0.5, gate.set)
        before = loop.time()
        await session.aclose()
        assert loop.time() - before == pytest.approx(0.5)
        assert [event.result for event in told if isinstance(event, StragglerEnded)] == ["Unspeakable"]

    virtual_run(main)
