"""Interrupt `loopctl.cancel` at a chosen line: the ground under the signal, finalizer and interleaving tests.

A trace function counts the lines that are about to be executed inside the package and calls an action at the k-th.
That is where a signal handler may run, and a coarse model of where another thread may run. The action itself is not
traced.
"""

from __future__ import annotations

import itertools
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import loopctl.cancel

PACKAGE = str(Path(loopctl.cancel.__file__).parent)


class Interrupt:
    """An action that happens once, at the *at*-th step of what is traced."""

    def __init__(self, at: int, action: Callable[[], object], event: str = "line") -> None:
        self.at = at
        self.action = action
        self.event = event
        self.steps = 0
        self.place: tuple[str, str, int] | None = None
        """File, function and line that were interrupted; None as long as they were not reached."""

    def _enter(self, frame, _event, _arg):
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        frame.f_trace = self._step  # 3.13 asks for a frame's opcodes only if it has a trace function by now
        frame.f_trace_opcodes = self.event == "opcode"
        return self._step

    def _step(self, frame, event, _arg):
        if event == self.event and self.place is None:
            self.steps += 1
            if self.steps == self.at:
                self.place = (Path(frame.f_code.co_filename).name, frame.f_code.co_name, frame.f_lineno)
                self.action()
        return self._step

    @contextmanager
    def armed(self) -> Iterator[None]:
        before = sys.gettrace()
        # From 3.12 on, settrace asks for opcodes only if some frame has wanted them before.
        sys._getframe().f_trace_opcodes = self.event == "opcode"
        sys.settrace(self._enter)
        try:
            yield
        finally:
            sys.settrace(before)


def sweep(scenario: Callable[[int], Interrupt], *, least: int) -> set[str]:
    """Run *scenario* once for each step, until one is not reached; give the functions that were interrupted.

    *least* is how many steps there must have been: a sweep over nothing proves nothing.
    """
    functions = set()
    for at in itertools.count(1):
        interrupt = scenario(at)
        if interrupt.place is None:
            assert at > least, f"only {at - 1} steps were interrupted"
            return functions
        functions.add(interrupt.place[1])
    raise AssertionError


@contextmanager
def handling(handler: Callable[[], object], number: int = signal.SIGUSR1) -> Iterator[Callable[[], None]]:
    """Install a real signal handler; give a function that sends this process the signal."""

    def handle(_number, _frame):
        handler()

    before = signal.signal(number, handle)
    try:
        yield lambda: signal.raise_signal(number)
    finally:
        signal.signal(number, before)


class PlainLoop:
    """As much of an event loop as a cancel needs: it keeps what it is given until it is turned."""

    def __init__(self) -> None:
        self.calls = []
        self.closed = False

    def call_soon_threadsafe(self, callback, *args, context=None):
        if self.closed:
            raise RuntimeError("Event loop is closed")
        self.calls.append((callback, args))

    def is_closed(self):
        return self.closed

    def turn(self):
        while self.calls:
            callback, args = self.calls.pop(0)
            callback(*args)
