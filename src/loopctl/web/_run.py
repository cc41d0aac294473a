"""One run of a client: its log, the streams that read it, the questions it asks, and what becomes of it without them.

Rules:

1. The run is read by one reader of ours, which never waits for a client; a client's slowness is its own.
2. Streams are counted. Under `cancel` the going away of the last one, before the run has ended, cancels the run with
   the origin `disconnect`; under `detach` nothing follows. A stream that was ended because it fell behind has not gone.
3. A question is answered once; one that nobody asks any more takes no answer.
"""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal, TypeAlias

from loopctl.concurrency import epoch, spawn
from loopctl.driver import RunHandle
from loopctl.messages import ToolCall
from loopctl.record import CancelReason, Run, RunStatus, Urgency
from loopctl.streaming import Reader
from loopctl.tools import Approval, ToolContext
from loopctl.web._encode import Encoder
from loopctl.web._log import RunLog

__all__ = ["CURRENT", "Policy", "RunNames", "WebRun", "approve"]

Policy: TypeAlias = Literal["cancel", "detach"]
"""What becomes of a run when the last stream of it has gone."""

CURRENT: ContextVar[WebRun] = ContextVar("loopctl_web_run")
"""The run that the current task is a part of."""


@dataclass(frozen=True, slots=True)
class RunNames:
    """Whose run it is, and what the client calls it and its conversation."""

    owner: str
    """Empty if there are no owners."""
    thread_id: str
    run_id: str


class WebRun:
    """A run that was begun here."""

    def __init__(self, names: RunNames, policy: Policy, input: str, most_events: int) -> None:
        """Prepare; `begin` follows in the same turn of the loop."""
        self.names = names
        self.policy: Policy = policy
        self.input = input
        self.started_at: float = epoch()
        self.run: Run | None = None
        """The record, once it has ended and everything of it stands in the log."""
        self.log: RunLog = RunLog(most_events)
        self.questions: dict[str, asyncio.Future[bool]] = {}
        """What was asked, by the call's id; done once it was answered or withdrawn."""
        self._streams = 0

    def begin(self, handle: RunHandle) -> None:
        """Read *handle* to its end."""
        self.id: str = handle.id
        self._handle: RunHandle | None = handle
        loop = asyncio.get_running_loop()
        self.task: asyncio.Task[None] = spawn(self._read(aiter(handle)), loop, f"loopctl web {handle.id}")

    def cancel(self, reason: CancelReason, urgency: Urgency = Urgency.STOP) -> bool:
        """Cancel the run; False if that changes nothing."""
        return self._handle is not None and self._handle.cancel(reason, urgency=urgency)

    @property
    def status(self) -> RunStatus | None:
        """What it is doing; None once it has ended."""
        return None if self._handle is None else self._handle.status

    def join(self) -> None:
        """Count one more stream."""
        self._streams += 1

    def leave(self, reason: CancelReason | None) -> None:
        """Count one less; *reason* is why its client has gone, None if it has not."""
        self._streams -= 1
        if reason is not None and not self._streams and self.policy == "cancel":
            self.cancel(reason)

    async def ask(self, call: ToolCall) -> bool:
        """Wait until somebody has answered whether *call* may run.

        Cancellation:
            Withdraws the question.
        """
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.questions[call.id] = answer
        return await answer

    async def _read(self, reader: Reader) -> None:
        encoder = Encoder(self.names.thread_id, self.names.run_id)
        try:
            async for event in reader:
                for told in encoder.encode(event):
                    self.log.add(told)
        finally:
            assert self._handle is not None
            self.run = self._handle.run
            self._handle = None  # it holds the whole execution
            self.log.end()


async def approve(call: ToolCall, context: ToolContext) -> bool | Approval:
    """Ask the clients of the run whether *call* may run; give it to `Agent(approve=…)`.

    Cancellation:
        Withdraws the question.
    """
    del context
    live = CURRENT.get(None)
    if live is None:  # a run of the same agent that was not begun over HTTP
        return Approval.deny(f"{call.name} needs a person's approval, and there is nobody to ask. It was not run.")
    return await live.ask(call)
