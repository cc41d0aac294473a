"""Other processes: hung, killed, replaced, and several with runs of their own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import loopctl
from loopctl import CancelReason, control
from loopctl.control import Receipt

WHY = CancelReason("user", "enough", "alice")
PROGRAM = """
import asyncio, json
import loopctl
from loopctl import Agent, control
from loopctl.testing import ScriptedModel, say, stall

async def main():
    agent = Agent(ScriptedModel([say("Once"), stall()]))
    async with control.listen(agent, command="the program"):
        handle = agent.session().start("a")
        print(handle.id, flush=True)
        print(json.dumps((await handle).to_json()), flush=True)

loopctl.run(main())
"""


@contextmanager
def program():
    """A process with one run; give it, and the run's id."""
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


def test_the_runs_of_two_processes_are_told_apart(sockets):
    with program() as (one, mine), program() as (other, his):
        processes = loopctl.run(control.list_processes())
        assert {process.pid: [run.id for run in process.runs] for process in processes} == {
            one.pid: [mine],
            other.pid: [his],
        }
        receipt = loopctl.run(control.cancel(his, WHY))
        assert receipt == Receipt(his, "ended", "cancelled")
        assert receipt.stop.reason == WHY
        assert other.wait(20) == 0
        [process] = loopctl.run(control.list_processes())
        assert [run.id for run in process.runs] == [mine]


def test_what_a_killed_process_leaves_is_taken_away(sockets):
    with program() as (process, run_id):
        process.kill()
        process.wait()
        assert len(list(sockets.iterdir())) == 1
        assert loopctl.run(control.cancel(run_id)) == Receipt(run_id, "unknown")
        assert list(sockets.iterdir()) == []


def test_a_process_that_hangs_is_named_and_holds_nobody_up(sockets):
    with program() as (hung, hidden), program() as (_, run_id):
        os.kill(hung.pid, signal.SIGSTOP)
        before = time.monotonic()
        assert loopctl.run(control.cancel(run_id)).state == "ended"
        assert time.monotonic() - before < 2, "it waited for the other one"
        processes = loopctl.run(control.list_processes())
        [problem] = [process.problem for process in processes if process.pid == hung.pid]
        assert problem == "it has not answered for 2 s"
        assert loopctl.run(control.cancel(hidden)) == Receipt(hidden, "unknown", silent=(hung.pid,))
        os.kill(hung.pid, signal.SIGCONT)
        assert '"cancelled"' in hung.stdout.readline(), "it does what it was asked when it goes on"


def test_a_fork_that_keeps_a_dead_process_socket_open_is_not_taken_for_it(sockets):
    keeping = PROGRAM.replace(
        "print(handle.id", "import os, time\n        keep(os, time)\n        print(handle.id"
    ).replace(
        "import asyncio, json",
        "import asyncio, json, warnings\nwarnings.simplefilter('ignore')\n"
        "def keep(os, time):\n    if not os.fork():\n        time.sleep(30)\n        os._exit(0)\n",
    )
    with subprocess.Popen([sys.executable, "-c", keeping], stdout=-1, start_new_session=True) as process:
        process.stdout.readline()
        process.kill()
        process.wait()
        try:
            assert len(list(sockets.iterdir())) == 1
            assert loopctl.run(control.list_processes()) == []
            assert list(sockets.iterdir()) == []
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def test_whoever_is_asked_and_dies_before_the_end_has_cancelled_all_the_same(sockets):
    """The last word does not come, and the first one was true."""

    async def main(process, run_id):
        asking = asyncio.create_task(control.cancel(run_id, wait=30))
        await asyncio.sleep(0.5)
        process.kill()
        return await asking

    stubborn = PROGRAM.replace("stall()", "do(forever)").replace("say, stall", "do, say")
    stubborn = stubborn.replace(
        "async def main", "def forever():\n    import time\n    time.sleep(3600)\n\nasync def main"
    )
    with subprocess.Popen([sys.executable, "-c", stubborn], stdout=subprocess.PIPE, text=True) as process:
        run_id = process.stdout.readline().strip()
        time.sleep(0.3)
        assert loopctl.run(main(process, run_id)) == Receipt(run_id, "cancelling")


MANY = """
import asyncio, json, sys
import loopctl
from loopctl import Agent, control
from loopctl.testing import ScriptedModel, pause, say

async def main():
    agent = Agent(ScriptedModel([say("Once"), pause(0.004), say("!")], repeat=True))
    async with control.listen(agent):
        for _ in range(150):
            handle = agent.session().start("a")
            print(handle.id, flush=True)
            print(json.dumps((await handle).to_json()), flush=True)
            await asyncio.sleep(0.004)
        await asyncio.to_thread(sys.stdin.read)  # what has gone knows nothing

loopctl.run(main())
"""


def test_cancels_from_outside_that_race_with_the_end_equal_the_records(sockets):
    """A hundred and fifty runs of another process, each cancelled a little later than the one before."""

    async def ask(process):
        states = []
        for number in range(150):
            run_id = process.stdout.readline().strip()
            time.sleep(number % 30 * 0.0004)
            receipt = await control.cancel(run_id, WHY)
            record = json.loads(process.stdout.readline())
            assert receipt.outcome == record["outcome"]
            assert (receipt.state == "ended") == (record["outcome"] == "cancelled")
            if receipt.stop is not None:
                assert receipt.stop.to_json() == record["stop"]
                assert receipt.stop.reason == WHY
            states.append(receipt.state)
        return states

    with subprocess.Popen([sys.executable, "-c", MANY], stdin=-1, stdout=-1, text=True) as process:
        states = loopctl.run(ask(process))
        process.stdin.close()
    assert set(states) == {"ended", "already_ended"}, "nothing raced"
