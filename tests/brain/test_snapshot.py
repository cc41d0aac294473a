"""Freeze and thaw: what is foreign, damaged or contradictory is refused with its reason, and nothing is shared."""

from __future__ import annotations

import json

import pytest

from loopctl.brain import (
    Brain,
    CallModel,
    Limits,
    ModelFailed,
    ModelReplied,
    Moment,
    Phase,
    RunTools,
    Started,
    ToolsFinished,
    Wait,
    Waited,
)
from loopctl.brain._attempt import Attempt
from loopctl.errors import UsageError
from loopctl.fallback import Chain, Route
from loopctl.messages import (
    AssistantMessage,
    Text,
    ToolCall,
    ToolResult,
    UserMessage,
    history_to_json,
    message_to_json,
)
from loopctl.recovery import ModelRecovery

ATTEMPT = Attempt(Route(0), "stream").to_json()


def brain_in_mid_round():
    brain = Brain(tools=frozenset({"fetch", "save"}), limits=Limits(3))
    brain.step(Started((UserMessage("a"), AssistantMessage((Text("b"),))), UserMessage("hi")))
    calls = (ToolCall("1", "fetch", {"deep": {"list": [1]}}), ToolCall("2", "nope"), ToolCall("3", "save"))
    brain.step(ModelReplied(AssistantMessage(calls), "tool_calls"))
    return brain


def frozen(**changes):
    return json.loads(json.dumps(brain_in_mid_round().freeze())) | changes


def answers(*results):
    return {"role": "tool", "results": [{"call_id": call_id, "content": ""} for call_id in results]}


def test_a_thawed_brain_knows_all_that_the_frozen_one_knew():
    brain = brain_in_mid_round()
    thawed = Brain.thaw(frozen())

    assert thawed.freeze() == brain.freeze()
    for name in ("phase", "turn", "history", "scratch", "call_ids", "pending"):
        assert getattr(thawed, name) == getattr(brain, name)
    assert isinstance(thawed.pending, RunTools)
    results = (ToolResult("3", "x"), ToolResult("1", "y"))
    assert thawed.step(ToolsFinished(results)) == brain.step(ToolsFinished(results))


def test_the_limit_is_thawed_with_the_rest():
    thawed = Brain.thaw(frozen(max_turns=2))
    (call,) = thawed.step(ToolsFinished((ToolResult("3", "x"), ToolResult("1", "y"))))

    assert isinstance(call, CallModel)
    (end,) = thawed.step(ModelReplied(AssistantMessage((ToolCall("4", "fetch"),)), "tool_calls"))
    assert end.outcome == "max_turns"


def test_a_change_of_the_snapshot_does_not_reach_the_brain():
    brain = brain_in_mid_round()
    before = json.dumps(brain.freeze())
    snapshot = brain.freeze()
    snapshot["scratch"]["messages"][1]["blocks"][0]["arguments"]["deep"]["list"].append(2)
    snapshot["tools"].clear()

    assert json.dumps(brain.freeze()) == before


def test_a_change_of_the_snapshot_does_not_reach_the_thawed_brain():
    snapshot = frozen()
    brain = Brain.thaw(snapshot)
    before = json.dumps(brain.freeze())
    snapshot["scratch"]["messages"][1]["blocks"][0]["arguments"]["deep"]["list"].append(2)

    assert json.dumps(brain.freeze()) == before


@pytest.mark.parametrize("value", [None, 5, "text", [], {}, {"version": 1}, {"format": "other", "version": 2}])
def test_what_is_no_snapshot_is_refused(value):
    with pytest.raises(UsageError, match=r"not a frozen brain.*Brain\.freeze"):
        Brain.thaw(value)


