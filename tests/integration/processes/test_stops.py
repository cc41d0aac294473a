"""A stop while a command runs: its whole session is gone when the run has ended, or what is left is listed."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from loopctl import (
    Agent,
    Cancelled,
    CancelSignal,
    Run,
    RunConfig,
    StragglerEnded,
    ToolContext,
    Urgency,
    UsageError,
    tool,
)
from loopctl.concurrency import Straggler
from loopctl.record import CallStatus, Checkpoint, Event
from loopctl.testing import ScriptedModel, call, say
from tests.integration.processes.alive import comes, is_alive, our_children, pids_in

LINES: list[str] = []
DEAF = "trap '' TERM; while :; do sleep 0.05; done"
"""A shell that ignores TERM, and whose sleeps do too: an ignored signal stays ignored."""


@tool
async def shell(line: str, ctx: ToolContext, timeout: float | None = None) -> str:
    """Run a line of shell."""
    told: Callable[[str, str], None] = lambda line, _: LINES.append(line)  # noqa: E731
    return (await ctx.run_process(["sh", "-c", line], timeout=timeout, on_output=told)).stdout


@pytest.fixture(autouse=True)
def _clear() -> None:
    LINES.clear()


def stopped(
    line: str,
    then: Callable[[Any], Coroutine[Any, Any, None]] | None = None,
    *,
    urgency: Urgency = Urgency.STOP,
    grace: float = 1.0,
    observers: tuple[Callable[[Event], None], ...] = (),
) -> Run:
    """Run *line* in a run, stop it when the line has said `ready`, and give the run."""

    async def main() -> Run:
        model = ScriptedModel([call("shell", {"line": line})], [say("done")])
        agent = Agent(model, [shell], config=RunConfig(grace=grace), observers=list(observers))
        session = agent.session()
        handle = session.start("go")
        await comes(lambda: "ready" in LINES)
        assert our_children(), "there is nothing to stop"
        handle.cancel("enough", urgency=urgency)
        run = await handle
        if then is not None:
            await then(session)
        return run

    return asyncio.run(main())


def test_the_whole_group_ends_with_the_run_and_is_reaped(tmp_path: Path) -> None:
    """Cases B17, G1, G8, G19: the cancel comes while output is read; a background writer is ended too."""
    pids, marker = tmp_path / "pids", tmp_path / "marker"
    writer = f"while :; do echo x >> {marker}; sleep 0.01; done"
    begun = f"while ! [ -s {marker} ]; do :; done; echo ready"
    run = stopped(f"({writer}) & echo $! > {pids}; echo $$ >> {pids}; {begun}; wait")
    assert [is_alive(pid) for pid in pids_in(pids)] == [False, False]
    size = marker.stat().st_size
    assert size
    time.sleep(0.1)
    assert marker.stat().st_size == size
    assert [(record.status, record.result) for record in run.tool_calls] == [(CallStatus.INTERRUPTED, None)]
    assert run.stop is not None
    assert (run.stop.checkpoint, run.stop.stragglers, run.stragglers) == (Checkpoint.TOOL_CALL, (), ())
    assert our_children() == []


def test_term_comes_at_once_so_that_a_command_can_tidy_up(tmp_path: Path) -> None:
    tidied = tmp_path / "tidied"
    run = stopped(f"trap 'echo yes > {tidied}; exit' TERM; echo ready; while :; do sleep 0.01; done", grace=1000)
    assert tidied.read_text() == "yes\n"
    assert run.outcome == "cancelled"


def test_what_ignores_term_is_killed_and_no_inherited_pipe_is_waited_for(tmp_path: Path) -> None:
    """Case G2: a descendant that traps TERM and holds the pipe does not hold up the end."""
    pids = tmp_path / "pids"
    run = stopped(f"({DEAF}) & echo $! > {pids}; echo $$ >> {pids}; echo ready; {DEAF}", grace=2)
    assert [is_alive(pid) for pid in pids_in(pids)] == [False, False]
    assert run.stragglers == ()
    assert run.tool_calls[0].status is CallStatus.INTERRUPTED


def test_a_pipe_that_is_full_holds_up_nothing(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    run = stopped(f"echo $$ > {pids}; echo ready; exec yes")
    assert [is_alive(pid) for pid in pids_in(pids)] == [False]
    assert run.stragglers == ()


def test_abandon_kills_at_once_whatever_the_grace(tmp_path: Path) -> None:
    pids = tmp_path / "pids"

    async def gone(session: Any) -> None:
        await comes(lambda: not is_alive(pids_in(pids)[0]))
        await session.aclose()

    run = stopped(f"echo $$ > {pids}; echo ready; {DEAF}", gone, urgency=Urgency.ABANDON, grace=1000)
    assert run.outcome == "cancelled"


def test_without_grace_it_is_killed_and_listed_until_it_is_gone(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    events: list[Event] = []

    async def gone(session: Any) -> None:
        await comes(lambda: all(straggler.is_ended for straggler in session.stragglers))

    run = stopped(f"echo $$ > {pids}; echo ready; {DEAF}", gone, grace=0, observers=(events.append,))
    assert [is_alive(pid) for pid in pids_in(pids)] == [False]
    assert [(record.kind, record.name) for record in run.stragglers] == [("process", "command of shell")]
    assert len([event for event in events if isinstance(event, StragglerEnded)]) == 1


def test_an_escaped_process_is_a_straggler_of_the_run_until_it_ends(tmp_path: Path) -> None:
    """Cases G4, G5: what left its session is listed with its id, not claimed dead, and its late end is told."""
    pids = tmp_path / "pids"
    events: list[Event] = []
    left: list[Straggler] = []

    async def check(session: Any) -> None:
        (pid,) = pids_in(pids)
        left.extend(session.stragglers)
        assert is_alive(pid)
        assert left[0].where == f"process {pid} (sleep)"
        os.kill(pid, signal.SIGKILL)
        await comes(lambda: left[0].is_ended)

    escape = f"setsid sh -c 'echo $$ > {pids}; exec sleep 1000'"
    run = stopped(f"{escape} & while ! [ -s {pids} ]; do :; done; echo ready; wait", check, observers=(events.append,))
    (record,) = run.stragglers
    assert (record.kind, record.name, record.call_id) == ("process", "command of shell", run.tool_calls[0].id)
    assert str(pids_in(pids)[0]) in record.where
    assert run.tool_calls[0].status is CallStatus.INTERRUPTED
    assert [type(event) for event in events if isinstance(event, StragglerEnded)] == [StragglerEnded]


def test_what_escaped_from_a_command_of_a_middleware_is_listed_too(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    escape = f"setsid sh -c 'echo $$ > {pids}; exec sleep 1000'"

    class Backup:
        async def tool_call(self, asked: Any, ctx: Any, call_next: Any) -> Any:
            await ctx.run_process(["sh", "-c", f"{escape} & wait"])
            return await call_next(asked)

    async def main() -> Run:
        model = ScriptedModel([call("shell", {"line": "true"})], [say("done")])
        session = Agent(model, [shell], middleware=[Backup()]).session()
        handle = session.start("go")
        await comes(lambda: pids.exists() and bool(pids_in(pids)))
        handle.cancel()
        run = await handle
        os.kill(pids_in(pids)[0], signal.SIGKILL)
        await comes(lambda: all(straggler.is_ended for straggler in session.stragglers))
        return run

    run = asyncio.run(main())
    assert [straggler.name for straggler in run.stragglers] == ["command of shell"]
    assert run.tool_calls[0].status is CallStatus.NOT_STARTED


def test_a_daemon_that_forked_twice_has_escaped_too(tmp_path: Path) -> None:
    """Case G5."""
    pids = tmp_path / "pids"
    twice = "import os; os.fork() and os._exit(0); os.setsid(); os.fork() and os._exit(0)"
    python = f"{twice}; open({str(pids)!r}, 'w').write(str(os.getpid())); import time; time.sleep(1000)"

    async def check(session: Any) -> None:
        assert str(pids_in(pids)[0]) in session.stragglers[0].where
        os.kill(pids_in(pids)[0], signal.SIGKILL)
        await comes(lambda: session.stragglers[0].is_ended)

    stopped(f'python3 -c "{python}"; while ! [ -s {pids} ]; do :; done; echo ready; sleep 1000', check)


def test_the_kill_does_not_wait_for_a_loop_that_is_blocked(tmp_path: Path) -> None:
    pids = tmp_path / "pids"

    async def main() -> None:
        stop = CancelSignal()
        context = ToolContext("call_1", "shell", stop.token)
        line = f"echo $$ > {pids}; echo ready; {DEAF}"
        work = asyncio.create_task(
            context.run_process(["sh", "-c", line], on_output=lambda line, _: LINES.append(line))
        )
        await comes(lambda: "ready" in LINES)
        stop.cancel()
        await asyncio.sleep(0)  # it is noticed, and from here on nothing is
        end = time.monotonic() + 20
        while is_alive(pids_in(pids)[0]):
            assert time.monotonic() < end
        work.cancel()
        await asyncio.wait([work])

    asyncio.run(main())


def test_a_timeout_ends_the_command_and_the_run_goes_on(tmp_path: Path) -> None:
    pids = tmp_path / "pids"

    async def main() -> Run:
        line = f"echo $$ > {pids}; exec sleep 1000"
        model = ScriptedModel([call("shell", {"line": line, "timeout": 0.2})], [say("done")])
        return await Agent(model, [shell]).session().run("go")

    run = asyncio.run(main())
    assert [is_alive(pid) for pid in pids_in(pids)] == [False]
    assert run.tool_calls[0].status is CallStatus.FAILED
    assert "did not end within 0.2 s" in (run.tool_calls[0].result or "")


def test_a_command_whose_warden_is_killed_is_killed_and_said_to_have_failed(tmp_path: Path) -> None:
    pids = tmp_path / "pids"

    async def main() -> Run:
        line = f"({DEAF}) & echo $! > {pids}; echo $$ >> {pids}; echo ready; {DEAF}"
        handle = Agent(ScriptedModel([call("shell", {"line": line})], [say("done")]), [shell]).session().start("go")
        await comes(lambda: "ready" in LINES)
        (warden,) = our_children()
        os.kill(int(warden), signal.SIGKILL)
        run = await handle
        await comes(lambda: not any(map(is_alive, pids_in(pids))))
        return run

    run = asyncio.run(main())
    assert run.tool_calls[0].status is CallStatus.FAILED
    assert "ended from outside" in (run.tool_calls[0].result or "")


def test_a_stop_before_it_has_begun_leaves_it_unbegun(tmp_path: Path) -> None:
    """The cancel is there before the warden is: it reads both at once."""
    made = tmp_path / "made"

    async def main() -> None:
        stop = CancelSignal()
        context = ToolContext("call_1", "shell", stop.token)
        asyncio.get_running_loop().call_soon(stop.cancel, "never mind")
        with pytest.raises(Cancelled, match="never mind") as caught:
            await context.run_process(["touch", str(made)])
        assert caught.value.__cause__ is None

    asyncio.run(main())
    assert not made.exists()


def test_a_stop_without_the_engine_ends_the_command_too(tmp_path: Path) -> None:
    """No task is cancelled here: the signal alone does it."""
    pids = tmp_path / "pids"

    async def main() -> None:
        stop = CancelSignal()
        context = ToolContext("call_1", "shell", stop.token)

        def told(line: str, stream: str) -> None:
            stop.cancel(line)

        with pytest.raises(Cancelled, match="ready"):
            await context.run_process(["sh", "-c", f"echo $$ > {pids}; echo ready; exec sleep 1000"], on_output=told)

    asyncio.run(main())
    assert [is_alive(pid) for pid in pids_in(pids)] == [False]


def test_a_call_that_has_ended_begins_no_command_any_more(tmp_path: Path) -> None:
    made = tmp_path / "made"
    kept: list[ToolContext] = []

    @tool
    async def keep(ctx: ToolContext) -> str:
        """Keep the context."""
        kept.append(ctx)
        return "kept"

    async def main() -> None:
        await Agent(ScriptedModel([call("keep")], [say("ok")]), tools=[keep]).session().run("go")
        with pytest.raises(UsageError, match="has ended"):
            await kept[0].run_process(["touch", str(made)])

    asyncio.run(main())
    assert not made.exists()
