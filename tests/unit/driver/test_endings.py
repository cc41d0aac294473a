"""How a run ends, what is committed, and what its record says."""

from __future__ import annotations

import asyncio
import json
from typing import get_args

import pytest

from loopctl import Agent, Cancelled, Checkpoint, LoopError, MaxTurnsExceeded, ModelError, RunConfig, RunEnded, Session
from loopctl.messages import AssistantMessage, Text, ToolCall, ToolMessage, ToolResult, Usage, UserMessage
from loopctl.record import CallStatus, Outcome
from loopctl.recovery import ModelRecovery
from loopctl.testing import (
    NonStreamingModel,
    ScriptedModel,
    call,
    cancel_itself,
    fail,
    no_end,
    own_cancelled_error,
    pause,
    raise_on_cancel,
    say,
    stall,
    usage,
    virtual_run,
)

ONCE = ModelRecovery(transport_retries=0, rate_limit_retries=0, rescue=False)
"""What a failed request leads to is the subject of test_retries.py."""


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def session_of(*replies: object, **config: object) -> Session:
    return Agent(ScriptedModel(*replies), [add], recovery=ONCE, config=RunConfig(**config)).session()  # type: ignore[arg-type]


def test_a_completed_run_is_committed_with_its_tool_round() -> None:
    session = session_of([say("one moment"), call("add", {"a": 1, "b": 2}, id="x")], [say("It is 3."), usage(10, 4)])

    run = virtual_run(lambda: session.run("add"))

    assert run.outcome == "completed"
    assert run.output == "It is 3."
    assert run.partial_text == ""
    assert session.history == (
        UserMessage("add"),
        AssistantMessage((Text("one moment"), ToolCall("x", "add", {"a": 1, "b": 2}))),
        ToolMessage((ToolResult("x", "3"),)),
        AssistantMessage((Text("It is 3."),)),
    )
    assert session.runs == (run,)
    (record,) = run.tool_calls
    assert (record.status, record.result, record.attempts) == (CallStatus.COMPLETED, "3", 1)
    assert record.started_at is not None
    assert record.ended_at is not None
    assert json.loads(json.dumps(run.to_json()))["outcome"] == "completed"


def test_the_next_run_sees_what_was_committed() -> None:
    session = session_of("first", "second")

    async def main() -> None:
        await session.run("a")
        await session.run("b")

    virtual_run(main)
    model = session.agent.model
    assert isinstance(model, ScriptedModel)
    assert model.requests[1].messages == (UserMessage("a"), AssistantMessage((Text("first"),)), UserMessage("b"))


def test_a_failed_run_raises_its_error_and_commits_nothing() -> None:
    """Case D10: the error of a run is told as an error, also when a late cancel came through an older handle."""
    session = session_of("fine", [say("half"), fail(ModelError("no such model", status=404))])

    async def main() -> ModelError:
        handle = session.start("a")
        await handle
        assert handle.cancel("too late") is False
        with pytest.raises(ModelError) as caught:
            await session.run("b")
        return caught.value

    error = virtual_run(main)
    run = session.runs[-1]
    assert error.run is run
    assert error.status == 404
    assert (run.outcome, run.partial_text, run.stop) == ("failed", "half", None)
    assert str(run.error) == str(error)
    assert session.history == (UserMessage("a"), AssistantMessage((Text("fine"),)))


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ([say("ha"), no_end()], "truncated"),
        ([fail(RuntimeError("kaput"))], "RuntimeError: kaput"),
        ([own_cancelled_error()], "cancelled from inside"),
    ],
)
def test_whatever_a_model_raises_is_a_model_error(script: list[object], words: str) -> None:
    session = session_of(script, "fine")

    async def main() -> None:
        with pytest.raises(ModelError, match=words):
            await session.run("a")
        assert (await session.run("b")).output == "fine"

    virtual_run(main)


def test_the_turn_limit_ends_the_run_before_the_last_calls_run() -> None:
    session = session_of([say("hm"), call("add", {"a": 1, "b": 1})], max_turns=1)

    async def main() -> None:
        with pytest.raises(MaxTurnsExceeded) as caught:
            await session.run("a")
        assert caught.value.run is session.runs[-1]

    virtual_run(main)
    run = session.runs[-1]
    assert run.outcome == "max_turns"
    assert [record.status for record in run.tool_calls] == [CallStatus.NOT_STARTED]
    assert run.tool_calls[0].attempts == 0
    assert run.partial_text == "hm"
    assert session.history == ()


