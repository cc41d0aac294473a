"""A lane does what it was given in order, off the loop, and keeps no thread when it is done."""

import os
import threading

import pytest

from loopctl import CancelSignal
from loopctl.concurrency import Grace, Lane, ThreadWork, supervise
from loopctl.testing import virtual_run


@pytest.fixture
def lane():
    return Lane("lane of a test")


def work(lane, function):
    return ThreadWork(function, lane.name, can_unwind=True, lane=lane)


def test_steps_are_done_in_order_and_one_at_a_time_from_any_thread(lane):
    done, inside = [], []

    def step(number):
        inside.append(1)
        assert len(inside) == 1
        done.append(number)
        inside.pop()

    for number in range(200):
        lane.do(lambda number=number: step(number))
    others = [threading.Thread(target=lane.do, args=(lambda: step(-1),)) for _ in range(20)]
    for other in others:
        other.start()
        other.join()
    assert lane.wait(30)
    assert [number for number in done if number >= 0] == list(range(200))
    assert done.count(-1) == 20


def test_there_is_a_thread_only_while_there_is_something_to_do(lane):
    go = threading.Event()
    lane.do(go.wait)
    assert not lane.wait(0)
    assert [thread.daemon for thread in threading.enumerate() if thread.name == lane.name] == [True]
    go.set()
    assert lane.wait(30)


def test_what_waits_for_its_turn_is_withdrawn_at_once_by_a_cancel_and_never_done(lane):
    done = []

    async def main():
        go, signal = threading.Event(), CancelSignal()
        lane.do(go.wait)
        with signal.cancel_after(0):
            ending = await supervise(work(lane, lambda: done.append(1)), signal.token, grace=Grace(10_000))
        assert (ending.how, ending.stopped_by, ending.straggler) == ("not_started", "signal", None)
        go.set()
        assert await supervise(work(lane, lambda: "next"), CancelSignal().token, grace=Grace(0))

    virtual_run(main, blocked_after=0.05)
    assert done == []


def test_what_is_given_up_while_it_runs_is_done_nevertheless(lane):
    done = []

    async def main():
        go, signal = threading.Event(), CancelSignal()

        def slow():
            signal.cancel()
            go.wait()
            done.append(1)

        slowly = ThreadWork(slow, lane.name, can_unwind=False, lane=lane)
        ending = await supervise(slowly, signal.token, grace=Grace(0))
        assert ending.how == "abandoned"
        assert ending.straggler.kind == "thread"
        go.set()
        assert lane.wait(30)

    virtual_run(main)
    assert done == [1]


def test_a_fork_has_a_lane_that_works_and_nothing_of_its_parents(lane):
    go = threading.Event()
    done = []
    lane.do(go.wait)
    lane.do(lambda: done.append("parent"))
    child = os.fork()
    if child == 0:
        lane.do(lambda: done.append("child"))
        os._exit(0 if lane.wait(30) and done == ["child"] else 1)
    _, status = os.waitpid(child, 0)
    go.set()
    assert lane.wait(30)
    assert (status, done) == (0, ["parent"])
