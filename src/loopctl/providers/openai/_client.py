"""Owns `OpenAIModel`: one chat-completions request at a time, from our request to deltas.

Rules: no tasks; the connection is closed in the task that opened it. No retries (they are the engine's), with one
exception that no server charges for: a request that was refused because it asked for the usage is sent again without.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from loopctl.errors import MissingExtra, UsageError
from loopctl.model import Delta, ModelRequest
from loopctl.providers._transport import HttpOptions, TransportFailure
from loopctl.providers.openai import _errors
from loopctl.providers.openai._decode import StreamDecoder, decode_completion
from loopctl.providers.openai._encode import encode_request

if TYPE_CHECKING:
    from loopctl.providers._http import Exchange

__all__ = ["OpenAIModel"]

_OPENAI = "https://api.openai.com/v1"
_PATH = "/chat/completions"
_ACCEPTED = range(200, 300)
_OURS = frozenset({"messages", "model", "stream", "tools"})


class OpenAIModel:
    """A model at OpenAI, or at any server that speaks its chat-completions protocol.

    Example:
        ```python
        OpenAIModel("gpt-5.2")
        OpenAIModel("qwen3", base_url="http://127.0.0.1:8000/v1", extra_body={"temperature": 0.2})
        ```

    Args:
        model: The server's name for the model.
        base_url: Where the API begins, for instance `http://127.0.0.1:8000/v1`. Without it `OPENAI_BASE_URL`, else
            OpenAI's own.
        api_key: Without it `OPENAI_API_KEY`. An empty string sends no key; so does a server on this machine if
            nothing gives one.
        name: What records and errors call it; without it `openai:<model>`.
        extra_body: Added to each request's body, for instance `{"temperature": 0.2}`.
        http: Timeout for connecting, pool sizes, headers.

    Raises:
        MissingExtra: The extra `openai` is not installed.
        UsageError: There is no API key, or an argument cannot be used.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        name: str | None = None,
        extra_body: Mapping[str, Any] | None = None,
        http: HttpOptions | None = None,
    ) -> None:
        try:
            from loopctl.providers._http import HttpClients, is_loopback
        except ImportError as error:
            raise MissingExtra.of("OpenAIModel", "openai") from error
        self._model = model
        self._name = name or f"openai:{model}"
        self._extra = _checked_extra(extra_body or {})
        url = _checked_url(base_url or os.environ.get("OPENAI_BASE_URL") or _OPENAI)
        self._where = _errors.Where(self._name, url)
        options = http or HttpOptions()
        key = os.environ.get("OPENAI_API_KEY") if api_key is None else api_key
        if key is None and not is_loopback(url) and "authorization" not in map(str.lower, options.headers):
            raise UsageError(
                f"{self._where} needs an API key: set OPENAI_API_KEY (to nothing if the server takes none). "
                "A server on this machine needs none."
            )
        self._clients = HttpClients(
            url, options, ({"authorization": f"Bearer {key}"} if key else {}) | dict(options.headers)
        )
        self._is_usage_wanted = True

    @property
    def name(self) -> str:
        """What records and errors call this model."""
        return self._name

    def __repr__(self) -> str:
        return f"<OpenAIModel {self._where}>"

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta]:
        """Ask for a streamed reply and give its pieces as they come, the last one a `ReplyEnd`.

        Pull once more after the `ReplyEnd`: that lets the connection serve the next request.

        Raises:
            ModelError: The server could not be reached, refused, or did not send a whole reply.

        Cancellation:
            Cancelling the task that iterates, or closing the iterator, closes the connection at once; what the
            server had not sent yet is lost. A second cancellation does not stop the closing.
        """
        exchange = await self._send(request, is_streamed=True)
        try:
            content_type = exchange.headers.get("content-type", "")
            if content_type.startswith(("application/json", "text/html")):  # it does not stream, or is no API at all
                for delta in await self._whole(exchange):
                    yield delta
                return
            decoder = StreamDecoder(self._where, content_type)
            try:
                async for portion in exchange:
                    for delta in decoder.feed(portion):
                        yield delta
            except TransportFailure as failure:
                if not decoder.is_whole:
                    raise _errors.lost(self._where, failure, received=decoder.received) from failure
            for delta in decoder.end():
                yield delta
        finally:
            await exchange.aclose()

    async def complete(self, request: ModelRequest) -> Sequence[Delta]:
        """Ask for the reply in one piece and give it as deltas, the last one a `ReplyEnd`.

        Raises:
            ModelError: As `stream`.

        Cancellation:
            Closes the connection at once; the reply is lost. Whether the server goes on generating is up to it.
        """
        exchange = await self._send(request, is_streamed=False)
        try:
            return await self._whole(exchange)
        finally:
            await exchange.aclose()

    async def aclose(self) -> None:
        """Close the running loop's connections. The model may be used again; it then opens new ones.

        Cancellation:
            Held back until they are closed.
        """
        await self._clients.aclose()

    async def _send(self, request: ModelRequest, *, is_streamed: bool) -> Exchange:
        """Give the opened exchange of a request that was accepted."""
        while True:
            asks_usage = is_streamed and self._is_usage_wanted
            body = encode_request(
                self._model, request, extra=self._extra, is_streamed=is_streamed, is_usage_wanted=asks_usage
            )
            exchange = self._clients.post(_PATH, body)
            try:
                await exchange.open()
            except TransportFailure as failure:
                raise _errors.unreachable(self._where, failure) from failure
            if exchange.status in _ACCEPTED:
                return exchange
            said = await self._said(exchange)
            if not (asks_usage and exchange.status in {400, 422} and b"stream_options" in said):
                raise _errors.refused(self._where, exchange.status, exchange.headers, said)
            self._is_usage_wanted = False

    async def _said(self, exchange: Exchange) -> bytes:
        """Read what a server that refused had to say, as far as it comes."""
        try:
            return await exchange.read()
        except TransportFailure:
            return b""
        finally:
            await exchange.aclose()

    async def _whole(self, exchange: Exchange) -> list[Delta]:
        try:
            body = await exchange.read()
        except TransportFailure as failure:
            raise _errors.lost(self._where, failure, received="in the middle of its reply") from failure
        return decode_completion(self._where, exchange.status, exchange.headers.get("content-type", ""), body)


def _checked_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise UsageError(f"the base URL {url!r} is not an address: write it like http://127.0.0.1:8000/v1")
    return url.rstrip("/")


def _checked_extra(extra: Mapping[str, Any]) -> Mapping[str, Any]:
    if taken := sorted(_OURS & extra.keys()):
        raise UsageError(f"extra_body cannot set {', '.join(taken)}: the engine does")
    return dict(extra)
