"""A server with a store: what it tells of runs and conversations of earlier processes, and of other ones."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx2

from loopctl import Agent, RunConfig, tool
from loopctl.testing import ScriptedModel, call, say, stall
from tests.integration.web.served import PATIENCE, body, served, until


def test_what_was_said_and_stopped_is_there_after_a_restart(tmp_path):
    """Case E13, Case J8: a stopped run is stored as cancelled, never as failed, never still running."""
    store = tmp_path / "s.db"
    with served(Agent(ScriptedModel("first", [say("half"), stall()])), store=store) as server:
        with server.run() as stream:
            stream.rest()
        with server.run("more", run="r2") as stopped:
            stopped.until("TEXT_MESSAGE_CONTENT")
            server.post("/runs/r2/cancel", {"reason": "enough"})
            stopped.rest()
    with served(Agent(ScriptedModel("again")), store=store) as server:
        runs = server.client.get("/runs").json()["runs"]
        assert [(run["outcome"], run["input"]) for run in runs] == [("cancelled", "more"), ("completed", "hi")]
        assert runs[0]["record"]["stop"]["reason"]["message"] == "enough"
        shown = server.client.get("/sessions/t").json()
        assert [message["role"] for message in shown["messages"]] == ["user", "assistant"]
        assert (shown["runs"], shown["active_run_id"]) == (2, None)
        assert server.client.get("/stats/latency").json()["count"] == 1
        late = server.post(f"/runs/{stopped.run_id}/cancel")
        assert (late.status_code, late.json()["outcome"]) == (409, "cancelled")
        assert server.client.get(f"/runs/{stopped.run_id}/events").status_code == 410
        with server.run("again", run="r3") as stream:
            stream.rest()
        (request,) = [exchange.request for exchange in server.agent.model.exchanges]
        assert [message.text for message in request.messages if hasattr(message, "text")] == ["hi", "first", "again"]


def test_pages_of_runs_follow_each_other_and_may_be_of_one_kind(tmp_path):
    with served(Agent(ScriptedModel(*["x"] * 5)), store=tmp_path / "s.db") as server:
        for number in range(5):
            with server.run(str(number), thread=f"t{number % 2}", run=f"r{number}") as stream:
                stream.rest()
        first = server.client.get("/runs?limit=2").json()
        assert [run["client_run_id"] for run in first["runs"]] == ["r4", "r3"]
        second = server.client.get(f"/runs?limit=3&before={first['next']}").json()
        assert [run["input"] for run in second["runs"]] == ["2", "1", "0"]
        assert second["next"] is None
        one = server.client.get("/runs?session=t1&outcome=completed").json()
        assert [run["input"] for run in one["runs"]] == ["3", "1"]
        assert server.client.get("/runs?outcome=cancelled").json()["runs"] == []
        assert server.client.get("/runs?outcome=odd").status_code == 400
        assert server.client.get("/runs?before=nothing").status_code == 400


def test_owners_share_a_store_and_see_only_their_own(tmp_path):
    agent = Agent(ScriptedModel("for ada", "for bob"))
    with served(agent, store=tmp_path / "s.db", owner=lambda request: request.headers.get("x-user")) as server:
        runs = {}
        for user in ("ada", "bob"):
            server.client.headers["x-user"] = user
            with server.run(f"I am {user}") as stream:
                events = stream.rest()
                runs[user] = stream.run_id
            assert events[-2]["value"]["run"]["session_id"] == "t"
        assert [run["input"] for run in server.client.get("/runs").json()["runs"]] == ["I am bob"]
        (session,) = server.client.get("/sessions").json()["sessions"]
        assert (session["id"], session["title"]) == ("t", "I am bob")
        assert server.client.get(f"/runs/{runs['ada']}").status_code == 404
        assert server.client.get("/sessions/ada%2Ft").status_code in {400, 404}
        assert server.client.get("/sessions/t").json()["messages"][0]["text"] == "I am bob"


def test_a_conversation_that_another_process_has_open_is_busy(tmp_path):
    store = tmp_path / "s.db"

    async def main() -> None:
        session = Agent(ScriptedModel("x")).session(store=store, id="t")
        await session.open()
        with server.run() as stream:
            assert stream.response.status_code == 409
            assert stream.response.json()["error"]["code"] == "session_busy"
        await session.aclose()
        with server.run() as stream:
            assert stream.rest()[-1]["outcome"] == {"type": "success"}

    with served(Agent(ScriptedModel("y")), store=store) as server:
        asyncio.run(main())


def test_a_store_that_cannot_be_used_is_said_without_its_place(tmp_path):
    (tmp_path / "s.db").write_text("this is no database, but a letter of somebody else" * 100)
    with served(Agent(ScriptedModel("y")), store=tmp_path / "s.db") as server:
        for answer in (server.client.get("/runs"), server.client.get("/sessions")):
            assert (answer.status_code, answer.json()["error"]["code"]) == (503, "store")
            assert str(tmp_path) not in answer.text
        with server.run() as stream:
            assert stream.response.status_code == 503


def test_a_run_that_goes_on_is_stored_as_running(tmp_path):
    with served(Agent(ScriptedModel([say("x"), stall()])), store=tmp_path / "s.db") as server, server.run() as stream:
        stream.until("TEXT_MESSAGE_CONTENT")
        (run,) = server.client.get("/runs").json()["runs"]
        assert (run["outcome"], run["client_run_id"], run["record"]) == ("running", "r", None)
        (session,) = server.client.get("/sessions").json()["sessions"]
        assert session["active_run_id"] == stream.run_id
        server.post("/runs/r/cancel")
        until(lambda: server.outcome("r") == "cancelled")


def test_many_conversations_at_once_need_no_more_room_than_there_is(tmp_path, monkeypatch):
    monkeypatch.setattr("loopctl.web._conversations._OPEN_SESSIONS", 2)
    count = 12

    def talk(number: int) -> list[str]:
        outcomes = []
        for turn in range(3):
            with server.run("hi", thread=f"t{(number + turn) % count}", run=f"r{number}-{turn}") as stream:
                outcomes += [event["outcome"]["type"] for event in stream if event["type"] == "RUN_FINISHED"]
                outcomes += [] if stream.response.status_code == 200 else [stream.response.json()["error"]["code"]]
        return outcomes

    agent = Agent(ScriptedModel(*["hi"] * 3 * count))
    with served(agent, store=tmp_path / "s.db") as server, ThreadPoolExecutor(count) as pool:
        outcomes = [one for each in pool.map(talk, range(count)) for one in each]
        assert len(server.client.get("/sessions").json()["sessions"]) == count
        assert len(server.app._conversations._sessions) <= count
    assert set(outcomes) <= {"success", "session_busy"}
    assert outcomes.count("success") > count


def test_a_conversation_that_is_being_closed_to_make_room_is_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr("loopctl.web._conversations._OPEN_SESSIONS", 1)
    begun, release = threading.Event(), threading.Event()

    @tool
    def hang() -> str:
        """Hang."""
        begun.set()
        release.wait()
        return "late"

    agent = Agent(ScriptedModel(call("hang"), "other", "again"), [hang], config=RunConfig(grace=1.0))
    with served(agent, store=tmp_path / "s.db") as server, ThreadPoolExecutor(1) as pool:
        with server.run():
            assert begun.wait(PATIENCE)
            server.post("/runs/r/cancel")
        other = pool.submit(httpx2.post, f"{server.url}/runs", json=body(thread="other", run="r2"), timeout=PATIENCE)
        until(lambda: ("", "t") not in server.app._conversations._sessions)
        with server.run(run="r3") as again:  # while it waits for what hangs
            assert again.rest()[-1]["outcome"] == {"type": "success"}
        assert other.result().status_code == 200
        release.set()
