"""What is said while a stop takes its time, on a clock that jumps."""

from __future__ import annotations

import asyncio

import pytest

from loopctl.cli._render import Renderer
from loopctl.cli._screen import Screen
from loopctl.cli._stopping import Stopping
from loopctl.record import CallStatus, ToolFinished, ToolStarted
from loopctl.testing import virtual_run
from tests.unit.cli.records import call
from tests.unit.cli.test_screen import Fake

SAVE = call("save", CallStatus.NOT_STARTED, arguments={"path": "x"})


class Handle:
    """A run that notes how hard it was cancelled."""

    def __init__(self):
        self.urgencies = []

    def cancel(self, reason, *, urgency):
        assert reason.origin == "shutdown"
        self.urgencies.append(urgency)


def stop_for(seconds, *events, typed=True, again=False):
    stream = Fake(is_terminal=False)
    screen = Screen(stream, {})
    renderer = Renderer(screen)

    async def main():
        stopping = Stopping(screen, renderer, handle, grace=1)
        for event in events:
            renderer.follow(event)
        with stopping:
            stopping.begun(is_typed=typed)
            if again:
                stopping.abandoned()
            await asyncio.sleep(seconds)
        await asyncio.sleep(1)
        return stopping.last_words()

    handle = Handle()
    return virtual_run(main), stream.getvalue(), handle.urgencies


def test_a_quick_stop_says_nothing_of_its_own():
    assert stop_for(0.09, ToolStarted(SAVE))[1] == ""


@pytest.mark.parametrize(
    ("events", "said", "last"),
    [
        ([ToolStarted(SAVE)], "save", '■ left at once; still running, effect unknown: save(path="x")'),
        ([], "the reply", "■ left before the reply had stopped; no tool was running"),
        (
            [ToolStarted(SAVE), ToolFinished(SAVE)],
            "the reply",
            "■ left before the reply had stopped; no tool was running",
        ),
    ],
)
def test_a_slow_stop_says_once_what_it_waits_for_and_who_leaves_what_is_left(events, said, last):
    last_words, shown, _ = stop_for(0.5, *events)
    assert shown == f"■ stopping {said}… (Ctrl-C again abandons it)\n"
    assert last_words == last


def test_a_second_press_says_that_nothing_is_waited_for():
    assert stop_for(0.5, ToolStarted(SAVE), again=True)[1] == "■ abandoning save… (Ctrl-C again leaves)\n"


@pytest.mark.parametrize(("typed", "seconds", "urgencies"), [(False, 1.1, [3]), (False, 0.9, []), (True, 5, [])])
def test_sigterm_abandons_what_has_not_ended_after_the_grace(typed, seconds, urgencies):
    assert stop_for(seconds, typed=typed)[2] == urgencies
