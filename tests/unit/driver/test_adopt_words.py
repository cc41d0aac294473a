"""The words that `adopt` closes calls with: each names the true cause, and only what completed is a success."""

from __future__ import annotations

import asyncio
from typing import Any, get_args

import pytest

from loopctl import Agent, Cancelled, CancelReason, Run, RunConfig, Session, tool
from loopctl.messages import ToolMessage, find_problems
from loopctl.middleware import OutputLimit
from loopctl.record import CallStatus, Origin
from loopctl.recovery import ModelRecovery
from loopctl.testing import ScriptedModel, call, no_end, say, stall, swallow_always, virtual_run

CAUSES = {
    "user": "the user stopped the run",
    "deadline": "the run reached its deadline",
    "stall": "the run was stopped because nothing happened any more",
    "budget": "the run reached its token budget",
    "disconnect": "the client disconnected",
    "shutdown": "the program is shutting down",
    "observer": "a rule of the application stopped the run",
    "caller": "the application stopped the run",
    "parent": "the run that this one was part of ended",
}
ONCE = ModelRecovery(transport_retries=0, rate_limit_retries=0, rescue=False)


@tool(parallel=True)
async def look() -> str:
    """Look."""
    return "a real result"


@tool(parallel=True)
async def broken() -> str:
    """Break."""
    raise ValueError("the disk is full")


@tool(parallel=True, approval=True)
async def pay() -> str:
    """Pay."""
    return "paid"


@tool(parallel=True)
async def slow() -> str:
    """Be slow."""
    await asyncio.sleep(1000)
    return "too late"


@tool
async def later() -> str:
    """Run alone, after the others."""
    return "never"


def results_of(session: Session) -> list[tuple[str, bool]]:
    assert not find_problems(session.history)
    message = session.history[-1]
    assert isinstance(message, ToolMessage)
    return [(result.content, result.is_error) for result in message.results]


def session_with(deaf: Any, **options: Any) -> Session:
    tools = [look, broken, pay, slow, tool(deaf.function, name="deaf", parallel=True), later]
    script = [call(each.name, {}) for each in tools]
    return Agent(ScriptedModel(script), tools, config=RunConfig(dispatch="parallel"), **options).session()


async def cancelled(session: Session, deaf: Any, reason: CancelReason) -> Run:
    handle = session.start("go")
    await deaf.until_started()
    await asyncio.sleep(1)
    handle.cancel(reason)
    return await handle


def test_every_origin_has_words_of_its_own() -> None:
    assert set(CAUSES) == set(get_args(Origin))
    assert len(set(CAUSES.values())) == len(CAUSES)


@pytest.mark.parametrize("origin", get_args(Origin))
@pytest.mark.parametrize("message", ["", "because of the weather"])
def test_each_call_is_closed_by_its_status_and_the_true_cause(origin: Origin, message: str) -> None:
    """Case A7 and Case A11: a user's stop is called one and a deadline a deadline; no repair is a success."""
    deaf = swallow_always()
    session = session_with(deaf)

    async def main() -> Run:
        run = await cancelled(session, deaf, CancelReason(origin, message))
        assert session.adopt(run)
        deaf.release()
        return run

    run = virtual_run(main)
    cause = f"{CAUSES[origin]} ({message})" if message else CAUSES[origin]
    nobody = "pay needs a person's approval, and there is nobody to ask. It was not run."
    unknown = "Whether it had an effect is unknown."
    told = {
        CallStatus.COMPLETED: "a real result",
        CallStatus.FAILED: "ValueError: the disk is full",
        CallStatus.DENIED: nobody,
        CallStatus.INTERRUPTED: f"This call was interrupted: {cause} while it ran. {unknown}",
        CallStatus.ABANDONED: f"This call had not ended when {cause}. It may still be running; its effect is unknown.",
        CallStatus.NOT_STARTED: f"This call was not run: {cause} before it began.",
    }
    assert [record.status for record in run.tool_calls] == list(told)
    assert set(told) == set(CallStatus)
    assert results_of(session) == [(text, status != "completed") for status, text in told.items()]


