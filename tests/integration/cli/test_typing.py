"""What is typed before its time, and the Ctrl-C that is pressed at the wrong moment, in a terminal with real keys."""

from __future__ import annotations

import os
import termios

import pytest

from tests.integration.cli.terminal import CTRL_C, CTRL_D, Terminal
from tests.peers.openai_server import OpenAIServer, endless, text

PROMPT = r"(?m)^>"


@pytest.fixture(params=["xterm-256color", "dumb"])
def term(request):
    """Both kinds of input line: the editor, and the terminal's own."""
    return request.param


def chat(server, *more, **options):
    return Terminal("chat", "--base-url", server.url, "--model", "test", *more, **options)


def leave(terminal):
    terminal.send(CTRL_D)
    assert terminal.wait() == 0
    assert "Traceback" not in terminal.text


def asked(server):
    return [body["messages"][-1]["content"] for body in server.bodies]


def test_a_ctrl_c_in_one_burst_with_enter_stops_the_run_that_it_follows(term):
    with OpenAIServer([text("fine."), text("too much.")]) as server, chat(server, TERM=term) as terminal:
        terminal.expect(PROMPT)
        terminal.send(b"hi\r" + CTRL_C)
        terminal.expect(r"■ stopped by Ctrl-C")
        terminal.expect(PROMPT)
        terminal.send("and now?\r")
        terminal.expect("fine.")
        terminal.expect(PROMPT)
        assert "Press Ctrl-C again" not in terminal.text
        leave(terminal)
        assert asked(server)[-1] == "and now?"


def test_what_is_typed_during_a_reply_survives_the_ctrl_c(term):
    with OpenAIServer([endless(0.005), text("fine.")]) as server, chat(server, TERM=term) as terminal:
        terminal.expect(PROMPT)
        terminal.send("a story\r")
        terminal.expect("token token")
        terminal.send("half of th")
        terminal.expect("half of th")
        terminal.send(CTRL_C)
        terminal.expect(r"■ stopped by Ctrl-C")
        terminal.expect(PROMPT)
        terminal.send("is\r")
        terminal.expect("fine.")
        terminal.expect(PROMPT)
        assert asked(server) == ["a story", "half of this"]
        leave(terminal)


def test_lines_that_are_finished_during_a_reply_become_the_next_messages(term):
    script = [endless(0.005), text("one."), text("two.")]
    with OpenAIServer(script) as server, chat(server, TERM=term) as terminal:
        terminal.expect(PROMPT)
        terminal.send("a story\r")
        terminal.expect("token token")
        terminal.send("first\rsecond\r")
        terminal.expect("second")
        terminal.send(CTRL_C)
        terminal.expect(r"■ stopped by Ctrl-C")
        terminal.expect("one.")
        terminal.expect("two.")
        terminal.expect(PROMPT)
        assert asked(server) == ["a story", "first", "second"]
        leave(terminal)


def test_the_terminal_is_put_back_when_the_chat_ends(term):
    with OpenAIServer() as server, chat(server, TERM=term) as terminal:
        before = termios.tcgetattr(terminal.master)
        terminal.expect(PROMPT)
        assert termios.tcgetattr(terminal.master) != before
        keeper = os.dup(terminal.master)
        leave(terminal)
        assert termios.tcgetattr(keeper) == before
        os.close(keeper)


def test_ctrl_c_on_a_line_that_was_begun_only_drops_it(term):
    with OpenAIServer(text("fine.")) as server, chat(server, TERM=term) as terminal:
        terminal.expect(PROMPT)
        for _ in range(3):
            terminal.send("never mind")
            terminal.expect("never mind")
            terminal.send(CTRL_C)
            terminal.expect(PROMPT)
        assert "Press Ctrl-C again" not in terminal.text
        terminal.send("hi\r")
        terminal.expect("fine.")
        assert asked(server) == ["hi"]
        terminal.expect(PROMPT)
        leave(terminal)


def test_typing_disarms_the_warning(term):
    with OpenAIServer() as server, chat(server, TERM=term) as terminal:
        terminal.expect(PROMPT)
        terminal.send(CTRL_C)
        terminal.expect("Press Ctrl-C again to leave")
        terminal.expect(PROMPT)
        terminal.send("x")
        terminal.expect("x")
        terminal.send(CTRL_C)
        terminal.expect(PROMPT)
        terminal.send(CTRL_C)
        terminal.expect("Press Ctrl-C again to leave")
        terminal.expect(PROMPT)
        terminal.send(CTRL_C)
        assert terminal.wait() == 0
