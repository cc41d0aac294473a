"""`loopctl chat` as a person uses it: in a terminal, with real keys, at a server on loopback."""

from __future__ import annotations

import os
import re
import signal
import time

import pytest

from tests.integration.cli.terminal import CTRL_C, CTRL_D, CUT, Terminal
from tests.peers.openai_server import OpenAIServer, calls, endless, error, never, text

STOPPED = (
    r"■ stopped by Ctrl-C in the middle of the reply \[STREAM_EVENT\] after (\d+|less than 1) ms; (\d+) words shown"
)

PROMPT = r"(?m)^>"

TOOLS = '''
import asyncio
import time

from loopctl import ToolContext, tool

@tool
async def refuse(path: str) -> str:
    """Swallow every cancellation."""
    print("refuse has begun", flush=True)
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            print("refuse was asked to end", flush=True)

@tool(on_cancel="finish", finish_within=3600)
async def pay(path: str) -> str:
    """Take an hour that a stop does not shorten."""
    print("pay has begun", flush=True)
    await asyncio.sleep(3600)

@tool
async def block(path: str) -> str:
    """Block the loop."""
    print("block has begun", flush=True)
    until = time.monotonic() + 3600
    while time.monotonic() < until:
        time.sleep(0.01)

@tool
def hang(path: str) -> str:
    """Hang in a thread."""
    print("hang has begun", flush=True)
    time.sleep(3600)

@tool
async def add(a: int, b: int, ctx: ToolContext) -> int:
    """Add."""
    ctx.progress("carrying", 0.5)
    return a + b
'''


@pytest.fixture(params=["xterm-256color", "dumb"])
def term(request):
    """Both kinds of input line: the editor, and the terminal's own."""
    return request.param


def chat(server, *more, **options):
    return Terminal("chat", "--base-url", server.url, "--model", "test", *more, **options)


def test_ctrl_c_in_mid_sentence_stops_and_the_next_message_works(term):
    with OpenAIServer([endless(0.005), text("I am ", "fine.")]) as server, chat(server, TERM=term) as terminal:
        terminal.expect("openai:test")
        terminal.expect(PROMPT)
        terminal.send("tell me a story\r")
        terminal.expect("token token token")
        assert server.open == 1
        terminal.send(CTRL_C)
        terminal.expect(CUT)
        report = terminal.expect(STOPPED)
        assert int(re.search(r"(\d+) words", report)[1]) >= 3
        terminal.expect(PROMPT)
        server.wait_for(lambda server: server.disconnects == 1)
        terminal.send("and you?\r")
        terminal.expect("I am fine.")
        terminal.expect(PROMPT)
        terminal.send(CTRL_D)
        assert terminal.wait() == 0
        assert "Traceback" not in terminal.text
        assert [message["content"] for message in server.bodies[1]["messages"]] == ["and you?"]


def test_what_was_adopted_is_sent_with_the_next_message():
    with OpenAIServer([endless(0.005), text("fine.")]) as server, chat(server) as terminal:
        terminal.expect(PROMPT)
        terminal.send("tell me a story\r")
        terminal.expect("token token")
        terminal.send(CTRL_C)
        terminal.expect(STOPPED)
        terminal.expect("/adopt")
        terminal.expect(PROMPT)
        terminal.send("/adopt\r")
        terminal.expect("Kept")
        terminal.expect(PROMPT)
        terminal.send("go on\r")
        terminal.expect("fine")
        roles = [message["role"] for message in server.bodies[1]["messages"]]
        assert roles == ["user", "assistant", "user"]
        terminal.expect(PROMPT)
        terminal.send("/exit\r")
        assert terminal.wait() == 0


def test_the_presses_that_it_takes_to_leave_are_three_and_no_traceback_comes(term):
    """Case L5."""
    with OpenAIServer(endless(0.005)) as server, chat(server, TERM=term) as terminal:
        terminal.expect(PROMPT)
        terminal.send("hi\r")
        terminal.expect("token token")
        terminal.send(CTRL_C)
        terminal.expect(STOPPED)
        terminal.expect(PROMPT)
        terminal.send(CTRL_C)
        terminal.expect("Press Ctrl-C again to leave")
        terminal.expect(PROMPT)
        terminal.send(CTRL_C)
        assert terminal.wait() == 0
        assert "Traceback" not in terminal.text
        assert "Error" not in terminal.text


def test_a_warning_is_void_after_a_message(term):
    with OpenAIServer(text("fine.")) as server, chat(server, TERM=term) as terminal:
        terminal.expect(PROMPT)
        for _ in range(2):
            terminal.send(CTRL_C)
            terminal.expect("Press Ctrl-C again")
            terminal.expect(PROMPT)
            terminal.send("hi\r")
            terminal.expect("fine.")
            terminal.expect(PROMPT)
        terminal.send(CTRL_D)
        assert terminal.wait() == 0


