"""The port to a model: what counts as a model, and what a request holds."""

from __future__ import annotations

import typing
from dataclasses import FrozenInstanceError

import pytest

from loopctl.messages import UserMessage
from loopctl.model import (
    Delta,
    Model,
    ModelRequest,
    ReplyEnd,
    StopReason,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolSpec,
    UsagePart,
)


class Echo:
    """The least that a model of one's own needs."""

    name = "echo"

    async def stream(self, request):
        yield TextPart(request.messages[-1].text)
        yield ReplyEnd()


class Nameless:
    async def stream(self, request):
        yield ReplyEnd()


class Mute:
    name = "mute"


def test_a_name_and_a_stream_make_a_model():
    assert isinstance(Echo(), Model)


@pytest.mark.parametrize("value", [Nameless(), Mute(), "openai:gpt-5.2", None])
def test_anything_less_is_no_model(value):
    assert not isinstance(value, Model)


def test_a_request_offers_no_tools_unless_it_says_so():
    assert ModelRequest("be brief", (UserMessage("hi"),)).tools == ()


def test_fragments_need_only_what_they_bring():
    assert ToolCallPart(0, arguments='{"a"') == ToolCallPart(0, "", "", '{"a"')
    assert UsagePart(output_tokens=3) == UsagePart(None, 3)
    assert ReplyEnd().stop_reason == "stop"
    assert ReplyEnd("length").stop_reason in typing.get_args(StopReason)


def test_the_deltas_are_those_of_the_contract_and_frozen():
    assert set(typing.get_args(Delta)) == {TextPart, ThinkingPart, ToolCallPart, UsagePart, ReplyEnd}
    for delta in (TextPart("a"), ThinkingPart("b"), ToolCallPart(0), UsagePart(), ReplyEnd(), ToolSpec("f", "d", {})):
        with pytest.raises(FrozenInstanceError):
            setattr(delta, delta.__slots__[0], None)
