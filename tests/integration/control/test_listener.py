"""The socket of a process: what it says, whom it trusts, and that no client can hold anything."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time

import pytest

import loopctl
from loopctl import Agent, CancelReason, Checkpoint, UsageError, control
from loopctl.control import Receipt
from loopctl.testing import ScriptedModel, call, say, stall

WHY = CancelReason("user", "enough", "alice")


def stalled(count=1):
    return Agent(ScriptedModel(*[[say("Once"), stall()]] * count))


async def started(agent, session_id=None):
    """Start a run, and wait until its model has begun."""
    handle = agent.session(id=session_id).start("a")
    while handle.status.checkpoint is not Checkpoint.STREAM_EVENT:
        await asyncio.sleep(0.01)
    return handle


def connected(listener):
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(20)
    client.connect(str(listener.path))
    return client


def said(listener, *lines):
    """Say *lines* on a connection of its own, and give what is answered, to the end."""
    with connected(listener) as client:
        client.sendall(b"".join(lines))
        answer = b"".join(iter(lambda: client.recv(65536), b""))
    return [json.loads(line) for line in answer.splitlines()]


def test_runs_are_listed_and_cancelled_through_the_socket(sockets):
    async def main():
        agent, other = stalled(), stalled()
        async with control.listen(agent, command="the program") as listener:
            listener.add(other)
            mine, his = await started(agent), await started(other)
            [process] = await control.list_processes()
            assert (process.pid, process.command, process.problem) == (os.getpid(), "the program", "")
            assert [run.id for run in process.runs] == [mine.id, his.id]
            run = process.runs[0]
            assert (run.model, run.turn, run.state, run.pid) == ("scripted", 1, "running", os.getpid())
            assert run.checkpoint is Checkpoint.STREAM_EVENT
            receipt = await control.cancel(his.id, WHY)
            record = await his
            assert receipt == Receipt(his.id, "ended", "cancelled")
            assert receipt.stop == record.stop
            assert record.stop.reason == WHY
            assert await control.cancel(his.id) == Receipt(his.id, "already_ended", "cancelled")
            assert await control.cancel("run_0") == Receipt("run_0", "unknown")
            assert [run.id for run in await control.list_runs()] == [mine.id]
            mine.cancel()
            await mine
        assert list(sockets.iterdir()) == []
        assert await control.list_processes() == []

    asyncio.run(main())


def test_who_asked_is_filled_in(sockets):
    async def main():
        agent = stalled()
        with control.listen(agent):
            handle = await started(agent)
            await control.cancel(handle.id, "enough")
            reason = (await handle).stop.reason
            assert (reason.origin, reason.message) == ("user", "enough")
            assert f"(pid {os.getpid()}, " in reason.requested_by

    asyncio.run(main())


def test_a_blocked_loop_is_no_hindrance_the_signal_fires_and_the_place_is_told(sockets):
    """The socket has a thread of its own."""
    is_blocked, is_free = threading.Event(), threading.Event()
    found = []

    async def block() -> str:
        """Block the loop's own thread."""
        is_blocked.set()
        is_free.wait(20)
        return "done"

    agent = Agent(ScriptedModel(call("block", {}), "not asked"), [block])

    async def ask():
        is_blocked.wait(20)
        [run] = await control.list_runs()
        assert (run.checkpoint, run.tools) == (Checkpoint.TOOL_CALL, ("block",))
        receipt = await control.cancel(run.id, WHY, wait=0.3)
        [stopping] = await control.list_runs()
        found.extend([receipt, stopping])
        is_free.set()

    async def main():
        with control.listen(agent):
            thread = threading.Thread(target=lambda: loopctl.run(ask()))
            thread.start()
            run = await agent.session().start("a")
            await asyncio.to_thread(thread.join)
            assert run.outcome == "cancelled"
            receipt, stopping = found
            assert receipt == Receipt(run.id, "cancelling")
            assert __file__ in receipt.blocked_at
            assert (stopping.state, stopping.stopping) == ("stopping", WHY)
            assert __file__ in stopping.blocked_at

    asyncio.run(main())


