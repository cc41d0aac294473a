"""What a failed tool call leads to: the strategy, its waits, its bounds, and a stop in each of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from loopctl import Agent, Checkpoint, Run, RunConfig, Session, ToolContext, ToolError, ToolFinished, ToolStarted, tool
from loopctl.record import CallStatus, Event
from loopctl.recovery import (
    GiveToModel,
    Recovery,
    RetryCall,
    ToolDecision,
    ToolFailure,
    ToolRecovery,
    ToolStrategy,
    retry_transient,
)
from loopctl.testing import ScriptedModel, call, virtual_run

CALLS: list[tuple[str, str, float]] = []
"""Word, idempotency key and time of each invocation."""
FAILURES: list[ToolFailure] = []


@tool(parallel=True, resource=lambda a: a["word"])
async def try_it(word: str, ctx: ToolContext, works_at: int = 99) -> str:
    """Fail until it works."""
    CALLS.append((word, ctx.idempotency_key, asyncio.get_running_loop().time()))
    await asyncio.sleep(1)
    if word == "own":
        raise asyncio.CancelledError
    if len(CALLS) < works_at:
        raise ConnectionError(f"lost {word}")
    return "worked"


@pytest.fixture(autouse=True)
def _clear() -> None:
    CALLS.clear()
    FAILURES.clear()


def seen(strategy: ToolStrategy) -> ToolStrategy:
    def note(failure: ToolFailure) -> ToolDecision:
        FAILURES.append(failure)
        return strategy(failure)

    return note


def always(failure: ToolFailure) -> ToolDecision:
    return RetryCall(after=failure.attempt)


def session_of(
    recovery: Recovery | ToolRecovery | ToolStrategy | None,
    *calls: object,
    observe: Callable[[Event], None] = lambda _: None,
    **config: object,
) -> Session:
    model = ScriptedModel(list(calls) or [call("try_it", {"word": "a", "works_at": 3})], "done")  # type: ignore[arg-type]
    return Agent(model, [try_it], recovery=recovery, observers=[observe], config=RunConfig(**config)).session()  # type: ignore[arg-type]


async def stopped_after(session: Session, seconds: float) -> Run:
    handle = session.start("go")
    await asyncio.sleep(seconds)
    handle.cancel("enough")
    return await handle


def test_nothing_is_tried_twice_by_default() -> None:
    run = virtual_run(lambda: session_of(None).run("go"))
    [record] = run.tool_calls
    assert (record.status, record.attempts, record.result) == ("failed", 1, "ConnectionError: lost a")


@pytest.mark.parametrize("dispatch", ["sequential", "parallel"])
def test_a_retry_is_the_same_call_with_the_same_key(dispatch: str) -> None:
    told: list[Event] = []
    session = session_of(seen(always), observe=told.append, dispatch=dispatch)
    run = virtual_run(lambda: session.run("go"))
    [record] = run.tool_calls
    assert (record.status, record.attempts, record.result) == ("completed", 3, "worked")
    assert [(word, at) for word, _, at in CALLS] == [("a", 0), ("a", 2), ("a", 5)]
    assert {key for _, key, _ in CALLS} == {f"{run.id}:{record.id}"}
    assert [type(event) for event in told if isinstance(event, ToolStarted | ToolFinished)] == [
        ToolStarted,
        ToolFinished,
    ]
    assert [(failure.attempt, str(failure.error), failure.is_running) for failure in FAILURES] == [
        (1, "lost a", False),
        (2, "lost a", False),
    ]


def test_no_strategy_goes_beyond_five_attempts() -> None:
    run = virtual_run(lambda: session_of(always, call("try_it", {"word": "a"})).run("go"))
    assert len(CALLS) == 5
    assert run.tool_calls[0].attempts == 5
    assert run.tool_calls[0].status is CallStatus.FAILED


def test_the_backoff_is_waited_out_on_the_loops_clock() -> None:
    steady = ToolRecovery(strategy=retry_transient(times=3), jitter=0, first_delay=0.5, max_delay=1)
    virtual_run(lambda: session_of(steady, call("try_it", {"word": "a"})).run("go"))
    assert [at for _, _, at in CALLS] == [0, 1.5, 3.5, 5.5]


def test_a_retry_may_bring_other_arguments_which_are_validated_and_recorded() -> None:
    def correct(failure: ToolFailure) -> ToolDecision:
        return RetryCall(after=0, arguments={"word": 7} if failure.attempt == 1 else {"word": "b", "works_at": 2})

    run = virtual_run(lambda: session_of(seen(correct), call("try_it", {"word": "a"})).run("go"))
    [record] = run.tool_calls
    assert [word for word, _, _ in CALLS] == ["a", "b"]
    assert "should be" in FAILURES[1].text
    assert isinstance(FAILURES[1].error, ToolError)
    assert FAILURES[1].call.arguments == {"word": 7}
    assert record.arguments == {"word": "b", "works_at": 2}
    assert record.attempts == 2
    assert record.status is CallStatus.COMPLETED


def test_corrected_arguments_do_not_run_into_what_a_sibling_touches() -> None:
    def correct(failure: ToolFailure) -> ToolDecision:
        return RetryCall(after=0, arguments={"word": "b"}) if failure.call.arguments["word"] == "a" else GiveToModel()

    async def slow(word: str) -> str:
        """Take what it says."""
        await asyncio.sleep(0 if word == "a" else 9)
        if word == "a":
            raise ConnectionError
        return word

    touching = tool(slow, parallel=True, resource=lambda a: a["word"])
    model = ScriptedModel([call("slow", {"word": "a"}), call("slow", {"word": "b"})], "done")
    agent = Agent(model, [touching], recovery=correct, config=RunConfig(dispatch="parallel"))
    run = virtual_run(lambda: agent.session().run("go"))
    assert [record.status for record in run.tool_calls] == ["failed", "completed"]
    assert run.tool_calls[0].result == "'b' is in use by the call call_1_1. Try again when it has ended."


def test_a_tool_that_cancels_itself_has_failed_and_is_tried_again() -> None:
    run = virtual_run(lambda: session_of(seen(always), call("try_it", {"word": "own"})).run("go"))
    assert run.tool_calls[0].attempts == 5
    assert FAILURES[0].error is None
    assert "cancelled from inside" in FAILURES[0].text


def test_the_strategys_text_goes_to_the_model() -> None:
    run = virtual_run(lambda: session_of(lambda failure: GiveToModel("ask somebody else")).run("go"))
    assert run.tool_calls[0].result == "ask somebody else"
    assert run.tool_calls[0].status is CallStatus.FAILED


def test_a_strategy_that_fails_gives_the_error_to_the_model(caplog: pytest.LogCaptureFixture) -> None:
    def broken(failure: ToolFailure) -> ToolDecision:
        raise LookupError("no idea")

    run = virtual_run(lambda: session_of(broken).run("go"))
    assert run.outcome == "completed"
    assert run.tool_calls[0].result == "ConnectionError: lost a"
    assert "no idea" in caplog.text


@pytest.mark.parametrize("dispatch", ["sequential", "parallel"])
def test_a_stop_during_the_wait_leaves_a_failed_call_and_no_retry(dispatch: str) -> None:
    """Case C8: a strategy that always asks for another attempt gets none after the stop."""
    run = virtual_run(lambda: stopped_after(session_of(always, dispatch=dispatch), 3.5))
    assert run.stop is not None
    assert run.stop.checkpoint is Checkpoint.RECOVERY_WAIT
    [record] = run.tool_calls
    assert (record.status, record.attempts, record.result) == ("failed", 2, "ConnectionError: lost a")
    assert len(CALLS) == 2


def test_a_stop_during_an_attempt_is_no_failure_and_asks_no_strategy() -> None:
    """Case C8: the tool is invoked once."""
    run = virtual_run(lambda: stopped_after(session_of(seen(always)), 0.5))
    assert run.stop is not None
    assert run.stop.checkpoint is Checkpoint.TOOL_CALL
    assert run.tool_calls[0].status is CallStatus.INTERRUPTED
    assert FAILURES == []
    assert len(CALLS) == 1


def test_a_strategy_may_stop_the_run_itself() -> None:
    def stop(failure: ToolFailure) -> ToolDecision:
        session.signal.cancel("from the strategy")
        return RetryCall(after=0)

    session = session_of(stop)

    async def main() -> Run:
        return await session.start("go")

    run = virtual_run(main)
    assert run.stop is not None
    assert run.stop.checkpoint is Checkpoint.RECOVERY_WAIT
    assert run.tool_calls[0].status is CallStatus.FAILED
    assert len(CALLS) == 1


def test_a_sibling_goes_on_while_a_call_waits_for_its_retry() -> None:
    calls = [call("try_it", {"word": "a"}), call("try_it", {"word": "b"})]
    session = session_of(
        lambda failure: RetryCall(after=10) if failure.attempt == 1 else GiveToModel(), *calls, dispatch="parallel"
    )
    virtual_run(lambda: session.run("go"))
    assert [(word, at) for word, _, at in CALLS] == [("a", 0), ("b", 0), ("a", 11), ("b", 11)]
