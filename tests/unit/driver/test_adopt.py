"""What `adopt` commits of a run that did not complete: true sentences, each call closed once."""

from __future__ import annotations

import asyncio

import pytest

from loopctl import (
    Agent,
    CancelReason,
    RunConfig,
    Session,
    SessionBusy,
    ToolFinished,
    ToolStarted,
    UsageError,
    tool,
)
from loopctl.messages import AssistantMessage, ToolMessage, UserMessage, find_problems
from loopctl.testing import ScriptedModel, call, fail, pause, say, stall, swallow_always, virtual_run


async def quick() -> str:
    """Be quick."""
    return "quick result"


async def slow() -> str:
    """Be slow."""
    await asyncio.sleep(100)
    return "slow result"


def session_of(*replies: object, tools: tuple[object, ...] = (quick, slow), **config: object) -> Session:
    return Agent(ScriptedModel(*replies), tools, config=RunConfig(**config)).session()  # type: ignore[arg-type]


def results_of(session: Session) -> list[tuple[str, bool]]:
    message = session.history[-1]
    assert isinstance(message, ToolMessage)
    return [(result.content, result.is_error) for result in message.results]


@pytest.mark.parametrize(
    ("origin", "words"),
    [("user", "the user stopped the run"), ("deadline", "deadline"), ("shutdown", "shutting down")],
)
def test_each_call_is_closed_with_what_is_known_and_the_reason(origin: str, words: str) -> None:
    """Case A1 and Case A10: after adopting, the next request has no open call and the provider takes it."""
    calls = [call("quick", {}), call("slow", {}), call("quick", {})]
    session = session_of([say("let me see"), *calls], "fine")

    async def main() -> None:
        handle = session.start("a")
        await asyncio.sleep(1)
        handle.cancel(CancelReason(origin))  # type: ignore[arg-type]
        run = await handle
        assert session.adopt(run) is True
        assert not find_problems(session.history)
        closings = results_of(session)
        assert closings[0] == ("quick result", False)
        assert words in closings[1][0]
        assert "unknown" in closings[1][0]
        assert words in closings[2][0]
        assert "not run" in closings[2][0]
        assert [is_error for _, is_error in closings] == [False, True, True]
        assert (await session.run("b")).output == "fine"

    virtual_run(main)


def test_a_new_run_after_a_cancel_in_a_tool_is_accepted_without_adopting() -> None:
    """Case A1, Case A8 and Case A10: cancel in tool 1 of 1, go on with the same session and with its history."""
    session = session_of([call("slow", {})], "fine", "fine too")

    async def main() -> None:
        handle = session.start("a")
        await asyncio.sleep(1)
        handle.cancel()
        await handle
        assert asyncio.get_running_loop().time() == 1
        assert session.history == ()
        assert (await session.run("b")).output == "fine"
        model = session.agent.model
        assert isinstance(model, ScriptedModel)
        assert model.requests[1].messages == (UserMessage("b"),)
        again = session.agent.session(history=session.history)
        assert (await again.run("c")).output == "fine too"

    virtual_run(main)


async def _torn_in_its_cleanup() -> str:
    """Fail slowly."""
    try:
        raise ValueError("credentials are missing")
    finally:
        await asyncio.sleep(0.5)


async def _fails_all_the_same() -> str:
    """Fail slowly, whatever comes."""
    try:
        await asyncio.sleep(0.5)
    finally:
        raise ValueError("credentials are missing")


