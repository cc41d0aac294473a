"""Clients that go away, come back, or read too slowly: over real connections, since only those can be lost."""

from __future__ import annotations

import json
import socket
import threading
import time

import httpx2
import pytest

from loopctl import Agent, CancelReason, RunConfig, ToolContext, tool
from loopctl.testing import ScriptedModel, call, say, stall
from tests.integration.web.served import PATIENCE, Served, body, served, until

_BODY = json.dumps(body()).encode()
REQUEST = (
    b"POST /runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
    % (
        len(_BODY),
        _BODY,
    )
)


def connected(server: Served) -> socket.socket:
    return socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])))


def reason_of(server: Served, run_id: str) -> dict:
    until(lambda: server.outcome(run_id) != "running")
    return server.client.get(f"/runs/{run_id}").json()["record"]["stop"]["reason"]


class Counter:
    """A tool that goes on changing something until it is stopped."""

    def __init__(self) -> None:
        self.count = 0
        self.may_end = threading.Event()

        @tool
        async def work(ctx: ToolContext) -> str:
            """Work."""
            while not self.may_end.is_set():
                self.count += 1
                await ctx.sleep(0.005)
            return "done"

        self.tool = work

    def until_it_works(self) -> None:
        before = self.count
        until(lambda: self.count > before + 2)


def test_the_last_client_going_away_cancels_the_run_as_a_disconnect():
    """Case I5, Case I7: the policy is stated, the reason is not `user`, and no tool goes on working for nobody."""
    work = Counter()
    with served(Agent(ScriptedModel(call("work")), [work.tool])) as server:
        with server.run() as stream:
            stream.until("loopctl.ToolStarted")  # from here on the stream is silent
            work.until_it_works()
        reason = reason_of(server, stream.run_id)
        assert reason["origin"] == "disconnect"
        assert reason["requested_by"].startswith("http 127.0.0.1:")
        count = work.count
        time.sleep(0.05)
        assert work.count == count


def test_a_stop_by_a_person_is_told_from_one_by_a_lost_connection():
    """Case I5."""
    with served(Agent(ScriptedModel([say("x"), stall()]))) as server:
        with server.run() as stream:
            stream.until("TEXT_MESSAGE_CONTENT")
            server.post(f"/runs/{stream.run_id}/cancel", {"reason": "enough"})
        assert reason_of(server, stream.run_id)["origin"] == "user"


@pytest.mark.parametrize("by", ["query", "setting"])
def test_a_run_that_is_detached_goes_on_and_is_joined_again_without_a_gap(by):
    """Case I5."""
    work = Counter()
    agent = Agent(ScriptedModel([say("first "), call("work")], "last"), [work.tool])
    settings = {"on_disconnect": "detach"} if by == "setting" else {}
    with served(agent, **settings) as server:
        with server.run(query="" if by == "setting" else "?on_disconnect=detach") as stream:
            before = stream.until("loopctl.ToolStarted")
        work.until_it_works()
        work.may_end.set()
        with server.join(stream.run_id, stream.last) as again:
            after = again.rest()
        with server.join(stream.run_id) as whole:
            assert whole.rest() == before + after
    assert after[-1]["outcome"] == {"type": "success"}


def test_a_second_tab_keeps_the_run_alive_until_it_goes_too():
    work = Counter()
    with served(Agent(ScriptedModel(call("work")), [work.tool])) as server:
        with server.run() as first:
            first.until("loopctl.ToolStarted")
            with (
                httpx2.Client(base_url=server.url, timeout=PATIENCE) as other,
                other.stream("GET", f"/runs/{first.run_id}/events") as response,
            ):
                lines = response.iter_lines()  # dropped, it would close the response
                assert next(lines) == "id: 1"
                first.response.close()
                work.until_it_works()
                assert server.outcome(first.run_id) == "running"
        assert reason_of(server, first.run_id)["origin"] == "disconnect"


