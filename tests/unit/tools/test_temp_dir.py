"""A folder of the call: there while the work goes on, gone when it has ended, however it ended."""

import asyncio
import gc
import tempfile
import threading
from pathlib import Path

import pytest

from loopctl import Agent, CancelSignal, RunConfig, Tool, ToolContext, Urgency
from loopctl.record import CallStatus
from loopctl.recovery import retry_transient
from loopctl.testing import ScriptedModel, call, virtual_run
from loopctl.tools import TEMPORARY_PREFIX


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    """The folder in which temporary folders are made."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def run(tool, **more):
    agent = Agent(ScriptedModel([call(tool.__name__, {})], "Done."), tools=[Tool(tool)], **more)
    return virtual_run(agent.session().run("go"))


def left(temporary):
    return list(temporary.iterdir())


def test_an_async_tool_has_one_folder_which_is_gone_when_it_has_ended(temporary):
    async def work(ctx: ToolContext) -> str:
        """Work."""
        (ctx.temp_dir / "deep").mkdir()
        (ctx.temp_dir / "deep" / "part").write_text("x")
        assert left(temporary) == [ctx.temp_dir]
        assert ctx.temp_dir.stat().st_mode & 0o777 == 0o700
        return str(ctx.temp_dir)

    ended = run(work)
    assert ended.tool_calls[0].status is CallStatus.COMPLETED
    assert ended.tool_calls[0].result.startswith(f"{temporary}/{TEMPORARY_PREFIX}")
    assert left(temporary) == []


@pytest.mark.parametrize("error", [None, ValueError("no")])
def test_a_plain_tool_has_one_too_also_if_it_fails(temporary, error):
    def work(ctx: ToolContext) -> str:
        """Work."""
        (ctx.temp_dir / "part").write_text("x")
        if error is not None:
            raise error
        return "done"

    assert run(work).tool_calls[0].status is (CallStatus.COMPLETED if error is None else CallStatus.FAILED)
    assert left(temporary) == []


def test_nothing_is_made_for_a_tool_that_does_not_ask(temporary):
    seen = []

    async def work(ctx: ToolContext) -> str:
        """Work."""
        seen.extend(left(temporary))
        return "done"

    run(work)
    assert seen == []


def test_it_is_gone_when_a_stopped_run_has_ended(temporary):
    begun = asyncio.Event()

    async def work(ctx: ToolContext) -> str:
        """Work."""
        (ctx.temp_dir / "part").write_text("x")
        begun.set()
        await asyncio.sleep(3600)
        return "done"

    async def main():
        handle = Agent(ScriptedModel([call("work", {})]), tools=[Tool(work)]).session().start("go")
        await begun.wait()
        assert left(temporary) != []
        handle.cancel()
        run = await handle
        assert run.tool_calls[0].status is CallStatus.INTERRUPTED
        assert left(temporary) == []

    virtual_run(main)


def test_an_abandoned_call_keeps_it_until_it_has_really_ended(temporary):
    begun, go_on = threading.Event(), threading.Event()

    def work(ctx: ToolContext) -> str:
        """Work."""
        folder = ctx.temp_dir
        begun.set()
        go_on.wait()
        return str(folder.is_dir())

    async def main():
        config = RunConfig(grace=60)
        session = Agent(ScriptedModel([call("work", {})]), tools=[Tool(work)], config=config).session()
        handle = session.start("go")
        while not begun.is_set():
            await asyncio.sleep(0.001)
        handle.cancel(urgency=Urgency.ABANDON)
        assert (await handle).tool_calls[0].status is CallStatus.ABANDONED
        assert len(left(temporary)) == 1
        go_on.set()
        await session.aclose()
        return session.stragglers[0].result

    assert asyncio.run(main()) == "True"
    assert left(temporary) == []


def test_each_attempt_has_its_own(temporary):
    seen = []

    async def work(ctx: ToolContext) -> str:
        """Work."""
        seen.append(ctx.temp_dir)
        assert list(ctx.temp_dir.iterdir()) == []
        (ctx.temp_dir / "part").write_text("x")
        if len(seen) == 1:
            raise ConnectionError("reset")
        return "done"

    ended = run(work, recovery=retry_transient(tools={"work"}))
    assert ended.tool_calls[0].attempts == 2
    assert seen[0] != seen[1]
    assert left(temporary) == []


def test_that_of_a_middleware_goes_when_the_layers_have_ended(temporary):
    kept = []

    class Around:
        async def tool_call(self, call, ctx, call_next):
            kept.append(ctx)
            (ctx.temp_dir / "part").write_text("x")
            outcome = await call_next(call)
            assert [path.name for path in ctx.temp_dir.iterdir()] == ["part"]
            return outcome

    async def work(ctx: ToolContext) -> str:
        """Work."""
        return str(ctx.temp_dir)

    ended = run(work, middleware=[Around()])
    assert ended.tool_calls[0].result not in ("", str(kept[0]))
    assert left(temporary) == []


def test_what_the_dead_left_is_swept_and_what_the_living_use_is_not(temporary):
    (temporary / f"{TEMPORARY_PREFIX}dead").mkdir()
    (temporary / f"{TEMPORARY_PREFIX}dead" / "part").write_text("x")
    (temporary / "mine").mkdir()
    other = ToolContext("c2", "work", CancelSignal().token)
    theirs = other.temp_dir

    async def work(ctx: ToolContext) -> str:
        """Work."""
        return str(ctx.temp_dir)

    run(work)
    assert sorted(left(temporary)) == sorted([theirs, temporary / "mine"])


def test_the_folder_of_a_context_that_a_test_made_goes_with_the_context(temporary):
    ctx = ToolContext("c1", "work", CancelSignal().token)
    folder = ctx.temp_dir
    assert folder == ctx.temp_dir
    assert isinstance(folder, Path)
    del ctx
    gc.collect()
    assert left(temporary) == []
