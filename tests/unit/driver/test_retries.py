"""What a failed model request leads to: waits, attempts and the rescue, and a stop in each of them."""

from __future__ import annotations

import asyncio

import pytest

from loopctl import (
    Agent,
    CancelReason,
    Checkpoint,
    MissingExtra,
    ModelError,
    Run,
    RunConfig,
    Session,
    TextDelta,
    Urgency,
    UsageError,
)
from loopctl.messages import Usage
from loopctl.record import AttemptReset, Event, TurnStarted
from loopctl.recovery import ModelRecovery
from loopctl.testing import (
    NonStreamingModel,
    ScriptedModel,
    absorb,
    call,
    fail,
    no_end,
    pause,
    raise_on_cancel,
    say,
    stall,
    think,
    usage,
    virtual_run,
)

STEADY = ModelRecovery(jitter=0)
LOST = fail(ModelError("lost", retryable=True))


def limited(after: float | None = None) -> object:
    return fail(ModelError("slow down", status=429, retryable=True, retry_after=after))


def session_of(model: ScriptedModel, recovery: ModelRecovery = STEADY, **config: object) -> Session:
    return Agent(model, recovery=recovery, config=RunConfig(**config)).session()  # type: ignore[arg-type]


def run_with_time(session: Session) -> tuple[Run, float]:
    async def main() -> tuple[Run, float]:
        return await session.start("a"), asyncio.get_running_loop().time()

    return virtual_run(main)


@pytest.mark.parametrize(
    ("failures", "seconds"),
    [
        ([LOST], 0.1),
        ([LOST, LOST, LOST], 0.7),
        ([[say("ha"), no_end()]], 0.1),
        ([fail(ConnectionResetError("gone"))], 0.1),
        ([fail(TimeoutError())], 0.1),
        ([limited(7)], 7),
        ([limited(), LOST, limited(0)], 5.1),
        ([fail(ModelError("busy", status=503, retryable=True, retry_after=2))], 2),
    ],
)
def test_a_failure_that_passes_is_waited_for_and_the_request_sent_again(failures: list[object], seconds: float) -> None:
    model = ScriptedModel(*failures, "fine")  # type: ignore[arg-type]

    run, at = run_with_time(session_of(model))

    assert (run.output, len(model.requests)) == ("fine", len(failures) + 1)
    assert at == pytest.approx(seconds)
    assert len({request.messages for request in model.requests}) == 1
    assert [turn.number for turn in run.turns] == [1]


@pytest.mark.parametrize(
    ("failure", "requests", "seconds"),
    [
        (LOST, 4, 0.7),
        (limited(), 4, 15),
        (limited(61), 1, 0),
        (fail(ModelError("no", status=401, retryable=False)), 1, 0),
        (fail(ModelError("no", status=404, retryable=True)), 1, 0),
        (fail(ValueError("odd")), 1, 0),
    ],
)
def test_a_failure_that_stays_fails_the_run_with_its_own_error(failure: object, requests: int, seconds: float) -> None:
    model = ScriptedModel(failure, repeat=True)  # type: ignore[arg-type]

    run, at = run_with_time(session_of(model))

    assert (run.outcome, type(run.error)) == ("failed", ModelError)
    assert len(model.requests) == requests
    assert at == pytest.approx(seconds)


def test_the_waits_are_spread_by_the_jitter() -> None:
    times = {run_with_time(session_of(ScriptedModel(LOST, "fine"), ModelRecovery()))[1] for _ in range(20)}

    assert len(times) > 1
    assert all(0.09 <= at <= 0.11 for at in times)


def test_readers_are_told_to_void_what_a_failed_attempt_has_shown() -> None:
    model = ScriptedModel([say("ha"), LOST], LOST, [think("hm"), no_end()], "whole")
    session = session_of(model)

    async def main() -> list[Event]:
        return [event async for event in session.start("a")]

    events = virtual_run(main)
    told = [event for event in events if isinstance(event, TextDelta | AttemptReset | TurnStarted)]
    assert [type(event).__name__ for event in told] == [
        "TurnStarted", "TextDelta", "AttemptReset", "AttemptReset", "TextDelta",
    ]  # fmt: skip
    assert session.runs[0].turns[0].reply.text == "whole"
    assert len(session.history) == 2


def test_what_failed_attempts_used_is_counted_and_marked_as_partial() -> None:
    model = ScriptedModel([usage(5, 2), LOST], [say("fine"), usage(5, 3)], [say("fine"), usage(1, 1)])
    session = session_of(model)

    assert run_with_time(session)[0].usage == Usage(10, 5, is_partial=True)
    assert run_with_time(session)[0].usage == Usage(1, 1)


