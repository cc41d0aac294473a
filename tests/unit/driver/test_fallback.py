"""A chain of models: who is asked, what is counted, and what a stop keeps from happening."""

from __future__ import annotations

import asyncio
import logging

import pytest

from loopctl import Agent, Checkpoint, RunConfig, Session, TextDelta
from loopctl.errors import FallbackExhausted, ModelError, UsageError
from loopctl.fallback import BreakerConfig, BreakerState
from loopctl.record import AttemptReset, TurnEnded, TurnStarted
from loopctl.recovery import ModelRecovery, Recovery
from loopctl.testing import ScriptedModel, absorb, call, fail, own_cancelled_error, pause, say, stall, virtual_run

ONCE = ModelRecovery(transport_retries=0, rate_limit_retries=0, rescue=False)
DENIED = fail(ModelError("denied", status=403))


def agent_of(*models: ScriptedModel, **config: object) -> Agent:
    return Agent(models[0], fallback_models=models[1:], recovery=ONCE, config=RunConfig(**config))  # type: ignore[arg-type]


def state_of(agent: Agent) -> BreakerState:
    return agent.chain.state(asyncio.get_running_loop().time())


def test_the_next_model_answers_and_is_the_one_in_the_record() -> None:
    first, second = ScriptedModel([say("ha"), DENIED], name="first"), ScriptedModel("fine", name="second")
    session = agent_of(first, second).session()

    async def main() -> list[object]:
        return [event async for event in session.start("a")]

    events = virtual_run(main)
    run = session.runs[0]
    assert (run.output, run.turns[0].model) == ("fine", "second")
    assert first.requests == second.requests
    told = [event for event in events if isinstance(event, TurnStarted | TextDelta | AttemptReset | TurnEnded)]
    assert [type(event).__name__ for event in told] == [
        "TurnStarted", "TextDelta", "AttemptReset", "TextDelta", "TurnEnded",
    ]  # fmt: skip
    assert told[0] == TurnStarted(1, "first", run.id)


@pytest.mark.parametrize("in_one", [True, False])
def test_the_breakers_numbers_are_a_part_of_the_recovery(in_one: bool) -> None:
    breaker = BreakerConfig(failures=1, cooldown=10, probes=1)
    recovery = breaker if in_one else Recovery(model=ONCE, breaker=breaker)
    first = ScriptedModel(DENIED, "well again", name="first")
    agent = Agent(first, fallback_models=[ScriptedModel("b", repeat=True)], recovery=recovery)

    async def main() -> None:
        assert (await agent.session().run("a")).output == "b"
        assert state_of(agent) is BreakerState.FALLBACK
        assert (await agent.session().run("a")).output == "b"
        await asyncio.sleep(10)
        assert (await agent.session().run("a")).output == "well again"
        assert state_of(agent) is BreakerState.PRIMARY

    virtual_run(main)
    with pytest.raises(UsageError, match=r"Recovery\.breaker"):
        Recovery(breaker=ONCE)  # type: ignore[arg-type]


def test_a_chain_that_is_spent_says_what_each_model_failed_with() -> None:
    models = [ScriptedModel(fail(ModelError(f"{name} is down", status=500)), name=name) for name in "ab"]
    session = agent_of(*models).session()

    async def main() -> None:
        with pytest.raises(FallbackExhausted, match=r"a is down.*b is down") as caught:
            await session.run("a")
        assert caught.value.status == 500
        assert caught.value.run is session.runs[0]
        assert str(caught.value.__cause__) == "b is down"

    virtual_run(main)


def test_a_chain_of_one_fails_with_the_plain_error() -> None:
    session = agent_of(ScriptedModel(DENIED)).session()

    async def main() -> None:
        assert type((await session.start("a")).error) is ModelError

    virtual_run(main)


def test_a_model_that_fails_in_three_turns_is_gone_past_until_it_proves_itself() -> None:
    first = ScriptedModel(DENIED, DENIED, DENIED, "one", "two", "three")
    second = ScriptedModel("fine", repeat=True)
    agent = agent_of(first, second)

    async def main() -> None:
        sessions = [agent.session(), agent.session()]  # one chain for all of them
        for number in range(3):
            assert state_of(agent) is BreakerState.PRIMARY
            assert (await sessions[number % 2].run("a")).output == "fine"
        assert state_of(agent) is BreakerState.FALLBACK
        assert (await sessions[0].run("b")).output == "fine"
        assert len(first.requests) == 3
        await asyncio.sleep(60)
        assert state_of(agent) is BreakerState.RECOVERING
        assert [(await sessions[0].run("c")).output for _ in range(2)] == ["one", "two"]
        assert state_of(agent) is BreakerState.PRIMARY

    virtual_run(main)


def test_models_that_were_gone_past_are_named_when_the_chain_is_spent() -> None:
    first = ScriptedModel(DENIED, repeat=True, name="first")
    session = agent_of(first, ScriptedModel(DENIED, repeat=True, name="second")).session()

    async def main() -> None:
        for _ in range(3):
            await session.start("a")
        run = await session.start("a")
        assert "Not asked, since they failed in the turns before: first" in str(run.error)

    virtual_run(main)
    assert len(first.requests) == 3


def test_a_model_that_never_gets_ready_is_given_up_after_its_limit() -> None:
    first, second = ScriptedModel("never", prepare=[stall()]), ScriptedModel("fine", prepare=[pause(9)])
    agent = agent_of(first, second, turn_timeout=10)
    session = agent.session()

    async def main() -> None:
        assert (await session.run("a")).output == "fine"
        assert asyncio.get_running_loop().time() == 19
        assert agent.chain.breakers[0].failures == 1

    virtual_run(main)
    assert first.requests == []
    assert first.preparations[0].ending == "cancelled"


