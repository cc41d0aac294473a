"""kill -9 in the middle of `once`: the effect is recorded, or known to be unknown, and never silently done twice."""

from __future__ import annotations

import functools
import random
from collections import Counter
from pathlib import Path

import pytest

from loopctl import EffectUnknown
from loopctl.store import Ledger
from tests.integration.abandon.payer import BEFORE, INTENDED, PAID, RECORDED, pay
from tests.integration.abandon.victims import Victims

PAYER = Path(__file__).with_name("payer.py")
KILLS = 60


def paid(folder: Path) -> Counter[str]:
    """How often each invoice was really paid."""
    file = folder / "paid.txt"
    return Counter(file.read_text().split() if file.exists() else ())


def known(folder: Path) -> dict[str, str]:
    """What the ledger says of each invoice."""
    ledger = Ledger(folder / "store.sqlite")
    if not Path(ledger.path).exists():
        return {}
    keys = ledger._file.transact(lambda connection: connection.execute("SELECT key FROM effects").fetchall())
    return {key: ledger.get(key).state for (key,) in keys}


@pytest.mark.parametrize("number", [1, 2], ids=["plain", "async"])
@pytest.mark.parametrize(
    ("at", "state", "times"),
    [(BEFORE, None, 0), (INTENDED, "unknown", 0), (PAID, "unknown", 1), (RECORDED, "done", 1)],
    ids=["before the intent", "before the effect", "before the record", "after the record"],
)
def test_a_kill_at_each_step(tmp_path, at, state, times, number):
    with Victims(PAYER, tmp_path) as victims:
        assert victims.kill(number, at=at) == at
    key = f"{number}/0"
    assert known(tmp_path).get(key) == state
    assert paid(tmp_path)[key] == times
    again = functools.partial(Ledger(tmp_path / "store.sqlite").once, key, lambda: pay(lambda _: None, tmp_path, key))
    if state == "unknown":
        with pytest.raises(EffectUnknown):
            again()
    else:
        assert again() == f"receipt of {key}"
        times = 1
    assert paid(tmp_path)[key] == times


def test_kills_at_any_moment_double_nothing(tmp_path):
    chance = random.Random(5)
    with Victims(PAYER, tmp_path) as victims:
        died = [victims.kill(kill, after=chance.uniform(0, 0.15)) for kill in range(KILLS)]
    states, times = known(tmp_path), paid(tmp_path)
    assert max(times.values()) == 1
    for key in states.keys() | times.keys():
        assert times[key] in {"done": {1}, "unknown": {0, 1}, None: {0}}[states.get(key)], key
    unknown = [key for key, state in states.items() if state == "unknown"]
    inside = sum(phase in {BEFORE, INTENDED, PAID} for phase in died)
    assert inside > KILLS / 2, "most kills must fall inside the work"
    assert {INTENDED, PAID} <= set(died)
    assert len(unknown) > KILLS / 10
    ledger = Ledger(tmp_path / "store.sqlite")
    assert sorted(effect.key for effect in ledger.unknown()) == sorted(unknown)
    for key in states:
        try:
            assert ledger.once(key, lambda: "paid again") == f"receipt of {key}"
        except EffectUnknown:
            assert key in unknown
    for key in unknown:
        ledger.resolve(key, done=times[key] == 1, result=f"receipt of {key}")
        ledger.once(key, functools.partial(pay, lambda _: None, tmp_path, key))
    assert set(paid(tmp_path).values()) == {1}
    assert set(known(tmp_path).values()) == {"done"}
