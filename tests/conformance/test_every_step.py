"""A run is stopped at every scheduling step, by every hand that can stop it, and the promises hold each time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import pytest

from loopctl import (
    Agent,
    CancelReason,
    CancelSignal,
    Checkpoint,
    ModelError,
    Run,
    RunConfig,
    RunEnded,
    RunHandle,
    ToolFinished,
    ToolStarted,
    tool,
)
from loopctl.fallback import Chain
from loopctl.messages import find_problems
from loopctl.record import CallStatus, Event, TurnEnded, TurnStarted
from loopctl.testing import (
    NonStreamingModel,
    ScriptedModel,
    VirtualLoop,
    absorb,
    call,
    fail,
    no_end,
    pause,
    say,
    slow_close,
    virtual_run,
)

LOST = fail(ModelError("lost", retryable=True))
EFFECTS: list[str] = []
STARTS: list[str] = []
"""Tools of tasks whose first line has run. (A thread's runs whenever the system lets it.)"""


async def note(name: str) -> str:
    """Have a side effect."""
    STARTS.append(name)
    await asyncio.sleep(1)
    EFFECTS.append(name)
    return name


async def clean(name: str) -> str:
    """Have a side effect, and tidy up."""
    STARTS.append(name)
    try:
        await asyncio.sleep(1)
        EFFECTS.append(name)
    finally:
        await asyncio.sleep(0.1)
    return name


async def deaf(name: str) -> str:
    """Swallow a cancellation and go on."""
    STARTS.append(name)
    try:
        await asyncio.sleep(1)
    except asyncio.CancelledError:
        await asyncio.sleep(0.2)
    EFFECTS.append(name)
    return name


def slow_thread(name: str) -> str:
    """Do it on a thread."""
    EFFECTS.append(name)
    return name


TOOLS = [tool(note), tool(clean), tool(deaf), tool(slow_thread)]
"""Made once: a schema takes longer than a run."""


def _text() -> ScriptedModel:
    return ScriptedModel([say("a", "b", "c")], "again", "and again")


def _slow_text() -> ScriptedModel:
    return ScriptedModel([say("a"), pause(5), say("b"), slow_close(0.2)], "again", "and again")


def _tools() -> ScriptedModel:
    return ScriptedModel(
        [say("let me"), call("note", {"name": "1"}), call("note", {"name": "2"})],
        [call("nothing_of_the_kind", {}), call("clean", {"name": "3"})],
        [call("nothing_of_the_kind", {}), call("note", {"nome": "4"})],
        "done",
        "again",
        "and again",
    )


def _deaf_tool() -> ScriptedModel:
    return ScriptedModel([call("deaf", {"name": "1"}), call("note", {"name": "2"})], "done", "again", "and again")


def _thread_tool() -> ScriptedModel:
    return ScriptedModel([call("slow_thread", {"name": "1"})], "done", "again", "and again")


def _absorbing_model() -> ScriptedModel:
    return ScriptedModel([absorb(), say("a"), pause(1), say("b")], "again", "and again")


def _retry() -> ScriptedModel:
    broken = [say("a"), no_end()]
    return ScriptedModel([say("a"), LOST], LOST, broken, [say("whole"), call("note", {"name": "1"})], "done", "again")


def _rate_limit() -> ScriptedModel:
    limit = ModelError("slow down", status=429, retryable=True, retry_after=7)
    return ScriptedModel([say("a"), fail(limit)], fail(limit), "done", "again", "and again")


def _rescue() -> ScriptedModel:
    return NonStreamingModel([say("a"), LOST], LOST, LOST, LOST, [say("b"), pause(1), say("c")], "again", "and again")


def _fallback() -> tuple[ScriptedModel, ...]:
    denied = fail(ModelError("denied", status=403))
    first = ScriptedModel([say("a"), pause(1), denied], repeat=True)
    second = ScriptedModel([say("b"), pause(1), denied], repeat=True)
    return first, second, ScriptedModel([say("c"), call("note", {"name": "1"})], "done", "again", "and again")


SCENARIOS = (
    _text,
    _slow_text,
    _tools,
    _deaf_tool,
    _thread_tool,
    _absorbing_model,
    _retry,
    _rate_limit,
    _rescue,
    _fallback,
)
CAUGHT = {
    _retry: {Checkpoint.STREAM_EVENT, Checkpoint.STREAM_WAIT},
    _rate_limit: {Checkpoint.STREAM_EVENT, Checkpoint.STREAM_WAIT},
    _rescue: {Checkpoint.STREAM_EVENT, Checkpoint.STREAM_WAIT, Checkpoint.RESCUE},
}
"""Checkpoints at which some of the stops of a scenario must have been caught, or it did not come by there."""
Scenario: TypeAlias = Callable[[], ScriptedModel | tuple[ScriptedModel, ...]]
HANDS = ("handle", "session", "signal", "twice", "task")


@dataclass
class World:
    """One run of a scenario, and what was seen of it."""

    models: tuple[ScriptedModel, ...]
    hand: str
    reads: bool
    outside: CancelSignal = field(default_factory=CancelSignal)
    events: list[Event] = field(default_factory=list)
    answer: bool | None = None
    at_fire: tuple[int, int, int] = (0, 0, 0)
    chain: Chain | None = None
    """How the models had done when the stop came."""
    handle: RunHandle | None = None
    task: asyncio.Task[Run] | None = None
    steps: int = 0

    def __post_init__(self) -> None:
        EFFECTS.clear()
        STARTS.clear()
        model, *others = self.models
        self.agent = Agent(model, TOOLS, fallback_models=others, config=RunConfig(grace=3))
        self.session = self.agent.session()

    @property
    def requests(self) -> int:
        return sum(len(model.requests) for model in self.models)

    def fire(self) -> None:
        if self.steps:  # threads do not take the same steps each time: it came when all was over
            return
        reason = CancelReason("user", self.hand)
        self.chain = self.agent.chain
        self.at_fire = (self.requests, len(STARTS), len(self.events))
        match self.hand:
            case "handle":
                self.answer = None if self.handle is None else self.handle.cancel(reason)
            case "session":
                self.answer = self.session.signal.cancel(reason)
            case "signal":
                self.answer = self.outside.cancel(reason)
            case "twice":
                self.answer = self.session.signal.cancel(reason)
                self.session.signal.cancel("again")
            case _:
                self.answer = None if self.task is None else self.task.cancel()

    async def main(self) -> None:
        if self.hand == "task":
            self.task = asyncio.ensure_future(self.session.run("go"))
            await asyncio.wait([self.task])
            assert self.task.cancelled() == (self.answer is True)
            if not self.session.runs:  # cancelled before its first step: no run was ever started
                return
        else:
            self.handle = self.session.start("go", signal=self.outside)
            if self.reads:
                async for event in self.handle:
                    self.events.append(event)
            await self.handle
        self.steps = VirtualLoop.running().steps
        self.check()
        await self.check_next()

    def check(self) -> None:
        run = self.session.runs[-1]
        assert run.outcome in {"completed", "cancelled"}
        assert not find_problems(self.session.history)
        assert not run.stragglers
        assert all(exchange.is_clean for model in self.models for exchange in model.exchanges)
        statuses = {record.id: record.status for record in run.tool_calls}
        assert len(statuses) == sum(len(turn.reply.tool_calls) for turn in run.turns)
        if run.outcome == "completed":
            assert run.stop is None
            return
        assert run.stop is not None
        assert run.stop.reason == (
            CancelReason("caller", run.stop.reason.message) if self.hand == "task" else CancelReason("user", self.hand)
        )
        assert self.session.history == ()
        assert self.session.signal.is_cancelled() is False
        if self.hand != "task" and self.answer is not None:
            requests, starts, told = self.at_fire
            assert self.agent.chain is self.chain, "a breaker was fed after the cancel"
            assert self.requests <= requests, "a model was asked after the cancel"
            assert len(STARTS) <= starts, "a tool was started after the cancel"
            assert all(isinstance(event, ToolFinished | TurnEnded | RunEnded) for event in self.events[told:])
        assert EFFECTS.count("2") == (statuses.get("call_1_1") is CallStatus.COMPLETED)

    async def check_next(self) -> None:
        run = self.session.runs[-1]
        is_pending = self.session.signal.is_cancelled()
        if is_pending:  # the firing came after the end: it belongs to the next run
            assert run.outcome == "completed"
            assert self.hand in {"session", "twice"}
            following = await self.session.start("again")
            assert following.outcome == "cancelled"
            assert following.turns == ()
        if self.reads and self.hand != "task":
            self.check_pairs()
        assert (await self.session.run("again")).outcome == "completed"
        if self.hand == "handle" and self.handle is not None:
            assert self.handle.cancel() is False
            assert self.answer in {None, run.outcome == "cancelled"}

    def check_pairs(self) -> None:
        for begin, end in ((ToolStarted, ToolFinished), (TurnStarted, TurnEnded)):
            begun = [event for event in self.events if isinstance(event, begin)]
            ended = [event for event in self.events if isinstance(event, end)]
            assert len(begun) == len(ended)
        assert [event for event in self.events if isinstance(event, RunEnded)] == [self.events[-1]]


def _play(scenario: Scenario, hand: str, *, reads: bool, step: int | None) -> World:
    models = scenario()
    world = World(models if isinstance(models, tuple) else (models,), hand, reads)
    loop = VirtualLoop()

    def at(number: int) -> None:
        if number == step:
            world.fire()

    loop.before_step(at)
    virtual_run(world.main, loop=loop)
    return world


@pytest.mark.parametrize("hand", HANDS)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__[1:])
def test_a_stop_at_any_step_ends_the_run_once_and_cleanly(scenario: Scenario, hand: str) -> None:
    """Case B16, Case A1 and Case B2 at every step: cancelled or completed, nothing in between, the next run works."""
    for reads in (True, False):
        steps = _play(scenario, hand, reads=reads, step=None).steps
        worlds = [_play(scenario, hand, reads=reads, step=step) for step in range(steps)]
        outcomes = {world.session.runs[0].outcome for world in worlds if world.session.runs}
        assert "cancelled" in outcomes
        stops = [world.session.runs[0].stop for world in worlds if world.session.runs]
        assert CAUGHT.get(scenario, set()) <= {stop.checkpoint for stop in stops if stop is not None}
        # A thread takes as many steps as it likes, so the last ones may not be reached.
        assert "completed" in outcomes or scenario is _thread_tool
