"""`--mcp` at the terminal."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.integration.cli.terminal import COMMAND, CTRL_C, CTRL_D, Terminal, clean_environment
from tests.integration.mcp.places import PEERS, Peer, is_alive
from tests.peers.openai_server import OpenAIServer, calls, text

PROMPT = r"(?m)^>"
SCRIPT = [calls(("the_peer_add", {"a": 1, "b": 2})), text("three.")]


@pytest.fixture
def peer(tmp_path):
    return Peer(tmp_path)


def server(peer, file, *words):
    return f"env MCP_LOG={peer.log} {sys.executable} {PEERS / file} {' '.join(words)}"


def run(peer, *options):
    with OpenAIServer(SCRIPT) as model:
        return subprocess.run(
            [*COMMAND, "run", "--base-url", model.url, "--model", "test", *options, "--json", "add"],
            env=clean_environment(),
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
        )


def test_in_a_script_nothing_of_a_server_is_called_unless_everything_may_be(peer):
    mcp = ("--mcp", server(peer, "mcp_server.py"))
    for options, result in (((*mcp,), "denied"), ((*mcp, "--yes"), "completed")):
        done = run(peer, *options)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["tool_calls"][0]["status"] == result
    assert not any(map(is_alive, peer.pids()))


def test_a_server_that_cannot_be_started_is_one_line(peer):
    done = run(peer, "--mcp", "no-such-server")
    assert done.returncode == 1
    assert done.stderr.startswith("loopctl: the MCP server `no-such-server` cannot be started")
    assert done.stderr.count("\n") == 1


def test_in_the_chat_a_call_of_a_server_is_asked_for(peer):
    options = ("--mcp", server(peer, "mcp_server.py"))
    with (
        OpenAIServer(SCRIPT) as model,
        Terminal("chat", "--base-url", model.url, "--model", "test", *options, TERM="dumb") as terminal,
    ):
        terminal.expect(PROMPT)
        terminal.send("add\r")
        terminal.expect(r"\? the_peer_add needs your yes:")
        terminal.send("y\r")
        terminal.expect(r"✓ the_peer_add\(.*\) completed")
        terminal.expect(r"three\.")
        terminal.expect(PROMPT)
        terminal.send(CTRL_D)
        assert terminal.wait() == 0
    assert not any(map(is_alive, peer.pids()))


def test_ctrl_c_while_a_server_is_being_connected_leaves_and_leaves_no_process(peer):
    options = ("--mcp", server(peer, "mcp_stubborn.py", "deaf"))
    with Terminal("chat", "--base-url", "http://127.0.0.1:1", "--model", "test", *options, TERM="dumb") as terminal:
        while not any("server/discover" in line for line in peer.lines()):
            pass
        terminal.send(CTRL_C)
        terminal.expect(r"stopped while an MCP server was being connected")
        assert terminal.wait() == 130
    assert len(peer.pids()) == 2
    assert not any(map(is_alive, peer.pids()))
