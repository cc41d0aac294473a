"""The tool that reads a page of the web: `fetch_url`.

Rules: only GET, only http and https, only public addresses; bounded in time, redirects and bytes; the connection is
closed however the call ends. It asks first, although it changes nothing here: an address can carry out what was read.
"""

from __future__ import annotations

import importlib.util
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from loopctl.builtin._addresses import Resolver, allowed_addresses, resolve
from loopctl.builtin._text import shorten
from loopctl.errors import MissingExtra, ToolError

if TYPE_CHECKING:
    import httpx2

__all__ = ["Fetching"]

_BYTES = 2_000_000
_REDIRECTS = 5
_CONNECT = 10.0
_SAID = 500
_ERROR = 400
_TEXT = ("json", "xml", "javascript", "yaml", "toml", "x-sh", "x-www-form-urlencoded")


class Fetching:
    """Reads pages."""

    def __init__(self, *, private_addresses: bool = False, resolver: Resolver = resolve) -> None:
        """Read pages at public addresses, or with *private_addresses* at any."""
        self._private = private_addresses
        self._resolve = resolver

    @staticmethod
    def check() -> None:
        """Raise MissingExtra unless there is an HTTP client."""
        if importlib.util.find_spec("httpx2") is None:
            raise MissingExtra.of("fetch_url", "fetch")

    async def fetch_url(self, url: str) -> str:
        """Read a page or a file of the web as text, as the server gives it.

        Args:
            url: The whole address, with https:// or http://.

        Cancellation:
            A checkpoint: the connection is closed.
        """
        self.check()
        import httpx2

        try:
            address = httpx2.URL(url.strip())
            for _ in range(_REDIRECTS + 1):
                answer = await self._ask(address)
                if isinstance(answer, str):
                    return answer
                address = answer
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as error:
            raise ToolError(f"{url} could not be fetched: {str(error) or type(error).__name__}.") from error
        raise ToolError(f"{url} leads from one address to the next more than {_REDIRECTS} times: fetch the last one.")

    async def _ask(self, url: httpx2.URL) -> str | httpx2.URL:
        """Give the text of a page, or where it has gone."""
        import httpx2

        if url.scheme not in ("http", "https") or not url.host:
            raise ToolError(f"{url} is no address of the web: give a whole one, with https:// or http://.")
        port = url.port or (443 if url.scheme == "https" else 80)
        addresses = await allowed_addresses(url.host, port, self._resolve, private=self._private)
        timeout = httpx2.Timeout(None, connect=_CONNECT)
        # No proxy of the environment: it would resolve the name anew. No cookies, nothing kept from page to page.
        async with httpx2.AsyncClient(
            verify=url.scheme == "https", trust_env=False, timeout=timeout, follow_redirects=False
        ) as client:
            response = await _send(client, url, addresses)
            portions = response.aiter_bytes()
            try:
                if response.has_redirect_location:
                    return url.join(response.headers["location"])
                return await _text_of(response, portions, url)
            finally:
                await _close(response, portions)


async def _send(client: httpx2.AsyncClient, url: httpx2.URL, addresses: list[str]) -> httpx2.Response:
    """Send the request to the first of *addresses* that answers, in the name of the host that *url* names."""
    import httpx2

    for left, address in zip(reversed(range(len(addresses))), addresses, strict=True):
        request = client.build_request(
            "GET",
            url.copy_with(host=address),
            headers={"host": url.netloc.decode("ascii"), "accept-encoding": "identity", "user-agent": "loopctl"},
            extensions={"sni_hostname": url.host},
        )
        try:
            return await client.send(request, stream=True)
        except httpx2.ConnectError:
            if not left:
                raise
    raise AssertionError("there is at least one address")


async def _text_of(response: httpx2.Response, portions: AsyncIterator[bytes], url: httpx2.URL) -> str:
    kind = response.headers.get("content-type", "text/plain").partition(";")[0].strip().lower()
    if not kind.startswith("text/") and not any(word in kind for word in _TEXT):
        raise ToolError(f"{url} is {kind}: fetch_url gives text only. run_command can download it.")
    content, is_whole = bytearray(), True
    async for portion in portions:
        content += portion
        if len(content) > _BYTES:
            del content[_BYTES:]
            is_whole = False
            break
    text = _decoded(bytes(content), response.charset_encoding)
    if response.status_code >= _ERROR:
        raise ToolError(f"{url} answered {response.status_code} {response.reason_phrase}: {text[:_SAID]}".rstrip(": "))
    note = "" if is_whole else f"\n[… only the first {_BYTES:,} bytes were read …]"
    return shorten(text) + note


def _decoded(content: bytes, charset: str | None) -> str:
    try:
        return content.decode(charset or "utf-8", errors="replace")
    except LookupError:  # a charset that Python does not know
        return content.decode("utf-8", errors="replace")


async def _close(response: httpx2.Response, portions: AsyncIterator[bytes]) -> None:
    """Close the connection here and now, and not when the garbage is collected."""
    import httpx2

    await response.aclose()
    try:
        async for _ in portions:
            pass
    except (httpx2.HTTPError, httpx2.StreamError):
        return
