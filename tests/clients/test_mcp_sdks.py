"""`loopctl mcp serve`, called by the clients of the TypeScript SDKs: the old protocol and the new, stdio and HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal

import pytest

from tests.clients.sdk import SdkClient, served_http, stdio_command
from tests.integration.mcp.places import Peer, is_alive

ERAS = pytest.mark.parametrize("era", ["old", "new"])
PLACES = pytest.mark.parametrize("place", ["stdio", "http"])
INVALID_PARAMS = -32602
REQUEST_TIMED_OUT = {"old": -32001, "new": "REQUEST_TIMEOUT"}


@pytest.fixture
def peer(tmp_path):
    return Peer(tmp_path)


@contextlib.contextmanager
def server(peer, place):
    """What a client is given, of a server of ours: its URL, or the command that starts one."""
    if place == "stdio":
        yield stdio_command()
    else:
        with served_http(peer) as url:
            yield [url]


def logged(peer, word):
    return sum(line.startswith(word) for line in peer.lines())


@ERAS
@PLACES
def test_an_abort_stops_its_call_and_no_other(clients, peer, tmp_path, era, place):
    async def main(target):
        go = str(tmp_path / "go")
        async with (
            SdkClient.connect(clients, era, peer, *target) as one,
            SdkClient.connect(clients, era, peer, *target) as other,
        ):
            for name, tool in (("a", "slow"), ("b", "slow"), ("c", "plain")):
                one.begin(name, tool, name=name)
            one.begin("d", "held", name="d", path=go)
            other.begin("e", "held", name="e", path=go)
            other.begin("f", "plain", name="f")
            await peer.until(lambda: logged(peer, "begun") == 6)
            one.abort("a", "c")
            await peer.until_logged("cancelled a")
            await peer.until_logged("told c: user: the client cancelled the call")
            (tmp_path / "go").touch()
            for client, name in ((one, "d"), (other, "e")):
                assert (await client.end(name))["result"]["content"] == [{"type": "text", "text": "finished"}]
            assert "error" in await one.end("a")
            assert "error" in await one.end("c")
            assert (await one.call("add", a=1, b=2))["result"]["content"][0]["text"] == "3"
            assert not any(line.startswith(("cancelled b", "told f")) for line in peer.lines())
            one.abort("b")
            other.abort("f")
            await peer.until_logged("cancelled b")
            await peer.until_logged("told f")

    with server(peer, place) as target:
        asyncio.run(main(target))


@ERAS
@PLACES
def test_of_200_calls_at_once_the_right_half_is_cancelled(clients, peer, era, place):
    async def main(target):
        async with SdkClient.connect(clients, era, peer, *target) as client:
            names = [f"{n:03}" for n in range(200)]
            for name in names:
                client.begin(name, "slow", name=name)
            await peer.until(lambda: logged(peer, "begun") == len(names))
            chosen = set(random.Random(5).sample(names, len(names) // 2))
            client.abort(*chosen)
            await peer.until(lambda: logged(peer, "cancelled") >= len(chosen))
            assert "result" in await client.call("add", a=1, b=2)
            assert {line.removeprefix("cancelled ") for line in peer.lines() if line.startswith("cancelled")} == chosen
            for name in chosen:
                assert "error" in await client.end(name)

    with server(peer, place) as target:
        asyncio.run(main(target))


@ERAS
@PLACES
def test_a_clients_own_timeout_is_a_cancel(clients, peer, era, place):
    async def main(target):
        async with SdkClient.connect(clients, era, peer, *target) as client:
            client.begin("x", "slow", name="x", options={"timeout": 300})
            assert (await client.end("x"))["error"]["code"] == REQUEST_TIMED_OUT[era]
            await peer.until_logged("cancelled x")
            assert "result" in await client.call("add", a=1, b=2)

    with server(peer, place) as target:
        asyncio.run(main(target))


def test_progress_keeps_a_call_from_its_clients_timeout(clients, peer):
    """That of the tool; and for one that tells nothing for longer, the server's own sign of life."""

    async def main(url):
        async with contextlib.AsyncExitStack() as stack:
            ways = [(era, target) for era in ("old", "new") for target in (stdio_command(), [url])]
            entering = [
                stack.enter_async_context(SdkClient.connect(clients, era, peer, *target)) for era, target in ways
            ]
            connected = await asyncio.gather(*entering)
            for client in connected:
                client.begin("told", "lasting", beats=8, seconds=0.5, options=patient(2000))
                client.begin("quiet", "lasting", beats=1, seconds=9, options=patient(7500))
            for client in connected:
                for name in ("told", "quiet"):
                    assert "result" in await client.end(name), name
                steps = [told["progress"] for told in client.progress["told"]]
                assert steps == sorted(set(steps))
                assert len(steps) >= 7
                assert client.progress["told"][-1]["message"] == "beat 7"
                assert len(client.progress["quiet"]) == 2

    def patient(milliseconds):
        return {"timeout": milliseconds, "resetTimeoutOnProgress": True}

    with served_http(peer) as url:
        asyncio.run(main(url))


