"""A store that is locked, lost or broken: what waits for it is stopped at once, and the outcome of a run stays."""

import asyncio
import contextlib
import os
import sqlite3
import threading
import time

import pytest

from loopctl import Agent, Cancelled, Checkpoint, ModelError, RunConfig, StoreError, Urgency
from loopctl.store import Store
from loopctl.testing import ScriptedModel, call, fail, say, stall, virtual_run
from loopctl.tools import tool


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store.db"


@contextlib.contextmanager
def locked(path):
    """Be another program that writes to the store, and does not come to an end."""
    connection = sqlite3.connect(path, isolation_level=None, timeout=5)
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield connection
    finally:
        connection.close()


@contextlib.contextmanager
def lost(path):
    """Have something else in the place of the store."""
    aside = path.with_suffix(".aside")
    os.replace(path, aside)
    path.mkdir()
    try:
        yield
    finally:
        path.rmdir()
        os.replace(aside, path)


def session_of(path, *replies, tools=(), **config):
    return Agent(ScriptedModel(*replies), tools, config=RunConfig(**config)).session(store=path, id="a")


async def stopped_in_a_moment(handle, **how):
    """Stop a run that waits for the store, as a user does who looks at it for a while."""
    await asyncio.sleep(0.1)
    assert handle.cancel("enough", **how)
    run = await asyncio.wait_for(asyncio.shield(handle), 3)
    assert run.outcome == "cancelled"
    return run


@pytest.mark.parametrize("urgency", [Urgency.STOP, Urgency.ABANDON])
def test_a_stop_while_another_has_the_store_locked_ends_the_run_at_once(path, urgency):
    virtual_run(session_of(path, "Yes.").run("one"))

    async def main():
        session = session_of(path, "Never.", grace=10_000)
        with locked(path):
            run = await stopped_in_a_moment(session.start("go"), urgency=urgency)
            assert (run.stop.checkpoint, run.turns) == (Checkpoint.SETUP, ())
        await session.aclose()
        again = session_of(path, "Now.")
        await again.run("go on")  # nothing of the first one holds it
        await again.aclose()

    asyncio.run(main())
    assert [message.text for message in Store(path).session("a").messages] == ["one", "Yes.", "go on", "Now."]


def test_a_stop_while_the_next_run_waits_to_begin_ends_it_at_once(path):
    async def main():
        session = session_of(path, "Yes.", "Never.", grace=10_000)
        await session.run("one")
        with locked(path):
            run = await stopped_in_a_moment(session.start("go"))
            assert (run.stop.checkpoint, run.turns) == (Checkpoint.SETUP, ())
        await session.run("and now")
        await session.aclose()

    before = time.monotonic()
    asyncio.run(main())
    assert time.monotonic() - before < 20
    assert [run.outcome for run in Store(path).runs()] == ["completed", "cancelled", "completed"]


class Before:
    """Middleware that does something just before a tool would be touched."""

    def __init__(self, do):
        self._do = do

    async def tool_call(self, call, ctx, call_next):
        await self._do()
        return await call_next(call)


def toucher():
    touched = []

    @tool
    async def touch() -> str:
        """Touch."""
        touched.append(1)
        return "touched"

    return touch, touched


def test_a_tool_is_not_touched_if_the_stop_comes_while_its_beginning_is_written(path):
    touch, touched = toucher()

    async def main():
        async def lock():
            places.enter_context(locked(path))
            asyncio.get_running_loop().call_later(0.1, handle.cancel, "enough")
            asyncio.get_running_loop().call_later(0.3, places.close)

        model = ScriptedModel([call("touch", {})])
        session = Agent(model, [touch], middleware=[Before(lock)]).session(store=path, id="a")
        with contextlib.ExitStack() as places:
            handle = session.start("go")
            run = await handle
        await session.aclose()
        return run

    run = asyncio.run(main())
    assert (run.outcome, run.stop.checkpoint, touched) == ("cancelled", Checkpoint.TOOL_CALL, [])
    [stored] = Store(path).runs()
    assert [one.status for one in stored.calls] == ["not_started"]


def test_who_waits_behind_another_session_of_the_file_is_stopped_at_once_too(path):
    virtual_run(session_of(path, "Yes.").run("one"))

    async def main():
        agent = Agent(ScriptedModel("Never.", "Never."), config=RunConfig(grace=10_000))
        first, second = (agent.session(store=path, id=name) for name in ("b", "c"))
        with locked(path):
            waiting = first.start("go")
            run = await stopped_in_a_moment(second.start("go"))
            assert run.stop.checkpoint is Checkpoint.SETUP
            await stopped_in_a_moment(waiting)
        for session in (first, second):
            await session.aclose()

    asyncio.run(main())


