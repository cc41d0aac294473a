"""`loopctl ps` and `loopctl cancel`, against commands that really run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.integration.cli.terminal import COMMAND, CTRL_D, Terminal, clean_environment
from tests.peers.openai_server import OpenAIServer, calls, endless, text

TOOLS = '''
import asyncio, os, time

async def wait() -> str:
    """Wait politely."""
    await asyncio.sleep(3600)

def hang() -> str:
    """Hang in a thread."""
    time.sleep(3600)

async def block() -> str:
    """Block the loop."""
    while not os.path.exists("go"):
        time.sleep(0.05)
'''


@pytest.fixture(autouse=True)
def sockets(tmp_path, monkeypatch):
    monkeypatch.setenv("LOOPCTL_CONTROL_DIR", str(tmp_path / "sockets"))
    (tmp_path / "mine.py").write_text(TOOLS)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "sockets"


def started(server, *arguments):
    return subprocess.Popen(
        [*COMMAND, "run", "--base-url", server.url, "--model", "test", *arguments, "hi"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=clean_environment(),
    )


def loopctl(*arguments):
    return subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, env=clean_environment(), timeout=40, check=False
    )


def seen(count=1, **what):
    """Wait until *count* runs are listed that are as *what* says; give them."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        done = loopctl("ps", "--json")
        runs = [run for run in json.loads(done.stdout)["runs"] if what.items() <= run.items()]
        if len(runs) == count:
            return runs
    raise AssertionError(f"{done.stdout}\n{done.stderr}")


def test_a_run_is_listed_and_stopped_and_both_sides_say_so():
    with OpenAIServer(endless(0.005)) as server, started(server, "--json") as process:
        [run] = seen(checkpoint="STREAM_EVENT")
        assert (run["pid"], run["command"], run["model"]) == (process.pid, "loopctl run", "openai:test")
        assert (run["state"], run["turn"], run["tools"]) == ("running", 1, [])
        done = loopctl("cancel", run["id"][4:12], "--reason", "too long")
        out, err = process.communicate(timeout=20)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith(f"{run['id'][:12]}: stopped in the middle of the reply [STREAM_EVENT] after ")
    assert process.returncode == 130
    record = json.loads(out)
    assert (record["id"], record["outcome"]) == (run["id"], "cancelled")
    reason = record["stop"]["reason"]
    assert (reason["origin"], reason["message"]) == ("user", "too long")
    assert reason["requested_by"].startswith("loopctl cancel (pid ")
    assert record["stop"]["latency"] < 1
    stopped = f"loopctl: stopped by {reason['requested_by']}: too long, in the middle of the reply [STREAM_EVENT] after"
    assert stopped in err


def test_of_several_runs_one_is_stopped_and_then_all_are():
    with OpenAIServer(endless(0.005)) as server, started(server) as one, started(server) as other:
        first, second = seen(2, checkpoint="STREAM_EVENT")
        begun_by_both = loopctl("cancel", "run_")
        assert begun_by_both.returncode == 2
        assert "begins the ids of 2 runs" in begun_by_both.stderr
        pid = {one.pid: one, other.pid: other}
        assert loopctl("cancel", first["id"]).returncode == 0
        assert pid[first["pid"]].wait(20) == 130
        assert [run["id"] for run in seen()] == [second["id"]]
        done = loopctl("cancel", "--all", "--json")
        assert json.loads(done.stdout)["state"] == "ended"
        assert pid[second["pid"]].wait(20) == 130
        done = loopctl("cancel", first["id"], second["id"])
        assert done.returncode == 4
        assert done.stdout.count("no such run goes on here") == 2


