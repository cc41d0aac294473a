"""What is told of a tool goes through the layers that rewrite texts: on every way out, also where nothing can wait."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from loopctl import Agent, RunConfig, Session, ToolContext, ToolError, ToolProgress, UsageError, tool
from loopctl.messages import ToolMessage
from loopctl.middleware import CallNext, OutputLimit, Redact, ToolOutcome
from loopctl.recovery import GiveToModel, ToolFailure
from loopctl.testing import ScriptedModel, call, virtual_run
from tests.unit.middleware.layers import Layer, Own, Setup, run_with

SECRET = Redact([r"sk-\w+"], instead=r"[\1]")
HIDDEN = r"[\1]"


def test_secrets_are_taken_out_of_results_and_of_errors() -> None:
    assert run_with(SECRET).tool_calls[0].result == f"slept 0, key {HIDDEN}"
    assert run_with(SECRET, fails=True).tool_calls[0].result == f"no sleep: key {HIDDEN}"


def test_long_texts_are_cut_in_the_middle() -> None:
    (record,) = run_with(OutputLimit(8)).tool_calls
    assert record.result == "slept \n[… 13 of 21 characters left out …]\n45"
    assert run_with(OutputLimit(21)).tool_calls[0].result == "slept 0, key sk-12345"


def test_the_innermost_rewrites_first() -> None:
    assert "sk-" not in str(run_with(OutputLimit(17), SECRET).tool_calls[0].result)
    assert "2345" in str(run_with(SECRET, OutputLimit(19)).tool_calls[0].result), "cut in two, it matches no more"


@pytest.mark.parametrize("layers", [[SECRET, Layer("a", 0, 5)], [Layer("a", 0, 5), SECRET]])
def test_the_text_of_a_stopped_call_is_kept_and_rewritten(layers: list[Any]) -> None:
    run = run_with(*layers, stop_at=1)
    assert [(record.status, record.result) for record in run.tool_calls] == [("completed", f"slept 0, key {HIDDEN}")]


def test_what_comes_with_the_cancel_is_rewritten() -> None:
    @tool
    async def last_words() -> str:
        try:
            await asyncio.sleep(50)
        except asyncio.CancelledError:
            raise ToolError("it was sk-9")  # noqa: B904 - what is told counts, not the cause
        return ""

    run = Setup([SECRET], [call("last_words")], [last_words], stop_at=1).run()
    assert run.outcome == "cancelled"
    assert [record.result for record in run.tool_calls] == [f"it was {HIDDEN}"]


def test_a_late_result_is_rewritten_when_it_is_adopted() -> None:
    release = asyncio.Event()

    @tool
    async def deaf() -> str:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        return "the key is sk-7"

    async def main() -> Session:
        model, config = ScriptedModel([call("deaf")], "ok"), RunConfig(grace=0)
        session = Agent(model, [deaf], middleware=[SECRET], config=config).session()
        handle = session.start("go")
        await asyncio.sleep(1)
        handle.cancel()
        run = await handle
        release.set()
        await asyncio.sleep(1)
        assert session.adopt(run)
        return session

    session = virtual_run(main)
    [message] = [message for message in session.history if isinstance(message, ToolMessage)]
    assert [result.content for result in message.results] == [f"the key is {HIDDEN}"]


@pytest.mark.parametrize("is_thread", [False, True])
def test_progress_is_rewritten(is_thread: bool) -> None:
    async def tell(ctx: ToolContext) -> str:
        ctx.progress("found sk-1", 0.5)
        return ""

    def tell_from_a_thread(ctx: ToolContext) -> str:
        ctx.progress("found sk-1", 0.5)
        return ""

    told: list[str] = []

    def watch(event: Any) -> None:
        if isinstance(event, ToolProgress):
            told.append(event.message)

    function = tool(tell_from_a_thread, name="tell") if is_thread else tool(tell)
    Setup([SECRET], [call("tell")], [function], agent={"observers": [watch]}).run()
    assert told == [f"found {HIDDEN}"]


def test_the_words_of_a_recovery_strategy_are_rewritten_too() -> None:
    def leak(failure: ToolFailure) -> GiveToModel:
        assert failure.text == f"no sleep: key {HIDDEN}"
        return GiveToModel(f"failed with {failure.error}")

    setup = Setup([SECRET], [call("nap", {"fails": True})], agent={"recovery": leak})
    assert setup.run().tool_calls[0].result == f"failed with no sleep: key {HIDDEN}"


class Broken:
    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def tool_text(self, text: str) -> str:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer  # type: ignore[no-any-return]


@pytest.mark.parametrize("answer", [ValueError("sk-12345"), None], ids=["raises", "none"])
@pytest.mark.parametrize("stop_at", [None, 1])
def test_what_cannot_be_rewritten_is_withheld(answer: Any, stop_at: float | None) -> None:
    run = run_with(Layer("a", 0, 5), Broken(answer), stop_at=stop_at)
    (record,) = run.tool_calls
    assert record.status == "completed"
    assert str(record.result).startswith("[withheld: Broken.tool_text")
    assert "sk-" not in str(record.result)


def test_the_answer_of_a_layer_goes_through_those_outside_of_it() -> None:
    async def answer(call_: Any, ctx: Any, call_next: CallNext) -> ToolOutcome:
        return ToolOutcome.completed("cached sk-1")

    assert run_with(SECRET, Own(answer)).tool_calls[0].result == f"cached {HIDDEN}"
    assert run_with(Own(answer), SECRET).tool_calls[0].result == "cached sk-1"


@pytest.mark.parametrize(
    ("patterns", "instead"), [(None, ""), ("sk", ""), (["("], ""), ([b"sk"], ""), ([7], ""), (["sk"], None)], ids=str
)
def test_what_takes_no_secret_out_is_refused_at_once(patterns: Any, instead: Any) -> None:
    with pytest.raises(UsageError, match="Redact"):
        Redact(patterns, instead=instead)
