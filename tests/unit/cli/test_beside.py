"""What tools print while a reply is shown."""

from __future__ import annotations

import sys

from loopctl.cli._beside import printing_beside
from loopctl.cli._screen import Screen
from tests.unit.cli.test_screen import XTERM, Fake


def test_what_is_printed_stands_on_lines_of_its_own(monkeypatch):
    stream = Fake()
    monkeypatch.setattr(sys, "stdout", stream)
    screen = Screen(stream, XTERM | {"NO_COLOR": "1"})
    with printing_beside(screen):
        screen.write("Let me see")
        print("tool says", 1)
        screen.write("Done.")
    assert stream.getvalue() == "Let me see\ntool says 1\nDone."
    assert sys.stdout is stream


def test_what_is_asked_of_the_stream_is_answered_by_the_stream(monkeypatch):
    stream = Fake()
    stream.buffer = object()
    monkeypatch.setattr(sys, "stdout", stream)
    with printing_beside(Screen(stream, XTERM)):
        assert sys.stdout is not stream
        assert sys.stdout.buffer is stream.buffer
        assert (sys.stdout.encoding, sys.stdout.isatty(), sys.stdout.writable()) == ("utf-8", True, True)


def test_a_pipe_is_left_alone(monkeypatch):
    stream = Fake(is_terminal=False)
    monkeypatch.setattr(sys, "stdout", stream)
    with printing_beside(Screen(stream, {})):
        assert sys.stdout is stream
