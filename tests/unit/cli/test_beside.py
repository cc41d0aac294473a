"""What tools print while a reply is shown."""

from __future__ import annotations

import io
import sys
import threading

from loopctl.cli._beside import _Beside, printing_beside


class SlowScreen:
    """A screen whose first write is still going on when the block ends."""

    is_terminal = True

    def __init__(self):
        self.is_writing = threading.Event()
        self.may_go_on = threading.Event()

    def beside(self, text, write):
        write(text)
        self.is_writing.set()
        assert self.may_go_on.wait(10)


def test_a_print_on_a_thread_outlives_the_block(monkeypatch):
    """`print` on 3.11 only borrows `sys.stdout`: given up in the middle of one, it tore the tool."""
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    screen = SlowScreen()
    failures = []

    def work():
        try:
            print("slow has begun", flush=True)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=work)
    with printing_beside(screen):
        thread.start()
        assert screen.is_writing.wait(10)
    screen.may_go_on.set()
    thread.join(10)
    assert failures == []
    assert out.getvalue() == "slow has begun\n"


class Gone(io.StringIO):
    """A stream that cannot be flushed any more."""

    def flush(self):
        raise ValueError("I/O operation on closed file.")


def test_its_own_end_is_no_business_of_the_stream():
    """When the interpreter exits it may be collected after the stream was closed; Python 3.13 tells what fails then."""
    stream = Gone()
    _Beside(stream, SlowScreen()).close()
    assert not stream.closed
