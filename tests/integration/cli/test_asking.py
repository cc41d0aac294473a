"""The question for a yes in `loopctl chat`: real keys, in a real terminal."""

from __future__ import annotations

import subprocess

import pytest

from tests.integration.cli.terminal import COMMAND, CTRL_C, CTRL_D, Terminal, clean_environment
from tests.peers.openai_server import OpenAIServer, calls, text

PROMPT = r"(?m)^>"
QUESTION = r'(?s)\? pay needs your yes:\n    to = "ann"\n    note = "{}"\n  run it\? y/N '
LONG = "x" * 300
TOOLS = '''
import time

from loopctl import tool

@tool(approval=True)
def pay(to: str, note: str = "") -> str:
    """Pay."""
    print("the money is gone", flush=True)
    return f"paid {to}"

@tool
async def think() -> str:
    """Think."""
    import asyncio
    print("it thinks", flush=True)
    await asyncio.sleep(1)
    return "thought"
'''


@pytest.fixture(params=["xterm-256color", "dumb"])
def term(request):
    return request.param


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "money.py").write_text(TOOLS)
    return tmp_path


def chat(server, folder, term):
    options = ("--base-url", server.url, "--model", "test", "--tools", "money:pay,money:think")
    return Terminal("chat", *options, cwd=folder, TERM=term)


def pay(note="hi"):
    return calls(("pay", {"to": "ann", "note": note}))


def test_a_yes_lets_one_call_run_and_a_no_leaves_the_next_one_out(folder, term):
    both = calls(("pay", {"to": "ann", "note": LONG}), ("pay", {"to": "bob"}))
    with OpenAIServer([both, text("well.")]) as server, chat(server, folder, term) as terminal:
        terminal.expect(PROMPT)
        terminal.send("pay both\r")
        terminal.expect(QUESTION.format(LONG))
        terminal.send("y\r")
        terminal.expect(r"✓ pay\(to=\"ann\".*\) completed")
        terminal.expect(r'\? pay needs your yes:\n    to = "bob"\n  run it\? y/N ')
        terminal.send("n\r")
        terminal.expect(r"✗ pay\(to=\"bob\"\) denied")
        terminal.expect(r"well\.")
        terminal.expect(PROMPT)
        assert terminal.text.count("the money is gone") == 1
        told = [message["content"] for message in server.bodies[1]["messages"][-2:]]
        assert told == ["paid ann", "The call of pay was not approved. It was not run."]
        terminal.send(CTRL_D)
        assert terminal.wait() == 0


def test_ctrl_c_at_the_question_stops_the_run_and_means_no(folder, term):
    with OpenAIServer([pay(), text("fine.")]) as server, chat(server, folder, term) as terminal:
        terminal.expect(PROMPT)
        terminal.send("pay ann\r")
        terminal.expect(QUESTION.format("hi"))
        terminal.send("y")
        terminal.send(CTRL_C)
        terminal.expect(r"· pay\(.*\) not started")
        terminal.expect(r"■ stopped by Ctrl-C while waiting for approval \[APPROVAL\]")
        terminal.expect(PROMPT)
        assert "the money is gone" not in terminal.text
        terminal.send("\x15and you?\r")
        terminal.expect(r"fine\.")
        terminal.expect(PROMPT)
        terminal.send(CTRL_D)
        assert terminal.wait() == 0
        assert "Traceback" not in terminal.text


def test_what_was_typed_before_the_question_is_no_answer(folder):
    script = [calls(("think", {})), pay(), text("well.")]
    with OpenAIServer(script) as server, chat(server, folder, "xterm-256color") as terminal:
        terminal.expect(PROMPT)
        terminal.send("pay ann\r")
        terminal.expect("it thinks")
        terminal.send("y\r")
        terminal.expect(QUESTION.format("hi"))
        terminal.send("n\r")
        terminal.expect(r"✗ pay\(.*\) denied")
        terminal.expect(r"well\.")
        terminal.expect(PROMPT)
        assert "the money is gone" not in terminal.text
        terminal.send(CTRL_D)
        assert terminal.wait() == 0


@pytest.mark.parametrize("command", ["chat", "run"])
def test_where_nobody_is_there_to_be_asked_the_answer_is_no(folder, command):
    with OpenAIServer([pay(), text("well.")]) as server:
        options = ["--base-url", server.url, "--model", "test", "--tools", "money:pay"]
        arguments = [command, *options, *(["pay ann"] if command == "run" else [])]
        ended = subprocess.run(
            [*COMMAND, *arguments],
            input="pay ann\ny\n" if command == "chat" else "y\n",
            capture_output=True,
            text=True,
            cwd=folder,
            env=clean_environment(),
            timeout=60,
            check=False,
        )
        assert "there is nobody to ask" in server.bodies[1]["messages"][-1]["content"]
    assert "the money is gone" not in ended.stdout + ended.stderr