def test_a_setup_that_takes_too_long_says_so() -> None:
    session = agent_of(ScriptedModel("never", prepare=[stall()]), turn_timeout=10).session()

    async def main() -> None:
        with pytest.raises(ModelError, match=r"not finished within 10 s\. The setup was dropped") as caught:
            await session.run("a")
        assert caught.value.retryable

    virtual_run(main)


def test_a_cancel_in_one_model_asks_no_other() -> None:
    """Case C3: cancelled while the first model answers; the second is never called, and nothing is counted."""
    first, second = ScriptedModel([say("ha"), stall()], repeat=True), ScriptedModel("never")
    agent = agent_of(first, second)
    session = agent.session()

    async def main() -> None:
        for _ in range(5):
            handle = session.start("a")
            await asyncio.sleep(1)
            handle.cancel()
            assert (await handle).outcome == "cancelled"
        await asyncio.sleep(1000)

    virtual_run(main)
    assert second.requests == []
    assert agent.chain.breakers[0].failures == 0


def test_a_time_limit_of_one_attempt_does_not_poison_the_next_and_a_cancel_still_reaches_it() -> None:
    """Case C5: the first model runs into its limit, the second one answers; and a cancel is heard while it does."""
    first, second = ScriptedModel([stall()], repeat=True), ScriptedModel("fine", [say("ha"), stall()])
    session = agent_of(first, second, first_event_timeout=5).session()

    async def main() -> None:
        assert (await session.run("a")).output == "fine"
        handle = session.start("b")
        await asyncio.sleep(6)
        assert len(second.active) == 1
        handle.cancel()
        run = await handle
        assert run.stop is not None
        assert run.stop.checkpoint is Checkpoint.STREAM_EVENT
        assert (run.partial_text, run.turns[0].model) == ("ha", second.name)

    virtual_run(main)


@pytest.mark.parametrize("failure", [own_cancelled_error(), fail(TimeoutError()), fail(RuntimeError("aborted"))])
def test_an_abort_of_the_providers_own_is_a_failure_and_the_next_model_is_asked(failure: object) -> None:
    """Case C6: the signal has not fired, so what looks like a cancel is none."""
    first, second = ScriptedModel(failure), ScriptedModel("fine")  # type: ignore[arg-type]
    agent = agent_of(first, second)

    run = virtual_run(lambda: agent.session().run("a"))

    assert run.output == "fine"
    assert agent.chain.breakers[0].failures == 1


def test_a_stopped_turn_is_no_error_anywhere(caplog: pytest.LogCaptureFixture) -> None:
    """Case C11: cancelled is not failed, no counter moves, and nothing is logged as an error."""
    agent = agent_of(ScriptedModel([say("ha"), stall()]), ScriptedModel("never"))
    session = agent.session()
    before = agent.chain

    async def main() -> None:
        handle = session.start("a")
        await asyncio.sleep(1)
        handle.cancel()
        assert (await handle).outcome == "cancelled"

    with caplog.at_level(logging.DEBUG):
        virtual_run(main)
    assert agent.chain is before
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_an_answer_that_comes_after_its_time_limit_neither_closes_nor_opens_the_breaker() -> None:
    """Case C12: the request is dropped at its limit; it goes on all the same and succeeds, and nothing is counted."""
    first = ScriptedModel([absorb(), pause(9), pause(50), pause(50), say("late")], DENIED, DENIED)
    agent = agent_of(first, ScriptedModel("fine", repeat=True), first_event_timeout=5, grace=1)
    session = agent.session()

    async def main() -> None:
        assert (await session.run("a")).output == "fine"
        counted = agent.chain
        assert counted.breakers[0].failures == 1
        await asyncio.sleep(200)
        assert first.exchanges[0].ending == "returned"
        assert agent.chain is counted
        for _ in range(2):
            await session.run("b")
        assert state_of(agent) is BreakerState.FALLBACK

    virtual_run(main)


def test_a_cancel_between_two_models_asks_no_second_one() -> None:
    first, second = ScriptedModel([say("ha"), DENIED]), ScriptedModel("never")
    session: Session

    def watch(event: object) -> None:
        if isinstance(event, AttemptReset):
            session.signal.cancel("between them")

    session = Agent(first, fallback_models=[second], recovery=ONCE, observers=[watch]).session()

    async def main() -> None:
        assert (await session.start("a")).outcome == "cancelled"

    virtual_run(main)
    assert second.requests == []


def test_a_cancel_that_comes_with_the_failure_is_counted_of_nobody() -> None:
    class Late(ModelError):
        @property
        def retry_after(self) -> float | None:  # type: ignore[override]
            """Read when the brain is told: after the last checkpoint, and before the report."""
            agent_session[0].signal.cancel("just now")
            return None

        @retry_after.setter
        def retry_after(self, value: float | None) -> None:
            pass

    first, second = ScriptedModel([say("ha"), fail(Late("no", status=403))]), ScriptedModel("never")
    agent = agent_of(first, second)
    agent_session = [agent.session()]

    async def main() -> None:
        assert (await agent_session[0].start("a")).outcome == "cancelled"

    virtual_run(main)
    assert second.requests == []
    assert agent.chain.breakers[0].failures == 0


def test_each_turn_of_a_run_begins_with_the_preferred_model() -> None:
    async def look() -> str:
        """Look."""
        return "seen"

    first = ScriptedModel(DENIED, "fine", name="first")
    second = ScriptedModel([call("look", {})], name="second")
    session = Agent(first, [look], fallback_models=[second], recovery=ONCE).session()

    run = virtual_run(lambda: session.run("a"))

    assert [turn.model for turn in run.turns] == ["second", "first"]
