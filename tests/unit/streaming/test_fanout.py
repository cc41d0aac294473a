"""Queues and readers on their own, with the races that a whole run rarely shows."""

from __future__ import annotations

import asyncio
import gc
import threading

import pytest

from loopctl import Cancelled, CancelSignal, Checkpoint, TextDelta
from loopctl.streaming import Fanout
from loopctl.testing import virtual_run


class Stage:
    """A fan-out, its signal, and how often it was deserted."""

    def __init__(self) -> None:
        self.signal = CancelSignal()
        self.deserted = 0
        self.fanout = Fanout(asyncio.get_running_loop(), self.signal.token, self.desert)

    def desert(self) -> None:
        self.deserted += 1


def test_with_no_reader_nothing_waits() -> None:
    async def main() -> None:
        stage = Stage()
        for _ in range(1000):
            assert stage.fanout.offer(TextDelta("x"))

    virtual_run(main)


def test_all_readers_get_an_event_or_none_does() -> None:
    async def main() -> None:
        stage = Stage()
        quick, slow = stage.fanout.open(), stage.fanout.open()
        count = 0
        while stage.fanout.offer(TextDelta(str(count))):
            count += 1
        assert count == 64
        first = [await anext(quick) for _ in range(count)]
        assert first == [TextDelta(str(number)) for number in range(count)]
        assert stage.fanout.offer(TextDelta("more")) is False
        assert await anext(slow) == TextDelta("0")
        assert stage.fanout.offer(TextDelta("more")) is True
        assert await anext(quick) == TextDelta("more")

    virtual_run(main)


def test_a_delivery_that_waits_goes_on_when_the_slow_reader_takes_leaves_or_is_collected() -> None:
    async def main() -> None:
        for way in ("takes", "leaves", "is collected", "is collected elsewhere"):
            stage = Stage()
            readers = [stage.fanout.open(), stage.fanout.open()]
            while stage.fanout.offer(TextDelta("x")):
                pass
            for _ in range(64):
                await anext(readers[0])
            delivery = asyncio.ensure_future(stage.fanout.deliver(TextDelta("last")))
            await asyncio.sleep(1)
            assert not delivery.done()
            match way:
                case "takes":
                    await anext(readers[1])
                case "leaves":
                    readers[1].close()
                case "is collected":
                    readers.pop()
                case _:
                    thread = threading.Thread(target=readers.pop)
                    thread.start()
                    thread.join()
            gc.collect()
            await asyncio.sleep(0.1)
            assert delivery.done(), way
            assert await anext(readers[0]) == TextDelta("last")
            assert stage.deserted == 0

    virtual_run(main)


def test_a_delivery_ends_with_the_cancel_and_delivers_nothing() -> None:
    async def main() -> None:
        stage = Stage()
        reader = stage.fanout.open()
        while stage.fanout.offer(TextDelta("x")):
            pass
        delivery = asyncio.ensure_future(stage.fanout.deliver(TextDelta("last")))
        await asyncio.sleep(1)
        stage.signal.cancel()
        await asyncio.wait([delivery])
        error = delivery.exception()
        assert isinstance(error, Cancelled)
        assert error.checkpoint is Checkpoint.DELIVERY
        assert stage.fanout.was_cut
        del reader

    virtual_run(main)


def test_the_last_reader_to_leave_deserts_the_run_once() -> None:
    async def main() -> None:
        stage = Stage()
        readers = [stage.fanout.open() for _ in range(3)]
        readers[0].close()
        readers[0].close()
        await readers[1].aclose()
        assert stage.deserted == 0
        readers[2].close()
        assert stage.deserted == 1
        with pytest.raises(StopAsyncIteration):
            await anext(readers[2])

    virtual_run(main)


def test_a_waiting_reader_that_is_closed_by_another_task_ends() -> None:
    async def main() -> None:
        stage = Stage()
        reader = stage.fanout.open()

        async def read() -> list[object]:
            return [event async for event in reader]

        task = asyncio.ensure_future(read())
        await asyncio.sleep(1)
        reader.close()
        assert await task == []

    virtual_run(main)
