"""What `Session.start` gives: the one thing that a caller holds of a run that is going on."""

from __future__ import annotations

from collections.abc import Callable, Generator
from types import TracebackType
from typing import Any, Self

from loopctl.driver._execution import Execution
from loopctl.record import CancelReason, Run, RunStatus, Urgency
from loopctl.streaming import Reader

__all__ = ["RunHandle"]


class RunHandle:
    """A run that was started: cancel it, read its events, await its end.

    `await handle` gives the `Run`, whatever its ending. `async for event in handle` reads from then on; each such loop
    is a reader of its own, and a slow one holds the run back. Leaving the last loop early cancels the run, and so
    does leaving `async with handle` early. A handle that nobody reads may be dropped: the run goes on.
    """

    __slots__ = ("_execution",)

    def __init__(self, execution: Execution) -> None:
        """Hold *execution*; made by `Session.start`."""
        self._execution = execution

    @property
    def id(self) -> str:
        """The run's id."""
        return self._execution.id

    @property
    def run(self) -> Run | None:
        """The record, once the run has ended; None before."""
        return self._execution.run

    @property
    def status(self) -> RunStatus:
        """What the run is doing now, or did last. May be asked from any thread."""
        return self._execution.status()

    @property
    def is_stopping(self) -> bool:
        """True from the cancel of this run on, however it came."""
        return self._execution.token.is_cancelled()

    @property
    def late_events(self) -> int:
        """How many events came too late and were dropped: work that was abandoned goes on talking."""
        return self._execution.fanout.late

    def cancel(self, reason: CancelReason | str | None = None, *, urgency: Urgency = Urgency.STOP) -> bool:
        """Cancel this run and nothing else.

        Args:
            reason: Why; None and a text mean that the user asked.
            urgency: How hard.

        Returns:
            True if it changed something; False after the end, or if it was cancelled as urgently before. May be
            called from any thread and from a signal handler.
        """
        return self._execution.cancel(reason, urgency)

    def on_end(self, listener: Callable[[Run], object]) -> None:
        """Have *listener* called, once, with the record when the run has ended; at once if it has.

        It neither reads nor holds back the run, as awaiting the handle would. It is called on the run's own loop, when
        its session is idle again, or in this call; what `Exception` it raises is logged. May be called from any thread.
        """
        self._execution.on_end(listener)

    def __aiter__(self) -> Reader:
        """Make a new reader of the events from now on."""
        return self._execution.fanout.open()

    def __await__(self) -> Generator[Any, None, Run]:
        """Wait for the end and give the run.

        Cancellation:
            If the awaiting task is cancelled the run is cancelled with the origin `caller`; when it has ended
            `asyncio.CancelledError` goes on. A second cancellation meanwhile takes the grace away.
        """
        return self._execution.wait().__await__()

    async def aclose(self) -> None:
        """Cancel the run if it has not ended, with the origin `caller`, and wait for its end.

        Cancellation:
            As of `await handle`.
        """
        self._execution.cancel(CancelReason("caller", "the handle of the run was closed"))
        await self._execution.wait()

    async def __aenter__(self) -> Self:
        """Enter a block that the run does not outlive.

        Cancellation:
            Never suspends.
        """
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Leave it: cancel the run if it has not ended, and wait for its end.

        Cancellation:
            As of `await handle`.
        """
        await self.aclose()

    def __repr__(self) -> str:
        """Give the id and the state."""
        run = self._execution.run
        return f"<RunHandle {self.id} {'running' if run is None else run.outcome}>"
