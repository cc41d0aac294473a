"""The built-in tools from the command line: what is asked, what is not, and what nobody may do."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.integration.cli.terminal import COMMAND, CTRL_D, Terminal, clean_environment
from tests.peers.openai_server import OpenAIServer, calls, text

PROMPT = r"(?m)^>"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "notes.txt").write_text("buy milk\n")
    return tmp_path


def run(server, folder, *options):
    return subprocess.run(
        [*COMMAND, "run", "--base-url", server.url, "--model", "test", *options, "--json", "do it"],
        cwd=folder.parent,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


SCRIPT = [
    calls(("search", {"text": "milk"})),
    calls(("edit_file", {"path": "notes.txt", "old": "milk", "new": "bread"})),
    calls(("run_command", {"command": "cat notes.txt; pwd"})),
    text("done."),
]


def test_in_the_chat_what_looks_is_not_asked_and_what_changes_something_is(folder):
    options = ("--workspace", str(folder))
    with (
        OpenAIServer(SCRIPT) as server,
        Terminal("chat", "--base-url", server.url, "--model", "test", *options, TERM="dumb") as terminal,
    ):
        terminal.expect(PROMPT)
        terminal.send("bread instead\r")
        terminal.expect(r"✓ search\(text=\"milk\"\) completed")
        terminal.expect(
            r'\? edit_file needs your yes:\n    path = "notes.txt"\n    old = "milk"\n    new = "bread"\n'
            r"  run it\? y/N "
        )
        terminal.send("y\r")
        terminal.expect(r"✓ edit_file\(.*\) completed")
        terminal.expect(r"\? run_command needs your yes:\n    command = \"cat notes.txt; pwd\"\n  run it\? y/N ")
        terminal.send("n\r")
        terminal.expect(r"✗ run_command\(.*\) denied")
        terminal.expect(r"done\.")
        terminal.send(CTRL_D)
        assert terminal.wait() == 0
    assert (folder / "notes.txt").read_text() == "buy bread\n"


def test_with_yes_nobody_is_asked(folder):
    with OpenAIServer(SCRIPT) as server:
        done = run(server, folder, "--workspace", folder.name, "--yes")
    calls_made = json.loads(done.stdout)["tool_calls"]
    assert [call["status"] for call in calls_made] == ["completed"] * 3
    assert calls_made[2]["result"] == f"exit code 0\nbuy bread\n{folder}"


def test_where_nobody_is_there_to_be_asked_it_can_only_look(folder):
    with OpenAIServer(SCRIPT) as server:
        done = run(server, folder, "--workspace", str(folder))
    statuses = [call["status"] for call in json.loads(done.stdout)["tool_calls"]]
    assert statuses == ["completed", "denied", "denied"]
    assert (folder / "notes.txt").read_text() == "buy milk\n"


def test_without_a_workspace_there_are_no_tools(folder):
    with OpenAIServer(text("hello")) as server:
        run(server, folder)
    assert "tools" not in server.bodies[0]


@pytest.mark.parametrize("name", ["", "no-such-folder", "notes.txt"])
def test_a_workspace_that_is_none_is_said_at_once(folder, name):
    with OpenAIServer(text("hello")) as server:
        done = run(server, folder, "--workspace", name and str(folder / name))
    assert done.returncode == 2
    assert "workspace" in done.stderr
    assert server.records == []
