"""`run` and the signal handlers, in processes of their own: bounded exit, exact restore, no tracebacks."""

from __future__ import annotations

import asyncio
import time

import pytest

from loopctl import UsageError, run
from tests.unit.concurrency.programs import program


def test_run_gives_the_result_and_refuses_a_running_loop() -> None:
    async def main() -> str:
        async def inner() -> None:
            pass

        with pytest.raises(UsageError, match="running event loop"):
            run(inner())
        return "value"

    assert run(main()) == "value"


def test_leftovers_that_refuse_do_not_hold_up_the_end() -> None:
    """The stubborn thirty seconds of task, generator and executor thread are not waited for."""
    done = program(
        """
        async def refuse():
            while True:
                try:
                    await asyncio.sleep(30)
                except asyncio.CancelledError:
                    pass

        async def generator():
            try:
                yield 1
            finally:
                await asyncio.sleep(30)

        async def main():
            tasks.append(asyncio.create_task(refuse()))
            kept.append(generator())
            await anext(kept[0])
            return 7

        tasks, kept = [], []
        started = time.monotonic()
        print(loopctl.run(main(), exit_grace=0.1), time.monotonic() - started < 10)
        """
    )
    assert done.stdout.split() == ["7", "True"]
    assert done.stderr == ""
    assert done.returncode == 0


def test_a_process_with_a_stubborn_tool_ends_when_main_returns() -> None:
    done = program(
        """
        for name in ("block", "refuse"):
            agent = Agent(ScriptedModel([call(name, {})]), [block, refuse], config=RunConfig(grace=0.1))
            sig = CancelSignal()
            threading.Timer(0.2, sig.cancel).start()
            try:
                agent.run_sync("go", signal=sig)
            except Cancelled as stopped:
                print(stopped.run.stop.stragglers[0].name, stopped.run.tool_calls[0].status.value)
        """
    )
    assert done.stdout.splitlines() == ["block abandoned", "refuse abandoned"]
    assert done.stderr == ""
    assert done.returncode == 0


@pytest.mark.parametrize("runner", ["asyncio.run", "loopctl.run"])
def test_a_program_with_a_loop_of_its_own_ends_when_main_returns_whatever_was_abandoned(runner: str) -> None:
    """Also under plain `asyncio.run`, which waits for every task that it knows: it does not know the stragglers."""
    done = program(
        f"""
        async def main():
            for tool in (block, refuse):
                agent = Agent(ScriptedModel([call(tool.__name__, {{}})]), [tool], config=RunConfig(grace=0.1))
                handle = agent.session().start("go")
                asyncio.get_running_loop().call_later(0.2, handle.cancel)
                print([straggler.name for straggler in (await handle).stragglers])

        started = time.monotonic()
        {runner}(main())
        print(time.monotonic() - started < 15)
        """
    )
    assert done.stdout.splitlines() == ["['block']", "['refuse']", "True"]
    assert done.stderr == ""
    assert done.returncode == 0


def test_ctrl_c_stops_run_sync_then_abandons_then_leaves() -> None:
    """Case L5: one press stops, the second abandons, the third leaves with KeyboardInterrupt; no traceback."""
    done = program(
        """
        agent = Agent(ScriptedModel([say("x"), stall()], "fine"))
        before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
        for number, origin in ((signal.SIGINT, "user"), (signal.SIGTERM, "shutdown")):
            agent = Agent(ScriptedModel([say("x"), stall()]))
            threading.Timer(0.2, os.kill, args=(os.getpid(), number)).start()
            try:
                agent.run_sync("go")
            except Cancelled as stopped:
                print(stopped.reason.origin == origin, stopped.run.partial_text)
            except SystemExit as ended:
                stopped = ended.__cause__
                print(stopped.reason.origin == origin and ended.code == 143, stopped.run.partial_text)
        print(before == (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)))

        agent = Agent(ScriptedModel([call("refuse", {})]), [refuse], config=RunConfig(grace=20))
        for delay in (0.3, 0.8):
            threading.Timer(delay, os.kill, args=(os.getpid(), signal.SIGINT)).start()
        started = time.monotonic()
        try:
            agent.run_sync("go")
        except Cancelled as stopped:
            print("abandoned", [each.name for each in stopped.run.stragglers], time.monotonic() - started < 10)

        async def block() -> str:
            "Block the loop."
            until = time.monotonic() + 15
            while time.monotonic() < until:
                time.sleep(0.01)

        agent = Agent(ScriptedModel([call("block", {})]), [block], config=RunConfig(grace=20))
        for delay in (0.3, 0.6, 0.9):
            threading.Timer(delay, os.kill, args=(os.getpid(), signal.SIGINT)).start()
        started = time.monotonic()
        try:
            agent.run_sync("go")
        except KeyboardInterrupt:
            print("interrupted", time.monotonic() - started < 10)
        """
    )
    assert done.stdout.splitlines() == [
        "True x", "True x", "True", "abandoned ['refuse'] True", "interrupted True",
    ]  # fmt: skip
    assert done.stderr == ""
    assert done.returncode == 0


