"""The stepper drives the brain without a loop: what it tells it, what it keeps, what it refuses."""

from __future__ import annotations

import subprocess
import sys

import pytest

from loopctl import CancelReason, Checkpoint, ModelError, UsageError
from loopctl.brain import CallModel, CancelRequested, Finish, Limits, Phase, RunTools, Started, Wait
from loopctl.errors import IllegalTransition
from loopctl.fallback import BreakerState
from loopctl.messages import ToolCall, ToolMessage, ToolResult, UserMessage, find_problems
from loopctl.recovery import ModelRecovery
from loopctl.testing import Stepper

LIMIT = ModelError("slow down", status=429, retryable=True, retry_after=7)
DENIED = ModelError("denied", status=403)


def fetch(call_id: str = "c1") -> ToolCall:
    return ToolCall(call_id, "fetch", {"url": "x"})


def test_a_run_is_told_fact_by_fact() -> None:
    stepper = Stepper(tools=["fetch"])
    asked = stepper.start("hi")
    assert isinstance(asked, CallModel)
    assert asked.messages == (UserMessage("hi"),)
    assert stepper.reply("let me", fetch()) == RunTools(1, (fetch(),))
    again = stepper.finish({"c1": "a page"})
    assert isinstance(again, CallModel)
    assert again.messages[-1] == ToolMessage((ToolResult("c1", "a page"),))
    assert stepper.reply("It is a page.") == Finish("completed", "It is a page.")


def test_only_completed_runs_are_in_the_conversation_of_the_next() -> None:
    stepper = Stepper()
    stepper.start("one")
    stepper.reply("first")
    stepper.start("two")
    assert stepper.cancel("enough") == Finish("cancelled", None)
    stepper.start("three")
    stepper.fail(DENIED)
    asked = stepper.start("four")
    assert isinstance(asked, CallModel)
    assert [getattr(message, "text", None) for message in asked.messages] == ["one", "first", "four"]
    assert not find_problems(stepper.history)


def test_waits_take_the_time_that_the_policy_says_with_the_jitter_that_is_given() -> None:
    stepper = Stepper()
    stepper.jitter = 0.05
    stepper.start()
    assert stepper.fail() == Wait(pytest.approx(0.105))
    stepper.wait()
    stepper.jitter = -0.1
    assert stepper.fail() == Wait(pytest.approx(0.18))
    stepper.wait()
    assert stepper.fail(LIMIT) == Wait(7)
    assert isinstance(stepper.wait(), CallModel)
    assert stepper.now == pytest.approx(0.105 + 0.18 + 7)


def test_the_rescue_is_asked_of_models_that_can_be_asked_in_one_piece() -> None:
    for can_complete, expected in ((True, "rescue"), (False, "failed")):
        stepper = Stepper(recovery=ModelRecovery(transport_retries=0), can_complete=can_complete)
        stepper.start()
        after = stepper.fail()
        assert getattr(after, "mode", None) == "rescue" if can_complete else after == Finish("failed", None), expected
    rescued = Stepper(recovery=ModelRecovery(transport_retries=0), can_complete=True)
    rescued.start()
    rescued.fail()
    assert rescued.fail() == Finish("failed", None)


def test_the_chain_remembers_over_runs_how_the_models_did() -> None:
    stepper = Stepper(models=["good", "spare"])
    for _ in range(3):
        stepper.start()
        second = stepper.fail(DENIED)
        assert isinstance(second, CallModel)
        assert second.route.index == 1
        stepper.reply("by the spare")
    assert stepper.chain.state(stepper.now) is BreakerState.FALLBACK
    straight = stepper.start()
    assert isinstance(straight, CallModel)
    assert straight.route.index == 1
    stepper.now += 60
    probe = stepper.start()
    assert isinstance(probe, CallModel)
    assert (probe.route.index, probe.route.is_probe) == (0, True)


def test_call_ids_are_made_unique_as_a_run_does_it() -> None:
    stepper = Stepper(tools=["fetch"])
    stepper.start()
    asked = stepper.reply(fetch("c"), fetch("c"))
    assert isinstance(asked, RunTools)
    first, second = (call.id for call in asked.calls)
    assert first != second
    stepper.finish({first: ToolResult(first, "no", is_error=True)})
    assert stepper.reply("fine") == Finish("completed", "fine")


def test_the_last_turn_that_is_allowed_runs_no_tools() -> None:
    stepper = Stepper(tools=["fetch"], limits=Limits(1))
    stepper.start()
    assert stepper.reply(fetch()) == Finish("max_turns", None)


def test_the_log_has_each_step_and_says_where_the_brain_was() -> None:
    stepper = Stepper()
    stepper.start()
    stepper.cancel(CancelReason("deadline"), Checkpoint.STREAM_EVENT)
    assert [(taken.before, type(taken.fact), taken.after) for taken in stepper.log] == [
        (Phase.READY, Started, Phase.AWAITING_MODEL),
        (Phase.AWAITING_MODEL, CancelRequested, Phase.CANCELLED),
    ]
    assert stepper.effects == (Finish("cancelled", None),)
    assert repr(stepper) == "<Stepper CANCELLED turn=1 now=0>"


def test_what_cannot_happen_is_refused_and_changes_nothing() -> None:
    stepper = Stepper(tools=["fetch"])
    with pytest.raises(IllegalTransition):
        stepper.reply("too early")
    stepper.start()
    with pytest.raises(IllegalTransition):
        stepper.wait()
    assert stepper.now == 0
    stepper.reply(fetch())
    with pytest.raises(UsageError, match=r"no such calls are open: c2\. Open are: c1"):
        stepper.finish({"c2": "what?"})
    stepper.finish()
    stepper.reply("done")
    with pytest.raises(UsageError, match="came after the end of the run"):
        stepper.cancel()
    assert len(stepper.log) == 4 + 1  # a cancel after the end is a step that changes nothing


def test_the_stepper_loads_no_event_loop() -> None:
    program = "import sys; from loopctl.testing import Stepper; Stepper().start(); assert 'asyncio' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)
