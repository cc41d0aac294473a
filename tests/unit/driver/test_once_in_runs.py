"""What a tool does once, over the runs, sessions and stops that use one store."""

import asyncio
import threading

import pytest

from loopctl import Agent, RunConfig, Tool, ToolContext, Urgency
from loopctl.record import CallStatus
from loopctl.recovery import retry_transient
from loopctl.store import Ledger
from loopctl.testing import ScriptedModel, call, virtual_run


@pytest.fixture
def store(tmp_path):
    return tmp_path / "store.sqlite"


def session_of(tool, store, **more):
    model = ScriptedModel([call(tool.__name__, {})], "Done.", [call(tool.__name__, {})], "Done.")
    return Agent(model, tools=[Tool(tool)], **more).session(store=store)


@pytest.mark.parametrize("kind", ["async", "plain"])
def test_a_second_run_of_another_session_gets_what_the_first_one_did(store, kind):
    paid = []

    def charge():
        paid.append(1)
        return {"receipt": len(paid)}

    async def pay_async(ctx: ToolContext) -> dict[str, int]:
        """Pay."""

        async def slowly():
            await asyncio.sleep(5)
            return charge()

        return await ctx.once("invoice 17", slowly)

    def pay(ctx: ToolContext) -> dict[str, int]:
        """Pay."""
        return ctx.once("invoice 17", charge)

    tool = pay if kind == "plain" else pay_async
    results = []
    for _ in range(2):
        run = virtual_run(session_of(tool, store).run("pay"))
        results += [record.result for record in run.tool_calls]
    assert results == ['{"receipt":1}'] * 2
    assert Ledger(store).get("invoice 17").by.startswith(f"{tool.__name__} (")


def test_a_stop_in_the_middle_leaves_the_key_unknown_until_somebody_resolves_it(store):
    begun = asyncio.Event()

    async def pay(ctx: ToolContext) -> str:
        """Pay."""

        async def charge():
            begun.set()
            await asyncio.sleep(3600)

        return await ctx.once("invoice 17", charge)

    async def main():
        session = session_of(pay, store)
        handle = session.start("pay")
        await begun.wait()
        handle.cancel("enough")
        assert (await handle).tool_calls[0].status is CallStatus.INTERRUPTED
        ledger = Ledger(store)
        assert [effect.key for effect in ledger.unknown()] == ["invoice 17"]

        again = await session_of(pay, store).run("pay")
        assert again.tool_calls[0].status is CallStatus.FAILED
        assert again.tool_calls[0].result.startswith("EffectUnknown: whether 'invoice 17' was done is not known: pay (")

        ledger.resolve("invoice 17", done=True, result="paid by hand")
        at_last = await session_of(pay, store).run("pay")
        assert at_last.tool_calls[0].result == "paid by hand"

    virtual_run(main)


def test_an_attempt_that_failed_before_it_did_anything_is_followed_by_one_that_does_it(store):
    tries = []

    async def pay(ctx: ToolContext) -> str:
        """Pay."""

        async def charge():
            tries.append(ctx.idempotency_key)
            if len(tries) == 1:
                raise ConnectionError("refused")
            return "paid"

        return await ctx.once(ctx.idempotency_key, charge)

    run = virtual_run(session_of(pay, store, recovery=retry_transient(tools={"pay"})).run("pay"))
    assert (run.tool_calls[0].attempts, run.tool_calls[0].result) == (2, "paid")
    assert len(set(tries)) == 1


def test_what_an_abandoned_call_does_after_all_is_recorded(store):
    begun, go_on = threading.Event(), threading.Event()

    def charge():
        begun.set()
        go_on.wait()
        return "paid late"

    def pay(ctx: ToolContext) -> str:
        """Pay."""
        return ctx.once("invoice 17", charge)

    async def main():
        session = session_of(pay, store, config=RunConfig(grace=60))
        handle = session.start("pay")
        while not begun.is_set():
            await asyncio.sleep(0.001)
        handle.cancel(urgency=Urgency.ABANDON)
        assert (await handle).tool_calls[0].status is CallStatus.ABANDONED
        meanwhile = await session_of(pay, store).run("pay")
        assert "was stopped, and has not ended" in meanwhile.tool_calls[0].result
        go_on.set()
        await session.aclose()
        return await session_of(pay, store).run("pay")

    assert asyncio.run(main()).tool_calls[0].result == "paid late"


def test_a_drained_run_lets_a_call_that_goes_on_do_what_it_does_once(store):
    begun = asyncio.Event()

    async def pay(ctx: ToolContext) -> str:
        """Pay."""

        async def charge():
            return "paid"

        begun.set()
        await asyncio.sleep(5)
        with ctx.atomic_write(store.with_name("receipt.txt")) as file:
            file.write("paid")
        return await ctx.once("invoice 17", charge)

    async def main():
        handle = session_of(pay, store).start("pay")
        await begun.wait()
        handle.cancel(urgency=Urgency.DRAIN)
        run = await handle
        assert run.outcome == "cancelled"
        assert (run.tool_calls[0].status, run.tool_calls[0].result) == (CallStatus.COMPLETED, "paid")

    virtual_run(main)
    assert store.with_name("receipt.txt").read_text() == "paid"


def test_a_call_that_has_ended_begins_nothing_any_more(store):
    """Its task goes on and asks for a key: the call it was made for is over."""
    seen = []

    async def pay(ctx: ToolContext) -> str:
        """Pay."""
        seen.append(ctx)
        return "nothing was paid"

    async def main():
        await session_of(pay, store).run("pay")
        with pytest.raises(Exception, match="has ended"):
            seen[0].once("invoice 17", lambda: seen.append("paid"))
        assert len(seen) == 1

    virtual_run(main)
