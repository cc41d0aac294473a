"""Code that blocks the loop's own thread is bounded by nothing, so the report and the log name its file and line."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
import time

import pytest

from loopctl import Agent
from loopctl.concurrency import _handover
from loopctl.record import CallStatus, Run
from loopctl.testing import ScriptedModel, call, stall

GO_ON = threading.Event()


async def block() -> str:
    """Block the loop."""
    GO_ON.wait(20)
    return "let go"


def line_of(function: object, text: str) -> int:
    lines, first = inspect.getsourcelines(function)  # type: ignore[arg-type]
    return first + next(number for number, line in enumerate(lines) if text in line)


def stopped_from_a_thread(seconds: float) -> Run:
    """Stop a run whose tool blocks, from a thread, and let the tool go *seconds* later."""
    GO_ON.clear()

    async def main() -> Run:
        session = Agent(ScriptedModel([call("block", {})], "never"), [block]).session()

        def press() -> None:
            session.signal.cancel()
            time.sleep(seconds)
            GO_ON.set()

        async with session.start("go") as handle:
            async for event in handle:
                if type(event).__name__ == "ToolStarted":
                    threading.Timer(0.05, press).start()
            return await handle

    return asyncio.run(main())


def test_the_run_ends_when_it_lets_go_and_the_report_names_the_line() -> None:
    run = stopped_from_a_thread(0.2)
    assert run.stop is not None
    assert run.stop.blocked_at == f"{__file__}:{line_of(block, 'GO_ON.wait')}"
    assert run.stop.latency >= 0.2
    assert run.to_json()["stop"]["blocked_at"] == run.stop.blocked_at
    assert run.tool_calls[0].status is CallStatus.COMPLETED


def test_while_it_lasts_the_log_names_the_line(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(_handover, "_PATIENCE", 0.1)
    with caplog.at_level(logging.WARNING, "loopctl"):
        stopped_from_a_thread(0.5)
    assert f"it is blocked at {__file__}:{line_of(block, 'GO_ON.wait')}" in caplog.text


def test_a_loop_that_takes_the_cancel_at_once_is_not_blamed() -> None:
    async def main() -> Run:
        session = Agent(ScriptedModel(stall())).session()
        handle = session.start("go")
        asyncio.get_running_loop().call_later(0.01, session.signal.cancel)
        return await handle

    run = asyncio.run(main())
    assert run.stop is not None
    assert run.stop.blocked_at == ""