def test_another_version_is_refused_with_the_next_move():
    with pytest.raises(UsageError, match="version 1, and this loopctl reads version 2: thaw it with"):
        Brain.thaw(frozen(version=1))


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"phase": "dreaming"}, "dreaming"),
        ({"phase": None}, "None"),
        ({"phase": []}, "not a frozen brain"),
        ({"turn": "1"}, "turn"),
        ({"turn": True}, "turn"),
        ({"turn": 0}, "turn 0 of 3"),
        ({"turn": 4}, "turn 4 of 3"),
        ({"max_turns": 0}, "max_turns"),
        ({"tools": "fetch"}, "tools"),
        ({"tools": [1]}, "tools"),
        ({"tools": None}, "tools"),
        ({"history": None}, "history"),
        ({"scratch": {"version": 7, "messages": []}}, "version"),
        ({"scratch": history_to_json([UserMessage("hi")])}, "no open call"),
        ({"scratch": history_to_json([])}, "no open call"),
        ({"answers": message_to_json(UserMessage("hi"))}, "answers"),
        ({"answers": answers("1", "2", "3")}, "no open call"),
        ({"answers": answers("4")}, "round"),
        ({"answers": answers("2", "2")}, "round"),
        ({"phase": "ready", "answers": answers()}, "phase READY"),
        ({"phase": "ready", "answers": answers(), "turn": 0}, "messages of its own in phase READY"),
        ({"phase": "awaiting_model"}, "awaits none"),
        ({"phase": "awaiting_model", "answers": answers(), "attempt": ATTEMPT}, "not well-formed"),
        ({"phase": "waiting", "answers": answers(), "attempt": ATTEMPT}, "not well-formed"),
        ({"phase": "waiting", "answers": answers()}, "no attempt in phase WAITING"),
        ({"phase": "awaiting_model", "answers": answers()}, "no attempt in phase AWAITING_MODEL"),
        ({"attempt": ATTEMPT}, "an attempt in phase AWAITING_TOOLS"),
        ({"attempt": 3}, "TypeError"),
        ({"attempt": ATTEMPT | {"mode": "by post"}}, "by post"),
        ({"attempt": ATTEMPT | {"wait": -1}}, "no time to wait"),
        ({"attempt": ATTEMPT | {"wait": "long"}}, "no time to wait"),
        ({"attempt": ATTEMPT | {"route": {}}}, "Route"),
        ({"attempt": ATTEMPT | {"budget": {}}}, "Budget"),
        ({"recovery": {}}, "ModelRecovery"),
        ({"is_streaming": 1}, "is_streaming"),
        ({"phase": "completed", "answers": answers()}, "not well-formed"),
        ({"phase": "failed", "answers": answers(), "scratch": history_to_json([])}, "0 messages"),
    ],
)
def test_a_snapshot_that_no_brain_can_have_written_is_refused_with_the_reason(changes, why):
    with pytest.raises(UsageError, match=why):
        Brain.thaw(frozen(**changes))


@pytest.mark.parametrize("missing", sorted(brain_in_mid_round().freeze()))
def test_a_snapshot_with_a_part_missing_is_refused(missing):
    value = frozen()
    del value[missing]

    with pytest.raises(UsageError):
        Brain.thaw(value)


def test_a_failed_run_thaws_as_failed():
    brain = Brain()
    brain.step(Started((), UserMessage("hi")))
    brain.step(ModelFailed("no"))

    assert Brain.thaw(brain.freeze()).phase is brain.phase


def test_a_thawed_brain_goes_on_with_the_budget_the_route_and_the_wait_of_the_frozen_one():
    brain = Brain(recovery=ModelRecovery(transport_retries=1, first_delay=2), is_streaming=False)
    moment = Moment(chain=Chain.of(["a", "b"]))
    brain.step(Started((), UserMessage("hi"), moment))
    brain.step(ModelFailed("no", 404, moment=moment))
    brain.step(ModelFailed("lost", None, retryable=True, moment=moment))

    thawed = Brain.thaw(json.loads(json.dumps(brain.freeze())))

    assert (thawed.phase, thawed.pending) == (Phase.WAITING, Wait(2))
    (request,) = thawed.step(Waited())
    assert (request.route, request.mode) == (Route(1), "request")
    assert thawed.step(ModelFailed("lost", None, retryable=True, moment=moment))[-1].outcome == "failed"
