"""The spans of a run: their names, their parents, their ends; what is an error and what is a stop."""

from __future__ import annotations

import contextvars
import time

import pytest
from opentelemetry.trace import SpanKind, StatusCode, get_current_span

from loopctl.errors import LoopError, ModelError
from loopctl.messages import Usage
from loopctl.record import AttemptReset, CallStatus, Checkpoint, WaitStarted
from tests.unit.observers.events import (
    a_call,
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
    question_of,
    stop_of,
    whole_run,
)
from tests.unit.observers.exported import Exported

CHAT, TOOL, RUN = "chat gpt-5.2", "execute_tool save", "invoke_agent"
WISHES = ["user", "disconnect", "shutdown", "observer", "caller", "parent"]
LIMITS = {"deadline": "timeout", "stall": "timeout", "budget": "budget_exceeded"}


def is_error(span):
    return span.status.status_code is StatusCode.ERROR


def looks_unbroken(span):
    return span.status.status_code is StatusCode.UNSET and "error.type" not in span.attributes


def is_inside(inner, outer):
    return outer.start_time <= inner.start_time <= inner.end_time <= outer.end_time


def test_a_run_is_an_agent_span_over_a_chat_and_a_tool_span():
    out = Exported().feed(whole_run(a_run()))
    run, chat, tool = out.span(RUN), out.span(CHAT), out.span(TOOL)
    assert out.all_ended
    assert (run.kind, chat.kind, tool.kind) == (SpanKind.INTERNAL, SpanKind.CLIENT, SpanKind.INTERNAL)
    assert run.parent is None
    assert chat.parent.span_id == tool.parent.span_id == run.context.span_id
    assert is_inside(chat, run)
    assert is_inside(tool, run)
    assert chat.end_time <= tool.start_time  # the turn goes on while the tool runs, the request does not
    assert all(map(looks_unbroken, out.spans))
    assert dict(run.attributes) == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-5.2",
        "gen_ai.conversation.id": "session_1",
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 5,
        "loopctl.run.id": "run_1",
        "loopctl.run.outcome": "completed",
        "loopctl.run.turns": 1,
        "loopctl.run.stragglers": 0,
    }
    assert dict(chat.attributes) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-5.2",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 5,
        "loopctl.turn": 1,
        "loopctl.chat.outcome": "completed",
        "loopctl.chat.attempts": 1,
    }
    assert dict(tool.attributes) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "save",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": "c1",
        "loopctl.tool.status": "completed",
        "loopctl.tool.attempts": 1,
    }


def test_what_was_said_is_in_no_span():
    out = Exported().feed([*whole_run(a_run()), *cut_in_tool(a_run("cancelled"))])
    assert "secret" not in "".join(span.to_json() for span in out.spans)


@pytest.mark.parametrize("origin", WISHES)
@pytest.mark.parametrize("cut", [cut_in_chat, cut_in_tool])
def test_a_stop_on_request_ends_every_span_and_makes_no_error_of_any(cut, origin):
    """Case K1: in the exporter every span is ended, its run cancelled, and none is an error."""
    stop = stop_of(origin, at=Checkpoint.TOOL_CALL)
    out = Exported().feed(cut(a_run("cancelled", stop=stop)))
    assert out.all_ended
    assert len(out.spans) >= 2
    assert all(map(looks_unbroken, out.spans))
    assert not any(event.name == "exception" for span in out.spans for event in span.events)
    run = out.span(RUN)
    assert run.attributes["loopctl.run.outcome"] == "cancelled"
    assert run.attributes["loopctl.cancel.origin"] == origin
    assert run.attributes["loopctl.cancel.checkpoint"] == "TOOL_CALL"
    assert run.attributes["loopctl.cancel.message"] == "pressed stop"
    assert run.attributes["loopctl.cancel.latency"] == 0.25
    assert out.span(CHAT).attributes["loopctl.chat.outcome"] == ("cancelled" if cut is cut_in_chat else "completed")


