"""Owns the HTTP connections of the providers: one httpx2 client for each event loop, one `Exchange` for each request.

Rules:

- An exchange is closed in the task that opened it, to the end, whatever is cancelled meanwhile.
- A client dies with its loop: an async generator holds it, which `asyncio.run` (and every other runner) closes before
  it closes the loop. So a forgotten client leaves no open socket and no `ResourceWarning`. (A loop that is closed by
  hand, without `shutdown_asyncgens`, takes its open connections with it, and asyncio says so.)
- No read timeout: how long a model may think is the engine's decision. Connecting has one.
- A server on loopback is never asked for through a proxy.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
import threading
import weakref
from collections.abc import AsyncGenerator, Iterator, Mapping
from typing import TypeAlias
from urllib.parse import urlsplit

import httpx2

from loopctl.errors import UsageError
from loopctl.providers._guard import to_the_end
from loopctl.providers._transport import FailureKind, HttpOptions, TransportFailure

__all__ = ["Exchange", "HttpClients", "is_loopback"]


_ByLoop: TypeAlias = "dict[asyncio.AbstractEventLoop, tuple[httpx2.AsyncClient, AsyncGenerator[None, None]]]"


class HttpClients:
    """The clients of one model, one for each event loop that used it. Safe to use from several threads."""

    def __init__(self, base_url: str, options: HttpOptions, headers: Mapping[str, str]) -> None:
        self._base_url = base_url
        self._options = options
        self._headers = dict(headers)
        self._lock = threading.Lock()
        self._by_loop: _ByLoop = {}
        # The clients must be alive when this object is collected: only then can they still be closed in order. The
        # finalizer holds them until then; letting a generator go makes its loop close it.
        weakref.finalize(self, self._by_loop.clear).atexit = False
        self._tls: ssl.SSLContext | bool = False

    def post(self, path: str, body: bytes) -> Exchange:
        """Prepare the exchange that sends *body* to *path* below the base url; opening it sends."""
        return Exchange(self, path, body)

    async def client(self) -> httpx2.AsyncClient:
        """Give the running loop's client; made at the first use."""
        loop = asyncio.get_running_loop()
        with self._lock:
            if (entry := self._by_loop.get(loop)) is not None:
                return entry[0]
            for closed in [other for other in self._by_loop if other.is_closed()]:
                del self._by_loop[closed]
            client = self._new_client()
            keeper = _keep(client, loop, self._by_loop, self._lock)
            self._by_loop[loop] = (client, keeper)
        await anext(keeper)  # never suspends; from here on the loop knows the generator
        return client

    async def aclose(self) -> None:
        """Close the running loop's connections; other loops close theirs when they end. A later use opens anew.

        Cancellation:
            Held back until the connections are closed.
        """
        with self._lock:
            entry = self._by_loop.pop(asyncio.get_running_loop(), None)
        if entry is not None:
            await entry[1].aclose()

    def _new_client(self) -> httpx2.AsyncClient:
        is_local = is_loopback(self._base_url)
        if not self._tls and not (is_local and self._base_url.startswith("http:")):
            self._tls = httpx2.create_ssl_context()  # reads the certificates, which takes long: once for all loops
        options = self._options
        try:
            return httpx2.AsyncClient(
                headers=self._headers,
                verify=self._tls,
                trust_env=not is_local,
                timeout=httpx2.Timeout(None, connect=options.connect_timeout),
                limits=httpx2.Limits(
                    max_connections=options.max_connections, max_keepalive_connections=options.max_idle_connections
                ),
            )
        except (ImportError, ValueError, httpx2.InvalidURL) as error:
            raise UsageError(f"the proxy that the environment names cannot be used: {error}") from error

    @property
    def base_url(self) -> str:
        """The address that paths are below of."""
        return self._base_url


class Exchange:
    """One request and its answer: `open` sends it and waits for the head, iterating gives the body, `aclose` ends it.

    Raises:
        TransportFailure: By `open`, `read` and iterating: no (whole) answer came.
    """

    def __init__(self, clients: HttpClients, path: str, body: bytes) -> None:
        self._clients = clients
        self._path = path
        self._body = body
        self._opened: tuple[httpx2.Response, AsyncGenerator[bytes, None]] | None = None

    async def open(self) -> None:
        """Send the request and wait for the answer's head.

        Cancellation:
            The connection is closed; there is nothing to close afterwards.
        """
        client = await self._clients.client()
        request = client.build_request(
            "POST",
            self._clients.base_url + self._path,
            content=self._body,
            headers={"content-type": "application/json", "accept-encoding": "identity"},
        )
        try:
            response = await client.send(request, stream=True)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise _failure(error) from error
        is_plain = response.headers.get("content-encoding", "identity") == "identity"
        self._opened = response, response.aiter_raw() if is_plain else response.aiter_bytes()

    async def aclose(self) -> None:
        """Give the connection back, or close it if the answer was not read to its end.

        Cancellation:
            Held back until that is done.
        """
        await to_the_end(self._close())

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self._answer[0].status_code

    @property
    def headers(self) -> Mapping[str, str]:
        """The answer's headers; names in any case."""
        return self._answer[0].headers

    async def read(self) -> bytes:
        """Read the whole body."""
        return b"".join([portion async for portion in self])

    def __aiter__(self) -> Exchange:
        return self

    async def __anext__(self) -> bytes:
        # Not a generator: one that is left before its end would be closed by the loop, in a task of its own.
        try:
            return await anext(self._answer[1])
        except (httpx2.HTTPError, httpx2.StreamError) as error:
            raise _failure(error) from error

    @property
    def _answer(self) -> tuple[httpx2.Response, AsyncGenerator[bytes, None]]:
        assert self._opened is not None, "the exchange was not opened"
        return self._opened

    async def _close(self) -> None:
        response, portions = self._answer
        await response.aclose()
        # httpx2 leaves the generators below a stream that was not read to its end to the garbage collector, and the
        # loop closes those in a task of its own. Reading on from the closed connection unwinds them here and now.
        try:
            async for _ in portions:
                pass
        except (httpx2.HTTPError, httpx2.StreamError):
            return


def is_loopback(url: str) -> bool:
    """Tell whether *url* names this machine."""
    host = urlsplit(url).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


async def _keep(
    client: httpx2.AsyncClient, loop: asyncio.AbstractEventLoop, by_loop: _ByLoop, lock: threading.Lock
) -> AsyncGenerator[None, None]:
    """Hold *client* until this generator is closed; then close it."""
    try:
        yield
    finally:
        with lock:
            if (entry := by_loop.get(loop)) is not None and entry[0] is client:
                del by_loop[loop]
        await to_the_end(client.aclose())


def _failure(error: Exception) -> TransportFailure:
    return TransportFailure(_kind(error), str(error) or type(error).__name__)


def _kind(error: Exception) -> FailureKind:
    if isinstance(error, httpx2.ConnectTimeout):
        return "timeout"
    if not isinstance(error, httpx2.ConnectError | httpx2.InvalidURL | httpx2.UnsupportedProtocol | httpx2.ProxyError):
        return "broken"
    for cause in _causes(error):
        if isinstance(cause, ConnectionRefusedError):
            return "refused"
        if isinstance(cause, socket.gaierror):
            return "unresolved"
        if isinstance(cause, ssl.SSLError):
            return "tls"
    return "unreachable"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Give *error* and everything that it came from, groups opened up."""
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        current = waiting.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        waiting += [cause for cause in (current.__cause__, current.__context__) if cause is not None]
        if isinstance(current, BaseExceptionGroup):
            waiting += current.exceptions