def test_an_unknown_tool_and_bad_arguments_are_told_to_the_model() -> None:
    calls = [call("nope", {}), call("add", {"a": "x"}), call("add", '{"a": 1'), call("add", {"a": 1, "b": 2})]
    session = session_of(calls, "done")

    run = virtual_run(lambda: session.run("a"))

    records = run.tool_calls
    assert [record.status for record in records] == [CallStatus.FAILED] * 3 + [CallStatus.COMPLETED]
    assert [record.attempts for record in records] == [0, 0, 0, 1]
    model = session.agent.model
    assert isinstance(model, ScriptedModel)
    told = model.requests[1].messages[-1]
    assert isinstance(told, ToolMessage)
    assert [result.is_error for result in told.results] == [True, True, True, False]
    assert "nope" in told.results[0].content
    assert "- b: missing" in told.results[1].content
    assert all(result.content == record.result for result, record in zip(told.results, records, strict=True))


def test_a_tool_that_raises_is_a_result_for_the_model() -> None:
    async def broken() -> str:
        """Break."""
        raise ValueError("no luck")

    session = Agent(ScriptedModel([call("broken", {})], "done"), [broken]).session()

    run = virtual_run(lambda: session.run("a"))

    assert run.outcome == "completed"
    (record,) = run.tool_calls
    assert (record.status, record.result) == (CallStatus.FAILED, "ValueError: no luck")


def test_a_tool_that_cancels_itself_is_a_failed_tool_and_the_run_goes_on() -> None:
    """Case C14: a CancelledError from inside a tool, the signal not fired, is that tool's failure."""
    probe = cancel_itself()
    model = ScriptedModel([call("cancel_itself", {}), call("add", {"a": 1, "b": 2})], "done")
    session = Agent(model, [probe.function, add]).session()

    run = virtual_run(lambda: session.run("a"))

    assert (run.outcome, run.output, run.stop) == ("completed", "done", None)
    assert [record.status for record in run.tool_calls] == [CallStatus.FAILED, CallStatus.COMPLETED]
    assert "CancelledError" in (run.tool_calls[0].result or "")


def test_a_stopped_stream_keeps_the_text_as_far_as_it_was_read() -> None:
    """Case J5: what the user was reading stays in the record, and an explicit call commits it."""
    session = session_of([say("half a ", "sentence"), stall()], "next")

    async def main() -> None:
        handle = session.start("a")
        seen = []
        async for event in handle:
            if hasattr(event, "text"):
                seen.append(event.text)
                if len(seen) == 2:
                    assert handle.cancel("enough") is True
        run = await handle
        assert run.outcome == "cancelled"
        assert run.partial_text == "".join(seen) == "half a sentence"
        assert run.stop is not None
        assert run.stop.checkpoint is Checkpoint.STREAM_EVENT
        assert (run.stop.reason.origin, run.stop.reason.message) == ("user", "enough")
        assert run.stop.latency >= 0
        assert session.history == ()
        assert session.adopt(run) is True
        assert session.history == (UserMessage("a"), AssistantMessage((Text("half a sentence"),)))
        assert session.adopt(run) is False
        await session.run("b")

    virtual_run(main)


def test_usage_is_partial_where_it_is_not_known_and_never_zero() -> None:
    """Case J7: the record of a stopped run has the usage that is known, marked as partial."""
    session = session_of([usage(12, None), say("x"), stall()], [say("y"), usage(5, 6)], "no usage told")

    async def main() -> None:
        handle = session.start("a")
        await asyncio.sleep(1)
        handle.cancel()
        assert (await handle).usage == Usage(12, None, is_partial=True)
        assert (await session.run("b")).usage == Usage(5, 6)
        assert (await session.run("c")).usage == Usage(None, None, is_partial=True)
        session.signal.cancel()
        assert (await session.start("d")).usage == Usage(0, 0)

    virtual_run(main)


def test_a_model_that_raises_something_odd_because_it_was_cancelled_was_cancelled() -> None:
    session = session_of([say("x"), raise_on_cancel(RuntimeError("connection torn")), stall()])

    async def main() -> None:
        handle = session.start("a")
        await asyncio.sleep(1)
        handle.cancel()
        run = await handle
        assert run.outcome == "cancelled"
        with pytest.raises(Cancelled) as caught:
            run.raise_for_outcome()
        assert caught.value.run is run

    virtual_run(main)