def test_a_receipt_comes_at_once_and_the_end_when_it_is_there(sockets):
    """The first word tells that the process does not hang; the last one how it ended."""

    async def tidy() -> str:
        """Take a moment to end."""
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(0.3)

    async def main():
        agent = Agent(ScriptedModel(call("tidy", {})), [tidy])
        with control.listen(agent) as listener:
            handle = agent.session().start("a")
            while handle.status.tools != ("tidy",):
                await asyncio.sleep(0.01)
            line = {"v": 1, "do": "cancel", "run_id": handle.id, "reason": WHY.to_json()}
            first, last = await asyncio.to_thread(said, listener, json.dumps(line).encode(), b"\n")
            assert (first["receipt"]["state"], last["receipt"]["state"]) == ("cancelling", "ended")
            await handle

    asyncio.run(main())


def test_a_process_that_ends_with_its_run_tells_its_end_all_the_same(sockets):
    async def main():
        agent = stalled()
        listener = control.listen(agent)
        handle = await started(agent)
        handle.on_end(lambda _: listener.close())
        receipt = await control.cancel(handle.id, WHY)
        assert (receipt.state, receipt.outcome) == ("ended", "cancelled")
        await handle

    for _ in range(20):
        asyncio.run(main())


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"hello\n", "malformed"),
        (b"[]\n", "Expected `object`"),
        (b"\xff\xfe\n", "not understood"),
        (b'{"v":2,"do":"list"}\n', "version 2 is not spoken here, but 1"),
        (b'{"v":1,"do":"dance"}\n', "dance"),
        (b'{"v":1,"do":"cancel"}\n', "run_id"),
        (b'{"v":1,"do":"cancel","run_id":"run_0","reason":{"origin":"magic"}}\n', "magic"),
        (b'{"v":1,"do":"cancel","run_id":"run_0","reason":{},"wait":-1}\n', "wait"),
        (b'{"v":1,"do":"cancel","run_id":"run_0","reason":{},"urgency":7}\n', "urgency"),
    ],
)
def test_what_is_no_question_is_answered_in_words(sockets, line, why):
    with control.listen(stalled()) as listener:
        [answer] = said(listener, line)
        assert why in answer["error"]
        assert said(listener, b'{"v":1,"do":"list"}\n')[0]["runs"] == []


def test_clients_that_say_nothing_flood_or_read_nothing_hold_nobody_up(sockets):
    agent = stalled()

    async def main():
        with control.listen(agent) as listener:
            handle = await started(agent)
            silent = [connected(listener) for _ in range(200)]
            flooding, deaf = connected(listener), connected(listener)
            flooding.settimeout(2)
            with pytest.raises(OSError):  # it is cut off
                while True:
                    flooding.sendall(b"x" * 65536)
            deaf.sendall(b'{"v":1,"do":"list"}\n' * 1000)
            before = time.monotonic()
            assert [run.id for run in await control.list_runs()] == [handle.id]
            assert (await control.cancel(handle.id, WHY)).state == "ended"
            assert time.monotonic() - before < 4
            await handle
            for client in (*silent, flooding, deaf):
                client.close()

    asyncio.run(main())


def test_those_who_do_not_read_their_answers_make_room(sockets):
    agent = Agent(ScriptedModel(*[[say("Once"), stall()]] * 500))

    async def main():
        with control.listen(agent) as listener:
            # Their statuses fill more than the system holds for who does not read.
            await asyncio.gather(*(started(agent, f"{number} {'x' * 3000}") for number in range(500)))
            deaf = [connected(listener) for _ in range(70)]
            for client in deaf:
                with contextlib.suppress(BrokenPipeError):  # it has made room already
                    client.sendall(b'{"v":1,"do":"list"}\n')
            assert len(await control.list_runs()) == 500
            assert listener._open <= 64
            for client in deaf:
                client.close()
            receipts = await asyncio.gather(*(control.cancel(handle.id) for handle in agent.active[:20]))
            assert {receipt.state for receipt in receipts} == {"ended"}
            for handle in agent.active:
                handle.cancel()
            while agent.active:
                await asyncio.sleep(0.01)

    asyncio.run(main())


def test_a_thousand_questions_leave_nothing(sockets):
    def held():
        return len(os.listdir("/proc/self/fd")), threading.active_count(), len(asyncio.all_tasks())

    async def main():
        agent = stalled()
        with control.listen(agent) as listener:
            await control.list_runs()
            before = held()
            for _ in range(20):
                await asyncio.gather(*(control.list_runs() for _ in range(25)))
                for client in [connected(listener) for _ in range(25)]:
                    client.close()
            while any(now > then for now, then in zip(held(), before, strict=True)):
                await asyncio.sleep(0.01)
        assert agent.observers == ()

    asyncio.run(main())