@ERAS
@PLACES
def test_errors_are_what_the_protocol_wants(clients, peer, era, place):
    async def main(target):
        async with SdkClient.connect(clients, era, peer, *target) as client:
            assert client.tools == ["add", "slow", "plain", "steps", "fail", "held", "lasting", "flood"]
            unknown = await client.call("nothing")
            unfit = await client.call("add", a="x", b=2)
            failed = await client.call("fail")
            return unknown, unfit, failed

    with server(peer, place) as target:
        unknown, unfit, failed = asyncio.run(main(target))
    assert unknown["error"]["code"] == INVALID_PARAMS
    assert "Unknown tool: nothing" in unknown["error"]["message"]
    assert unfit["result"]["isError"]
    assert "a: given" in unfit["result"]["content"][0]["text"]
    assert failed["result"]["isError"]
    assert "the disk is full" in failed["result"]["content"][0]["text"]


def test_a_client_that_goes_over_http_has_cancelled_by_the_new_protocol_and_not_by_the_old(clients, peer, tmp_path):
    async def main(url):
        go = tmp_path / "go"
        async with (
            SdkClient.connect(clients, "old", peer, url) as old,
            SdkClient.connect(clients, "new", peer, url) as new,
            SdkClient.connect(clients, "new", peer, url) as other,
        ):
            old.begin("old", "held", name="old", path=str(go))
            old.begin("old slow", "slow", name="old slow")
            new.begin("new", "slow", name="new")
            other.begin("other", "slow", name="other")
            await peer.until(lambda: logged(peer, "begun") == 4)
            for client in (old, new):
                client.process.kill()
                await client.process.wait()
            await peer.until_logged("cancelled new")
            await asyncio.sleep(0.3)
            assert [line for line in peer.lines() if line.startswith(("cancelled", "finished"))] == ["cancelled new"]
            go.touch()
            await peer.until_logged("finished old")
            other.abort("other")
            await peer.until_logged("cancelled other")

    with served_http(peer) as url:
        asyncio.run(main(url))


@ERAS
def test_a_client_that_goes_on_stdio_has_cancelled_all_its_calls(clients, peer, era):
    async def main():
        async with SdkClient.connect(clients, era, peer, *stdio_command()) as client:
            client.begin("x", "slow", name="x")
            client.begin("y", "plain", name="y")
            await peer.until(lambda: logged(peer, "begun") == 2)
            client.process.kill()
            await peer.until_logged("cancelled x")
            await peer.until_logged("told y")

    asyncio.run(main())


@ERAS
def test_a_client_that_reads_nothing_any_more_holds_up_neither_another_nor_the_servers_end(clients, peer, era):
    async def main(url):
        async with (
            SdkClient.connect(clients, era, peer, url) as stuck,
            SdkClient.connect(clients, era, peer, url) as other,
        ):
            stuck.begin("flood", "flood")
            other.begin("x", "plain", name="x")
            await peer.until(lambda: logged(peer, "begun") == 2 and stuck.progress["flood"])
            stuck.process.send_signal(signal.SIGSTOP)
            await asyncio.sleep(1.5)  # until the buffers between the two are full
            for _ in range(20):
                assert "result" in await other.call("add", a=1, b=2)
            other.abort("x")
            await peer.until_logged("told x")
            assert not logged(peer, "cancelled flood")
            stuck.process.kill()
            if era == "new":
                await peer.until_logged("cancelled flood")

    with served_http(peer) as url:
        asyncio.run(main(url))
    assert logged(peer, "cancelled flood")


@ERAS
def test_a_client_on_stdio_that_reads_nothing_any_more_can_still_end_its_server(clients, peer, era):
    async def main():
        async with SdkClient.connect(clients, era, peer, *stdio_command()) as client:
            client.begin("flood", "flood")
            await peer.until(lambda: client.progress["flood"])
            client.process.send_signal(signal.SIGSTOP)
            await asyncio.sleep(1.5)
            os.kill(peer.pids()[-1], signal.SIGTERM)
            await peer.until_logged("cancelled flood")
            await peer.until(lambda: not is_alive(peer.pids()[-1]))
            client.process.kill()

    asyncio.run(main())
