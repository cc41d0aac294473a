"""A command as a piece of work: led by a warden process of its own, ended as a whole.

Rules:

- The warden (`_warden.py`) knows every process that came of the command, keeps the time between TERM and KILL, and
  ends everything if we die. Here is only the talk with it, and the pipes.
- The work has ended when no process of the command's session is left and its warden is reaped. Nobody waits for the
  end of a pipe: what has escaped may hold it open.
- What has escaped is told of in the result, and keeps its warden until it ends.
- The command inherits three descriptors, no signal handler, no signal mask, no terminal.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import marshal
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from loopctl.concurrency._clock import hold_time, monotonic
from loopctl.concurrency._pipes import Drain, Feed
from loopctl.concurrency._straggler import Straggler
from loopctl.concurrency._warden import HEADER

__all__ = ["Command", "OutputStream", "ProcessEnd", "ProcessWork"]

OutputStream: TypeAlias = Literal["stdout", "stderr"]

_FOLDER = str(Path(__file__).parent)
_WARDEN = "import sys; sys.path.append(sys.argv.pop(1)); import _warden; _warden.main()"
"""Imported, and not run by its path: the bytecode of a script is not kept."""
_KILL_AT = 0.8
"""The part of the grace after which TERM becomes KILL."""

_TURNS = 8
"""It does not live in turns of the loop; and who waits for it, in a task that is pressed too, must be told in time."""


@dataclass(frozen=True, slots=True)
class Command:
    """What is to be run."""

    argv: tuple[bytes, ...]
    env: Mapping[bytes, bytes]
    cwd: bytes | None = None
    input: bytes | None = None
    """What it reads from its standard input; None: nothing."""

    def __str__(self) -> str:
        """Give it as one would type it, shortened."""
        text = " ".join(os.fsdecode(word) for word in self.argv)
        return text if len(text) <= 60 else text[:59] + "…"  # noqa: PLR2004 - one line of a report


@dataclass(frozen=True, slots=True)
class ProcessEnd:
    """How a command ended."""

    returncode: int
    """What it left with; negative: the signal that killed it."""
    escaped: tuple[int, ...]
    """The ids of the processes that came of it and still run: they left its session, or could not be killed."""


_left_behind: set[ProcessWork] = set()
"""Works whose warden still lives though nobody waits for it."""


class ProcessWork:
    """A command, and everything that comes of it."""

    def __init__(
        self,
        command: Command,
        grace: float,
        on_output: Callable[[OutputStream, bytes], object],
        on_message: Callable[[bytes], object] | None = None,
        *,
        is_fed: bool = False,
    ) -> None:
        """Prepare to run *command*.

        Args:
            command: Run once.
            grace: Seconds that it has once it is pressed; it is killed at 80 % of them.
            on_output: Called on the loop for each portion of output, and with `b""` where it ends, which may be while
                the command runs. If it raises, the command is stopped.
            on_message: Makes the standard input of the command a socket: called for each portion that comes from it,
                and with `b""` at its end.
            is_fed: Keeps the standard input of the command open for `send`, until `end_input`.
        """
        self.can_unwind: bool = True
        self.turns: int = _TURNS
        self._command = command
        self._grace = grace
        self._on_output = on_output
        self._on_message = on_message
        self._is_fed = is_fed
        self._messages: Feed | None = None
        self._is_led = False
        self._presses = 0
        self._pid = 0
        self._returncode: int | None = None
        self._escaped: tuple[int, ...] = ()
        self._is_gone = False
        self._is_ended = False
        self._error: BaseException | None = None
        self._heard = b""
        self._straggler: Straggler | None = None
        self._pipes: list[Drain | Feed] = []
        self._release: Callable[[], None] = lambda: None

    def start(
        self, loop: asyncio.AbstractEventLoop, on_ended: Callable[[], None], _may_begin: Callable[[], bool], /
    ) -> None:
        self._loop = loop
        self._on_ended = on_ended
        self._started = monotonic()
        _reap_left_behind()
        try:
            with contextlib.ExitStack() as lent:
                self._spawn(lent)
        except OSError as error:  # the system has no process or no descriptor for us
            self._fail(loop, on_ended, error)
            return
        self._release = hold_time(loop)

    def _fail(self, loop: asyncio.AbstractEventLoop, on_ended: Callable[[], None], error: Exception) -> None:
        """End with *error*, without having begun."""
        self._error = error
        self._is_ended = True
        loop.call_soon(on_ended)

    def _spawn(self, lent: contextlib.ExitStack) -> None:
        """Start the warden. What *lent* holds is closed when it has it."""
        command, loop = self._command, self._loop
        with contextlib.ExitStack() as kept:
            control, theirs = _pair(kept, lent)
            outputs = {"stdout": _pipe(kept, lent), "stderr": _pipe(kept, lent)}
            stdin = self._stdin(kept, lent)
            self._popen = subprocess.Popen(  # noqa: S603 - our own program, isolated from the application
                [sys.executable, "-I", "-S", "-c", _WARDEN, _FOLDER, str(theirs), str(os.getpid())],
                stdin=subprocess.DEVNULL if stdin is None else stdin[0],
                stdout=outputs["stdout"][1],
                stderr=outputs["stderr"][1],
                pass_fds=(theirs,),
                start_new_session=True,
            )
            kept.pop_all()
        self._is_led = True
        self._orders = Feed(loop, os.dup(control))
        self._control = Drain(loop, control, self._hear)
        self._outputs = {n: Drain(loop, outputs[n][0], functools.partial(self._take, n)) for n in _STREAMS}
        self._pipes += self._outputs.values()
        if stdin is not None:
            self._attach(stdin[1])
        described = marshal.dumps({"argv": list(command.argv), "env": dict(command.env), "cwd": command.cwd})
        self._orders.write(len(described).to_bytes(HEADER, "big") + described)

    def _stdin(self, kept: contextlib.ExitStack, lent: contextlib.ExitStack) -> tuple[int, int] | None:
        """Make what the command reads: its end and ours; None if it reads nothing."""
        if self._on_message is not None:
            ours, theirs = _pair(kept, lent)
            return theirs, ours
        return _pipe(lent, kept) if self._is_fed or self._command.input is not None else None

    def _attach(self, descriptor: int) -> None:
        if self._on_message is not None:
            self._messages = Feed(self._loop, os.dup(descriptor))
            drain = Drain(self._loop, descriptor, functools.partial(self._guard, self._on_message))
            self._pipes += [self._messages, drain]
            return
        feed = Feed(self._loop, descriptor)
        if self._is_fed:
            self._messages = feed
            self._pipes.append(feed)
            return
        feed.write(self._command.input or b"")
        feed.end()
        self._pipes.append(feed)

    def send(self, message: bytes) -> None:
        """Write into the standard input of a begun command; nothing happens if it could not be begun."""
        if self._messages is not None:
            self._messages.write(message)

    def end_input(self) -> None:
        """Close the standard input of a begun command when everything is written."""
        if self._messages is not None:
            self._messages.end()

    def hold_output(self, stream: OutputStream, *, is_held: bool) -> None:
        """Leave what comes of *stream* unread, or read it again: the command waits once the pipe is full."""
        self._outputs[stream].hold(is_held=is_held)

    def _take(self, stream: OutputStream, portion: bytes) -> None:
        self._guard(functools.partial(self._on_output, stream), portion)

    def _guard(self, tell: Callable[[bytes], object], portion: bytes) -> None:
        if self._error is not None:
            return
        try:
            tell(portion)
        except Exception as error:  # whoever is told
            self._error = error
            self.interrupt()

    def _hear(self, portion: bytes) -> None:
        *lines, self._heard = (self._heard + portion).split(b"\n")
        for line in lines:
            word, *rest = line.decode().split(" ")
            match word:
                case "pid":
                    self._pid = int(rest[0])
                case "failed":
                    self._error = self._failure(int(rest[0]), rest[1])
                case "exit":
                    self._returncode = int(rest[0])
                case _:
                    self._is_gone = True
                    self._escaped = tuple(sorted(map(int, rest)))
        if not portion:
            self._bury()
        elif self._escaped:
            _left_behind.add(self)
            self._end()

    def _failure(self, number: int, step: str) -> OSError:
        named = self._command.cwd if step == "cwd" else self._command.argv[0]
        return OSError(number, os.strerror(number), os.fsdecode(named or b""))

    def _bury(self) -> None:
        """Reap the warden: it has closed its socket, which it does only by ending."""
        code = self._popen.wait()
        self._is_led = False
        self._orders.close()
        _left_behind.discard(self)
        if not self._is_gone and self._error is None:
            if self._pid:
                with contextlib.suppress(OSError):
                    os.killpg(self._pid, signal.SIGKILL)
            self._error = ChildProcessError(
                f"the process that leads `{self._command}` was ended from outside (exit code {code}), and the command"
                " with it"
            )
        self._end()

    def _end(self) -> None:
        if not self._is_ended:
            for pipe in self._pipes:
                pipe.finish()
            self._is_ended = True
            self._release()
            if self._straggler is None:
                self._on_ended()
                return
        if self._straggler is not None and not self._straggler.is_ended and not self._is_led:
            self._straggler.end(*self.result())

    def discard(self) -> None:
        pass

    def is_ended(self) -> bool:
        return self._is_ended

    def has_begun(self) -> bool:
        return bool(self._pid) or self._error is not None

    def interrupt(self) -> None:
        self._presses += 1
        if not self._is_ended:
            is_first = self._presses == 1
            self._orders.write(b"stop %f\n" % (self._grace * _KILL_AT) if is_first else b"kill\n")

    def result(self) -> tuple[Any, BaseException | None]:
        if self._error is not None:
            return None, self._error
        if self._returncode is None:  # it was stopped before it began
            return None, asyncio.CancelledError()
        return ProcessEnd(self._returncode, self._escaped), None

    def hold(self, _release: Callable[[], None], /) -> bool:
        return False

    def abandon(self) -> Straggler:
        for pipe in self._pipes:
            pipe.close()
        self._release()
        _left_behind.add(self)
        return self.straggler()

    def is_left(self) -> bool:
        """True if something of it still runs."""
        return self._is_led

    def straggler(self) -> Straggler:
        """Give what still runs of it: ends when nothing of it is left."""
        if self._straggler is None:
            self._straggler = Straggler("process", self._started, self._where)
        return self._straggler

    def _where(self) -> str:
        pids = self._escaped or (self._pid,)
        running = [f"{pid} ({_name_of(pid)})" for pid in pids if _name_of(pid)]
        return "process " + ", ".join(running) if running else f"process of `{self._command}`"


_STREAMS: tuple[OutputStream, ...] = ("stdout", "stderr")


def _pipe(reader: contextlib.ExitStack, writer: contextlib.ExitStack) -> tuple[int, int]:
    """Make a pipe, of which *reader* and *writer* close their ends."""
    reading, writing = os.pipe()
    reader.callback(os.close, reading)
    writer.callback(os.close, writing)
    return reading, writing


def _pair(kept: contextlib.ExitStack, lent: contextlib.ExitStack) -> tuple[int, int]:
    ours, theirs = (end.detach() for end in socket.socketpair())
    kept.callback(os.close, ours)
    lent.callback(os.close, theirs)
    return ours, theirs


def _name_of(pid: int) -> str:
    """Give the name of a running process; empty if it has ended, or the system does not tell."""
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _reap_left_behind() -> None:
    """Reap the wardens whose loop was closed before they ended."""
    for work in list(_left_behind):
        if work._loop.is_closed() and work._popen.poll() is not None:
            work._control.close()
            work._bury()
