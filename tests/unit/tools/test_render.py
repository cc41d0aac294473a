"""Results as text for a model."""

import asyncio
import datetime
import decimal
import enum
import json
import socket
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel, SecretStr, model_serializer

from loopctl.errors import ToolError
from loopctl.tools import render


class Colour(enum.StrEnum):
    RED = "red"


class Size(BaseModel):
    width: int
    name: str = "ä"


@dataclass
class Point:
    x: float
    at: datetime.date


class Broken(BaseModel):
    @model_serializer
    def fail(self):
        raise KeyError("nothing here")


def looped():
    value = []
    value.append(value)
    return value


RENDERED = [
    (None, ""),
    ("", ""),
    ("as it is\n\t ü", "as it is\n\t ü"),
    (Colour.RED, "red"),
    ("\udcffa\ud83d\ude00", "\ufffda😀"),
    (3, "3"),
    (True, "true"),
    (1.5, "1.5"),
    ([1, "a", None], '[1,"a",null]'),
    ({"a": {"b": [True]}}, '{"a":{"b":[true]}}'),
    ({1: "x"}, '{"1":"x"}'),
    ((1, 2), "[1,2]"),
    (Size(width=3), '{"width":3,"name":"ä"}'),
    ([Size(width=3)], '[{"width":3,"name":"ä"}]'),
    (Point(1.0, datetime.date(2024, 1, 2)), '{"x":1.0,"at":"2024-01-02"}'),
    (datetime.datetime(2024, 1, 2, tzinfo=datetime.UTC), '"2024-01-02T00:00:00Z"'),
    (decimal.Decimal("1.10"), '"1.10"'),
    (Path("/x/y"), '"/x/y"'),
    ({"key": SecretStr("hidden")}, '{"key":"**********"}'),
    (["\udcff"], '["\ufffd"]'),
]


@pytest.mark.parametrize(("value", "text"), RENDERED)
def test_a_result_becomes_this_text(value, text):
    assert render(value) == text
    assert type(render(value)) is str


REFUSED = [
    (b"\xff", ["bytes", "decode it"]),
    (bytearray(b"a"), ["bytearray", "decode it"]),
    (memoryview(b"a"), ["memoryview"]),
    ({"a": b"\xff"}, ["dict", "JSON"]),
    (object(), ["object", "JSON"]),
    ([socket.socket], ["list", "JSON"]),
    (Broken(), ["Broken", "nothing here"]),
    (looped(), ["list", "JSON"]),
    ((n for n in [1]), ["generator", "list"]),
]


@pytest.mark.parametrize(("value", "named"), REFUSED)
def test_a_result_without_text_is_refused_with_what_to_return_instead(value, named):
    with pytest.raises(ToolError) as caught:
        render(value)
    text = str(caught.value)
    assert [part for part in [*named, "the tool returned", "Return text"] if part not in text] == [], text


def test_a_coroutine_is_refused_and_closed_so_that_nothing_warns():
    async def late(): ...

    async def many():
        yield 1

    with pytest.raises(ToolError, match=r"coroutine.*async def"):
        render(late())
    with pytest.raises(ToolError, match=r"async_generator"):
        render(many())


@given(st.text(st.characters(exclude_categories=())))
def test_every_text_can_be_encoded_afterwards(text):
    rendered = render(text)
    rendered.encode()
    if "\ufffd" not in rendered:
        assert rendered == text.encode("utf-16", "surrogatepass").decode("utf-16")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=12,
    ).filter(lambda value: value is not None and not isinstance(value, str))
)
def test_what_json_holds_can_be_read_back(value):
    assert json.loads(render(value)) == value


def test_awaiting_is_not_renders_business():
    async def main():
        future = asyncio.get_running_loop().create_future()
        with pytest.raises(ToolError, match="Future"):
            render(future)

    asyncio.run(main())
