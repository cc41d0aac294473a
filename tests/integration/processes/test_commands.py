"""`ctx.run_process`, with real commands: what comes back, what they inherit, what is kept of what they write."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from loopctl import Cancelled, CancelSignal, ToolContext, ToolError, UsageError
from loopctl.tools import ProcessResult
from tests.integration.processes.alive import comes, is_alive, our_children, pids_in, until


def run(*argv: str, signal: CancelSignal | None = None, **options: Any) -> ProcessResult:
    context = ToolContext("call_1", "shell", (signal or CancelSignal()).token)
    return asyncio.run(context.run_process(argv, **options))


def shell(line: str, **options: Any) -> ProcessResult:
    return run("sh", "-c", line, **options)


def test_what_it_wrote_and_how_it_ended_come_back() -> None:
    result = shell("echo out; echo err >&2; exit 3")
    assert (result.stdout, result.stderr, result.returncode) == ("out\n", "err\n", 3)
    assert result.argv == ("sh", "-c", "echo out; echo err >&2; exit 3")
    assert not result.is_truncated
    assert shell("kill -9 $$").returncode == -9


def test_it_reads_what_it_is_given_and_nothing_of_ours(tmp_path: Path) -> None:
    assert run("cat").stdout == ""
    assert run("cat", input="hällo").stdout == "hällo"
    big = "x" * 300_000
    assert run("cat", input=big).stdout == big
    assert run("true", input=big).returncode == 0
    assert run("pwd", cwd=tmp_path).stdout == f"{tmp_path}\n"
    assert run(sys.executable, "-c", "import os; print(os.environ['A'])", env={"A": "b"}).stdout == "b\n"
    assert run("env", env={"A": "b"}).stdout == "A=b\n"
    assert "PATH=" in run("env").stdout


@pytest.fixture
def _odd_process() -> Iterator[None]:
    """This process ignores a signal, blocks another, and has a descriptor that could be inherited."""
    before = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
    reading, writing = os.pipe()
    os.set_inheritable(reading, True)
    yield
    os.close(reading)
    os.close(writing)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR2])
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.usefixtures("_odd_process")
def test_it_inherits_no_descriptor_no_signal_and_no_session() -> None:
    assert set(run("ls", "/proc/self/fd").stdout.split()) == {"0", "1", "2", "3"}  # 3 is the folder that it lists
    status = dict(line.split(":\t") for line in run("cat", "/proc/self/status").stdout.splitlines() if ":\t" in line)
    # Signals 32 and 33 are the C library's own: whatever `make` starts ignores them, and nobody can take that back.
    assert (int(status["SigBlk"], 16), int(status["SigIgn"], 16) & ~(0b11 << 31)) == (0, 0)
    pid, group, session = run("sh", "-c", "exec cut -d' ' -f1,5,6 /proc/self/stat").stdout.split()
    assert pid == group == session


def test_the_middle_of_long_output_is_left_out_and_said_so() -> None:
    result = shell("printf 0123456789; printf abc >&2", output_limit=5)
    assert result.stdout == "012\n[… 5 bytes left out …]\n89"
    assert result.stderr == "abc"
    assert (result.omitted, result.is_truncated) == (5, True)
    assert shell("yes | head -c 3000000").omitted == 2_000_000


def test_each_line_is_told_as_it_comes() -> None:
    told: list[tuple[str, str]] = []
    line = r"printf 'a\303'; sleep 0.05; printf '\244\r\nb\rc\n\n'; sleep 0.05; echo d >&2; sleep 0.05; printf 'end'"
    result = shell(line, on_output=lambda line, stream: told.append((line, stream)))
    assert told == [
        ("aä", "stdout"),
        ("b", "stdout"),
        ("c", "stdout"),
        ("", "stdout"),
        ("d", "stderr"),
        ("end", "stdout"),
    ]
    assert result.stdout.endswith("end")


def test_a_line_without_an_end_is_told_in_pieces() -> None:
    told: list[str] = []
    shell("head -c 100000 /dev/zero | tr '\\0' x", on_output=lambda line, _: told.append(line))
    assert "".join(told) == "x" * 100_000
    assert len(told) > 1


def test_an_error_of_who_is_told_stops_the_command() -> None:
    def fail(line: str, stream: str) -> None:
        raise ZeroDivisionError(line)

    with pytest.raises(ZeroDivisionError, match="one"):
        shell("echo one; echo two; exec sleep 1000", on_output=fail)


def test_a_command_that_cannot_be_started_is_told_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no-such-program"):
        run("no-such-program")
    with pytest.raises(PermissionError):
        run(str(tmp_path))
    with pytest.raises(FileNotFoundError, match="no-folder"):
        run("true", cwd=tmp_path / "no-folder")


def test_a_failure_that_is_checked_says_what_it_wrote_last() -> None:
    assert shell("exit 0", check=True).returncode == 0
    with pytest.raises(ToolError, match=r"`sh -c echo why >&2; exit 4` ended with exit code 4: why$"):
        shell("echo why >&2; exit 4", check=True)
    with pytest.raises(ToolError, match=r"was killed by SIGSEGV$"):
        shell("kill -SEGV $$", check=True)


def test_a_timeout_stops_it_and_says_how_far_it_was() -> None:
    with pytest.raises(TimeoutError, match=r"did not end within 0\.3 s and was stopped: begun"):
        shell("echo begun; exec sleep 1000", timeout=0.3)


def test_what_cannot_be_run_is_refused_with_a_word_on_what_to_write() -> None:
    for argv, options, word in (
        ("ls -l", {}, "list of words"),
        ((), {}, "list of words"),
        (("a\0b",), {}, "zero"),
        ((1,), {}, "no text"),
        (("true",), {"shell": True}, "no option shell"),
        (("true",), {"env": {"A=B": "c"}}, "environment"),
        (("true",), {"output_limit": -1}, "output_limit"),
        (("true",), {"on_output": 1}, "on_output"),
        (("true",), {"timeout": -1}, "timeout"),
        (("true",), {"env": ["A=b"]}, "env is a mapping"),
        (("cat",), {"input": 5}, "input is a text or bytes"),
        (("cat",), {"input": "\ud800"}, "UTF-8"),
    ):
        with pytest.raises(UsageError, match=word):
            asyncio.run(ToolContext("c", "t", CancelSignal().token).run_process(argv, **options))  # type: ignore[arg-type]


def test_it_is_not_started_once_the_cancel_has_come(tmp_path: Path) -> None:
    stop = CancelSignal()
    stop.cancel("never mind")
    with pytest.raises(Cancelled, match="never mind"):
        run("touch", str(tmp_path / "made"), signal=stop)
    assert not (tmp_path / "made").exists()


def test_what_it_leaves_in_the_background_ends_with_it(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    result = shell(f"(trap '' TERM; echo ready >&2; while :; do sleep 0.1; done) & echo $! > {pids}; read x < {pids}")
    assert result.returncode == 0
    assert [is_alive(pid) for pid in pids_in(pids)] == [False]


def test_what_it_leaves_may_still_finish_writing() -> None:
    assert shell("(sleep 0.05; echo late) & echo early").stdout == "early\nlate\n"


def test_a_shell_with_job_control_leaves_nothing_either(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    result = run("bash", "-c", f"set -m; sleep 1000 & echo $! > {pids}")
    assert (result.returncode, result.escaped) == (0, ())
    assert [is_alive(pid) for pid in pids_in(pids)] == [False]


def test_an_escaped_process_is_told_of_and_its_hold_on_the_pipe_is_not_waited_for(tmp_path: Path) -> None:
    """Case G5: what has detached itself is reported as escaped, and not claimed killed."""
    pids = tmp_path / "pids"

    async def main() -> None:
        context = ToolContext("call_1", "shell", CancelSignal().token)
        line = f"setsid sh -c 'echo $$ > {pids}; exec sleep 1000' & while ! [ -s {pids} ]; do sleep 0.01; done; echo on"
        result = await context.run_process(["sh", "-c", line])
        (pid,) = pids_in(pids)
        assert (result.stdout, result.escaped) == ("on\n", (pid,))
        assert is_alive(pid)
        os.kill(pid, signal.SIGKILL)
        await comes(lambda: not is_alive(pid))

    asyncio.run(main())
    until(
        lambda: run("true") and not our_children()
    )  # the next command reaps the warden that the closed loop could not