def test_a_folder_that_others_can_enter_or_own_is_refused(sockets, tmp_path):
    agent = stalled()
    sockets.mkdir(mode=0o755)
    with pytest.raises(UsageError, match="mode 755, it must be 700"):
        control.listen(agent)
    with pytest.raises(UsageError, match="mode 755"):
        loopctl.run(control.list_runs())
    sockets.rmdir()
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    sockets.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="cannot hold the sockets"):
        control.listen(agent)
    sockets.unlink()
    sockets.write_text("a file")
    with pytest.raises(UsageError, match="cannot hold the sockets"):
        control.listen(agent)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can play another user")
def test_another_users_folder_is_refused_and_another_user_is_not_answered(sockets, tmp_path):
    sockets.mkdir(mode=0o700)
    os.chown(sockets, 12345, 12345)
    with pytest.raises(UsageError, match="of the user 12345"):
        control.listen(stalled())
    os.chown(sockets, 0, 0)
    with control.listen(stalled()) as listener:
        os.chmod(sockets, 0o777)  # as if it had been opened to others after it was looked at
        os.chmod(listener.path, 0o666)
        answers = {}
        for user in (0, 12345):
            with subprocess.Popen([sys.executable, "-c", OTHER, str(user)], stdin=-1, stdout=-1, cwd=sockets) as asking:
                answers[user], _ = asking.communicate(listener.path.name.encode(), timeout=30)
        assert answers == {0: b"answered", 12345: b"nothing"}


OTHER = """
import os, socket, sys
name = sys.stdin.read()
os.setuid(int(sys.argv[1]))
with socket.socket(socket.AF_UNIX) as client:
    client.connect(name)
    try:
        client.sendall(b'{"v":1,"do":"list"}\\n')
        print("answered" if client.recv(100) else "nothing", end="")
    except OSError:
        print("nothing", end="")
"""


def test_a_fork_leaves_the_socket_to_its_parent(sockets):
    done = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, timeout=30, check=False)
    assert (done.stdout, done.stderr) == ("True 1 False\n", "")


FORK = """
import os, warnings
warnings.simplefilter("ignore")  # of a fork in a process with threads
import loopctl
from loopctl import Agent, control
from loopctl.testing import ScriptedModel
listener = control.listen(Agent(ScriptedModel("fine")))
child = os.fork()
if not child:
    listener.close()
    os._exit(0)
os.waitpid(child, 0)
print(listener.path.exists(), len(loopctl.run(control.list_processes())), end=" ")
listener.close()
print(listener.path.exists())
"""


def test_closing_again_changes_nothing_and_a_program_that_does_not_close_ends_all_the_same(sockets):
    with control.listen(stalled()) as listener:
        listener.close()
        assert not listener.path.exists()
    program = """
from loopctl import Agent, control
from loopctl.testing import ScriptedModel
control.listen(Agent(ScriptedModel("fine")))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=30, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert len(list(sockets.iterdir())) == 1
    assert loopctl.run(control.list_processes()) == []
    assert list(sockets.iterdir()) == []


def test_cancels_through_the_socket_that_race_with_the_end_equal_the_records(sockets):
    agent = Agent(ScriptedModel("fine", repeat=True))

    async def main():
        session = agent.session()
        receipts = {}

        async def cancel(run_id, turns):
            for _ in range(turns):
                await asyncio.sleep(0)
            receipts[run_id] = await control.cancel(run_id, WHY)

        with control.listen(agent):
            for number in range(150):
                handle = session.start("a")
                cancelling = asyncio.create_task(cancel(handle.id, number % 50))
                for _ in range(number % 30):
                    await asyncio.sleep(0.0003)
                await handle
                await cancelling
        for run in session.runs:
            receipt = receipts[run.id]
            assert receipt.outcome == run.outcome
            assert (receipt.state == "ended") == (run.outcome == "cancelled")
            assert receipt.state in {"ended", "already_ended"}
        return {receipt.state for receipt in receipts.values()}

    assert "already_ended" in asyncio.run(main())
