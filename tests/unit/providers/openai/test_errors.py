"""What a refusal says: the status, whether to try again, when, and the next move."""

from __future__ import annotations

import json
from typing import Any

import pytest

from loopctl.providers._transport import FailureKind, TransportFailure
from loopctl.providers.openai._errors import Where, lost, refused, unreachable

WHERE = Where("openai:m", "http://127.0.0.1:1/v1")


def refusal(status: int, body: Any = b"", **headers: str) -> Any:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return refused(WHERE, status, {name.replace("_", "-"): value for name, value in headers.items()}, raw)


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 529])
def test_these_statuses_may_be_tried_again(status: int) -> None:
    error = refusal(status)
    assert (error.status, error.retryable) == (status, True)


@pytest.mark.parametrize("status", [301, 307, 400, 401, 402, 403, 404, 405, 413, 422, 451])
def test_these_statuses_may_not(status: int) -> None:
    error = refusal(status)
    assert (error.status, error.retryable) == (status, False)


def test_an_account_out_of_quota_is_not_tried_again() -> None:
    error = refusal(429, {"error": {"message": "You exceeded", "code": "insufficient_quota"}}, x_should_retry="true")
    assert not error.retryable
    assert "billing" in str(error)


@pytest.mark.parametrize(("wish", "retryable"), [("true", True), ("false", False), ("perhaps", True)])
def test_the_servers_own_wish_about_trying_again_counts(wish: str, retryable: bool) -> None:
    assert refusal(503, x_should_retry=wish).retryable is retryable


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry_after": "3"}, 3.0),
        ({"retry_after": " 1.5 "}, 1.5),
        ({"retry_after": "-1"}, None),
        ({"retry_after": "soon"}, None),
        ({"retry_after": "inf"}, None),
        ({"retry_after_ms": "250", "retry_after": "9"}, 0.25),
        ({"x_ms_retry_after_ms": "1500"}, 1.5),
        ({"retry_after": "Wed, 21 Oct 2026 07:28:30 GMT", "date": "Wed, 21 Oct 2026 07:28:00 GMT"}, 30.0),
        ({"retry_after": "Wed, 21 Oct 2026 07:28:00 GMT", "date": "Wed, 21 Oct 2026 07:29:00 GMT"}, 0.0),
        ({"retry_after": "Wed, 21 Oct 2026 07:28:30 GMT"}, None),
        ({"retry_after": "Wed, 21 Oct 2026 07:28:30", "date": "Wed, 21 Oct 2026 07:28:00 GMT"}, None),
        ({"retry_after": "3", "date": "nonsense"}, 3.0),
    ],
)
def test_retry_after_is_read_in_all_its_forms(headers: dict[str, str], seconds: float | None) -> None:
    error = refusal(429, **headers)
    assert error.retry_after == seconds
    assert ("asks to wait" in str(error)) is (seconds is not None)


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": "the words", "type": "x", "param": None, "code": None}},
        {"error": "the words"},
        {"detail": "the words"},
        {"detail": [{"loc": ["body"], "msg": "the words"}]},
        {"object": "error", "message": "the words", "code": 400},
        b"the words",
        b"<html><body><p>the  words</p></body></html>",
    ],
)
def test_the_servers_words_are_found_in_every_shape(body: Any) -> None:
    assert "the words" in str(refusal(400, body))


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b"\xff\xfe", {"error": None}, {"error": {}}])
def test_a_refusal_without_words_is_still_worded(body: Any) -> None:
    assert str(refusal(400, body)).startswith("openai:m at http://127.0.0.1:1/v1 answered 400: ")


def test_long_words_are_cut() -> None:
    assert len(str(refusal(400, {"error": {"message": "x" * 5000}}))) < 600
    assert len(str(refusal(400, b"y" * 100_000))) < 600


@pytest.mark.parametrize(
    ("status", "move"),
    [(401, "OPENAI_API_KEY"), (403, "another key"), (404, "base URL"), (429, "wait"), (500, "later"), (418, "Check")],
)
def test_the_next_move_is_named(status: int, move: str) -> None:
    assert move in str(refusal(status))


def test_a_redirect_names_where_it_leads() -> None:
    assert "https://elsewhere/v1" in str(refusal(308, location="https://elsewhere/v1"))


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("refused", "nothing listens there"),
        ("unresolved", "host name"),
        ("tls", "secure"),
        ("timeout", "in time"),
        ("unreachable", "no connection"),
        ("broken", "lost before"),
    ],
)
def test_a_server_that_cannot_be_reached_may_be_tried_again(kind: FailureKind, words: str) -> None:
    error = unreachable(WHERE, TransportFailure(kind, "why"))
    assert words in str(error)
    assert "http://127.0.0.1:1/v1" in str(error)
    assert (error.status, error.retryable) == (None, True)


def test_a_connection_lost_in_the_middle_may_be_tried_again() -> None:
    assert lost(WHERE, TransportFailure("broken", "reset"), received="after 3 events").retryable
