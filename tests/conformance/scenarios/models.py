"""Runs in which the models are what happens: text, failures and what follows them, fallback, setup, limits."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from loopctl import Agent, Checkpoint, RunConfig, Session, ToolContext
from loopctl.fallback import Chain
from loopctl.testing import (
    NonStreamingModel,
    Scenario,
    ScriptedModel,
    absorb,
    burst,
    call,
    no_end,
    own_cancelled_error,
    pause,
    raise_on_cancel,
    say,
    slow_close,
    stall,
    think,
    usage,
)
from tests.conformance.scenarios.tools import DENIED, LIMIT, LOST, PLAIN, THEN, telling, the_record_is_true

__all__ = ["SCENARIOS"]


def _session(*models: ScriptedModel, chain: Chain | None = None, **config: Any) -> Session:
    first, *others = models
    agent = Agent(first, PLAIN, fallback_models=others, config=RunConfig(**{"grace": 3, **config}))
    if chain is not None:
        agent.chain = chain
    return agent.session()


def text() -> Session:
    return _session(telling([think("hm"), say("a", "b", "c"), usage(3, 4)]))


def slow_text() -> Session:
    return _session(telling([say("a"), pause(5), say("b"), slow_close(0.2)]))


def buffered_text() -> Session:
    return _session(telling([burst(20)]))


def whole_replies() -> Session:
    model = telling([say("a"), pause(1), call("note", {"name": "1"})], model=NonStreamingModel)
    return _session(model, stream=False)


def setup() -> Session:
    return _session(telling([say("a"), call("note", {"name": "1"})], prepare=pause(2)))


def absorbing_model() -> Session:
    return _session(telling([absorb(), say("a"), pause(1), say("b")]))


def odd_model() -> Session:
    return _session(telling([raise_on_cancel(OSError("the other side went away")), say("a"), pause(1)]))


def cancelling_model() -> Session:
    """Raise CancelledError though nobody cancelled: a failure, which is tried again."""
    return _session(telling([say("a"), own_cancelled_error()], [say("b"), call("note", {"name": "1"})]))


def deaf_model() -> Session:
    """Swallow every cancel for longer than the grace: abandoned."""
    waits = [pause(1)] * 20
    return _session(telling([absorb(), say("a"), *waits, say("b")]))


def retries() -> Session:
    broken = [say("a"), no_end()]
    return _session(telling([say("a"), LOST], LOST, broken, [say("whole"), call("note", {"name": "1"})]))


def rate_limit() -> Session:
    return _session(telling([say("a"), LIMIT], LIMIT))


def rescue() -> Session:
    story = ([say("a"), LOST], LOST, LOST, LOST, [say("b"), pause(1), say("c")])
    return _session(telling(*story, model=NonStreamingModel))


def fallback() -> Session:
    first = telling([say("a"), pause(1), DENIED], repeat=True)
    second = telling([say("b"), pause(1), DENIED], repeat=True, name="second")
    return _session(first, second, telling([say("c"), call("note", {"name": "1"})], name="third"))


def _tripped(names: Iterable[str]) -> Chain:
    """A chain whose first model has failed three times, more than its cooldown before the run."""
    chain = Chain.of(names)
    for _ in range(3):
        chain = chain.failed(chain.route(-100), -100)
    return chain


def recovery() -> Session:
    """Probe a model that is well again: two good turns close its breaker."""
    first = telling([say("a"), call("note", {"name": "1"})], [say("b"), pause(1)])
    return _session(first, telling(name="second"), chain=_tripped(["scripted", "second"]))


def failed_recovery() -> Session:
    """Probe a model that meets a rate limit: it is given up at once, and trips again."""
    first = telling([say("a"), pause(1), LIMIT], repeat=True)
    second = telling([say("b"), call("note", {"name": "1"})], name="second")
    return _session(first, second, chain=_tripped(["scripted", "second"]))


def turn_timeout() -> Session:
    return _session(telling([say("a"), stall()], [say("b"), pause(1)]), event_timeout=2)


def failure() -> Session:
    """Fail for good; the next run works."""
    return _session(telling([say("a"), pause(1), DENIED]))


def last_turn() -> Session:
    """Ask for tools in the last turn that is allowed: they do not run."""
    replies = [[say("a"), call("note", {"name": "1"})], [say("b"), call("note", {"name": "2"})]]
    return _session(telling(*replies), max_turns=2)


def deadline() -> Session:
    return _session(telling([say("a"), call("note", {"name": "1"})], [say("b"), pause(9)]), deadline=3)


def silence() -> Session:
    return _session(telling([say("a"), pause(2), say("b"), stall()]), stall_timeout=4)


def budget() -> Session:
    replies = [[call("note", {"name": str(number)}), usage(40, 10)] for number in range(3)]
    return _session(telling(*replies), max_total_tokens=100)


def slow_reader() -> Session:
    """Have more to say than a reader's queue holds."""
    return _session(telling([burst(66), call("report", {"name": "1"})]))


async def look_it_up(question: str, ctx: ToolContext) -> str:
    """Ask another agent."""
    model = telling([say("let me"), call("note", {"name": "1"})], "the answer")
    inner = Agent(model, PLAIN, config=RunConfig(grace=1)).session()
    run = await inner.run(question)
    return run.output or ""


def nested_run() -> Session:
    agent = Agent(telling([call("look_it_up", {"question": "?"})]), [look_it_up], config=RunConfig(grace=3))
    return agent.session()


C = Checkpoint
SCENARIOS = (
    Scenario(text, then=THEN, catches=frozenset({C.TURN_ENTRY, C.STREAM_EVENT})),
    Scenario(text, then=THEN, reads=False, name="unread_text"),
    Scenario(slow_text, then=THEN, catches=frozenset({C.STREAM_EVENT})),
    Scenario(buffered_text, then=THEN),
    Scenario(slow_reader, then=THEN, pause=5, catches=frozenset({C.DELIVERY})),
    Scenario(whole_replies, then=THEN, catches=frozenset({C.MODEL_REQUEST, C.TOOL_CALL}), check=the_record_is_true),
    Scenario(setup, then=THEN, catches=frozenset({C.SETUP}), check=the_record_is_true),
    Scenario(absorbing_model, then=THEN),
    Scenario(odd_model, then=THEN),
    Scenario(cancelling_model, then=THEN, check=the_record_is_true),
    Scenario(deaf_model, then=THEN, stragglers=True),
    Scenario(retries, then=THEN, catches=frozenset({C.STREAM_EVENT, C.STREAM_WAIT}), check=the_record_is_true),
    Scenario(rate_limit, then=THEN, catches=frozenset({C.STREAM_EVENT, C.STREAM_WAIT})),
    Scenario(rescue, then=THEN, catches=frozenset({C.STREAM_EVENT, C.STREAM_WAIT, C.RESCUE})),
    Scenario(fallback, then=THEN, check=the_record_is_true),
    Scenario(recovery, then=THEN, check=the_record_is_true),
    Scenario(failed_recovery, then=THEN, check=the_record_is_true),
    Scenario(turn_timeout, then=THEN),
    Scenario(failure, then=THEN),
    Scenario(last_turn, then=THEN, check=the_record_is_true),
    Scenario(deadline, then=THEN, check=the_record_is_true),
    Scenario(silence, then=THEN),
    Scenario(budget, then=THEN, check=the_record_is_true),
    Scenario(nested_run, then=THEN, catches=frozenset({C.TOOL_CALL})),
)
