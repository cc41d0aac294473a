"""The end of the client, of its streams, and of the command: bounded, and nothing goes on. By lines of our own."""

from __future__ import annotations

import fcntl
import os
import signal
import struct
import subprocess
import termios

import pytest

from tests.integration.acp.editor import TOOLS, Lines, command
from tests.integration.cli.terminal import clean_environment
from tests.peers.openai_server import OpenAIServer, burst, calls, endless, text

CANCELLED = {"stopReason": "cancelled"}
FULL = 60_000
"""Bytes in a pipe that takes 64 KiB, when no further line fits, or nearly so."""


@pytest.fixture
def tools(tmp_path):
    (tmp_path / "edtools.py").write_text(TOOLS)
    return tmp_path


def wanted(name, path):
    return calls((name, {"path": str(path)}))


def answer_in(messages, id):
    (found,) = [message for message in messages if message.get("id") == id and "method" not in message]
    return found["result"]


def waiting_in(pipe):
    return struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, b"    "))[0]


def is_busy(process):
    """True if it has used the processor in the last while: it does not wait."""
    used = [ticks(process)]
    signal.sigtimedwait([], 0.5)
    return used != [ticks(process)]


def ticks(process):
    with open(f"/proc/{process.pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[11:13]


def wait_for(path):
    while not path.exists():
        os.sched_yield()


def test_a_client_that_goes_away_stops_its_run_as_a_disconnect(tools):
    with OpenAIServer(wanted("wait", "log")) as server, Lines(server, "--tools", "edtools:wait", cwd=tools) as client:
        client.begin().write(client.prompt(1))
        wait_for(tools / "log.begun")
        code, said = client.end()
        assert code == 0
        assert (tools / "log").read_text() == "disconnect"
        assert answer_in(said, 1) == CANCELLED
        assert client.errors == b""


def test_a_cancel_and_the_end_in_one_breath_are_a_cancel(tools):
    """What a command-line client does at Ctrl-C."""
    with OpenAIServer(wanted("wait", "log")) as server, Lines(server, "--tools", "edtools:wait", cwd=tools) as client:
        client.begin().write(client.prompt(1))
        wait_for(tools / "log.begun")
        client.write(client.cancel())
        code, said = client.end()
        assert (code, answer_in(said, 1)) == (0, CANCELLED)
        assert (tools / "log").read_text() == "user"


def test_a_prompt_and_the_end_in_one_breath_send_nothing():
    with OpenAIServer(endless()) as server, Lines(server).begin() as client:
        client.write(client.prompt(1))
        code, said = client.end()
        assert (code, answer_in(said, 1)) == (0, CANCELLED)
        assert server.open == 0


def test_an_open_question_does_not_hold_up_the_end(tools):
    with (
        OpenAIServer(wanted("touch", "file")) as server,
        Lines(server, "--tools", "edtools:touch", cwd=tools) as client,
    ):
        client.begin().write(client.prompt(1))
        while client.read().get("method") != "session/request_permission":
            pass
        code, said = client.end()
        assert (code, answer_in(said, 1)) == (0, CANCELLED)
        assert not (tools / "file").exists()


def test_a_client_that_reads_nothing_does_not_hold_up_the_end():
    with OpenAIServer([burst(150_000)]) as server, Lines(server).begin() as client:
        client.write(client.prompt(1))
        while waiting_in(client.process.stdout) < FULL or is_busy(client.process):
            os.sched_yield()
        assert server.open == 1, "there was nothing to stop"
        client.process.stdin.close()
        assert client.process.wait(20) == 0
        server.wait_for(lambda s: s.open == 0)


def test_a_client_that_has_closed_its_ear_stops_the_run(tools):
    with OpenAIServer(endless()) as server, Lines(server).begin() as client:
        client.write(client.prompt(1))
        server.wait_for(lambda s: s.open == 1)
        client.process.stdout.close()
        assert client.process.wait(20) == 0  # stdin is still open
        server.wait_for(lambda s: s.disconnects == 1)


@pytest.mark.parametrize(("number", "code", "origin"), [("SIGTERM", 143, "shutdown"), ("SIGINT", 130, "user")])
def test_a_signal_stops_the_run_answers_the_client_and_ends_the_command(tools, number, code, origin):
    with OpenAIServer(wanted("wait", "log")) as server, Lines(server, "--tools", "edtools:wait", cwd=tools) as client:
        client.begin().write(client.prompt(1))
        wait_for(tools / "log.begun")
        client.process.send_signal(getattr(signal, number))
        assert client.answers(1) == [CANCELLED]
        assert client.process.wait(20) == code
        assert (tools / "log").read_text() == origin


def test_a_tool_that_refuses_to_end_does_not_hold_up_the_end(tools):
    with OpenAIServer(wanted("refuse", "x")) as server, Lines(server, "--tools", "edtools:refuse", cwd=tools) as client:
        client.begin().write(client.prompt(1))
        while client.read()["params"]["update"]["sessionUpdate"] != "tool_call":
            pass
        code, said = client.end()
        assert (code, answer_in(said, 1)) == (0, CANCELLED)


def test_nothing_but_the_protocol_is_on_stdout_and_nobody_else_reads_stdin(tools):
    script = [wanted("shout", "x"), text("done")]
    with OpenAIServer(script) as server, Lines(server, "--tools", "edtools:shout", cwd=tools) as client:
        client.begin().write(client.prompt(1))
        assert client.answers(1) == [{"stopReason": "end_turn"}]  # each line was JSON; `cat` has ended
        code, _ = client.end()
        client._drain.join()
        assert code == 0
        assert client.errors.split() == [b"print", b"descriptor", b"process"]


def test_streams_that_are_no_pipes_are_refused_in_one_line(tmp_path):
    (tmp_path / "in").write_text("")
    with OpenAIServer() as server, (tmp_path / "in").open() as nothing:
        done = subprocess.run(
            command(server),
            stdin=nothing,
            capture_output=True,
            text=True,
            env=clean_environment(),
            timeout=40,
            check=False,
        )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("loopctl: the protocol needs pipes")
    assert done.stderr.count("\n") == 1


def test_without_its_extra_the_command_says_what_to_install():
    program = "import sys; sys.modules['acp'] = None; from loopctl.cli import main; sys.exit(main(['acp']))"
    with OpenAIServer() as server:
        argv = [command(server)[0], "-c", program]
        with Lines(server, argv=argv) as client:
            assert client.process.wait(20) == 2
            client._drain.join()
    assert b"pip install 'loopctl-py[acp]'" in client.errors
