"""Owns the wording of what goes wrong with an OpenAI-compatible server: each failure as a `ModelError`.

Rules: a text names the model, the url, what happened, and the next move. `retryable` says whether the same request may
succeed later: statuses 408, 409, 425, 429 and 5xx, and everything that was lost on the way. Nothing here reads a
clock: a date in `Retry-After` is measured against the answer's own `Date`.

Source: RFC 9110 section 10.2.3 (Retry-After); OpenAI "Error codes"; `retry-after-ms` and `x-ms-retry-after-ms` are
Azure OpenAI's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

import msgspec

from loopctl.errors import ModelError
from loopctl.providers._transport import TransportFailure

__all__ = ["Where", "in_stream", "lost", "refused", "truncated", "unreachable", "unreadable"]

_SHOWN = 300  # characters of a server's own words that an error quotes
_REDIRECTS = range(300, 400)
_SERVER_ERRORS = range(500, 600)
_RETRYABLE = frozenset({408, 409, 425, 429})
_OUT_OF_QUOTA = "insufficient_quota"  # OpenAI says 429 for an empty account too: no wait helps
_FINAL_KINDS = frozenset({
    "authentication_error", "content_filter", "invalid_api_key", "invalid_request_error", "model_not_found",
    "not_found_error", "permission_error", _OUT_OF_QUOTA,
})  # fmt: skip
_NEXT_MOVES = {
    400: "The request itself was refused: the same one will be again.",
    401: "The API key is missing or wrong: set OPENAI_API_KEY.",
    403: "This key may not use this model: use another key or another model.",
    404: "Check the model's name, and that the base URL ends where the server's API begins (most often in /v1).",
    413: "The conversation is too long for this server: shorten it.",
    429: "It limits the rate: wait, then try again.",
}
_UNREACHABLE = {
    "refused": "nothing listens there. Start the server, or correct the base URL.",
    "unresolved": "its host name is not known. Correct the base URL, or check the network.",
    "tls": "no secure connection could be made. Check the certificates, or http:// against https://.",
    "timeout": "it gave no connection in time. Check the address and the network, then try again.",
    "unreachable": "no connection could be made. Check the base URL, the network and the proxy settings.",
    "broken": "the connection was lost before it answered. Try again.",
}


@dataclass(frozen=True, slots=True)
class Where:
    """The model and the address that an error is about."""

    name: str
    url: str

    def __str__(self) -> str:
        return f"{self.name} at {self.url}"


def unreachable(where: Where, failure: TransportFailure) -> ModelError:
    """Say that no answer began."""
    text = f"{where} did not answer: {_UNREACHABLE[failure.kind]} ({failure.detail})"
    return ModelError(text, retryable=True)


def lost(where: Where, failure: TransportFailure, *, received: str) -> ModelError:
    """Say that the connection was lost in the middle of an answer."""
    return ModelError(f"{where} broke off {received}: {failure.detail}. Try again.", retryable=True)


def truncated(where: Where, *, received: str) -> ModelError:
    """Say that the answer ended too early, without the connection being lost."""
    text = f"{where} ended its answer too early, {received}: neither a finish_reason nor [DONE] came. Try again."
    return ModelError(text, retryable=True)


def unreadable(where: Where, status: int, content_type: str, body: bytes, detail: str = "not JSON") -> ModelError:
    """Say that what came is not a chat completion."""
    kind = content_type.partition(";")[0] or "no content type"
    text = (
        f"{where} answered {status}, but what came is {detail} ({kind}): {_quote(body)}. "
        "Check that the base URL is an OpenAI-compatible API (most often it ends in /v1)."
    )
    return ModelError(text, status=status)


def refused(where: Where, status: int, headers: Mapping[str, str], body: bytes) -> ModelError:
    """Say what the server said instead of a reply."""
    said, kinds = _said(_json(body))
    retryable = _is_retryable(status, kinds, headers)
    retry_after = _retry_after(headers)
    if _OUT_OF_QUOTA in kinds:
        move = "The account is out of quota: check its plan and billing."
    elif status in _REDIRECTS:
        move = f"It redirects to {headers.get('location', 'nowhere')}: use that address as the base URL."
    else:
        move = _NEXT_MOVES.get(status) or ("Try again later." if retryable else "Check the request and the base URL.")
    wait = "" if retry_after is None else f" It asks to wait {retry_after:g} s."
    text = f"{where} answered {status}: {said or _quote(body)}. {move}{wait}"
    return ModelError(text, status=status, retryable=retryable, retry_after=retry_after)


def in_stream(where: Where, error: Any) -> ModelError:
    """Say which error the server put in the middle of its answer."""
    said, kinds = _said({"error": error})
    status = next((int(kind) for kind in kinds if re.fullmatch(r"[45]\d\d", kind)), None)
    retryable = not kinds & _FINAL_KINDS if status is None else _is_retryable(status, kinds, {})
    move = "Try again." if retryable else "The same request will fail again."
    text = f"{where} failed in the middle of its answer: {said or _quote(str(error).encode())}. {move}"
    return ModelError(text, status=status, retryable=retryable)


def _is_retryable(status: int, kinds: frozenset[str], headers: Mapping[str, str]) -> bool:
    if _OUT_OF_QUOTA in kinds:
        return False
    wish = headers.get("x-should-retry")
    if wish in {"true", "false"}:
        return wish == "true"
    return status in _RETRYABLE or status in _SERVER_ERRORS


def _said(body: Any) -> tuple[str, frozenset[str]]:
    """Find the server's own words, and its names for the kind of error, in any of the shapes in use."""
    if not isinstance(body, dict):
        return "", frozenset()
    error = body.get("error", body)  # Ollama: a string; OpenAI: an object; FastAPI: `detail`; older vLLM: no wrapping
    if not isinstance(error, dict):
        return _shorten(str(error)), frozenset()
    words = error.get("message") or error.get("detail") or ""
    text = words if isinstance(words, str) else msgspec.json.encode(words).decode()
    kinds = frozenset(str(error[key]) for key in ("code", "type", "status") if error.get(key) is not None)
    return _shorten(text), kinds


def _retry_after(headers: Mapping[str, str]) -> float | None:
    for name in ("retry-after-ms", "x-ms-retry-after-ms"):
        milliseconds = _number(headers.get(name))
        if milliseconds is not None:
            return milliseconds / 1000
    value = headers.get("retry-after")
    seconds = _number(value)
    return _until(value, headers.get("date")) if seconds is None else seconds


def _number(value: str | None) -> float | None:
    return float(value) if value is not None and re.fullmatch(r"\s*\d+(\.\d+)?\s*", value) else None


def _until(moment: str | None, now: str | None) -> float | None:
    if moment is None or now is None:
        return None
    try:
        return max(0.0, (parsedate_to_datetime(moment) - parsedate_to_datetime(now)).total_seconds())
    except (TypeError, ValueError):
        return None


def _json(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError:
        return None


def _quote(body: bytes) -> str:
    """Quote the beginning of *body*, a page's markup left out."""
    text = re.sub(r"<[^>]*>", " ", body[: 20 * _SHOWN].decode("utf-8", "replace"))
    return repr(_shorten(text)) if text.strip() else "nothing"


def _shorten(text: str) -> str:
    text = " ".join(text.split()).rstrip(".")
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
