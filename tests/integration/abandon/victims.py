"""Processes that are made to be killed: one server forks them, so that a hundred of them cost a second or two.

A program is a file with `work(mark, folder, number)`. It says what it is doing by `mark(phase)`, a number that stays in
a mapped file whatever happens to the process; the killer reads there what the victim was doing when it died.
"""

from __future__ import annotations

import functools
import importlib.util
import mmap
import os
import random
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path


class Victims:
    """Forks processes of one program and kills them; to be used in `with`."""

    def __init__(self, program: Path, folder: Path) -> None:
        self._page = folder / "phase"
        self._page.write_bytes(b"\0" * mmap.PAGESIZE)
        self._server = subprocess.Popen(
            [sys.executable, __file__, str(program), str(folder), str(self._page)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._map = _map(self._page)

    def __enter__(self) -> Victims:
        return self

    def __exit__(self, *error: object) -> None:
        self._server.communicate()
        self._map.close()

    def kill(
        self, number: int, *, at: int | None = None, after: float = 0.0, look: Callable[[], object] | None = None
    ) -> int:
        """Fork a victim, which works on *number*, and kill it with -9.

        Args:
            number: Told to the victim.
            at: The phase in which it stands still and is killed; None for any.
            after: Seconds after its first mark.
            look: Called just before the kill.

        Returns:
            The phase in which it died; 0 if it had ended.
        """
        self._map[0], self._map[1] = 0, at or 0
        self._server.stdin.write(f"{number}\n".encode())
        self._server.stdin.flush()
        pid = int(self._server.stdout.readline())
        until = time.monotonic() + 30
        while self._map[0] != at if at is not None else self._map[0] == 0:
            assert time.monotonic() < until, f"the victim never came to {at}"
            time.sleep(0)  # threads of the test may have something to do for the victim
        end = time.perf_counter() + after
        while time.perf_counter() < end:
            time.sleep(0)
        if look is not None:
            look()
        os.kill(pid, signal.SIGKILL)  # it is not reaped before it is asked for, so this is no other process
        self._server.stdin.write(b"\n")
        self._server.stdin.flush()
        status = int(self._server.stdout.readline())
        assert os.WIFSIGNALED(status) or status == 0, "the victim failed by itself"
        return self._map[0] if os.WIFSIGNALED(status) else 0


class Moments:
    """Random moments of which most fall inside of work whose length is a matter of the machine."""

    def __init__(self, chance: random.Random, latest: float) -> None:
        """Give moments of up to *latest* seconds, or less."""
        self._chance = chance
        self._most = self._latest = latest

    def next(self) -> float:
        """Give a number of seconds."""
        return self._chance.uniform(0, self._latest)

    def learn(self, *, is_inside: bool) -> None:
        """Reach less far if the last one came too late, and further again if it fell inside: most of them are to."""
        self._latest = min(self._most, self._latest * (1.1 if is_inside else 0.7))


def _map(page: Path) -> mmap.mmap:
    with page.open("r+b") as file:
        return mmap.mmap(file.fileno(), 0)


def _mark(phase: mmap.mmap, value: int) -> None:
    phase[0] = value
    while phase[1] == value:
        time.sleep(0.01)


def _serve(program: str, folder: str, page: str) -> None:
    spec = importlib.util.spec_from_file_location("program", program)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    phase = _map(Path(page))
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                module.work(functools.partial(_mark, phase), Path(folder), int(line))
                code = 0
            except BaseException:
                traceback.print_exc()
            os._exit(code)
        print(pid, flush=True)
        sys.stdin.readline()
        print(os.waitpid(pid, 0)[1], flush=True)


if __name__ == "__main__":
    _serve(*sys.argv[1:])
