"""Servers of others as sources of tools: `server-everything`, which ignores cancels, and `server-filesystem`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import subprocess

import pytest

from loopctl import Agent, Cancelled, CancelSignal
from loopctl.adapters.mcp import McpClient
from loopctl.record import CallStatus, ToolProgress
from loopctl.testing import ScriptedModel, call as scripted
from tests.integration.mcp.places import call, is_alive, named

LONG = "trigger-long-running-operation"
SCRIPTS = "node_modules/@modelcontextprotocol"


@pytest.fixture
def everything(clients):
    return [str(clients / "bin/node"), str(clients / SCRIPTS / "server-everything/dist/index.js")]


@pytest.fixture
def tapped(everything, tmp_path):
    """The command of the server, with a `tee` that keeps what each side said."""
    said, heard = tmp_path / "said", tmp_path / "heard"
    return ["sh", "-c", f'tee "{heard}" | "$0" "$@" | tee "{said}"', *everything, "stdio"]


@contextlib.contextmanager
def over_http(everything, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with (
        (tmp_path / "server").open("w") as log,
        subprocess.Popen(
            [*everything, "streamableHttp"], env={**os.environ, "PORT": str(port)}, stdout=log, stderr=log
        ) as process,
    ):
        try:
            while "listening" not in (tmp_path / "server").read_text():
                assert process.poll() is None
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.kill()


def messages(path):
    return [json.loads(line) for line in path.read_text().splitlines() if line.startswith("{")]


def agent_of(client, *replies):
    return Agent(ScriptedModel(*replies), client.tools).session()


def wants(client, ending, **arguments):
    return scripted(named(client, ending).name, arguments)


async def cancelled_at_its_first_progress(client, **arguments):
    """Have a run make the long call, cancel it, and let the session go on; the run, and the progress it told of."""
    session = agent_of(client, wants(client, LONG, **arguments), wants(client, "echo", message="x"), "bye")
    told = []
    handle = session.start("go")
    async for event in handle:
        if isinstance(event, ToolProgress):
            told.append(event.message)
            handle.cancel("enough")
    stopped = await handle
    assert (await session.run("and now?")).tool_calls[-1].result == "Echo: x"
    return stopped, told


def assert_is_dropped(run, told):
    assert run.outcome == "cancelled"
    assert run.tool_calls[0].status is CallStatus.INTERRUPTED
    assert run.stop.stragglers == ()
    assert told == ["1 of 8"]


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
def test_a_call_that_ignores_cancels_is_dropped_over_stdio_and_its_later_progress_too(tapped, tmp_path, protocol):
    """Cases G16, G17."""

    async def main():
        async with McpClient(tapped, protocol=protocol) as client:
            run, told = await cancelled_at_its_first_progress(client, duration=4, steps=8)
            before = len(progress())
            while len(progress()) < 8:
                await asyncio.sleep(0.02)
            assert await call(client, "echo", message="y") == "Echo: y"
            return run, told, before

    def progress():
        return [said for said in messages(tmp_path / "said") if said.get("method") == "notifications/progress"]

    run, told, before = asyncio.run(main())
    assert_is_dropped(run, told)
    assert before < 8, "the server was done before the next run was"
    heard = messages(tmp_path / "heard")
    made = next(said["id"] for said in heard if said.get("params", {}).get("name") == LONG)
    (cancel,) = (said for said in heard if said.get("method") == "notifications/cancelled")
    assert cancel["params"]["requestId"] == made
    assert made not in [said.get("id") for said in messages(tmp_path / "said")], (
        "it does answer: Case G17 is not tested"
    )


def test_a_call_that_ignores_cancels_is_dropped_over_http_and_its_later_progress_too(everything, tmp_path):
    async def main(url):
        async with McpClient(url) as client:
            run, told = await cancelled_at_its_first_progress(client, duration=2.4, steps=8)
            said = await call(client, LONG, duration=3, steps=2)  # by then the other one has ended
            assert said == "Long running operation completed. Duration: 3 seconds, Steps: 2."
            return run, told

    with over_http(everything, tmp_path) as url:
        assert_is_dropped(*asyncio.run(main(url)))


def test_many_calls_of_it_end_each_by_itself(everything):
    async def main():
        async with McpClient([*everything, "stdio"]) as client:
            calls = [asyncio.ensure_future(call(client, LONG, duration=1, steps=n)) for n in range(1, 41)]
            await asyncio.sleep(0.2)
            for dropped in calls[::2]:
                dropped.cancel()
            done = await asyncio.gather(*calls, return_exceptions=True)
            assert all(isinstance(error, asyncio.CancelledError) for error in done[::2])
            assert [text.rpartition(" ")[2] for text in done[1::2]] == [f"{n}." for n in range(2, 41, 2)]

    asyncio.run(main())


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
def test_a_cancel_while_a_server_starts_leaves_no_process(everything, tmp_path, protocol):
    """Case G14."""
    noted = tmp_path / "pid"

    async def main():
        signal = CancelSignal()
        command = ["sh", "-c", f'echo $$ >"{noted}"; exec "$0" "$@"', *everything, "stdio"]
        connecting = asyncio.ensure_future(McpClient(command, protocol=protocol).connect(signal))
        while not noted.exists() or not noted.read_text():
            await asyncio.sleep(0.005)
        assert is_alive(pid := int(noted.read_text()))
        signal.cancel("enough")
        with pytest.raises(Cancelled):
            await connecting
        assert not is_there(pid)

    asyncio.run(main())


def test_files_are_written_and_read_a_cancelled_read_harms_nothing_and_the_process_is_reaped(clients, tmp_path):
    """A read of a pipe into which nobody writes never ends, and keeps the server from ending by itself."""
    folder, noted, pipe = tmp_path / "files", tmp_path / "pid", tmp_path / "files/pipe"
    folder.mkdir()
    os.mkfifo(pipe)
    program = [str(clients / "bin/node"), str(clients / SCRIPTS / "server-filesystem/dist/index.js"), str(folder)]

    async def main():
        async with McpClient(["sh", "-c", f'echo $$ >"{noted}"; exec "$0" "$@"', *program]) as client:
            session = agent_of(
                client,
                wants(client, "write_file", path=str(folder / "a"), content="written"),
                wants(client, "read_text_file", path=str(pipe)),
                wants(client, "read_text_file", path=str(folder / "a")),
                wants(client, "read_text_file", path="/etc/passwd"),
                "bye",
            )
            handle = session.start("go")
            while (writer := writer_for(pipe)) is None:
                await asyncio.sleep(0.01)
            assert (folder / "a").read_text() == "written"
            handle.cancel("enough")
            stopped = await handle
            after = await session.run("and now?")
            assert is_alive(int(noted.read_text()))
        assert not is_there(int(noted.read_text()))
        os.close(writer)
        return stopped, after

    stopped, after = asyncio.run(main())
    assert [made.status for made in stopped.tool_calls] == [CallStatus.COMPLETED, CallStatus.INTERRUPTED]
    assert stopped.stop.stragglers == ()
    read, refused = after.tool_calls
    assert (read.status, read.result) == (CallStatus.COMPLETED, "written")
    assert refused.status is CallStatus.FAILED
    assert "Access denied" in refused.result


def is_there(pid):
    """Tell whether there is a process of this number, be it a zombie."""
    return os.path.exists(f"/proc/{pid}")


def writer_for(pipe):
    """Give the writing end of *pipe* if somebody reads it, who has an endless wait then."""
    try:
        return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return None
