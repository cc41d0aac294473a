"""Faults of other engines around tool calls, played to the end: prepared siblings, repeats, endless cleanups."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from loopctl import Agent, Cancelled, Checkpoint, RunConfig, Session, ToolFinished, ToolStarted, tool
from loopctl.messages import ToolMessage
from loopctl.middleware import CallNext, Timeout, ToolOutcome
from loopctl.model import ModelRequest
from loopctl.record import CallStatus, Event
from loopctl.recovery import RetryCall, ToolFailure
from loopctl.testing import ScriptedModel, call, virtual_run

DONE: list[str] = []


@pytest.fixture(autouse=True)
def nothing_is_done() -> None:
    DONE.clear()


@tool(parallel=True)
async def charge(card: str, seconds: float = 1) -> str:
    """Charge a card."""
    DONE.append(card)
    await asyncio.sleep(seconds)
    return f"charged {card}"


def charges(*cards: str, seconds: float = 1) -> list[Any]:
    return [call("charge", {"card": card, "seconds": seconds}) for card in cards]


def now() -> float:
    return asyncio.get_running_loop().time()


@pytest.mark.parametrize("how", ["fires and goes on", "fires and refuses"])
def test_a_stop_in_the_preflight_of_the_second_call_starts_neither(how: str) -> None:
    """Case F3: the first call was through its own preflight, prepared and not begun; both get a closing."""
    told: list[Event] = []
    passed: list[str] = []

    class Preflight:
        async def tool_call(self, asked: Any, ctx: Any, call_next: CallNext) -> ToolOutcome:
            passed.append(asked.arguments["card"])
            if asked.arguments["card"] == "second":
                session.signal.cancel("in the preflight")
                if how == "fires and refuses":
                    return ToolOutcome(CallStatus.DENIED, "no")
            return await call_next(asked)

    config = RunConfig(dispatch="parallel")
    model = ScriptedModel(charges("first", "second"), "done")
    session = Agent(model, [charge], middleware=[Preflight()], observers=[told.append], config=config).session()

    async def main() -> None:
        run = await session.start("go")
        assert (passed, DONE) == (["first", "second"], [])
        assert run.outcome == "cancelled"
        assert [record.status for record in run.tool_calls] == ["not_started", "not_started"]

    virtual_run(main)
    ids = [[event.id for event in told if isinstance(event, kind)] for kind in (ToolStarted, ToolFinished)]
    assert sorted(ids[0]) == sorted(ids[1])
    assert len(ids[0]) == 2


@pytest.mark.parametrize("dispatch", ["sequential", "parallel"])
def test_a_model_that_repeats_what_has_no_result_repeats_nothing_that_was_done(dispatch: Any) -> None:
    """Case J2: cancelled after tool 1 of 2 had ended; the next run charges the other card, and not the first again."""

    def ask_for_what_is_missing(request: ModelRequest) -> list[Any]:
        told = [
            result for message in request.messages if isinstance(message, ToolMessage) for result in message.results
        ]
        done = {result.content.removeprefix("charged ") for result in told if not result.is_error}
        missing = [card for card in ("one", "two") if card not in done]
        return charges(*missing, seconds=1) if missing else ["done"]

    first = [*charges("one", seconds=1), *charges("two", seconds=100)]
    model = ScriptedModel(first, ask_for_what_is_missing, ask_for_what_is_missing)
    session = Agent(model, [charge], config=RunConfig(dispatch=dispatch)).session()

    async def main() -> None:
        handle = session.start("go")
        await asyncio.sleep(3)
        handle.cancel()
        run = await handle
        assert [record.status for record in run.tool_calls] == ["completed", "interrupted"]
        assert session.adopt(run)
        assert (await session.run("go on")).output == "done"

    virtual_run(main)
    assert (DONE.count("one"), DONE.count("two")) == (1, 2)


@pytest.mark.parametrize("dispatch", ["sequential", "parallel"])
@pytest.mark.parametrize("error", [ConnectionError("reset"), TimeoutError(), asyncio.CancelledError(), ValueError("x")])
def test_what_a_tool_raises_because_it_was_stopped_asks_no_strategy(dispatch: Any, error: BaseException) -> None:
    """Case C8: also if it looks like a failure that is worth another attempt."""
    failures: list[ToolFailure] = []

    @tool(parallel=True)
    async def odd() -> str:
        """Turn a cancellation into something else."""
        DONE.append("odd")
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            raise error from None
        return "never"

    def always(failure: ToolFailure) -> RetryCall:
        failures.append(failure)
        return RetryCall(after=0)

    model = ScriptedModel([call("odd", {})], "never")
    session = Agent(model, [odd], recovery=always, config=RunConfig(dispatch=dispatch)).session()

    async def main() -> None:
        handle = session.start("go")
        await asyncio.sleep(1)
        handle.cancel()
        run = await handle
        await asyncio.sleep(1000)
        assert run.outcome == "cancelled"
        assert run.tool_calls[0].attempts == 1

    virtual_run(main)
    assert (failures, DONE, len(model.requests)) == ([], ["odd"], 1)


def _torn_at_last() -> Any:
    @tool
    async def endless() -> str:
        """Clean up for ever, unless a second cancellation tears it."""
        try:
            await asyncio.sleep(1e6)
        finally:
            await asyncio.sleep(1e6)
        return "never"

    return endless


def _deaf() -> Any:
    @tool(name="endless")
    async def endless() -> str:
        """Clean up for ever, whatever comes."""
        try:
            await asyncio.sleep(1e6)
        finally:
            while now() < 100:
                try:
                    await asyncio.sleep(10)
                except asyncio.CancelledError:
                    continue
        return "never"

    return endless


def session_with(made: Any, middleware: Sequence[Any] = (), **config: Any) -> Session:
    model = ScriptedModel([call("endless", {})], "done")
    return Agent(model, [made], middleware=middleware, config=RunConfig(grace=2, **config)).session()


@pytest.mark.parametrize("make", [_torn_at_last, _deaf])
def test_a_cleanup_without_end_holds_neither_a_timeout_nor_a_deadline_up(make: Any) -> None:
    """Case H13: the call's limit, and the run's, are over after the grace and not after the tool's `finally`."""
    is_deaf = make is _deaf

    async def main() -> None:
        run = await session_with(make(), [Timeout(5)]).run("go")
        assert (now(), run.output) == (7, "done")
        assert len(run.stragglers) == is_deaf
        began = now()
        session = session_with(make(), deadline=5)
        with pytest.raises(Cancelled) as caught:
            await session.run("go")
        assert now() - began == 7
        assert caught.value.reason.origin == "deadline"
        assert caught.value.checkpoint is Checkpoint.TOOL_CALL
        assert len(session.stragglers) == is_deaf
        await asyncio.sleep(200)

    virtual_run(main)
