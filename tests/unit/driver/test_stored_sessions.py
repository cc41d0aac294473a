"""A session with a store goes on where it was, whoever ran it before and however that ended."""

import asyncio
import os
import shutil
import sqlite3
from contextlib import closing

import pytest

from loopctl import Agent, Cancelled, CancelReason, Checkpoint, Run, SessionBusy, SessionClosed, UsageError
from loopctl.messages import AssistantMessage, Text, ToolMessage, UserMessage, find_problems
from loopctl.record import CallStatus
from loopctl.store import Ledger, Store
from loopctl.testing import ScriptedModel, call, fail, say, stall, virtual_run
from loopctl.tools import tool


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store.db"


@tool
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool
async def hang() -> str:
    """Wait for ever."""
    await asyncio.sleep(10_000)
    return "never"


def agent_of(*replies):
    return Agent(ScriptedModel(*replies), [add, hang])


def crashed(path, tmp_path, name="crashed"):
    """Give the store as a process leaves it that dies now."""
    copy = tmp_path / f"{name}.db"
    for file in path.parent.glob(f"{path.name}*"):
        shutil.copy(file, file.with_name(file.name.replace(path.name, copy.name)))
    return copy


def test_a_session_goes_on_with_its_history_and_its_runs(path):
    async def first():
        session = agent_of([call("add", {"a": 1, "b": 2})], "Three.", fail("no"), "Four.").session(store=path, id="sum")
        runs = [await session.start(text) for text in ("one and two", "and now?", "and one more")]
        await session.aclose()
        return session.history, runs

    async def second():
        session = agent_of("Five.").session(store=path, id="sum")
        assert session.history == ()
        await session.open()
        await session.open()
        history, runs = session.history, session.runs
        await session.run("and another")
        await session.aclose()
        return history, runs, session.history

    before, runs = virtual_run(first)
    history, kept, after = virtual_run(second)
    assert history == before
    assert kept == tuple(runs)
    assert after[: len(before)] == before
    assert after[len(before) :] == (UserMessage("and another"), AssistantMessage((Text("Five."),)))
    assert Store(path).session("sum").messages == after


def test_a_run_opens_the_session_by_itself_before_its_model_is_asked(path):
    virtual_run(agent_of("Hello.").session(store=path, id="a").run("hi"))
    model = ScriptedModel("Again.")
    session = Agent(model).session(store=path, id="a")
    virtual_run(session.run("hi again"))
    assert [message.text for message in model.requests[0].messages] == ["hi", "Hello.", "hi again"]
    assert [run.input.text for run in session.runs] == ["hi", "hi again"]


def test_every_outcome_is_stored_as_it_was_told(path):
    """Case E13: a stop is stored as cancelled, with its reason, and as nothing else."""

    async def main():
        session = agent_of("Yes.", fail("no"), [say("half "), stall()]).session(store=path, id="all")
        done = await session.start("one")
        failed = await session.start("two")
        handle = session.start("three")
        async for event in handle:
            if getattr(event, "text", "") == "half ":
                handle.cancel(CancelReason("user", "enough", "Ada"))
                break
        return [done, failed, await handle]

    runs = virtual_run(main)
    stored = Store(path).runs(session="all")[::-1]
    assert [run.outcome for run in stored] == ["completed", "failed", "cancelled"]
    assert [run.record for run in stored] == [run.to_json() for run in runs]
    assert stored[2].record["stop"]["reason"]["requested_by"] == "Ada"
    assert [Run.from_json(run.record) for run in stored] == runs
    assert [message.text for message in Store(path).session("all").messages] == ["one", "Yes."]


def test_a_cancelled_run_is_on_disk_before_anybody_is_told_of_its_end(path):
    """Case E13 and Case J8: who sees the end of a stopped run, or closes the session, finds it stored as cancelled."""
    seen = []

    async def main():
        agent = Agent(ScriptedModel([say("half"), stall()]), observers=[note])
        session = agent.session(store=path, id="a")
        handle = session.start("go")
        async for event in handle:
            if type(event).__name__ == "TextDelta":
                session.signal.cancel("enough")
            elif type(event).__name__ == "RunEnded":
                seen.append(Store(path).run(handle.id).outcome)
        seen.append(Store(path).run((await handle).id).outcome)
        await session.aclose()

    def note(event):
        if type(event).__name__ == "RunEnded":
            seen.append(Store(path).run(event.run_id).outcome)

    virtual_run(main)
    assert seen == ["cancelled"] * 3


