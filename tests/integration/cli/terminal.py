"""Owns a pseudo-terminal with the command in it: send keys, wait for text, get the exit code.

Rules: a wait has a bound and says what was on the screen; the command is gone and reaped when the `with` ends.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

__all__ = ["COMMAND", "ROOT", "Terminal", "clean_environment"]

ROOT = Path(__file__).parents[3]
COMMAND = [sys.executable, "-m", "loopctl.cli"]
PATIENT = """
import sys

from loopctl import RunConfig
from loopctl.cli import main

RunConfig.__init__.__kwdefaults__["grace"] = 30.0
sys.exit(main())
"""
"""The command with a long grace, for what must be seen while a stop goes on, on however busy a machine."""
CUT = r"(\[stopped\]|■ stopping the reply… .*)\n"
"""What follows a reply that was stopped: its mark, or what is said of a stop that takes a machine its time."""
CTRL_C = b"\x03"
CTRL_D = b"\x04"

# The child leads a session of its own (start_new_session) and takes the terminal, so that a Ctrl-C byte is a SIGINT.
_TAKE_TERMINAL = (
    "import fcntl,os,sys,termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
)
_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[@-Z\\-_=>]|\x1b\][^\x07]*\x07")


def clean_environment(**changes: str) -> dict[str, str]:
    """Give the environment without what would change the command's behaviour, and with *changes*."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.endswith(("_API_KEY", "_BASE_URL")) and name not in {"NO_COLOR", "LOOPCTL_DEBUG", "OLLAMA_HOST"}
    }
    # No answer to "where is the cursor?" comes from here: the editor would wait for it.
    return kept | {"TERM": "xterm-256color", "PROMPT_TOOLKIT_NO_CPR": "1", "PYTHONUNBUFFERED": "1"} | changes


class Terminal:
    """A command in a terminal of its own."""

    def __init__(
        self, *arguments: str, cwd: Path | None = None, command: Sequence[str] = COMMAND, **environment: str
    ) -> None:
        """Start *command*, which is `loopctl`, with *arguments*."""
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 400, 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, "-c", _TAKE_TERMINAL, *command, *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            cwd=cwd,
            env=clean_environment(**environment),
        )
        os.close(slave)
        self.raw = ""
        self._seen = 0
        self._is_ended = False

    @property
    def text(self) -> str:
        """Everything that was written, without escapes."""
        return _ESCAPES.sub("", self.raw).replace("\r", "")

    def send(self, keys: bytes | str) -> None:
        """Press *keys*."""
        os.write(self.master, keys.encode() if isinstance(keys, str) else keys)

    def expect(self, pattern: str, timeout: float = 30) -> str:
        """Wait until *pattern* was written after what was expected last; give the match."""
        until = time.monotonic() + timeout
        while True:
            text = self.text
            if found := re.search(pattern, text[self._seen :]):
                self._seen += found.end()
                return found[0]
            if self._is_ended or not self._read(until - time.monotonic()):
                raise AssertionError(
                    f"{pattern!r} did not come; after what was seen:\n{text[self._seen :]}\n---\n{text}"
                )

    def wait(self, timeout: float = 30) -> int:
        """Wait for the command's end; give its exit code (negative: a signal killed it)."""
        until = time.monotonic() + timeout
        while not self._is_ended and self._read(until - time.monotonic()):
            pass
        return self.process.wait(max(0.1, until - time.monotonic()))

    def _read(self, seconds: float) -> bool:
        """Read what is there; False if nothing came within *seconds*."""
        if seconds <= 0 or not select.select([self.master], [], [], seconds)[0]:
            return False
        try:
            portion = os.read(self.master, 65536)
        except OSError:  # every holder of the other side is gone
            portion = b""
        self._is_ended = not portion
        self.raw += portion.decode("utf-8", "replace")
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)