def test_a_signal_handler_stops_a_loop_that_is_blocked_in_a_polling_tool() -> None:
    """Case L7: the signal is fired from a real handler, while the loop's thread is in Python code of a tool."""
    done = program(
        """
        async def busy(ctx: loopctl.ToolContext) -> str:
            "Block the loop, and poll."
            threading.Timer(0.2, os.kill, args=(os.getpid(), signal.SIGINT)).start()
            started = time.monotonic()
            while time.monotonic() - started < 20:
                if ctx.is_cancelled():
                    return "noticed"
                time.sleep(0.001)
            return "never noticed"

        agent = Agent(ScriptedModel([call("busy", {}), call("busy", {})]), [busy])
        try:
            agent.run_sync("go")
        except Cancelled as stopped:
            print([(record.status.value, record.result) for record in stopped.run.tool_calls])
        """
    )
    assert done.stdout.strip() == "[('completed', 'noticed'), ('not_started', None)]"
    assert done.stderr == ""


def test_a_stubborn_process_is_quiet_after_the_cancel() -> None:
    """Case H3: with a task that will not die, the process uses next to no processor time and takes few turns."""

    async def refuse() -> str:
        """Refuse."""
        while not gate.is_set():
            try:
                await gate.wait()
            except asyncio.CancelledError:
                continue
        return "late"

    gate = asyncio.Event()

    class CountingLoop(asyncio.SelectorEventLoop):
        turns = 0

        def _run_once(self) -> None:
            self.turns += 1
            super()._run_once()  # type: ignore[misc]

    async def main() -> tuple[float, int]:
        from loopctl import Agent, RunConfig
        from loopctl.testing import ScriptedModel, call

        session = Agent(ScriptedModel([call("refuse", {})]), [refuse], config=RunConfig(grace=0.05)).session()
        handle = session.start("go")
        await asyncio.sleep(0.05)
        handle.cancel()
        run = await handle
        assert [straggler.name for straggler in run.stragglers] == ["refuse"]
        loop = asyncio.get_running_loop()
        assert isinstance(loop, CountingLoop)
        before = time.process_time(), loop.turns
        await asyncio.sleep(1)
        used = time.process_time() - before[0], loop.turns - before[1]
        gate.set()
        await session.aclose()
        return used

    with asyncio.Runner(loop_factory=CountingLoop) as runner:
        seconds, turns = runner.run(main())
    assert seconds < 0.2
    assert turns < 20


def test_a_terminated_script_ends_after_its_run_has_ended() -> None:
    """SIGTERM is not swallowed by a script that catches Cancelled, unless it handles SIGTERM itself."""
    source = """
        agent = Agent(ScriptedModel([say("x"), stall()], [say("x"), stall()], "never"))
        heard = []
        signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
        threading.Timer(0.2, os.kill, args=(os.getpid(), signal.SIGTERM)).start()
        try:
            agent.run_sync("go")
        except Cancelled as stopped:
            print(stopped.reason.origin, heard == [signal.SIGTERM])
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        threading.Timer(0.2, os.kill, args=(os.getpid(), signal.SIGTERM)).start()
        try:
            agent.run_sync("go")
        except Cancelled:
            print("swallowed")
        finally:
            print("finally")
        print(agent.run_sync("go").output)
        """
    done = program(source)
    assert done.stdout.splitlines() == ["shutdown True", "finally"]
    assert done.stderr == ""
    assert done.returncode == 143
