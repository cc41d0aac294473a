"""A store is one file: made when it is needed, never somebody else's, and honest about what is wrong with it."""

import asyncio
import os
import sqlite3
import threading

import pytest

from loopctl import Agent, Cancelled, CancelSignal, Checkpoint, StoreError, UsageError
from loopctl.store import Ledger, Store
from loopctl.testing import ScriptedModel, virtual_run


@pytest.fixture
def path(tmp_path):
    return tmp_path / "effects.sqlite"


def nothing():
    return "done"


async def nothing_on_a_loop():
    return "done"


def test_nothing_is_opened_before_it_is_needed(path, tmp_path):
    ledger = Ledger(path)
    session = Agent(ScriptedModel("Hello.")).session(store=path)
    assert Store(path).runs() == []
    assert ledger.unknown() == ()
    assert ledger.get("key") is None
    assert list(tmp_path.iterdir()) == []
    ledger.once("key", nothing)
    assert path.exists()
    path.unlink()
    virtual_run(session.run("hi"))
    assert path.exists()


def test_what_is_written_is_on_disk_before_anything_is_built_on_it(path):
    Ledger(path).once("key", nothing)
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()
    seen = []
    ledger = Ledger(path)
    ledger._file.transact(lambda connection: seen.append(connection.execute("PRAGMA synchronous").fetchone()))
    assert seen == [(2,)]  # FULL


def test_a_path_means_the_folder_that_the_process_was_in_and_a_link_the_file_it_leads_to(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ledger = Ledger("effects.sqlite")
    monkeypatch.chdir("/")
    ledger.once("key", nothing)
    (tmp_path / "link.sqlite").symlink_to(path)
    assert Ledger(tmp_path / "link.sqlite").once("key", lambda: "twice") == "done"
    assert Ledger(tmp_path / "link.sqlite").path == str(path)


def test_a_path_may_have_any_characters(tmp_path):
    ledger = Ledger(tmp_path / "what? a#store %20 ü \udcff.sqlite")
    assert ledger.once("key", nothing) == "done"
    assert os.path.exists(ledger.path)


@pytest.mark.parametrize("given", ["", None, 3, b"x", ":memory:", "file:x?mode=memory", "a\0b", "\ud800"])
def test_what_is_not_the_path_of_a_file_is_refused(given):
    with pytest.raises(UsageError, match="a store"):
        Ledger(given)


def make_text(path):
    path.write_text("notes, " * 1000)


def make_database(path):
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE customers (name)")
    connection.close()


def make_other(path):
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA application_id = 17")
    connection.close()


def make_newer(path):
    Ledger(path).once("key", nothing)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (make_text, "is no SQLite database, and is left as it is"),
        (make_database, "is a database of another program, and is left as it is"),
        (make_other, "is a database of another program, and is left as it is"),
        (make_newer, "was written by a newer loopctl"),
        (lambda path: path.mkdir(), "unable to open"),
    ],
)
def test_a_file_of_somebody_else_is_named_and_left_as_it_is(path, make, words):
    make(path)
    before = path.read_bytes() if path.is_file() else None
    ledger = Ledger(path)
    done = []
    for use in (lambda: ledger.once("key", lambda: done.append(1)), ledger.unknown, lambda: ledger.get("key")):
        with pytest.raises(StoreError, match=words) as caught:
            use()
        assert str(path) in str(caught.value)
    assert done == []
    assert before is None or path.read_bytes() == before


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(StoreError, match=r"there is no folder .*missing"):
        Ledger(tmp_path / "missing" / "effects.sqlite").once("key", nothing)


def test_a_damaged_store_is_named_and_nothing_is_done(path):
    Ledger(path).once("key", nothing)
    content = bytearray(path.read_bytes())
    content[4096:8192] = b"\xaa" * 4096
    path.write_bytes(content)
    done = []
    with pytest.raises(StoreError, match=rf"{path}.*malformed"):
        Ledger(path).once("other", lambda: done.append(1))
    assert done == []


def test_many_callers_make_the_file_at_the_same_time(tmp_path):
    for number in range(10):
        ledger = Ledger(tmp_path / f"{number}.sqlite")
        start = threading.Barrier(4)
        got = []

        def ask(key, start=start, ledger=ledger, got=got):
            start.wait()
            got.append(ledger.once(key, nothing))

        threads = [threading.Thread(target=ask, args=(f"key {index}",)) for index in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert got == ["done"] * 4


@pytest.fixture
def locked(path):
    """A store that another connection writes to and does not let go."""
    Ledger(path).once("first", nothing)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    yield Ledger(path)
    connection.close()


def test_a_cancel_ends_the_wait_for_a_locked_store_and_nothing_is_begun(locked, path):
    """The wait is the checkpoint SETUP: nothing half-open stays."""
    done = []

    async def charge():
        done.append(1)

    async def main():
        signal = CancelSignal()
        asyncio.get_running_loop().call_later(0.2, signal.cancel, "enough")
        with pytest.raises(Cancelled) as caught:
            await locked.once("key", charge, token=signal.token)
        assert caught.value.checkpoint is Checkpoint.SETUP

    asyncio.run(main())
    signal = CancelSignal()
    threading.Timer(0.2, signal.cancel).start()
    with pytest.raises(Cancelled):
        locked.once("key", lambda: done.append(1), token=signal.token)
    assert done == []


def test_a_look_that_was_given_up_gives_back_what_it_takes_after_all(path):
    """The store is let go in the very moment of the cancel: the look goes on, on its thread, and takes the key."""
    ledger = Ledger(path)
    ledger.once("first", nothing)
    for delay in range(20):

        async def main(delay=delay):
            connection = sqlite3.connect(path, isolation_level=None)
            connection.execute("BEGIN IMMEDIATE")
            signal = CancelSignal()
            asyncio.get_running_loop().call_later(0.02, connection.close)
            asyncio.get_running_loop().call_later(0.02 + delay * 0.001, signal.cancel)
            try:
                await ledger.once("key", nothing_on_a_loop, token=signal.token)
            except Cancelled:
                pass
            else:
                ledger._file.transact(lambda connection: connection.execute("DELETE FROM effects"))

        asyncio.run(main())
        assert ledger.get("key") is None


def test_a_store_that_stays_locked_is_an_error_in_the_end(locked):
    locked_attempt = pytest.MonkeyPatch()
    with locked_attempt.context() as patch:
        patch.setattr("loopctl.store._once._ON_LOOP", 0.1)

        async def main():
            with pytest.raises(StoreError, match=r"has been locked for 0\.1 s by another"):
                locked.once("key", nothing)

        asyncio.run(main())
