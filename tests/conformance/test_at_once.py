"""A stop of a request that nothing answers ends the run in the same instant, in each of the ways to ask a model."""

from __future__ import annotations

import asyncio

import pytest

from loopctl import Agent, Checkpoint, ModelError, Run, RunConfig, Urgency
from loopctl.testing import NonStreamingModel, ScriptedModel, fail, say, stall, virtual_run

LOST = fail(ModelError("lost", retryable=True))
ASKED = {
    Checkpoint.MODEL_REQUEST: (lambda: NonStreamingModel(stall()), False),
    Checkpoint.STREAM_EVENT: (lambda: ScriptedModel([say("a"), stall()]), True),
    Checkpoint.RESCUE: (lambda: NonStreamingModel(LOST, LOST, LOST, LOST, stall()), True),
}


@pytest.mark.parametrize("urgency", [Urgency.STOP, Urgency.ABANDON])
@pytest.mark.parametrize("at", ASKED, ids=lambda at: at.value)
def test_a_request_that_nothing_answers_is_dropped_at_once(at: Checkpoint, urgency: Urgency) -> None:
    make, stream = ASKED[at]
    model = make()
    # Longer than the test's stop, shorter than for ever: without the checkpoint the run goes on until then.
    config = RunConfig(stream=stream, turn_timeout=100, first_event_timeout=100, event_timeout=100)
    session = Agent(model, config=config).session()

    async def main() -> Run:
        loop = asyncio.get_running_loop()
        handle = session.start("go")
        await asyncio.sleep(20)
        assert len(model.active) == 1
        stopped_at = loop.time()
        handle.cancel("enough", urgency=urgency)
        run = await handle
        assert loop.time() == stopped_at
        return run

    run = virtual_run(main)
    assert run.stop is not None
    assert run.stop.checkpoint is at
    assert all(exchange.is_clean for exchange in model.exchanges)
