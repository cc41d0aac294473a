"""A stop while a worker works: it may unwind, else it is killed; the run never waits longer than the grace for it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from loopctl import Agent, Run, RunConfig, Urgency
from loopctl.middleware import Timeout
from loopctl.record import CallStatus
from loopctl.testing import ScriptedModel, call, say
from loopctl.tools import _isolation
from tests.integration.processes.alive import comes, is_alive, our_children, pids_in, until
from tests.integration.processes.isolated import poll, spin_in_c, tidy, unwind


def stopped(used: Any, path: Path, *, grace: float = 30.0, urgency: Urgency = Urgency.STOP) -> Run:
    """Call the tool, stop the run when the tool has written its process id into *path*, and give the run."""

    async def main() -> Run:
        model = ScriptedModel([call(used.name, {"path": str(path)})], [say("done")])
        session = Agent(model, [used], config=RunConfig(grace=grace)).session()
        handle = session.start("go")
        await comes(lambda: pids_in(path))
        assert is_alive(pids_in(path)[0])
        handle.cancel("enough", urgency=urgency)
        run = await handle
        await comes(lambda: not our_children())
        return run

    run = asyncio.run(main())
    assert not is_alive(pids_in(path)[0])
    assert run.outcome == "cancelled"
    return run


def test_c_code_that_keeps_the_interpreter_lock_is_killed(tmp_path: Path) -> None:
    run = stopped(spin_in_c, tmp_path / "pid", grace=2)
    assert (run.tool_calls[0].status, run.stragglers) == (CallStatus.INTERRUPTED, ())


def test_abandon_kills_it_at_once_and_waits_a_moment_for_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_isolation, "_DYING", 20.0)  # the machine may be busy
    run = stopped(spin_in_c, tmp_path / "pid", grace=1000, urgency=Urgency.ABANDON)
    assert (run.tool_calls[0].status, run.stragglers) == (CallStatus.INTERRUPTED, ())


def test_without_that_moment_it_is_listed_until_it_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_isolation, "_DYING", 0.0)
    run = stopped(spin_in_c, tmp_path / "pid", grace=0)
    assert run.tool_calls[0].status is (CallStatus.ABANDONED if run.stragglers else CallStatus.INTERRUPTED)
    assert [straggler.kind for straggler in run.stragglers] in ([], ["process"])


def test_a_plain_function_runs_its_finally(tmp_path: Path) -> None:
    run = stopped(tidy, tmp_path / "pid")
    assert (tmp_path / "pid.tidied").read_text() == "yes"
    assert (run.tool_calls[0].status, run.tool_calls[0].result) == (CallStatus.INTERRUPTED, None)


def test_a_plain_function_that_takes_the_context_can_poll_and_its_result_is_kept(tmp_path: Path) -> None:
    run = stopped(poll, tmp_path / "pid")
    assert (run.tool_calls[0].status, run.tool_calls[0].result) == (CallStatus.COMPLETED, "stopped: user: enough")


def test_an_async_function_unwinds_and_knows_the_reason(tmp_path: Path) -> None:
    run = stopped(unwind, tmp_path / "pid")
    assert (tmp_path / "pid.tidied").read_text() == "user: enough"
    assert run.tool_calls[0].status is CallStatus.INTERRUPTED


def test_a_stop_while_the_process_is_being_made_is_no_failure(tmp_path: Path) -> None:
    async def main() -> Run:
        model = ScriptedModel([call("poll", {"path": str(tmp_path / "pid")})], [say("done")])
        handle = Agent(model, [poll]).session().start("go")
        await comes(our_children)
        handle.cancel("never mind")
        return await handle

    run = asyncio.run(main())
    assert run.tool_calls[0].status in (CallStatus.NOT_STARTED, CallStatus.INTERRUPTED, CallStatus.ABANDONED)
    assert run.tool_calls[0].result is None


def test_a_time_limit_ends_it_and_the_run_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "pid"

    async def main() -> Run:
        model = ScriptedModel([call("unwind", {"path": str(path)})], [say("done")])
        agent = Agent(model, [unwind], middleware=[Timeout(1)], config=RunConfig(grace=30))
        handle = agent.session().start("go")
        await comes(our_children)
        return await handle

    run = asyncio.run(main())
    assert run.tool_calls[0].status is CallStatus.FAILED
    assert run.outcome == "completed"
    assert not any(map(is_alive, pids_in(path)))


SCRIPT = """
import asyncio, os, subprocess, sys, time
from loopctl import Agent, tool
from loopctl.testing import ScriptedModel, call, say

class Word(str):
    pass

@tool(isolation="process")
def work(path: str) -> str:
    '''Leave a family of processes behind.'''
    deaf = "trap '' TERM; while :; do sleep 0.05; done"
    subprocess.Popen(["sh", "-c", f"(({deaf}) & echo $! >> {path}); setsid sleep 1000 & echo $! >> {path}; wait"])
    with open(path, "a") as file:
        print(os.getpid(), file=file)
    if path.endswith("wait"):
        time.sleep(1000)
    return Word("from " + __name__)

def main():
    model = ScriptedModel([call("work", {"path": sys.argv[1]})], [say("done")])
    run = asyncio.run(Agent(model, [work]).session().run("go"))
    print(run.tool_calls[0].result)

"""


def script(tmp_path: Path, end: str) -> Path:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT + end)
    return path


def test_it_works_in_a_script(tmp_path: Path) -> None:
    program = script(tmp_path, "if __name__ == '__main__':\n    main()\n")
    done = subprocess.run([sys.executable, program, tmp_path / "pids"], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("from __mp_main__\n", "")
    until(lambda: not any(map(is_alive, pids_in(tmp_path / "pids"))))


def test_a_script_without_a_guard_is_not_run_a_second_time(tmp_path: Path) -> None:
    program = script(tmp_path, "main()\n")
    done = subprocess.run([sys.executable, program, tmp_path / "pids"], capture_output=True, text=True, check=True)
    assert "Put what it does under `if __name__ == '__main__':`" in done.stdout
    assert pids_in(tmp_path / "pids") == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_when_we_die_the_worker_dies_and_all_that_it_started(tmp_path: Path, number: int) -> None:
    program = script(tmp_path, "if __name__ == '__main__':\n    main()\n")
    pids = tmp_path / "wait"
    with subprocess.Popen([sys.executable, program, pids]) as process:
        until(lambda: len(pids_in(pids)) == 3)
        assert all(map(is_alive, pids_in(pids))), "there is nothing to end"
        os.kill(process.pid, number)
    until(lambda: not any(map(is_alive, pids_in(pids))))
