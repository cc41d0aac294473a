"""Cancelling at a real server: it sees its client leave, no slot is lost, nothing is left, however it is cancelled."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from loopctl.messages import UserMessage
from loopctl.model import Delta, ModelRequest, ReplyEnd, TextPart
from loopctl.providers.openai import HttpOptions, OpenAIModel
from tests.peers import openai_server as peer
from tests.peers.openai_server import OpenAIServer

REQUEST = ModelRequest("", (UserMessage("hi"),))
PATIENCE = 10.0


async def read(model: OpenAIModel, into: list[Delta] | None = None) -> list[Delta]:
    deltas = [] if into is None else into
    async for delta in model.stream(REQUEST):
        deltas.append(delta)
    return deltas


async def complete(model: OpenAIModel) -> list[Delta]:
    return list(await model.complete(REQUEST))


async def ended(task: asyncio.Task[Any]) -> None:
    """Wait for a cancelled *task* and check that its cancellation came through."""
    await asyncio.wait({task}, timeout=PATIENCE)
    assert task.cancelled()


async def works(model: OpenAIModel) -> None:
    """Check that *model* still has a connection to give; without one it would wait for ever."""
    async with asyncio.timeout(PATIENCE):
        assert (await read(model))[-1] == ReplyEnd("stop")


def after(count: int, first: peer.Reply, then: peer.Reply | None = None) -> Any:
    """Answer the first *count* requests with *first*, the others with a text."""
    return lambda record: first if record.index < count else then or peer.text("fine")


def test_a_stream_cancelled_in_the_middle_is_closed_at_the_server() -> None:
    """Case I1 at the provider: what a server goes on producing for nobody is nothing."""

    async def main() -> None:
        model = OpenAIModel("test", base_url=server.url)
        got: list[Delta] = []
        task = asyncio.ensure_future(read(model, got))
        await server.until(lambda s: s.records and len(s.records[0].tokens) >= 5)
        assert server.open == 1
        cancelled = time.monotonic()
        task.cancel()
        await ended(task)
        assert got
        assert not any(isinstance(delta, ReplyEnd) for delta in got)
        await server.until(lambda s: s.disconnects == 1)
        (record,) = server.records
        assert record.finished is None
        assert record.tokens_after_disconnect == 0
        sent = len(record.tokens)
        await asyncio.sleep(0.05)
        assert len(record.tokens) == sent
        assert record.disconnected is not None
        assert record.disconnected >= cancelled

    with OpenAIServer(peer.endless(0.002)) as server:
        asyncio.run(main())


@pytest.mark.parametrize("ask", [read, complete])
def test_a_request_that_is_not_answered_is_closed_at_the_server(ask: Any) -> None:
    async def main() -> None:
        model = OpenAIModel("test", base_url=server.url)
        task = asyncio.ensure_future(ask(model))
        await server.until(lambda s: s.open == 1)
        task.cancel()
        await ended(task)
        await server.until(lambda s: s.disconnects == 1 and s.connections == 0)
        assert server.records[0].answered is None
        await works(model)

    with OpenAIServer(after(1, peer.never())) as server:
        asyncio.run(main())


@pytest.mark.parametrize("ask", [read, complete])
def test_a_reply_that_stalls_is_closed_at_the_server(ask: Any) -> None:
    async def main() -> None:
        model = OpenAIModel("test", base_url=server.url)
        task = asyncio.ensure_future(ask(model))
        await server.until(lambda s: s.records and s.records[0].answered)
        await asyncio.sleep(0.02)
        task.cancel()
        await ended(task)
        await server.until(lambda s: s.disconnects == 1 and s.connections == 0)

    with OpenAIServer(peer.stalled(3)) as server:
        asyncio.run(main())


def test_closing_the_iterator_early_ends_the_generation_at_the_server() -> None:
    """Case I4, the provider's half: the reader stops and closes, and the server sees it."""

    async def main() -> None:
        model = OpenAIModel("test", base_url=server.url)
        tasks_before = len(asyncio.all_tasks())
        stream = model.stream(REQUEST)
        async for delta in stream:
            assert delta == TextPart("token ")
            break
        assert server.open == 1
        await close(stream)
        assert len(asyncio.all_tasks()) == tasks_before
        await server.until(lambda s: s.disconnects == 1 and s.connections == 0)

    with OpenAIServer(peer.endless(0.002)) as server:
        asyncio.run(main())


async def close(stream: AsyncIterator[Delta]) -> None:
    await stream.aclose()  # type: ignore[attr-defined]


