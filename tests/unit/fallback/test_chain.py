"""The chain of models: which one a turn asks, which one after it, and what the reports do."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

from loopctl.errors import UsageError
from loopctl.fallback import Breaker, BreakerConfig, BreakerState, Chain, Route

PAIR = Chain.of(["good", "cheap"])
THREE = Chain.of(["a", "b", "c"])


def fail_turns(chain, index, *, times=3, now=0.0):
    """Let the model at *index* fail in some turns."""
    for _ in range(times):
        chain = chain.failed(Route(index, chain.breakers[index].generation), now)
    return chain


def walk(chain, now):
    """The models that a turn asks if each of them fails."""
    asked, route = [], chain.route(now)
    while route is not None:
        asked.append(route.index)
        route = chain.next_after(route, now)
    return asked


def test_a_turn_asks_the_preferred_model_first_and_after_failures_the_others_in_order():
    assert THREE.route(0.0) == Route(0)
    assert THREE.next_after(Route(0), 0.0) == Route(1)
    assert THREE.next_after(Route(1), 0.0) == Route(2)
    assert THREE.next_after(Route(2), 0.0) is None


def test_a_chain_of_one_model_is_that_model_whatever_happens():
    alone = Chain.of(["only"])

    assert alone.failed(Route(0), 0.0) is alone.succeeded(Route(0)) is alone
    assert walk(alone, 0.0) == [0]
    assert alone.state(0.0) is BreakerState.PRIMARY


def test_after_three_failed_turns_the_next_turns_go_past_the_model():
    chain = fail_turns(PAIR, 0, times=2)
    assert walk(chain, 0.0) == [0, 1]

    chain = fail_turns(chain, 0, times=1, now=10.0)

    assert walk(chain, 10.0) == walk(chain, 69.9) == [1]
    assert chain.state(10.0) is BreakerState.FALLBACK
    assert chain.route(70.0) == Route(0, 1, is_probe=True)
    assert chain.state(70.0) is BreakerState.RECOVERING


def test_a_failed_probe_still_has_the_next_model_in_the_same_turn():
    chain = fail_turns(PAIR, 0)
    probe = chain.route(60.0)
    chain = chain.failed(probe, 61.0)

    assert chain.next_after(probe, 61.0) == Route(1)
    assert walk(chain, 120.9) == [1]
    assert walk(chain, 121.0) == [0, 1]


def test_two_good_probes_bring_the_model_back():
    chain = fail_turns(PAIR, 0)
    for _ in range(2):
        assert chain.route(60.0).is_probe
        chain = chain.succeeded(chain.route(60.0))

    assert chain.route(60.0) == Route(0, 2)
    assert chain.state(60.0) is BreakerState.PRIMARY


def test_a_model_behind_the_first_is_gone_past_too():
    chain = fail_turns(THREE, 1)

    assert walk(chain, 0.0) == [0, 2]
    assert chain.state(0.0) is BreakerState.PRIMARY, "told is how the preferred model stands"
    assert walk(fail_turns(chain, 0), 0.0) == [2]
    assert walk(chain, 60.0) == [0, 1, 2]
    assert chain.next_after(Route(0), 60.0) == Route(1, 1, is_probe=True)


def test_the_last_model_is_never_gone_past():
    for _ in range(9):
        assert PAIR.failed(Route(1), 0.0) is PAIR

    assert walk(PAIR, 0.0) == [0, 1]


def test_one_model_failing_does_not_count_for_another():
    chain = fail_turns(fail_turns(THREE, 0, times=2), 1, times=2)

    assert walk(chain, 0.0) == [0, 1, 2]
    assert walk(fail_turns(chain, 1, times=1), 0.0) == [0, 2]


def test_asking_changes_nothing_so_a_turn_that_is_cancelled_feeds_nothing():
    chain = fail_turns(THREE, 0)
    before = json.dumps(chain.to_json())
    for now in (0.0, 60.0, 100.0):
        walk(chain, now)

    assert json.dumps(chain.to_json()) == before


def test_the_report_of_a_slow_turn_from_before_the_trip_is_void():
    slow = PAIR.route(0.0)
    chain = fail_turns(PAIR, 0)

    assert chain.succeeded(slow) is chain
    assert chain.failed(slow, 100.0) is chain


def test_a_report_that_changes_nothing_gives_the_same_value():
    assert PAIR.succeeded(Route(0)) is PAIR


def test_a_lost_report_costs_one_count():
    """Two threads read the same value, report, and assign: the first one's report is gone, and nothing else."""
    shared = fail_turns(PAIR, 0, times=1)
    _lost, kept = fail_turns(shared, 0, times=1), fail_turns(shared, 0, times=1)

    assert walk(kept, 0.0) == [0, 1]
    assert walk(fail_turns(kept, 0, times=1), 0.0) == [1]