@pytest.mark.parametrize(("origin", "error_type"), LIMITS.items())
@pytest.mark.parametrize(("cut", "inner"), [(cut_in_chat, CHAT), (cut_in_tool, TOOL)])
def test_a_passed_limit_is_an_error_of_the_run_and_of_what_it_cut(cut, inner, origin, error_type):
    """Case E7: a deadline does not hide among the stops of users."""
    out = Exported().feed(cut(a_run("cancelled", stop=stop_of(origin))))
    assert out.all_ended
    for span in (out.span(RUN), out.span(inner)):
        assert is_error(span)
        assert span.attributes["error.type"] == error_type
    assert out.span(RUN).attributes["loopctl.run.outcome"] == "cancelled"
    assert out.span(RUN).attributes["loopctl.cancel.origin"] == origin
    if inner == TOOL:
        assert looks_unbroken(out.span(CHAT))  # its reply was whole before the limit


def test_the_moment_of_the_cancel_is_an_event_between_start_and_end():
    out = Exported()
    out.observer(began())
    time.sleep(0.05)
    before = time.time()
    time.sleep(0.05)
    stop = stop_of(latency=0.0)
    out.observer(ended(a_run("cancelled", stop=stop)))
    late = Exported().feed([began(), ended(a_run("cancelled", stop=stop_of(latency=0.25)))])
    for span in (out.span(RUN), late.span(RUN)):
        (event,) = span.events
        assert event.name == "loopctl.cancel_requested"
        assert dict(event.attributes) == {"loopctl.cancel.origin": "user", "loopctl.cancel.checkpoint": "TOOL_CALL"}
        assert span.start_time <= event.timestamp <= span.end_time
    assert out.span(RUN).events[0].timestamp > before * 1e9


@pytest.mark.parametrize(
    ("error", "error_type"),
    [(ModelError("no", status=503), "503"), (ModelError("lost"), "ModelError"), (LoopError("torn"), "LoopError")],
)
def test_a_failed_run_is_an_error_with_its_type_and_so_is_the_reply_that_failed(error, error_type):
    out = Exported().feed(cut_in_chat(a_run("failed", error=error)))
    assert out.all_ended
    for span in (out.span(RUN), out.span(CHAT)):
        assert is_error(span)
        assert span.attributes["error.type"] == error_type
    assert out.span(RUN).status.description == str(error)
    assert out.span(CHAT).attributes["loopctl.chat.outcome"] == "failed"


def test_running_out_of_turns_is_an_error_of_the_run_alone():
    out = Exported().feed([began(), asked(), answered(), ended(a_run("max_turns"))])
    assert is_error(out.span(RUN))
    assert out.span(RUN).attributes["error.type"] == "MaxTurnsExceeded"
    assert looks_unbroken(out.span(CHAT))


@pytest.mark.parametrize("status", CallStatus)
def test_of_the_endings_of_a_call_in_a_run_that_goes_on_only_a_failure_is_an_error(status):
    out = Exported().feed([began(), asked(), call_began(), call_ended(status), answered(), asked(2), answered()])
    tool = out.span(TOOL)
    assert tool.attributes["loopctl.tool.status"] == status.value
    assert looks_unbroken(tool) == (status in (CallStatus.COMPLETED, CallStatus.DENIED))
    if is_error(tool):
        assert tool.attributes["error.type"] == "tool_error"


@pytest.mark.parametrize("status", [CallStatus.INTERRUPTED, CallStatus.ABANDONED, CallStatus.NOT_STARTED])
def test_a_call_that_a_stop_cut_short_is_no_error(status):
    out = Exported().feed(cut_in_tool(a_run("cancelled"), status))
    assert out.all_ended
    assert looks_unbroken(out.span(TOOL))
    assert out.span(TOOL).attributes["loopctl.tool.status"] == status.value


