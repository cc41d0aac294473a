"""What happens between two steps of `once`: a store that lets something happen just there."""

import pytest

from loopctl import CancelSignal, EffectUnknown
from loopctl.store import Ledger
from loopctl.store._caller import Caller
from loopctl.store._claims import hold
from loopctl.store._file import StoreFile
from loopctl.store._rows import Row, finish, insert


class Eventful(StoreFile):
    """A store after whose next transaction something happens."""

    then = None

    def transact(self, *given, **more):
        result = super().transact(*given, **more)
        then, self.then = self.then, None
        if then is not None:
            then()
        return result


@pytest.fixture
def file(tmp_path):
    return Eventful(tmp_path / "effects.sqlite")


@pytest.fixture
def caller(file):
    return Caller(file, "key", "pay (c1)", CancelSignal().token, lambda: None)


@pytest.fixture
def other(file):
    """The claim of somebody else who has begun to do the key."""
    claim = hold(file.holders, CancelSignal().token)
    file.transact(lambda connection: insert(connection, Row("key", claim.number, "pay (c2)", 1, 1.0)))
    yield claim
    claim.let_go()


def test_who_ends_between_the_read_and_the_look_at_its_lock_is_not_taken_for_dead(file, caller, other):
    def end():
        row = Row("key", other.number, "pay (c2)", 1, 1.0)
        file.transact(lambda connection: finish(connection, row, 2.0, '"paid"'))
        other.let_go()

    file.then = end
    assert caller.look().value() == "paid"


def test_who_gives_the_key_back_between_the_two_lets_the_next_one_take_it(file, caller, other):
    def end():
        file.transact(lambda connection: connection.execute("DELETE FROM effects"))
        other.let_go()

    file.then = end
    assert caller.look() is None
    caller.release()


def test_who_dies_between_the_two_is_dead(file, caller, other):
    file.then = other.let_go
    with pytest.raises(EffectUnknown, match=r"pay \(c2\) in process 1 began it"):
        caller.look()


def test_what_a_look_took_that_nobody_waits_for_any_more_is_given_back(file, caller):
    file.then = caller.withdraw  # it cannot wait: it is called where a coroutine is closed
    caller.look()
    assert Ledger(file.path).get("key") is None


def test_an_error_of_the_store_does_not_hide_the_error_of_the_function(tmp_path):
    ledger = Ledger(tmp_path / "effects.sqlite")
    ledger.once("first", list)

    def fail():
        (tmp_path / "effects.sqlite").write_text("not a store any more, " * 1000)
        raise ConnectionRefusedError("no")

    with pytest.raises(ConnectionRefusedError):
        ledger.once("key", fail)
