"""Whom `loopctl ps` and `loopctl cancel` ask: the processes of this user on this machine, or one server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

from loopctl.cli._options import Server
from loopctl.control import LiveProcess, Receipt, cancel, list_processes
from loopctl.errors import UsageError
from loopctl.record import CancelReason, Urgency

__all__ = ["Others", "asked", "read_token"]


class Others(Protocol):
    """Who can be asked; as of `loopctl.control`."""

    async def list_processes(self) -> list[LiveProcess]:
        """Give the processes with their runs."""

    async def cancel(self, run_id: str, reason: CancelReason, urgency: Urgency) -> Receipt:
        """Cancel a run."""


class _Here:
    async def list_processes(self) -> list[LiveProcess]:
        return await list_processes()

    async def cancel(self, run_id: str, reason: CancelReason, urgency: Urgency) -> Receipt:
        return await cancel(run_id, reason, urgency)


@asynccontextmanager
async def asked(server: Server | None) -> AsyncIterator[Others]:
    """Give *server*, or this machine.

    Raises:
        UsageError: *server* has no such URL, or its token cannot be read.

    Cancellation:
        Never suspends by itself.
    """
    if server is None:
        yield _Here()
        return
    from loopctl.cli._remote import remote  # an extra

    token = None if server.token_file is None else read_token(server.token_file)
    async with remote(server.url, token) as there:
        yield there


def read_token(path: str) -> str:
    """Read what `--token-file` names.

    Raises:
        UsageError: There is nothing to be read.
    """
    try:
        token = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise UsageError(f"--token-file {path} cannot be read: {error}") from error
    if not token:
        raise UsageError(f"--token-file {path} is empty: put a long random text into it")
    return token
