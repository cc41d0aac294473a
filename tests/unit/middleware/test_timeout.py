"""The time limit of a call: who sets it, what it stops, what follows, and what bounds a tool that does not stop."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from loopctl import Cancelled, Run, ToolContext, UsageError, tool
from loopctl.middleware import CallContext, CallNext, Timeout, ToolOutcome
from loopctl.recovery import GiveToModel, ToolFailure, ToolRecovery, retry_transient
from loopctl.testing import call, swallow_always, virtual_run
from tests.unit.middleware.layers import SEEN, Own, Setup, ends, nap, run_with

STARTS: list[float] = []


@tool(timeout=2)
async def slow(seconds: float = 50) -> str:
    """Take long."""
    STARTS.append(asyncio.get_running_loop().time())
    await asyncio.sleep(seconds)
    return "done"


@pytest.fixture(autouse=True)
def _clear() -> None:
    STARTS.clear()


async def timed(setup: Setup) -> tuple[Run, float]:
    return await setup.go(), asyncio.get_running_loop().time()


@pytest.mark.parametrize(
    "setup",
    [
        Setup([Timeout(9), Timeout(2, tools=["nap"]), Timeout(1, tools=["other"])], [call("nap", {"seconds": 50})]),
        Setup([], [call("slow")], [slow]),
        Setup([Timeout(9)], [call("slow")], [slow]),
    ],
    ids=["middleware", "tool", "both"],
)
def test_the_least_limit_stops_the_tool_and_not_the_run(setup: Setup) -> None:
    run, ended = virtual_run(lambda: timed(setup))
    (record,) = run.tool_calls
    assert (run.outcome, ends(run), ended) == ("completed", [("failed", 1)], 2)
    assert record.result == "The call took longer than 2 s and was stopped. Whether it had an effect is unknown."


def test_a_tool_that_is_quick_enough_is_left_alone() -> None:
    assert ends(Setup([Timeout(9)], [call("slow", {"seconds": 1.5})], [slow]).run()) == [("completed", 1)]


@pytest.mark.parametrize("stop_at", [2, 2.5])
def test_a_cancel_beats_the_clock(stop_at: float) -> None:
    @tool(timeout=2)
    async def tidy() -> None:
        try:
            await asyncio.sleep(50)
        finally:
            await asyncio.sleep(1)

    run = Setup([Timeout(2)], [call("tidy")], [tidy], stop_at=stop_at).run()
    assert run.outcome == "cancelled"
    assert ends(run) == [("interrupted", 1)]


@pytest.mark.parametrize("retries", [0, 2])
def test_a_tool_whose_cleanup_never_ends_is_given_up_after_the_grace_and_not_tried_again(retries: int) -> None:
    """Case H13."""
    deaf = swallow_always()

    async def main() -> tuple[Run, float]:
        layers = [Timeout(3, retries=retries)]
        setup = Setup(layers, [call("swallow_always")], [deaf.function], config={"grace": 0.5})
        run, ended = await timed(setup)
        deaf.release()
        await asyncio.sleep(1)
        return run, ended

    run, ended = virtual_run(main)
    assert (run.outcome, ends(run), ended) == ("completed", [("failed", 1)], 3.5)
    assert [straggler.name for straggler in run.stragglers] == ["swallow_always"]
    assert "may still be running, and is not tried again" in str(run.tool_calls[0].result)


def test_a_retry_has_twice_the_time_of_the_attempt_before() -> None:
    setup = Setup([Timeout(1, retries=2)], [call("nap", {"seconds": 3.5})], agent={"recovery": exact()})
    run, ended = virtual_run(lambda: timed(setup))
    assert (ends(run), SEEN) == ([("completed", 3)], ["nap"] * 3)
    assert ended == pytest.approx(1 + 0.1 + 2 + 0.2 + 3.5)
    assert run.tool_calls[0].result == "slept 3.5, key sk-12345"


def exact(**more: Any) -> ToolRecovery:
    return ToolRecovery(jitter=0, **more)


def test_when_no_retry_is_left_the_strategy_is_asked_and_then_the_model_is_told() -> None:
    seen: list[ToolFailure] = []

    def note(failure: ToolFailure) -> GiveToModel:
        seen.append(failure)
        return GiveToModel()

    run = Setup([Timeout(1, retries=1)], [call("nap", {"seconds": 9})], agent={"recovery": note}).run()
    assert ends(run) == [("failed", 2)]
    assert [(failure.attempt, type(failure.error), failure.retries) for failure in seen] == [(2, TimeoutError, 0)]
    assert "longer than 2 s" in str(run.tool_calls[0].result)


def test_the_recovery_bounds_the_retries() -> None:
    recovery = exact(max_attempts=2)
    run = Setup([Timeout(1, retries=4)], [call("nap", {"seconds": 99})], agent={"recovery": recovery}).run()
    assert ends(run) == [("failed", 2)]


def test_a_strategy_may_try_again_what_took_too_long() -> None:
    run = Setup([], [call("slow")], [slow], agent={"recovery": retry_transient(times=1)}).run()
    assert (ends(run), len(STARTS)) == ([("failed", 2)], 2)


def test_an_error_is_no_timeout_and_uses_no_retry() -> None:
    assert ends(run_with(Timeout(9, retries=2), fails=True)) == [("failed", 1)]


def test_a_stop_in_the_wait_before_a_retry_starts_none() -> None:
    recovery = exact(first_delay=5)
    setup = Setup([Timeout(1, retries=2)], [call("nap", {"seconds": 9})], stop_at=3, agent={"recovery": recovery})
    run = setup.run()
    assert (run.stop.checkpoint.name if run.stop else "", ends(run)) == ("RECOVERY_WAIT", [("failed", 1)])


def test_the_time_of_a_person_who_is_asked_does_not_count() -> None:
    async def approve(call_: Any, ctx: Any) -> bool:
        await asyncio.sleep(100)
        return True

    @tool(timeout=2, approval=True)
    async def asked() -> str:
        await asyncio.sleep(1)
        return "done"

    assert ends(Setup([Timeout(3)], [call("asked")], [asked], agent={"approve": approve}).run()) == [("completed", 1)]


def test_the_context_tells_the_tool_why_and_the_run_goes_on() -> None:
    said = []

    @tool(timeout=2)
    async def polite(ctx: ToolContext) -> str:
        with pytest.raises((asyncio.CancelledError, Cancelled)):
            await ctx.sleep(50)
        said.append((ctx.is_cancelled(), ctx.reason and (ctx.reason.origin, ctx.reason.message)))
        return "what there was so far"

    run = Setup([], [call("polite"), call("nap")], [polite, nap]).run()
    assert said == [(True, ("deadline", "the call was not finished within 2 s"))]
    assert ends(run) == [("completed", 1), ("completed", 1)]
    assert run.tool_calls[0].result == "what there was so far"


def test_a_layer_sees_the_run_and_not_the_tools_limit() -> None:
    seen: list[Any] = []

    async def look(call_: Any, ctx: CallContext, call_next: CallNext) -> ToolOutcome:
        outcome = await call_next(call_)
        seen.append((ctx.is_cancelled(), type(outcome.error), outcome.status.value))
        return outcome

    Setup([Own(look)], [call("slow")], [slow]).run()
    assert seen == [(False, TimeoutError, "failed")]


def test_a_thread_that_polls_stops_in_time() -> None:
    """In real time: a thread has no other."""
    is_polled = threading.Event()

    @tool(timeout=0.05)
    def poll(ctx: ToolContext) -> str:
        while not ctx.is_cancelled():
            is_polled.wait(0.001)
        raise RuntimeError("told to stop")

    run = asyncio.run(Setup([], [call("poll")], [poll]).go())
    assert (run.outcome, ends(run), run.stragglers) == ("completed", [("failed", 1)], ())
    assert "longer than 0.05 s and was stopped" in str(run.tool_calls[0].result)


def test_a_thread_that_cannot_poll_is_left_alone_at_once() -> None:
    """In real time: a thread has no other."""
    release = threading.Event()

    @tool(timeout=0.05)
    def wait() -> None:
        release.wait(60)

    async def main() -> Run:
        run = await Setup([], [call("wait")], [wait], config={"grace": 60}).go()
        release.set()
        return run

    run = asyncio.run(main())
    assert (run.outcome, ends(run)) == ("completed", [("failed", 1)])
    assert [straggler.name for straggler in run.stragglers] == ["wait"]


@pytest.mark.parametrize("seconds", [0, -1, "1", True, float("nan")])
def test_a_limit_that_is_none_is_refused(seconds: Any) -> None:
    for make in (lambda: tool(timeout=seconds)(lambda: None), lambda: Timeout(seconds)):
        with pytest.raises(UsageError, match=r"timeout|Timeout"):
            make()


@pytest.mark.parametrize("retries", [-1, 1.5, None, True])
def test_retries_that_are_no_number_fail_the_call_before_the_tool(retries: Any) -> None:
    async def limit(call_: Any, ctx: CallContext, call_next: CallNext) -> ToolOutcome:
        ctx.limit(9, retries=retries)
        return await call_next(call_)

    run = run_with(Own(limit))
    assert ends(run) == [("failed", 0)]
    assert "whole number from 0 on" in str(run.tool_calls[0].result)
