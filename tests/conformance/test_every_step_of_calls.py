"""A run is stopped at every scheduling step while its calls run in waves, or wait to be tried again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from loopctl import Agent, Checkpoint, RunConfig, Tool, tool
from loopctl.record import CallStatus, ToolStarted
from loopctl.recovery import RetryCall, ToolRecovery
from loopctl.testing import ScriptedModel, VirtualLoop, call, say, virtual_run
from tests.conformance.test_every_step import EFFECTS, HANDS, STARTS, World, clean, deaf, note, slow_thread

beside: Callable[[Callable[..., Any]], Tool[..., Any]] = tool(parallel=True, resource=lambda a: a["name"][:1])


async def flaky(name: str) -> str:
    """Fail twice."""
    STARTS.append(name)
    await asyncio.sleep(0.5)
    if STARTS.count(name) <= 2:
        raise ConnectionError("lost")
    EFFECTS.append(name)
    return name


async def alone(name: str) -> str:
    """Have a side effect, with nothing beside it."""
    return await note(name)


TOOLS = [*map(beside, (note, clean, deaf, slow_thread, flaky)), alone]
NEXT = ("done", "again", "and again")


def _waves() -> ScriptedModel:
    """Three at a limit of two, one that waits for a resource of the first, one alone, one after it."""
    names = ("1", "2", "3", "1b")
    round_ = [call("note", {"name": name}) for name in names]
    return ScriptedModel([say("let me"), *round_, call("alone", {"name": "4"}), call("clean", {"name": "5"})], *NEXT)


def _uneven() -> ScriptedModel:
    """Calls that cannot be called, swallow the stop, tidy up and fail, side by side."""
    bad, unknown = call("note", {"nome": "4"}), call("nothing_of_the_kind", {})
    return ScriptedModel([call("deaf", {"name": "1"}), call("note", {"name": "2"}), bad, unknown], *NEXT)


def _threads() -> ScriptedModel:
    return ScriptedModel([call("slow_thread", {"name": "1"}), call("note", {"name": "2"})], *NEXT)


def _retries() -> ScriptedModel:
    return ScriptedModel([call("flaky", {"name": "1"}), call("note", {"name": "2"})], *NEXT)


CAUGHT = {
    _waves: {Checkpoint.TOOL_CALL, Checkpoint.WAVE},
    _uneven: {Checkpoint.TOOL_CALL},
    _threads: {Checkpoint.TOOL_CALL},
    _retries: {Checkpoint.TOOL_CALL, Checkpoint.RECOVERY_WAIT},
}


class Waves(World):
    """A run whose calls run side by side, and are tried again."""

    def __post_init__(self) -> None:
        super().__post_init__()
        config = RunConfig(grace=3, dispatch="parallel", max_concurrency=2)
        recovery = ToolRecovery(strategy=lambda failure: RetryCall(after=2 * failure.attempt))
        self.agent = Agent(self.models[0], TOOLS, recovery=recovery, config=config)
        self.session = self.agent.session()

    def check(self) -> None:
        super().check()
        run = self.session.runs[-1]
        assert not self.agent._held
        ended = [record.arguments["name"] for record in run.tool_calls if record.status is CallStatus.COMPLETED]
        assert set(ended) <= set(EFFECTS), "a call is told to have ended that had not"
        assert len(EFFECTS) == len(set(EFFECTS)), "an effect was repeated"
        told = [event.id for event in self.events if isinstance(event, ToolStarted)]
        assert len(told) == len(set(told)), "a retry was told as another call"


def _play(scenario: Callable[[], ScriptedModel], hand: str, *, reads: bool, step: int | None) -> Waves:
    world = Waves((scenario(),), hand, reads)
    loop = VirtualLoop()

    def at(number: int) -> None:
        if number == step:
            world.fire()

    loop.before_step(at)
    virtual_run(world.main, loop=loop)
    return world


@pytest.mark.parametrize("hand", HANDS)
@pytest.mark.parametrize("scenario", CAUGHT, ids=lambda scenario: scenario.__name__[1:])
def test_a_stop_at_any_step_of_the_calls_ends_the_run_once_and_cleanly(
    scenario: Callable[[], ScriptedModel], hand: str
) -> None:
    """Case B16 and Case F6 at every step: nothing starts after the stop, what had ended is in the record."""
    reads = hand != "task"
    steps = _play(scenario, hand, reads=reads, step=None).steps
    worlds = [_play(scenario, hand, reads=reads, step=step) for step in range(steps)]
    runs = [world.session.runs[0] for world in worlds if world.session.runs]
    assert "cancelled" in {run.outcome for run in runs}
    assert {run.stop.checkpoint for run in runs if run.stop is not None} >= CAUGHT[scenario]
