"""One breaker: its transitions as a table, and random lives of it against a plain telling of the rules."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from loopctl.errors import UsageError
from loopctl.fallback import Breaker, BreakerConfig, BreakerState

PRIMARY, FALLBACK, RECOVERING = BreakerState
TRIPPED = Breaker(tripped_at=1000.0, generation=1)


def fail(breaker, now=0.0):
    return breaker.failed(breaker.generation, now)


def succeed(breaker):
    return breaker.succeeded(breaker.generation)


def test_a_new_breaker_lets_turns_through():
    assert Breaker() == Breaker(config=BreakerConfig(failures=3, cooldown=60.0, probes=2))
    assert Breaker().state(0.0) is PRIMARY


def test_three_failed_turns_in_a_row_trip_it():
    once = fail(Breaker(), 1.0)
    twice = fail(once, 2.0)
    tripped = fail(twice, 3.0)

    assert [breaker.state(3.0) for breaker in (once, twice, tripped)] == [PRIMARY, PRIMARY, FALLBACK]
    assert tripped == Breaker(tripped_at=3.0, generation=1)


def test_a_good_turn_between_them_begins_the_count_anew():
    breaker = fail(fail(succeed(fail(fail(Breaker())))))

    assert breaker.state(0.0) is PRIMARY
    assert fail(breaker).state(0.0) is FALLBACK


@pytest.mark.parametrize(
    ("now", "state"),
    [
        (1000.0, FALLBACK),
        (1059.999, FALLBACK),
        (1060.0, RECOVERING),
        (5000.0, RECOVERING),
        (999.9, FALLBACK),  # read by another thread just before the trip
        (940.001, FALLBACK),
        (0.0, RECOVERING),  # another clock
    ],
)
def test_the_cooldown_is_sixty_seconds(now, state):
    assert TRIPPED.state(now) is state


def test_two_good_probes_close_it():
    once = succeed(TRIPPED)
    closed = succeed(once)

    assert (once.state(1060.0), closed.state(1060.0)) == (RECOVERING, PRIMARY)
    assert closed == Breaker(generation=2)


@pytest.mark.parametrize("probes", [0, 1])
def test_a_failed_probe_trips_it_again_and_the_cooldown_begins_anew(probes):
    """Whatever failed it, a rate limit too: the breaker knows one kind of failure."""
    again = fail(Breaker(tripped_at=1000.0, probes=probes, generation=1), 1060.0)

    assert again == Breaker(tripped_at=1060.0, generation=2)
    assert (again.state(1119.9), again.state(1120.0)) == (FALLBACK, RECOVERING)
    assert succeed(again).state(1120.0) is RECOVERING, "the good probes before it do not count"


def test_a_closed_breaker_needs_three_failures_again():
    closed = succeed(succeed(TRIPPED))

    assert fail(fail(closed)).state(0.0) is PRIMARY


@pytest.mark.parametrize(
    "breaker", [TRIPPED, Breaker(tripped_at=1000.0, probes=1, generation=1), Breaker(generation=2)]
)
def test_a_slow_turn_from_before_a_transition_changes_nothing(breaker):
    """The breaker's part of C12: a late success neither closes it nor opens it."""
    assert breaker.succeeded(0) is breaker
    assert breaker.failed(0, 1070.0) is breaker


def test_every_number_can_be_configured():
    config = BreakerConfig(failures=1, cooldown=0.0, probes=1)
    tripped = fail(Breaker(config=config), 5.0)

    assert tripped == Breaker(config=config, tripped_at=5.0, generation=1)
    assert tripped.state(5.0) is RECOVERING
    assert succeed(tripped) == Breaker(config=config, generation=2)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("failures", 0),
        ("failures", 1.0),
        ("failures", True),
        ("probes", 0),
        ("probes", None),
        ("cooldown", -1.0),
        ("cooldown", math.inf),
        ("cooldown", math.nan),
        ("cooldown", True),
    ],
)
def test_a_value_that_cannot_be_is_refused_by_its_name(name, value):
    with pytest.raises(UsageError, match=f"BreakerConfig.{name} is "):
        BreakerConfig(**{name: value})


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("failures", {"failures": 3}),
        ("failures", {"failures": -1}),
        ("failures", {"failures": 1, "tripped_at": 1.0, "generation": 1}),
        ("probes", {"probes": 1}),
        ("probes", {"probes": 2, "tripped_at": 1.0, "generation": 1}),
        ("generation", {"generation": -1}),
        ("generation", {"tripped_at": 1.0}),
        ("tripped_at", {"tripped_at": math.nan, "generation": 1}),
        ("tripped_at", {"tripped_at": "1", "generation": 1}),
        ("config", {"config": None}),
    ],
)
def test_a_breaker_that_no_reports_lead_to_is_refused(name, values):
    with pytest.raises(UsageError, match=f"Breaker.{name} is "):
        Breaker(**values)


