"""Who may ask at all: the host by which we are asked, the page that asks, and the token.

Rules:

1. Host: without a token or owners only the names of loopback are ours, so that no page can make a name of its own
   point here (DNS rebinding).
2. Origin: a browser that says on whose behalf it asks must name us, or a listed origin (CSRF). Without the header it is
   no browser, or a page of ours.
3. Token: compared in constant time; asked for by everything but the page itself and the health checks.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from loopctl.web._answers import ApiError

__all__ = ["Guard", "is_loopback"]

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_OPEN = ("/healthz", "/readyz", "/openapi.json", "/")
"""Where nothing of anybody is told."""
_STATIC = "/static/"


class Guard:
    """Lets those through who may ask."""

    def __init__(
        self, app: ASGIApp, *, token: str | None, has_owners: bool, hosts: Iterable[str] | None, origins: Iterable[str]
    ) -> None:
        """Stand before *app*; see `create_app`."""
        self._app = app
        self._token = None if token is None else token.encode()
        self._hosts: frozenset[str] | None = None
        if hosts is not None:
            self._hosts = frozenset(host.lower() for host in hosts)
        elif token is None and not has_owners:
            self._hosts = _LOOPBACK
        self._origins = frozenset(origin.lower().rstrip("/") for origin in origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer it.

        Cancellation:
            As of the application.
        """
        if scope["type"] == "http":
            error = self._refusal(scope)
            if error is not None:
                await error.response()(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _refusal(self, scope: Scope) -> ApiError | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if self._hosts is not None and _name_of(host) not in self._hosts:
            return ApiError(421, "wrong_host", "this server does not answer to that name: ask it by its own")
        origin = headers.get("origin")
        if origin is not None and not self._is_ours(origin.lower(), host.lower()):
            return ApiError(403, "wrong_origin", "a page of another site asks: list its origin if it may")
        if origin is None and headers.get("sec-fetch-site") == "cross-site" and scope["method"] != "GET":
            return ApiError(403, "wrong_origin", "a page of another site asks: list its origin if it may")
        if self._token is not None and not _is_open(scope) and not self._has_token(headers):
            text = "this server wants its token: send Authorization: Bearer TOKEN"
            return ApiError(401, "unauthorized", text, headers={"www-authenticate": "Bearer"})
        return None

    def _is_ours(self, origin: str, host: str) -> bool:
        # The scheme is not compared: a proxy that ends TLS is asked by https and asks us by http.
        return origin in self._origins or (origin.startswith(("http://", "https://")) and _rest_of(origin) == host)

    def _has_token(self, headers: Headers) -> bool:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        assert self._token is not None
        return hmac.compare_digest(given.strip().encode(), self._token) and scheme.lower() == "bearer"


def _is_open(scope: Scope) -> bool:
    path = scope["path"].removeprefix(scope.get("root_path", "")) or "/"
    return scope["method"] in {"GET", "HEAD"} and (path in _OPEN or path.startswith(_STATIC))


def _name_of(host: str) -> str:
    """Give the name in a Host header, without its port."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def _rest_of(origin: str) -> str:
    return origin.partition("://")[2]


def is_loopback(host: str) -> bool:
    """True if only this machine reaches *host*."""
    return host.lower().strip("[]") in _LOOPBACK or host.startswith("127.")
