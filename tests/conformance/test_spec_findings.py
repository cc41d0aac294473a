"""Sentences of spec section 3 against models and tools that break every rule: the run ends, and says what was wrong."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from loopctl import Agent, ModelError, Run, RunConfig
from loopctl.model import Delta, ModelRequest, ReplyEnd, TextPart, ThinkingPart, ToolCallPart, UsagePart
from loopctl.testing import ScriptedModel, call, do, fail, say, virtual_run

DEEP = '{"x": ' + "[" * 100_000 + "]" * 100_000 + "}"


class RawModel:
    """A model that yields, or raises, whatever it is given."""

    name = "raw"

    def __init__(self, *deltas: Any) -> None:
        self.deltas = deltas

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta]:
        for delta in self.deltas:
            if isinstance(delta, BaseException):
                raise delta
            yield delta


class Mute(Exception):
    """An error that cannot say what it is."""

    def __str__(self) -> str:
        raise ValueError("no text")


def run_of(model: Any, *tools: Callable[..., Any], **config: Any) -> Run:
    session = Agent(model, tools, config=RunConfig(**config)).session()

    async def main() -> Run:
        return await session.start("a")

    run = virtual_run(main)
    assert session.runs == (run,)
    assert repr(session).count("idle") == 1
    return run


@pytest.mark.parametrize(
    "delta",
    [
        TextPart(None),  # type: ignore[arg-type]
        TextPart(1),  # type: ignore[arg-type]
        ThinkingPart(b"x"),  # type: ignore[arg-type]
        ToolCallPart(0, "i", "t", {"x": 1}),  # type: ignore[arg-type]
        ToolCallPart(0, ["i"], "t", "{}"),  # type: ignore[arg-type]
        ToolCallPart(0, "i", ["t"], "{}"),  # type: ignore[arg-type]
        UsagePart("1", "2"),  # type: ignore[arg-type]
        ReplyEnd(None),  # type: ignore[arg-type]
        "text",
        None,
    ],
)
def test_a_delta_that_holds_nonsense_fails_the_run_and_does_not_hang_it(delta: Any) -> None:
    """ "Every ending goes through the same finalizer": it must not fail on what a model gave."""
    for model in (RawModel(delta, ReplyEnd()), WholeModel([delta, ReplyEnd()])):
        run = run_of(model, stream=isinstance(model, WholeModel) is False)
        assert run.outcome == "failed"
        assert isinstance(run.error, ModelError)
        assert "not a Delta" in str(run.error)


class WholeModel(RawModel):
    """A model that gives whole replies."""

    def __init__(self, reply: Any) -> None:
        super().__init__()
        self.reply = reply

    async def complete(self, request: ModelRequest) -> Any:
        return self.reply


def test_arguments_that_are_nested_without_end_are_told_to_the_model() -> None:
    """ "Every ending goes through the same finalizer", and bad arguments are a `failed` call (section 5)."""

    async def work(x: Any) -> str:
        """Work."""
        return "ok"

    run = run_of(ScriptedModel([call("work", DEEP)], "done"), work)
    assert run.outcome == "completed"
    assert [record.status for record in run.tool_calls] == ["failed"]
    assert "not a JSON object" in (run.tool_calls[0].result or "")


def test_a_reply_that_is_given_piece_by_piece_and_breaks_is_a_model_error() -> None:
    """ "a model's other exceptions are wrapped in ModelError": also one raised while its reply is taken apart."""

    def lazy() -> Any:
        yield TextPart("x")
        raise ValueError("in the middle")

    run = run_of(WholeModel(lazy()), stream=False)
    assert isinstance(run.error, ModelError)
    assert "in the middle" in str(run.error)
    assert run.partial_text == "x"


@pytest.mark.parametrize("error", [GeneratorExit(), BaseExceptionGroup("b", [GeneratorExit()]), Mute()])
def test_what_a_model_raises_by_itself_is_its_failure_and_never_a_cancel(error: BaseException) -> None:
    """ "Decided by the signal, never by an error's type": nobody fired it, so the model has failed."""
    run = run_of(RawModel(TextPart("x"), error))
    assert run.outcome == "failed"
    assert isinstance(run.error, ModelError)
    assert type(error).__name__ in str(run.error)


def test_a_tools_error_that_has_no_text_is_a_result_for_the_model() -> None:
    """ "`failed` (raised something else)": the tool's error, whatever it is, is told by its name at least."""

    async def broken() -> str:
        """Break."""
        raise Mute

    run = run_of(ScriptedModel([call("broken", {})], "done"), broken)
    assert run.outcome == "completed"
    assert [(record.status, record.result) for record in run.tool_calls] == [("failed", "Mute")]


def test_a_tools_error_is_text_that_every_provider_can_encode() -> None:
    def broken() -> str:
        """Break."""
        raise FileNotFoundError("no file b\udcff")

    run = run_of(ScriptedModel([call("broken", {})], "done"), broken)
    assert (run.tool_calls[0].result or "").encode() == "FileNotFoundError: no file b\ufffd".encode()


def test_an_error_that_a_model_raises_again_belongs_to_each_run_of_its_own() -> None:
    """ "the exception's `.run` is the `Run`": of that run, not of a later one."""
    model = RawModel(ModelError("no such model", status=404, retryable=True, retry_after=3.0))
    session = Agent(model).session()

    async def main() -> None:
        runs = [await session.start("a") for _ in range(3)]
        for run in runs:
            with pytest.raises(ModelError, match="no such model") as caught:
                run.raise_for_outcome()
            assert caught.value.run is run
            assert (caught.value.status, caught.value.retryable, caught.value.retry_after) == (404, True, 3.0)

    virtual_run(main)


def test_the_error_of_a_run_inside_of_a_model_stays_that_runs() -> None:
    """ "the exception's `.run` is the `Run`": a model that asks another agent does not take its record away."""
    inner = Agent(ScriptedModel([fail(ModelError("inner"))])).session()
    outer = Agent(ScriptedModel([say("x"), do(lambda: inner.run("b"))])).session()

    async def main() -> None:
        run = await outer.start("a")
        assert isinstance(run.error, ModelError)
        assert run.error.run is run
        assert inner.runs[0].error is not None
        assert inner.runs[0].error.run is inner.runs[0]

    virtual_run(main)


def test_an_error_that_is_its_own_cause_ends_the_run() -> None:
    """ "Every ending goes through the same finalizer", which walks the causes of an error."""
    error = ModelError("round and round")
    error.__cause__ = error
    other = ValueError("there")
    other.__cause__, other.__context__ = error, other
    for one in (error, other):
        assert run_of(RawModel(one)).outcome == "failed"


def test_an_error_that_came_through_a_waiting_coroutine_does_not_end_that_coroutine() -> None:
    """ "An error in cleanup ... never changes a decided outcome": letting go of an error's frames harms nobody."""

    async def main() -> str:
        try:
            raise ModelError("raised here first")
        except ModelError as error:
            kept = error
        run = await Agent(RawModel(kept)).session().start("a")
        assert run.error is not None
        assert "test_spec_findings.py" in "".join(run.error.__notes__)
        return "still alive"

    assert asyncio.run(asyncio.wait_for(main(), 10)) == "still alive"
