"""What is unknown is shown, and stays unknown until a person has said what became of it."""

import pytest

from loopctl import EffectUnknown, UsageError
from loopctl.store import Effect, Ledger


def time_out():
    raise TimeoutError


@pytest.fixture
def ledger(tmp_path):
    """A ledger with an effect that is done and one that is unknown."""
    ledger = Ledger(tmp_path / "effects.sqlite")
    ledger.once("done", lambda: {"paid": 3})
    with pytest.raises(TimeoutError):
        ledger.once("open", time_out, by="pay (c7)")
    return ledger


def test_the_unknown_ones_are_shown_with_who_began_them(ledger):
    (effect,) = ledger.unknown()
    assert isinstance(effect, Effect)
    assert (effect.key, effect.state, effect.by, effect.result) == ("open", "unknown", "pay (c7)", None)
    assert effect.pid > 0
    assert effect.begun_at > 1e9
    assert effect.ended_at is None
    assert ledger.get("open") == effect
    found = ledger.get("done")
    assert (found.state, found.result) == ("done", {"paid": 3})
    assert found.ended_at >= found.begun_at


def test_said_to_be_done_it_gives_the_result_that_was_said(ledger):
    ledger.resolve("open", done=True, result={"paid": 4})
    assert ledger.once("open", lambda: "twice") == {"paid": 4}
    assert ledger.unknown() == ()


def test_said_not_to_be_done_it_is_done_by_the_next_caller(ledger):
    ledger.resolve("open", done=False)
    assert ledger.get("open") is None
    assert ledger.once("open", lambda: "paid") == "paid"


def test_it_stays_unknown_however_often_it_is_asked_for(ledger):
    for _ in range(3):
        with pytest.raises(EffectUnknown, match="'open'"):
            Ledger(ledger.path).once("open", lambda: "twice")


def test_only_what_is_unknown_can_be_resolved(ledger):
    with pytest.raises(UsageError, match=r"'done' is done, with the result {\"paid\": 3}"):
        ledger.resolve("done", done=False)
    with pytest.raises(UsageError, match="'never' was never begun"):
        ledger.resolve("never", done=True)
    with pytest.raises(UsageError, match="what JSON can hold"):
        ledger.resolve("open", done=True, result=object())
    with pytest.raises(UsageError, match="there is no store"):
        Ledger(f"{ledger.path}-missing").resolve("open", done=True)
    assert ledger.get("done").result == {"paid": 3}
    assert ledger.get("open").state == "unknown"


def test_what_is_being_done_cannot_be_resolved_and_is_not_unknown(ledger):
    def look():
        assert ledger.get("now").state == "in_progress"
        assert [effect.key for effect in ledger.unknown()] == ["open"]
        with pytest.raises(UsageError, match="'now' is being done by a program"):
            ledger.resolve("now", done=False)
        return "paid"

    assert ledger.once("now", look) == "paid"


def test_a_result_that_was_lost_can_not_be_given_later(ledger):
    with pytest.raises(UsageError):
        ledger.once("lost", object)
    with pytest.raises(UsageError, match="'lost' is done"):
        ledger.resolve("lost", done=False)