def test_the_program_that_ends_in_a_run_leaves_it_stored_as_cancelled(path):
    """Case J8: the end of a stopped run is written before the program, and with it the store, is torn down."""

    async def main():
        session = agent_of([say("half"), stall()]).session(store=path, id="a")
        handle = session.start("go")
        async for event in handle:
            if type(event).__name__ == "TextDelta":
                break  # the last reader goes, and then the program
        return handle.id

    run = Store(path).run(asyncio.run(main()))
    assert (run.outcome, run.record["stop"]["reason"]["origin"]) == ("cancelled", "caller")


def test_a_run_whose_process_died_is_interrupted_and_says_what_its_calls_had_come_to(path, tmp_path):
    async def main():
        first, second = call("add", {"a": 1, "b": 2}), call("hang", {})
        session = agent_of([say("let me"), first, second, call("add", {"a": 5, "b": 5})]).session(store=path, id="a")
        handle = session.start("go")
        async for event in handle:
            if type(event).__name__ == "ToolStarted" and event.name == "hang":
                await asyncio.sleep(1)
                live = Store(path).run(handle.id)
                copy = crashed(path, tmp_path)
                handle.cancel()
        await session.aclose()
        return live, copy

    live, copy = virtual_run(main)
    assert (live.outcome, live.pid, live.ended_at, live.record) == ("running", os.getpid(), None, None)
    assert [one.status for one in live.calls] == ["completed", "running", "not_started"]
    [dead] = Store(copy).runs()
    assert dead.outcome == "interrupted"
    assert [one.status for one in dead.calls] == ["completed", "interrupted", "not_started"]
    assert [one.result for one in dead.calls] == ["3", None, None]

    async def after():
        model = ScriptedModel("I see.")
        session = Agent(model, [add, hang]).session(store=copy, id="a")
        await session.open()
        [run] = session.runs
        assert run.outcome == "interrupted"
        assert [record.status for record in run.tool_calls] == [
            CallStatus.COMPLETED,
            CallStatus.INTERRUPTED,
            CallStatus.NOT_STARTED,
        ]
        with pytest.raises(Exception, match="was interrupted: its process"):
            run.raise_for_outcome()
        assert session.adopt(run)
        assert not session.adopt(run)
        await session.run("what now?")
        await session.aclose()
        return session.history

    history = virtual_run(after)
    assert find_problems(history) == ()
    [results] = [message.results for message in history if isinstance(message, ToolMessage)]
    assert [(result.content, result.is_error) for result in results] == [
        ("3", False),
        ("This call was interrupted: the program ended while it ran. Whether it had an effect is unknown.", True),
        ("This call was not run: the program ended before it began.", True),
    ]
    assert Store(copy).session("a").messages == history
    assert [(run.outcome, run.is_adopted) for run in Store(copy).runs()] == [
        ("completed", False),
        ("interrupted", True),
    ]


def test_what_was_adopted_outlives_the_process(path):
    async def main():
        session = agent_of([say("half"), fail("no")]).session(store=path, id="a")
        run = await session.start("go")
        assert session.adopt(run)
        await session.aclose()
        again = agent_of("Yes.").session(store=path, id="a")
        await again.open()
        assert again.history == session.history != ()
        assert not again.adopt(again.runs[-1])
        assert again.history == session.history
        await again.aclose()

    virtual_run(main)


