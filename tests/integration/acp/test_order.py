"""Messages that come together: each cancel is for the prompts that are open when it comes. By lines of our own."""

from __future__ import annotations

import random

from tests.integration.acp.editor import Lines
from tests.peers.openai_server import OpenAIServer, endless, text

CANCELLED = {"stopReason": "cancelled"}
ENDED = {"stopReason": "end_turn"}


def withdraw(id):
    return {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": id}}


def test_a_cancel_in_the_same_write_as_its_prompt_is_not_lost():
    with OpenAIServer(endless()) as server, Lines(server).begin() as client:
        client.write(client.prompt(1), client.cancel())
        assert client.answers(1) == [CANCELLED]
        assert server.records == []  # nothing was sent


def test_a_cancel_before_the_prompt_and_in_the_same_write_is_for_nothing():
    with OpenAIServer(text("fresh")) as server, Lines(server).begin() as client:
        client.write(client.cancel(), client.prompt(1))
        assert client.answers(1) == [ENDED]


def test_a_prompt_behind_a_cancel_begins_when_the_cancelled_one_has_ended():
    with OpenAIServer([endless(), text("fresh")]) as server, Lines(server).begin() as client:
        client.write(client.prompt(1))
        server.wait_for(lambda s: s.open == 1)
        client.write(client.cancel(), client.prompt(2))
        assert client.answers(1, 2) == [CANCELLED, ENDED]
        assert [server.disconnects, server.finished] == [1, 1]


def test_prompts_and_cancels_in_one_write_find_each_other():
    with OpenAIServer(text("fresh")) as server, Lines(server).begin() as client:
        client.write(
            client.prompt(1), client.cancel(), client.prompt(2), client.cancel(), client.cancel(), client.prompt(3)
        )
        assert client.answers(1, 2, 3) == [CANCELLED, CANCELLED, ENDED]
        assert len(server.records) == 1


def test_a_cancel_of_the_request_stops_that_prompt():
    with OpenAIServer([endless(), text("fresh")]) as server, Lines(server).begin() as client:
        client.write(client.prompt("one"))
        server.wait_for(lambda s: s.open == 1)
        client.write(
            withdraw("no such request"), withdraw(None), withdraw("one"), client.prompt("two"), withdraw("one")
        )
        assert client.answers("one", "two") == [CANCELLED, ENDED]
        client.write(client.prompt("three"), withdraw("three"))
        assert client.answers("three") == [CANCELLED]


def test_of_forty_prompts_the_cancelled_half_stops_and_no_other():
    with OpenAIServer(endless(0.05)) as server, Lines(server).begin() as client:
        sessions = []
        for n in range(40):
            client.begin()
            sessions.append(client.session)
            client.write(client.prompt(n))
        server.wait_for(lambda s: s.open == 40)
        chosen = random.Random(5).sample(range(40), 20)
        client.write(*(client.cancel(sessions[n]) for n in chosen))
        assert client.answers(*chosen) == [CANCELLED] * 20
        server.wait_for(lambda s: s.disconnects == 20)
        assert server.open == 20
        _, said = client.end()
        rest = {message["id"]: message["result"] for message in said if "method" not in message}
        assert rest == {n: CANCELLED for n in range(40) if n not in chosen}  # each once, at the end of the client


def test_what_is_no_message_is_refused_and_the_next_is_heard():
    with OpenAIServer(text("fresh")) as server, Lines(server).begin() as client:
        client.process.stdin.write(b"no json\n\n[1]\n7\n" + b"[" * 100_000 + b"\n")
        codes = [client.read()["error"]["code"] for _ in range(4)]
        assert codes == [-32700, -32600, -32600, -32700]
        client.write({"jsonrpc": "2.0", "id": 5, "method": "session/load", "params": {}}, client.prompt(6))
        refused, answered = client.answers(5, 6)
        assert refused["code"] == -32601
        assert answered == ENDED


def test_an_answer_that_is_none_is_refused_and_ends_nothing():
    with OpenAIServer(text("fresh")) as server, Lines(server).begin() as client:
        client.write({"id": [], "result": {}}, {"id": {}, "error": {}}, {"id": 0, "error": "no"}, {"id": 1})
        codes = [client.read()["error"]["code"] for _ in range(3)]
        assert codes == [-32600, -32600, -32600]
        client.write(client.prompt(6))
        assert client.answers(6) == [ENDED]