def test_the_breakers_can_be_configured():
    chain = Chain.of(["a", "b"], BreakerConfig(failures=1, cooldown=5.0, probes=1))
    chain = fail_turns(chain, 0, times=1)

    assert walk(chain, 4.9) == [1]
    assert chain.succeeded(chain.route(5.0)).route(5.0) == Route(0, 2)


@pytest.mark.parametrize("models", [[], "good", [None]])
def test_a_chain_needs_the_names_of_models(models):
    with pytest.raises(UsageError, match="name"):
        Chain.of(models)


@pytest.mark.parametrize(
    ("models", "breakers"), [(("a", "b"), ()), (("a",), (Breaker(),)), (("a", "b"), (None,)), (("a", "b"), ("x", "y"))]
)
def test_a_chain_needs_a_breaker_for_each_model_but_the_last(models, breakers):
    with pytest.raises(UsageError, match=r"breakers: make chains by Chain\.of"):
        Chain(models, breakers)


def test_a_route_of_a_longer_chain_is_refused():
    for use in (PAIR.succeeded, lambda route: PAIR.failed(route, 0.0), lambda route: PAIR.next_after(route, 0.0)):
        with pytest.raises(UsageError, match=r"not of this chain, which has 2 models"):
            use(Route(2))


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("index", {"index": -1}),
        ("generation", {"index": 0, "generation": -1}),
        ("is_probe", {"index": 0, "is_probe": 1}),
    ],
)
def test_a_route_that_cannot_be_is_refused(name, values):
    with pytest.raises(UsageError, match=f"Route.{name} is "):
        Route(**values)


@pytest.mark.parametrize("value", [THREE, PAIR.route(0.0)])
def test_what_was_not_stored_by_us_is_not_read(value):
    kind, stored = type(value), value.to_json()
    for wrong in (None, [], "x", {}, stored | {"more": 1}, {key: stored[key] for key in list(stored)[1:]}):
        with pytest.raises(UsageError, match=f"not a stored {kind.__name__}"):
            kind.from_json(wrong)


@pytest.mark.parametrize("wrong", [{"models": "abc"}, {"breakers": {}}])
def test_a_stored_chain_holds_lists(wrong):
    with pytest.raises(UsageError, match="models and breakers are no lists"):
        Chain.from_json(THREE.to_json() | wrong)


@given(st.data(), st.integers(1, 5))
def test_whatever_happened_a_turn_asks_each_model_at_most_once_in_order_and_the_last_one_always(data, size):
    chain, now = Chain.of([f"model {number}" for number in range(size)]), 0.0
    for _ in range(data.draw(st.integers(0, 25))):
        now += data.draw(st.sampled_from([0.0, 1.0, 59.0, 60.0, 200.0]))
        asked = walk(chain, now)
        assert asked == sorted(set(asked))
        assert asked[-1] == size - 1
        assert chain.route(now).index == asked[0]
        route = chain.route(now)
        while route is not None:
            tripped = chain.breakers[route.index].tripped_at if route.index < size - 1 else None
            assert route.is_probe == (tripped is not None)
            assert tripped is None or now - tripped >= 60.0
            assert Route.from_json(json.loads(json.dumps(route.to_json()))) == route
            how = data.draw(st.sampled_from(["good", "failed", "failed", "cancelled"]))
            if how == "failed":
                chain = chain.failed(route, now)
                route = chain.next_after(route, now)
            else:
                chain = chain.succeeded(route) if how == "good" else chain
                break
        assert Chain.from_json(json.loads(json.dumps(chain.to_json()))) == chain
