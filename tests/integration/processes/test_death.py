"""This process dies, by whatever death: nothing of what its tools have started stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.processes.alive import is_alive, pids_in, until

PROGRAM = """
import asyncio, sys, threading
from loopctl import Agent, ToolContext, tool
from loopctl.testing import ScriptedModel, call, say

@tool
async def shell(line: str, ctx: ToolContext) -> str:
    return (await ctx.run_process(["sh", "-c", line])).stdout

def run():
    agent = Agent(ScriptedModel([call("shell", {"line": sys.argv[1]})], [say("done")]), [shell])
    asyncio.run(agent.session().run("go"))

if sys.argv[2] == "thread":  # the death of a thread is not ours, and ours is not the death of a thread
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
else:
    run()
"""


def started(line: str, how: str = "main") -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", PROGRAM, line, how])


def family(pids: Path) -> str:
    """A shell with a child, a grandchild that ignores TERM and has lost its parent, and a daemon in its own session."""
    deaf = "trap '' TERM; while :; do sleep 0.05; done"
    grandchild = f"(({deaf}) & echo $! >> {pids})"
    escaped = f"setsid sh -c 'echo $$ >> {pids}; exec sleep 1000' &"
    return f"{grandchild}; {escaped} sleep 1000 & echo $! >> {pids}; echo $$ >> {pids}; wait"


def killed(process: subprocess.Popen[bytes]) -> None:
    process.kill()


def terminated(process: subprocess.Popen[bytes]) -> None:
    process.terminate()


@pytest.mark.parametrize("die", [killed, terminated])
@pytest.mark.parametrize("how", ["main", "thread"])
def test_nothing_stays_when_we_are_killed(tmp_path: Path, die: Callable[..., None], how: str) -> None:
    pids = tmp_path / "pids"
    with started(family(pids), how) as process:
        until(lambda: len(pids_in(pids)) == 4)
        assert all(map(is_alive, pids_in(pids))), "there is nothing to end"
        die(process)
        assert process.wait() < 0
    until(lambda: not any(map(is_alive, pids_in(pids))))


def test_a_fork_of_us_that_lives_on_does_not_keep_our_commands_alive(tmp_path: Path) -> None:
    """The fork holds a copy of the socket to the warden: its end is not told by the socket."""
    pids, forked = tmp_path / "pids", tmp_path / "forked"
    program = f"""
import asyncio, os, sys, time
from loopctl import CancelSignal, ToolContext

async def main():
    context = ToolContext("c", "t", CancelSignal().token)
    work = asyncio.ensure_future(context.run_process(["sh", "-c", sys.argv[1]]))
    while not os.path.exists({str(pids)!r}):
        await asyncio.sleep(0.01)
    pid = os.fork()
    if pid == 0:
        time.sleep(1000)
    open({str(forked)!r}, "w").write(str(pid))
    await work

asyncio.run(main())
"""
    with subprocess.Popen([sys.executable, "-c", program, family(pids)]) as process:
        until(lambda: len(pids_in(pids)) == 4 and pids_in(forked))
        process.kill()
    (fork,) = pids_in(forked)
    try:
        until(lambda: not any(map(is_alive, pids_in(pids))))
        assert is_alive(fork)
    finally:
        os.kill(fork, signal.SIGKILL)
