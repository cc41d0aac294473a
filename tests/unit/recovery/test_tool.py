"""What follows a failed tool call: the strategy decides, within bounds that hold for each strategy."""

from __future__ import annotations

import functools
import math

import pytest
from hypothesis import given, strategies as st

from loopctl.errors import ToolError, UsageError
from loopctl.messages import ToolCall
from loopctl.recovery import (
    GiveToModel,
    ModelRecovery,
    Recovery,
    RetryCall,
    ToolFailure,
    ToolGivenUp,
    ToolRecovery,
    ToolRetry,
    give_to_model,
    retry_transient,
)

CALL = ToolCall("a", "fetch", {"url": "x"})
ALWAYS = ToolRecovery(strategy=lambda _failure: RetryCall())


def failed(attempt=1, error=None, *, call=CALL, is_running=False):
    return ToolFailure(call, "it broke", attempt, error, is_running=is_running)


def test_by_default_nothing_is_tried_again():
    for error in (None, ConnectionError("reset"), ToolError("no")):
        assert ToolRecovery().decide(failed(error=error), jitter=0.0) == ToolGivenUp("it broke")


@pytest.mark.parametrize(
    ("attempt", "jitter", "wait"),
    [
        (1, 0.0, 0.1),
        (2, 0.0, 0.2),
        (3, 0.0, 0.4),
        (4, 0.0, 0.8),
        (1, 0.1, 0.11),
        (4, 0.1, 0.88),
        (2, -0.1, 0.18),
        (1, -0.1, 0.1),  # never below the shortest
    ],
)
def test_the_backoff_doubles_from_a_tenth_of_a_second(attempt, jitter, wait):
    decision = ALWAYS.decide(failed(attempt), jitter=jitter)

    assert decision == ToolRetry(pytest.approx(wait, rel=1e-12), {"url": "x"})


@pytest.mark.parametrize(
    ("attempt", "jitter", "wait"), [(1, 0.0, 8.0), (2, 0.1, 17.6), (3, 0.0, 30.0), (4, 0.1, 30.0), (4, -0.1, 27.0)]
)
def test_the_backoff_never_exceeds_thirty_seconds(attempt, jitter, wait):
    slow = ToolRecovery(strategy=lambda _failure: RetryCall(), first_delay=8.0)

    assert slow.decide(failed(attempt), jitter=jitter).after == pytest.approx(wait, rel=1e-12)


def test_a_call_is_tried_five_times_and_the_strategy_is_not_asked_after_the_last():
    asked = []

    def insist(failure):
        asked.append(failure.attempt)
        return RetryCall(0.0)

    decisions = [ToolRecovery(strategy=insist).decide(failed(number), jitter=0.0) for number in range(1, 8)]

    assert [isinstance(decision, ToolRetry) for decision in decisions] == [True] * 4 + [False] * 3
    assert asked == [1, 2, 3, 4]


def test_the_ceiling_can_be_lowered_and_not_raised():
    twice = ToolRecovery(strategy=lambda _failure: RetryCall(0.0), max_attempts=2)

    assert isinstance(twice.decide(failed(1), jitter=0.0), ToolRetry)
    assert twice.decide(failed(2), jitter=0.0) == ToolGivenUp("it broke")
    with pytest.raises(UsageError, match=r"max_attempts is 6: give a whole number from 1 to 5"):
        ToolRecovery(max_attempts=6)


def test_no_retry_begins_while_the_attempt_is_still_running():
    assert ALWAYS.decide(failed(is_running=True), jitter=0.0) == ToolGivenUp("it broke")


@pytest.mark.parametrize("after", [0, 0.0, 0.01, 31.0, 3600])
def test_a_wait_that_the_strategy_gives_is_taken_as_it_is(after):
    recovery = ToolRecovery(strategy=lambda _failure: RetryCall(after))

    assert recovery.decide(failed(2), jitter=0.1).after == after


def test_a_strategy_sees_the_failure_and_can_correct_the_arguments():
    error, seen = ToolError("no"), []

    def correct(failure):
        seen.append(failure)
        return RetryCall(arguments={"url": "https://x"})

    decision = ToolRecovery(strategy=correct).decide(failed(1, error), jitter=0.0)

    assert decision == ToolRetry(0.1, {"url": "https://x"})
    assert seen == [ToolFailure(CALL, "it broke", 1, error)]


def test_corrected_arguments_may_be_none_at_all():
    recovery = ToolRecovery(strategy=lambda _failure: RetryCall(arguments={}))

    assert recovery.decide(failed(), jitter=0.0).arguments == {}


@pytest.mark.parametrize(("text", "told"), [(None, "it broke"), ("try later", "try later"), ("", "")])
def test_a_strategy_can_choose_what_the_model_is_told(text, told):
    recovery = ToolRecovery(strategy=lambda _failure: GiveToModel(text))

    assert recovery.decide(failed(), jitter=0.0) == ToolGivenUp(told)


@pytest.mark.parametrize("answer", [None, True, "retry", RetryCall, 0.5])
def test_an_answer_that_is_no_decision_is_refused_with_the_tools_name(answer):
    with pytest.raises(UsageError, match=r"answered .* to a failure of fetch: return a RetryCall or a GiveToModel"):
        ToolRecovery(strategy=lambda _failure: answer).decide(failed(), jitter=0.0)


