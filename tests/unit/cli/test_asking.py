"""What counts as a yes, and what is shown before it is asked for."""

from __future__ import annotations

import asyncio
import os

import pytest

from loopctl.cli._asking import Asking
from loopctl.cli._screen import Screen
from loopctl.messages import ToolCall
from tests.unit.cli.test_screen import Fake

PAY = ToolCall("c1", "pay", {"to": "ann", "lines": "one\ntwo\x1b[2J", "amounts": [1, 2]})


@pytest.fixture
def asked():
    """An asker, what it shows, and the other end of what it reads."""
    read, write = os.pipe()
    stream = Fake(is_terminal=True)
    ends = [read, write]
    yield Asking(Screen(stream, {"TERM": "dumb"}), read), stream, ends
    for descriptor in ends:
        os.close(descriptor)


@pytest.mark.parametrize(
    ("typed", "is_yes"),
    [
        *((line, True) for line in ("y\n", "Y\n", "yes\n", " Yes \n", "y\r\n")),
        *((line, False) for line in ("\n", "n\n", "no\n", "yy\n", "yes please\n", "ok\n", "\ny\n")),
    ],
)
def test_only_y_or_yes_is_a_yes(asked, typed, *, is_yes):
    asking, _, ends = asked
    os.write(ends[1], typed.encode())
    assert asyncio.run(asking(PAY, None)) is is_yes


def test_the_end_of_the_input_is_a_no(asked):
    asking, _, ends = asked
    os.close(ends.pop())
    assert asyncio.run(asking(PAY, None)) is False


def test_every_argument_is_shown_whole_and_cannot_harm_the_terminal(asked):
    asking, stream, ends = asked
    long = ToolCall("c2", "pay", {**PAY.arguments, "note": "x" * 5000})
    os.write(ends[1], b"n\n")
    asyncio.run(asking(long, None))
    assert stream.getvalue() == (
        "? pay needs your yes:\n"
        '    to = "ann"\n'
        '    lines = "one\\ntwo\\u001b[2J"\n'
        "    amounts = [1, 2]\n"
        f'    note = "{"x" * 5000}"\n'
        "  run it? y/N "
    )


def test_questions_come_one_at_a_time_and_a_stop_of_one_asks_the_next(asked):
    asking, stream, ends = asked

    async def main():
        first, second = (asyncio.ensure_future(asking(PAY, None)) for _ in range(2))
        await asyncio.sleep(0.01)
        assert stream.getvalue().count("run it?") == 1
        first.cancel()
        await asyncio.sleep(0.01)
        assert first.cancelled()
        assert stream.getvalue().count("run it?") == 2
        os.write(ends[1], b"y\n")
        assert await second is True

    asyncio.run(main())
