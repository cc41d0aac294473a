"""Why something was cancelled: what is taken for a reason, how it reads, and how urgencies compare."""

from __future__ import annotations

import typing

import pytest

from loopctl.errors import UsageError
from loopctl.record import CancelReason, Origin, Urgency


def test_nothing_and_a_text_mean_that_the_user_asked():
    assert CancelReason.of(None) == CancelReason("user", "")
    assert CancelReason.of("pressed stop") == CancelReason("user", "pressed stop")
    assert CancelReason.of("") == CancelReason("user", "")


def test_a_reason_is_taken_as_it_is():
    reason = CancelReason("deadline", "10 s")

    assert CancelReason.of(reason) is reason


@pytest.mark.parametrize("value", [5, b"stop", ValueError("x"), True, Urgency.STOP, ["user"]])
def test_anything_else_is_no_reason(value):
    with pytest.raises(UsageError, match=f"not {type(value).__name__}"):
        CancelReason.of(value)


def test_the_origins_are_those_of_the_contract():
    assert typing.get_args(Origin) == (
        "user",
        "deadline",
        "stall",
        "budget",
        "disconnect",
        "shutdown",
        "observer",
        "caller",
        "parent",
    )
    assert [CancelReason(origin).origin for origin in typing.get_args(Origin)] == list(typing.get_args(Origin))


@pytest.mark.parametrize("origin", ["", "USER", "timeout", None])
def test_an_origin_that_nobody_could_count_is_refused_with_the_known_ones(origin):
    with pytest.raises(UsageError, match=r"unknown cancel origin .*one of budget, caller, deadline"):
        CancelReason(origin)


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        (CancelReason(), "user"),
        (CancelReason("stall", "no event for 60 s"), "stall: no event for 60 s"),
        (CancelReason("user", "stop", "ann"), "user: stop (by ann)"),
        (CancelReason("shutdown", requested_by="systemd"), "shutdown (by systemd)"),
    ],
)
def test_a_reason_reads_as_a_person_would_say_it(reason, text):
    assert str(reason) == text


def test_a_reason_as_json():
    assert CancelReason("user", "stop", "ann").to_json() == {"origin": "user", "message": "stop", "requested_by": "ann"}


def test_equal_reasons_are_one_in_a_set():
    assert len({CancelReason("user", "a"), CancelReason("user", "a"), CancelReason("user", "b")}) == 2


def test_urgencies_rise_from_drain_over_stop_to_abandon():
    assert sorted(Urgency) == [Urgency.DRAIN, Urgency.STOP, Urgency.ABANDON]
