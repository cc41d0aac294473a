"""Lines from pipes and files, without a thread and without blocking the loop."""

from __future__ import annotations

import asyncio
import os

import pytest

from loopctl.cli._prompt import LinePrompt, PromptInterrupted


@pytest.fixture
def pipe():
    read, write = os.pipe()
    ends = {"read": read, "write": write}

    def close():
        os.close(ends.pop("write"))

    yield read, write, close
    for descriptor in ends.values():
        os.close(descriptor)


def test_lines_come_one_by_one_however_they_are_cut(pipe):
    read, write, close = pipe

    async def main():
        prompt = LinePrompt(read, None)
        whole = "grüße\nzwei\r\n\nlast".encode()
        os.write(write, whole[:3])  # in the middle of a character
        first = asyncio.ensure_future(prompt.read())
        await asyncio.sleep(0.01)
        assert not first.done()
        os.write(write, whole[3:])
        close()
        assert [await first, await prompt.read(), await prompt.read(), await prompt.read()] == [
            "grüße",
            "zwei",
            "",
            "last",
        ]
        with pytest.raises(EOFError):
            await prompt.read()

    asyncio.run(main())


def test_a_file_is_read_to_its_end(tmp_path):
    (tmp_path / "messages").write_text("one\ntwo\n")

    async def main():
        with (tmp_path / "messages").open() as file:
            prompt = LinePrompt(file.fileno(), None)
            assert [await prompt.read(), await prompt.read()] == ["one", "two"]
            with pytest.raises(EOFError):
                await prompt.read()

    asyncio.run(main())


def test_the_loop_is_free_while_a_line_is_awaited_and_an_interrupt_ends_the_wait(pipe):
    read, write, _ = pipe

    async def main():
        prompt = LinePrompt(read, None)
        waiting = asyncio.ensure_future(prompt.read())
        await asyncio.sleep(0)
        prompt.interrupt()
        with pytest.raises(PromptInterrupted):
            await waiting
        os.write(write, b"next\n")
        assert await prompt.read() == "next"

    asyncio.run(main())


def test_an_interrupt_drops_the_half_line_as_a_terminal_does(pipe):
    read, write, _ = pipe

    async def main():
        prompt = LinePrompt(read, None)
        os.write(write, b"half a li")
        waiting = asyncio.ensure_future(prompt.read())
        await asyncio.sleep(0.01)
        prompt.interrupt()
        with pytest.raises(PromptInterrupted):
            await waiting
        os.write(write, b"next\n")
        assert await prompt.read() == "next"

    asyncio.run(main())


def test_an_interrupt_between_two_reads_is_not_kept(pipe):
    read, write, _ = pipe

    async def main():
        prompt = LinePrompt(read, None)
        prompt.interrupt()
        os.write(write, b"next\n")
        assert await prompt.read() == "next"

    asyncio.run(main())


def test_a_cancelled_read_leaves_nothing_behind(pipe):
    read, write, _ = pipe

    async def main():
        prompt = LinePrompt(read, None)
        waiting = asyncio.ensure_future(prompt.read())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert not asyncio.get_running_loop().remove_reader(read)
        os.write(write, b"next\n")
        assert await prompt.read() == "next"

    asyncio.run(main())
