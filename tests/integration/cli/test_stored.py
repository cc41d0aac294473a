"""Sessions and runs in a store, at the command line."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess

import pytest

from loopctl import Agent
from loopctl.cli._main import command
from loopctl.store import Store
from loopctl.testing import ScriptedModel, call, fail, say, stall, virtual_run
from loopctl.tools import tool
from tests.integration.cli.terminal import COMMAND, clean_environment
from tests.peers.openai_server import OpenAIServer, text


@pytest.fixture(autouse=True)
def surroundings(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr("loopctl.cli._exit.end_now", lambda code: None)  # the threads are those of the test's server


@pytest.fixture
def loopctl(capfd):
    """Run the command in this process; give its exit code, its stdout and its stderr."""

    def run(*arguments):
        code = command(arguments)
        return code, *capfd.readouterr()

    return run


def chat(server, *arguments, said):
    """Chat in a process of its own, as a script does; give its exit code, its stdout and its stderr."""
    line = [*COMMAND, "chat", "--base-url", server.url, "--model", "m", *arguments]
    ended = subprocess.run(line, input=said, capture_output=True, text=True, env=clean_environment(), check=False)
    return ended.returncode, ended.stdout, ended.stderr


@tool
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def some_runs(path):
    """Have a run of each kind in a store."""

    async def main():
        model = ScriptedModel([call("add", {"a": 1, "b": 2})], "Three.", fail("no power"), [say("half"), stall()])
        session = Agent(model, [add]).session(store=path, id="sums")
        done = await session.start("one\nand two")
        await session.start("again")
        handle = session.start("once more")
        async for event in handle:
            if type(event).__name__ == "TextDelta":
                handle.cancel("enough")
        await session.aclose()
        return done

    return virtual_run(main)


def test_a_chat_goes_on_under_its_name_in_the_store_of_the_user(loopctl, tmp_path):
    with OpenAIServer([text("Hello, Ada."), text("You are Ada.")]) as server:
        assert chat(server, "--session", "ada", said="I am Ada\n")[:2] == (0, "Hello, Ada.\n")
        code, out, told = chat(server, "--session", "ada", said="Who am I?\n")
    assert (code, out) == (0, "You are Ada.\n")
    assert "ada goes on: 2 messages, /history shows them" in told
    folder = tmp_path / "state" / "loopctl"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert [run.input for run in Store(folder / "store.db").runs(session="ada")] == ["Who am I?", "I am Ada"]
    code, out, _ = loopctl("sessions")
    assert code == 0
    heads, row = out.splitlines()
    assert heads.split("  ")[0] == "SESSION"
    assert row.startswith("ada ")
    assert row.endswith("I am Ada")


def test_runs_are_listed_newest_first_and_one_is_told_by_the_beginning_of_its_id(loopctl):
    done = some_runs("s.db")
    code, out, _ = loopctl("runs", "--store", "s.db")
    assert code == 0
    rows = [row.split() for row in out.splitlines()[1:]]
    assert [row[5] for row in rows] == ["cancelled", "failed", "completed"]
    assert rows[-1][0] == done.id[:12]
    assert out.splitlines()[-1].endswith("sums     one and two")
    assert len(loopctl("runs", "--store", "s.db", "--outcome", "failed")[1].splitlines()) == 2
    assert loopctl("runs", "--store", "s.db", "--session", "none") == (0, "", "There is nothing yet.\n")

    code, out, _ = loopctl("runs", "show", rows[-1][0], "--store", "s.db")
    assert code == 0
    assert out.splitlines()[0] == f"{done.id}  completed"
    assert 'call      add {"a": 1, "b": 2}  completed  3' in out
    assert "output    Three." in out
    _, out, _ = loopctl("runs", "show", rows[0][0], "--store", "s.db")
    assert "stopped   user: enough, at STREAM_EVENT after " in out
    assert "partial   half" in out
    _, out, _ = loopctl("runs", "show", rows[1][0], "--store", "s.db")
    assert "error     no power" in out


def test_json_is_what_the_store_gives(loopctl):
    done = some_runs("s.db")
    store = Store("s.db")
    assert json.loads(loopctl("runs", "--store", "s.db", "--json")[1]) == [run.to_json() for run in store.runs()]
    assert json.loads(loopctl("runs", "show", done.id, "--store", "s.db", "--json")[1])["record"] == done.to_json()
    assert json.loads(loopctl("sessions", "--store", "s.db", "--json")[1]) == [
        session.to_json() for session in store.sessions()
    ]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (("runs",), r"there is no store .*state/loopctl/store.db: give --store FILE"),
        (("sessions", "--store", "typo.db"), r"there is no store typo.db"),
        (("runs", "show", "run_zz", "--store", "s.db"), r"there is no run 'run_zz' in .*s.db"),
        (("runs", "show", "run_", "--store", "s.db"), r"several runs begin with 'run_': give more of the id"),
    ],
)
def test_what_is_not_there_is_named_and_nothing_is_made(loopctl, tmp_path, line, words):
    some_runs("s.db")
    code, out, told = loopctl(*line)
    assert (code, out) == (2, "")
    assert told.count("\n") == 1
    assert re.search(words, told)
    assert not (tmp_path / "state").exists()
    assert not (tmp_path / "typo.db").exists()


@pytest.mark.parametrize("line", [("show", ""), ("show", "\udcff"), ("--session", ""), ("--session", "\udcff")])
def test_what_can_be_no_id_is_refused(loopctl, line):
    some_runs("s.db")
    code, out, err = loopctl("runs", *line, "--store", "s.db")
    assert (code, out) == (2, "")
    assert "is no id" in err


def test_a_long_name_of_a_session_leaves_the_tables_readable(loopctl):
    async def main():
        session = Agent(ScriptedModel("Yes.")).session(store="s.db", id="long " * 500)
        await session.run("hi")
        await session.aclose()

    virtual_run(main)
    for table in ("runs", "sessions"):
        code, out, _ = loopctl(table, "--store", "s.db")
        assert code == 0
        assert max(map(len, out.splitlines())) < 160


def test_a_chat_says_that_the_last_run_was_interrupted_and_keeps_it_if_asked():
    async def die():
        session = Agent(ScriptedModel([say("half"), stall()]), [add]).session(store="live.db", id="ada")
        handle = session.start("go")
        async for event in handle:
            if type(event).__name__ == "TextDelta":
                for end in ("", "-wal"):
                    shutil.copy(f"live.db{end}", f"dead.db{end}")
                handle.cancel()
        await session.aclose()

    virtual_run(die)
    with OpenAIServer([text("I see.")]) as server:
        code, out, told = chat(server, "--session", "ada", "--store", "dead.db", said="/adopt\nwhat now?\n")
    assert (code, "I see." in out) == (0, True)
    assert "The last run was interrupted: its process ended." in told
    assert "Kept: your message alone, since the program ended before anything was said or done." in out
    assert [message.text for message in Store("dead.db").session("ada").messages] == ["go", "what now?", "I see."]


def test_a_session_that_is_open_elsewhere_is_refused_at_once():
    async def main():
        session = Agent(ScriptedModel("Yes.")).session(store="s.db", id="ada")
        await session.run("hi")
        return session

    session = virtual_run(main)
    with OpenAIServer([]) as server:
        code, out, told = chat(server, "--session", "ada", "--store", "s.db", said="hello?\n")
    assert (code, out) == (2, "")
    assert f"ada is open in process {os.getpid()}: close it there" in told
    virtual_run(session.aclose)
