"""Middleware around tool calls: order, vetoes, errors, what the record says."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from typing import Any

import pytest

from loopctl import Agent, UsageError, tool
from loopctl.messages import ToolCall, ToolMessage
from loopctl.middleware import CallContext, CallNext, Memoize, OutputLimit, Permission, Redact, Timeout, ToolOutcome
from loopctl.recovery import RetryCall, ToolFailure
from loopctl.testing import ScriptedModel, call
from tests.unit.middleware.layers import SEEN, Layer, Own, Setup, ends, nap, run_with


def test_the_first_is_outermost() -> None:
    run = run_with(Layer("a"), Layer("b"))
    assert SEEN == ["+a", "+b", "nap", "-b", "-a"]
    assert ends(run) == [("completed", 1)]


def test_a_layer_that_does_not_go_on_vetoes_and_says_why() -> None:
    async def veto(call_: Any, ctx: Any, call_next: Any) -> ToolOutcome:
        return ToolOutcome.denied("Not on Sundays.")

    run = run_with(Layer("a"), Own(veto))
    assert (ends(run), run.tool_calls[0].result) == ([("denied", 0)], "Not on Sundays.")
    assert SEEN == ["+a", "-a"]
    assert (run.tool_calls[0].started_at, run.tool_calls[0].ended_at) == (None, None)


def test_a_layer_may_change_arguments_but_neither_the_id_nor_the_name() -> None:
    seen = []

    async def change(call_: ToolCall, ctx: Any, call_next: CallNext) -> ToolOutcome:
        return await call_next(ToolCall("other", "else", {"seconds": 2}))

    async def look(call_: ToolCall, ctx: Any, call_next: CallNext) -> ToolOutcome:
        seen.append((call_.id, call_.name))
        return await call_next(call_)

    run = run_with(Own(change), Own(look))
    (record,) = run.tool_calls
    assert (record.name, record.arguments, record.status) == ("nap", {"seconds": 2}, "completed")
    assert [(record.id, record.name)] == seen
    assert record.id == run.turns[0].reply.tool_calls[0].id
    assert run.turns[0].reply.tool_calls[0].arguments == {"seconds": 0}, "the model's own words stay as they were"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (None, "call_next takes the ToolCall"),
        (ToolCall("x", "nap", None), "arguments of a ToolCall are a mapping"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_call_is_not_passed_on(given: Any, words: str) -> None:
    async def pass_on(call_: Any, ctx: Any, call_next: Any) -> Any:
        return await call_next(given)

    run = run_with(Own(pass_on))
    assert ends(run) == [("failed", 0)]
    assert words in str(run.tool_calls[0].result)
    assert SEEN == []


def test_a_tool_sees_the_context_variables_of_the_layers() -> None:
    here = contextvars.ContextVar("here", default="outside")

    @tool
    async def where() -> str:
        return here.get()

    async def enter(call_: Any, ctx: Any, call_next: Any) -> Any:
        here.set("inside")
        return await call_next(call_)

    assert Setup([Own(enter)], [call("where")], [where]).run().tool_calls[0].result == "inside"


async def raising(call_: Any, ctx: Any, call_next: Any) -> ToolOutcome:
    raise ValueError("broken")


async def own_cancel(call_: Any, ctx: Any, call_next: CallNext) -> ToolOutcome:
    raise asyncio.CancelledError


async def nothing(call_: Any, ctx: Any, call_next: Any) -> None:
    await call_next(call_)


async def twice(call_: Any, ctx: Any, call_next: CallNext) -> ToolOutcome:
    await call_next(call_)
    return await call_next(call_)


@pytest.mark.parametrize(
    ("function", "words", "end"),
    [
        (raising, "Own failed: ValueError: broken", ("failed", 0)),
        (own_cancel, "Cancelled", ("failed", 0)),
        (nothing, "Own gave NoneType", ("completed", 1)),
        (twice, "Own failed: UsageError: call_next is called once", ("completed", 1)),
    ],
)
def test_a_broken_layer_is_an_error_for_the_model_that_names_it(function: Any, words: str, end: Any) -> None:
    run = run_with(Own(function))
    (record,) = run.tool_calls
    assert run.outcome == "completed"
    assert ends(run) == [end], "what the tool did is not for a layer to deny"
    assert words in str(record.result)
    assert SEEN.count("nap") <= 1


def always(failure: ToolFailure) -> RetryCall:
    return RetryCall(after=1)


@pytest.mark.parametrize(
    "outcome", [ToolOutcome.failed("bad"), ToolOutcome.denied("no"), ToolOutcome.completed("good")]
)
def test_a_layer_says_what_the_model_is_told_and_the_record_says_what_the_tool_did(outcome: ToolOutcome) -> None:
    async def answer(call_: Any, ctx: Any, call_next: Any) -> ToolOutcome:
        await call_next(call_)
        return outcome

    for fails in (False, True):
        setup = Setup([Own(answer)], [call("nap", {"fails": fails})], agent={"recovery": always})
        session = setup.session()
        run = asyncio.run(session.run("go"))
        [message] = [message for message in session.history if isinstance(message, ToolMessage)]
        is_bad = outcome.status != "completed"
        assert [(result.content, result.is_error) for result in message.results] == [(outcome.content, is_bad)]
        is_retried = fails and outcome.status == "failed"
        assert ends(run) == [("failed" if fails else "completed", 5 if is_retried else 1)]


def test_each_attempt_begins_with_the_arguments_of_the_model_again() -> None:
    async def further(call_: ToolCall, ctx: Any, call_next: CallNext) -> ToolOutcome:
        return await call_next(ToolCall("", "", {**call_.arguments, "word": call_.arguments["word"] + "+"}))

    seen = []

    def twice_then_other(failure: ToolFailure) -> RetryCall:
        seen.append(failure.call.arguments["word"])
        return RetryCall(arguments={"word": "b", "fails": True} if failure.attempt == 2 else None)

    setup = Setup([Own(further)], [call("nap", {"word": "a", "fails": True})], agent={"recovery": twice_then_other})
    run = setup.run()
    assert SEEN == ["nap a+", "nap a+", "nap b+", "nap b+", "nap b+"]
    assert seen == ["a+", "a+", "b+", "b+"]
    assert run.tool_calls[0].arguments["word"] == "b+"


def test_a_no_to_a_second_attempt_does_not_deny_the_first() -> None:
    async def once(call_: Any, ctx: Any, call_next: CallNext) -> ToolOutcome:
        return ToolOutcome.denied("enough") if SEEN else await call_next(call_)

    run = Setup([Own(once)], [call("nap", {"fails": True})], agent={"recovery": always}).run()
    assert (ends(run), run.tool_calls[0].result) == ([("failed", 1)], "enough")


def test_a_time_limit_of_a_layers_own_stops_the_tool_and_takes_nothing_from_the_runs_grace() -> None:
    async def hurry(call_: Any, ctx: Any, call_next: CallNext) -> ToolOutcome:
        try:
            async with asyncio.timeout(None if SEEN else 1):
                return await call_next(call_)
        except TimeoutError:
            return ToolOutcome.failed("hurry up")

    @tool
    async def slow_to_stop() -> str:
        try:
            await asyncio.sleep(50)
        finally:
            await asyncio.sleep(0.75)
            SEEN.append("tidied")
        return ""

    calls = [call("slow_to_stop"), call("slow_to_stop")]
    run = Setup([Own(hurry)], calls, [slow_to_stop], stop_at=2.25).run()
    assert ends(run) == [("failed", 1), ("interrupted", 1)]
    assert SEEN == ["tidied", "tidied"], "stopped at 1 by the layer; at 2.25 by the run, with a whole grace"
    assert run.stragglers == ()


class Both:
    def tool_text(self, text: str) -> str:
        return text.upper()

    async def tool_call(self, call: ToolCall, ctx: CallContext, call_next: CallNext) -> ToolOutcome:
        return ToolOutcome.completed((await call_next(call)).content + " and more")


def test_a_layer_may_stand_around_calls_and_rewrite_texts() -> None:
    assert run_with(Both()).tool_calls[0].result == "SLEPT 0, KEY SK-12345 AND MORE"


class AsyncText:
    async def tool_text(self, text: str) -> str:
        return text


class PlainCall:
    def tool_call(self, call: Any, ctx: Any, call_next: Any) -> None: ...


@pytest.mark.parametrize("given", [object(), Layer, Timeout, AsyncText(), PlainCall()])
def test_what_is_no_middleware_is_refused(given: Any) -> None:
    with pytest.raises(UsageError, match="middleware="):
        Agent(ScriptedModel("x"), middleware=[given])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (Both(), r"write middleware=\[…\]"),
        ([Timeout], r"not a class: write Timeout\(…\)"),
        ([PlainCall()], "PlainCall.tool_call is not"),
        ([AsyncText()], "AsyncText.tool_text is not"),
    ],
)
def test_the_part_that_makes_it_no_middleware_is_named(given: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Agent(ScriptedModel("x"), middleware=given)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Timeout(0),
        lambda: Timeout(1, retries=5),
        lambda: Timeout(1, tools="nap"),
        lambda: OutputLimit(0),
        lambda: Redact("x"),
        lambda: Redact(["("]),
        lambda: Memoize(0),
        lambda: Memoize(seconds=0),
        lambda: Permission({"nap": "maybe"}),  # type: ignore[dict-item]
        lambda: Permission({"nap": raising}),  # type: ignore[dict-item]
        lambda: Permission(["nap"]),  # type: ignore[arg-type]
    ],
    ids=[str(number) for number in range(11)],
)
def test_a_setting_out_of_range_is_refused(make: Callable[[], object]) -> None:
    with pytest.raises(UsageError):
        make()


def test_a_layer_is_told_whether_a_tool_is_read_only() -> None:
    seen = []

    async def look(call_: Any, ctx: CallContext, call_next: CallNext) -> ToolOutcome:
        seen.append(ctx.read_only)
        return await call_next(call_)

    @tool(read_only=True)
    async def peek() -> str:
        return ""

    Setup([Own(look)], [call("nap"), call("peek")], [nap, peek]).run()
    assert seen == [False, True]
