"""ScriptedModel: that it plays what was written, and tells the truth about how each reply ended."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from loopctl.errors import ModelError
from loopctl.messages import AssistantMessage, ToolCall, UserMessage
from loopctl.model import Model, ModelRequest, ReplyEnd, TextPart, ThinkingPart, ToolCallPart, UsagePart
from loopctl.testing import (
    NonStreamingModel,
    ScriptedModel,
    VirtualLoop,
    absorb,
    burst,
    call,
    do,
    end,
    fail,
    no_end,
    own_cancelled_error,
    pause,
    raise_on_cancel,
    say,
    slow_close,
    stall,
    think,
    usage,
    virtual_run,
)

REQUEST = ModelRequest("", (UserMessage("hi"),))


def read(model, request=REQUEST):
    """Read one reply to its end."""

    async def main():
        return [delta async for delta in model.stream(request)]

    return virtual_run(main)


def cancelled_at(model, seconds, times=1):
    """Read a reply, cancel the reading task after *seconds*, and give the task with what it had read."""

    async def main():
        got = []

        async def consume():
            async with aclosing(model.stream(REQUEST)) as deltas:
                async for delta in deltas:
                    got.append(delta)  # noqa: PERF401 (what was read before the cancel stays)

        task = asyncio.create_task(consume())
        for _ in range(times):
            await asyncio.sleep(seconds)
            task.cancel()
        await asyncio.wait([task])
        return task, got

    return virtual_run(main)


def test_it_is_a_model():
    assert isinstance(ScriptedModel(), Model)
    assert not hasattr(ScriptedModel(), "complete")
    assert hasattr(NonStreamingModel(), "complete")


def test_a_reply_is_played_step_by_step_and_ended():
    model = ScriptedModel([think("hm"), say("Hello", " world"), usage(3, 4)])
    assert read(model) == [ThinkingPart("hm"), TextPart("Hello"), TextPart(" world"), UsagePart(3, 4), ReplyEnd("stop")]
    (exchange,) = model.exchanges
    assert (exchange.ending, exchange.deltas, exchange.is_clean, exchange.finally_runs) == ("returned", 5, True, 1)
    assert model.requests == [REQUEST]


def test_replies_are_dealt_in_order_and_text_is_a_reply():
    model = ScriptedModel("one", "two")
    assert read(model)[0] == TextPart("one")
    assert read(model)[0] == TextPart("two")


def test_a_reply_may_be_a_function_of_the_request():
    model = ScriptedModel(lambda request: say(request.messages[-1].text.upper()))
    assert read(model)[0] == TextPart("HI")


def test_no_reply_left_is_an_error_that_names_the_request():
    model = ScriptedModel("one")
    read(model)
    with pytest.raises(ModelError, match=r"request 2 came, but the script has 1 replies.*UserMessage\(text='hi'\)"):
        read(model)
    assert model.exchanges[1].ending == "failed"


def test_the_last_reply_can_repeat():
    model = ScriptedModel("one", "again", repeat=True)
    assert [read(model)[0].text for _ in range(3)] == ["one", "again", "again"]


def test_an_empty_script_cannot_repeat():
    with pytest.raises(ModelError, match="the script has 0 replies"):
        read(ScriptedModel(repeat=True))


def test_what_is_no_reply_is_refused():
    with pytest.raises(TypeError, match="not a scripted reply: 7"):
        read(ScriptedModel([7]))


def test_calls_are_numbered_have_ids_and_end_the_reply_for_tools():
    model = ScriptedModel([call("add", {"a": 1}), call("add", {"a": 2}, id="mine")])
    assert read(model) == [
        ToolCallPart(0, "call_1_0", "add", '{"a": 1}'),
        ToolCallPart(1, "mine", "add", '{"a": 2}'),
        ReplyEnd("tool_calls"),
    ]


def test_ids_differ_between_requests():
    model = ScriptedModel(call("add"), repeat=True)
    assert read(model)[0].id != read(model)[0].id


def test_a_call_can_come_in_fragments():
    model = ScriptedModel([call("add", {"a": 1, "b": 2}, fragments=3)])
    *parts, _ = read(model)
    assert len(parts) == 3
    assert {part.index for part in parts} == {0}
    assert [part.name for part in parts] == ["add", "", ""]
    assert "".join(part.arguments for part in parts) == '{"a": 1, "b": 2}'


def test_arguments_can_be_broken_on_purpose():
    assert read(ScriptedModel(call("add", '{"a": ')))[0].arguments == '{"a": '


def test_the_stop_reason_can_be_chosen_and_nothing_follows_the_end():
    assert read(ScriptedModel([say("a"), end("length"), say("b")])) == [TextPart("a"), ReplyEnd("length")]


def test_a_stream_can_stop_without_its_end():
    assert read(ScriptedModel([say("a"), no_end()])) == [TextPart("a")]


def test_each_piece_suspends_once_but_a_burst_never_does():
    def turns(reply):
        async def main():
            before = VirtualLoop.running().turns
            async for _ in ScriptedModel([reply, no_end()]).stream(REQUEST):
                pass
            return VirtualLoop.running().turns - before

        return virtual_run(main)

    assert turns(say(*"abcde")) == 5
    assert turns(burst(5000)) == 0


def test_a_pause_takes_virtual_time():
    async def main():
        async for _ in ScriptedModel([pause(12), say("a")]).stream(REQUEST):
            pass
        return asyncio.get_running_loop().time()

    assert virtual_run(main) == 12


def test_it_can_fail_in_the_middle():
    model = ScriptedModel([say("a"), fail(ModelError("overloaded", status=529))], [fail("just so")])
    with pytest.raises(ModelError, match="overloaded"):
        read(model)
    assert (model.exchanges[0].ending, model.exchanges[0].deltas) == ("failed", 1)
    with pytest.raises(ModelError, match="just so"):
        read(model)


def test_it_can_do_something_from_inside():
    log = []

    async def later():
        await asyncio.sleep(3)
        log.append("later")

    read(ScriptedModel([do(lambda: log.append("now")), do(later)]))
    assert log == ["now", "later"]


def test_a_malformed_conversation_is_refused_as_a_provider_does():
    orphan = (UserMessage("hi"), AssistantMessage((ToolCall("call_1", "add"),)), UserMessage("and?"))
    model = ScriptedModel("never said")
    with pytest.raises(ModelError, match="'call_1' before it has no result") as caught:
        read(model, ModelRequest("", orphan))
    assert caught.value.status == 400
    assert model.exchanges[0].deltas == 0


def test_a_stall_lasts_until_it_is_cancelled_and_the_exchange_says_so():
    model = ScriptedModel([say("partial"), stall()])
    task, got = cancelled_at(model, 100)
    (exchange,) = model.exchanges
    assert task.cancelled()
    assert got == [TextPart("partial")]
    assert (exchange.ending, exchange.cancels, exchange.is_clean) == ("cancelled", 1, True)
    assert model.closed == [exchange]
    assert model.active == []


def test_a_reader_that_leaves_early_is_seen():
    model = ScriptedModel([say("a", "b")])

    async def main():
        deltas = model.stream(REQUEST)
        await anext(deltas)
        assert model.active == model.exchanges
        await deltas.aclose()

    virtual_run(main)
    assert (model.exchanges[0].ending, model.exchanges[0].is_clean) == ("closed", True)


def test_a_reply_that_nobody_reads_was_never_opened():
    model = ScriptedModel("a")
    model.stream(REQUEST)
    assert (len(model.exchanges), model.opened, model.closed) == (1, [], [])


def test_a_close_in_another_task_is_not_clean():
    model = ScriptedModel([say("a", "b")])

    async def main():
        deltas = model.stream(REQUEST)
        await anext(deltas)
        await asyncio.create_task(deltas.aclose())

    virtual_run(main)
    assert model.exchanges[0].finally_runs == 1
    assert not model.exchanges[0].is_clean


def test_a_slow_close_that_is_torn_is_not_clean():
    for times, is_clean in ((1, True), (2, False)):
        model = ScriptedModel([slow_close(50), stall()])
        task, _ = cancelled_at(model, 10, times)
        assert task.cancelled()
        assert model.exchanges[0].is_clean is is_clean
        assert model.exchanges[0].finally_runs == 1


def test_it_can_absorb_the_cancellation_and_return_a_full_reply():
    model = ScriptedModel([absorb(), say("one"), stall(), say("two"), pause(100), say("three")])
    task, got = cancelled_at(model, 10, times=2)
    assert not task.cancelled()
    assert got == [TextPart("one"), TextPart("two"), TextPart("three"), ReplyEnd("stop")]
    assert (model.exchanges[0].ending, model.exchanges[0].cancels) == ("returned", 2)


def test_absorbing_loses_no_piece_of_the_reply():
    model = ScriptedModel([absorb(), say("only")])
    task, got = cancelled_at(model, 0)
    assert model.exchanges[0].cancels == 1, "the cancel came before the piece"
    assert got == [TextPart("only"), ReplyEnd("stop")]
    assert task.exception() is None


def test_it_can_raise_something_odd_because_it_was_cancelled():
    model = ScriptedModel([raise_on_cancel(ConnectionResetError("gone")), stall()])
    task, _ = cancelled_at(model, 10)
    assert isinstance(task.exception(), ConnectionResetError)
    assert isinstance(task.exception().__cause__, asyncio.CancelledError)
    assert model.exchanges[0].ending == "failed"


def test_it_can_raise_cancelled_error_by_itself():
    model = ScriptedModel([say("a"), own_cancelled_error()])

    async def main():
        task = asyncio.create_task(anext_all(model))
        await asyncio.wait([task])
        return task.cancelled(), task.cancelling()

    assert virtual_run(main) == (True, 0)


async def anext_all(model):
    async for _ in model.stream(REQUEST):
        pass


def test_the_non_streaming_model_answers_in_one_piece():
    model = NonStreamingModel([say("a", "b")], "c")

    async def main():
        return await model.complete(REQUEST), [delta async for delta in model.stream(REQUEST)]

    whole, streamed = virtual_run(main)
    assert whole == [TextPart("a"), TextPart("b"), ReplyEnd("stop")]
    assert streamed == [TextPart("c"), ReplyEnd("stop")]
    assert [exchange.is_streamed for exchange in model.exchanges] == [False, True]


def test_a_non_streaming_request_closes_cleanly_when_it_is_cancelled():
    model = NonStreamingModel(stall())

    async def main():
        task = asyncio.create_task(model.complete(REQUEST))
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    assert virtual_run(main)
    assert (model.exchanges[0].ending, model.exchanges[0].is_clean) == ("cancelled", True)


def test_prepare_plays_its_script_until_it_got_to_its_end_once():
    model = ScriptedModel(prepare=pause(30))

    async def main():
        loop = asyncio.get_running_loop()
        task = asyncio.create_task(model.prepare())
        await asyncio.sleep(10)
        task.cancel()
        await asyncio.wait([task])
        await model.prepare()
        await model.prepare()
        return loop.time()

    assert virtual_run(main) == 40
    assert [one.ending for one in model.preparations] == ["cancelled", "returned"]


def test_prepare_without_a_script_does_nothing_and_aclose_is_counted():
    model = ScriptedModel()

    async def main():
        await model.prepare()
        await model.aclose()

    virtual_run(main)
    assert (model.preparations, model.acloses) == ([], 1)
