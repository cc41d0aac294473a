"""What follows a failed model request: the formulas, the order, and that no budget is exceeded."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, strategies as st

from loopctl.errors import UsageError
from loopctl.recovery import Budget, Escalate, Failure, FailureKind, ModelRecovery, Rescue, Retry

LOST = Failure(FailureKind.TRANSPORT)
LIMITED = Failure(FailureKind.RATE_LIMIT)
FINAL = Failure(FailureKind.PERMANENT)
DEFAULT = ModelRecovery()


def decide(failure, budget=None, recovery=DEFAULT, *, jitter=0.0, can_rescue=False, is_probe=False):
    budget = Budget() if budget is None else budget
    return recovery.decide(budget, failure, jitter=jitter, can_rescue=can_rescue, is_probe=is_probe)


def limited(seconds):
    return Failure(FailureKind.RATE_LIMIT, seconds)


@pytest.mark.parametrize(
    ("retry", "jitter", "wait"),
    [
        (0, 0.0, 0.1),
        (1, 0.0, 0.2),
        (2, 0.0, 0.4),
        (0, 0.1, 0.11),
        (1, 0.1, 0.22),
        (2, 0.1, 0.44),
        (0, -0.1, 0.09),
        (1, -0.1, 0.18),
        (2, -0.1, 0.36),
        (1, 0.05, 0.21),
    ],
)
def test_the_waits_of_the_three_transport_retries(retry, jitter, wait):
    decision = decide(LOST, Budget(transport_retries=retry), jitter=jitter)

    assert decision == Retry(pytest.approx(wait, rel=1e-12), Budget(transport_retries=retry + 1))


@pytest.mark.parametrize(
    ("retry", "jitter", "wait"), [(6, 0.0, 6.4), (7, 0.0, 10.0), (8, 0.1, 11.0), (60, -0.1, 9.0), (5000, 0.0, 10.0)]
)
def test_a_wait_grows_to_ten_seconds_and_the_jitter_comes_on_top(retry, jitter, wait):
    patient = ModelRecovery(transport_retries=10_000)

    assert decide(LOST, Budget(retry), patient, jitter=jitter).after == pytest.approx(wait, rel=1e-12)


def test_after_three_transport_retries_the_model_is_given_up():
    assert decide(LOST, Budget(transport_retries=3)) == Escalate("spent")


@pytest.mark.parametrize(("asked", "wait"), [(None, 5.0), (0.0, 0.0), (0.25, 0.25), (5, 5), (59.9, 59.9), (60.0, 60.0)])
@pytest.mark.parametrize("used", [0, 1, 2])
@pytest.mark.parametrize("jitter", [-0.1, 0.1])
def test_a_rate_limit_waits_as_it_was_asked_to_without_jitter(asked, wait, used, jitter):
    decision = decide(limited(asked), Budget(rate_limit_retries=used), jitter=jitter)

    assert decision == Retry(wait, Budget(rate_limit_retries=used + 1))


@pytest.mark.parametrize("asked", [60.001, 61, 3600.0, math.inf])
def test_a_longer_wait_than_a_minute_escalates_at_once(asked):
    assert decide(limited(asked)) == Escalate("wait_too_long")


def test_after_three_rate_limit_retries_the_model_is_given_up():
    assert decide(LIMITED, Budget(rate_limit_retries=3)) == Escalate("spent")


def test_the_two_budgets_take_nothing_from_each_other():
    assert decide(LIMITED, Budget(transport_retries=3)) == Retry(5.0, Budget(3, 1))
    assert decide(LOST, Budget(rate_limit_retries=3)) == Retry(0.1, Budget(1, 3))


@pytest.mark.parametrize("budget", [Budget(), Budget(2, 1), Budget(3, 0, is_rescued=True)])
@pytest.mark.parametrize("can_rescue", [False, True])
def test_a_permanent_failure_is_never_tried_again(budget, can_rescue):
    assert decide(FINAL, budget, can_rescue=can_rescue) == Escalate("permanent")


def test_one_rescue_follows_when_streaming_gave_up():
    assert decide(LOST, Budget(3, 1), can_rescue=True) == Rescue(Budget(3, 1, is_rescued=True))


def test_streaming_is_tried_to_the_end_before_the_rescue():
    assert decide(LOST, Budget(2), can_rescue=True) == Retry(0.4, Budget(3))


@pytest.mark.parametrize("failure", [LIMITED, limited(1.0), limited(61.0)])
def test_no_rescue_for_a_rate_limit(failure):
    assert isinstance(decide(failure, Budget(3, 3), can_rescue=True), Escalate)


@pytest.mark.parametrize("failure", [LOST, LIMITED, limited(0.0)])
def test_nothing_follows_a_failed_rescue(failure):
    assert decide(failure, Budget(is_rescued=True), can_rescue=True) == Escalate("rescue_failed")


def test_the_rescue_can_be_turned_off():
    assert decide(LOST, Budget(3), ModelRecovery(rescue=False), can_rescue=True) == Escalate("spent")


def test_a_probe_does_not_wait_for_a_rate_limit_but_tries_a_lost_request_again():
    assert decide(limited(1.0), is_probe=True) == Escalate("probe")
    assert decide(LOST, is_probe=True) == Retry(0.1, Budget(1))


def test_without_retries_the_first_failure_is_the_last():
    once = ModelRecovery(transport_retries=0, rate_limit_retries=0)

    assert decide(LOST, recovery=once) == decide(LIMITED, recovery=once) == Escalate("spent")
    assert decide(LOST, recovery=once, can_rescue=True) == Rescue(Budget(is_rescued=True))


def test_every_number_can_be_configured():
    own = ModelRecovery(
        transport_retries=1,
        first_delay=1.0,
        max_delay=1.5,
        jitter=0.5,
        rate_limit_retries=1,
        rate_limit_delay=2.0,
        max_rate_limit_delay=3.0,
    )

    assert decide(LOST, recovery=own, jitter=0.5) == Retry(1.5, Budget(1))
    assert decide(LOST, Budget(1), own) == Escalate("spent")
    assert decide(LIMITED, recovery=own) == Retry(2.0, Budget(0, 1))
    assert decide(LIMITED, Budget(0, 1), own) == Escalate("spent")
    assert decide(limited(3.1), recovery=own) == Escalate("wait_too_long")


@pytest.mark.parametrize("jitter", [0.11, -0.1000001, math.nan, math.inf, "0", True])
@pytest.mark.parametrize("failure", [LOST, LIMITED, FINAL])
def test_a_jitter_out_of_its_range_is_refused(jitter, failure):
    with pytest.raises(UsageError, match=r"jitter is .*draw it from -0\.1 to 0\.1"):
        decide(failure, jitter=jitter)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("transport_retries", -1),
        ("transport_retries", 1.0),
        ("transport_retries", True),
        ("rate_limit_retries", -1),
        ("rate_limit_retries", None),
        ("first_delay", -0.1),
        ("first_delay", math.nan),
        ("first_delay", "1"),
        ("first_delay", 10.5),
        ("max_delay", math.inf),
        ("max_delay", True),
        ("rate_limit_delay", -1),
        ("rate_limit_delay", 61),
        ("max_rate_limit_delay", math.inf),
        ("jitter", -0.1),
        ("jitter", 1.1),
        ("jitter", True),
        ("rescue", 1),
    ],
)
def test_a_value_that_cannot_be_is_refused_by_its_name(name, value):
    with pytest.raises(UsageError, match=f"ModelRecovery.{name} is "):
        ModelRecovery(**{name: value})


@pytest.mark.parametrize(
    ("budget", "attempt"), [(Budget(), 1), (Budget(2), 3), (Budget(0, 3), 4), (Budget(3, 2, is_rescued=True), 7)]
)
def test_a_budget_counts_the_request_that_it_allows(budget, attempt):
    assert budget.attempt == attempt


@pytest.mark.parametrize(
    "values", [{"transport_retries": -1}, {"rate_limit_retries": "1"}, {"transport_retries": True}, {"is_rescued": 1}]
)
def test_a_budget_that_cannot_be_is_refused_by_its_name(values):
    with pytest.raises(UsageError, match=f"Budget.{next(iter(values))} is "):
        Budget(**values)


failures = st.builds(Failure, st.sampled_from(FailureKind), st.none() | st.floats(0, 120))
seconds = st.floats(0, 100)
recoveries = st.builds(
    lambda transport, limits, delays, waits, jitter, rescue: ModelRecovery(
        transport_retries=transport,
        rate_limit_retries=limits,
        first_delay=min(delays),
        max_delay=max(delays),
        rate_limit_delay=min(waits),
        max_rate_limit_delay=max(waits),
        jitter=jitter,
        rescue=rescue,
    ),
    st.integers(0, 5),
    st.integers(0, 5),
    st.tuples(seconds, seconds),
    st.tuples(seconds, seconds),
    st.floats(0, 1),
    st.booleans(),
)


@given(recoveries, st.data(), st.booleans(), st.booleans())
def test_a_turn_of_a_model_stays_within_its_bounds_whatever_fails(recovery, data, can_rescue, is_probe):
    budget, requests, rescues, retries = Budget(), 1, 0, dict.fromkeys(FailureKind, 0)
    while True:
        failure = data.draw(failures)
        jitter = data.draw(st.floats(-recovery.jitter, recovery.jitter))
        decision = decide(failure, budget, recovery, jitter=jitter, can_rescue=can_rescue, is_probe=is_probe)
        assert decide(failure, budget, recovery, jitter=jitter, can_rescue=can_rescue, is_probe=is_probe) == decision
        if isinstance(decision, Escalate):
            break
        budget = Budget.from_json(json.loads(json.dumps(decision.budget.to_json())))
        assert budget == decision.budget
        requests += 1
        assert budget.attempt == requests
        assert rescues == 0, "something followed the rescue"
        if isinstance(decision, Rescue):
            rescues += 1
            assert (can_rescue, failure.kind) == (True, FailureKind.TRANSPORT)
            assert retries[FailureKind.TRANSPORT] == recovery.transport_retries
        else:
            retries[failure.kind] += 1
            longest = recovery.max_delay * (1 + recovery.jitter)
            assert 0 <= decision.after <= max(longest, recovery.max_rate_limit_delay)
    assert retries[FailureKind.TRANSPORT] <= recovery.transport_retries
    assert retries[FailureKind.RATE_LIMIT] <= (0 if is_probe else recovery.rate_limit_retries)
    assert retries[FailureKind.PERMANENT] == 0


@given(recoveries)
def test_the_policy_can_be_stored_and_read_again(recovery):
    assert ModelRecovery.from_json(json.loads(json.dumps(recovery.to_json()))) == recovery


@pytest.mark.parametrize("kind", [Budget, ModelRecovery])
def test_what_was_not_stored_by_us_is_not_read(kind):
    stored = kind().to_json()
    name = next(iter(stored))
    for value in (None, [], "x", {}, stored | {"more": 1}, {key: stored[key] for key in stored if key != name}):
        with pytest.raises(UsageError, match=f"not a stored {kind.__name__}"):
            kind.from_json(value)
    with pytest.raises(UsageError, match=f"{kind.__name__}.{name} is None"):
        kind.from_json(stored | {name: None})