def test_a_call_that_failed_before_the_stop_stays_an_error_and_one_that_failed_after_it_is_none():
    """Decided by when the signal fired, never by what the tool raised."""
    run = a_run("cancelled", stop=stop_of(latency=1.0))
    before = Exported().feed(cut_in_tool(run, CallStatus.FAILED, ended_at=run.ended_at - 2.0))
    after = Exported().feed(cut_in_tool(run, CallStatus.FAILED, ended_at=run.ended_at - 0.5))
    assert before.span(TOOL).attributes["error.type"] == "tool_error"
    assert looks_unbroken(after.span(TOOL))
    at_the_deadline = a_run("cancelled", stop=stop_of("deadline", latency=1.0))
    late = Exported().feed(cut_in_tool(at_the_deadline, CallStatus.FAILED, ended_at=run.ended_at - 0.5))
    assert late.span(TOOL).attributes["error.type"] == "timeout"


def test_a_call_that_waited_for_its_cause_ended_when_it_ended():
    out = Exported()
    out.feed([began(), asked(), call_began(), call_ended(CallStatus.INTERRUPTED)])
    assert [span.name for span in out.spans] == []
    time.sleep(0.05)
    out.feed([answered(), ended(a_run("cancelled"))])
    tool, run = out.span(TOOL), out.span(RUN)
    assert tool.end_time < run.end_time - 40_000_000


def test_calls_are_paired_by_their_ids_whatever_the_order():
    first, second = {"id": "c1", "name": "save"}, {"id": "c2", "name": "save"}
    events = [began(), asked(), call_began(**first), call_began(**second)]
    events += [call_ended(CallStatus.COMPLETED, **second), call_ended(CallStatus.DENIED, **first)]
    out = Exported().feed([*events, answered(), ended(a_run())])
    by_id = {span.attributes.get("gen_ai.tool.call.id"): span for span in out.spans}
    assert by_id["c1"].attributes["loopctl.tool.status"] == "denied"
    assert by_id["c2"].attributes["loopctl.tool.status"] == "completed"
    assert by_id["c2"].end_time <= by_id["c1"].end_time


@pytest.mark.parametrize(
    ("answer", "status"), [("allowed", "completed"), ("denied", "denied"), ("withdrawn", "not_started")]
)
def test_a_question_and_its_end_are_events_of_the_call_and_no_error(answer, status):
    run = a_run("cancelled") if answer == "withdrawn" else a_run()
    told = [call_began(), *question_of(answer), *question_of(answer, id="c9"), call_ended(CallStatus(status))]
    out = Exported().feed([began(), asked(), *told, answered(), ended(run)])
    tool = out.span(TOOL)
    assert [(event.name, dict(event.attributes)) for event in tool.events] == [
        ("loopctl.approval_requested", {}),
        ("loopctl.approval_ended", {"loopctl.approval.answer": answer}),
    ]
    assert looks_unbroken(tool)


def test_lost_attempts_are_events_of_the_reply_that_came_after_all():
    out = Exported().feed([began(), asked(), *[AttemptReset(1, run_id="run_1")] * 2, answered(), ended(a_run())])
    chat = out.span(CHAT)
    assert [event.name for event in chat.events] == ["loopctl.attempt_reset"] * 2
    assert chat.attributes["loopctl.chat.attempts"] == 3
    assert looks_unbroken(chat)


def test_a_wait_before_a_request_is_an_event_of_its_reply():
    waits = [WaitStarted(5.0, "rate_limit", run_id="run_1"), WaitStarted(None, "gate", run_id="run_1")]
    chat = Exported().feed([began(), asked(), *waits, answered(), ended(a_run())]).span(CHAT)
    assert [(event.name, dict(event.attributes)) for event in chat.events] == [
        ("loopctl.wait_started", {"loopctl.wait.why": "rate_limit", "loopctl.wait.seconds": 5.0}),
        ("loopctl.wait_started", {"loopctl.wait.why": "gate"}),
    ]
    assert chat.attributes["loopctl.chat.attempts"] == 1


