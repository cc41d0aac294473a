"""A stop that comes between two pieces of work: the second is neither announced nor begun."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from loopctl import Agent, Checkpoint, Run, RunConfig, Session, ToolContext, Urgency, tool
from loopctl.messages import ToolCall
from loopctl.record import Event, ToolFinished, ToolStarted
from loopctl.recovery import RetryCall, ToolRecovery
from loopctl.testing import ScriptedModel, VirtualLoop, call, virtual_run


@tool(parallel=True)
async def nap(name: str) -> str:
    """Take a nap."""
    await asyncio.sleep(1)
    return name


def stopped_after_the_first(urgency: Urgency = Urgency.STOP, **config: Any) -> tuple[Run, list[str]]:
    """Run two calls, stopped by an observer of the first one's end."""
    announced: list[str] = []

    def observe(event: Event) -> None:
        if isinstance(event, ToolStarted):
            announced.append(event.id)
        if isinstance(event, ToolFinished):
            session.signal.cancel("between", urgency=urgency)

    model = ScriptedModel([call("nap", {"name": "1"}), call("nap", {"name": "2"})], "done")
    session = Agent(model, [nap], observers=[observe], config=RunConfig(**config)).session()

    async def main() -> Run:
        return await session.start("go")

    run = virtual_run(main)
    assert [record.status for record in run.tool_calls] == ["completed", "not_started"]
    return run, announced


def checkpoint_of(run: Run) -> Checkpoint | None:
    assert run.stop is not None
    return run.stop.checkpoint


# A drain tells everything, so what was begun after it would be seen.
@pytest.mark.parametrize("urgency", [Urgency.DRAIN, Urgency.STOP])
def test_a_stop_between_two_calls_leaves_the_second_unannounced(urgency: Urgency) -> None:
    run, announced = stopped_after_the_first(urgency)
    assert checkpoint_of(run) is Checkpoint.BETWEEN_CALLS
    assert announced == ["call_1_0"]


@pytest.mark.parametrize("urgency", [Urgency.DRAIN, Urgency.STOP])
def test_a_stop_leaves_the_queued_calls_of_a_wave_unannounced(urgency: Urgency) -> None:
    run, announced = stopped_after_the_first(urgency, dispatch="parallel", max_concurrency=1)
    assert checkpoint_of(run) is Checkpoint.WAVE
    assert announced == ["call_1_0"]


@pytest.mark.parametrize("urgency", [Urgency.DRAIN, Urgency.STOP])
def test_a_stop_in_the_wait_before_a_retry_ends_it_at_once(urgency: Urgency) -> None:
    tries: list[int] = []

    async def flaky() -> str:
        """Fail."""
        tries.append(1)
        raise ConnectionError("lost")

    recovery = ToolRecovery(strategy=lambda failure: RetryCall(after=30))
    session: Session = Agent(ScriptedModel([call("flaky", {})], "done"), [flaky], recovery=recovery).session()

    async def main() -> Run:
        handle = session.start("go")
        await asyncio.sleep(1)
        assert tries == [1]
        session.signal.cancel("no more", urgency=urgency)
        run = await handle
        assert asyncio.get_running_loop().time() == 1
        return run

    run = virtual_run(main)
    assert checkpoint_of(run) is Checkpoint.RECOVERY_WAIT
    assert tries == [1]


def test_a_call_that_waits_for_the_door_of_its_wave_is_stopped_there() -> None:
    """A reader holds the first call's event back; the others wait for their turn to hand over theirs."""
    model = ScriptedModel([call("nap", {"name": str(number)}) for number in range(100)], "done")
    config = RunConfig(dispatch="parallel", max_concurrency=100)
    session = Agent(model, [nap], config=config).session()

    async def main() -> None:
        handle = session.start("go")
        reader = aiter(handle)
        await anext(reader)
        await asyncio.sleep(5)
        assert handle.run is None
        before = VirtualLoop.running().turns
        session.signal.cancel()
        assert checkpoint_of(await handle) is Checkpoint.DELIVERY
        assert VirtualLoop.running().turns - before < 20, "they were let through the door one after the other"
        assert asyncio.get_running_loop().time() == 5
        await reader.aclose()

    virtual_run(main)


def test_a_question_that_waits_for_the_door_of_its_wave_is_not_asked_after_the_stop() -> None:
    """The first call has its question to tell, while a later one holds the door with the news of its start."""
    asked: list[str] = []

    @tool(parallel=True, approval=True)
    async def risky() -> str:
        """Do something that needs a yes."""
        return "done"

    async def approve(wanted: ToolCall, _: ToolContext) -> bool:
        asked.append(wanted.id)
        return True

    model = ScriptedModel([call("risky", {}), *(call("nap", {"name": str(number)}) for number in range(100))], "done")
    config = RunConfig(dispatch="parallel", max_concurrency=200)
    session = Agent(model, [nap, risky], approve=approve, config=config).session()

    async def main() -> None:
        handle = session.start("go")
        reader = aiter(handle)
        await anext(reader)
        await asyncio.sleep(0.5)
        session.signal.cancel()
        assert checkpoint_of(await handle) is Checkpoint.DELIVERY
        assert asked == []
        await reader.aclose()

    virtual_run(main)
