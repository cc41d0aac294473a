"""What an MCP server writes is read no faster than it is taken."""

from __future__ import annotations

import asyncio
import json

import anyio
import pytest

from loopctl.adapters.mcp._streams import Incoming


def line(number):
    return json.dumps({"jsonrpc": "2.0", "method": "notifications/x", "params": {"n": number}}).encode() + b"\n"


def test_a_flood_is_held_until_most_of_it_is_taken():
    async def main():
        held = []
        incoming = Incoming(held.append)
        incoming.take(b"".join(map(line, range(200))))
        assert held == []
        incoming.take(b"".join(map(line, range(200, 400))))
        assert held == [True]
        taken = [(await incoming.receive()).message.params["n"] for _ in range(335)]
        assert held == [True]
        taken.append((await incoming.receive()).message.params["n"])
        assert held == [True, False]
        assert taken == list(range(336))

    asyncio.run(main())


def test_what_is_no_message_is_dropped_and_a_message_in_pieces_is_put_together():
    async def main():
        incoming = Incoming(lambda _: None)
        whole = b"hello\n\n[]\n" + line(1)
        for byte in whole:
            incoming.take(bytes([byte]))
        incoming.end()
        assert (await incoming.receive()).message.params == {"n": 1}
        with pytest.raises(anyio.EndOfStream):
            await incoming.receive()

    asyncio.run(main())


def test_a_closed_stream_drops_what_comes_and_lets_the_server_write_on():
    async def main():
        held = []
        incoming = Incoming(held.append)
        incoming.take(b"".join(map(line, range(400))))
        incoming.close()
        assert held == [True, False]
        incoming.take(b"".join(map(line, range(400))))
        assert held == [True, False]
        with pytest.raises(anyio.ClosedResourceError):
            await incoming.receive()

    asyncio.run(main())
