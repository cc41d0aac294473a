"""A model or a tool that swallows the cancellation and returns a full, normal result."""

from __future__ import annotations

import asyncio

import pytest

from loopctl import Agent, Checkpoint, RunConfig
from loopctl.record import CallStatus
from loopctl.testing import NonStreamingModel, absorb, call, end_normally, pause, say, virtual_run


@pytest.mark.parametrize(
    ("script", "stream", "at"),
    [
        ([absorb(), say("x"), pause(5), say("y")], True, Checkpoint.STREAM_EVENT),
        ([absorb(), say("x"), pause(5), say("y")], False, Checkpoint.MODEL_REQUEST),
        ([call("end_normally", {})], True, Checkpoint.TOOL_CALL),
    ],
    ids=["stream", "whole reply", "tool"],
)
def test_what_swallows_the_cancel_and_returns_normally_is_caught(
    script: list[object], stream: bool, at: Checkpoint
) -> None:
    """Case H6: the run ends cancelled, nothing of it is committed, and nobody is asked or called any more."""
    model, probe = NonStreamingModel(script, "next"), end_normally()  # type: ignore[arg-type]
    session = Agent(model, [probe.function], config=RunConfig(stream=stream)).session()

    async def main() -> None:
        handle = session.start("a")
        await asyncio.sleep(1)
        handle.cancel()
        run = await handle
        assert model.exchanges[0].cancels + probe.cancelled == 1
        assert (run.outcome, run.output) == ("cancelled", None)
        assert run.stop is not None
        assert run.stop.checkpoint is at
        if at is Checkpoint.TOOL_CALL:
            (record,) = run.tool_calls
            assert (record.status, record.result) == (CallStatus.COMPLETED, "a full, normal result")
        assert session.history == ()
        assert len(model.requests) == 1
        assert (await session.run("b")).output == "next"

    virtual_run(main)
