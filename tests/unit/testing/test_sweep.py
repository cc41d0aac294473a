"""The sweep passes what keeps its promises, and finds what does not, with the step."""

from __future__ import annotations

import asyncio

import pytest

from loopctl import Agent, RunConfig, Session, tool
from loopctl.testing import ScriptedModel, Stopped, SweepFailed, call, cancel_everywhere, say, swallow_always


@tool
async def save(name: str) -> str:
    """Save."""
    await asyncio.sleep(1)
    return name


def story() -> Session:
    model = ScriptedModel([say("a"), call("save", {"name": "1"})], "done", "again", "again")
    return Agent(model, [save]).session()


def test_a_run_that_keeps_its_promises_is_stopped_at_every_step() -> None:
    plays = cancel_everywhere(story)
    assert {stopped.run.outcome for stopped in plays} == {"cancelled", "completed"}
    assert len({(stopped.step, stopped.hand, stopped.timing) for stopped in plays}) == len(plays) > 100
    stops = {stopped.run.stop.checkpoint for stopped in plays if stopped.run.stop is not None}
    assert len(stops) >= 3


def test_promises_of_ones_own_are_checked_and_the_step_is_named() -> None:
    def check(stopped: Stopped) -> None:
        assert not stopped.run.tool_calls, "a tool was called"

    with pytest.raises(SweepFailed, match=r"session, before step \d+ of \d+: a tool was called"):
        cancel_everywhere(story, hands=["session"], timings=["before"], check=check)


@pytest.mark.shares("asyncio")  # the task that was given up when its loop closed
def test_a_tool_that_does_not_end_is_found() -> None:
    def stubborn() -> Session:
        probe = swallow_always()

        async def hang() -> str:
            """Hang."""
            asyncio.get_running_loop().call_later(50, probe.release)
            return await probe.function()

        model = ScriptedModel([call("hang", {})], "done", "again")
        return Agent(model, [hang], config=RunConfig(grace=1)).session()

    with pytest.raises(SweepFailed, match="work was abandoned: \\['hang'\\]"):
        cancel_everywhere(stubborn, hands=["handle"], timings=["at"])


def test_a_signal_that_somebody_else_fires_is_not_taken_for_the_stop() -> None:
    def impatient() -> Session:
        async def fire() -> str:
            """Stop the run."""
            session.signal.cancel("from inside")
            await asyncio.sleep(1)
            return "never"

        session = Agent(ScriptedModel([call("fire", {})], "done", "again"), [fire]).session()
        return session

    with pytest.raises(SweepFailed, match="from inside"):
        cancel_everywhere(impatient, hands=["session"], timings=["before"])