def test_a_table_shows_the_tool_and_the_stop_of_what_does_not_end():
    server = OpenAIServer(calls(("hang", {})))
    with server, started(server, "--tools", "mine:hang", "--yes") as process:
        [run] = seen(checkpoint="TOOL_CALL", tools=["hang"])
        table = loopctl("ps").stdout.splitlines()
        assert table[0].split() == ["RUN", "STATE", "AGE", "TURN", "NOW"]
        assert table[1].startswith(f"{run['id'][:12]}  running ")
        assert table[1].endswith("in the tool hang")
        assert f"loopctl run (pid {process.pid}) · openai:test · {run['session_id'][:20]}" in table[2]
        done = loopctl("cancel", run["id"])
        _, err = process.communicate(timeout=20)
    assert "stopped in a tool [TOOL_CALL]" in done.stdout
    assert "still running: hang" in done.stdout
    assert "hang abandoned" in err


def test_a_blocked_event_loop_is_told_and_named():
    server = OpenAIServer(calls(("block", {})))
    with server, started(server, "--tools", "mine:block", "--yes", "--json") as process:
        [run] = seen(checkpoint="TOOL_CALL", tools=["block"])
        done = loopctl("cancel", run["id"])
        assert done.returncode == 1
        assert "told to stop, and has not ended yet: the event loop is blocked at" in done.stdout
        assert "mine.py:15" in done.stdout
        assert f"stopping: user (by {seen(state='stopping')[0]['stopping']['requested_by']})" in loopctl("ps").stdout
        Path("go").touch()
        out, _ = process.communicate(timeout=20)
    assert json.loads(out)["outcome"] == "cancelled"


def test_a_process_that_hangs_is_named():
    with OpenAIServer(endless(0.005)) as server, started(server) as process:
        [run] = seen(checkpoint="STREAM_EVENT")
        os.kill(process.pid, signal.SIGSTOP)
        listed, done = loopctl("ps"), loopctl("cancel", run["id"])
        os.kill(process.pid, signal.SIGCONT)
        assert process.wait(20) == 130
    assert listed.returncode == 1
    assert f"process {process.pid} does not answer" in listed.stderr
    assert done.returncode == 4
    assert f"process {process.pid} does not answer, it may be there and stop when that goes on" in done.stdout


def test_what_a_killed_command_leaves_is_taken_away(sockets):
    with OpenAIServer(endless(0.005)) as server, started(server) as process:
        seen(checkpoint="STREAM_EVENT")
        process.kill()
        process.wait()
        assert len(list(sockets.iterdir())) == 1
        done = loopctl("ps")
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "No runs.\n")
        assert list(sockets.iterdir()) == []


def test_a_command_that_cannot_listen_runs_all_the_same(sockets):
    sockets.mkdir(mode=0o755)
    with OpenAIServer(text("Hello")) as server, started(server) as process:
        out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (0, "Hello\n")
    assert "other processes cannot list or cancel these runs" in err
    assert "mode 755" in err
    done = loopctl("ps")
    assert (done.returncode, done.stdout) == (2, "")


def test_a_chat_says_who_stopped_it_and_goes_on():
    server = OpenAIServer([endless(0.005), text("I am ", "fine.")])
    with server, Terminal("chat", "--base-url", server.url, "--model", "test", TERM="dumb") as terminal:
        terminal.expect(r"(?m)^>")
        terminal.send("tell me a story\r")
        terminal.expect("token token token")
        [run] = seen(checkpoint="STREAM_EVENT")
        assert run["command"] == "loopctl chat"
        assert loopctl("cancel", run["id"], "--reason", "enough").returncode == 0
        terminal.expect(
            r"\[stopped\]\n■ stopped by loopctl cancel \(pid \d+, \w+\): enough, in the middle of the reply"
        )
        terminal.expect(r"(?m)^>")
        terminal.send("and you?\r")
        terminal.expect("I am fine.")
        terminal.send(CTRL_D)
        assert terminal.wait() == 0


def test_an_id_is_wanted_or_all_and_not_both():
    assert loopctl("cancel").returncode == 2
    assert loopctl("cancel", "run_1", "--all").returncode == 2
    assert loopctl("cancel", "--all").stderr == "No runs.\n"
