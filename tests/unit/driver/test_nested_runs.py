"""A run inside a tool of another run: when the outer one is stopped the inner one ends first, and both say so."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from loopctl import (
    Agent,
    Cancelled,
    CancelReason,
    CancelSignal,
    Run,
    RunConfig,
    RunHandle,
    Session,
    ToolContext,
    race,
    tool,
)
from loopctl.middleware import Timeout
from loopctl.record import CallStatus
from loopctl.testing import Probe, ScriptedModel, call, cancel_everywhere, swallow_always, virtual_run

GRACE = 1.0


class Nest:
    """Runs in each other, the innermost with a tool that does not stop."""

    def __init__(self, depth: int, *, is_linked: bool, grace: float = GRACE, **options: Any) -> None:
        self.deaf: Probe = swallow_always()
        self.sessions: list[Session] = []
        work: Any = tool(self.deaf.function, name="work")
        for level in range(depth):
            config = RunConfig(grace=grace)
            given = options if level == depth - 1 else {}
            agent = Agent(ScriptedModel([call("work", {})], "done"), tools=[work], config=config, **given)
            self.sessions.insert(0, agent.session())
            work = self._tool_of(self.sessions[0], is_linked=is_linked)

    def _tool_of(self, session: Session, *, is_linked: bool) -> Any:
        @tool(name="work")
        async def work(ctx: ToolContext) -> str | None:
            """Ask another agent."""
            return (await session.run("go", signal=ctx.signal if is_linked else None)).output

        return work

    async def start(self) -> RunHandle:
        handle = self.sessions[0].start("go")
        await self.deaf.until_started()
        await asyncio.sleep(1)
        return handle

    async def end(self) -> list[Run]:
        self.deaf.release()
        await asyncio.sleep(100)
        return [session.runs[0] for session in self.sessions]


@pytest.mark.parametrize("is_linked", [False, True], ids=["by its task", "by the token too"])
@pytest.mark.parametrize("depth", [2, 3])
def test_the_inner_run_ends_before_the_grace_of_the_outer_one_is_over(depth: int, *, is_linked: bool) -> None:
    nest = Nest(depth, is_linked=is_linked)

    async def main() -> list[Run]:
        handle = await nest.start()
        began = asyncio.get_running_loop().time()
        handle.cancel("enough")
        await handle
        assert asyncio.get_running_loop().time() - began <= GRACE
        return await nest.end()

    *outer, innermost = virtual_run(main)
    assert [run.outcome for run in (*outer, innermost)] == ["cancelled"] * depth
    assert [run.tool_calls[0].status for run in outer] == [CallStatus.INTERRUPTED] * (depth - 1)
    assert [run.stragglers for run in outer] == [()] * (depth - 1)
    assert [straggler.name for straggler in innermost.stragglers] == ["work"]


def test_a_limit_of_the_outer_call_leaves_the_inner_run_time_to_end() -> None:
    nest = Nest(2, is_linked=False, middleware=[Timeout(3)])

    async def main() -> list[Run]:
        await nest.start()
        await asyncio.sleep(10)
        return await nest.end()

    outer, inner = virtual_run(main)
    assert (outer.outcome, inner.outcome) == ("completed", "cancelled")
    assert (outer.tool_calls[0].status, outer.stragglers) == (CallStatus.FAILED, ())
    assert len(inner.stragglers) == 1


def test_an_inner_run_that_is_stopped_alone_has_its_whole_grace() -> None:
    nest = Nest(2, is_linked=True)

    async def main() -> None:
        await nest.start()
        began = asyncio.get_running_loop().time()
        nest.sessions[1].signal.cancel(CancelReason("user"))
        while not nest.sessions[1].runs:
            await asyncio.sleep(0.01)
        assert asyncio.get_running_loop().time() - began == pytest.approx(GRACE, abs=0.02)
        await nest.end()

    virtual_run(main)


def test_what_a_tool_has_left_behind_is_bound_by_its_grace_no_more() -> None:
    cleaned: list[float] = []
    left: list[asyncio.Task[None]] = []

    async def tidy() -> None:
        try:
            await asyncio.sleep(1e6)
        finally:
            await asyncio.sleep(0.95 * GRACE)
            cleaned.append(asyncio.get_running_loop().time())

    async def later() -> None:
        await asyncio.sleep(50)
        signal = CancelSignal()
        asyncio.get_running_loop().call_later(1, signal.cancel)
        with pytest.raises(Cancelled):
            await race(tidy(), signal, grace=GRACE)

    async def leave() -> None:
        """Leave a task behind."""
        left.append(asyncio.create_task(later()))
        await asyncio.sleep(1e6)

    session = Agent(ScriptedModel([call("leave", {})]), tools=[leave]).session()

    async def main() -> None:
        handle = session.start("go")
        await asyncio.sleep(1)
        handle.cancel()
        await handle
        await left[0]

    virtual_run(main)
    assert cleaned == [pytest.approx(51.95)]


@pytest.mark.parametrize("is_linked", [False, True], ids=["by its task", "by the token too"])
def test_a_stop_at_every_step_of_a_run_inside_of_a_tool_ends_both_cleanly(*, is_linked: bool) -> None:
    inner_runs: list[Run] = []

    def scenario() -> Session:
        @tool
        async def work() -> str:
            """Work."""
            await asyncio.sleep(1)
            return "worked"

        inner = Agent(ScriptedModel([call("work", {})], "found", repeat=True), tools=[work]).session()

        @tool
        async def ask(ctx: ToolContext) -> str | None:
            """Ask another agent."""
            handle = inner.start("go", signal=ctx.signal if is_linked else None)
            try:
                return (await handle).output
            finally:
                assert handle.run is not None
                inner_runs.append(handle.run)

        return Agent(ScriptedModel([call("ask", {})], "done", repeat=True), tools=[ask]).session()

    cancel_everywhere(scenario, hands=["session"])
    assert {run.outcome for run in inner_runs} == {"completed", "cancelled"}
    assert not any(run.stragglers for run in inner_runs)
