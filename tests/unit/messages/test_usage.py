"""Usage: sums, and the difference between none and unknown."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from loopctl.messages import Usage

counts = st.none() | st.integers(0, 10**9)
usages = st.builds(Usage, counts, counts, st.booleans())


@pytest.mark.parametrize(
    ("usage", "total"),
    [
        (Usage(), None),
        (Usage(3), 3),
        (Usage(None, 4), 4),
        (Usage(3, 4), 7),
        (Usage(0, 0), 0),
    ],
)
def test_the_total_is_what_is_known_and_unknown_is_not_zero(usage, total):
    assert usage.total_tokens == total


@pytest.mark.parametrize(
    ("left", "right", "total"),
    [
        (Usage(1, 2), Usage(10, 20), Usage(11, 22)),
        (Usage(1, 2), Usage(), Usage(1, 2)),
        (Usage(1), Usage(None, 2), Usage(1, 2)),
        (Usage(), Usage(), Usage()),
        (Usage(0), Usage(), Usage(0)),
        (Usage(1, 2), Usage(is_partial=True), Usage(1, 2, is_partial=True)),
    ],
)
def test_a_sum_keeps_what_is_known_and_the_partial_mark(left, right, total):
    assert left + right == total
    assert right + left == total


@given(usages, usages, usages)
def test_a_sum_does_not_depend_on_how_it_is_grouped_and_nothing_is_its_zero(one, two, three):
    assert (one + two) + three == one + (two + three)
    assert sum([one, two], Usage()) == one + two


def test_usage_as_json_says_null_for_unknown():
    assert Usage(None, 4, is_partial=True).to_json() == {
        "input_tokens": None,
        "output_tokens": 4,
        "is_partial": True,
    }
