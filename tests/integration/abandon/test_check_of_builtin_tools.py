"""Each built-in tool passes the checker: stopped and killed at every point, it leaves all or nothing."""

from __future__ import annotations

import asyncio
import threading

import pytest

from loopctl import builtin
from loopctl.testing import abandon_everywhere

FILES = {"a.txt": "one\ntwo\n", "sub/b.txt": "three\n"}


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    ("name", "input"),
    [
        ("read_file", {"path": "a.txt"}),
        ("list_dir", {}),
        ("search", {"text": "three"}),
        ("write_file", {"path": "sub/c.txt", "content": "new\n"}),
        ("write_file", {"path": "a.txt", "content": "new\n"}),
        ("edit_file", {"path": "a.txt", "old": "two", "new": "2"}),
        ("run_command", {"command": "cat a.txt; sleep 0.2 & wait"}),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(map(str, value.values()))[:20],
)
def test_a_built_in_tool_is_safe_to_abandon(name, input):
    report = abandon_everywhere(getattr(builtin, name), input, files=FILES, limit=60)
    print(report)
    assert report.is_safe


PAGE = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello"


@pytest.fixture
def site():
    """The address of a server on loopback, in a thread."""
    ready, ended = threading.Event(), threading.Event()
    found = []

    async def answer(reader, writer):
        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(PAGE)
            await writer.drain()
            await reader.read()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def serve():
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            found.append(server.sockets[0].getsockname()[1])
            ready.set()
            while not ended.is_set():
                await asyncio.sleep(0.02)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    ready.wait(10)
    yield f"http://127.0.0.1:{found[0]}/"
    ended.set()
    thread.join()


@pytest.mark.timeout(180)
def test_fetching_is_safe_to_abandon(site, tmp_path):
    (fetch_url,) = builtin.builtin_tools(tmp_path, ["fetch_url"], private_addresses=True)
    report = abandon_everywhere(fetch_url, {"url": site}, limit=60)
    print(report)
    assert report.is_safe