def test_only_the_last_attempt_is_in_the_record_of_a_failed_run() -> None:
    model = ScriptedModel([say("first"), LOST], [say("second"), LOST])

    run, _ = run_with_time(session_of(model, ModelRecovery(transport_retries=1)))

    assert (run.outcome, run.partial_text) == ("failed", "second")


def test_the_calls_of_a_truncated_reply_never_run() -> None:
    ran: list[int] = []

    async def count(number: int) -> str:
        """Count."""
        ran.append(number)
        return "counted"

    model = ScriptedModel([call("count", {"number": 1}), no_end()], [call("count", {"number": 2})], "done")

    run = virtual_run(lambda: Agent(model, [count], recovery=STEADY).session().run("a"))

    assert ran == [2]
    assert [record.arguments for record in run.tool_calls] == [{"number": 2}]


def test_streaming_that_gave_up_is_rescued_once_without_streaming() -> None:
    model = NonStreamingModel([say("ha"), no_end()], LOST, LOST, LOST, [say("whole")])

    run, at = run_with_time(session_of(model))

    assert run.output == "whole"
    assert [exchange.is_streamed for exchange in model.exchanges] == [True] * 4 + [False]
    assert at == pytest.approx(0.7)


def test_a_rescue_that_fails_is_the_last_attempt() -> None:
    model = NonStreamingModel(LOST, fail(ModelError("lost for good", retryable=True)))

    run, _ = run_with_time(session_of(model, ModelRecovery(transport_retries=0)))

    assert (str(run.error), len(model.requests)) == ("lost for good", 2)


def test_a_rate_limit_is_never_rescued() -> None:
    model = NonStreamingModel(limited(), repeat=True)  # type: ignore[arg-type]

    run, _ = run_with_time(session_of(model))

    assert run.outcome == "failed"
    assert all(exchange.is_streamed for exchange in model.exchanges)


def test_a_setup_that_fails_is_tried_again_like_a_request() -> None:
    class Shy(ScriptedModel):
        async def prepare(self) -> None:
            started.append(self.name)
            if len(started) < 3:
                raise ModelError("not up yet", retryable=True)

    started: list[str] = []

    run, _ = run_with_time(session_of(Shy("fine")))

    assert (run.output, len(started)) == ("fine", 3)


@pytest.mark.parametrize("error", [UsageError("no key is set"), MissingExtra("not installed")])
def test_a_configuration_that_is_wrong_is_neither_tried_again_nor_fallen_back_from(error: UsageError) -> None:
    other = ScriptedModel("never")
    agent = Agent(ScriptedModel("never", prepare=fail(error)), fallback_models=[other])

    run, at = run_with_time(agent.session())

    assert (run.error, at) == (error, 0)
    assert other.requests == []
    assert agent.chain.breakers[0].failures == 0


def test_a_fault_of_our_own_after_a_failure_that_passed_is_not_blamed_on_the_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def torn(*_: object) -> None:
        raise RuntimeError("a bug")

    session = session_of(ScriptedModel(LOST, "fine"))
    monkeypatch.setattr("loopctl.driver._model_call.ModelReplied", torn)

    run, _ = run_with_time(session)

    assert "fault in loopctl: RuntimeError: a bug" in str(run.error)


def test_a_stop_during_a_long_wait_ends_it_at_once_and_no_attempt_follows() -> None:
    """Case B7: the model asks for a minute; the cancel comes after 0.1 s, and the model is not called again."""
    model = ScriptedModel([say("ha"), limited(60)], "next")  # type: ignore[list-item]
    session = session_of(model)

    async def main() -> None:
        handle = session.start("a")
        await asyncio.sleep(0.1)
        handle.cancel("enough")
        run = await handle
        assert asyncio.get_running_loop().time() == pytest.approx(0.1)
        assert run.stop is not None
        assert run.stop.checkpoint is Checkpoint.STREAM_WAIT
        assert (run.partial_text, run.turns[0].usage.is_partial) == ("", True)
        await asyncio.sleep(1000)
        assert len(model.requests) == 1
        assert (await session.run("b")).output == "next"

    virtual_run(main)


def test_a_model_that_fails_for_ever_is_left_at_any_time() -> None:
    """Case B8: whenever the cancel comes, in a request or in a wait, no new attempt follows."""
    for hundredths in range(1, 60):
        model = ScriptedModel([pause(0.05), LOST], repeat=True)
        session = session_of(model, ModelRecovery(transport_retries=1000))

        async def main(session: Session = session, model: ScriptedModel = model, after: int = hundredths) -> None:
            handle = session.start("a")
            await asyncio.sleep(after / 100)
            requests = len(model.requests)
            handle.cancel()
            assert (await handle).outcome == "cancelled"
            assert asyncio.get_running_loop().time() == pytest.approx(after / 100)
            await asyncio.sleep(1000)
            assert len(model.requests) == requests

        virtual_run(main)


