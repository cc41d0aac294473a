"""`with_unique_ids`: bad ids are replaced, good ones never change."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from loopctl.brain import with_unique_ids
from loopctl.messages import AssistantMessage, Text, ToolCall


def reply_of(*ids):
    return AssistantMessage(tuple(ToolCall(call_id, f"tool{index}") for index, call_id in enumerate(ids)))


def ids_of(reply):
    return [call.id for call in reply.tool_calls]


@pytest.mark.parametrize(
    ("ids", "taken", "expected"),
    [
        (["a", "b"], set(), ["a", "b"]),
        (["", ""], set(), ["call_1", "call_2"]),
        (["a", "a", "a"], set(), ["a", "a_2", "a_3"]),
        (["a"], {"a"}, ["a_2"]),
        (["a"], {"a", "a_2"}, ["a_3"]),
        (["a", "a", "a_2"], set(), ["a", "a_3", "a_2"]),
        (["", "call_1"], set(), ["call_2", "call_1"]),
        ([""], {"call_1"}, ["call_2"]),
        (["a_2", "a"], {"a"}, ["a_2", "a_3"]),
    ],
)
def test_bad_ids_are_replaced_and_good_ones_stay(ids, taken, expected):
    assert ids_of(with_unique_ids(reply_of(*ids), taken)) == expected


def test_a_reply_with_good_ids_is_given_back_itself():
    reply = reply_of("a", "b")

    assert with_unique_ids(reply, {"c"}) is reply


def test_only_ids_change():
    call = ToolCall("a", "fetch", {"url": "x"}, "raw")
    reply = AssistantMessage((Text("one"), call, Text("two"), call))

    renamed = with_unique_ids(reply, frozenset())

    assert renamed.blocks == (Text("one"), call, Text("two"), ToolCall("a_2", "fetch", {"url": "x"}, "raw"))


some_ids = st.sampled_from(["", "a", "a_2", "a_3", "a_2_2", "call_1", "call_2"]) | st.text(max_size=3)


@given(st.lists(some_ids, max_size=6), st.sets(some_ids, max_size=4))
def test_all_ids_come_out_non_empty_and_unique_and_a_second_pass_changes_nothing(ids, taken):
    renamed = with_unique_ids(reply_of(*ids), taken)
    found = ids_of(renamed)

    assert len(set(found)) == len(ids)
    assert not set(found) & (taken | {""})
    assert with_unique_ids(renamed, taken) is renamed
    assert [old for old, new in zip(ids, found, strict=True) if old == new] == [
        call_id for index, call_id in enumerate(ids) if call_id and call_id not in taken and call_id not in ids[:index]
    ]
