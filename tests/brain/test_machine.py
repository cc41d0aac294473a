"""Random runs: whatever a driver feeds in, the promises of the brain hold after each step."""

from __future__ import annotations

import json
from dataclasses import replace

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
    Moment,
    Phase,
    RefuseCalls,
    Report,
    ResetAttempt,
    RunTools,
    Started,
    ToolsFinished,
    Wait,
    Waited,
    with_unique_ids,
)
from loopctl.errors import IllegalTransition
from loopctl.fallback import Chain
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
from loopctl.recovery import ModelRecovery

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
statuses = st.none() | st.sampled_from([400, 401, 408, 429, 500, 503, 529])
failures = st.builds(
    ModelFailed, texts, statuses, st.booleans() | st.just(True), st.none() | st.floats(0, 90), st.booleans()
)
recoveries = st.builds(
    ModelRecovery, transport_retries=st.integers(0, 2), rate_limit_retries=st.integers(0, 2), rescue=st.booleans()
)
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

    @initialize(
        max_turns=st.integers(1, 4),
        history=histories,
        recovery=recoveries,
        models=st.integers(1, 3),
        is_streaming=st.booleans(),
    )
    def ready(self, max_turns, history, recovery, models, is_streaming):
        self.recovery, self.is_streaming = recovery, is_streaming
        self.brain = Brain(
            tools=frozenset(TOOLS), limits=Limits(max_turns), recovery=recovery, is_streaming=is_streaming
        )
        self.moment = Moment(chain=Chain.of(f"m{index}" for index in range(models)))
        self.requests = []
        self.reported = []
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
        self.count(fact, effects)
        self.asked = effects[-1]
        self.finishes += isinstance(effects[-1], Finish)

    def count(self, fact, effects):
        """Do in the chain what the effects say, and note the requests and the reports of the turn."""
        for effect in effects:
            match effect:
                case Report(route, how):
                    assert not isinstance(fact, CancelRequested)
                    chain, now = self.moment.chain, self.moment.now
                    counted = chain.succeeded(route) if how == "succeeded" else chain.failed(route, now)
                    self.moment = replace(self.moment, chain=counted)
                    self.reported.append((self.requests[-1].turn, route.index))
                case CallModel():
                    self.check_request(effect)

    def check_request(self, request):
        """Within a turn the models are asked in order, each at most so often as its budgets allow, rescue last."""
        of_turn = [made for made in self.requests if made.turn == request.turn]
        of_model = [made for made in of_turn if made.route == request.route]
        most = 1 + self.recovery.transport_retries + self.recovery.rate_limit_retries + self.recovery.rescue
        assert len(of_model) < most
        assert all(made.route.index <= request.route.index for made in of_turn)
        assert all(made.mode != "rescue" for made in of_model)
        first = "stream" if self.is_streaming else "request"
        assert request.mode == first or (request.mode == "rescue" and of_model)
        assert request.route.index < len(self.moment.chain.models)
        self.requests.append(request)

    def check_shape(self, before, fact, effects):
        *first, last = effects
        kinds = [type(effect) for effect in first]
        assert kinds == [kind for kind in (Report, ResetAttempt, RefuseCalls) if kind in kinds]
        goes_on = isinstance(fact, ModelFailed) and not isinstance(last, Finish)
        assert (ResetAttempt in kinds) == goes_on
        moves = {(move.to, move.last) for move in TABLE[before, type(fact)].moves}
        assert (self.brain.phase, type(last)) in moves
        self.refused = list(first[-1].results) if RefuseCalls in kinds else []
        if isinstance(last, CallModel):
            assert find_problems(last.messages) == ()
            assert last.messages == self.brain.history + self.brain.scratch

    @precondition(lambda self: self.brain.phase is Phase.READY)
    @rule(text=texts)
    def start(self, text):
        self.feed(Started(self.history, UserMessage(text), self.moment))
        assert self.brain.history == self.history

    @precondition(lambda self: isinstance(self.asked, CallModel))
    @rule(reply=replies)
    def reply(self, reply):
        turn, reply = self.asked.turn, with_unique_ids(reply, self.brain.call_ids)
        before = self.brain.scratch
        self.feed(ModelReplied(reply, "stop", self.moment))

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
        route, reports = self.asked.route, len(self.reported)
        self.feed(replace(failure, moment=self.moment))
        match self.asked:
            case Wait(seconds):
                assert 0 <= seconds <= self.recovery.max_rate_limit_delay
                assert failure.retryable
                assert len(self.reported) == reports
            case CallModel(_, _, following, "rescue"):
                assert following == route
                assert failure.can_rescue
            case CallModel(_, _, following, _):
                assert following.index > route.index
            case end:
                assert end == Finish("failed", None)
                assert route.index == len(self.moment.chain.models) - 1

    @precondition(lambda self: isinstance(self.asked, CallModel))
    @rule(failure=failures)
    def misconfigure(self, failure):
        reports = len(self.reported)
        self.feed(replace(failure, is_misuse=True))
        assert self.asked == Finish("failed", None)
        assert len(self.reported) == reports

    @precondition(lambda self: isinstance(self.asked, Wait))
    @rule()
    def wait(self):
        asked = self.requests[-1]
        self.feed(Waited())
        assert self.asked == asked

    @rule(seconds=st.floats(0, 70), jitter=st.floats(-0.1, 0.1))
    def pass_time(self, seconds, jitter):
        self.moment = replace(self.moment, now=self.moment.now + seconds, jitter=jitter)

    @precondition(lambda self: isinstance(self.asked, RunTools))
    @rule(data=st.data())
    def finish_tools(self, data):
        turn, to_run, refused = self.asked.turn, self.asked.calls, self.refused
        results = tuple(ToolResult(call.id, data.draw(texts), data.draw(st.booleans())) for call in to_run)
        self.feed(ToolsFinished(tuple(data.draw(st.permutations(results))), self.moment))

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

    @rule(
        fact=st.one_of(
            st.builds(ModelReplied, replies, st.just("stop")), failures, st.just(ToolsFinished(())), st.just(Waited())
        )
    )
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
    def a_model_is_reported_on_once_in_a_turn_and_only_if_there_is_another(self):
        assert len(set(self.reported)) == len(self.reported)
        assert not self.reported or len(self.moment.chain.models) > 1

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
