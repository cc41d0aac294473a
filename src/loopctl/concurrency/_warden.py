"""Leads one command, from its start to the end of the last process that came of it.

Imported by an interpreter of its own, isolated, with a few modules of the standard library: it must start quickly, and
nothing of the application may be in it.

Rules:

- It has a session of its own and the command has another: what is sent to the command's group does not reach it.
- On Linux it is the subreaper of everything that comes of the command: whatever loses its parent becomes its child,
  a daemon too. So it knows what is left, and reaps it.
- The *members* are the processes of the command's session: they end with the command. What made a session of its own
  has *escaped*: it is told of and left alone, for as long as our parent lives.
- When our parent is gone, by whatever death, everything is killed, the escaped too.
- It is bounded by its own clock: the parent's loop may be blocked.

The talk with the parent, on one socket:

- in: eight bytes of length and a marshalled description of the command; then the lines `stop SECONDS` (TERM now, KILL
  after so long) and `kill`.
- out: the lines `pid N`, `failed ERRNO STEP`, `exit CODE`, and at the end of the members `gone PID PID …` with those
  that are left. Then the end of file, when nothing is left.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # the public module makes enumerations of it, which costs as much as all the rest
import marshal
import os
import select
import sys
import time

__all__ = ["Warden", "main"]

TYPE_CHECKING = False  # as the typing module's, without importing it
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias

    Spec: TypeAlias = dict[str, Any]

LINGER = 0.2
"""Seconds that what a command leaves running in its session gets to end by itself, and again after the TERM."""
RETRY = 0.05
"""Seconds between two kills: what forked in the meantime is found by the next."""
PATIENCE = 1.0
"""Seconds after the KILL until what is still there is told of: it hangs in the kernel, or is another user's."""
FAREWELL = 5.0
"""Seconds that are spent on killing what a dead parent has left."""

HEADER = 8
"""Bytes of the length before the description of the command."""

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_NEVER = float("inf")


class Warden:
    """One command."""

    def __init__(self, control: int, parent: int) -> None:
        """Talk with *parent* on *control*."""
        self._control = control
        self._parent = parent
        self._death = -1
        self._spec: Spec = {}
        self._received = b""
        self._session = 0
        self._has_exited = False
        self._is_told = False
        """True once the parent knows that the members are gone."""
        self._has_children = True
        self._term_at = self._kill_at = self._tell_at = _NEVER
        self._is_orphan = False
        self._orphan_until = _NEVER

    def run(self) -> None:
        """Lead the command until nothing is left of it."""
        self._listen()
        self._is_subreaper = _prctl(_PR_SET_CHILD_SUBREAPER, 1)
        self._read_spec()
        if self._is_orphan:
            return
        if self._is_stopped_early():
            self._tell("gone")
            return
        self._start()
        while self._has_children and time.monotonic() < self._orphan_until:
            self._wait()
            self._reap()
            self._act(time.monotonic())
        if not self._is_told:
            self._tell("gone")

    def _listen(self) -> None:
        self._poll = select.poll()
        self._wakeup, write = os.pipe()
        os.set_blocking(self._wakeup, False)
        os.set_blocking(write, False)
        os.set_inheritable(self._control, False)
        self._poll.register(self._control, select.POLLIN)
        self._poll.register(self._wakeup, select.POLLIN)
        self._death = _watch_process(self._parent)
        if self._death >= 0:  # a fork of our parent may hold its end of the socket open: it says nothing of its death
            self._poll.register(self._death, select.POLLIN)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, lambda *_: self._be_orphan())
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        if os.getppid() != self._parent:
            self._be_orphan()

    def _read_spec(self) -> None:
        end = HEADER
        while len(self._received) < end:
            if not self._receive():
                return
            if len(self._received) >= HEADER:
                end = HEADER + int.from_bytes(self._received[:HEADER], "big")
        self._spec = marshal.loads(self._received[HEADER:end])  # noqa: S302 - of our parent
        self._received = self._received[end:]

    def _is_stopped_early(self) -> bool:
        """Look, without waiting, whether the command is not wanted any more."""
        for descriptor, _ in self._poll.poll(0):
            if descriptor == self._control:
                self._receive()
        return self._is_orphan or b"\n" in self._received

    def _start(self) -> None:
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            _become(self._spec, writing)
        self._session = pid
        self._tell(f"pid {pid}")  # before it can do anything: our parent ends it if we are killed
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        for descriptor in (null, writing):
            os.close(descriptor)
        os.chdir("/")
        self._await_beginning(reading)
        os.close(reading)

    def _await_beginning(self, problems: int) -> None:
        """Wait until the command runs, or cannot: the pipe ends there, as it is not inherited."""
        poll = select.poll()
        poll.register(problems, select.POLLIN)
        if self._death >= 0:
            poll.register(self._death, select.POLLIN)
        if problems not in dict(poll.poll()):
            self._be_orphan()
        elif problem := os.read(problems, 64):
            self._tell("failed " + problem.decode())

    def _wait(self) -> None:
        now = time.monotonic()
        due = min(self._term_at, self._kill_at, self._tell_at)
        if self._has_exited and not self._is_subreaper:  # nobody tells us of the end of the others
            due = min(due, now + RETRY)
        seconds = None if due == _NEVER else max(0.0, due - now) * 1000
        for descriptor, _ in self._poll.poll(seconds):
            if descriptor == self._control:
                self._receive()
                self._obey()
            elif descriptor == self._wakeup:
                os.read(self._wakeup, 4096)
            else:
                self._be_orphan()

    def _receive(self) -> bool:
        try:
            portion = os.read(self._control, 65536)
        except ConnectionResetError:
            portion = b""
        self._received += portion
        if not portion:
            self._be_orphan()
        return bool(portion)

    def _obey(self) -> None:
        *lines, self._received = self._received.split(b"\n")
        for line in lines:
            word, _, seconds = line.partition(b" ")
            now = time.monotonic()
            if word == b"stop":
                self._term_at = now
                self._kill_at = min(self._kill_at, now + float(seconds))
            else:
                self._kill_at = now

    def _be_orphan(self) -> None:
        if self._is_orphan:
            return
        self._is_orphan = True
        now = time.monotonic()
        for descriptor in (self._control, self._death):  # they stay readable for good
            if descriptor >= 0:
                self._poll.unregister(descriptor)
        self._term_at, self._kill_at = now, now + LINGER
        self._orphan_until = now + FAREWELL

    def _reap(self) -> None:
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                if pid == self._session:
                    self._has_exited = True
                    self._tell(f"exit {os.waitstatus_to_exitcode(status)}")
                    if self._term_at == self._kill_at == _NEVER:
                        self._term_at, self._kill_at = (time.monotonic() + LINGER * n for n in (1, 2))
        except ChildProcessError:
            # Who is no subreaper has lost what has lost its parent: it can only ask for the group.
            may_be_left = not self._is_subreaper and not self._is_told
            self._has_children = may_be_left and _kill(os.killpg, self._session, 0)

    def _act(self, now: float) -> None:
        if now >= self._term_at:
            self._term_at = _NEVER
            self._send(signal.SIGTERM)
        if now >= self._kill_at:
            self._send(signal.SIGKILL)
            self._kill_at = now + RETRY
            self._tell_at = min(self._tell_at, now + PATIENCE)
        if self._has_exited and self._has_children and not self._is_told and not self._is_orphan:
            members, escaped = self._left()
            if not members or now >= self._tell_at:
                self._is_told = True
                self._tell(" ".join(["gone", *map(str, members | escaped)]))
                self._term_at = self._kill_at = self._tell_at = _NEVER

    def _send(self, number: int) -> None:
        """Send a signal to the members; if we are an orphan, to everything."""
        _kill(os.killpg, self._session, number)
        members, escaped = self._left()
        for pid in members | escaped if self._is_orphan else members:
            _kill(os.kill, pid, number)

    def _left(self) -> tuple[set[int], set[int]]:
        """Find the members and the escaped that live."""
        table = _processes()
        if not table:  # not Linux: what left the group cannot be seen
            return ({self._session} if _kill(os.killpg, self._session, 0) else set()), set()
        ours = _descendants(table, os.getpid())
        members = {pid for pid in ours if table[pid][1] == self._session}
        return members, ours - members

    def _tell(self, line: str) -> None:
        try:
            os.write(self._control, line.encode() + b"\n")
        except (BrokenPipeError, ConnectionResetError):
            self._be_orphan()