@pytest.mark.parametrize(
    ("script", "max_turns", "outcome", "cause"),
    [
        ([say("x"), call("later", {}), no_end()], 5, "failed", "the model's reply broke off"),
        ([say("x"), call("later", {})], 1, "max_turns", "the run reached its limit of turns"),
    ],
    ids=["truncation", "limit of turns"],
)
def test_what_nobody_stopped_is_not_called_a_stop(script: Any, max_turns: int, outcome: str, cause: str) -> None:
    """Case A7: a call that a truncated reply left open is not blamed on a user."""
    config = RunConfig(max_turns=max_turns)
    session = Agent(ScriptedModel(script), [later], recovery=ONCE, config=config).session()

    async def main() -> None:
        run = await session.start("go")
        assert run.outcome == outcome
        assert session.adopt(run)

    virtual_run(main)
    assert results_of(session) == [(f"This call was not run: {cause} before it began.", True)]


def test_a_crash_is_called_a_fault_and_not_a_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Case A7: the call that a crash of the engine left open is closed with that cause."""

    async def torn(*_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("loopctl.driver._perform.run_sequentially", torn)
    session = Agent(ScriptedModel([call("later", {})]), [later]).session()

    async def main() -> None:
        assert session.adopt(await session.start("go"))

    virtual_run(main)
    ((text, is_error),) = results_of(session)
    assert text == "This call was not run: a fault in the program ended the run before it began."
    assert is_error


def test_an_own_deadline_and_a_press_are_told_apart_in_the_same_session() -> None:
    """Case A11: with the deadline of the run itself, and with the session's signal."""
    script = [call("slow", {})]
    config = RunConfig(deadline=5)
    session = Agent(ScriptedModel(script, script), [slow], config=config).session()

    async def main() -> None:
        with pytest.raises(Cancelled) as caught:
            await session.run("a")
        assert caught.value.run is not None
        session.adopt(caught.value.run)
        ((text, _),) = results_of(session)
        assert "deadline (it had 5 s)" in text
        assert "user" not in text
        handle = session.start("b")
        await asyncio.sleep(1)
        session.signal.cancel()
        session.adopt(await handle)
        ((text, _),) = results_of(session)
        assert "the user stopped the run" in text
        assert "deadline" not in text

    virtual_run(main)


def test_a_late_yes_is_not_taken_for_the_result_of_the_call() -> None:
    release = asyncio.Event()

    async def approve(asked: object, ctx: object) -> bool:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        return True

    session = Agent(ScriptedModel([call("pay", {})]), [pay], approve=approve).session()

    async def main() -> None:
        handle = session.start("go")
        await asyncio.sleep(1)
        handle.cancel()
        run = await handle
        release.set()
        await asyncio.sleep(1)
        assert [straggler.is_ended for straggler in session.stragglers] == [True]
        assert session.adopt(run)

    virtual_run(main)
    assert results_of(session) == [("This call was not run: the user stopped the run before it began.", True)]


def test_a_late_result_is_passed_on_as_the_middleware_lets_it_out() -> None:
    deaf = swallow_always()
    session = session_with(deaf, middleware=[OutputLimit(2)])

    async def main() -> None:
        run = await cancelled(session, deaf, CancelReason())
        assert run.tool_calls[4].status == "abandoned"
        deaf.release()
        await asyncio.sleep(1)
        assert session.adopt(run)

    virtual_run(main)
    assert results_of(session)[4] == ("re\n[… 6 of 8 characters left out …]\n", False)


def test_an_unfinished_call_that_the_user_stopped_says_so() -> None:
    session = Agent(ScriptedModel([say("x"), call("later", {}), stall()]), [later]).session()

    async def main() -> None:
        handle = session.start("go")
        await asyncio.sleep(1)
        handle.cancel()
        assert session.adopt(await handle)

    virtual_run(main)
    assert results_of(session) == [("This call was not run: the user stopped the run before it began.", True)]
