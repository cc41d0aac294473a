"""From deltas to a message, whole and partial."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from loopctl.messages import AssistantMessage, Text, Thinking, ToolCall, Usage
from loopctl.model import Delta, ReplyEnd, TextPart, ThinkingPart, ToolCallPart, UsagePart
from loopctl.record import TextDelta, ThinkingDelta
from loopctl.streaming import Accumulator


def folded(*deltas: Delta) -> Accumulator:
    accumulator = Accumulator()
    for delta in deltas:
        accumulator.add(delta)
    return accumulator


def test_pieces_are_joined_and_keep_the_models_order() -> None:
    accumulator = folded(
        ThinkingPart("hm"),
        ThinkingPart("m"),
        TextPart("a"),
        TextPart("b"),
        ToolCallPart(0, "x", "f", '{"n": '),
        ToolCallPart(1, "y", "g", "{}"),
        ToolCallPart(0, arguments="1}"),
        TextPart("c"),
        ReplyEnd("tool_calls"),
    )
    assert accumulator.is_whole
    assert accumulator.seal() == AssistantMessage(
        (Thinking("hmm"), Text("ab"), ToolCall("x", "f", {"n": 1}), ToolCall("y", "g", {}), Text("c"))
    )


def test_each_piece_of_text_is_an_event_and_nothing_else_is() -> None:
    accumulator = Accumulator()
    assert accumulator.add(TextPart("a")) == TextDelta("a")
    assert accumulator.add(ThinkingPart("b")) == ThinkingDelta("b")
    assert accumulator.add(ToolCallPart(0, "x", "f", "{}")) is None
    assert accumulator.add(UsagePart(1, 2)) is None
    assert accumulator.add(ReplyEnd()) is None


def test_the_hot_path_and_add_write_the_same_text() -> None:
    accumulator = Accumulator()
    accumulator.add(TextPart("a"))
    accumulator.text_sink()("b")
    accumulator.add(TextPart("c"))
    assert accumulator.seal().text == "abc"


@pytest.mark.parametrize("arguments", ["", "{", '{"a": 1', "[1]", '"text"', "null"])
def test_a_call_of_an_unfinished_reply_is_dropped_unless_its_arguments_are_whole(arguments: str) -> None:
    assert folded(TextPart("a"), ToolCallPart(0, "x", "f", arguments)).seal() == AssistantMessage((Text("a"),))
    whole = folded(ToolCallPart(0, "x", "f", '{"a": 1}')).seal()
    assert whole.tool_calls == (ToolCall("x", "f", {"a": 1}),)


@pytest.mark.parametrize(("arguments", "invalid"), [("", None), ("  ", None), ("{", "{"), ("[1]", "[1]")])
def test_a_whole_replys_call_keeps_what_cannot_be_read(arguments: str, invalid: str | None) -> None:
    reply = folded(ToolCallPart(0, "x", "f", arguments), ReplyEnd("tool_calls")).seal()
    assert reply.tool_calls == (ToolCall("x", "f", {}, invalid),)


def test_after_the_seal_nothing_changes_any_more() -> None:
    accumulator = folded(TextPart("a"))
    sink = accumulator.text_sink()
    sealed = accumulator.seal()
    sink("late")
    accumulator.add(TextPart("late"))
    accumulator.add(ReplyEnd())
    assert accumulator.seal() is sealed
    assert sealed.text == "a"
    assert not accumulator.is_whole


def test_usage_is_partial_until_all_of_it_is_known() -> None:
    assert folded().usage == Usage(None, None, is_partial=True)
    assert folded(UsagePart(5, None)).usage == Usage(5, None, is_partial=True)
    assert folded(UsagePart(5, None), UsagePart(None, 6)).usage == Usage(5, 6, is_partial=True)
    assert folded(UsagePart(5, 6), ReplyEnd()).usage == Usage(5, 6)
    assert folded(UsagePart(5, 6), UsagePart(None, 7), ReplyEnd()).usage == Usage(5, 7)


def test_something_that_is_no_delta_is_refused() -> None:
    with pytest.raises(TypeError, match="not a Delta"):
        Accumulator().add("text")  # type: ignore[arg-type]


@given(st.lists(st.text(min_size=1), max_size=8), st.lists(st.sampled_from("tkc"), max_size=20))
def test_however_it_is_cut_the_text_is_the_same(pieces: list[str], kinds: list[str]) -> None:
    accumulator = Accumulator()
    said = thought = ""
    for number, kind in enumerate(kinds):
        piece = pieces[number % len(pieces)] if pieces else ""
        if kind == "t":
            said += piece
            accumulator.add(TextPart(piece))
        elif kind == "k":
            thought += piece
            accumulator.add(ThinkingPart(piece))
        else:
            accumulator.add(ToolCallPart(number, f"id{number}", "f", "{}"))
    reply = accumulator.seal()
    assert reply.text == said
    assert "".join(block.text for block in reply.blocks if isinstance(block, Thinking)) == thought
    assert len(reply.tool_calls) == kinds.count("c")


def test_thinking_and_text_that_alternate_are_one_block_each_time() -> None:
    accumulator = folded(ThinkingPart("a"), ThinkingPart("b"))
    accumulator.text_sink()("x")
    accumulator.text_sink()("y")
    accumulator.add(ThinkingPart("c"))
    assert accumulator.seal() == AssistantMessage((Thinking("ab"), Text("xy"), Thinking("c")))