@pytest.mark.parametrize(
    ("config", "script", "words", "at"),
    [
        ({"first_event_timeout": 7}, [stall()], "no first event within 7 s", 7),
        ({"event_timeout": 5, "first_event_timeout": 100}, [say("x"), stall()], "no further event for 5 s", 5),
        ({"event_timeout": 5}, [pause(4), say("x"), pause(4), say("y"), stall()], "no further event for 5 s", 13),
        ({"turn_timeout": 9}, [say("x"), pause(8), say("y"), stall()], "not finished within 9 s", 9),
    ],
)
def test_a_model_that_is_too_slow_fails_with_a_retryable_error(
    config: dict[str, float], script: list[object], words: str, at: float
) -> None:
    session = session_of(script, "fine", **config)

    async def main() -> None:
        with pytest.raises(ModelError, match=words) as caught:
            await session.run("a")
        assert caught.value.retryable is True
        assert asyncio.get_running_loop().time() == pytest.approx(at)
        assert (await session.run("b")).output == "fine"

    virtual_run(main)


def test_whole_replies_are_asked_for_without_streaming_and_raced_too() -> None:
    """Case B10 without a socket: a request that never answers is dropped at its await."""
    model = NonStreamingModel([say("whole")], [stall()], [stall()], "next")
    session = Agent(model, recovery=ONCE, config=RunConfig(stream=False, turn_timeout=30)).session()

    async def main() -> None:
        assert (await session.run("a")).output == "whole"
        handle = session.start("b")
        await asyncio.sleep(1)
        assert len(model.active) == 1
        handle.cancel()
        run = await handle
        assert run.stop is not None
        assert run.stop.checkpoint is Checkpoint.MODEL_REQUEST
        assert not model.active
        with pytest.raises(ModelError, match="not finished within 30 s"):
            await session.run("c")
        assert (await session.run("d")).output == "next"

    virtual_run(main)


def test_setup_is_raced_and_comes_after_the_first_poll() -> None:
    """Case B13: with the signal fired before, nothing is prepared, asked or started."""
    model = ScriptedModel("never", prepare=[stall()])
    session = Agent(model).session()

    async def main() -> None:
        session.signal.cancel("before")
        run = await session.start("a")
        assert run.stop is not None
        assert run.stop.checkpoint is Checkpoint.TURN_ENTRY
        assert (run.turns, model.requests, len(model.preparations)) == ((), [], 0)
        handle = session.start("b")
        await asyncio.sleep(1)
        assert len(model.preparations) == 1
        handle.cancel()
        run = await handle
        assert run.stop is not None
        assert run.stop.checkpoint is Checkpoint.SETUP
        assert model.requests == []

    virtual_run(main)


def test_a_setup_that_fails_fails_the_run() -> None:
    session = Agent(ScriptedModel("x", prepare=[fail(OSError("no such file"))])).session()

    async def main() -> None:
        with pytest.raises(ModelError, match="no such file"):
            await session.run("a")

    virtual_run(main)


def test_every_outcome_has_one_status_everywhere() -> None:
    """Case E3 and Case E4: the record, the error, the event and the JSON agree on each outcome; none is left out."""
    scripts: dict[str, list[object]] = {
        "completed": [say("x")],
        "cancelled": [say("x"), stall()],
        "max_turns": [call("add", {"a": 1, "b": 1})],
        "failed": [fail("no")],
    }
    assert set(scripts) == set(get_args(Outcome)) - {"interrupted"}  # which no run of a living process is
    errors = {"completed": None, "cancelled": Cancelled, "max_turns": MaxTurnsExceeded, "failed": ModelError}
    for outcome, script in scripts.items():
        session = session_of(script, max_turns=1)

        async def main(session: Session = session, outcome: str = outcome) -> None:
            handle = session.start("a")
            events = aiter(handle)
            await asyncio.sleep(1)
            if outcome == "cancelled":
                handle.cancel()
            run = await handle
            told = [event async for event in events][-1]
            assert isinstance(told, RunEnded)
            assert told.run is run is handle.run is session.runs[-1]
            assert run.outcome == run.to_json()["outcome"] == outcome
            assert (type(run.error) if run.error else None) is errors[outcome]
            assert (run.stop is not None) == (outcome == "cancelled")
            assert outcome in repr(handle)

        virtual_run(main)


def test_a_fault_of_our_own_fails_the_run_and_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    session = session_of("x", "y")

    async def main() -> None:
        with monkeypatch.context() as patch:
            patch.setattr("loopctl.driver._execution.Performer", lambda _: None)
            with pytest.raises(LoopError, match="fault in loopctl"):
                await session.run("a")
        assert (await session.run("b")).output == "x"

    virtual_run(main)
    assert "please report it" in caplog.text
    caplog.clear()