def test_who_comes_back_too_late_is_told_the_rest():
    with served(Agent(ScriptedModel([say("x"), stall()]))) as server:
        with server.run() as stream:
            before = stream.until("TEXT_MESSAGE_CONTENT")
        until(lambda: server.outcome(stream.run_id) != "running")
        with server.join(stream.run_id, stream.last) as again:
            after = again.rest()
    assert [event["type"] for event in before[-1:] + after[:1]] == ["TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"]
    assert after[-1]["outcome"] == {"type": "cancelled"}


def test_a_client_that_reads_nothing_holds_only_itself():
    """Case I7: what is kept for it is bounded, and the run is as fast as without it."""
    words = [say("x" * 4000) for _ in range(3000)]
    with served(Agent(ScriptedModel(words)), max_events=200) as server, connected(server) as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        slow.sendall(REQUEST)
        until(lambda: server.client.get("/runs").json()["runs"])
        until(lambda: server.outcome("r") != "running")
        record = server.client.get("/runs/r").json()["record"]
        assert (record["outcome"], len(record["output"])) == ("completed", 3000 * 4000)
        slow.settimeout(PATIENCE)
        read = b""
        while b"events_missed" not in read[-2000:]:
            portion = slow.recv(1 << 20)
            assert portion, "the stream ended without saying that something was missed"
            read += portion


def test_what_is_no_longer_kept_is_gone_and_says_so():
    with served(Agent(ScriptedModel([say(f"{n} ") for n in range(50)])), max_events=20) as server:
        with server.run() as stream:
            stream.rest()
        answer = server.client.get(f"/runs/{stream.run_id}/events", headers={"Last-Event-ID": "3"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (410, "events_missed")
        last = server.client.get(f"/runs/{stream.run_id}").json()["last_event"]
        with server.join(stream.run_id, last - 1) as tail:
            assert [event["type"] for event in tail.rest()] == ["RUN_FINISHED"]
        beyond = server.client.get(f"/runs/{stream.run_id}/events?after={last + 1}")
        assert beyond.status_code == 400


def test_a_client_that_goes_before_the_stream_has_begun_is_missed_too():
    with served(Agent(ScriptedModel(stall()))) as server:
        with connected(server) as hasty:
            hasty.sendall(REQUEST)
        until(lambda: server.client.get("/runs").json()["runs"])
        assert reason_of(server, "r")["origin"] == "disconnect"


def test_the_end_of_the_server_waits_for_no_work_that_may_finish():
    release = threading.Event()

    @tool(on_cancel="finish", finish_within=600)
    def book() -> str:
        """Book."""
        release.wait()
        return "booked"

    agent = Agent(ScriptedModel(call("book")), [book], config=RunConfig(grace=1.0))
    with served(agent) as server, server.run() as stream:
        stream.until("loopctl.ToolStarted")
        server.signal.cancel(CancelReason("shutdown", "the end"))
        until(lambda: is_closing(server))
        events = stream.rest()
    release.set()
    assert events[-1]["outcome"] == {"type": "cancelled"}
    assert events[-2]["value"]["run"]["stop"]["reason"]["origin"] == "shutdown"
    assert [one["name"] for one in events[-2]["value"]["run"]["stragglers"]] == ["book"]


def is_closing(server: Served) -> bool:
    """True if it says that it takes no more runs, in both ways."""
    ready = server.client.get("/readyz")
    if ready.status_code == 200:
        return False
    refused = server.client.post("/runs", json=body(thread="other", run="r2"))
    assert (ready.status_code, refused.status_code, refused.headers["retry-after"]) == (503, 503, "1")
    return True


def test_a_server_that_has_ended_leaves_the_agent_as_it_was():
    agent = Agent(ScriptedModel("x"))
    before = tuple(agent.observers)
    with served(agent) as server, server.run() as stream:
        stream.rest()
        assert tuple(agent.observers) != before
    assert tuple(agent.observers) == before