def _become(spec: Spec, problems: int) -> None:
    """Be the command: never returns."""
    step = "start"
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_DFL)
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # of the warden, whose only thread this is
        if spec["cwd"] is not None:
            step = "cwd"
            os.chdir(spec["cwd"])
            step = "start"
        os.execvpe(spec["argv"][0], spec["argv"], spec["env"])  # noqa: S606
    except OSError as error:
        os.write(problems, f"{error.errno} {step}".encode())
    finally:
        os._exit(127)


def _prctl(option: int, value: int) -> bool:
    if sys.platform != "linux":
        return False
    try:
        import ctypes
    except ImportError:  # a Python without it
        return False
    return bool(ctypes.CDLL(None).prctl(option, value, 0, 0, 0) == 0)


def _watch_process(pid: int) -> int:
    """Give a descriptor that can be read when *pid* has ended; -1 if there is no such thing here."""
    try:
        return os.pidfd_open(pid) if sys.platform == "linux" else -1
    except OSError:
        return -1


def _kill(send: Callable[[int, int], None], target: int, number: int) -> bool:
    """Send a signal, and say whether there was somebody to send it to."""
    try:
        send(target, number)
    except ProcessLookupError:
        return False
    except PermissionError:  # another user's: it is there, and cannot be ended by us
        return True
    return True


def _processes() -> dict[int, tuple[int, int]]:
    """Give the parent and the session of every process that lives; nothing where there is no /proc."""
    table: dict[int, tuple[int, int]] = {}
    if sys.platform != "linux":
        return table
    for name in os.listdir("/proc"):  # noqa: PTH208 - pathlib would cost more than all the rest
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                state, parent, _, session = file.read().rpartition(b") ")[2].split(None, 4)[:4]
        except (OSError, ValueError):  # it has ended just now
            continue
        table[int(name)] = (int(parent), int(session) if state not in (b"Z", b"X") else 0)
    return table


def _descendants(table: dict[int, tuple[int, int]], of: int) -> set[int]:
    """Find who lives and came of *of*; the dead that nobody has waited for are passed through."""
    children: dict[int, list[int]] = {}
    for pid, (parent, _) in table.items():
        children.setdefault(parent, []).append(pid)
    found: set[int] = set()
    pending = [of]
    while pending:
        following = children.get(pending.pop(), [])
        pending += following
        found.update(pid for pid in following if table[pid][1])
    return found


def main() -> None:
    """Lead the command that is told of on the descriptor of the first argument; the second is our parent."""
    Warden(int(sys.argv[1]), int(sys.argv[2])).run()
