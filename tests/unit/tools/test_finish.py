"""`@tool(on_cancel="finish")`: a payment is allowed to end, and its result is recorded; but not for ever."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from loopctl import Agent, RunConfig, Session, Tool, ToolContext, Urgency, UsageError, tool
from loopctl.middleware import Timeout
from loopctl.record import CallStatus, Checkpoint, Run
from loopctl.testing import ScriptedModel, VirtualLoop, call, virtual_run

PAID = "paid"


def payment(seconds: float, within: float = 10) -> Tool[..., Any]:
    @tool(on_cancel="finish", finish_within=within)
    async def pay(ctx: ToolContext) -> str:
        """Pay, in two steps, one of them a wait of the context's own."""
        await asyncio.sleep(seconds / 2)
        await ctx.sleep(seconds / 2)
        return f"{PAID}, {ctx.is_cancelled()}"

    return pay


def stopped(
    session: Session, after: float = 1, then: Callable[[Session], object] = lambda _: None
) -> tuple[Run, float]:
    """Stop a run of *session*, and call *then* one second later; give it with the time of its end."""

    async def main() -> tuple[Run, float]:
        loop = asyncio.get_running_loop()
        handle = session.start("go")
        loop.call_later(after, session.signal.cancel)
        loop.call_later(after + 1, then, session)
        return await handle, loop.time()

    return virtual_run(main)


def session_of(*tools: Tool[..., Any], calls: tuple[str, ...] = ("pay",), **options: Any) -> Session:
    model = ScriptedModel([call(name, {}) for name in calls], "never")
    return Agent(model, tools, **({"config": RunConfig(grace=0.5)} | options)).session()


@pytest.mark.parametrize("middleware", [[], [Timeout(60)]])
def test_a_call_that_may_finish_is_not_interrupted_and_its_result_is_recorded(middleware: list[Any]) -> None:
    run, ended_at = stopped(session_of(payment(4), middleware=middleware))
    assert (run.outcome, ended_at) == ("cancelled", 4)
    assert run.tool_calls[0].status is CallStatus.COMPLETED
    assert middleware or run.tool_calls[0].result == "paid, True"
    assert run.stop is not None
    assert run.stop.checkpoint is Checkpoint.TOOL_CALL
    assert run.stragglers == ()


@pytest.mark.parametrize("middleware", [[], [Timeout(60)]])
def test_it_is_interrupted_when_its_time_is_over(middleware: list[Any]) -> None:
    run, ended_at = stopped(session_of(payment(60), middleware=middleware))
    assert (run.tool_calls[0].status, ended_at) == (CallStatus.INTERRUPTED, 11)
    assert run.stragglers == ()


@pytest.mark.shares("asyncio")  # the task that was given up when its loop closed
def test_it_is_abandoned_if_it_does_not_end_then_either() -> None:
    @tool(on_cancel="finish", finish_within=10)
    async def pay() -> str:
        """Refuse."""
        while True:
            try:
                await asyncio.sleep(1000)
            except asyncio.CancelledError:
                continue

    run, ended_at = stopped(session_of(pay))
    assert (run.tool_calls[0].status, ended_at) == (CallStatus.ABANDONED, 11)
    assert [straggler.name for straggler in run.stragglers] == ["pay"]


def test_an_abandoning_cancel_does_not_let_it_finish() -> None:
    run, ended_at = stopped(
        session_of(payment(60)), then=lambda session: session.signal.cancel(urgency=Urgency.ABANDON)
    )
    assert (run.tool_calls[0].status, ended_at) == (CallStatus.INTERRUPTED, 2)


def test_what_runs_beside_it_is_interrupted_at_once_and_what_waits_for_it_never_starts() -> None:
    stops: list[float] = []

    @tool(parallel=True)
    async def other() -> str:
        """Wait."""
        try:
            await asyncio.sleep(60)
        finally:
            stops.append(asyncio.get_running_loop().time())
        return "never"

    pay = payment(4)
    beside = tool(parallel=True, on_cancel="finish", finish_within=10)(pay._function)
    config = RunConfig(grace=0.5, dispatch="parallel")
    run, ended_at = stopped(session_of(beside, other, calls=("pay", "other"), config=config))
    assert [record.status for record in run.tool_calls] == [CallStatus.COMPLETED, CallStatus.INTERRUPTED]
    assert (stops, ended_at) == ([1], 4)
    run, _ = stopped(session_of(pay, other, calls=("pay", "other")))
    assert [record.status for record in run.tool_calls] == [CallStatus.COMPLETED, CallStatus.NOT_STARTED]


def test_it_never_starts_after_the_cancel() -> None:
    run, _ = stopped(session_of(payment(4)), after=0)
    assert run.tool_calls == ()


def test_a_middleware_that_waits_by_itself_is_pressed_at_once() -> None:
    class Slow:
        async def tool_call(self, given: Any, _: ToolContext, call_next: Any) -> Any:
            await asyncio.sleep(60)
            return await call_next(given)

    run, ended_at = stopped(session_of(payment(4), middleware=[Slow()]))
    assert ended_at == 1
    assert run.tool_calls[0].status is CallStatus.NOT_STARTED


def test_a_plain_function_may_finish_too() -> None:
    seen: list[bool] = []

    @tool(on_cancel="finish", finish_within=60)
    def pay() -> str:
        """Pay on a thread."""
        time.sleep(0.2)
        seen.append(True)
        return PAID

    async def main() -> Run:
        session = session_of(pay, config=RunConfig(grace=0))
        handle = session.start("go")
        async for event in handle:
            if type(event).__name__ == "ToolStarted":
                asyncio.get_running_loop().call_later(0.05, session.signal.cancel)
        return await handle

    run = asyncio.run(main())
    assert (run.outcome, seen) == ("cancelled", [True])
    assert (run.tool_calls[0].status, run.tool_calls[0].result) == (CallStatus.COMPLETED, PAID)


def test_the_callers_own_cancellation_waits_for_it_and_a_second_one_does_not() -> None:
    async def main(presses: int) -> float:
        session = session_of(payment(4))
        task = asyncio.ensure_future(session.run("go"))
        loop = asyncio.get_running_loop()
        for number in range(presses):
            loop.call_later(1 + number, task.cancel)
        with pytest.raises(asyncio.CancelledError):
            await task
        return loop.time()

    assert virtual_run(lambda: main(1)) == 4
    assert virtual_run(lambda: main(2)) == 2


def test_at_every_step_it_has_finished_or_never_begun() -> None:
    def play(at: int | None) -> Run:
        session = session_of(payment(4))
        loop = VirtualLoop()

        def fire(step: int) -> None:
            nonlocal steps
            if not session.runs:
                steps = step
                if step == at:
                    session.signal.cancel()

        async def main() -> Run:
            return await session.start("go")

        loop.before_step(fire)
        run = virtual_run(main, loop=loop)
        assert {record.status for record in run.tool_calls} <= {CallStatus.COMPLETED, CallStatus.NOT_STARTED}
        return run

    steps = 0
    play(None)
    assert [play(step).outcome for step in range(steps)].count("cancelled") > 10


@pytest.mark.parametrize(
    "options",
    [
        {"on_cancel": "finish"},
        {"finish_within": 3},
        {"on_cancel": "finish", "finish_within": 0},
        {"on_cancel": "finish", "finish_within": "3"},
        {"on_cancel": "never", "finish_within": 3},
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"on_cancel|finish_within"):
        tool(**options)(lambda: None)
