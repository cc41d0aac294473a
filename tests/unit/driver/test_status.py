"""What a run is doing, seen from outside at any moment."""

from __future__ import annotations

import asyncio

from loopctl import Agent, CancelReason, Checkpoint, ModelError, Run, RunConfig, RunHandle, ToolContext, tool
from loopctl.messages import ToolCall
from loopctl.record import RunStatus
from loopctl.testing import NonStreamingModel, ScriptedModel, burst, call, fail, pause, say, stall, virtual_run


async def wait() -> str:
    """Wait."""
    await asyncio.sleep(5)
    return "done"


@tool(approval=True)
async def pay() -> str:
    """Pay."""
    await asyncio.sleep(5)
    return "paid"


async def yes(_: ToolCall, __: ToolContext) -> bool:
    await asyncio.sleep(5)
    return True


def seen(agent: Agent, seconds: float) -> RunStatus:
    """Look at a run *seconds* after its start, then stop it."""

    async def main() -> RunStatus:
        handle = agent.session().start("a")
        await asyncio.sleep(seconds)
        status = handle.status
        handle.cancel()
        run = await handle
        assert run.stop is not None
        assert run.stop.checkpoint is status.checkpoint, "it was not caught where it was seen"
        assert (status.id, status.session_id, status.started_at) == (run.id, run.session_id, run.started_at)
        return status

    return virtual_run(main)


def test_a_run_is_seen_at_its_checkpoint_with_its_turn_and_its_tools() -> None:
    model = ScriptedModel([say("x"), pause(5), call("wait", {})], [say("y"), stall()])
    streaming = seen(Agent(model, [wait]), 1)
    assert (streaming.checkpoint, streaming.turn, streaming.tools) == (Checkpoint.STREAM_EVENT, 1, ())
    assert (streaming.state, streaming.stopping, streaming.model) == ("running", None, "scripted")
    model = ScriptedModel([say("x"), pause(5), call("wait", {})], [say("y"), stall()])
    working = seen(Agent(model, [wait]), 7)
    assert (working.checkpoint, working.turn, working.tools) == (Checkpoint.TOOL_CALL, 1, ("wait",))
    model = ScriptedModel([say("x"), pause(5), call("wait", {})], [say("y"), stall()])
    again = seen(Agent(model, [wait]), 12)
    assert (again.checkpoint, again.turn, again.tools) == (Checkpoint.STREAM_EVENT, 2, ())


def test_a_question_a_retry_and_a_whole_reply_are_told_apart() -> None:
    asked = seen(Agent(ScriptedModel(call("pay", {})), [pay], approve=yes), 1)
    assert (asked.checkpoint, asked.tools) == (Checkpoint.APPROVAL, ("pay",))
    allowed = seen(Agent(ScriptedModel(call("pay", {})), [pay], approve=yes), 7)
    assert (allowed.checkpoint, allowed.tools) == (Checkpoint.TOOL_CALL, ("pay",))
    busy = ModelError("busy", status=429, retryable=True, retry_after=20)
    waiting = seen(Agent(ScriptedModel(fail(busy), "fine")), 1)
    assert waiting.checkpoint is Checkpoint.STREAM_WAIT
    whole = seen(Agent(NonStreamingModel([stall()]), config=RunConfig(stream=False)), 1)
    assert whole.checkpoint is Checkpoint.MODEL_REQUEST


def test_a_run_that_a_slow_reader_holds_back_says_so() -> None:
    agent = Agent(ScriptedModel([burst(100)]))

    async def main() -> None:
        handle: RunHandle = agent.session().start("a")
        reader = aiter(handle)
        await asyncio.sleep(1)
        assert handle.status.checkpoint is Checkpoint.DELIVERY
        async for _ in reader:
            pass

    virtual_run(main)


def test_who_listens_for_the_end_is_told_once_when_the_session_is_idle_and_at_once_after_it() -> None:
    agent = Agent(ScriptedModel("fine", "fine"))
    told: list[Run] = []

    async def main() -> None:
        session = agent.session()
        handle = session.start("a")
        handle.on_end(lambda _: 1 / 0)
        handle.on_end(told.append)
        following: list[RunHandle] = []
        handle.on_end(lambda _: following.append(session.start("b")))
        run = await handle
        assert told == [run]
        handle.on_end(told.append)
        assert told == [run, run]
        assert (await following[0]).outcome == "completed"

    virtual_run(main)


def test_a_run_that_is_being_stopped_says_why() -> None:
    why = CancelReason("budget", "enough")

    async def stubborn() -> str:
        """Take a while to end."""
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.5)
        return "done"

    agent = Agent(ScriptedModel(call("stubborn", {})), [stubborn])

    async def main() -> None:
        handle = agent.session().start("a")
        await asyncio.sleep(1)
        assert not handle.is_stopping
        handle.cancel(why)
        assert handle.status.blocked_at == "", "the loop has had no turn yet, and is not blocked"
        await asyncio.sleep(0.1)
        assert handle.is_stopping
        status = handle.status
        assert (status.state, status.stopping, status.tools) == ("stopping", why, ("stubborn",))
        assert status.to_json()["stopping"] == why.to_json()
        await handle

    virtual_run(main)
