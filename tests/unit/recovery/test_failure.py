"""What kind of failure a model request ended in: by status and marks alone."""

from __future__ import annotations

import inspect
import math

import pytest
from hypothesis import given, strategies as st

from loopctl.recovery import Failure, FailureKind, classify

TRANSPORT, RATE_LIMIT, PERMANENT = FailureKind


@pytest.mark.parametrize(
    ("status", "retryable", "kind"),
    [
        (408, True, TRANSPORT),
        (409, True, TRANSPORT),
        (425, True, TRANSPORT),
        (500, True, TRANSPORT),
        (502, True, TRANSPORT),
        (504, True, TRANSPORT),
        (520, True, TRANSPORT),
        (599, True, TRANSPORT),
        (None, True, TRANSPORT),  # no connection, a timeout, a truncated reply
        (200, True, TRANSPORT),  # it began well and broke
        (429, True, RATE_LIMIT),
        (503, True, RATE_LIMIT),
        (529, True, RATE_LIMIT),
        (400, True, PERMANENT),
        (401, True, PERMANENT),
        (403, True, PERMANENT),
        (404, True, PERMANENT),
        (410, True, PERMANENT),
        (413, True, PERMANENT),
        (422, True, PERMANENT),
        (499, True, PERMANENT),
        (None, False, PERMANENT),
        (200, False, PERMANENT),
        (302, False, PERMANENT),
        (401, False, PERMANENT),
        (429, False, PERMANENT),  # an account without quota
        (500, False, PERMANENT),  # a server that says: do not retry
    ],
)
def test_the_status_and_the_mark_decide_the_kind(status, retryable, kind):
    assert classify(status, retryable=retryable) == Failure(kind)


def test_no_text_can_take_part():
    assert list(inspect.signature(classify).parameters) == ["status", "retryable", "retry_after"]


@given(st.none() | st.integers(100, 599), st.none() | st.floats(0, 1e9))
def test_what_the_models_side_calls_final_is_final(status, retry_after):
    assert classify(status, retryable=False, retry_after=retry_after).kind is PERMANENT


@pytest.mark.parametrize("said", [0, 0.5, 7, 60.0, 1e9, math.inf])
def test_a_wait_is_kept_as_it_was_asked_for(said):
    assert classify(429, retryable=True, retry_after=said).retry_after == said


@pytest.mark.parametrize("said", [None, -1, -0.001, math.nan, -math.inf, "7"])
def test_an_impossible_wait_counts_as_not_said(said):
    assert classify(429, retryable=True, retry_after=said).retry_after is None