@pytest.mark.parametrize("kind", [Breaker, BreakerConfig])
def test_what_was_not_stored_by_us_is_not_read(kind):
    stored = kind().to_json()
    for value in (None, [], "x", {}, stored | {"more": 1}, {key: stored[key] for key in list(stored)[1:]}):
        with pytest.raises(UsageError, match=f"not a stored {kind.__name__}"):
            kind.from_json(value)


def test_a_stored_breaker_is_checked_like_a_new_one():
    with pytest.raises(UsageError, match=r"Breaker\.failures is 3"):
        Breaker.from_json(Breaker().to_json() | {"failures": 3})
    with pytest.raises(UsageError, match="not a stored BreakerConfig"):
        Breaker.from_json(Breaker().to_json() | {"config": None})


class Lives(RuleBasedStateMachine):
    """Turns that overlap, at random times, some of which are cancelled; the rules are told again in plain words."""

    @initialize(failures=st.integers(1, 4), cooldown=st.floats(0.5, 100), probes=st.integers(1, 4))
    def begin(self, failures, cooldown, probes):
        self.config = BreakerConfig(failures=failures, cooldown=cooldown, probes=probes)
        self.breaker = Breaker(config=self.config)
        self.now = 50.0
        self.open = []  # (the breaker's generation, the era) of each turn that asks the model
        self.era, self.tripped_at, self.in_a_row = 0, None, 0

    @rule(seconds=st.floats(0, 200) | st.floats(0, 1))
    def wait(self, seconds):
        self.now += seconds

    @rule()
    def begin_turn(self):
        state = self.breaker.state(self.now)
        is_cooling = self.tripped_at is not None and self.now - self.tripped_at < self.config.cooldown
        assert (state is FALLBACK) == is_cooling, "no probe before the cooldown is over, and one after it"
        assert (state is PRIMARY) == (self.tripped_at is None)
        if state is not FALLBACK:
            self.open.append((self.breaker.generation, self.era))

    @precondition(lambda self: self.open)
    @rule(data=st.data(), how=st.sampled_from(["good", "failed", "cancelled"]))
    def end_turn(self, data, how):
        generation, era = self.open.pop(data.draw(st.integers(0, len(self.open) - 1)))
        before = self.breaker
        if how == "good":
            self.breaker = before.succeeded(generation)
        elif how == "failed":
            self.breaker = before.failed(generation, self.now)
        if era != self.era or how == "cancelled":
            assert self.breaker is before
            return
        self.tell(how)

    def tell(self, how):
        if self.tripped_at is None:
            self.in_a_row = self.in_a_row + 1 if how == "failed" else 0
            has_to_trip = self.in_a_row == self.config.failures
        else:
            self.in_a_row += how == "good"
            has_to_trip = how == "failed"
        if has_to_trip:
            self.tripped_at, self.in_a_row, self.era = self.now, 0, self.era + 1
        elif self.tripped_at is not None and self.in_a_row == self.config.probes:
            self.tripped_at, self.in_a_row, self.era = None, 0, self.era + 1

    @invariant()
    def it_is_what_the_rules_say(self):
        assert self.breaker.tripped_at == self.tripped_at
        assert (self.breaker.failures, self.breaker.probes) == (
            (self.in_a_row, 0) if self.tripped_at is None else (0, self.in_a_row)
        )

    @invariant()
    def it_can_be_stored_and_read_again(self):
        assert Breaker.from_json(json.loads(json.dumps(self.breaker.to_json()))) == self.breaker


TestLives = Lives.TestCase
TestLives.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)


@given(st.lists(st.booleans(), max_size=12), st.integers(1, 4))
def test_it_closes_only_after_as_many_good_probes_in_a_row_as_configured(probes, needed):
    breaker = Breaker(config=BreakerConfig(probes=needed), tripped_at=0.0, generation=1)
    now, in_a_row = 0.0, 0
    for is_good in probes:
        now += 60.0
        assert breaker.state(now) is RECOVERING
        breaker = succeed(breaker) if is_good else fail(breaker, now)
        in_a_row = in_a_row + 1 if is_good else 0
        if in_a_row == needed:
            assert breaker.state(now) is PRIMARY
            return
        assert breaker.state(now + 60.0) is RECOVERING
