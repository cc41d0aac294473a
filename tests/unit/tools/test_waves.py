"""The plan of the waves: which calls of one reply may run at once."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from loopctl import UsageError, tool
from loopctl.tools._waves import Wish, plan

ALONE = Wish()


def beside(*resources: str) -> Wish:
    return Wish(is_parallel=True, resources=frozenset(resources))


@pytest.mark.parametrize(
    ("calls", "waves"),
    [
        ([], ()),
        ([ALONE], ((0,),)),
        ([ALONE, ALONE], ((0,), (1,))),
        ([beside(), beside(), beside()], ((0, 1, 2),)),
        ([beside("a"), beside("a")], ((0,), (1,))),
        ([beside("a"), beside("a"), beside("b")], ((0, 2), (1,))),
        ([beside("a"), beside("a", "b"), beside("b"), beside("c")], ((0, 3), (1,), (2,))),
        ([beside("a"), ALONE, beside("b")], ((0,), (1,), (2,))),
        ([beside("a"), beside("a"), ALONE, beside(), beside("a")], ((0,), (1,), (2,), (3, 4))),
        ([beside(), ALONE, ALONE, beside(), beside()], ((0,), (1,), (2,), (3, 4))),
    ],
)
def test_each_call_goes_into_the_first_wave_that_may_take_it(
    calls: list[Wish], waves: tuple[tuple[int, ...], ...]
) -> None:
    assert plan(calls) == waves


wishes = st.builds(Wish, st.booleans(), st.frozensets(st.sampled_from("abc"), max_size=2))


@given(st.lists(wishes, max_size=12))
def test_no_plan_breaks_a_promise_or_leaves_a_wave_half_empty(calls: list[Wish]) -> None:
    waves = plan(calls)
    of = {index: number for number, wave in enumerate(waves) for index in wave}
    assert sorted(of) == list(range(len(calls)))
    assert all(list(wave) == sorted(wave) for wave in waves)
    for later, call in enumerate(calls):
        before = range(later)
        must_wait = [
            of[earlier]
            for earlier in before
            if call.resources & calls[earlier].resources or not (call.is_parallel and calls[earlier].is_parallel)
        ]
        assert all(number < of[later] for number in must_wait)
        # Greedy: it runs as early as that allows, but for the barriers that everything waits for.
        assert of[later] == max((number + 1 for number in must_wait), default=0)


@given(st.lists(wishes, max_size=12))
def test_a_longer_reply_does_not_change_the_plan_of_its_beginning(calls: list[Wish]) -> None:
    whole = plan(calls)
    for length in range(len(calls)):
        cut = [tuple(index for index in wave if index < length) for wave in whole]
        assert plan(calls[:length]) == tuple(wave for wave in cut if wave)


@pytest.mark.parametrize(
    ("options", "arguments", "wish"),
    [
        ({}, {}, ALONE),
        ({"parallel": True}, {}, beside()),
        ({"parallel": True, "resource": "disk"}, {}, beside("disk")),
        ({"parallel": True, "resource": ("disk", "net")}, {}, beside("disk", "net")),
        ({"resource": lambda a: a["path"]}, {"path": "x"}, Wish(resources=frozenset({"x"}))),
        ({"resource": lambda a: [a["path"], "y"]}, {"path": "x"}, Wish(resources=frozenset({"x", "y"}))),
        ({"resource": lambda a: None}, {}, ALONE),
        ({"parallel": lambda a: a["path"] != "x"}, {"path": "x"}, ALONE),
        ({"parallel": lambda a: a["path"] != "x"}, {"path": "y"}, beside()),
    ],
)
def test_a_tool_says_what_a_call_may_run_beside_and_touches(
    options: dict[str, object], arguments: dict[str, object], wish: Wish
) -> None:
    assert tool(print_path, **options).wish(arguments) == wish  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"parallel": lambda a: "yes"}, "parallel= gave 'yes'"),
        ({"resource": lambda a: 3}, "resource= gave 3"),
        ({"resource": lambda a: ["a", 3]}, r"resource= gave \['a', 3\]"),
    ],
)
def test_what_a_tool_cannot_say_of_a_call_is_named(options: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=f"tool print_path: {words}"):
        tool(print_path, **options).wish({})  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("options", "words"), [({"parallel": "yes"}, "parallel='yes'"), ({"resource": 3}, "resource= gave 3")]
)
def test_what_can_never_be_said_is_refused_when_the_tool_is_made(options: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        tool(**options)  # type: ignore[call-overload]


def print_path(path: str) -> None:
    """Print."""
