"""Who is asked before a call, what each answer means, and what a cancel does to the question."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from loopctl import Agent, Cancelled, CancelSignal, Checkpoint, LoopError, Run, Urgency, UsageError, tool
from loopctl.recovery import RetryCall, ToolFailure
from loopctl.testing import ScriptedModel, call, virtual_run
from loopctl.tools import Approval

RAN: list[str] = []


@tool(approval=True)
async def pay(to: str) -> str:
    """Pay."""
    RAN.append(to)
    return f"paid {to}"


def run_with(approve: Any, **options: Any) -> Run:
    RAN.clear()
    agent = Agent(ScriptedModel([call("pay", {"to": "ann"})], "done"), tools=[pay], approve=approve, **options)
    return virtual_run(lambda: agent.session().run("go"))


def answer(value: object) -> Any:
    async def approve(asked: Any, ctx: Any) -> object:
        assert (asked.name, asked.id) == (ctx.tool_name, ctx.call_id)
        return value

    return approve


@pytest.mark.parametrize("yes", [True, Approval.allow()])
def test_a_yes_lets_the_call_run(yes: object) -> None:
    (record,) = run_with(answer(yes)).tool_calls
    assert (record.status, record.result, RAN) == ("completed", "paid ann", ["ann"])


@pytest.mark.parametrize(
    ("no", "words"),
    [
        (False, "was not approved"),
        (Approval.deny(), "was not approved"),
        (Approval.deny("Too dear."), r"^Too dear\.$"),
        (None, "neither a bool nor an Approval"),
        (1, "neither a bool nor an Approval"),
    ],
)
def test_everything_else_is_a_no_that_the_model_is_told(no: object, words: str) -> None:
    run = run_with(answer(no))
    (record,) = run.tool_calls
    assert (record.status, record.attempts, RAN) == ("denied", 0, [])
    with pytest.raises(AssertionError, match=words):
        raise AssertionError(record.result)
    assert run.outcome == "completed"


@pytest.mark.parametrize(
    "parts", [("no",), (1,), (None,), (False, 5), (False, None), (True, "", [1]), (True, "", "x")], ids=str
)
def test_an_approval_that_is_none_is_refused_and_lets_nothing_run(parts: Any) -> None:
    async def approve(asked: Any, ctx: Any) -> Approval:
        return Approval(*parts)

    run = run_with(approve)
    (record,) = run.tool_calls
    assert (run.outcome, record.status, RAN) == ("completed", "denied", [])
    assert "UsageError: Approval." in str(record.result)


def test_nobody_to_ask_is_a_no() -> None:
    (record,) = run_with(None).tool_calls
    assert (record.status, RAN) == ("denied", [])
    assert record.result is not None
    assert "nobody to ask" in record.result


def test_an_error_of_who_is_asked_is_a_no_that_names_it() -> None:
    async def approve(asked: Any, ctx: Any) -> bool:
        raise OSError("no terminal")

    (record,) = run_with(approve).tool_calls
    assert (record.status, RAN) == ("denied", [])
    assert record.result is not None
    assert "OSError: no terminal" in record.result


def test_a_yes_to_other_arguments_runs_those_and_records_them() -> None:
    (record,) = run_with(answer(Approval.allow({"to": "bob"}))).tool_calls
    assert (record.arguments, record.result, RAN) == ({"to": "bob"}, "paid bob", ["bob"])


def test_other_arguments_that_do_not_fit_fail_the_call() -> None:
    (record,) = run_with(answer(Approval.allow({"whom": "bob"}))).tool_calls
    assert (record.status, RAN) == ("failed", [])


def test_a_tool_may_say_which_calls_need_a_yes() -> None:
    asked: list[int] = []

    @tool(approval=lambda a: a["amount"] > 10)
    def spend(amount: int) -> int:
        """Spend."""
        return amount

    async def approve(call_: Any, ctx: Any) -> bool:
        asked.append(call_.arguments["amount"])
        return True

    calls = [call("spend", {"amount": 5}), call("spend", {"amount": 50}), call("spend", {"price": 99})]
    agent = Agent(ScriptedModel(calls, "done"), tools=[spend], approve=approve)
    run = virtual_run(lambda: agent.session().run("go"))
    assert asked == [50]
    assert [record.status for record in run.tool_calls] == ["completed", "completed", "failed"]


@pytest.mark.parametrize("approval", [lambda a: "yes", lambda a: 1 / 0], ids=["text", "error"])
def test_a_tool_that_cannot_say_whether_it_needs_a_yes_does_not_run(approval: Any) -> None:
    made = tool(pay.__wrapped__, approval=approval)  # type: ignore[attr-defined]
    RAN.clear()
    agent = Agent(ScriptedModel([call("pay", {"to": "ann"})], "done"), tools=[made], approve=answer(True))
    (record,) = virtual_run(lambda: agent.session().run("go")).tool_calls
    assert (record.status, RAN) == ("failed", [])


def test_another_attempt_asks_again_only_about_other_arguments() -> None:
    asked: list[str] = []

    @tool(approval=True)
    def fail(to: str) -> str:
        """Fail."""
        raise OSError(to)

    async def approve(call_: Any, ctx: Any) -> bool:
        asked.append(call_.arguments["to"])
        return True

    def again(failure: ToolFailure) -> RetryCall:
        return RetryCall(arguments={"to": "ann" if failure.attempt == 1 else "bob"})

    agent = Agent(ScriptedModel([call("fail", {"to": "ann"})], "done"), tools=[fail], approve=approve, recovery=again)
    (record,) = virtual_run(lambda: agent.session().run("go")).tool_calls
    assert asked == ["ann", "bob"]
    assert record.attempts > 2


@pytest.mark.parametrize("urgency", list(Urgency))
def test_a_cancel_means_no_and_the_prompt_is_withdrawn(urgency: Urgency) -> None:
    seen: list[str] = []
    RAN.clear()

    async def main() -> Run:
        signal = CancelSignal()

        async def approve(asked: Any, ctx: Any) -> bool:
            asyncio.get_running_loop().call_later(1, lambda: signal.cancel(urgency=urgency))
            try:
                await asyncio.sleep(100)
            finally:
                seen.append("withdrawn")
            return True

        agent = Agent(ScriptedModel([call("pay", {"to": "ann"})], "done"), tools=[pay], approve=approve)
        with pytest.raises(Cancelled) as stopped:
            await agent.session().run("go", signal=signal)
        assert asyncio.get_running_loop().time() < 3
        assert stopped.value.run is not None
        return stopped.value.run

    run = virtual_run(main)
    assert run.stop is not None
    assert run.stop.checkpoint is Checkpoint.APPROVAL
    assert ([record.status for record in run.tool_calls], RAN, seen) == (["not_started"], [], ["withdrawn"])


@pytest.mark.parametrize("is_deaf", [False, True])
def test_a_yes_that_comes_with_the_cancel_or_after_it_is_too_late(is_deaf: bool) -> None:
    RAN.clear()

    async def main() -> Run:
        signal = CancelSignal()

        async def approve(asked: Any, ctx: Any) -> bool:
            signal.cancel()
            try:
                await asyncio.sleep(3 if is_deaf else 0)
            except asyncio.CancelledError:
                await asyncio.sleep(0.1)
            return True

        agent = Agent(ScriptedModel([call("pay", {"to": "ann"})], "done"), tools=[pay], approve=approve)
        with pytest.raises(Cancelled) as stopped:
            await agent.session().run("go", signal=signal)
        assert stopped.value.run is not None
        return stopped.value.run

    run = virtual_run(main)
    assert run.stop is not None
    assert run.stop.checkpoint is Checkpoint.APPROVAL
    assert ([record.status for record in run.tool_calls], RAN) == (["not_started"], [])


def test_an_approve_that_cannot_be_called_is_refused() -> None:
    with pytest.raises(UsageError, match="approve="):
        Agent(ScriptedModel("x"), approve=True)  # type: ignore[arg-type]


@pytest.mark.parametrize("options", [{"approval": 3}, {"read_only": "yes"}])
def test_an_option_of_another_type_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(LoopError, match=next(iter(options))):
        tool(pay.__wrapped__, **options)  # type: ignore[attr-defined]
