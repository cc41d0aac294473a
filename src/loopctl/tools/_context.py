"""What a running tool knows of its call, and how it learns of a cancel.

Invariants: a tool can read the cancel and never cause one (it holds the token); everything but `sleep` and `cancelled`
may be used from the thread of a plain function.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Any, Literal, Unpack, overload

from loopctl.cancel import CancelToken
from loopctl.concurrency import sleep
from loopctl.errors import UsageError
from loopctl.record import CancelReason, Urgency
from loopctl.tools._atomic import TextForm, replacing
from loopctl.tools._commands import Commands, ProcessOptions, ProcessResult
from loopctl.tools._ledger import EffectLedger
from loopctl.tools._means import Means

__all__ = ["ToolContext", "means_of"]


def _report_nowhere(message: str, fraction: float | None) -> None:
    """Drop the progress of a tool that runs outside of the engine."""


class ToolContext:
    """One tool call, as the tool sees it.

    Annotate a parameter with this class and the engine fills it; the model never sees that parameter.
    """

    __slots__ = (
        "_means",
        "call_id",
        "idempotency_key",
        "signal",
        "tool_name",
    )

    call_id: str
    """The id of the call in the conversation."""
    tool_name: str
    """The name the model called."""
    signal: CancelToken
    """The read side of the cancel: to poll, to await, to wait on in a thread, to call back."""
    idempotency_key: str
    """The same for every attempt of one call, and for no other call: give it to a service that deduplicates."""

    def __init__(  # noqa: PLR0913 - what the engine gives, by name
        self,
        call_id: str,
        tool_name: str,
        token: CancelToken,
        idempotency_key: str = "",
        report: Callable[[str, float | None], None] = _report_nowhere,
        *,
        ledger: EffectLedger | None = None,
        commands: Commands | None = None,
    ) -> None:
        """Describe a call. The engine does this; a test of a tool may, with the token of a `CancelSignal` of its own.

        Args:
            call_id: The id of the call in the conversation.
            tool_name: The name the model called.
            token: Fires when the call is to stop.
            idempotency_key: The same for every attempt of the call.
            report: Told of progress: a message, and a fraction from 0 to 1 or None. Called in the tool's thread.
            ledger: What `once` writes to, mostly a `loopctl.store.Ledger`; None leaves it without one.
            commands: How `run_process` runs them.
        """
        self.call_id = call_id
        self.tool_name = tool_name
        self.signal = token
        self.idempotency_key = idempotency_key
        self._means = Means(token, report, Commands() if commands is None else commands, ledger)

    def is_cancelled(self) -> bool:
        """Poll: has the call been asked to stop? Cheap, and right in any thread."""
        return self.signal.is_cancelled()

    @property
    def reason(self) -> CancelReason | None:
        """Who asked the call to stop, and why: the first cause. None while nobody has."""
        return self.signal.reason

    async def cancelled(self) -> CancelReason:
        """Wait until the call is asked to stop.

        Returns:
            The reason.

        Cancellation:
            Ends by the cancel, at once if it has come already; leaves nothing behind when its task is cancelled. The
            engine cancels the task of an `async def` tool too, so await this beside the work, in a task of its own.
        """
        return await self.signal.notified()

    async def sleep(self, seconds: float) -> None:
        """Sleep, and wake up if the call is asked to stop (one with `on_cancel="finish"`: if it is abandoned).

        Args:
            seconds: How long.

        Raises:
            Cancelled: The call was asked to stop, before or during the sleep.

        Cancellation:
            A checkpoint: raises at once if the cancel has come already. Nothing is left behind.
        """
        await sleep(seconds, self._means.acting)

    def progress(self, message: str = "", fraction: float | None = None) -> None:
        """Say how far the call has come; it is shown, and it counts as a sign of life.

        Args:
            message: What is being done, for a person to read.
            fraction: The part that is done, from 0 to 1; None if it is not known. A value outside is brought inside,
                because a progress bar is no reason to fail.

        Raises:
            UsageError: *message* is not a text or *fraction* not a number.
        """
        for value, kind in ((message, str), (fraction, int | float | None)):
            if not isinstance(value, kind):
                raise UsageError(f"progress takes a text and a number, not {value!r}")
        if fraction is not None:
            fraction = None if math.isnan(fraction) else min(1.0, max(0.0, float(fraction)))
        self._means.report(message, fraction)

    @overload
    def atomic_write(
        self,
        path: str | os.PathLike[str],
        mode: Literal["w"] = "w",
        *,
        encoding: str = "utf-8",
        newline: str | None = None,
        dir_fd: int | None = None,
    ) -> AbstractContextManager[IO[str]]: ...
    @overload
    def atomic_write(
        self, path: str | os.PathLike[str], mode: Literal["wb"], *, dir_fd: int | None = None
    ) -> AbstractContextManager[IO[bytes]]: ...
    def atomic_write(
        self,
        path: str | os.PathLike[str],
        mode: Literal["w", "wb"] = "w",
        *,
        encoding: str = "utf-8",
        newline: str | None = None,
        dir_fd: int | None = None,
    ) -> AbstractContextManager[IO[Any]]:
        """Write a file whole or not at all: `with ctx.atomic_write(path) as file`.

        When the block is left, what was written takes the place of the file, on disk; if it is left by an exception, a
        cancel, or never (the process was killed), the file is as it was. Owner and permissions stay. After the end of
        the call nothing is replaced any more: an abandoned call that comes to the end of its block gets an error.

        Args:
            path: The file. A link is followed, and stays.
            mode: `w` for text, `wb` for bytes.
            encoding: Of text.
            newline: As for `open`.
            dir_fd: An open folder, in which *path* is one name; then no link is followed, so that nothing can lead the
                write elsewhere. Keep it open until the block is left.

        Returns:
            To be used in `with` or not at all; it gives the file to write.

        Raises:
            Cancelled: The call was asked to stop before the block, or has ended before its end. Raised by the `with`.
            UsageError: *path* is not a regular file, or *mode* another one. Raised by the `with`.
            OSError: It cannot be written.
        """
        self._check_open(Urgency.STOP)
        form = TextForm() if mode == "wb" else TextForm(encoding, newline)
        return replacing(path, mode, form, self._check_open, dir_fd)

    def once(self, key: str, function: Callable[[], Any]) -> Any:
        """Do something at most once, over crashes too.

        The first caller that comes through calls *function*; it and every later one, in any run and any process that
        uses the same store, get what the ledger recorded. While another call does it, this one waits.

        Args:
            key: What is done, in words that are the same each time: `"charge invoice 17"`. Global to the store.
            function: Does it. Its result is kept as JSON. An exception means that it was not done, so that the next
                call does it; but a `TimeoutError`, an `EffectUnknown`, and whatever it raises after a cancel, leave
                that open.

        Returns:
            The recorded result; an awaitable for it if *function* is a coroutine function.

        Raises:
            EffectUnknown: It was begun and never recorded as done: a person has to find out, and to say so by
                `loopctl.store.Ledger.resolve`.
            Cancelled: The call was asked to stop before *function* was called.
            UsageError: There is no ledger (`agent.session(store=path)` gives one), or the result has no JSON form.
            StoreError: The store cannot be used.
        """
        ledger = self._means.ledger
        if ledger is None:
            raise UsageError(
                f"once({key!r}) needs a ledger, and this session has none: make it with agent.session(store=path)"
            )
        self._check_open(Urgency.STOP)
        by = f"{self.tool_name} ({self.call_id})"
        return ledger.once(key, function, token=self._means.acting, by=by, check_open=self._check_open)

    async def run_process(
        self, argv: Sequence[str | os.PathLike[str]], **options: Unpack[ProcessOptions]
    ) -> ProcessResult:
        """Run a program that ends with the call, and everything that comes of it.

        It has a session and a process group of its own, no terminal, and nothing of ours but its environment and its
        folder. When it has ended, what it left running in its session gets a moment, then TERM, then KILL. When this
        process dies, by whatever death, so does all of it.

        Args:
            argv: The program and its arguments. For a line of shell: `["sh", "-c", line]`.
            **options: See `ProcessOptions`.

        Returns:
            How it ended, and what it wrote.

        Raises:
            Cancelled: The call was asked to stop.
            OSError: It cannot be started: `FileNotFoundError`, `PermissionError`, …
            TimeoutError: It did not end within `timeout`.
            ToolError: It ended with another code than 0, and `check` was asked for.
            UsageError: The arguments or an option cannot be, or the call has ended.

        Cancellation:
            The checkpoint `TOOL_CALL`. Not started if the cancel has come already. Else its whole group gets TERM at
            once and KILL at 80 % of the grace (at once under `Urgency.ABANDON`), and is reaped; no pipe is waited for.
            What has left its session is not killed: it becomes a straggler of the run, as does what cannot be killed.
        """
        self._check_open()
        return await self._means.commands.run(argv, self._means.acting, options)

    @property
    def temp_dir(self) -> Path:
        """A folder of this call, made when it is first asked for, removed when the work has ended, however it ends.

        Raises:
            Cancelled: The call has ended, and was asked to stop.
            UsageError: The call has ended.
        """
        self._check_open()
        return self._means.folder.path

    def _check_open(self, stops_from: Urgency | None = None) -> None:
        """Raise if the call is over, or was asked to stop as strongly as *stops_from*."""
        if stops_from is not None:
            self._means.acting.raise_if_cancelled(stops_from)
        if self._means.is_over:
            self.signal.raise_if_cancelled()
            raise UsageError(f"the call {self.call_id} of {self.tool_name} has ended: nothing more is done in its name")

    def __repr__(self) -> str:
        """Name the tool and the call."""
        return f"<ToolContext {self.tool_name} {self.call_id}>"


def means_of(context: ToolContext) -> Means:
    """Give the engine's side of *context*."""
    return context._means
