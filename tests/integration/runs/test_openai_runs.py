"""Whole runs against an OpenAI-compatible server on loopback: stopped alone, in crowds, and a thousand times."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from pathlib import Path

import pytest

from loopctl import Agent, CancelReason, Checkpoint, ModelError, Run, RunConfig, Session, TextDelta
from loopctl.providers.openai import HttpOptions, OpenAIModel
from loopctl.recovery import ModelRecovery
from tests.peers.openai_server import (
    OpenAIServer,
    Reply,
    calls,
    dropped,
    endless,
    error,
    html,
    never,
    not_json,
    stalled,
    text,
    truncated,
)

ONCE = ModelRecovery(transport_retries=0, rate_limit_retries=0, rescue=False)
DESCRIPTORS = Path("/proc/self/fd")


def session_of(
    server: OpenAIServer, *, stream: bool = True, recovery: ModelRecovery | None = None, **http: float
) -> Session:
    model = OpenAIModel("test", base_url=server.url, api_key="k", http=HttpOptions(**http))  # type: ignore[arg-type]
    return Agent(model, [slow_tool], recovery=recovery, config=RunConfig(stream=stream)).session()


async def slow_tool() -> str:
    """Take a long time."""
    await asyncio.sleep(100)
    return "ok"


async def stop_in_mid_stream(session: Session) -> Run:
    handle = session.start("go")
    async for event in handle:
        if isinstance(event, TextDelta):
            handle.cancel("enough")
    return await handle


def test_a_stop_in_mid_sentence_closes_the_connection_and_the_next_run_works() -> None:
    """Case I1: the server sees its client go at once, and next to nothing is produced for nobody."""
    with OpenAIServer([endless(), text("fine")]) as server:

        async def main() -> None:
            session = session_of(server)
            run = await stop_in_mid_stream(session)
            ended = time.monotonic()
            assert run.stop is not None
            assert run.stop.checkpoint is Checkpoint.STREAM_EVENT
            assert run.partial_text
            await server.until(lambda s: s.disconnects == 1)
            record = server.records[0]
            assert record.finished is None
            assert record.tokens_after_disconnect <= 1
            assert record.tokens_since(ended + 0.5) == 0
            assert (await session.run("again")).output == "fine"
            await session.agent.aclose()

        asyncio.run(main())


def test_an_unanswered_request_is_dropped() -> None:
    """Case B10: streaming or not, a request that never answers ends with the cancel and its connection is closed."""
    for stream in (True, False):
        with OpenAIServer([never(), text("fine")]) as server:

            async def main(server: OpenAIServer = server, stream: bool = stream) -> None:
                session = session_of(server, stream=stream)
                handle = session.start("go")
                await server.until(lambda s: s.open == 1)
                assert handle.cancel() is True
                run = await handle
                assert run.stop is not None
                expected = Checkpoint.STREAM_EVENT if stream else Checkpoint.MODEL_REQUEST
                assert run.stop.checkpoint is expected
                await server.until(lambda s: s.disconnects == 1)
                assert (await session.run("again")).output == "fine"
                await session.agent.aclose()

            asyncio.run(main())


def test_a_stopped_tool_call_does_not_spoil_the_next_request() -> None:
    """Case A1 with a provider that checks call and result pairing, after adopting and without."""
    with OpenAIServer([calls(("slow_tool", {})), text("fine"), text("fine")]) as server:

        async def main() -> None:
            session = session_of(server)
            handle = session.start("go")
            await server.until(lambda s: s.finished == 1)
            await asyncio.sleep(0.05)
            handle.cancel()
            run = await handle
            assert run.stop is not None
            assert run.stop.checkpoint is Checkpoint.TOOL_CALL
            assert (await session.agent.session(history=session.history).run("again")).output == "fine"
            assert session.adopt(run)
            assert (await session.run("again")).output == "fine"
            assert len(server.bodies[2]["messages"]) > len(server.bodies[1]["messages"])
            await session.agent.aclose()

        asyncio.run(main())


def test_fifty_runs_stopped_at_a_pool_of_two_leave_it_whole() -> None:
    """Case H12: fifty runs at a time, several rounds, then one normal run gets a connection."""

    def script(record: object) -> Reply:
        return text("fine") if "finally" in str(record.body) else never()  # type: ignore[attr-defined]

    with OpenAIServer(script) as server:

        async def main() -> None:
            model = OpenAIModel("test", base_url=server.url, api_key="k", http=HttpOptions(max_connections=2))
            agent = Agent(model)
            for number in range(1, 4):
                handles = [agent.session().start("go") for _ in range(50)]
                await server.until(lambda s: s.open == 2)
                await asyncio.sleep(0.02)
                for handle in handles:
                    assert handle.cancel()
                assert {(await handle).outcome for handle in handles} == {"cancelled"}
                await server.until(lambda s, n=number: s.disconnects == 2 * n)  # type: ignore[misc]
            assert (await agent.session().run("finally")).output == "fine"
            await agent.aclose()

        asyncio.run(main())


def test_fifty_open_requests_are_all_closed_by_one_signal() -> None:
    with OpenAIServer(endless()) as server:

        async def main() -> None:
            agent = Agent(OpenAIModel("test", base_url=server.url, api_key="k"))
            handles = [agent.session().start("go") for _ in range(50)]
            await server.until(lambda s: s.open == 50)
            for handle in handles:
                handle.cancel()
            assert {(await handle).outcome for handle in handles} == {"cancelled"}
            await server.until(lambda s: s.disconnects == 50)
            await agent.aclose()

        asyncio.run(main())


def _open_files() -> int:
    return len(list(DESCRIPTORS.iterdir()))


@pytest.mark.skipif(not DESCRIPTORS.is_dir(), reason="counts descriptors in /proc, which only Linux has")
def test_a_thousand_stopped_runs_leave_nothing_behind() -> None:
    """No task, thread, socket or descriptor; and no memory but the records that are kept."""
    with OpenAIServer(endless(0.0)) as server:

        async def main() -> None:
            model = OpenAIModel("test", base_url=server.url, api_key="k")
            session = Agent(model, config=RunConfig(keep_runs=1)).session()
            await stop_in_mid_stream(session)
            await server.until(lambda s: s.connections == 0)
            gc.collect()
            before = (len(asyncio.all_tasks()), threading.active_count(), _open_files(), len(gc.get_objects()))
            for number in range(1000):
                handle = session.start("go")
                if number % 4:
                    async for event in handle:
                        if isinstance(event, TextDelta):
                            session.signal.cancel()
                else:
                    for _ in range(number % 9):
                        await asyncio.sleep(0)
                    handle.cancel()
                assert (await handle).outcome == "cancelled"
            await server.until(lambda s: s.connections == 0)
            spent = time.process_time()
            await asyncio.sleep(0.5)
            assert time.process_time() - spent < 0.1, "the process is quiet, the server's thread included"
            server.records.clear()
            gc.collect()
            after = (len(asyncio.all_tasks()), threading.active_count(), _open_files(), len(gc.get_objects()))
            assert after[:3] == before[:3]
            assert after[3] - before[3] < 1000, "less than one object for each run"
            assert "0 children" in repr(session.signal)
            await model.aclose()

        asyncio.run(main())


@pytest.mark.parametrize(
    ("reply", "words_of_it", "retryable"),
    [
        (error(401, "Incorrect API key provided: k."), "401", False),
        (error(404, "The model `test` does not exist"), "does not exist", False),
        (error(429, "Rate limit", retry_after="7"), "429", True),
        (error(500, "oops"), "500", True),
        (not_json(), "upstream said hello", True),
        (html(502), "502", True),
        (truncated(), "too early", True),
        (dropped(), "", True),
    ],
)
@pytest.mark.parametrize("stream", [True, False])
def test_each_failure_of_a_server_fails_the_run_with_its_own_words(
    reply: Reply, words_of_it: str, retryable: bool, stream: bool
) -> None:
    if reply == truncated() and not stream:
        pytest.skip("a whole reply cannot be truncated without being broken")
    with OpenAIServer([reply, text("fine")]) as server:

        async def main() -> None:
            session = session_of(server, stream=stream, recovery=ONCE)
            with pytest.raises(ModelError) as caught:
                await session.run("go")
            assert words_of_it.lower() in str(caught.value).lower()
            assert "test" in str(caught.value)
            assert caught.value.run is session.runs[0]
            assert session.history == ()
            if reply.status == 429:
                assert caught.value.retry_after == 7
            assert (await session.run("again")).output == "fine"
            await session.agent.aclose()

        asyncio.run(main())


def test_a_server_that_breaks_down_and_comes_back_is_asked_again() -> None:
    """Broken by its status, in the middle of its text, and before its end: then the whole answer, and only that."""
    with OpenAIServer([error(500, "oops"), dropped(), truncated(), text("fine")]) as server:

        async def main() -> None:
            session = session_of(server)
            assert (await session.run("go")).output == "fine"
            assert len(server.records) == 4
            assert session.runs[0].usage.is_partial
            await session.agent.aclose()

        asyncio.run(main())


def test_streaming_that_gives_up_is_rescued_by_one_request_that_is_not_streamed() -> None:
    with OpenAIServer([truncated(), truncated(), text("fine")]) as server:

        async def main() -> None:
            session = session_of(server, recovery=ModelRecovery(transport_retries=1, first_delay=0))
            assert (await session.run("go")).output == "fine"
            assert [request.body.get("stream", False) for request in server.records] == [True, True, False]
            await session.agent.aclose()

        asyncio.run(main())


def test_another_server_answers_for_one_that_is_not_there() -> None:
    with OpenAIServer() as gone:
        url = gone.url
    with OpenAIServer(text("fine")) as server:

        async def main() -> None:
            models = [OpenAIModel(name, base_url=at, api_key="k") for name, at in (("a", url), ("b", server.url))]
            agent = Agent(models[0], fallback_models=models[1:], recovery=ONCE)
            run = await agent.session().run("go")
            assert (run.output, run.turns[0].model) == ("fine", models[1].name)
            await agent.aclose()

        asyncio.run(main())


def test_a_server_that_is_not_there_is_named() -> None:
    with OpenAIServer() as server:
        url = server.url

    async def main() -> None:
        agent = Agent(OpenAIModel("test", base_url=url, api_key="k"))
        with pytest.raises(ModelError, match=url.split("/")[2]) as caught:
            await agent.session().run("go")
        assert caught.value.retryable
        await agent.aclose()

    asyncio.run(main())


def test_a_stalled_stream_fails_at_its_event_limit() -> None:
    with OpenAIServer([stalled(3), text("fine")]) as server:

        async def main() -> None:
            model = OpenAIModel("test", base_url=server.url, api_key="k")
            session = Agent(model, recovery=ONCE, config=RunConfig(event_timeout=0.2)).session()
            with pytest.raises(ModelError, match=r"no further event for 0\.2 s") as caught:
                await session.run("go")
            assert caught.value.retryable
            assert session.runs[0].partial_text
            await server.until(lambda s: s.disconnects == 1)
            assert (await session.run("again")).output == "fine"
            await model.aclose()

        asyncio.run(main())


def test_a_caller_that_closes_its_iterator_ends_the_generation() -> None:
    """Case I4: closing the iterator early ends the generation at the provider."""
    with OpenAIServer(endless()) as server:

        async def main() -> None:
            session = session_of(server)
            async for event in session.start("go"):
                if isinstance(event, TextDelta):
                    break
            await server.until(lambda s: s.disconnects == 1)
            await server.until(lambda s: s.connections == 0)
            await session.aclose()
            assert session.runs[0].stop is not None
            assert session.runs[0].stop.reason == CancelReason("caller", session.runs[0].stop.reason.message)
            await session.agent.aclose()

        asyncio.run(main())


def test_one_agent_serves_runs_on_several_loops() -> None:
    """Case H1: what is opened in one task and stopped from another is closed by its owner, whatever loop it was on."""
    with OpenAIServer(endless()) as server:
        agent = Agent(OpenAIModel("test", base_url=server.url, api_key="k"))
        ended: list[Run] = []

        def work() -> None:
            async def main() -> None:
                session = agent.session()
                handle = session.start("go")
                stopper = asyncio.ensure_future(_stop_later(handle.cancel))
                ended.append(await handle)
                await stopper

            asyncio.run(main())
            gc.collect()

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert [run.outcome for run in ended] == ["cancelled"] * 3
        server.wait_for(lambda s: s.disconnects == 3)


async def _stop_later(cancel: object) -> None:
    await asyncio.sleep(0.2)
    cancel()  # type: ignore[operator]
