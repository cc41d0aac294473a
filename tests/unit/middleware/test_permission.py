"""Rules that allow, deny, ask or change calls, and the person behind an "ask"."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from loopctl import Run, UsageError, tool
from loopctl.messages import ToolCall
from loopctl.middleware import CallContext, CallNext, Permission, Policy, ToolOutcome, Verdict
from loopctl.recovery import RetryCall, ToolFailure
from loopctl.testing import call
from loopctl.tools import Approval
from tests.unit.middleware.layers import SEEN, Own, Setup, ends, nap, run_with

ASKED: list[dict[str, Any]] = []


@pytest.fixture(autouse=True)
def _clear() -> None:
    ASKED.clear()


async def yes(call_: ToolCall, ctx: Any) -> bool:
    ASKED.append(dict(call_.arguments))
    return True


def run_by(rules: dict[str, Verdict | Policy], *layers: Any, word: str = "a", approve: Any = None, **setup: Any) -> Run:
    more = {"approve": approve, **setup.pop("agent", {})}
    return Setup([Permission(rules), *layers], [call("nap", {"word": word})], agent=more, **setup).run()


@pytest.mark.parametrize(
    ("rules", "end"),
    [
        ({"nap": "allow"}, "completed"),
        ({"nap": Approval.allow()}, "completed"),
        ({"n?p": "allow", "*": "deny"}, "completed"),
        ({"*": "deny", "nap": "allow"}, "denied"),
        ({"nap": "deny"}, "denied"),
        ({"nap": "ask"}, "denied"),
        ({"other": "allow"}, "denied"),
        ({}, "denied"),
    ],
    ids=str,
)
def test_the_first_rule_that_matches_decides_and_nobody_to_ask_is_a_no(rules: Any, end: str) -> None:
    run = run_by(rules)
    ran = end == "completed"
    assert (run.outcome, ends(run), SEEN) == ("completed", [(end, int(ran))], ["nap a"] if ran else [])


def test_a_no_says_why_to_the_model() -> None:
    assert run_by({"nap": Approval.deny("Not at work.")}).tool_calls[0].result == "Not at work."
    assert "Calls of nap like this one are not allowed" in str(run_by({"nap": "deny"}).tool_calls[0].result)
    assert "nobody to ask" in str(run_by({}).tool_calls[0].result)


def by_word(call_: ToolCall) -> Verdict:
    match call_.arguments["word"]:
        case "good":
            return "allow"
        case "bad":
            return Approval.deny("Bad word.")
        case "short":
            return Approval.allow({"word": "longer"})
        case "wrong":
            return Approval.allow({"seconds": "no number"})
        case "asked":
            return "ask"
    raise KeyError("what?")


@pytest.mark.parametrize(
    ("word", "end", "seen"),
    [
        ("good", ("completed", 1), ["nap good"]),
        ("bad", ("denied", 0), []),
        ("short", ("completed", 1), ["nap longer"]),
        ("wrong", ("failed", 0), []),
        ("asked", ("completed", 1), ["nap asked"]),
        ("unknown", ("failed", 0), []),
    ],
)
def test_a_policy_decides_by_the_arguments(word: str, end: Any, seen: list[str]) -> None:
    run = run_by({"nap": by_word}, word=word, approve=yes)
    assert (ends(run), SEEN) == ([end], seen)
    assert ([{"word": "asked"}] if word == "asked" else []) == ASKED


def test_the_record_says_what_ran() -> None:
    assert run_by({"nap": by_word}, word="short").tool_calls[0].arguments == {"word": "longer"}


def test_a_policy_that_gives_no_verdict_lets_nothing_run() -> None:
    run = run_by({"nap": lambda _: True})  # type: ignore[dict-item, return-value]
    assert (ends(run), SEEN) == ([("failed", 0)], [])
    assert "gave True" in str(run.tool_calls[0].result)


async def longer(call_: ToolCall, ctx: Any, call_next: CallNext) -> ToolOutcome:
    return await call_next(ToolCall("", "", {"word": call_.arguments["word"] + "+"}))


def test_who_is_asked_sees_what_would_really_run() -> None:
    run = run_by({"nap": "ask"}, Own(longer), approve=yes)
    assert ASKED == [{"word": "a+"}]
    assert (SEEN, run.tool_calls[0].arguments) == (["nap a+"], {"word": "a+"})


def test_a_rule_does_not_take_back_what_the_tool_asks_for_and_nobody_is_asked_twice() -> None:
    @tool(approval=True)
    async def pay() -> str:
        return "paid"

    for verdict in ("allow", "ask"):
        ASKED.clear()
        rules: dict[str, Verdict | Policy] = {"*": verdict}  # type: ignore[dict-item]
        run = Setup([Permission(rules)], [call("pay")], [pay], agent={"approve": yes}).run()
        assert (ends(run), ASKED) == ([("completed", 1)], [{}])


def test_an_answer_holds_for_the_retries_of_the_same_arguments() -> None:
    async def other(call_: ToolCall, ctx: Any) -> Approval:
        ASKED.append(dict(call_.arguments))
        return Approval.allow({"word": "b", "fails": True})

    def again(failure: ToolFailure) -> RetryCall:
        return RetryCall(arguments={"word": "c"} if failure.attempt == 3 else None)

    agent = {"approve": other, "recovery": again}
    setup = Setup([Permission({"nap": "ask"})], [call("nap", {"word": "a", "fails": True})], agent=agent)
    setup.run()
    assert SEEN == ["nap b"] * 5
    assert [asked["word"] for asked in ASKED] == ["a", "c"]


def test_a_stop_means_no_and_the_prompt_is_withdrawn() -> None:
    shown = []

    async def prompt(call_: ToolCall, ctx: CallContext) -> bool:
        shown.append("shown")
        try:
            await asyncio.sleep(60)
        finally:
            shown.append("withdrawn")
        return True

    run = run_by({"nap": "ask"}, approve=prompt, stop_at=1)
    assert run.stop is not None
    assert run.stop.checkpoint.name == "APPROVAL"
    assert (ends(run), SEEN, shown) == ([("not_started", 0)], [], ["shown", "withdrawn"])


def test_any_layer_may_require_a_yes() -> None:
    seen = []

    async def require(call_: Any, ctx: CallContext, call_next: CallNext) -> ToolOutcome:
        ctx.require_approval()
        seen.append(ctx.needs_approval)
        return await call_next(call_)

    assert ends(run_with(Own(require))) == [("denied", 0)]
    assert ends(Setup([Own(require)], [call("nap")], [nap], agent={"approve": yes}).run()) == [("completed", 1)]
    assert seen == [True, True]


@pytest.mark.parametrize("rules", [None, "allow", ["nap"], {1: "allow"}, {"nap": "maybe"}, {"nap": None}], ids=str)
def test_what_is_no_rule_is_refused(rules: Any) -> None:
    with pytest.raises(UsageError, match="Permission"):
        Permission(rules)
