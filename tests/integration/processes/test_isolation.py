"""`@tool(isolation="process")`: what is carried there and back, what is inherited, how a worker dies."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from loopctl import Agent, Run, ToolProgress, UsageError, tool
from loopctl.record import CallStatus, ToolCallRecord
from loopctl.recovery import Recovery, ToolRecovery
from loopctl.testing import ScriptedModel, call, say
from tests.integration.processes.alive import is_alive
from tests.integration.processes.isolated import add, double, misbehave, what_is_absent, where


def run_of(used: Any, arguments: dict[str, Any] | None = None, observers: tuple[Any, ...] = ()) -> Run:
    model = ScriptedModel([call(used.name, arguments or {})], [say("done")])
    return asyncio.run(Agent(model, [used], observers=list(observers)).session().run("go"))


def called(used: Any, **arguments: Any) -> ToolCallRecord:
    (record,) = run_of(used, arguments).tool_calls
    return record


def failed(how: str) -> str:
    record = called(misbehave, how=how)
    assert record.status is CallStatus.FAILED
    return record.result or ""


def test_arguments_and_results_of_any_type_are_carried() -> None:
    record = called(double, size={"width": 2, "height": 3})
    assert (record.status, json.loads(record.result or "")) == (CallStatus.COMPLETED, {"width": 4, "height": 6})
    assert double(double(double.bind({"size": {"width": 1, "height": 1}})["size"])).width == 4  # called directly: here


def test_a_bound_method_is_carried_with_its_object() -> None:
    assert called(add, number=2).result == "42"


def test_it_runs_elsewhere_and_its_progress_and_what_it_prints_come_here(capsys: pytest.CaptureFixture[str]) -> None:
    events: list[Any] = []
    run = run_of(where, observers=(events.append,))
    answer = json.loads(run.tool_calls[0].result or "")
    assert answer["pid"] != os.getpid()
    assert (answer["call"], answer["key"]) == (run.tool_calls[0].id, f"{run.id}:{run.tool_calls[0].id}")
    assert answer["is_cancelled"] is False
    assert [(e.message, e.fraction) for e in events if isinstance(e, ToolProgress)] == [("half", 0.5)]
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("printed by the tool\n", "and to stderr\n")


def test_an_error_comes_back_as_it_was_with_its_lines() -> None:
    errors: list[BaseException | None] = []

    def keep(failure: Any) -> Any:
        errors.append(failure.error)
        raise ZeroDivisionError

    model = ScriptedModel([call("misbehave", {"how": "raise"})], [say("done")])
    agent = Agent(model, [misbehave], recovery=Recovery(tools=ToolRecovery(strategy=keep)))
    asyncio.run(agent.session().run("go"))
    (error,) = errors
    assert type(error) is ValueError
    assert "isolated.py" in error.__notes__[0]
    assert "no such luck" in error.__notes__[0]


def test_errors_say_what_they_said() -> None:
    assert failed("raise") == "ValueError: no such luck"
    assert failed("tool error") == "try another day"
    assert failed("unreadable") == "Unreadable: leftright"
    assert "what the tool returned cannot be carried" in failed("unpicklable")


def test_a_worker_that_dies_by_itself_has_failed_and_it_is_said_how() -> None:
    assert failed("exit") == "the process of the tool misbehave ended with exit code 7: last words"
    assert "was killed by SIGSEGV" in failed("segfault")


def test_what_it_leaves_running_does_not_hold_it_up_and_ends() -> None:
    assert called(misbehave, how="thread").result == "fine"
    assert not is_alive(int(called(misbehave, how="child").result or ""))


def test_it_inherits_no_descriptor() -> None:
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    open_there = json.loads(called(misbehave, how="descriptors").result or "")
    os.close(reading)
    os.close(writing)
    assert len(open_there) == 5  # three, the socket, and the folder that it lists


def test_what_is_in_the_other_process_says_so_and_the_rest_works() -> None:
    process, once, folder = json.loads(called(what_is_absent).result or "")
    assert "run_process is not there" in process
    assert "once('key') is not there" in once
    assert not Path(folder).exists()


def test_what_no_other_process_can_find_is_refused_where_it_is_made() -> None:
    def local(text: str) -> str:
        return text

    with pytest.raises(UsageError, match=r"tool local: .*local to where it was made"):
        tool(local, isolation="process")
    with pytest.raises(UsageError, match="local to where it was made"):
        tool(lambda: "x", name="shout", isolation="process")
    with pytest.raises(UsageError, match="give 'process' or None"):
        tool(local, isolation="thread")  # type: ignore[call-overload]


class Locked:
    def __init__(self) -> None:
        import threading

        self.lock = threading.Lock()

    def use(self) -> str:
        """Use the lock."""
        return "used"


def test_what_cannot_be_carried_is_named_when_it_is_called() -> None:
    record = called(tool(Locked().use, isolation="process"))
    assert record.status is CallStatus.FAILED
    assert "Locked.use cannot be carried to another process" in (record.result or "")
