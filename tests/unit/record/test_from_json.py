"""A record is read back from its JSON, whatever its outcome; something else is refused by name."""

import json

import pytest

from loopctl import Agent, Cancelled, MaxTurnsExceeded, ModelError, Run, RunConfig, UsageError
from loopctl.errors import FallbackExhausted
from loopctl.record import ToolCallRecord, Turn
from loopctl.testing import ScriptedModel, call, fail, say, stall, usage, virtual_run


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def run_of(*replies, cancel=False, **options):
    async def main():
        session = Agent(ScriptedModel(*replies), [add], config=RunConfig(max_turns=2), **options).session()
        handle = session.start("go")
        async for event in handle:
            if cancel and type(event).__name__ == "TextDelta":
                handle.cancel("enough")
        return await handle

    return virtual_run(main)


RUNS = {
    "completed": lambda: run_of([call("add", {"a": 1, "b": 2}), usage(3, 4)], "Three."),
    "cancelled": lambda: run_of([say("half"), stall()], cancel=True),
    "max_turns": lambda: run_of(*[[call("add", {"a": 1, "b": 2})]] * 2),
    "failed": lambda: run_of([say("half"), fail(ModelError("no", status=400))]),
    "exhausted": lambda: run_of(
        fail(ModelError("no", status=400)), fallback_models=[ScriptedModel(fail(ModelError("nor", status=401)))]
    ),
}


@pytest.mark.parametrize("make", RUNS.values(), ids=RUNS)
def test_a_run_is_read_back_as_it_was(make):
    run = make()
    value = json.loads(json.dumps(run.to_json()))
    again = Run.from_json(value)
    assert again == run
    assert again.to_json() == run.to_json()
    assert type(again.error) is type(run.error)
    assert str(again.error) == str(run.error)
    if again.error is not None:
        assert again.error.run is again


def test_an_error_that_is_read_back_says_what_can_be_done_about_it():
    again = {name: Run.from_json(make().to_json()).error for name, make in RUNS.items()}
    assert isinstance(again["cancelled"], Cancelled)
    assert again["cancelled"].reason.message == "enough"
    assert isinstance(again["max_turns"], MaxTurnsExceeded)
    assert isinstance(again["failed"], ModelError)
    assert (again["failed"].status, again["failed"].retryable) == (400, False)
    assert isinstance(again["exhausted"], FallbackExhausted)
    with pytest.raises(ModelError, match="no"):
        Run.from_json(RUNS["failed"]().to_json()).raise_for_outcome()


@pytest.mark.parametrize("kind", [Run, Turn, ToolCallRecord])
@pytest.mark.parametrize("value", [{}, {"id": 1}, {"reply": {"role": "user", "text": "hi"}}, {"status": "gone"}])
def test_foreign_json_is_refused(kind, value):
    with pytest.raises(UsageError, match="not "):
        kind.from_json(value)
