"""Owns one child process with a model in it, from its start to its reaping.

Rules:

- Nothing here belongs to an event loop: it may be started from one, awaited from others and ended from a thread.
- The child writes its address and then closes the pipe, so the pipe stays readable for every waiter, however many.
- It ends with us: `end()`, the collection of this object, the interpreter's exit, and (see `_serve`) our death.
- After a fork the child process of ours knows nothing of it any more: the server stays its parent's.
- Its log goes to a file without a name; the terminal is the user's.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import threading
import weakref
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Literal, TypeAlias

__all__ = ["ProcessState", "ServerProcess", "ServerSpec"]

ProcessState: TypeAlias = Literal["loading", "ready", "ended"]

_SCRIPT = Path(__file__).with_name("_serve.py")
_REAP = 0.2  # seconds; a killed process is gone in a few milliseconds unless the disk hangs
_TAIL = 4096
_ERROR = "error loading model: "


@dataclass(frozen=True, slots=True)
class ServerSpec:
    """What the child is told."""

    path: str
    name: str
    context: int
    threads: int
    key: str


class ServerProcess:
    """A started child. Constructing it starts it."""

    def __init__(self, spec: ServerSpec) -> None:
        """Start the child; it loads *spec*'s model.

        Raises:
            OSError: The process cannot be started.
        """
        # For as long as the process lives: no `with`.
        self._log = tempfile.TemporaryFile(prefix="loopctl-local-")  # noqa: SIM115
        self._popen = subprocess.Popen(  # noqa: S603 - our own script
            [sys.executable, "-P", str(_SCRIPT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            start_new_session=True,  # the terminal's Ctrl-C is for us
        )
        self._end = weakref.finalize(self, _end, self._popen, self._log)
        self._lock = threading.Lock()
        self._output = b""
        self._address: str | None = None
        self._words = ""
        _alive.add(self)
        stdout = self._popen.stdout
        assert stdout is not None, "a pipe was asked for"
        os.set_blocking(stdout.fileno(), False)
        self._stdout = stdout
        self._tell(spec)

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._popen.pid

    @property
    def address(self) -> str:
        """Where it serves, once it is ready."""
        assert self._address is not None, "it is not ready"
        return self._address

    @property
    def returncode(self) -> int | None:
        """How it ended (negative: the signal), or None."""
        return self._popen.poll()

    def state(self) -> ProcessState:
        """Look, without waiting, how far it is."""
        with self._lock:
            return self._look() if self._end.alive else "ended"

    async def loaded(self) -> ProcessState:
        """Wait until the model is loaded or the child has ended. Any number of tasks on any loops may wait.

        Cancellation:
            The child is left as it is.
        """
        while (state := self.state()) == "loading":
            await self._news()
        return state

    def last_words(self) -> str:
        """The last error in its log, or ''."""
        if self._log.closed:
            return self._words
        size = os.fstat(self._log.fileno()).st_size
        text = os.pread(self._log.fileno(), _TAIL, max(0, size - _TAIL)).decode(errors="replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        # llama.cpp repeats a failure on its way out; the first line that calls it an error says most.
        told = next((line for line in lines if _ERROR in line), lines[-1] if lines else "")
        return told.rpartition(_ERROR)[2]

    def end(self) -> None:
        """Kill it and reap it. Idempotent; any thread."""
        with self._lock:
            if self._end.alive:
                self._words = self.last_words()
                self._end()

    def forget(self) -> None:
        """Let go of it without touching it: this is a fork, and it belongs to the process that was forked."""
        if self._end.detach() is None:
            return
        self._lock = threading.Lock()  # a thread that did not come along may have held it
        self._popen.returncode = 0  # or its destructor complains that nobody waited
        for file in (self._popen.stdin, self._popen.stdout, self._log):
            if file is not None:
                file.close()

    async def _news(self) -> None:
        """Wait until the pipe can be read: a copy of it, as a loop has one reader for each descriptor."""
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()
        with self._lock:
            if not self._end.alive:
                return
            copy = os.dup(self._stdout.fileno())
        try:
            loop.add_reader(copy, _resolve, ready)
            await ready
        finally:
            loop.remove_reader(copy)
            os.close(copy)

    def _tell(self, spec: ServerSpec) -> None:
        settings = asdict(spec) | {
            "parent": os.getpid(),
            "is_from_main_thread": threading.current_thread() is threading.main_thread(),
        }
        stdin = self._popen.stdin
        assert stdin is not None, "a pipe was asked for"
        try:
            stdin.write(json.dumps(settings).encode() + b"\n")
            stdin.flush()
        except BrokenPipeError:
            return  # it is dead already, which its state says

    def _look(self) -> ProcessState:
        if self._address is None:
            try:
                portion = os.read(self._stdout.fileno(), _TAIL)
            except BlockingIOError:
                return "loading"
            self._output += portion
            if self._output.endswith(b"\n"):
                self._address = self._output.decode().strip()
            elif portion:
                return "loading"
        return "ready" if self._address is not None and self._popen.poll() is None else "ended"


def _end(popen: subprocess.Popen[bytes], log: IO[bytes]) -> None:
    popen.kill()
    for file in (popen.stdin, popen.stdout, log):
        if file is not None:
            _close_quietly(file)
    try:
        popen.wait(_REAP)
    except subprocess.TimeoutExpired:
        threading.Thread(target=popen.wait, name="loopctl-local-reaper", daemon=True).start()


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _close_quietly(file: IO[bytes]) -> None:
    try:
        file.close()
    except BrokenPipeError:
        return  # settings that the dead child did not read


_alive: weakref.WeakSet[ServerProcess] = weakref.WeakSet()


def _forget_all() -> None:
    for process in list(_alive):
        process.forget()


if hasattr(os, "register_at_fork"):  # where there is no fork, there is none of this
    os.register_at_fork(after_in_child=_forget_all)
