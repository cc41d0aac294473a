"""What a model may do at the end of its stream, and what its errors may not keep."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from loopctl import Agent, Event, ModelError, RunConfig, RunHandle, TextDelta
from loopctl.model import Delta, ModelRequest, ReplyEnd, TextPart, ThinkingPart
from loopctl.recovery import ModelRecovery
from loopctl.testing import ScriptedModel, say, stall, virtual_run


def test_kept_errors_hold_no_frames_of_who_raised_or_caught_them() -> None:
    class Large:
        pass

    refs: list[weakref.ref[Large]] = []

    async def stream_of(request: object) -> AsyncIterator[Delta]:
        large = Large()
        refs.append(weakref.ref(large))
        yield TextPart("x")
        raise ValueError("after holding something large")

    class Failing:
        name = "failing"

        def stream(self, request: ModelRequest) -> AsyncIterator[Delta]:
            return stream_of(request)

    session = Agent(Failing()).session()

    async def call_it() -> None:
        large = Large()
        refs.append(weakref.ref(large))
        with pytest.raises(ModelError, match="after holding"):
            await session.run("a")

    virtual_run(call_it)
    gc.collect()
    assert len(session.runs) == 1
    assert isinstance(session.runs[0].error, ModelError)
    assert isinstance(session.runs[0].error.__cause__, ValueError)
    assert [ref() for ref in refs] == [None, None]


class Closing:
    """A model whose stream does something of its own after the end of its reply."""

    name = "closing"

    def __init__(self, after: Callable[[], Awaitable[None]]) -> None:
        self.after = after
        self.ended: list[str] = []

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta]:
        yield TextPart("whole")
        yield ReplyEnd()
        await self.after()
        self.ended.append("to its end")


async def _at_once() -> None:
    pass


async def _raise() -> None:
    raise ValueError("while closing")


async def _hang() -> None:
    await asyncio.sleep(10_000)


async def _refuse() -> None:
    for _ in range(3):
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(10_000)


@pytest.mark.parametrize(("after", "most"), [(_at_once, 0), (_raise, 0), (_hang, 4), (_refuse, 4)])
def test_a_whole_reply_is_not_made_worse_by_how_its_stream_ends(
    after: Callable[[], Awaitable[None]], most: float
) -> None:
    model = Closing(after)
    session = Agent(model, config=RunConfig(grace=2)).session()

    async def main() -> None:
        assert (await session.run("a")).output == "whole"
        assert asyncio.get_running_loop().time() <= most
        assert len(session.stragglers) == (after is _refuse)
        await asyncio.sleep(20_000)

    virtual_run(main, limit=50_000)
    assert model.ended == (["to its end"] if after in {_at_once, _refuse} else [])


def test_a_model_that_goes_on_after_its_time_limit_is_heard_by_nobody() -> None:
    """It refuses both cancellations; the run has failed, and what it still says is neither shown nor recorded."""

    class Refusing:
        name = "refusing"

        async def stream(self, request: ModelRequest) -> AsyncIterator[Delta]:
            yield TextPart("before")
            for _ in range(3):
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.sleep(100)
            yield TextPart("after")
            yield ThinkingPart("after")
            yield ReplyEnd()

    once = ModelRecovery(transport_retries=0)
    session = Agent(Refusing(), recovery=once, config=RunConfig(event_timeout=5, grace=1)).session()

    async def main() -> None:
        handle = session.start("a")
        seen = [event async for event in handle]
        run = await handle
        assert run.outcome == "failed"
        assert run.partial_text == "before"
        assert [straggler.name for straggler in run.stragglers] == ["refusing"]
        await asyncio.sleep(1000)
        assert session.stragglers[0].is_ended
        assert not any("after" in repr(event) for event in seen)

    virtual_run(main)


def test_a_reading_generator_that_the_collector_closes_stops_the_run_in_silence() -> None:
    """Case H1: it is closed by a hook, in another task; the model's stream is closed by the task that opened it."""
    model = ScriptedModel([say("a"), stall()])
    session = Agent(model).session()

    async def wrap(handle: RunHandle) -> AsyncIterator[Event]:
        async for event in handle:
            yield event

    async def main() -> None:
        handle = session.start("a")
        wrapped = wrap(handle)
        while not isinstance(await anext(wrapped), TextDelta):
            pass
        del wrapped
        gc.collect()
        run = await handle
        assert run.stop is not None
        assert run.stop.reason.origin == "caller"
        (exchange,) = model.exchanges
        assert exchange.is_clean

    virtual_run(main)
