"""`loopctl run` as a script uses it: streams, exit codes, signals, pipes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.integration.cli.terminal import COMMAND, clean_environment
from tests.peers.openai_server import OpenAIServer, calls, endless, never, text, words

TOOLS = '''
import asyncio
import time

print("the module says hello")

async def wait(path: str) -> str:
    """Wait politely."""
    print("the tool says hello", flush=True)
    await asyncio.sleep(3600)

async def refuse(path: str) -> str:
    """Swallow every cancellation."""
    print("the tool says hello", flush=True)
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            pass

def hang(path: str) -> str:
    """Hang in a thread."""
    print("the tool says hello", flush=True)
    time.sleep(3600)

def fill_the_pool(path: str) -> str:
    """Leave a thread that nobody can end where Python waits for it."""
    from concurrent.futures import ThreadPoolExecutor
    ThreadPoolExecutor(1).submit(time.sleep, 3600)
    return "done"

async def leave_a_task(path: str) -> str:
    """Leave a task that refuses to end."""
    leave_a_task.kept = asyncio.create_task(refuse(path))
    await asyncio.sleep(0)
    return "done"
'''


@pytest.fixture
def tools(tmp_path):
    (tmp_path / "stubborn.py").write_text(TOOLS)
    return tmp_path


def command(server, *arguments):
    return [*COMMAND, "run", "--base-url", server.url, "--model", "test", *arguments]


def run(server, *arguments, stdin=None, cwd=None, **environment):
    return subprocess.run(
        command(server, *arguments),
        input=stdin,
        capture_output=True,
        text=True,
        cwd=cwd,
        env=clean_environment(**environment),
        timeout=40,
        check=False,
    )


@contextmanager
def started(server, *arguments, cwd=None):
    process = subprocess.Popen(
        command(server, *arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env=clean_environment(),
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def test_a_completed_run_prints_its_text_and_nothing_else_and_exits_0():
    with OpenAIServer(text("Hello", " world")) as server:
        done = run(server, "hi")
    assert (done.returncode, done.stdout) == (0, "Hello world\n")
    assert done.stderr == ""


def test_the_input_can_come_from_a_pipe_and_the_instructions_from_an_option():
    with OpenAIServer() as server:
        done = run(server, "--system", "Be brief.", "-", stdin="wide: 日本語\nsecond line\n")
        assert done.returncode == 0
        system, user = server.bodies[0]["messages"]
    assert system["content"] == "Be brief."
    assert user["content"] == "wide: 日本語\nsecond line\n"


def test_json_is_one_object_and_carries_the_record():
    with OpenAIServer(text("Grüße 日本")) as server:
        done = run(server, "--json", "hi")
    record = json.loads(done.stdout)
    assert done.returncode == 0
    assert done.stdout.count("\n") == 1
    assert (record["outcome"], record["output"]) == ("completed", "Grüße 日本")


def test_events_are_one_object_a_line_and_end_with_the_run():
    with OpenAIServer(text("a", "b")) as server:
        done = run(server, "--events", "hi")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    names = [event["event"] for event in events]
    assert names == ["RunStarted", "TurnStarted", "TextDelta", "TextDelta", "TurnEnded", "RunEnded"]
    assert events[-1]["run"]["output"] == "ab"


def test_no_stream_asks_for_a_whole_reply():
    with OpenAIServer(text("whole")) as server:
        done = run(server, "--no-stream", "hi")
        assert done.stdout == "whole\n"
        assert not server.bodies[0].get("stream")


@pytest.mark.parametrize(("number", "code", "name"), [(signal.SIGINT, 130, "Ctrl-C"), (signal.SIGTERM, 143, "SIGTERM")])
def test_a_signal_in_mid_stream_stops_the_run_and_the_exit_code_says_which(number, code, name):
    with OpenAIServer(endless(0.005)) as server, started(server, "hi") as process:
        server.wait_for(lambda server: server.records and len(server.records[0].tokens) > 5, timeout=30)
        assert process.stdout.read(12) == "token token "
        os.kill(process.pid, number)
        out, err = process.communicate(timeout=20)
        assert process.returncode == code
        *notes, report = err.splitlines()
        assert report.startswith(f"loopctl: stopped by {name} in the middle of the reply [STREAM_EVENT] after")
        assert [note for note in notes if "stopping the reply…" not in note] == []  # said if the stop takes its time
        assert out.endswith("\n")
        server.wait_for(lambda server: server.disconnects == 1)


@pytest.mark.parametrize("shape", ["--json", "--events"])
def test_a_stopped_run_still_prints_its_record(shape):
    with OpenAIServer(endless(0.005)) as server, started(server, shape, "hi") as process:
        server.wait_for(lambda server: server.records and len(server.records[0].tokens) > 5, timeout=30)
        os.kill(process.pid, signal.SIGINT)
        out, _ = process.communicate(timeout=20)
    last = json.loads(out.splitlines()[-1])
    record = last if shape == "--json" else last["run"]
    assert process.returncode == 130
    assert record["outcome"] == "cancelled"
    assert record["stop"]["reason"]["requested_by"] == "SIGINT"
    assert record["partial_text"].startswith("token ")


def test_a_failed_run_still_prints_its_record():
    with OpenAIServer(words(3, drop_at=2)) as server:
        done = run(server, "--json", "hi")
    record = json.loads(done.stdout)
    assert (done.returncode, record["outcome"]) == (1, "failed")
    assert record["error"]["type"] == "ModelError"
    assert record["partial_text"] == ""  # of the last attempt: it was not streamed, and broke


def test_a_signal_in_a_tool_says_which_tool_and_what_became_of_it(tools):
    with OpenAIServer(calls(("wait", {"path": "x"}))) as server:
        with started(server, "--json", "--tools", "stubborn:wait", "go", cwd=tools) as process:
            read_until(process.stderr, "the tool says hello")
            os.kill(process.pid, signal.SIGINT)
            out, err = process.communicate(timeout=20)
        record = json.loads(out)
        assert process.returncode == 130
        assert "stopped by Ctrl-C in the tool wait [TOOL_CALL]" in err
        assert "wait interrupted (effect unknown)" in err
        assert [call["status"] for call in record["tool_calls"]] == ["interrupted"]


def test_what_modules_and_tools_print_is_not_in_the_output(tools):
    with OpenAIServer([calls(("fill_the_pool", {"path": "x"})), text("fine")]) as server:
        done = run(server, "--tools", "stubborn:fill_the_pool", "go", cwd=tools)
    assert done.stdout == "fine\n"
    assert "the module says hello" in done.stderr


@pytest.mark.parametrize("name", ["fill_the_pool", "leave_a_task"])
def test_what_a_tool_leaves_behind_does_not_hold_up_the_exit(tools, name):
    """A thread of a pool is joined by Python itself, and a task that refuses is waited for by asyncio.run."""
    with OpenAIServer([calls((name, {"path": "x"})), text("fine")]) as server:
        done = run(server, "--tools", f"stubborn:{name}", "go", cwd=tools)
    assert (done.returncode, done.stdout) == (0, "fine\n")
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


@pytest.mark.parametrize("name", ["refuse", "hang"])
def test_a_tool_that_refuses_to_end_does_not_hold_up_the_exit(tools, name):
    with OpenAIServer(calls((name, {"path": "x"}))) as server:
        with started(server, "--tools", f"stubborn:{name}", "go", cwd=tools) as process:
            read_until(process.stderr, "the tool says hello")
            os.kill(process.pid, signal.SIGTERM)
            _, err = process.communicate(timeout=20)
        assert process.returncode == 143
        assert f"still running: {name}" in err
        assert "Traceback" not in err
        assert "Exception ignored" not in err


def test_a_signal_while_the_input_is_awaited_ends_the_command_without_a_traceback():
    with OpenAIServer() as server:
        process = subprocess.Popen(
            command(server, "--tools", "json:dumps", "-"),
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=clean_environment(PYTHONPROFILEIMPORTTIME="1"),
        )
        with process:
            read_until(process.stderr, "loopctl.cli._main")
            os.kill(process.pid, signal.SIGINT)
            _, err = process.communicate(timeout=20)
        assert process.returncode == 130
        assert "Traceback" not in err


def test_a_reader_that_goes_away_stops_the_run():
    with OpenAIServer(endless(0.005)) as server, started(server, "hi") as process:
        assert process.stdout.read(6) == "token "
        process.stdout.close()
        assert process.wait(20) == 130
        err = process.stderr.read()
        assert "stdout was closed" in err
        assert "Traceback" not in err
        assert "Exception ignored" not in err
        server.wait_for(lambda server: server.disconnects == 1)


def test_a_run_out_of_turns_exits_1(tools):
    with OpenAIServer(calls(("fill_the_pool", {"path": "x"}))) as server:
        done = run(server, "--max-turns", "1", "--tools", "stubborn:fill_the_pool", "go", cwd=tools)
    assert done.returncode == 1
    assert "after 1 turn the model still asked for tools: --max-turns allows more" in done.stderr


def test_a_run_that_reaches_its_deadline_exits_124():
    with OpenAIServer(endless(0.005)) as server:
        done = run(server, "--deadline", "0.5", "go")
    assert done.returncode == 124
    assert set(done.stdout.split()) <= {"token"}  # on a busy machine it may come before the first word
    assert "at its deadline" in done.stderr


def test_the_installed_command_is_the_same():
    script = Path(sys.executable).with_name("loopctl")
    done = subprocess.run([script, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("loopctl ")


def test_a_chat_takes_its_messages_from_a_pipe():
    with OpenAIServer([text("one"), text("two")]) as server:
        done = subprocess.run(
            [*COMMAND, "chat", "--base-url", server.url, "--model", "test"],
            input="hi\nand you?",
            capture_output=True,
            text=True,
            env=clean_environment(),
            timeout=40,
            check=False,
        )
        assert done.returncode == 0
        (greeting,) = done.stderr.splitlines()
        assert "openai:test" in greeting
        assert done.stdout.splitlines() == ["one", "two"]
        assert [len(body["messages"]) for body in server.bodies] == [1, 3]


def test_a_chat_from_a_file_tells_by_its_exit_code_how_the_last_message_went(tmp_path):
    (tmp_path / "messages").write_text("hi\n")
    with OpenAIServer(words(3, drop_at=2)) as server, (tmp_path / "messages").open() as messages:
        done = subprocess.run(
            [*COMMAND, "chat", "--base-url", server.url, "--model", "test"],
            stdin=messages,
            capture_output=True,
            text=True,
            env=clean_environment(),
            timeout=40,
            check=False,
        )
    assert done.returncode == 1
    assert "broke off" in done.stderr


def test_a_sigterm_ends_a_piped_chat_whose_answer_never_comes():
    with OpenAIServer(never()) as server:
        process = subprocess.Popen(
            [*COMMAND, "chat", "--base-url", server.url, "--model", "test"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=clean_environment(),
        )
        with process:
            process.stdin.write("hi\n")
            process.stdin.flush()
            server.wait_for(lambda server: server.open == 1, timeout=30)
            process.terminate()
            out, _ = process.communicate(timeout=20)
        assert process.returncode == 143
        assert "stopped by SIGTERM" in out


def read_until(stream, text):
    """Read lines until one has *text* in it; the test's own time limit bounds it."""
    watchdog = threading.Timer(30, stream.close)
    watchdog.start()
    try:
        for line in stream:
            if text in line:
                return
    finally:
        watchdog.cancel()
        watchdog.join()
    raise AssertionError(f"{text!r} did not come")
