"""After a cancel the server sees no further request, wherever the run was, and no measure says that anything failed."""

from __future__ import annotations

import asyncio
import time
from contextlib import ExitStack
from dataclasses import dataclass

import pytest
from opentelemetry.trace import StatusCode

from loopctl import Agent, Checkpoint, RunHandle
from loopctl.providers.openai import OpenAIModel
from loopctl.recovery import ModelRecovery
from loopctl.testing import VirtualLoop, virtual_run
from tests.peers.openai_server import OpenAIServer, Reply, endless, error, never, text, truncated
from tests.unit.observers.exported import Exported

WAIT = 60.0
"""Seconds that a run would wait before it asks again. They are virtual: the clock stands still until the cancel."""
LATER = 10 * WAIT
REALLY = 0.1
"""Real seconds in which the server would hear of a request that was sent after all."""

AGAIN = ModelRecovery(transport_retries=1, first_delay=WAIT, max_delay=WAIT, rate_limit_delay=WAIT)
SOON = ModelRecovery(first_delay=0)
AT_ONCE = ModelRecovery(transport_retries=0)
ELSEWHERE = ModelRecovery(transport_retries=0, rescue=False)

ERROR = "error.type"
NAMES = "gen_ai.client.operation", "gen_ai.invoke_agent"
MEASURES = ("loopctl.runs", "loopctl.cancel.latency", *(f"{name}.duration" for name in NAMES))


@dataclass(frozen=True)
class Place:
    """Where the cancel finds the run."""

    checkpoint: Checkpoint
    replies: tuple[Reply, ...]
    """What the first server answers, and then it would be well; the last one is stopped in, or in the wait after it."""
    recovery: ModelRecovery
    fallback: Reply | None = None
    """What the second server, if there is one, answers first."""
    is_waiting: bool = False
    """True if no request is open then."""


PLACES = {
    "before the first byte": Place(Checkpoint.STREAM_EVENT, (never(),), AGAIN),
    "in the stream": Place(Checkpoint.STREAM_EVENT, (endless(),), AGAIN),
    "before a retry": Place(Checkpoint.STREAM_WAIT, (error(500, "oops"),), AGAIN, is_waiting=True),
    "in the retry": Place(Checkpoint.STREAM_EVENT, (truncated(), never()), SOON),
    "in a rate limit": Place(Checkpoint.STREAM_WAIT, (error(429, "slow"),), AGAIN, text("fine"), is_waiting=True),
    "in the rescue": Place(Checkpoint.RESCUE, (truncated(), never()), AT_ONCE, text("fine")),
    "in the fallback": Place(Checkpoint.STREAM_EVENT, (error(500, "oops"),), ELSEWHERE, never()),
    "in the text of the fallback": Place(Checkpoint.STREAM_EVENT, (truncated(),), ELSEWHERE, endless()),
}


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize("from_thread", [False, True], ids=["by the loop", "by a thread"])
def test_no_request_follows_a_cancel_and_no_measure_has_an_error(place: Place, from_thread: bool) -> None:
    """No retry, no rescue and no fallback; the breaker is not fed; the spans are ended and none is an error."""
    with ExitStack() as stack:
        scripts = [place.replies] if place.fallback is None else [place.replies, (place.fallback,)]
        servers = [stack.enter_context(OpenAIServer([*replies, text("fine")])) for replies in scripts]
        models = [OpenAIModel(f"test-{number}", base_url=s.url, api_key="k") for number, s in enumerate(servers)]
        out = Exported()

        async def main() -> None:
            release = VirtualLoop.running().hold_time("the servers")
            agent = Agent(models[0], fallback_models=models[1:], recovery=place.recovery, observers=[out.observer])
            handle = agent.session().start("go")
            await asyncio.to_thread(until_reached, place, handle, servers)
            before, chain = traffic(servers), agent.chain
            assert await asyncio.to_thread(handle.cancel) if from_thread else handle.cancel()
            run = await handle
            release()
            assert run.stop is not None
            assert run.stop.checkpoint is place.checkpoint
            await asyncio.sleep(LATER)
            await asyncio.to_thread(time.sleep, REALLY)
            assert traffic(servers) == before
            assert [server.open for server in servers] == [0] * len(servers)
            assert agent.chain == chain, "a cancel is not a failure of the model"
            await agent.aclose()

        virtual_run(main)
        assert_no_error(out)


def until_reached(place: Place, handle: RunHandle, servers: list[OpenAIServer]) -> None:
    """Block this thread until the run of *handle* is at *place*."""
    is_first = place.is_waiting or len(place.replies) > 1 or place.fallback is None
    server, count = (servers[0], len(place.replies)) if is_first else (servers[1], 1)
    server.wait_for(lambda s: len(s.records) == count and (s.open == 0) is place.is_waiting)
    deadline = time.monotonic() + 20
    while handle._execution.scratch.place is not place.checkpoint:
        assert time.monotonic() < deadline
        time.sleep(0.001)


def traffic(servers: list[OpenAIServer]) -> list[tuple[int, int]]:
    return [(len(server.records), server.connections_total) for server in servers]


def assert_no_error(out: Exported) -> None:
    assert out.all_ended
    assert {span.name.split()[0] for span in out.spans} == {"invoke_agent", "chat"}
    assert {span.status.status_code for span in out.spans} == {StatusCode.UNSET}
    assert [span.name for span in out.spans if ERROR in span.attributes] == []
    for measure in MEASURES:
        assert [labels for labels in out.labels(measure) if ERROR in labels] == []
    assert [labels["loopctl.cancel.origin"] for labels in out.labels("loopctl.runs")] == ["user"]
