"""Run a command in the terminal's foreground, so that its Ctrl-C does not reach who runs this (make, for one).

Rules: the command has a process group of its own, which holds the terminal while it runs; a Ctrl-Z in it stops all of
us, and `fg` lets it go on; a SIGTERM is passed on; its exit code is ours. Without a terminal the command simply
replaces us.

Source: tcsetpgrp(3), "Implementing a Job Control Shell" in the manual of glibc.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys


def _main(command: list[str]) -> int:
    try:
        terminal = os.open("/dev/tty", os.O_RDWR)
    except OSError:
        os.execvp(command[0], command)  # noqa: S606 - no shell is wanted
    ours = os.getpgrp()
    if os.tcgetpgrp(terminal) != ours:  # in the background already
        os.execvp(command[0], command)  # noqa: S606 - no shell is wanted
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # to take the terminal back from the background
    take = lambda: _take(terminal)  # noqa: E731 - it must run in the child, before the command, which may read at once
    child = subprocess.Popen(command, process_group=0, preexec_fn=take)  # noqa: PLW1509 - there are no threads here
    signal.signal(signal.SIGTERM, lambda *_: os.killpg(child.pid, signal.SIGTERM))
    try:
        return _wait(child.pid, terminal, ours)
    finally:
        os.tcsetpgrp(terminal, ours)


def _take(terminal: int) -> None:
    os.tcsetpgrp(terminal, os.getpgrp())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)


def _wait(child: int, terminal: int, ours: int) -> int:
    while True:
        _, status = os.waitpid(child, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code
        os.tcsetpgrp(terminal, ours)
        os.killpg(ours, signal.SIGSTOP)
        os.tcsetpgrp(terminal, child)
        os.killpg(child, signal.SIGCONT)


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
