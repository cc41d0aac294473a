"""Who may not ask, and what cannot be asked: harmless, with a clear error and none of our insides."""

from __future__ import annotations

import json
import socket

import pytest

from loopctl import Agent
from loopctl.errors import UsageError
from loopctl.testing import ScriptedModel, say, stall
from loopctl.web import create_app
from tests.integration.web.served import PATIENCE, body, served

JSON = {"Content-Type": "application/json"}


def quiet() -> Agent:
    return Agent(ScriptedModel("hi"))


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({"Host": "evil.example"}, 421, "wrong_host"),
        ({"Host": "evil.example:8780"}, 421, "wrong_host"),
        ({"Host": "127.0.0.1.evil.example"}, 421, "wrong_host"),
        ({"Host": "[evil"}, 421, "wrong_host"),
        ({"Origin": "https://evil.example"}, 403, "wrong_origin"),
        ({"Origin": "null"}, 403, "wrong_origin"),
        ({"Origin": "http://127.0.0.1:1"}, 403, "wrong_origin"),
        ({"Sec-Fetch-Site": "cross-site"}, 403, "wrong_origin"),
    ],
)
def test_another_site_begins_nothing(headers, status, code):
    """DNS rebinding and CSRF."""
    with served(quiet()) as server:
        answer = server.client.post("/runs", json=body(), headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
        assert server.client.get("/runs").json()["runs"] == []


def test_our_own_page_and_a_listed_one_may_ask():
    with served(quiet(), origins=["https://app.example/"]) as server:
        for origin in (server.url, "https://app.example"):
            assert server.client.get("/runs", headers={"Origin": origin}).status_code == 200


def test_a_listed_host_is_ours():
    with served(quiet(), hosts=["agent.example"]) as server:
        assert server.client.get("/runs", headers={"Host": "agent.example:443"}).status_code == 200
        assert server.client.get("/runs").status_code == 421


@pytest.mark.parametrize(
    "given", [None, "Bearer wrong", "Bearer secre", "Basic secret", "Bearer", "Bearer \xff", "secret"]
)
def test_without_the_token_nothing_is_told(given):
    headers = {} if given is None else {b"Authorization": given.encode("latin-1")}
    with served(quiet(), token="secret") as server:
        for path in ("/runs", "/sessions", "/stats/latency", "/runs/x", "/nothing"):
            answer = server.client.get(path, headers=headers)
            assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
        assert server.client.post("/runs", json=body(), headers=headers).status_code == 401
        assert server.client.get("/healthz", headers=headers).status_code == 200


def test_with_the_token_it_may_be_asked_by_any_name():
    with served(quiet(), token="secret") as server:
        headers = {"Authorization": "bearer secret", "Host": "agent.example"}
        assert server.client.get("/runs", headers=headers).status_code == 200


def test_what_is_anothers_is_not_there():
    with served(
        Agent(ScriptedModel([say("x"), stall()], "b", "c")), owner=lambda request: request.headers.get("x-user")
    ) as server:
        server.client.headers["x-user"] = "ada"
        with server.run() as stream:
            stream.until("TEXT_MESSAGE_CONTENT")
            bob = {"x-user": "bob"}
            for name in (stream.run_id, "r"):
                assert server.client.get(f"/runs/{name}", headers=bob).status_code == 404
                assert server.client.get(f"/runs/{name}/events", headers=bob).status_code == 404
                cancel = server.client.post(f"/runs/{name}/cancel", json={}, headers=bob)
                assert (cancel.status_code, cancel.json()["error"]["code"]) == (404, "unknown_run")
            assert server.client.get("/sessions/t", headers=bob).status_code == 404
            assert server.client.get("/runs", headers=bob).json()["runs"] == []
            assert server.client.get("/sessions", headers=bob).json()["sessions"] == []
            # The same names, ours too, are another run of another conversation.
            named = server.client.post("/runs", json=body(thread="x", run=stream.run_id), headers=bob)
            assert server.client.get(f"/runs/{stream.run_id}", headers=bob).json()["id"] == named.headers["x-run-id"]
            answer = server.client.post("/runs", json=body(), headers=bob)
            assert answer.headers["x-run-id"] != stream.run_id
            assert server.outcome("r") == "running"
        assert server.client.get("/runs", headers={"x-user": ""}).status_code == 401


@pytest.mark.parametrize(
    ("content", "headers", "status", "code"),
    [
        (b"{}", {"Content-Type": "text/plain"}, 415, "not_json"),
        (b"{}", {}, 415, "not_json"),
        (b"{", JSON, 400, "not_json"),
        (b"[" * 100_000, JSON, 400, "not_json"),
        (b"[]", JSON, 400, "not_json"),
        (b"{}", JSON, 400, "bad_input"),
        (json.dumps({**body(), "threadId": "../x"}).encode(), JSON, 400, "bad_id"),
        (json.dumps({**body(), "runId": "x" * 129}).encode(), JSON, 400, "bad_id"),
        (json.dumps({**body(), "messages": []}).encode(), JSON, 400, "nothing_said"),
        (json.dumps(body(" ")).encode(), JSON, 400, "nothing_said"),
        (b" " * (1 << 20) + b" {}", JSON, 413, "too_large"),
    ],
)
def test_a_body_that_cannot_be_is_refused(content, headers, status, code):
    with served(quiet()) as server:
        answer = server.client.post("/runs", content=content, headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
        assert "Traceback" not in answer.text
        assert server.client.get("/runs").json()["runs"] == []


def test_a_body_of_unknown_length_is_bounded_too():
    with served(quiet()) as server:
        answer = server.client.post("/runs", content=iter([b" " * 70_000] * 20), headers=JSON)
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_large")


def test_one_run_too_many_is_told_when_to_come_again():
    with served(Agent(ScriptedModel(stall(), "next")), max_runs=1) as server:
        with server.run() as stream:
            stream.until("loopctl.TurnStarted")
            with server.run(thread="other", run="r2") as more:
                assert (more.response.status_code, more.response.headers["retry-after"]) == (429, "1")
            server.post("/runs/r/cancel")
            stream.rest()
        with server.run(thread="other", run="r3") as after:
            assert after.rest()[-1]["outcome"] == {"type": "success"}


@pytest.mark.parametrize("path", ["/nothing", "/static/nothing.js", "/static/../_app.py", "/static/%2e%2e/_app.py"])
def test_what_is_not_there_is_said_in_json(path):
    with served(quiet()) as server, socket.create_connection(("127.0.0.1", int(server.url[17:]))) as raw:
        raw.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        raw.settimeout(PATIENCE)
        answer = b"".join(iter(lambda: raw.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 404")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == "not_found"


def test_a_fault_of_the_owner_hook_tells_nothing_of_it():
    def owner(request):
        raise RuntimeError("the password is 1234")

    with served(quiet(), owner=owner) as server:
        answer = server.client.get("/runs")
        assert (answer.status_code, answer.json()["error"]["code"]) == (500, "fault")
        assert "1234" not in answer.text


@pytest.mark.parametrize("settings", [{"token": " "}, {"on_disconnect": "stay"}, {"max_runs": 0}, {"max_events": True}])
def test_a_setting_that_cannot_be_is_refused(settings):
    with pytest.raises(UsageError):
        create_app(quiet(), **settings)