def test_the_second_press_while_it_is_stopping_abandons_and_the_chat_goes_on(tmp_path):
    (tmp_path / "stubborn.py").write_text(TOOLS)
    with (
        OpenAIServer([calls(("pay", {"path": "x"})), text("fine.")]) as server,
        chat(server, "--tools", "stubborn:pay", cwd=tmp_path) as terminal,
    ):
        terminal.expect(PROMPT)
        terminal.send("go\r")
        terminal.expect("pay has begun")
        terminal.send(CTRL_C)
        terminal.expect(r"■ stopping pay… \(Ctrl-C again abandons it\)\n")
        terminal.send(CTRL_C)
        terminal.expect(r"■ stopped by Ctrl-C in the tool pay \[TOOL_CALL\] .*; tools: pay interrupted")
        terminal.expect(PROMPT)
        terminal.send("next\r")
        terminal.expect("fine.")
        terminal.expect(PROMPT)
        terminal.send(CTRL_D)
        assert terminal.wait() == 0
        assert "Traceback" not in terminal.text


def test_the_third_press_leaves_at_once_whatever_blocks_the_loop(tmp_path):
    (tmp_path / "stubborn.py").write_text(TOOLS)
    with (
        OpenAIServer(calls(("block", {"path": "x"}))) as server,
        chat(server, "--tools", "stubborn:block", cwd=tmp_path) as terminal,
    ):
        terminal.expect(PROMPT)
        terminal.send("go\r")
        terminal.expect("block has begun")
        terminal.send(CTRL_C)
        terminal.expect(r"\^C")
        time.sleep(0.2)  # or two would count as one
        terminal.send(CTRL_C)
        terminal.expect(r"\n■ the event loop is blocked at \S+stubborn\.py:\d+ \(Ctrl-C again leaves\)\n")
        terminal.send(CTRL_C)
        terminal.expect(r'\n■ left at once; still running, effect unknown: block\(path="x"\)\n')
        assert terminal.wait() == 130
        assert "Traceback" not in terminal.text
        assert "stopped by" not in terminal.text, "it was to leave while it was stopping"


def test_any_number_of_quick_presses_leaves_without_a_traceback(tmp_path):
    """Case L5."""
    (tmp_path / "stubborn.py").write_text(TOOLS)
    with (
        OpenAIServer(calls(("refuse", {"path": "x"}))) as server,
        chat(server, "--tools", "stubborn:refuse", cwd=tmp_path) as terminal,
    ):
        terminal.expect(PROMPT)
        terminal.send("go\r")
        terminal.expect("refuse has begun")
        presses = 0
        while terminal.process.poll() is None and presses < 1000:
            os.kill(terminal.process.pid, signal.SIGINT)  # some come while another is being taken, and count as one
            presses += 1
            time.sleep(0.005)
        assert terminal.wait() in {0, 130}  # the second abandons, so that the others may come to the prompt already
        assert "Traceback" not in terminal.text


@pytest.mark.parametrize("name", ["refuse", "hang"])
def test_a_tool_that_refuses_to_end_is_named_with_its_line_and_does_not_hold_up_the_exit(tmp_path, name):
    (tmp_path / "stubborn.py").write_text(TOOLS)
    script = [calls((name, {"path": "x"})), text("fine.")]
    with OpenAIServer(script) as server, chat(server, "--tools", f"stubborn:{name}", cwd=tmp_path) as terminal:
        terminal.expect(PROMPT)
        terminal.send("go\r")
        terminal.expect(rf"(?s)⋯ {name}\(.*{name} has begun|{name} has begun.*⋯ {name}\(")  # the tool may be first
        terminal.send(CTRL_C)
        terminal.expect(rf"■ {name}\(path=\"x\"\) abandoned")
        terminal.expect(rf"■ stopped by Ctrl-C in the tool {name} \[TOOL_CALL\] after .* ms; tools: {name} abandoned")
        terminal.expect(rf"still running: {name} at \S+\.py:\d+ \(")
        terminal.expect(PROMPT)
        terminal.send("next\r")
        terminal.expect("fine.")
        terminal.expect(PROMPT)
        terminal.send(CTRL_D)
        assert terminal.wait(10) == 0
        assert "Traceback" not in terminal.text
        assert "never retrieved" not in terminal.text


def test_a_tool_call_is_one_line_with_its_arguments_its_status_and_its_time(tmp_path, term):
    (tmp_path / "stubborn.py").write_text(TOOLS)
    script = [calls(("add", {"a": 2, "b": 3}), before=["Let me see."]), text("It is 5.")]
    with (
        OpenAIServer(script) as server,
        chat(server, "--tools", "stubborn:add", cwd=tmp_path, TERM=term) as terminal,
    ):
        terminal.expect(PROMPT)
        terminal.send("2 + 3?\r")
        terminal.expect(r"Let me see\.\n")
        terminal.expect(r"50 % carrying add\(a=2, b=3\)")
        terminal.expect(r"✓ add\(a=2, b=3\) completed in \d+ ms\n")
        terminal.expect(r"It is 5\.\n")
        terminal.expect(PROMPT)
        terminal.send("/runs\r")
        terminal.expect(r"1  \d\d:\d\d:\d\d  completed, .* completed: add")
        terminal.expect(PROMPT)
        terminal.send("/history\r")
        terminal.expect("you  2 \\+ 3\\?")
        terminal.expect("calls  add")
        terminal.expect("result  5")
        terminal.expect(PROMPT)
        terminal.send("/nonsense\r")
        terminal.expect("/nonsense is no command")
        terminal.expect(PROMPT)
        terminal.send(CTRL_D)
        assert terminal.wait() == 0