def test_a_reply_that_was_given_up_while_the_run_went_on_is_an_error_of_its_own():
    cut = answered(a_turn(whole=False, model="openai:gpt-5.2"))
    out = Exported().feed(
        [began(), asked(), cut, asked(2, "local"), answered(a_turn(2, model="local")), ended(a_run())]
    )
    assert out.span(CHAT).attributes["error.type"] == "truncated"
    assert looks_unbroken(out.span("chat local"))
    assert out.span("chat local").attributes["gen_ai.provider.name"] == "local"
    assert out.span(RUN).attributes["gen_ai.request.model"] == "gpt-5.2"  # the agent's own, not the fallback
    assert looks_unbroken(out.span(RUN))


def test_a_turn_whose_end_was_not_told_is_ended_by_the_next():
    out = Exported().feed([began(), asked(), asked(2, "local"), answered(a_turn(2, model="local")), ended(a_run())])
    assert out.all_ended
    assert out.span(CHAT).end_time <= out.span("chat local").start_time


def test_unknown_usage_is_never_zero_and_partial_usage_is_marked():
    unknown = Usage(None, None, is_partial=True)
    turn = a_turn(whole=False, usage=unknown)
    out = Exported().feed([began(), asked(), answered(turn), ended(a_run("cancelled", usage=unknown))])
    for span in (out.span(RUN), out.span(CHAT)):
        assert not any("tokens" in key for key in span.attributes)
        assert span.attributes["loopctl.usage.partial"] is True


@pytest.mark.parametrize("length", range(7))
@pytest.mark.parametrize("outcome", ["completed", "cancelled", "max_turns", "failed"])
def test_every_span_is_ended_whatever_was_told_before_the_end(length, outcome):
    """Case K1: also if closings are missing, nothing stays open and nothing is kept."""
    run = a_run(outcome)
    out = Exported().feed([*whole_run(run)[:length], ended(run)])
    assert out.all_ended
    assert out.started == {0: 0, 1: 1, 2: 2, 3: 2}.get(length, 3)
    if outcome == "cancelled":
        assert all(map(looks_unbroken, out.spans))


def test_a_processor_that_fails_at_one_span_leaves_no_other_open():
    class Breaks(Exported):
        def on_end(self, span):
            if span.name.startswith("chat"):
                raise OSError("exporter is gone")

    out = Breaks()
    out.feed([began(), asked(), call_began()])
    with pytest.raises(OSError, match="exporter is gone"):
        out.observer(ended(a_run("cancelled")))
    assert {span.name for span in out.spans} == {TOOL, RUN}
    assert out.observer.open_runs == 0
    assert out.labels("loopctl.runs") == [{"loopctl.run.outcome": "cancelled", "loopctl.cancel.origin": "user"}]


def test_the_run_is_under_the_span_that_was_current_and_nothing_is_attached():
    """Case K2: with nothing attached there is nothing to detach, in whatever context the run ends."""
    out = Exported()
    events = whole_run(a_run())
    with out.tracers.get_tracer("app").start_as_current_span("request") as request:
        out.observer(events[0])
        assert get_current_span() is request
    for event in events[1:]:
        contextvars.Context().run(out.observer, event)  # each in another one, as when a task is torn
    assert out.span(RUN).parent.span_id == request.get_span_context().span_id
    assert out.span(TOOL).parent.span_id == out.span(RUN).context.span_id


def test_an_agent_with_a_name_is_called_by_it():
    out = Exported(agent_name="clerk").feed(whole_run(a_run()))
    assert out.span("invoke_agent clerk").attributes["gen_ai.agent.name"] == "clerk"


def test_a_call_keeps_the_name_that_the_model_gave_it_on_one_line():
    out = Exported().feed([began(), asked(), call_began(name="sa\nve" + "x" * 999), ended(a_run("cancelled"))])
    (tool,) = (span for span in out.spans if span.name.startswith("execute_tool"))
    assert "\n" not in tool.name
    assert len(tool.name) < 320
    assert a_call().name == "save"
