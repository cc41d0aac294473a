"""What is asked of a store is answered from the file alone, by pages, and never makes a file."""

import sqlite3
from contextlib import closing

import pytest

from loopctl import Agent, StoreError, UsageError
from loopctl.messages import UserMessage
from loopctl.store import Store
from loopctl.testing import ScriptedModel, fail, virtual_run


@pytest.fixture
def store(tmp_path):
    """Ten runs of two sessions, of which every third has failed."""

    async def main():
        replies = ["Yes.", "Yes.", fail("no")] * 4
        agent = Agent(ScriptedModel(*replies))
        sessions = [agent.session(store=tmp_path / "store.db", id=name) for name in "ab"]
        for number in range(10):
            await sessions[number % 2].start(f"run {number}")
        for session in sessions:
            await session.aclose()

    virtual_run(main)
    return Store(tmp_path / "store.db")


def inputs(runs):
    return [int(run.input.removeprefix("run ")) for run in runs]


def test_runs_come_by_pages_newest_first(store):
    assert inputs(store.runs()) == list(range(9, -1, -1))
    first = store.runs(4)
    assert inputs(first) == [9, 8, 7, 6]
    assert inputs(store.runs(4, before=first[-1].id)) == [5, 4, 3, 2]
    assert inputs(store.runs(0)) == []
    assert inputs(store.runs(session="a")) == [8, 6, 4, 2, 0]
    assert inputs(store.runs(outcome="failed")) == [8, 5, 2]
    assert inputs(store.runs(1, outcome="failed", session="a", before=first[1].id)) == [2]
    assert store.runs(outcome="running") == store.runs(session="c") == []
    with pytest.raises(UsageError, match="there is no run 'x' in"):
        store.runs(before="x")


def test_one_run_is_found_by_its_id_or_the_beginning_of_it(store):
    run = store.runs()[3]
    assert store.run(run.id) == store.find(run.id) == store.find(run.id[:20]) == run
    assert store.run(run.id[:20]) is store.run("x") is store.find("x") is None
    with pytest.raises(UsageError, match="several runs begin with 'run_'"):
        store.find("run_")


def test_sessions_come_with_what_they_are_about(store):
    first, second = store.sessions()
    assert [(one.id, one.title, one.run_count, one.pid, one.messages) for one in (first, second)] == [
        ("b", "run 1", 5, None, None),
        ("a", "run 0", 5, None, None),
    ]
    assert store.sessions(1) == [first]
    whole = store.session("a")
    assert [message.text for message in whole.messages if isinstance(message, UserMessage)] == [
        "run 0",
        "run 4",
        "run 6",
    ]
    assert whole.to_json()["messages"][0] == {"role": "user", "text": "run 0"}
    assert store.session("c") is None


def test_a_store_that_is_not_there_is_empty_and_stays_so(tmp_path):
    store = Store(tmp_path / "none.db")
    assert (store.runs(), store.sessions(), store.run("x"), store.session("x"), store.find("x")) == (
        [],
        [],
        None,
        None,
        None,
    )
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_store_is_named_with_the_next_move(store):
    with open(store.path, "r+b") as file:
        file.seek(100)
        file.write(b"\xff" * 4000)
    with pytest.raises(StoreError, match="it is damaged") as caught:
        store.runs()
    assert store.path in str(caught.value)


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE runs SET record = '{'",
        "UPDATE runs SET record = '[]'",
        "UPDATE runs SET input = '{'",
    ],
)
def test_a_row_that_is_damaged_is_named_with_the_next_move(store, damage):
    _damage(store, damage)
    with pytest.raises(StoreError, match=r"stored of the run run_.* is damaged .* put a copy") as caught:
        store.runs()
    assert store.path in str(caught.value)


@pytest.mark.parametrize(
    ("damage", "what"),
    [
        ("UPDATE runs SET record = '{}'", "what is stored of the run run_"),
        ("UPDATE messages SET message = '[]'", "the history of a is damaged"),
        ("UPDATE messages SET message = '{'", "the history of a is damaged"),
    ],
)
def test_a_session_with_damaged_rows_fails_before_its_model_is_asked(store, damage, what):
    _damage(store, damage)
    model = ScriptedModel("Never.")
    with pytest.raises(StoreError, match=what) as caught:
        virtual_run(Agent(model).session(store=store.path, id="a").run("hi"))
    assert store.path in str(caught.value)
    assert model.requests == []


def _damage(store, statement):
    with closing(sqlite3.connect(store.path)) as connection, connection:
        connection.execute(statement)


def test_a_session_whose_store_is_damaged_fails_before_its_model_is_asked(store):
    with open(store.path, "r+b") as file:
        file.seek(100)
        file.write(b"\xff" * 4000)
    model = ScriptedModel("Never.")
    with pytest.raises(StoreError, match="it is damaged"):
        virtual_run(Agent(model).session(store=store.path, id="a").run("hi"))
    assert model.requests == []
