"""One stream for one client, by the protocol of ASGI: silence, and a client that takes nothing."""

from __future__ import annotations

import asyncio

from loopctl import Agent
from loopctl.testing import ScriptedModel, pause, say, stall, virtual_run
from loopctl.web._run import RunNames, WebRun
from loopctl.web._stream import RunStream


async def streamed(agent: Agent, send, receive) -> WebRun:
    live = WebRun(RunNames("", "t", "r"), "cancel", "hi", 100)
    live.begin(agent.session().start("hi"))
    await RunStream(live, 0, "somebody")({"type": "http"}, receive, send)
    await live.task
    return live


async def never() -> dict:
    await asyncio.get_running_loop().create_future()
    raise AssertionError


def test_silence_is_filled_so_that_a_proxy_keeps_the_connection():
    sent = []

    async def send(message: dict) -> None:
        sent.append(message.get("body", b""))

    virtual_run(lambda: streamed(Agent(ScriptedModel([say("a"), pause(40.0), say("b")])), send, never))
    assert [body == b": keep-alive\n\n" for body in sent].count(True) == 2


def test_a_client_that_takes_nothing_for_a_minute_has_gone():
    async def send(message: dict) -> None:
        if b"TEXT_MESSAGE_CONTENT" in message.get("body", b""):
            await never()

    live = virtual_run(lambda: streamed(Agent(ScriptedModel([say("a"), stall()])), send, never))
    assert live.run.stop.reason.origin == "disconnect"
    assert "60 s" in live.run.stop.reason.message


def test_going_away_is_noticed_in_silence_whatever_the_server_says_of_its_protocol():
    """Case I7. Starlette listens no more where the protocol is said to be 2.4."""

    async def send(message: dict) -> None:
        del message

    async def receive() -> dict:
        await asyncio.sleep(5.0)
        return {"type": "http.disconnect"}

    async def main() -> tuple[WebRun, float]:
        live = WebRun(RunNames("", "t", "r"), "cancel", "hi", 100)
        live.begin(Agent(ScriptedModel(stall())).session().start("hi"))
        loop = asyncio.get_running_loop()
        began = loop.time()
        scope = {"type": "http", "asgi": {"spec_version": "2.4"}}
        await RunStream(live, 0, "somebody")(scope, receive, send)
        await live.task
        return live, loop.time() - began

    live, took = virtual_run(main)
    assert (live.run.stop.reason.origin, round(took, 3)) == ("disconnect", 5.0)


def test_the_end_of_the_servers_own_task_is_a_shutdown():
    async def send(message: dict) -> None:
        del message

    async def main() -> WebRun:
        live = WebRun(RunNames("", "t", "r"), "cancel", "hi", 100)
        live.begin(Agent(ScriptedModel(stall())).session().start("hi"))
        task = asyncio.ensure_future(RunStream(live, 0, "somebody")({"type": "http"}, never, send))
        await asyncio.sleep(1.0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()
        await live.task
        return live

    assert virtual_run(main).run.stop.reason.origin == "shutdown"
