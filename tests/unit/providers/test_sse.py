"""Server-sent events: what the specification says, and that portions do not matter."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from loopctl.providers._sse import SseDecoder


def decode(*portions: bytes) -> list[bytes]:
    decoder = SseDecoder()
    return [data for portion in portions for data in decoder.feed(portion)] + decoder.end()


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"data: a\n\ndata: b\n\n", [b"a", b"b"]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", [b"a", b"b"]),
        (b"data: a\r\rdata: b\r\r", [b"a", b"b"]),
        (b"data:a\n\n", [b"a"]),
        (b"data:  a\n\n", [b" a"]),
        (b"data: a\ndata: b\n\n", [b"a\nb"]),
        (b": ping\n\ndata: a\n\n", [b"a"]),
        (b"event: x\nid: 1\nretry: 5\ndata: a\n\n", [b"a"]),
        (b"\xef\xbb\xbfdata: a\n\n", [b"a"]),
        (b"\n\n\ndata: a\n\n\n\n", [b"a"]),
        (b"data\n\ndatax: a\n\n", []),
        (b"data: \n\n", [b""]),
        (b"data: a\n\ndata: cut", [b"a", b"cut"]),
        (b"data: a\n", [b"a"]),
        (b"", []),
    ],
)
def test_events_are_cut_as_the_specification_says(stream: bytes, events: list[bytes]) -> None:
    assert decode(stream) == events


def test_an_event_is_given_as_soon_as_its_empty_line_has_come() -> None:
    decoder = SseDecoder()
    assert decoder.feed(b"data: a\r\n\r") == [b"a"]
    assert decoder.feed(b"\ndata: b\n") == []
    assert decoder.feed(b"\n") == [b"b"]


def test_an_empty_portion_between_cr_and_lf_changes_nothing() -> None:
    assert decode(b"data: a\r", b"", b"\ndata: b\r\n\r\n") == [b"a\nb"]


def test_a_byte_order_mark_is_skipped_only_at_the_beginning() -> None:
    assert decode(b"data: a\n\n\xef\xbb\xbfdata: b\n\n") == [b"a"]


lines = st.sampled_from(
    [b"data: one", b"data:", b"data: \xf0\x9f\x98\x80", b": note", b"event: x", b"data: {", b"", b""]
)
ends = st.sampled_from([b"\n", b"\r\n", b"\r"])


@given(
    st.lists(st.tuples(lines, ends), max_size=12),
    st.lists(st.integers(0, 120), max_size=12),
    st.sampled_from([b"", b"\xef\xbb\xbf"]),
)
def test_any_portions_give_the_same_events(parts: list[tuple[bytes, bytes]], cuts: list[int], mark: bytes) -> None:
    stream = mark + b"".join(line + end for line, end in parts)
    places = sorted([0, len(stream), *(cut for cut in cuts if cut < len(stream))])  # a cut twice: an empty portion
    portions = [stream[start:end] for start, end in pairwise(places)]
    assert decode(*portions) == decode(stream) == decode(*(stream[i : i + 1] for i in range(len(stream))))
