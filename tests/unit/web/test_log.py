"""The log of one run: numbered without a gap, bounded, read by each at its own pace."""

from __future__ import annotations

import asyncio
import re

import pytest

from loopctl.testing import virtual_run
from loopctl.web._log import Missed, RunLog


def numbers(portion: bytes) -> list[int]:
    return [int(found) for found in re.findall(rb"(?m)^id: (\d+)$", portion)]


def filled(count: int, most: int = 100, size: int = 1) -> RunLog:
    log = RunLog(most)
    for number in range(count):
        log.add({"n": number, "text": "x" * size})
    return log


def test_each_event_has_the_next_number_and_is_read_after_the_last_one_seen():
    log = filled(5)
    portion, last = log.read(2)
    assert (numbers(portion), last) == ([3, 4, 5], 5)
    assert log.read(5) == (b"", 5)


def test_the_oldest_go_when_there_are_too_many_and_who_asks_for_them_is_told():
    log = filled(12, most=10)
    assert numbers(log.read(2)[0]) == list(range(3, 13))
    with pytest.raises(Missed) as missed:
        log.read(0)
    assert missed.value.count == 2


def test_the_oldest_go_when_they_are_too_large_but_never_the_newest():
    log = filled(10, size=1 << 20)
    assert len(numbers(log.read(log.last - 3)[0])) >= 1
    with pytest.raises(Missed):
        log.read(log.last - 5)
    log.add({"text": "x" * (8 << 20)})
    assert numbers(log.read(log.last - 1)[0]) == [11]


def test_much_is_read_in_portions():
    log, seen, portions = filled(40, size=10_000), [], 0
    while len(seen) < 40:
        portion, last = log.read(seen[-1] if seen else 0)
        seen += numbers(portion)
        assert last == seen[-1]
        portions += 1
    assert (seen, portions > 3) == (list(range(1, 41)), True)


def test_who_waits_is_woken_by_the_next_event_by_the_end_and_by_the_time():
    async def main() -> list[float]:
        loop, log, at = asyncio.get_running_loop(), RunLog(10), []
        loop.call_later(1.0, log.add, {"n": 1})
        loop.call_later(2.0, log.end)
        for after, seconds in ((0, 10.0), (1, 0.5), (1, 10.0), (1, 10.0)):
            await log.news(after, seconds)
            at.append(loop.time())
        return at

    began, *rest = virtual_run(main)
    assert [round(each - began, 6) for each in rest] == [0.5, 1.0, 1.0]


def test_a_wait_that_is_left_leaves_nothing():
    async def main() -> int:
        log = RunLog(10)
        task = asyncio.ensure_future(log.news(0, 60.0))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return len(log._waiting)

    assert virtual_run(main) == 0


def test_what_is_forgotten_is_missed():
    log = filled(3)
    log.forget()
    with pytest.raises(Missed):
        log.read(0)
    assert log.read(3) == (b"", 3)
