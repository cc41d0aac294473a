"""What is answered to a cancel and to an answer is so."""

from __future__ import annotations

import threading

import pytest

from loopctl import Agent, RunConfig, tool
from loopctl.testing import ScriptedModel, call, say, stall
from loopctl.web import approve
from tests.integration.web.served import Stream, served, until

SHORT = RunConfig(grace=0.05)


@tool(approval=True)
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def asked(stream: Stream) -> str:
    return stream.until("loopctl.ApprovalRequested")[-1]["value"]["call"]["id"]


def test_a_run_that_has_ended_cannot_be_cancelled_and_says_how_it_ended():
    with served(Agent(ScriptedModel("done"))) as server:
        with server.run() as stream:
            stream.rest()
        late = server.post("/runs/r/cancel")
        assert (late.status_code, late.json()["state"], late.json()["outcome"]) == (409, "already_ended", "completed")
        assert late.json()["run"]["output"] == "done"
        assert late.json()["error"]["code"] == "already_ended"


def test_a_second_cancel_of_a_cancelled_run_is_too_late():
    with served(Agent(ScriptedModel(stall()))) as server, server.run() as stream:
        stream.until("loopctl.TurnStarted")
        assert server.post("/runs/r/cancel").status_code == 200
        again = server.post("/runs/r/cancel")
        assert (again.status_code, again.json()["outcome"]) == (409, "cancelled")


def test_what_refuses_to_end_is_cancelling_until_it_is_abandoned():
    hold = threading.Event()

    @tool(on_cancel="finish", finish_within=60)
    def book() -> str:
        """Book."""
        hold.wait()
        return "booked"

    agent = Agent(ScriptedModel(call("book"), "unused"), [book], config=SHORT)
    with served(agent) as server, server.run() as stream:
        stream.until("loopctl.ToolStarted")
        first = server.post("/runs/r/cancel")
        assert (first.status_code, first.json()["state"], first.json()["run"]) == (202, "cancelling", None)
        harder = server.post("/runs/r/cancel", {"urgency": "abandon"})
        assert (harder.status_code, harder.json()["outcome"]) == (200, "cancelled")
        assert [one["name"] for one in harder.json()["run"]["stragglers"]] == ["book"]
        hold.set()


@pytest.mark.parametrize(
    ("path", "value", "status", "code"),
    [
        ("/runs/nothing/cancel", {}, 404, "unknown_run"),
        ("/runs/a%20b/cancel", {}, 400, "bad_id"),
        ("/runs/r/cancel", {"urgency": "please"}, 400, "bad_urgency"),
        ("/runs/r/cancel", {"urgency": ["stop"]}, 400, "bad_urgency"),
        ("/runs/r/cancel", {"reason": 1}, 400, "bad_reason"),
        ("/runs/nothing/approvals/c", {"answer": "allow"}, 404, "unknown_run"),
        ("/runs/r/approvals/c", {"answer": "allow"}, 404, "unknown_call"),
    ],
)
def test_what_cannot_be_done_is_said_and_touches_nothing(path, value, status, code):
    with served(Agent(ScriptedModel(stall()))) as server, server.run() as stream:
        stream.until("loopctl.TurnStarted")
        answer = server.post(path, value)
        assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
        assert server.outcome("r") == "running"


def test_a_drain_lets_what_is_in_flight_end():
    release = threading.Event()

    @tool
    def save() -> str:
        """Save."""
        release.wait()
        return "saved"

    with served(Agent(ScriptedModel(call("save"), "unused"), [save])) as server, server.run() as stream:
        stream.until("loopctl.ToolStarted")
        assert server.post("/runs/r/cancel", {"urgency": "drain"}).status_code == 202
        release.set()
        events = stream.rest()
    (finished,) = [event for event in events if event.get("name") == "loopctl.ToolFinished"]
    assert finished["value"]["call"]["status"] == "completed"
    assert events[-1]["outcome"] == {"type": "cancelled"}


@pytest.mark.parametrize(("answer", "status"), [("allow", "completed"), ("deny", "denied")])
def test_a_question_is_answered_over_http_once(answer, status):
    agent = Agent(ScriptedModel(call("pay", {"amount": 5}), "end"), [pay], approve=approve)
    with served(agent) as server, server.run() as stream:
        call_id = asked(stream)
        assert server.post(f"/runs/r/approvals/{call_id}", {"answer": "perhaps"}).status_code == 400
        assert server.post(f"/runs/r/approvals/{call_id}", {"answer": answer}).status_code == 200
        finished = stream.until("loopctl.ToolFinished")[-1]
        assert finished["value"]["call"]["status"] == status
        assert server.post(f"/runs/r/approvals/{call_id}", {"answer": answer}).status_code == 409


def test_a_stop_withdraws_the_question_and_means_no():
    agent = Agent(ScriptedModel(call("pay", {"amount": 5})), [pay], approve=approve)
    with served(agent) as server, server.run() as stream:
        call_id = asked(stream)
        assert server.post("/runs/r/cancel").status_code == 200
        events = stream.rest()
        (ended,) = [event for event in events if event.get("name") == "loopctl.ApprovalEnded"]
        assert ended["value"]["answer"] == "withdrawn"
        assert events[-2]["value"]["run"]["tool_calls"][0]["status"] == "not_started"
        late = server.post(f"/runs/r/approvals/{call_id}", {"answer": "allow"})
        assert (late.status_code, late.json()["error"]["code"]) == (409, "not_asked")


def test_a_run_that_was_not_begun_over_http_has_nobody_to_ask():
    with served(Agent(ScriptedModel(call("pay", {"amount": 5}), "end"), [pay], approve=approve)) as server:
        session = server.agent.session()
        ended = []
        server.loop.call_soon_threadsafe(lambda: session.start("hi").on_end(ended.append))
        until(lambda: ended)
        assert ended[0].tool_calls[0].status == "denied"


def test_a_busy_conversation_names_the_run_that_goes_on():
    with served(Agent(ScriptedModel(stall(), [say("other"), stall()]))) as server, server.run() as stream:
        stream.until("loopctl.TurnStarted")
        with server.run(run="r2") as busy:
            assert busy.response.status_code == 409
            told = busy.response.json()
        assert (told["error"]["code"], told["run_id"]) == ("session_busy", stream.run_id)
        with server.run(thread="other", run="r") as same:  # a client's name of a run that goes on
            assert (same.response.status_code, same.response.json()["error"]["code"]) == (409, "run_exists")


def test_a_cancel_is_for_its_run_alone():
    with served(Agent(ScriptedModel(stall(), "other"))) as server:
        with server.run() as stream:
            stream.until("loopctl.TurnStarted")
            server.post("/runs/r/cancel")
            stream.rest()
        server.post("/runs/r/cancel")
        with server.run(run="r2") as after:
            assert after.rest()[-1]["outcome"] == {"type": "success"}