def test_a_run_and_a_call_that_wait_behind_another_session_are_stopped_at_once_too(path):
    touch, touched = toucher()
    raised = []

    async def main():
        async def fall_behind():
            later = asyncio.get_running_loop().call_later
            places.enter_context(locked(path))
            waiting.append(first.start("go"))
            await asyncio.sleep(0.1)  # it has the store's thread
            run = await stopped_in_a_moment(second.start("go"))
            assert run.stop.checkpoint is Checkpoint.SETUP
            later(0.1, handle.cancel, "enough")
            later(0.3, lambda: raised.append(handle.cancel(urgency=Urgency.ABANDON)))
            later(0.4, places.close)

        model = ScriptedModel("Yes.", "Yes.", "Yes.", [call("touch", {})], "At last.")
        agent = Agent(model, [touch], middleware=[Before(fall_behind)], config=RunConfig(grace=10_000))
        first, second, third = sessions = [agent.session(store=path, id=name) for name in "abc"]
        for session in sessions:
            await session.run("one")
        waiting = []
        with contextlib.ExitStack() as places:
            handle = third.start("touch")
            assert (await handle).stop.checkpoint is Checkpoint.TOOL_CALL
            await waiting[0]
        for session in sessions:
            await session.aclose()

    asyncio.run(main())
    assert touched == []
    assert raised == [False]  # what the run came to was decided by then


def test_the_task_that_opens_a_session_can_be_cancelled(path):
    virtual_run(session_of(path, "Yes.").run("one"))

    async def main():
        session = session_of(path, "Now.")
        with locked(path):
            opening = asyncio.ensure_future(session.open())
            await asyncio.sleep(0.1)
            opening.cancel()
            with pytest.raises(asyncio.CancelledError):
                await opening
        await session.run("go on")
        await session.aclose()

    asyncio.run(main())


def test_a_record_that_cannot_be_stored_leaves_the_outcome_and_is_told(path):
    @tool
    async def lose() -> str:
        """Put something in the place of the store."""
        places.enter_context(lost(path))
        return "lost"

    places = contextlib.ExitStack()

    async def main():
        session = session_of(path, [call("lose", {})], "Done.", tools=[lose])
        with places:
            handle = session.start("go")
            run = await handle
            assert (run.outcome, run.output, run.error) == ("completed", "Done.", None)
            assert run.to_json()["store_error"]["type"] == "StoreError"
            assert session.runs == (run,)
            assert session.history[-1].text == "Done."
            for _ in range(2):
                words = rf"{run.id} ended \(completed\), and is not stored: .*{path}"
                with pytest.raises(StoreError, match=words) as caught:
                    run.raise_for_outcome()
            assert caught.value.run is run
            assert caught.value.__cause__ is None
        return session

    session = virtual_run(main)
    [stored] = Store(path).runs()
    assert stored.outcome == "running"  # as far as the file knows, until the session writes again or is closed

    async def after():
        await session.aclose()

    virtual_run(after)
    assert Store(path).run(stored.id).outcome == "completed"
    assert Store(path).session("a").messages[-1].text == "Done."


@pytest.mark.parametrize(
    ("reply", "kind", "outcome"), [(fail("no"), ModelError, "failed"), (stall(), Cancelled, "cancelled")]
)
def test_the_cause_of_an_unstored_failure_is_the_failure(path, reply, kind, outcome):
    async def main():
        session = session_of(path, [say("half"), reply])
        with contextlib.ExitStack() as places:
            handle = session.start("go")
            async for event in handle:
                if type(event).__name__ == "TextDelta":
                    places.enter_context(lost(path))
                    handle.cancel() if outcome == "cancelled" else None
            run = await handle
            assert run.outcome == outcome
            with pytest.raises(StoreError) as caught:
                run.raise_for_outcome()
            assert isinstance(caught.value.__cause__, kind)
            assert caught.value.__cause__ is run.error
            assert run.error.run is run
        await session.aclose()

    virtual_run(main)
    assert [run.outcome for run in Store(path).runs()] == [outcome]


def test_a_run_that_cannot_be_begun_in_the_store_asks_no_model(path):
    async def main():
        model = ScriptedModel("Yes.", "Never.", "Now.")
        session = Agent(model).session(store=path, id="a")
        await session.run("one")
        with lost(path):
            with pytest.raises(StoreError, match=f"the store {path} cannot be used: unable to open it") as caught:
                await session.run("two")
            assert caught.value.run.outcome == "failed"
            assert len(model.requests) == 1
        await session.run("three")
        await session.aclose()

    virtual_run(main)
    assert [run.outcome for run in Store(path).runs()] == ["completed", "failed", "completed"]


def test_nothing_of_the_store_is_done_on_the_thread_of_the_loop(path, monkeypatch):
    threads = []
    connect = sqlite3.connect

    def noted(*given, **more):
        threads.append(threading.current_thread())
        return connect(*given, **more)

    monkeypatch.setattr(sqlite3, "connect", noted)

    async def main():
        session = session_of(path, "Yes.", [say("half"), fail("no")])
        await session.run("one")
        session.adopt(await session.start("two"))
        await session.aclose()

    virtual_run(main)
    assert {thread.name for thread in threads} == {"loopctl store"}
    assert threading.main_thread() not in threads
