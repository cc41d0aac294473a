"""What a tool knows of its call, in a coroutine and in a thread."""

import asyncio
import threading

import pytest

from loopctl.cancel import CancelSignal
from loopctl.errors import Cancelled, UsageError
from loopctl.record import CancelReason
from loopctl.testing import virtual_run
from loopctl.tools import ToolContext

REASON = CancelReason("deadline", "too late", "the clock")


def context(signal, told=None):
    report = (lambda message, fraction: told.append((message, fraction))) if told is not None else None
    more = {"report": report} if report else {}
    return ToolContext("c1", "fetch", signal.token, "key-1", **more)


def test_a_context_says_which_call_it_is():
    signal = CancelSignal()
    ctx = context(signal)
    assert (ctx.call_id, ctx.tool_name, ctx.idempotency_key) == ("c1", "fetch", "key-1")
    assert ctx.signal is signal.token
    assert repr(ctx) == "<ToolContext fetch c1>"


def test_a_tool_polls_and_learns_the_reason():
    """Case E9."""
    signal = CancelSignal()
    ctx = context(signal)
    assert not ctx.is_cancelled()
    assert ctx.reason is None
    signal.cancel(REASON)
    assert ctx.is_cancelled()
    assert ctx.reason == REASON


def test_a_tool_awaits_the_cancel_beside_its_work_and_gets_the_reason():
    async def main():
        signal = CancelSignal()
        ctx = context(signal)
        waiting = asyncio.create_task(ctx.cancelled())
        await asyncio.sleep(5)
        assert not waiting.done()
        signal.cancel(REASON)
        assert await waiting == REASON
        assert await ctx.cancelled() == REASON

    virtual_run(main)


def test_sleep_ends_in_its_time_when_nobody_cancels():
    async def main():
        loop = asyncio.get_running_loop()
        start = loop.time()
        await context(CancelSignal()).sleep(30)
        assert loop.time() - start == pytest.approx(30)

    virtual_run(main)


def test_sleep_ends_by_the_cancel_and_raises_with_the_reason():
    async def main():
        loop = asyncio.get_running_loop()
        signal = CancelSignal()
        start = loop.time()
        loop.call_later(2, signal.cancel, REASON)
        with pytest.raises(Cancelled) as caught:
            await context(signal).sleep(30)
        assert caught.value.reason == REASON
        assert loop.time() - start == pytest.approx(2)
        with pytest.raises(Cancelled):
            await context(signal).sleep(30)
        assert loop.time() - start == pytest.approx(2)

    virtual_run(main)


def test_a_plain_function_waits_for_the_cancel_in_its_thread():
    signal = CancelSignal()
    ctx = context(signal)
    seen = []
    ready = threading.Event()

    def work():
        seen.append(ctx.signal.wait(0))
        ready.set()
        seen.append(ctx.signal.wait(60))
        seen.append((ctx.is_cancelled(), ctx.reason))

    thread = threading.Thread(target=work)
    thread.start()
    assert ready.wait(60)
    signal.cancel(REASON)
    thread.join(60)
    assert seen == [False, True, (True, REASON)]


def test_a_context_cannot_cancel():
    ctx = context(CancelSignal())
    assert not hasattr(ctx, "cancel")
    assert not hasattr(ctx.signal, "cancel")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ((), ("", None)),
        (("reading",), ("reading", None)),
        (("reading", 0.5), ("reading", 0.5)),
        (("reading", 1), ("reading", 1.0)),
        (("reading", 1.0000001), ("reading", 1.0)),
        (("reading", -3), ("reading", 0.0)),
        (("reading", float("nan")), ("reading", None)),
        (("reading", float("inf")), ("reading", 1.0)),
    ],
)
def test_progress_is_told_with_a_fraction_between_0_and_1(given, told):
    seen = []
    context(CancelSignal(), seen).progress(*given)
    assert seen == [told]


@pytest.mark.parametrize("given", [(3,), (None,), ("x", "half"), (b"x",)])
def test_progress_of_another_type_is_refused(given):
    seen = []
    with pytest.raises(UsageError, match="progress takes a text and a number"):
        context(CancelSignal(), seen).progress(*given)
    assert seen == []


def test_progress_outside_of_the_engine_goes_nowhere():
    context(CancelSignal()).progress("reading", 0.5)


def test_once_without_a_ledger_says_how_to_get_one():
    done = []
    with pytest.raises(UsageError, match=r"once\('key'\) needs a ledger.*agent\.session\(store=path\)"):
        context(CancelSignal()).once("key", lambda: done.append(1))
    assert done == []
