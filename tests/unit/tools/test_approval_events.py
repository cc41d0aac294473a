"""What a run tells of the question for a yes, and what a cancel makes of a question that is open."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from loopctl import (
    Agent,
    ApprovalEnded,
    ApprovalRequested,
    Cancelled,
    Checkpoint,
    Event,
    Run,
    RunConfig,
    Session,
    TextDelta,
    Urgency,
    tool,
)
from loopctl.middleware import OutputLimit
from loopctl.record import CallStatus
from loopctl.recovery import RetryCall
from loopctl.testing import Scenario, ScriptedModel, Stopped, burst, call, cancel_everywhere, virtual_run

RAN: list[str] = []
CLOSINGS = ["ApprovalEnded", "ToolFinished", "TurnEnded", "RunEnded"]


@pytest.fixture(autouse=True)
def nothing_has_run() -> None:
    RAN.clear()


@tool(approval=True, parallel=True)
async def pay(to: str) -> str:
    """Pay."""
    RAN.append(to)
    return f"paid {to}"


async def never(asked: object, ctx: object) -> bool:
    await asyncio.sleep(1e6)
    return True


def session_of(approve: Any, *whom: str, **options: Any) -> Session:
    calls = [call("pay", {"to": name}) for name in whom or ("ann",)]
    return Agent(ScriptedModel(calls, "done"), tools=[pay], approve=approve, **options).session()


def now() -> float:
    return asyncio.get_running_loop().time()


def names(events: list[Event]) -> list[str]:
    return [type(event).__name__ for event in events]


@pytest.mark.parametrize("is_yes", [True, False])
def test_the_question_and_its_answer_are_told_between_start_and_end_of_the_call(*, is_yes: bool) -> None:
    async def approve(asked: object, ctx: object) -> bool:
        return is_yes

    seen: list[Event] = []
    session = session_of(approve, observers=[seen.append])

    async def main() -> list[Event]:
        return [event async for event in session.start("go")]

    events = virtual_run(main)
    assert names(events) == names(seen)
    assert names(events)[2:6] == ["ToolStarted", "ApprovalRequested", "ApprovalEnded", "ToolFinished"]
    asked, answered = events[3:5]
    assert isinstance(asked, ApprovalRequested)
    assert isinstance(answered, ApprovalEnded)
    assert answered.answer == ("allowed" if is_yes else "denied")
    assert asked.call is answered.call
    assert (asked.id, asked.name, asked.call.arguments) == (answered.id, "pay", {"to": "ann"})
    assert asked.run_id == answered.run_id == session.runs[0].id


def test_where_nobody_is_asked_nothing_is_told() -> None:
    seen: list[Event] = []
    session = session_of(None, observers=[seen.append])
    virtual_run(lambda: session.run("go"))
    assert not [event for event in seen if isinstance(event, ApprovalRequested | ApprovalEnded)]


@pytest.mark.parametrize("urgency", list(Urgency))
@pytest.mark.parametrize("middleware", [(), (OutputLimit(100),)], ids=["bare", "in middleware"])
def test_a_cancel_while_a_prompt_is_open_is_immediate_and_withdraws_it(middleware: Any, urgency: Urgency) -> None:
    """Case M1: no time passes between the cancel and the end, and each closing is told once."""
    seen: list[Event] = []
    session = session_of(never, observers=[seen.append], middleware=middleware)

    async def main() -> tuple[Run, list[Event]]:
        handle = session.start("go")
        asyncio.get_running_loop().call_later(20, lambda: handle.cancel(urgency=urgency))
        events = [event async for event in handle]
        assert now() == 20
        return await handle, events

    run, events = virtual_run(main)
    assert names(events) == names(seen)
    assert names(events)[-5:] == ["ApprovalRequested", *CLOSINGS]
    assert [event.answer for event in events if isinstance(event, ApprovalEnded)] == ["withdrawn"]
    assert run.stop is not None
    assert run.stop.checkpoint is Checkpoint.APPROVAL
    assert run.tool_calls[0].status == "not_started"


async def _go_on() -> bool:
    await asyncio.sleep(1e6)
    return True


async def _say_yes() -> bool:
    return True


async def _fail() -> bool:
    raise RuntimeError("no active run")


@pytest.mark.parametrize("after", [_go_on, _say_yes, _fail])
def test_a_cancel_from_inside_the_callback_is_a_cancel_and_not_an_error(after: Callable[[], Awaitable[bool]]) -> None:
    """Case M3: the run ends cancelled, the prompt is withdrawn, and a yes after the cancel is none."""
    seen: list[Event] = []

    async def approve(asked: object, ctx: object) -> bool:
        session.signal.cancel("said in the callback")
        return await after()

    session = session_of(approve, observers=[seen.append])

    async def main() -> list[Event]:
        handle = session.start("go")
        events = [event async for event in handle]
        with pytest.raises(Cancelled, match="said in the callback"):
            (await handle).raise_for_outcome()
        assert now() == 0
        return events

    events = virtual_run(main)
    run = session.runs[0]
    assert names(events)[-4:] == names(seen)[-4:] == CLOSINGS
    assert [event.answer for event in seen if isinstance(event, ApprovalEnded)] == ["withdrawn"]
    assert run.stop is not None
    assert (run.outcome, run.stop.checkpoint) == ("cancelled", Checkpoint.APPROVAL)
    assert (run.tool_calls[0].status, RAN) == ("not_started", [])


def test_a_cancelled_question_is_a_no_and_the_session_is_free() -> None:
    """Case M4: also when the one who is asked does not hear the cancel, and says yes afterwards."""
    deaf = asyncio.Event()

    async def approve(asked: Any, ctx: object) -> bool:
        while asked.arguments["to"] == "ann" and not deaf.is_set():
            try:
                await deaf.wait()
            except asyncio.CancelledError:
                continue
        return True

    model = ScriptedModel([call("pay", {"to": "ann"})], [call("pay", {"to": "bob"})], "done")
    session = Agent(model, tools=[pay], approve=approve).session()

    async def main() -> None:
        handle = session.start("go")
        await asyncio.sleep(5)
        assert handle.cancel()
        run = await handle
        assert now() == pytest.approx(6)  # the grace, and no more
        assert (run.outcome, run.tool_calls[0].status, run.tool_calls[0].attempts) == ("cancelled", "not_started", 0)
        assert [straggler.name for straggler in session.stragglers] == ["approve"]
        assert "idle" in repr(session)
        assert (await session.run("again")).output == "done"
        deaf.set()
        await asyncio.sleep(5)
        assert RAN == ["bob"]

    virtual_run(main)


def test_prompts_that_are_open_side_by_side_are_each_withdrawn_once() -> None:
    session = session_of(never, "ann", "bob", "cyd", config=RunConfig(dispatch="parallel"))

    async def main() -> list[Event]:
        handle = session.start("go")
        asyncio.get_running_loop().call_later(3, handle.cancel)
        return [event async for event in handle]

    events = virtual_run(main)
    asked = [event.id for event in events if isinstance(event, ApprovalRequested)]
    assert len(asked) == 3
    assert sorted(event.id for event in events if isinstance(event, ApprovalEnded)) == sorted(asked)
    assert [record.status for record in session.runs[0].tool_calls] == [CallStatus.NOT_STARTED] * 3


def test_a_reader_that_never_saw_the_question_is_told_of_no_withdrawal() -> None:
    session = session_of(never)

    async def main() -> None:
        handle = session.start("go")
        behind, ahead = aiter(handle), aiter(handle)
        for _ in range(3):
            await anext(behind)
        for _ in range(4):
            await anext(ahead)
        handle.cancel()
        assert names([event async for event in behind]) == ["ToolFinished", "TurnEnded", "RunEnded"]
        assert names([event async for event in ahead]) == CLOSINGS

    virtual_run(main)


def test_an_observer_that_stops_the_run_at_the_question_lets_nobody_be_asked() -> None:
    asked: list[object] = []
    seen: list[Event] = []

    def stop(event: Event) -> None:
        seen.append(event)
        if isinstance(event, ApprovalRequested):
            session.signal.cancel()

    session = session_of(lambda call_, ctx: asked.append(call_), observers=[stop])

    async def main() -> None:
        assert (await session.start("go")).outcome == "cancelled"

    virtual_run(main)
    assert (asked, RAN) == ([], [])
    assert names(seen)[-5:] == ["ApprovalRequested", *CLOSINGS]


def test_another_attempt_that_is_asked_about_again_tells_so_again() -> None:
    @tool(approval=True)
    def fail(to: str) -> str:
        """Fail."""
        raise OSError(to)

    seen: list[Event] = []
    agent = Agent(
        ScriptedModel([call("fail", {"to": "ann"})], "done"),
        tools=[fail],
        approve=lambda asked, ctx: asked.arguments["to"] == "ann",  # type: ignore[arg-type,return-value]
        recovery=lambda failure: RetryCall(arguments={"to": "bob"}),
        observers=[seen.append],
    )
    virtual_run(lambda: agent.session().run("go"))
    asked = [event for event in seen if isinstance(event, ApprovalRequested)]
    ended = [event for event in seen if isinstance(event, ApprovalEnded)]
    assert [event.call.arguments["to"] for event in asked] == ["ann", "bob"]
    assert [event.answer for event in ended] == ["allowed", "denied"]
    assert len({event.id for event in (*asked, *ended)}) == 1


def test_an_hour_at_the_prompt_is_no_stall_and_a_stall_after_it_is_one() -> None:
    async def after_an_hour(asked: object, ctx: object) -> bool:
        await asyncio.sleep(3600)
        return True

    @tool(approval=True)
    async def hang() -> None:
        """Hang."""
        await asyncio.sleep(1e6)

    model = ScriptedModel([call("hang", {})])
    session = Agent(model, tools=[hang], approve=after_an_hour, config=RunConfig(stall_timeout=30)).session()

    async def main() -> None:
        run = await session.start("go")
        assert run.stop is not None
        assert (run.stop.reason.origin, run.stop.checkpoint) == ("stall", Checkpoint.TOOL_CALL)
        assert now() == pytest.approx(3630)

    virtual_run(main, limit=1e4)


def test_two_prompts_are_two_reasons_not_to_count_a_stall() -> None:
    async def by_name(asked: Any, ctx: object) -> bool:
        await asyncio.sleep({"ann": 100, "bob": 1000}[asked.arguments["to"]])
        return True

    config = RunConfig(dispatch="parallel", stall_timeout=30)
    session = session_of(by_name, "ann", "bob", config=config)

    async def main() -> None:
        assert (await session.run("go")).output == "done"
        assert now() == 1000

    virtual_run(main)
    assert RAN == ["ann", "bob"]


def test_the_deadline_counts_while_a_person_is_asked() -> None:
    session = session_of(never, config=RunConfig(deadline=60, stall_timeout=30))

    async def main() -> None:
        run = await session.start("go")
        assert run.stop is not None
        assert (run.stop.reason.origin, run.stop.checkpoint) == ("deadline", Checkpoint.APPROVAL)
        assert now() == 60

    virtual_run(main)


def test_a_question_that_a_slow_reader_holds_back_is_not_asked_when_the_run_is_stopped() -> None:
    asked: list[object] = []
    calls = [burst(62), call("pay", {"to": "ann"})]  # the start of the call fills the queue: the question finds no room
    model = ScriptedModel(calls)
    agent = Agent(model, tools=[pay], approve=lambda call_, ctx: asked.append(call_), middleware=[OutputLimit(9)])  # type: ignore[arg-type,func-returns-value]
    session = agent.session()

    async def main() -> None:
        handle = session.start("go")
        reader = aiter(handle)
        for _ in range(1):
            await anext(reader)
        await asyncio.sleep(9)
        handle.cancel()
        told = [event async for event in reader]
        run = await asyncio.wait_for(handle, 10)
        assert run.stop is not None
        assert run.stop.checkpoint is Checkpoint.DELIVERY
        assert not [event for event in told if isinstance(event, ApprovalRequested | ApprovalEnded | TextDelta)]

    virtual_run(main)
    assert (asked, RAN) == ([], [])


@pytest.mark.parametrize("middleware", [(), (OutputLimit(9),)], ids=["bare", "in middleware"])
def test_a_stop_at_every_step_of_questions_side_by_side_closes_each_once_and_means_no(middleware: Any) -> None:
    async def approve(asked: Any, ctx: object) -> bool:
        await asyncio.sleep(1)
        return bool(asked.arguments["to"] == "ann")

    answers: set[str] = set()

    def is_true(stopped: Stopped) -> None:
        known = {record.id: record.status for record in stopped.run.tool_calls} if stopped.run is not None else {}
        for event in stopped.told:
            if isinstance(event, ApprovalEnded):
                answers.add(event.answer)
            if isinstance(event, ApprovalEnded) and event.answer == "withdrawn":
                assert known[event.id] == "not_started"
            if isinstance(event, ApprovalEnded) and event.answer == "denied":
                assert known[event.id] == "denied"

    config = RunConfig(dispatch="parallel", max_concurrency=2)

    def make() -> Session:
        return session_of(approve, "ann", "bob", "ann", middleware=middleware, config=config)

    cancel_everywhere(Scenario(make, check=is_true), hands=["session"])
    assert answers == {"allowed", "denied", "withdrawn"}
