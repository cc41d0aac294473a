"""`loopctl check`, as somebody would type it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time

import pytest

from tests.integration.cli.terminal import COMMAND, clean_environment

TOOLS = '''
import asyncio
from loopctl import ToolContext

async def save(path: str, text: str) -> None:
    """Save a text."""
    print("saving")
    with open(path, "w") as file:
        file.write(text)
        file.flush()
        await asyncio.sleep(0.01)
        file.write(text)

async def save_whole(path: str, text: str, ctx: ToolContext) -> None:
    """Save a text, whole or not at all."""
    with ctx.atomic_write(path) as file:
        await asyncio.sleep(0)
        file.write(text)

async def linger(marker: str) -> None:
    """Take a while, with a child."""
    child = await asyncio.create_subprocess_exec("sleep", marker)
    await asyncio.sleep(0.5)
    child.kill()
    await child.wait()
'''


@pytest.fixture
def check(tmp_path):
    (tmp_path / "mytools.py").write_text(TOOLS)

    def run(*words):
        done = subprocess.run(
            [*COMMAND, "check", *words],
            cwd=tmp_path,
            env=clean_environment(),
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
        )
        assert "Traceback" not in done.stderr
        return done

    return run


ARGUMENTS = json.dumps({"path": "a.txt", "text": "ab"})


def test_a_fault_is_told_with_its_line_and_its_mend_and_the_code_is_1(check):
    done = check("mytools:save", "--input", ARGUMENTS, "--mode", "cancel")
    assert done.returncode == 1
    what, where, mend, empty, summary = done.stdout.splitlines()
    assert what == "a.txt is half written: the first 2 of 4 bytes"
    assert where == "  stopped at mytools.py:11  await asyncio.sleep(0.01)"
    assert mend.startswith("  mend: write it whole or not at all: with ctx.atomic_write")
    assert empty == ""
    assert summary.startswith("save (mytools.py:5) is not safe to abandon: 1 fault; stopped at 1 point, in ")
    assert done.stderr == ""


def test_a_safe_tool_is_one_line_and_0(check):
    done = check("mytools:save_whole", "--input", ARGUMENTS)
    assert done.returncode == 0
    assert done.stdout.startswith("save_whole (mytools.py:14) is safe to abandon: stopped at 1 point and killed at ")


def test_a_build_can_read_it_as_json(check):
    done = check("mytools:save", "--input", ARGUMENTS, "--json", "--mode", "kill")
    assert done.returncode == 1
    report = json.loads(done.stdout)
    assert report["tool"] == "save"
    assert {finding["how"] for finding in report["findings"]} == {"killed"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["mytools:save"], "the input does not fit"),
        (["mytools:save", "--input", "{"], 'Write --input \'{"path": "…", "text": "…"}\''),
        (["mytools:save", "--input", "[]"], "is no JSON object"),
        (["mytools:save,mytools:linger"], "one at a time"),
        (["mytools:nothing"], "has no 'nothing'"),
        ([], "TOOL (what to check, as module:function)"),
        (["mytools:save", "--input", '{"path": "no/a.txt", "text": ""}'], "FileNotFoundError"),
    ],
)
def test_what_cannot_be_checked_is_one_line_and_2(check, words, said):
    done = check(*words)
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("loopctl: ")
    assert said in line


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_check_leaves_no_process_and_no_folder(check, tmp_path, number):
    (tmp_path / "tmp").mkdir()
    marker = f"{60 + os.getpid() / 1e6:.6f}"
    running = subprocess.Popen(
        [*COMMAND, "check", "mytools:linger", "--input", json.dumps({"marker": marker})],
        cwd=tmp_path,
        env=clean_environment() | {"TMPDIR": str(tmp_path / "tmp")},
        stdout=subprocess.DEVNULL,
    )
    assert _until(lambda: _processes(marker))
    running.send_signal(number)
    assert running.wait(10) == (130 if number == signal.SIGINT else -signal.SIGKILL)
    assert _until(lambda: not _processes(marker))
    assert _until(lambda: not list((tmp_path / "tmp").iterdir()))


def _until(is_so):
    until = time.monotonic() + 20
    while not is_so() and time.monotonic() < until:
        time.sleep(0.02)
    return is_so()


def _processes(marker):
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    return [line for line in listed.splitlines() if line.strip() == f"sleep {marker}"]
