"""Random runs: whatever a driver feeds in, the promises of the brain hold after each step."""

from __future__ import annotations

import json

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from loopctl.brain import (
    TABLE,
    Brain,
    CallModel,
    CancelRequested,
    Finish,
    Limits,
    ModelFailed,
    ModelReplied,
    Phase,
    RefuseCalls,
    RunTools,
    Started,
    ToolsFinished,
    with_unique_ids,
)
from loopctl.errors import IllegalTransition
from loopctl.messages import (
    AssistantMessage,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
    find_problems,
)
from loopctl.record import CancelReason, Checkpoint

TOOLS = ("fetch", "save")

texts = st.text(max_size=8)
arguments = st.dictionaries(texts, st.none() | st.integers() | texts, max_size=2)
ids = st.sampled_from(["", "a", "b", "call_1", "a_2"])
calls = st.builds(ToolCall, ids, st.sampled_from([*TOOLS, "unknown"]), arguments) | st.builds(
    ToolCall, ids, st.sampled_from(TOOLS), st.just({}), texts
)
blocks = st.one_of(st.builds(Text, texts), st.builds(Thinking, texts), calls)
# Rounds in which some calls can run and others cannot are the hard ones, so they are drawn often.
replies = st.one_of(
    st.builds(AssistantMessage, st.lists(blocks, max_size=4).map(tuple)),
    st.builds(AssistantMessage, st.lists(calls, min_size=2, max_size=4).map(tuple)),
)
cancels = st.builds(
    CancelRequested, st.builds(CancelReason, st.sampled_from(["user", "deadline"]), texts), st.sampled_from(Checkpoint)
)
failures = st.builds(ModelFailed, texts, st.none() | st.integers(400, 599), st.booleans())
histories = st.sampled_from(
    [
        (),
        (UserMessage("before"), AssistantMessage((Text("yes"),))),
        (
            UserMessage("before"),
            AssistantMessage((ToolCall("a", "gone"),)),
            ToolMessage((ToolResult("a", "x"),)),
            AssistantMessage((Text("yes"),)),
        ),
    ]
)


class Runs(RuleBasedStateMachine):
    """One brain driven well, a twin that is frozen and thawed before each step, and a note of what was asked for."""

    @initialize(max_turns=st.integers(1, 4), history=histories)
    def ready(self, max_turns, history):
        self.brain = Brain(tools=frozenset(TOOLS), limits=Limits(max_turns))
        self.history = history
        self.asked = None
        self.refused = []
        self.finishes = 0

    def feed(self, fact):
        before = self.brain.phase
        twin = Brain.thaw(json.loads(json.dumps(self.brain.freeze())))
        assert twin.pending == self.brain.pending

        effects = self.brain.step(fact)

        assert twin.step(fact) == effects
        assert twin.freeze() == self.brain.freeze()
        if before.is_terminal:
            assert effects == ()
            return
        self.check_shape(before, fact, effects)
        self.asked = effects[-1]
        self.finishes += isinstance(effects[-1], Finish)

    def check_shape(self, before, fact, effects):
        *first, last = effects
        assert all(isinstance(effect, RefuseCalls) for effect in first)
        assert len(first) <= 1
        moves = {(move.to, move.last) for move in TABLE[before, type(fact)].moves}
        assert (self.brain.phase, type(last)) in moves
        self.refused = list(first[0].results) if first else []
        if isinstance(last, CallModel):
            assert find_problems(last.messages) == ()
            assert last.messages == self.brain.history + self.brain.scratch

    @precondition(lambda self: self.brain.phase is Phase.READY)
    @rule(text=texts)
    def start(self, text):
        self.feed(Started(self.history, UserMessage(text)))
        assert self.brain.history == self.history

    @precondition(lambda self: isinstance(self.asked, CallModel))
    @rule(reply=replies)
    def reply(self, reply):
        turn, reply = self.asked.turn, with_unique_ids(reply, self.brain.call_ids)
        before = self.brain.scratch
        self.feed(ModelReplied(reply, "stop"))

        match self.asked:
            case Finish("completed", output):
                assert not reply.tool_calls
                assert output == reply.text
                assert self.brain.scratch == ((*before, reply) if reply.text else before)
            case Finish(outcome, output):
                assert (outcome, output) == ("max_turns", None)
                assert reply.tool_calls
                assert turn == self.brain.turn
            case RunTools(asked_turn, to_run):
                assert asked_turn == turn
                self.check_answered_once(reply, [call.id for call in to_run])
                assert all(call in reply.tool_calls and call.name in TOOLS for call in to_run)
            case CallModel():
                self.check_answered_once(reply, [])

    def check_answered_once(self, reply, open_ids):
        answered = [result.call_id for result in self.refused]
        assert sorted(answered + open_ids) == sorted(call.id for call in reply.tool_calls)

    @precondition(lambda self: isinstance(self.asked, CallModel))
    @rule(failure=failures)
    def fail(self, failure):
        self.feed(failure)
        assert self.asked == Finish("failed", None)

    @precondition(lambda self: isinstance(self.asked, RunTools))
    @rule(data=st.data())
    def finish_tools(self, data):
        turn, to_run, refused = self.asked.turn, self.asked.calls, self.refused
        results = tuple(ToolResult(call.id, data.draw(texts), data.draw(st.booleans())) for call in to_run)
        self.feed(ToolsFinished(tuple(data.draw(st.permutations(results)))))

        *_, replied, told = self.brain.scratch
        assert [result.call_id for result in told.results] == [call.id for call in replied.tool_calls]
        assert {*told.results} == {*results, *refused}
        assert self.asked.turn == turn + 1

    @rule(cancel=cancels)
    def cancel(self, cancel):
        was_over, phase = self.brain.phase.is_terminal, self.brain.phase
        self.feed(cancel)
        if was_over:
            assert self.brain.phase is phase
        else:
            assert self.asked == Finish("cancelled", None)

    @rule(fact=st.one_of(st.builds(ModelReplied, replies, st.just("stop")), failures, st.just(ToolsFinished(()))))
    def misuse(self, fact):
        before = self.brain.freeze()
        if TABLE[self.brain.phase, type(fact)].moves and not isinstance(self.asked, RunTools):
            return
        with pytest.raises(IllegalTransition, match=f"{type(fact).__name__} in phase {self.brain.phase.name}"):
            self.brain.step(fact)
        assert self.brain.freeze() == before

    @invariant()
    def it_ends_once_and_stays_ended(self):
        assert self.finishes == self.brain.phase.is_terminal

    @invariant()
    def the_turns_are_within_their_limit(self):
        assert self.brain.turn <= 4
        assert (self.brain.pending is None) == (self.brain.phase.is_terminal or self.brain.phase is Phase.READY)
        if self.brain.pending is not None:
            assert self.brain.pending == self.asked

    @invariant()
    def a_completed_run_is_fit_for_the_history(self):
        if self.brain.phase is Phase.COMPLETED:
            assert find_problems(self.brain.history + self.brain.scratch) == ()


TestRuns = Runs.TestCase
TestRuns.settings = settings(max_examples=100, stateful_step_count=12, deadline=None)
