"""The wire by itself: what comes together, and a client that reads nothing."""

from __future__ import annotations

import asyncio
import json
import os

from loopctl.adapters.acp._wire import REQUEST, Wire


async def opened():
    """A wire, and the ends of a client."""
    wire = Wire()
    inlet, to_agent = os.pipe()
    from_agent, outlet = os.pipe()
    await wire.open(os.fdopen(inlet, "rb", buffering=0), os.fdopen(outlet, "wb", buffering=0))
    return wire, os.fdopen(to_agent, "wb", buffering=0), os.fdopen(from_agent, "rb", buffering=0)


def test_the_end_is_told_after_the_first_steps_of_all_that_came_before():
    async def main():
        wire, mouth, ear = await opened()
        with mouth, ear:
            told = []
            wire.on_end = told.append
            wire._reader.feed_data(b'{"jsonrpc":"2.0","method":"session/cancel","params":{}}\n')
            wire._reader.feed_eof()
            message = await wire.receive()
            asyncio.get_running_loop().call_soon(told.append, message["method"])  # as the SDK makes its tasks
            assert await wire.receive() is None
            assert told == []
            await asyncio.sleep(0)
            assert told == ["session/cancel", "it closed its end"]
            await wire.close()

    asyncio.run(main())


def test_a_prompt_carries_the_id_of_its_request_and_no_names_of_the_clients():
    async def main():
        wire, mouth, ear = await opened()
        with mouth, ear:
            sent = {"id": 7, "method": "session/prompt", "params": {"sessionId": "s", "_meta": {"session_id": "other"}}}
            mouth.write(json.dumps(sent).encode() + b"\n")
            assert (await wire.receive())["params"] == {"sessionId": "s", "_meta": {REQUEST: 7}}
            await wire.close()

    asyncio.run(main())


def test_a_full_pipe_holds_the_sender_until_it_is_released():
    async def main():
        wire, mouth, ear = await opened()
        with mouth, ear:

            async def talk():
                while True:
                    await wire.send({"text": "x" * 10_000})

            talking = asyncio.create_task(talk())
            while wire._outlet.room.is_set():
                await asyncio.sleep(0)
            written = wire._output.get_write_buffer_size()
            await asyncio.sleep(0.05)
            assert wire._output.get_write_buffer_size() == written, "it did not wait"
            wire.release()
            await wire.send({})  # waits for nothing now
            talking.cancel()
            await asyncio.gather(talking, return_exceptions=True)
            await wire.close()  # bounded: nobody reads

    asyncio.run(main())


def test_what_a_client_that_is_gone_cannot_read_is_dropped():
    async def main():
        wire, mouth, ear = await opened()
        with mouth:
            told = asyncio.Event()
            wire.on_end = lambda how: told.set()
            ear.close()
            await told.wait()
            await wire.send({"text": "nobody reads this"})
            assert await wire.receive() is None
            await wire.close()

    asyncio.run(main())
