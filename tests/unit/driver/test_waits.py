"""The waits that a run declares: who is told of them, and what the stall watchdog makes of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from loopctl import Agent, CancelSignal, ModelError, Run, RunConfig
from loopctl.middleware import ModelNext, RateGate
from loopctl.model import Delta, ModelRequest
from loopctl.record import Event, WaitStarted
from loopctl.recovery import ModelRecovery
from loopctl.testing import ScriptedModel, fail, pause, say, virtual_run

LOST = fail(ModelError("lost", retryable=True))
STEADY = ModelRecovery(jitter=0, first_delay=0.5)


def limited(after: float) -> Any:
    return fail(ModelError("slow down", status=429, retryable=True, retry_after=after))


def told_by(*replies: Any, middleware: tuple[Any, ...] = (), **config: Any) -> tuple[Run, list[tuple[float, Event]]]:
    events: list[tuple[float, Event]] = []

    async def main() -> Run:
        def see(event: Event) -> None:
            events.append((asyncio.get_running_loop().time(), event))

        agent = Agent(
            ScriptedModel(*replies),
            middleware=middleware,
            observers=[see],
            recovery=STEADY,
            config=RunConfig(**config),
        )
        return await agent.session().start("go")

    return virtual_run(main), events


def waits(events: list[tuple[float, Event]]) -> list[tuple[float, float | None, str]]:
    return [(at, event.seconds, event.why) for at, event in events if isinstance(event, WaitStarted)]


def test_a_wait_that_a_person_would_notice_is_told_when_it_begins() -> None:
    run, events = told_by(LOST, LOST, limited(7), "fine")
    assert run.output == "fine"
    assert waits(events) == [(0.5, 1.0, "retry"), (1.5, 7, "rate_limit")]
    assert all(getattr(event, "run_id", "") == run.id for _, event in events)


def test_a_declared_wait_is_no_stall_and_the_time_around_it_counts() -> None:
    run, _ = told_by([pause(2), limited(50)], [pause(2), say("fine")], stall_timeout=3)
    assert run.output == "fine"
    stuck, events = told_by([pause(2), limited(50)], [pause(4), say("late")], stall_timeout=3)
    assert stuck.stop is not None
    assert stuck.stop.reason.origin == "stall"
    assert events[-1][0] == 2 + 50 + 3


def test_a_deadline_counts_on_in_a_declared_wait() -> None:
    run, events = told_by(limited(50), "late", deadline=10)
    assert run.stop is not None
    assert (run.stop.reason.origin, events[-1][0]) == ("deadline", 10)


def test_a_wait_of_unknown_length_is_told_once_it_is_long_and_may_be_a_stall() -> None:
    class Quota:
        async def model_call(self, request: ModelRequest, call_next: ModelNext) -> AsyncIterator[Delta]:
            with call_next.waiting(None, "quota"):
                await asyncio.sleep(self.seconds)
            async for delta in call_next(request):
                yield delta

        def __init__(self, seconds: float) -> None:
            self.seconds = seconds

    assert waits(told_by("a", middleware=(Quota(0.9),))[1]) == []
    assert waits(told_by("a", middleware=(Quota(30),))[1]) == [(1, None, "quota")]
    run, events = told_by("a", middleware=(Quota(30),), stall_timeout=5)
    assert run.stop is not None
    assert (run.stop.reason.origin, events[-1][0]) == ("stall", 6)


def test_a_gate_that_knows_its_wait_is_no_stall() -> None:
    gate = RateGate(1, 60)
    virtual_run(lambda: Agent(ScriptedModel("a"), middleware=[gate]).session().run("go"))
    run, events = told_by("b", middleware=(gate,), stall_timeout=5)
    assert run.output == "b"
    assert waits(events) == [(0, 60, "gate")]


@pytest.mark.parametrize("at", [0.5, 3])
def test_after_a_cancel_no_wait_is_told(at: float) -> None:
    seen: list[Event] = []

    async def main() -> None:
        signal = CancelSignal()
        asyncio.get_running_loop().call_later(at, signal.cancel)
        model = ScriptedModel([pause(1), limited(10)], [pause(1), limited(10)])
        handle = Agent(model, observers=[seen.append]).session().start("go", signal=signal)
        assert (await handle).outcome == "cancelled"

    virtual_run(main)
    assert sum(isinstance(event, WaitStarted) for event in seen) == (at > 1)


def test_a_reader_that_lies_behind_misses_a_wait_and_holds_nothing_back() -> None:
    async def main() -> None:
        handle = Agent(ScriptedModel([say(*"a" * 61), limited(5)], "fine"), recovery=STEADY).session().start("go")
        reader = aiter(handle)
        await asyncio.sleep(100)
        seen = [event async for event in reader]
        assert sum(isinstance(event, WaitStarted) for event in seen) <= 1
        assert (await handle).output == "fine"

    virtual_run(main)