def test_what_a_strategy_raises_goes_through():
    def broken(_failure):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        ToolRecovery(strategy=broken).decide(failed(), jitter=0.0)


@pytest.mark.parametrize("jitter", [0.2, -0.2, math.nan])
def test_a_jitter_out_of_its_range_is_refused(jitter):
    with pytest.raises(UsageError, match="the jitter is"):
        ToolRecovery().decide(failed(), jitter=jitter)


async def _asynchronous(_failure):
    return GiveToModel()


class _AsyncStrategy:
    async def __call__(self, _failure):
        return GiveToModel()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("strategy", None),
        ("strategy", "retry"),
        ("strategy", _asynchronous),
        ("strategy", functools.partial(_asynchronous)),
        ("strategy", _AsyncStrategy()),
        ("max_attempts", 0),
        ("max_attempts", True),
        ("first_delay", -1),
        ("first_delay", 31),
        ("max_delay", math.inf),
        ("jitter", 2),
    ],
)
def test_a_value_that_cannot_be_is_refused_by_its_name(name, value):
    with pytest.raises(UsageError, match=f"ToolRecovery.{name} is "):
        ToolRecovery(**{name: value})


@pytest.mark.parametrize(
    ("wish", "name", "value"),
    [
        (RetryCall, "after", -1),
        (RetryCall, "after", math.nan),
        (RetryCall, "after", math.inf),
        (RetryCall, "after", "1"),
        (RetryCall, "arguments", ["url"]),
        (GiveToModel, "text", 5),
    ],
)
def test_a_wish_that_cannot_be_is_refused(wish, name, value):
    with pytest.raises(UsageError, match=rf"{wish.__name__}\.{name} is "):
        wish(**{name: value})


@given(
    st.integers(1, 9),
    st.integers(1, 5),
    st.tuples(st.floats(0, 50), st.floats(0, 50)),
    st.floats(0, 1),
    st.data(),
    st.none() | st.floats(0, 1000),
)
def test_every_decision_is_within_the_bounds(attempt, most, delays, part, data, after):
    recovery = ToolRecovery(
        strategy=lambda _failure: RetryCall(after),
        max_attempts=most,
        first_delay=min(delays),
        max_delay=max(delays),
        jitter=part,
    )
    decision = recovery.decide(failed(attempt), jitter=data.draw(st.floats(-part, part)))

    assert isinstance(decision, ToolRetry) == (attempt < most)
    if isinstance(decision, ToolRetry):
        assert decision.after == after if after is not None else min(delays) <= decision.after <= max(delays)


@pytest.mark.parametrize(
    ("error", "is_retried"),
    [
        (ConnectionResetError(), True),
        (TimeoutError(), True),
        (ToolError("no"), False),
        (OSError("disk full"), False),
        (FileNotFoundError(), False),
        (None, False),
    ],
)
def test_only_what_tends_to_pass_is_tried_again(error, is_retried):
    assert isinstance(retry_transient()(failed(1, error)), RetryCall) == is_retried


@pytest.mark.parametrize("times", [1, 2, 4])
def test_it_is_tried_again_as_often_as_was_said(times):
    strategy = retry_transient(times=times)
    answers = [strategy(failed(number, TimeoutError())) for number in range(1, 7)]

    assert answers == [RetryCall()] * times + [GiveToModel()] * (6 - times)


def test_only_the_named_tools_and_errors_are_tried_again():
    strategy = retry_transient(tools=["fetch"], on=(LookupError,))
    charge = ToolCall("b", "charge", {})

    assert strategy(failed(1, KeyError())) == RetryCall()
    assert strategy(failed(1, TimeoutError())) == GiveToModel()
    assert strategy(failed(1, KeyError(), call=charge)) == GiveToModel()
    assert retry_transient(tools=[])(failed(1, TimeoutError())) == GiveToModel()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("times", 0),
        ("times", 5),
        ("times", True),
        ("on", ConnectionError),
        ("on", (ConnectionError, "x")),
        ("on", (KeyboardInterrupt,)),
        ("tools", "fetch"),
    ],
)
def test_an_argument_that_cannot_be_is_refused_by_its_name(name, value):
    with pytest.raises(UsageError, match=rf"retry_transient\({name}=…\) is "):
        retry_transient(**{name: value})


def test_an_agent_can_be_given_any_part_of_a_recovery():
    strategy = retry_transient()
    model, tools = ModelRecovery(transport_retries=0), ToolRecovery(max_attempts=2)
    both = Recovery(model=model, tools=tools)

    assert Recovery.of(None) == Recovery() == Recovery(model=ModelRecovery(), tools=ToolRecovery())
    assert Recovery.of(both) is both
    assert Recovery.of(model) == Recovery(model=model)
    assert Recovery.of(tools) == Recovery(tools=tools)
    assert Recovery.of(strategy) == Recovery(tools=ToolRecovery(strategy=strategy))
    assert Recovery().tools.strategy is give_to_model


@pytest.mark.parametrize("value", [3, "retry", ToolRecovery, [give_to_model]])
def test_anything_else_is_no_recovery(value):
    with pytest.raises(UsageError, match="recovery= takes a Recovery"):
        Recovery.of(value)


@pytest.mark.parametrize("name", ["model", "tools"])
def test_a_half_of_another_type_is_refused_by_its_name(name):
    with pytest.raises(UsageError, match=f"Recovery.{name} is None"):
        Recovery(**{name: None})
