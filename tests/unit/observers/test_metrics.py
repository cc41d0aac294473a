"""What is counted and timed: cancels are a value of the outcome, and what is not known is not recorded."""

from __future__ import annotations

import subprocess
import sys
import threading
from importlib.metadata import PackageNotFoundError

import pytest

from loopctl.errors import MissingExtra, UsageError
from loopctl.messages import Usage
from loopctl.observers import OpenTelemetryObserver
from loopctl.record import CallStatus, Checkpoint
from tests.unit.observers.events import (
    a_run,
    a_turn,
    answered,
    asked,
    began,
    call_began,
    call_ended,
    cut_in_chat,
    cut_in_tool,
    ended,
    stop_of,
    straggler_ended,
    whole_run,
)
from tests.unit.observers.exported import Exported


def test_runs_are_counted_by_outcome_and_cancels_by_origin():
    """Case I2: cancelled is a label of its own. Case E7: so is what stopped it."""
    runs = [a_run(), a_run("failed"), a_run("max_turns"), a_run("cancelled")]
    runs += [a_run("cancelled", stop=stop_of(origin)) for origin in ("deadline", "deadline", "user", "shutdown")]
    out = Exported().feed(ended(run) for run in runs)
    counted = {tuple(sorted(labels.items())): point.value for labels, point in out.points("loopctl.runs")}
    assert counted == {
        (("loopctl.run.outcome", "completed"),): 1,
        (("error.type", "503"), ("loopctl.run.outcome", "failed")): 1,
        (("error.type", "MaxTurnsExceeded"), ("loopctl.run.outcome", "max_turns")): 1,
        (("loopctl.cancel.origin", "user"), ("loopctl.run.outcome", "cancelled")): 2,
        (("loopctl.cancel.origin", "shutdown"), ("loopctl.run.outcome", "cancelled")): 1,
        (("error.type", "timeout"), ("loopctl.cancel.origin", "deadline"), ("loopctl.run.outcome", "cancelled")): 2,
    }


@pytest.mark.parametrize("cut", [cut_in_chat, cut_in_tool])
def test_no_measure_of_a_run_that_was_stopped_on_purpose_has_an_error(cut):
    """Case C11: error counters are unchanged by an interrupted turn."""
    out = Exported().feed(cut(a_run("cancelled")))
    names = ["loopctl.runs", "gen_ai.client.operation.duration", "gen_ai.invoke_agent.duration"]
    names += ["gen_ai.execute_tool.duration"] if cut is cut_in_tool else []
    for name in names:
        assert out.labels(name)
        assert not any("error.type" in labels for labels in out.labels(name))
    assert out.labels("gen_ai.invoke_agent.duration")[0]["loopctl.run.outcome"] == "cancelled"


def test_durations_have_their_operation_model_and_outcome():
    out = Exported(agent_name="clerk").feed(whole_run(a_run()))
    assert out.labels("gen_ai.client.operation.duration") == [
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": "gpt-5.2",
            "loopctl.chat.outcome": "completed",
        }
    ]
    assert out.labels("gen_ai.execute_tool.duration") == [
        {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "save", "loopctl.tool.status": "completed"}
    ]
    assert out.labels("gen_ai.invoke_agent.duration") == [
        {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "clerk", "loopctl.run.outcome": "completed"}
    ]


def test_a_failed_request_is_timed_with_its_error():
    out = Exported().feed(cut_in_chat(a_run("failed")))
    (labels,) = out.labels("gen_ai.client.operation.duration")
    assert (labels["error.type"], labels["loopctl.chat.outcome"]) == ("503", "failed")


def test_a_call_that_was_never_begun_is_not_timed_so_a_model_cannot_invent_labels():
    invented = {"name": "no_such_tool_17", "attempts": 0}
    out = Exported().feed(
        [began(), asked(), call_began(name="no_such_tool_17"), call_ended(CallStatus.FAILED, **invented), answered()]
    )
    out.feed([ended(a_run())])
    assert out.points("gen_ai.execute_tool.duration") == []
    assert out.all_ended


def test_the_latency_of_cancels_is_a_histogram_by_checkpoint_and_origin():
    stops = [stop_of("user", at=Checkpoint.STREAM_EVENT, latency=0.002), stop_of("user", latency=0.25)]
    stops += [stop_of("deadline", latency=1.0), stop_of("user", latency=0.75)]
    out = Exported().feed(ended(a_run("cancelled", stop=stop)) for stop in stops)
    out.feed([ended(a_run())])
    found = {
        (labels["loopctl.cancel.checkpoint"], labels["loopctl.cancel.origin"]): (point.count, point.sum)
        for labels, point in out.points("loopctl.cancel.latency")
    }
    assert found == {
        ("STREAM_EVENT", "user"): (1, 0.002),
        ("TOOL_CALL", "user"): (2, 1.0),
        ("TOOL_CALL", "deadline"): (1, 1.0),
    }
    assert out.points("loopctl.cancel.latency")[0][1].explicit_bounds[0] == 0.0005


