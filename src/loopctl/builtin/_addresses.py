"""Where an address on the web leads to: resolved once, checked, and then connected to as it was checked.

Rules: only what the whole internet can reach, unless said otherwise: a page must not be a way to this machine, to its
network, or to the metadata of its cloud. What was checked is what is connected to: a name is not resolved again.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from loopctl.errors import ToolError

__all__ = ["Resolver", "allowed_addresses", "is_public", "resolve"]

Resolver: TypeAlias = Callable[[str, int], Awaitable[list[str]]]
"""From a host and a port to addresses."""


async def resolve(host: str, port: int) -> list[str]:
    """Ask the system where *host* is.

    Raises:
        ToolError: Nobody knows.

    Cancellation:
        The question is left; the system's own thread answers it for nobody.
    """
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise ToolError(f"there is no host {host!r}: {error}.") from error
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


async def allowed_addresses(host: str, port: int, resolver: Resolver, *, private: bool) -> list[str]:
    """Give the addresses of *host* that may be connected to.

    Args:
        host: A name or an address.
        port: Its port.
        resolver: Knows the addresses of names.
        private: Allow all.

    Raises:
        ToolError: There are none.

    Cancellation:
        As *resolver*.
    """
    addresses = await resolver(host, port)
    refused = [address for address in addresses if not is_public(address)]
    if not private and refused:  # one is enough: a name that is half inside is a trick
        raise ToolError(
            f"{host} leads to {refused[0]}, which is no public address: fetch_url goes to public ones only."
        )
    if not addresses:
        raise ToolError(f"there is no host {host!r}.")
    return addresses


def is_public(text: str) -> bool:
    """Tell whether an address is one that the whole internet can reach."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or _behind_nat64(address)
        if inner is not None:
            return is_public(str(inner))
        if address.teredo is not None:
            return False
    return address.is_global and not address.is_multicast


def _behind_nat64(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    if address in ipaddress.ip_network("64:ff9b::/96"):
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return None