def test_a_drained_run_does_not_wait_for_another_attempt() -> None:
    model = ScriptedModel(limited(), "never")  # type: ignore[arg-type]
    session = session_of(model)

    async def main() -> None:
        handle = session.start("a")
        await asyncio.sleep(1)
        handle.cancel(urgency=Urgency.DRAIN)
        run = await handle
        assert run.stop is not None
        assert run.stop.checkpoint is Checkpoint.STREAM_WAIT
        assert asyncio.get_running_loop().time() == 1

    virtual_run(main)


def test_a_caller_that_is_cancelled_during_the_wait_is_honoured() -> None:
    model = ScriptedModel(limited(), "never")  # type: ignore[arg-type]
    session = session_of(model)

    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await session.run("a")
        stop = session.runs[0].stop
        assert stop is not None
        assert (stop.reason.origin, stop.checkpoint) == ("caller", Checkpoint.STREAM_WAIT)
        assert len(model.requests) == 1

    virtual_run(main)


def test_a_rescue_is_dropped_at_its_await() -> None:
    model = NonStreamingModel(LOST, [stall()], "next")
    session = session_of(model, ModelRecovery(transport_retries=0))

    async def main() -> None:
        handle = session.start("a")
        await asyncio.sleep(1)
        assert len(model.active) == 1
        handle.cancel()
        run = await handle
        assert run.stop is not None
        assert run.stop.checkpoint is Checkpoint.RESCUE
        assert not model.active
        assert (await session.run("b")).output == "next"

    virtual_run(main)


def test_a_rescue_is_never_sent_if_the_cancel_came_before_it() -> None:
    class Cancelling(NonStreamingModel):
        @property
        def complete(self) -> object:  # type: ignore[override]
            """Looked up when the attempt that follows is made ready: the last moment before the rescue."""
            if self.requests:
                session.signal.cancel("just before")
            return super().complete

    model = Cancelling(LOST, "never")
    session = session_of(model, ModelRecovery(transport_retries=0))

    run, _ = run_with_time(session)

    assert run.stop is not None
    assert run.stop.checkpoint is Checkpoint.RESCUE
    assert len(model.requests) == 1


@pytest.mark.parametrize("error", [ModelError("aborted", retryable=True), ConnectionError("reset"), ValueError("odd")])
def test_what_a_model_raises_because_it_was_cancelled_is_no_failure(error: Exception) -> None:
    """Case C2: the engine decides by the signal and not by the error's type: nothing is tried again."""
    model = ScriptedModel([say("ha"), raise_on_cancel(error), stall()], "next")
    other = ScriptedModel("never")
    agent = Agent(model, fallback_models=[other], recovery=STEADY)
    session = agent.session()

    async def main() -> None:
        handle = session.start("a")
        await asyncio.sleep(1)
        handle.cancel("enough")
        run = await handle
        assert (run.outcome, run.stop is not None) == ("cancelled", True)
        await asyncio.sleep(1000)

    virtual_run(main)
    assert (len(model.requests), other.requests) == (1, [])
    assert agent.chain.breakers[0].failures == 0


def test_a_stop_works_in_a_tool_in_a_model_and_in_a_wait_of_one_session() -> None:
    """Case D7: cancelled in a hung tool, in a hung model, in a backoff; a completed run after each."""

    async def hang() -> str:
        """Hang."""
        await asyncio.get_running_loop().create_future()
        return ""

    model = ScriptedModel([call("hang", {})], "one", [stall()], "two", limited(), "three", [absorb(), stall()], "four")  # type: ignore[arg-type]
    session = Agent(model, [hang], recovery=STEADY).session()

    async def main() -> None:
        seen = []
        for number in ("one", "two", "three", "four"):
            handle = session.start("go")
            await asyncio.sleep(1)
            session.signal.cancel(CancelReason("user", number))
            run = await handle
            assert run.stop is not None
            assert run.stop.reason.message == number
            seen.append(run.stop.checkpoint)
            assert (await session.run("again")).output == number
        assert seen == [Checkpoint.TOOL_CALL, Checkpoint.STREAM_EVENT, Checkpoint.STREAM_WAIT, Checkpoint.STREAM_EVENT]

    virtual_run(main)
