"""Where the sockets of this user's processes are: a folder that nobody else can enter.

Rules: the folder is the user's own, of mode 0700 and no link, and it is checked by the descriptor that is then used, so
that nobody can change it for another in between; a socket gets its name when it already listens, so that one which
refuses to connect is dead.
"""

from __future__ import annotations

import os
import secrets
import socket
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from loopctl.errors import UsageError

__all__ = ["BACKLOG", "Folder", "entering", "folders", "peer_of", "pid_in"]

_OVERRIDE = "LOOPCTL_CONTROL_DIR"
_SUFFIX = ".sock"
BACKLOG = 1024
"""More than anybody asks at once: on a Unix socket a connection beyond it is not queued but refused."""
_DESCRIPTORS = Path("/proc/self/fd")
"""Where the system has it: a path that is short enough for a socket, whatever the folder's own is."""
_CREDENTIALS = struct.Struct("3i")
"""`struct ucred`: a process, a user, a group."""


def folders() -> list[Path]:
    """Give the folders that sockets may be in; a new one is made in the first.

    There is more than one, because a shell may be without the variable that a service of the same user has.
    """
    override = os.environ.get(_OVERRIDE)
    if override:
        return [Path(override)]
    places = [Path("/tmp") / f"loopctl-{os.geteuid()}"]  # noqa: S108 - it is checked whose it is
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and Path(runtime).is_dir():
        places.insert(0, Path(runtime) / "loopctl")
    return places


class Folder:
    """A folder of sockets that is open, and was checked."""

    def __init__(self, path: Path, descriptor: int) -> None:
        """Use *descriptor*, which is that of *path*."""
        self.path = path
        self._descriptor = descriptor

    def names(self) -> list[str]:
        """The names of the sockets in it."""
        return sorted(name for name in os.listdir(self._descriptor) if name.endswith(_SUFFIX))  # noqa: PTH208 - it is a descriptor

    def address(self, name: str) -> str:
        """The path to bind or to connect to; good while the folder is open."""
        held = _DESCRIPTORS / str(self._descriptor)
        return str((held if held.exists() else self.path) / name)

    def listen(self) -> tuple[socket.socket, str]:
        """Make a socket of this process that listens; give it and its name.

        Raises:
            UsageError: It cannot be made.
        """
        name = f"{os.getpid()}-{secrets.token_hex(4)}"
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            made.bind(self.address(name))
            os.chmod(name, 0o600, dir_fd=self._descriptor)
            made.listen(BACKLOG)
            os.rename(name, name + _SUFFIX, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)
        except OSError as error:
            made.close()
            self.remove(name)
            raise _unusable(self.path, str(error.strerror or error)) from error
        return made, name + _SUFFIX

    def remove(self, name: str) -> None:
        """Take *name* out; nothing if it is gone."""
        with suppress(OSError):
            os.unlink(name, dir_fd=self._descriptor)


@contextmanager
def entering(path: Path, *, make: bool = False) -> Iterator[Folder]:
    """Open the folder *path* for the block; *make* it if it is not there.

    Raises:
        FileNotFoundError: It is not there.
        UsageError: It cannot be used, or cannot be trusted; the text says why and what to do.
    """
    try:
        if make:
            path.mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as error:
        if not make and isinstance(error, FileNotFoundError):
            raise
        raise _unusable(path, str(error.strerror)) from error
    try:
        _check(path, os.fstat(descriptor))
        yield Folder(path, descriptor)
    finally:
        os.close(descriptor)


def _check(path: Path, found: os.stat_result) -> None:
    if found.st_uid != os.geteuid():
        raise _unusable(path, f"it is of the user {found.st_uid}")
    if stat.S_IMODE(found.st_mode) & 0o077:
        raise _unusable(path, f"others can enter it (mode {stat.S_IMODE(found.st_mode):o}, it must be 700)")


def _unusable(path: Path, why: str) -> UsageError:
    return UsageError(f"{path} cannot hold the sockets of processes: {why}. {_OVERRIDE} names another folder")


def pid_in(name: str) -> int:
    """Give the process that the socket *name* is of; 0 if the name does not say."""
    pid = name.partition("-")[0]
    return int(pid) if pid.isascii() and pid.isdigit() else 0


def peer_of(connected: socket.socket) -> tuple[int, int] | None:
    """Give the process and the user at the other end; None where the system does not say: the folder keeps others out.

    Source: unix(7), SO_PEERCRED.
    """
    option: int | None = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return None
    pid, uid, _ = _CREDENTIALS.unpack(connected.getsockopt(socket.SOL_SOCKET, option, _CREDENTIALS.size))
    return pid, uid
