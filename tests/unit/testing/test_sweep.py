"""The sweep passes what keeps its promises, and finds what does not, with the stop that shows it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from loopctl import Agent, Checkpoint, RunConfig, RunStarted, Session, UsageError, tool
from loopctl.messages import UserMessage
from loopctl.model import ModelRequest
from loopctl.testing import (
    Scenario,
    ScriptedModel,
    Stop,
    Stopped,
    SweepFailed,
    call,
    cancel_at,
    cancel_everywhere,
    pause,
    say,
    swallow_always,
)


@tool
async def save(name: str) -> str:
    """Save."""
    await asyncio.sleep(1)
    return name


def story() -> Session:
    model = ScriptedModel([say("a"), call("save", {"name": "1"})], "done", "again", "again")
    return Agent(model, [save]).session()


def test_a_run_that_keeps_its_promises_is_stopped_everywhere() -> None:
    result = cancel_everywhere(story)
    assert set(result.outcomes) == {"cancelled", "completed"}
    assert result.stops > 7 * result.steps
    assert set(result.sources) == {"loop", "task", "thread", "observer", "middleware", "tool"}
    assert len(result.checkpoints) >= 4
    assert str(result).startswith(f"story: {result.stops} stops at {result.steps} steps: ")


def test_a_thorough_sweep_plays_the_whole_product() -> None:
    result = cancel_everywhere(
        story,
        hands=["handle", "caller"],
        sources=["loop", "thread"],
        timings=["at", "twice"],
        graces=[0, 1],
        is_thorough=True,
    )
    assert result.stops == result.steps * 2 * (2 * 2 + 1 * 2)


def test_what_is_swept_can_be_narrowed() -> None:
    result = cancel_everywhere(story, hands=["handle"], sources=["tool"], timings=["with"])
    assert (result.stops, dict(result.outcomes), dict(result.sources)) == (1, {"cancelled": 1}, {"tool": 1})


def test_promises_of_ones_own_are_checked_and_the_stop_can_be_played_alone() -> None:
    def check(stopped: Stopped) -> None:
        assert stopped.run is None or not stopped.run.tool_calls, "a tool was called"

    scenario = Scenario(story, check=check)
    with pytest.raises(SweepFailed, match=r"Stop\(\d+, 'session', 'loop', 'before'\): a tool was") as failed:
        cancel_everywhere(scenario, hands=["session"], sources=["loop"], timings=["before"])
    number = int(str(failed.value).split("Stop(")[1].split(",")[0])
    with pytest.raises(SweepFailed, match="a tool was called"):
        cancel_at(scenario, Stop(number))
    before = cancel_at(scenario, Stop(number - 1)).run
    assert before is not None
    assert before.outcome == "cancelled"


def test_a_checkpoint_that_the_scenario_does_not_come_by_is_told() -> None:
    with pytest.raises(SweepFailed, match="no stop was caught at RESCUE"):
        cancel_everywhere(Scenario(story, catches=frozenset({Checkpoint.RESCUE})), sources=["tool"])


def test_a_scenario_that_cannot_be_run_is_told_as_such() -> None:
    def endless() -> Session:
        patient = RunConfig(turn_timeout=None, first_event_timeout=None)
        return Agent(ScriptedModel([pause(1e9)]), config=patient).session()

    with pytest.raises(SweepFailed, match="not stopped: time limit"):
        cancel_everywhere(endless)


@pytest.mark.shares("asyncio")  # the task that was given up when its loop closed
def test_a_tool_that_does_not_end_is_found_unless_that_is_expected() -> None:
    async def hang() -> str:
        """Hang."""
        probe = swallow_always()
        asyncio.get_running_loop().call_later(50, probe.release)
        return await probe.function()

    def stubborn() -> Session:
        model = ScriptedModel([call("hang", {})], "done", "again", "again")
        return Agent(model, [hang], config=RunConfig(grace=1)).session()

    with pytest.raises(SweepFailed, match="work was abandoned: hang"):
        cancel_everywhere(stubborn, sources=["tool"])
    cancel_everywhere(Scenario(stubborn, stragglers=True), sources=["tool"])


def test_a_signal_that_somebody_else_fires_is_not_taken_for_the_stop() -> None:
    made: list[Session] = []

    def impatient() -> Session:
        async def fire() -> str:
            """Stop the run, but not that of the first session."""
            if session is not made[0]:
                session.signal.cancel("from inside")
            await asyncio.sleep(1)
            return "never"

        session = Agent(ScriptedModel([call("fire", {})], "done", "again"), [fire]).session()
        made.append(session)
        return session

    with pytest.raises(SweepFailed, match="from inside"):
        cancel_everywhere(impatient, sources=["loop"], timings=["before"])


def _misdeed(do: Callable[[Session], object]) -> Callable[[], Session]:
    """Make a scenario whose tool does something when it is cancelled that a broken engine might do."""

    def make() -> Session:
        async def work() -> str:
            """Work, and misbehave in the cleanup."""
            try:
                await asyncio.sleep(1)
            except asyncio.CancelledError:
                result = do(session)
                if asyncio.iscoroutine(result):
                    await result
                raise
            return "done"

        model = ScriptedModel([call("work", {})], "done", "again", "and again", "and on")
        session = Agent(model, [work, save], fallback_models=[ScriptedModel("b", repeat=True)]).session()
        return session

    return make


async def _ask(session: Session) -> None:
    async for _ in session.agent.models[0].stream(ModelRequest("", (UserMessage("hi"),))):
        pass


async def _start_a_tool(session: Session) -> None:
    await session.agent.tools["save"].call({"name": "x"}, None)


def _count(session: Session) -> None:
    agent = session.agent
    agent.chain = agent.chain.failed(agent.chain.route(0), 0)


def _commit(session: Session) -> None:
    session._history += (session._active.input,)


def _break_the_next_run(session: Session) -> None:
    session.agent.models = (ScriptedModel(name="scripted"), session.agent.models[1])
    session.agent.config = replace(session.agent.config, max_turns=1)


def _tell_later(session: Session) -> None:
    execution = session._active

    def tell() -> None:
        if execution.run is None:
            asyncio.get_running_loop().call_soon(tell)
        else:
            execution.tell(RunStarted(execution.id))

    tell()


def _leave_a_task(session: Session) -> None:
    session.agent.forgotten = asyncio.ensure_future(asyncio.sleep(1000))


@pytest.mark.parametrize(
    ("misdeed", "told"),
    [
        (_ask, "1 model requests were sent after it"),
        (_start_a_tool, "1 tools were started after it"),
        (_count, "a breaker counted after it"),
        (_commit, "the conversation is broken|a cancelled run was committed"),
        (_tell_later, "1 events came after the end"),
        (_leave_a_task, "this goes on: sleep at"),
    ],
)
def test_what_happens_after_the_stop_is_found(misdeed: Callable[[Session], object], told: str) -> None:
    with pytest.raises(SweepFailed, match=told):
        cancel_everywhere(_misdeed(misdeed), sources=["tool"], timings=["before"])


def test_what_is_left_behind_is_traced_to_its_stop() -> None:
    gate = threading.Event()

    def leave_a_thread(_: Session) -> None:
        threading.Thread(target=gate.wait, name="forgotten").start()

    try:
        with pytest.raises(
            SweepFailed, match=r"Stop\(0, 'session', 'tool', 'before'\): left behind: threads: forgotten"
        ):
            cancel_everywhere(_misdeed(leave_a_thread), sources=["observer", "tool"], timings=["before"])
    finally:
        gate.set()


def test_the_middleware_that_stops_the_run_is_there_for_its_own_stops_only() -> None:
    plain = cancel_at(story, Stop(3))
    layered = cancel_at(story, Stop(0, source="middleware"))
    assert plain.session.agent.middleware.around_tools == ()
    assert len(layered.session.agent.middleware.around_tools) == 1
    assert layered.run.stop.reason == layered.reason


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        ({"sources": ["lop"]}, r"sources=\['lop'\]: choose among loop, task"),
        ({"sources": "loop"}, r"sources= takes a list: give \['loop'\]"),
        ({"hands": []}, "hands="),
        ({"timings": ["after"]}, "timings="),
    ],
)
def test_a_stop_that_there_is_not_is_refused_for_a_sweep_of_it_would_find_no_fault(choice: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        cancel_everywhere(story, **choice)
    with pytest.raises(UsageError, match=r"Stop\(hand='sesion'\): there are session, handle"):
        Stop(0, "sesion")  # type: ignore[arg-type]


def test_a_sweep_that_stops_nothing_has_failed() -> None:
    with pytest.raises(SweepFailed, match="no stop was played: the run makes no call of tool"):
        cancel_everywhere(lambda: Agent(ScriptedModel("done", repeat=True)).session(), sources=["tool"])


def test_what_makes_no_session_is_told_as_such() -> None:
    agent = Agent(ScriptedModel("done", repeat=True))
    with pytest.raises(UsageError, match="anew for each stop, not a Session"):
        cancel_everywhere(agent.session())  # type: ignore[arg-type]
    with pytest.raises(SweepFailed, match="the agent gave Agent and no Session: return"):
        cancel_everywhere(Scenario(lambda: agent, name="the agent"))  # type: ignore[arg-type,return-value]
