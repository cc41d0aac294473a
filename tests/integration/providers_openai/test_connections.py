"""Connections: kept for the next request, one client for each loop, closed with it, and no task of ours."""

from __future__ import annotations

import asyncio
import gc
import threading
from typing import Any

import pytest

from loopctl.messages import UserMessage
from loopctl.model import Delta, ModelRequest, ReplyEnd
from loopctl.providers.openai import OpenAIModel
from tests.peers import openai_server as peer
from tests.peers.openai_server import OpenAIServer

REQUEST = ModelRequest("", (UserMessage("hi"),))


async def read(model: OpenAIModel) -> list[Delta]:
    return [delta async for delta in model.stream(REQUEST)]


def test_a_connection_serves_one_request_after_the_other() -> None:
    async def main() -> None:
        model = OpenAIModel("test", base_url=server.url)
        for _ in range(3):
            await read(model)
            await model.complete(REQUEST)
        assert server.connections_total == 1

    with OpenAIServer() as server:
        asyncio.run(main())


def test_a_refusal_gives_its_connection_back() -> None:
    async def main() -> None:
        model = OpenAIModel("test", base_url=server.url)
        for _ in range(3):
            with pytest.raises(Exception, match="busy"):
                await read(model)
        assert server.connections_total == 1

    with OpenAIServer(peer.error(503, "busy")) as server:
        asyncio.run(main())


def test_a_client_that_nobody_closed_is_closed_with_its_loop() -> None:
    with OpenAIServer() as server:
        model = OpenAIModel("test", base_url=server.url)
        for _ in range(3):
            assert asyncio.run(read(model))[-1] == ReplyEnd("stop")
            server.wait_for(lambda s: s.connections == 0)
        assert server.connections_total == 3
        assert model._clients._by_loop == {}
        gc.collect()


def test_aclose_closes_and_a_later_use_opens_anew() -> None:
    async def main() -> None:
        model = OpenAIModel("test", base_url=server.url)
        await model.aclose()
        await read(model)
        assert server.connections == 1
        await model.aclose()
        await server.until(lambda s: s.connections == 0)
        await model.aclose()
        await read(model)
        assert server.connections_total == 2

    with OpenAIServer() as server:
        asyncio.run(main())


def test_a_cancelled_aclose_closes_all_the_same() -> None:
    async def main() -> None:
        model = OpenAIModel("test", base_url=server.url)
        await read(model)
        task = asyncio.ensure_future(model.aclose())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task})
        await server.until(lambda s: s.connections == 0)
        assert model._clients._by_loop == {}

    with OpenAIServer() as server:
        asyncio.run(main())


def test_loops_in_several_threads_share_a_model_and_no_client() -> None:
    replies: list[Any] = []
    together = threading.Barrier(4)

    async def main(model: OpenAIModel) -> None:
        await asyncio.gather(*(read(model) for _ in range(5)))
        together.wait(10)
        replies.append((await read(model))[-1])

    with OpenAIServer() as server:
        model = OpenAIModel("test", base_url=server.url)
        threads = [threading.Thread(target=lambda: asyncio.run(main(model))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert replies == [ReplyEnd("stop")] * 4
        server.wait_for(lambda s: s.connections == 0)


def test_a_client_of_a_loop_that_was_closed_by_hand_is_dropped() -> None:
    with OpenAIServer(peer.never()) as server:
        model = OpenAIModel("test", base_url=server.url)
        loop = asyncio.new_event_loop()
        loop.run_until_complete(model._clients.client())
        loop.close()
        assert len(model._clients._by_loop) == 1
        asyncio.run(_touch(model))
        assert model._clients._by_loop == {}
    gc.collect()


async def _touch(model: OpenAIModel) -> None:
    await model._clients.client()
    assert list(model._clients._by_loop) == [asyncio.get_running_loop()]


@pytest.mark.parametrize("is_left_early", [False, True])
def test_the_loop_is_given_no_task_by_a_stream(is_left_early: bool) -> None:
    async def main() -> None:
        model = OpenAIModel("test", base_url=server.url)
        await model.complete(REQUEST)  # connecting races the addresses of the host, in tasks of anyio's
        made: list[Any] = []
        loop = asyncio.get_running_loop()
        loop.set_task_factory(lambda loop, work, **rest: (made.append(work), asyncio.Task(work, loop=loop, **rest))[1])
        stream = model.stream(REQUEST)
        async for _ in stream:
            if is_left_early:
                break
        await stream.aclose()  # type: ignore[attr-defined]
        del stream
        gc.collect()
        await asyncio.sleep(0.01)
        assert made == []

    with OpenAIServer(peer.text(*"abcdef")) as server:
        asyncio.run(main())


def test_a_stream_that_was_only_dropped_is_closed_by_the_loop() -> None:
    async def main() -> None:
        model = OpenAIModel("test", base_url=server.url)
        stream = model.stream(REQUEST)
        await anext(stream)
        assert server.open == 1
        del stream
        await server.until(lambda s: s.disconnects == 1 and s.connections == 0)

    with OpenAIServer(peer.endless(0.002)) as server:
        asyncio.run(main())


def test_a_model_dropped_in_a_running_loop_closes_its_connections() -> None:
    async def main() -> None:
        await read(OpenAIModel("test", base_url=server.url))
        gc.collect()
        await server.until(lambda s: s.connections == 0)

    with OpenAIServer() as server:
        asyncio.run(main())
