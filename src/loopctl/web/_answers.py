"""Answers that are JSON, and how an error is said.

Rule: an error is `{"error": {"code", "message"}}`; the message names the thing, its state and the next move, and
nothing of our insides.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

__all__ = ["ApiError", "JsonResponse", "on_api_error", "on_fault", "on_http_error", "on_store_error"]

_log = logging.getLogger("loopctl.web")
_CODES = {404: "not_found", 405: "method_not_allowed"}


class ApiError(Exception):
    """What a client did that cannot be, or what the server cannot do now."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        more: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Answer *status*; *more* stands beside the error."""
        super().__init__(message)
        self.status = status
        self.code = code
        self.more = dict(more or {})
        self.headers = dict(headers or {})

    def response(self) -> Response:
        """Give the answer."""
        value = {**self.more, "error": {"code": self.code, "message": str(self)}}
        return JsonResponse(value, self.status, self.headers)


class JsonResponse(Response):
    """A JSON object."""

    def __init__(self, value: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        """Answer *value*; what JSON has no word for is written as text, in ASCII."""
        super().__init__(
            json.dumps(value, default=str).encode("ascii"),
            status,
            {"cache-control": "no-store", "x-content-type-options": "nosniff", **(headers or {})},
            "application/json",
        )


async def on_api_error(request: Request, error: Exception) -> Response:
    """Answer an `ApiError`.

    Cancellation:
        Never waits.
    """
    del request
    assert isinstance(error, ApiError)
    return error.response()


async def on_http_error(request: Request, error: Exception) -> Response:
    """Answer what the router found: no such place, or not by this method.

    Cancellation:
        Never waits.
    """
    assert isinstance(error, HTTPException)
    code = _CODES.get(error.status_code, "http_error")
    text = f"{request.method} {request.url.path}: {error.detail}. openapi.json lists what there is"
    return ApiError(error.status_code, code, text, headers=error.headers).response()


async def on_store_error(request: Request, error: Exception) -> Response:
    """Answer that the store cannot be used; where it is and why is for the log.

    Cancellation:
        Never waits.
    """
    _log.warning("%s %s: %s", request.method, request.url.path, error)
    return ApiError(503, "store", "the store cannot be used; the server's log says why. Try again").response()


async def on_fault(request: Request, error: Exception) -> Response:
    """Answer a fault of ours, or of the owner hook, without a word of it; the server logs it.

    Cancellation:
        Never waits.
    """
    del request, error
    return ApiError(500, "fault", "a fault in the server; its log says more. Try again").response()