def test_sigterm_stops_what_runs_and_exits_143():
    with OpenAIServer(endless(0.005)) as server, chat(server) as terminal:
        terminal.expect(PROMPT)
        terminal.send("hi\r")
        terminal.expect("token token")
        os.kill(terminal.process.pid, signal.SIGTERM)
        terminal.expect(r"■ stopped by SIGTERM in the middle of the reply")
        assert terminal.wait() == 143
        assert terminal.text.count("SIGTERM") == 1
        assert "/adopt" not in terminal.text
        server.wait_for(lambda server: server.disconnects == 1)


def test_sigterm_at_the_prompt_exits_143(term):
    with OpenAIServer() as server, chat(server, TERM=term) as terminal:
        terminal.expect(PROMPT)
        os.kill(terminal.process.pid, signal.SIGTERM)
        terminal.expect(r"\nstopped by SIGTERM\n")
        assert terminal.wait() == 143
        assert "Traceback" not in terminal.text


def test_a_sigint_from_elsewhere_counts_as_ctrl_c_at_the_prompt(term):
    with OpenAIServer() as server, chat(server, TERM=term) as terminal:
        terminal.expect(PROMPT)
        os.kill(terminal.process.pid, signal.SIGINT)
        terminal.expect("Press Ctrl-C again to leave")
        terminal.expect(PROMPT)
        os.kill(terminal.process.pid, signal.SIGINT)
        assert terminal.wait() == 0


def test_a_failure_is_one_line_and_the_chat_goes_on():
    with OpenAIServer([error(400, "out of order"), text("fine.")]) as server, chat(server) as terminal:
        terminal.expect(PROMPT)
        terminal.send("hi\r")
        terminal.expect(r"loopctl: openai:test at .* answered 400: out of order\. .*\n")
        terminal.expect(PROMPT)
        terminal.send("hi\r")
        terminal.expect("fine.")
        terminal.expect(PROMPT)
        terminal.send(CTRL_D)
        assert terminal.wait() == 0


def test_a_failure_after_something_was_done_says_that_it_can_be_kept(tmp_path):
    (tmp_path / "stubborn.py").write_text(TOOLS)
    script = [calls(("add", {"a": 2, "b": 3})), error(400, "no more"), text("fine.")]
    with OpenAIServer(script) as server, chat(server, "--tools", "stubborn:add", cwd=tmp_path) as terminal:
        terminal.expect(PROMPT)
        terminal.send("hi\r")
        terminal.expect(r"answered 400: no more.* \[tools: add completed\]\n")
        terminal.expect("/adopt keeps")
        terminal.expect(PROMPT)
        terminal.send("/adopt\r")
        terminal.expect(
            r"Kept: your message; the tool calls with what is known of them: add completed\. "
            r"The model is not told that it failed\."
        )
        terminal.expect(PROMPT)
        terminal.send(CTRL_D)
        assert terminal.wait() == 0


def test_there_are_no_colours_where_they_are_not_wanted():
    sgr = re.compile(r"\x1b\[[0-9;]*[1-9][0-9;]*m")
    with OpenAIServer(text("fine.")) as server:
        for environment, is_colored in ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False), ({}, True):
            with chat(server, **environment) as terminal:
                terminal.expect("openai:test\n")
                assert bool(sgr.search(terminal.raw)) is is_colored
                terminal.expect(PROMPT)
                terminal.send(CTRL_D)
                assert terminal.wait() == 0


def test_a_model_cannot_write_control_sequences_to_the_terminal():
    with OpenAIServer(text("a\x1b]0;owned\x07b\x1b[2Jc\n")) as server, chat(server) as terminal:
        terminal.expect(PROMPT)
        terminal.send("hi\r")
        terminal.expect(r"a\]0;ownedb\[2Jc")
        assert "\x1b[2J" not in terminal.raw
        terminal.expect(PROMPT)
        terminal.send(CTRL_D)
        assert terminal.wait() == 0


def test_a_wait_for_an_answer_that_never_comes_can_be_stopped():
    with OpenAIServer(never()) as server, chat(server) as terminal:
        terminal.expect(PROMPT)
        terminal.send("hi\r")
        server.wait_for(lambda server: server.open == 1)
        terminal.send(CTRL_C)
        terminal.expect(
            r"■ stopped by Ctrl-C while waiting for the reply \[STREAM_EVENT\] after .* ms; nothing shown\n"
        )
        terminal.expect(PROMPT)
        server.wait_for(lambda server: server.disconnects == 1)
        terminal.send(CTRL_D)
        assert terminal.wait() == 0