def test_tokens_are_recorded_as_far_as_they_are_known():
    def turns(*usages):
        for number, usage in enumerate(usages, 1):
            yield asked(number)
            yield answered(a_turn(number, usage=usage))

    partial = Usage(7, None, is_partial=True)
    unknown = Usage(None, None, is_partial=True)
    events = [began(), *turns(Usage(10, 5), Usage(20, 1), partial, unknown, Usage(0, 0)), ended(a_run())]
    found = {
        (labels["gen_ai.token.type"], labels.get("loopctl.usage.partial", False)): (point.count, point.sum)
        for labels, point in Exported().feed(events).points("gen_ai.client.token.usage")
    }
    assert found == {("input", False): (2, 30), ("output", False): (2, 6), ("input", True): (1, 7)}


def test_a_straggler_that_ends_late_is_a_measure_and_no_span():
    out = Exported().feed(cut_in_tool(a_run("cancelled"), CallStatus.ABANDONED))
    before = out.started
    out.feed([straggler_ended(), straggler_ended("OSError: gone")])
    assert out.started == before
    assert out.all_ended
    found = {labels["loopctl.late"]: point.sum for labels, point in out.points("loopctl.straggler.duration")}
    assert found == {"returned": 2.5, "raised": 2.5}


def test_nothing_is_kept_of_runs_that_ended():
    out = Exported()
    for number in range(300):
        out.feed(whole_run(a_run("cancelled" if number % 2 else "completed", id=f"run_{number}")))
    assert out.all_ended
    assert out.observer._open == {}


def test_runs_that_never_tell_their_end_are_given_up_oldest_first():
    out = Exported(max_open_runs=3)
    for number in range(5):
        out.feed([began(f"run_{number}"), asked(run_id=f"run_{number}"), call_began(run_id=f"run_{number}")])
    assert out.observer.open_runs == 3
    given_up = [span for span in out.spans if span.name == "invoke_agent"]
    assert [span.attributes["loopctl.run.id"] for span in given_up] == ["run_0", "run_1"]
    assert {span.attributes["loopctl.run.outcome"] for span in given_up} == {"unknown"}
    assert len(out.spans) == 6
    out.feed([asked(2, run_id="run_0"), ended(a_run(id="run_0"))])  # it lived after all: counted, not traced
    assert len(out.spans) == 6
    assert out.labels("loopctl.runs") == [{"loopctl.run.outcome": "completed"}]


def test_sessions_in_many_threads_share_one_observer():
    out = Exported()
    errors = []

    def live(name):
        try:
            for number in range(30):
                out.feed(whole_run(a_run("cancelled", id=f"{name}_{number}")))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=live, args=(f"run_{index}",)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert out.all_ended
    roots = {span.context.span_id: span.context.trace_id for span in out.spans if span.name == "invoke_agent"}
    assert len(roots) == 240
    assert all(roots[span.parent.span_id] == span.context.trace_id for span in out.spans if span.parent)
    assert sum(point.value for _, point in out.points("loopctl.runs")) == 240


def test_without_the_sdk_the_observer_is_quiet():
    observer = OpenTelemetryObserver()
    for event in cut_in_tool(a_run("cancelled")):
        observer(event)
    assert observer.open_runs == 0


def test_a_copy_that_was_never_installed_observes_too(monkeypatch):
    def not_found(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.distribution", not_found)
    assert Exported().feed(whole_run(a_run())).all_ended


def test_at_least_one_run_is_followed():
    with pytest.raises(UsageError, match="max_open_runs=0"):
        OpenTelemetryObserver(max_open_runs=0)


def test_without_the_extra_only_the_observer_that_needs_it_refuses(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("opentelemetry")]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "loopctl.observers._trace", raising=False)
    monkeypatch.delitem(sys.modules, "loopctl.observers._metrics", raising=False)
    with pytest.raises(MissingExtra, match=r"pip install 'loopctl-py\[otel\]'"):
        OpenTelemetryObserver()


def test_importing_observers_does_not_load_opentelemetry():
    program = "import sys, loopctl.observers; print(any(name.startswith('opentelemetry') for name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