@pytest.mark.parametrize(
    ("failing", "status", "words"),
    [
        (_torn_in_its_cleanup, "interrupted", "Whether it had an effect is unknown"),
        (_fails_all_the_same, "failed", "credentials are missing"),
    ],
)
def test_a_cancel_while_the_tool_is_failing_closes_the_call_once(failing: object, status: str, words: str) -> None:
    """Case A4: exactly one closing for the readers and one in the history, and both say what is known."""
    session = session_of([call("failing", {})], "fine", tools=(tool(failing, name="failing"),))  # type: ignore[call-overload]

    async def main() -> None:
        handle = session.start("a")
        reader = aiter(handle)
        await asyncio.sleep(0.2)
        assert [type(await anext(reader)) for _ in range(3)][-1] is ToolStarted
        handle.cancel()
        closings = [event.call.status async for event in reader if isinstance(event, ToolFinished)]
        run = await handle
        assert closings == [record.status for record in run.tool_calls] == [status]
        assert session.adopt(run)
        ((text, is_error),) = results_of(session)
        assert is_error
        assert words in text
        assert (await session.run("b")).output == "fine"

    virtual_run(main)


def test_a_late_end_of_an_abandoned_call_is_used() -> None:
    probe = swallow_always()
    session = session_of([call(probe.function.__name__, {})], tools=(probe.function,))

    async def main() -> None:
        handle = session.start("a")
        await probe.until_started()
        handle.cancel()
        run = await handle
        probe.release()
        await asyncio.sleep(1)
        assert session.adopt(run)
        assert results_of(session) == [("released", False)]
        assert run.tool_calls[0].status == "abandoned"

    virtual_run(main)


def test_an_abandoned_call_that_still_runs_says_so() -> None:
    probe = swallow_always()
    session = session_of([call(probe.function.__name__, {})], tools=(probe.function,))

    async def main() -> None:
        handle = session.start("a")
        await probe.until_started()
        handle.cancel()
        assert session.adopt(await handle)
        ((text, is_error),) = results_of(session)
        assert is_error
        assert "may still be running" in text
        probe.release()

    virtual_run(main)


def test_unfinished_arguments_and_empty_replies_are_dropped() -> None:
    session = session_of([call("quick", '{"a": ', fragments=1), stall()], [stall()], "fine")

    async def main() -> None:
        for _ in range(2):
            handle = session.start("a")
            await asyncio.sleep(1)
            handle.cancel()
            run = await handle
            assert run.tool_calls == ()
            assert session.adopt(run)
        assert session.history == (UserMessage("a"), UserMessage("a"))

    virtual_run(main)


def test_a_call_of_an_unfinished_reply_is_kept_if_its_arguments_are_whole() -> None:
    session = session_of([say("x"), call("quick", {}), stall()], "fine")

    async def main() -> None:
        handle = session.start("a")
        await asyncio.sleep(1)
        handle.cancel()
        run = await handle
        assert [record.status for record in run.tool_calls] == ["not_started"]
        assert session.adopt(run)
        assert isinstance(session.history[1], AssistantMessage)
        assert results_of(session)[0][0].startswith("This call was not run")
        assert (await session.run("b")).output == "fine"

    virtual_run(main)


def test_failed_runs_and_runs_out_of_turns_can_be_adopted() -> None:
    session = session_of([say("half"), fail("no")], [call("quick", {})], max_turns=1)

    async def main() -> None:
        failed = await session.start("a")
        assert session.adopt(failed)
        assert session.history[-1] == failed.turns[0].reply
        limited = await session.start("b")
        assert limited.outcome == "max_turns"
        assert session.adopt(limited)
        assert "limit of turns" in results_of(session)[0][0]

    virtual_run(main)


def test_adopting_is_for_the_last_run_of_an_idle_session_once() -> None:
    session = session_of([stall()], "fine", [pause(5), say("x")])

    async def main() -> None:
        handle = session.start("a")
        await asyncio.sleep(1)
        handle.cancel()
        stopped = await handle
        completed = await session.run("b")
        with pytest.raises(UsageError, match="last run"):
            session.adopt(stopped)
        assert session.adopt(completed) is False
        handle = session.start("c")
        with pytest.raises(SessionBusy):
            session.adopt(completed)
        await handle
        with pytest.raises(UsageError):
            session_of("x").adopt(completed)

    virtual_run(main)
