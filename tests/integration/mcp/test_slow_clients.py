"""Clients that read nothing, stall, flood or are dead: the others go on, memory is bounded, SIGTERM ends the server."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest
from mcp import Client

from tests.integration.cli.terminal import COMMAND
from tests.integration.mcp.places import PEERS, Peer

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


@pytest.fixture
def peer(tmp_path):
    return Peer(tmp_path)


@contextlib.contextmanager
def server(peer, *options):
    """The command, which must end soon after SIGTERM whatever its clients do."""
    path = os.pathsep.join(filter(None, (str(PEERS), os.environ.get("PYTHONPATH"))))
    argv = [*COMMAND, "mcp", "serve", "mcp_served:add,mcp_served:flood,mcp_served:slow,mcp_served:big", *options]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE} if not options else {}
    env = {**os.environ, **peer.env, "PYTHONPATH": path}
    with subprocess.Popen(argv, env=env, stderr=subprocess.PIPE, bufsize=0, **pipes) as process:
        try:
            yield process
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                assert process.wait(15) == 143
        finally:
            process.kill()


def call(number, tool, **arguments):
    meta = {**META, "progressToken": f"p{number}"}
    params = {"name": tool, "arguments": arguments, "_meta": meta}
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}).encode()


def post(port, tool, body, length=None):
    """Send a request of which nobody reads the answer."""
    connection = socket.create_connection(("127.0.0.1", port))
    head = (
        "POST /mcp HTTP/1.1",
        f"Host: 127.0.0.1:{port}",
        "Content-Type: application/json",
        "Accept: application/json, text/event-stream",
        f"Content-Length: {length or len(body)}",
        "mcp-protocol-version: 2026-07-28",
        "mcp-method: tools/call",
        f"mcp-name: {tool}",
    )
    connection.sendall("\r\n".join(head).encode() + b"\r\n\r\n" + body)
    return connection


def megabytes(process):
    (kilobytes,) = re.findall(r"VmRSS:\s+(\d+)", Path(f"/proc/{process.pid}/status").read_text())
    return int(kilobytes) / 1024


def wait_until(condition):
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def grown(process, seconds=5.0):
    """By how much the memory grows in a while, in MB."""
    before = megabytes(process)
    signal.sigtimedwait([], seconds)
    return megabytes(process) - before


def test_clients_that_read_nothing_stall_or_flood_hold_up_no_other_over_http(peer):
    async def other(url):
        async with Client(url) as client:
            return (await client.call_tool("add", {"a": 1, "b": 2})).content[0].text

    with server(peer, "--http", "0") as process, contextlib.ExitStack() as clients:
        (url,) = re.findall(r"http://\S+", process.stderr.readline().decode())
        port = int(re.findall(r":(\d+)/", url)[0])
        for number in range(3):
            clients.enter_context(post(port, "flood", call(number, "flood")))
        clients.enter_context(post(port, "slow", call(4, "slow", name="half")[:40], length=5000))
        for number in range(5, 105):
            clients.enter_context(post(port, "slow", call(number, "slow", name=f"flood {number}")))
        wait_until(lambda: sum(line.startswith("begun") for line in peer.lines()) == 103)
        assert asyncio.run(other(url)) == "3"
        assert grown(process) < 5, "each of the three is told two megabytes a second"
        assert asyncio.run(other(url)) == "3"


def test_a_client_that_stalls_at_the_end_of_the_server_is_no_fault_that_anybody_is_told_of(peer):
    with server(peer, "--http", "0") as process:
        port = int(re.findall(r":(\d+)/", process.stderr.readline().decode())[0])
        with post(port, "slow", call(1, "slow", name="half")[:40], length=5000):
            with post(port, "slow", call(2, "slow", name="whole")):
                wait_until(lambda: "begun whole" in peer.lines())
            process.send_signal(signal.SIGTERM)
            said = process.stderr.read().decode()
    assert "timeout graceful shutdown exceeded" in said, "else nothing was cut short"
    assert "Traceback" not in said


def test_a_client_that_does_not_read_is_told_no_news_and_its_calls_go_on(peer):
    with server(peer) as process:
        process.stdin.write(call(1, "flood") + b"\n")
        wait_until(lambda: any(line.startswith("begun") for line in peer.lines()))
        assert grown(process) < 5, "it is told two megabytes a second"
        process.stdin.write(call(2, "add", a=1, b=2) + b"\n")
        answers = (json.loads(line) for line in process.stdout)
        answer = next(answer for answer in answers if answer.get("id") == 2)
        assert answer["result"]["content"][0]["text"] == "3"


def test_a_client_that_asks_and_never_reads_is_taken_for_gone(peer):
    with server(peer) as process:
        process.stdin.write(call(1, "slow", name="x") + b"\n")
        wait_until(lambda: "begun x" in peer.lines())
        for number in range(2, 40):
            process.stdin.write(call(number, "big") + b"\n")
        wait_until(lambda: "cancelled x" in peer.lines())
        assert process.wait(15) == 0


@pytest.mark.parametrize("sent", [b'{"jsonrpc": "2.0", "id": 2, "meth', b"\n" * 100_000, b"no message\n" * 1000])
def test_a_client_that_stalls_in_a_message_or_sends_none_does_not_hold_up_the_end(peer, sent):
    with server(peer) as process:
        process.stdin.write(call(1, "slow", name="x") + b"\n" + sent)
        wait_until(lambda: "begun x" in peer.lines())
    assert "cancelled x" in peer.lines()


def test_a_message_without_an_end_is_the_end_of_the_client(peer):
    with server(peer) as process:
        process.stdin.write(call(1, "slow", name="x") + b"\n")
        wait_until(lambda: "begun x" in peer.lines())
        with contextlib.suppress(BrokenPipeError):
            for _ in range(80):
                process.stdin.write(b"x" * 1024 * 1024)
        assert process.wait(15) == 0
    assert "cancelled x" in peer.lines()
