"""What is typed before its time, and the Ctrl-C that is pressed at the wrong moment, in a terminal with real keys."""

from __future__ import annotations

import os
import termios

import pytest

from tests.integration.cli.terminal import CTRL_C, CTRL_D, Terminal
from tests.peers.openai_server import OpenAIServer, calls, endless, text

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


LATE = '''
import os
import time

def slow(path: str) -> str:
    """Be slow."""
    print("slow has begun", flush=True)
    while not os.path.exists(path):
        time.sleep(0.01)
    return "done"
'''


def test_a_call_that_ends_after_all_is_told_at_once_and_the_begun_line_is_kept(tmp_path, term):
    (tmp_path / "late.py").write_text(LATE)
    script = [calls(("slow", {"path": str(tmp_path / "go")})), text("fine.")]
    with (
        OpenAIServer(script) as server,
        chat(server, "--tools", "late:slow", cwd=tmp_path, TERM=term) as terminal,
    ):
        terminal.expect(PROMPT)
        terminal.send("hi\r")
        terminal.expect("slow has begun")
        terminal.send(CTRL_C)
        terminal.expect("still running: slow")
        terminal.expect(PROMPT)
        terminal.send("go")
        terminal.expect("go")
        (tmp_path / "go").touch()
        terminal.expect(r"  slow ended after all, normally, after \d+\.\d s\n")
        terminal.expect("> ")
        terminal.send(" on\r")
        terminal.expect("fine.")
        terminal.expect(PROMPT)
        assert asked(server)[-1] == "go on"
        leave(terminal)


def test_what_a_tool_prints_is_not_glued_to_the_line_that_says_what_runs(tmp_path):
    (tmp_path / "late.py").write_text(LATE)
    (tmp_path / "go").touch()
    script = [calls(("slow", {"path": str(tmp_path / "go")})), text("fine.")]
    with OpenAIServer(script) as server, chat(server, "--tools", "late:slow", cwd=tmp_path) as terminal:
        terminal.expect(PROMPT)
        terminal.send("hi\r")
        terminal.expect("fine.")
        shown = [line.rpartition("\x1b[K")[2].strip("\r") for line in terminal.raw.split("\n")]
        assert "slow has begun" in shown
        terminal.expect(PROMPT)
        leave(terminal)
