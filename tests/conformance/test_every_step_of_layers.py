"""A run is stopped at every scheduling step while middleware and a gate stand around its model requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from loopctl import Agent, Checkpoint, ModelError, RunConfig, Session
from loopctl.middleware import ModelNext, RateGate
from loopctl.model import Delta, ModelRequest, ReplyEnd, TextPart
from loopctl.recovery import ModelRecovery
from loopctl.testing import NonStreamingModel, Stopped, call, cancel_everywhere, fail, pause, say, slow_close

OPEN: list[str] = []
"""Layers that have been entered and not left."""


class Around:
    """Waits before and after, and tidies up."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def model_call(self, request: ModelRequest, call_next: ModelNext) -> AsyncIterator[Delta]:
        OPEN.append(self.name)
        try:
            await asyncio.sleep(1)
            async for delta in call_next(request):
                yield delta
                if isinstance(delta, ReplyEnd):
                    await asyncio.sleep(0.5)
        finally:
            try:
                await asyncio.sleep(0.1)  # a stop may come here too
            finally:
                OPEN.remove(self.name)


class Deaf:
    """Swallows the cancel and answers all the same."""

    async def model_call(self, request: ModelRequest, call_next: ModelNext) -> AsyncIterator[Delta]:
        try:
            async for delta in call_next(request):
                yield delta
        except asyncio.CancelledError:
            yield TextPart("all is well")
            yield ReplyEnd()


async def note(name: str) -> str:
    """Note."""
    await asyncio.sleep(0.5)
    return name


LOST = fail(ModelError("lost", retryable=True))
GATES: list[RateGate] = []


def _session(*layers: object, stream: bool = True, gate: RateGate | None = None) -> Session:
    OPEN.clear()
    GATES.clear()
    GATES.extend([gate] if gate is not None else [])
    model = NonStreamingModel(
        [say("a"), LOST],
        [say("a"), call("note", {"name": "1"}), slow_close(0.2)],
        [pause(1), say("b")],
        "again",
        "and again",
        "and again",
    )
    middleware = [*layers, *([] if gate is None else [gate])]
    config = RunConfig(grace=3, stream=stream)
    recovery = ModelRecovery(jitter=0, first_delay=2)
    return Agent(model, [note], middleware=middleware, recovery=recovery, config=config).session()  # type: ignore[arg-type]


SCENARIOS: dict[str, tuple[Callable[[], Session], set[str]]] = {
    "layers": (lambda: _session(Around("1"), Around("2")), {"PIPELINE", "STREAM_EVENT", "STREAM_WAIT", "TOOL_CALL"}),
    "whole": (lambda: _session(Around("1"), stream=False), {"PIPELINE", "MODEL_REQUEST", "STREAM_WAIT"}),
    "deaf": (lambda: _session(Deaf(), Around("1")), {"PIPELINE", "STREAM_EVENT"}),
    "gate": (lambda: _session(Around("1"), gate=RateGate(1, 10, concurrent=1)), {"PIPELINE", "STREAM_WAIT"}),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_stop_at_any_step_closes_every_layer_and_gives_every_permit_back(name: str) -> None:
    """Case H16 and Case H6 at every step."""
    scenario, expected = SCENARIOS[name]

    def check(stopped: Stopped) -> None:
        assert OPEN == [], "a layer was not left"
        assert all((gate.held, gate.waiting) == (0, 0) for gate in GATES), "a permit is lost"
        run = stopped.run
        if run.outcome == "cancelled" and stopped.step is not None:
            assert "all is well" not in run.partial_text

    stopped = cancel_everywhere(scenario, hands=("session",), check=check)
    caught = {one.run.stop.checkpoint for one in stopped if one.run.stop is not None}
    assert {Checkpoint[member] for member in expected} <= caught
    assert {one.run.outcome for one in stopped} == {"cancelled", "completed"}