def test_the_late_end_of_an_abandoned_call_is_stored_and_adopted_after_a_restart(path):
    @tool
    async def deaf() -> str:
        """Do not stop."""
        until = asyncio.get_running_loop().time() + 30
        while (left := until - asyncio.get_running_loop().time()) > 0:
            try:
                await asyncio.sleep(left)
            except asyncio.CancelledError:
                continue
        return "sent"

    async def main():
        session = Agent(ScriptedModel([call("deaf", {})]), [deaf]).session(store=path, id="a")
        handle = session.start("go")
        await asyncio.sleep(2)
        handle.cancel()
        run = await handle
        assert run.tool_calls[0].status is CallStatus.ABANDONED
        assert Store(path).run(run.id).calls[0].status == "abandoned"
        await asyncio.sleep(60)
        await session.aclose()
        [late] = Store(path).run(run.id).calls
        assert (late.status, late.result, late.is_late) == ("completed", "sent", True)
        assert Store(path).run(run.id).record["tool_calls"][0]["status"] == "abandoned"
        again = agent_of("Good.").session(store=path, id="a")
        await again.open()
        again.adopt(again.runs[-1])
        await again.aclose()
        return again.history[-1].results[0].content

    assert virtual_run(main) == "sent"


def test_a_run_that_was_stopped_before_the_store_was_open_is_stored_when_it_is(path):
    async def main():
        session = agent_of("Yes.").session(store=path, id="a")
        session.signal.cancel("not this one")
        with pytest.raises(Cancelled) as caught:
            await session.run("one")
        assert caught.value.checkpoint is Checkpoint.TURN_ENTRY
        assert not path.exists()
        await session.run("two")
        await session.aclose()
        return session.runs

    runs = virtual_run(main)
    assert [(run.outcome, run.input) for run in Store(path).runs()[::-1]] == [
        ("cancelled", "one"),
        ("completed", "two"),
    ]
    assert [run.outcome for run in runs] == ["cancelled", "completed"]


def test_a_session_is_open_in_one_place_and_the_other_is_told_where(path):
    async def main():
        first = agent_of("Yes.", "Again.").session(store=path, id="a")
        await first.run("one")
        second = agent_of("No.").session(store=path, id="a")
        with pytest.raises(SessionBusy, match=rf"a is open in this process \({os.getpid()}\) already"):
            await second.open()
        with pytest.raises(SessionBusy) as caught:
            await second.run("two")
        assert caught.value.run.outcome == "failed"
        other = agent_of("Elsewhere.").session(store=path, id="b")
        await other.run("another session is another matter")
        await first.aclose()
        await second.run("now")
        with pytest.raises(SessionClosed):
            await first.open()
        for session in (second, other):
            await session.aclose()

    virtual_run(main)


def test_a_session_that_was_dropped_is_free(path):
    virtual_run(agent_of("Yes.").session(store=path, id="a").run("one"))
    virtual_run(agent_of("Yes.").session(store=path, id="a").run("two"))


def test_a_history_that_is_given_begins_the_session_and_may_be_given_again(path):
    given = (UserMessage("before"), AssistantMessage((Text("Yes."),)))

    async def main(history):
        session = agent_of("More.").session(store=path, id="a", history=history)
        await session.run("go on")
        await session.aclose()
        return session.history

    assert virtual_run(lambda: main(given))[:2] == given
    assert len(virtual_run(lambda: main(given))) == 6
    with pytest.raises(UsageError, match="with another history"):
        virtual_run(lambda: main((UserMessage("else"), AssistantMessage((Text("Yes."),)))))


def test_a_store_that_has_only_a_ledger_is_brought_up_to_date(path):
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(
            "CREATE TABLE effects (key TEXT PRIMARY KEY NOT NULL, claim INTEGER NOT NULL, done_by TEXT NOT NULL,"
            " pid INTEGER NOT NULL, begun_at REAL NOT NULL, ended_at REAL, result TEXT, fault TEXT)"
        )
        connection.execute("INSERT INTO effects VALUES ('paid', 1, 'me', 2, 3.0, 4.0, '\"receipt\"', NULL)")
        connection.execute(f"PRAGMA application_id = {0x6C6F6F70}")
        connection.execute("PRAGMA user_version = 1")
    assert Store(path).runs() == []
    virtual_run(agent_of("Yes.").session(store=path, id="a").run("one"))
    assert Ledger(path).once("paid", lambda: "again") == "receipt"
    assert [run.input for run in Store(path).runs()] == ["one"]