def test_a_bare_generator_cancelled_while_it_is_pulled_is_closed_once() -> None:
    """Case H7: no "already running", no second close, whoever closes it again."""

    async def main() -> None:
        model = OpenAIModel("test", base_url=server.url)
        stream = model.stream(REQUEST)

        async def pull() -> None:
            async for _ in stream:
                pass

        task = asyncio.ensure_future(pull())
        await server.until(lambda s: s.records and s.records[0].tokens)
        task.cancel()
        await ended(task)
        await asyncio.ensure_future(close(stream))  # another task
        with pytest.raises(StopAsyncIteration):
            await anext(stream)
        await server.until(lambda s: s.disconnects == 1 and s.connections == 0)
        assert server.connections_total == 1

    with OpenAIServer(peer.stalled(3)) as server:
        asyncio.run(main())


@pytest.mark.parametrize("turns", range(4))
def test_a_second_cancel_during_the_close_does_not_stop_it(turns: int) -> None:
    """Case H10: the close runs to its end, so the only slot of the pool is free again."""

    async def main() -> None:
        model = OpenAIModel("test", base_url=server.url, http=HttpOptions(max_connections=1))
        loop = asyncio.get_running_loop()

        def cancel_in(turns: int) -> None:
            if turns:
                loop.call_soon(cancel_in, turns - 1)
            else:
                task.cancel()

        async def leave_early() -> None:
            stream = model.stream(REQUEST)
            async for _ in stream:
                cancel_in(turns)
                try:
                    await asyncio.sleep(0 if turns else PATIENCE)
                finally:
                    await close(stream)

        task = asyncio.ensure_future(leave_early())
        await asyncio.wait({task}, timeout=PATIENCE)
        await server.until(lambda s: s.disconnects == 1 and s.connections == 0)
        await works(model)

    with OpenAIServer(after(1, peer.endless(0.002))) as server:
        asyncio.run(main())


def test_a_cancel_at_the_very_moment_of_the_close_is_held_back_and_then_goes_on() -> None:
    """Case H10, where httpcore alone never passes the slot on: the cancel lands on the close's own await."""

    async def main() -> None:
        model = OpenAIModel("test", base_url=server.url, http=HttpOptions(max_connections=1))

        async def leave_early() -> None:
            stream = model.stream(REQUEST)
            await anext(stream)
            waiting.append(asyncio.ensure_future(works(model)))
            await asyncio.sleep(0.02)
            assert len(server.records) == 1
            asyncio.get_running_loop().call_soon(task.cancel)
            await close(stream)

        waiting: list[asyncio.Task[None]] = []
        task = asyncio.ensure_future(leave_early())
        await ended(task)
        await waiting[0]
        assert server.disconnects == 1

    with OpenAIServer(after(1, peer.endless(0.002))) as server:
        asyncio.run(main())


@pytest.mark.parametrize("ask", [read, complete])
def test_many_cancelled_requests_lose_no_slot_of_a_small_pool(ask: Any) -> None:
    """Case H12 at the provider: 50 cancelled against a pool of 2, then one that works."""

    async def main() -> None:
        model = OpenAIModel("test", base_url=server.url, http=HttpOptions(max_connections=2))
        tasks = [asyncio.ensure_future(ask(model)) for _ in range(50)]
        await server.until(lambda s: s.open == 2)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=PATIENCE)
        assert all(task.cancelled() for task in tasks)
        await server.until(lambda s: s.open == 0 and s.connections == 0)
        seen = len(server.records)
        assert seen < 50
        answering.append(seen)
        await works(model)

    answering: list[int] = []
    with OpenAIServer(lambda _: peer.text("fine") if answering else peer.stalled(2)) as server:
        asyncio.run(main())


def test_a_waiting_request_gets_the_slot_of_one_that_was_cancelled_twice() -> None:
    async def main() -> None:
        model = OpenAIModel("test", base_url=server.url, http=HttpOptions(max_connections=1))
        first = asyncio.ensure_future(read(model))
        await server.until(lambda s: s.records and s.records[0].tokens)
        second = asyncio.ensure_future(read(model))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait({first, second}, timeout=PATIENCE)
        assert first.cancelled()
        assert second.result()[-1] == ReplyEnd("stop")

    with OpenAIServer(after(1, peer.stalled(1))) as server:
        asyncio.run(main())


@pytest.mark.parametrize("gap", range(3))
@pytest.mark.parametrize("ask", [read, complete])
def test_cancels_at_every_turn_of_the_loop_leave_nothing(ask: Any, gap: int) -> None:
    async def main() -> None:
        model = OpenAIModel("test", base_url=server.url, http=HttpOptions(max_connections=1))
        for turns in range(25):
            task = asyncio.ensure_future(ask(model))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            for _ in range(gap):
                await asyncio.sleep(0)
            task.cancel()
            await ended(task)
        await server.until(lambda s: s.open == 0 and s.connections == 0)
        answering.append(True)
        await works(model)

    answering: list[bool] = []
    held = peer.endless(0.0005) if ask is read else peer.never()
    with OpenAIServer(lambda _: peer.text("fine") if answering else held) as server:
        asyncio.run(main())
