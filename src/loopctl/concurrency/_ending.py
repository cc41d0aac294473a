"""How one piece of foreign work ended: two questions, kept apart.

*What stopped it* (nothing, the signal, a timeout, the host task's own cancellation) and *how it then ended*
(returned, raised, unwound, never started, still running). A cancel wins over everything, but what the work had
done is never denied: a value that came together with the cancel is here.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Literal

from loopctl.cancel import CancelToken
from loopctl.concurrency._drain import refuses_from
from loopctl.concurrency._straggler import Straggler
from loopctl.errors import Cancelled
from loopctl.record import CancelReason, Checkpoint

__all__ = ["Ending", "How", "StoppedBy", "describe", "poll", "quote", "stop_reason"]

How = Literal["returned", "raised", "unwound", "not_started", "abandoned", "left"]
"""`unwound`: left by a cancellation; `left`: somebody else's future, which goes on."""
StoppedBy = Literal["signal", "timeout", "host"]


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of one piece of work."""

    how: How
    value: Any = None
    """What it returned."""
    error: BaseException | None = None
    """What it raised, also a cancellation."""
    stopped_by: StoppedBy | None = None
    reason: CancelReason | None = None
    """Set if the signal stopped it."""
    at: Checkpoint | None = None
    """Where it was awaited."""
    straggler: Straggler | None = None
    """Set if it was abandoned."""
    host_error: asyncio.CancelledError | None = None
    """The host task was cancelled meanwhile: record what there is, then call `raise_if_stopped`."""

    def raise_if_stopped(self, at: Checkpoint | None = None) -> None:
        """Raise what ended the wait, if it was not the work itself.

        Args:
            at: The checkpoint to name, if it is another than where the work was awaited.

        Raises:
            asyncio.CancelledError: The host task was cancelled. This comes first: it belongs to the task's owner.
            Cancelled: The signal fired.
        """
        if self.host_error is not None:
            raise self.host_error
        if self.reason is not None:
            cause = self.error if isinstance(self.error, Exception) else None
            raise Cancelled(self.reason, at or self.at) from cause

    def unwrap(self) -> Any:
        """Give the value, or raise what ended the work.

        Raises:
            BaseException: What `raise_if_stopped` raises, or what the work raised.
        """
        self.raise_if_stopped()
        if self.error is not None:
            raise self.error
        return self.value


def stop_reason(token: CancelToken) -> CancelReason:
    """The reason of a token that has fired."""
    reason = token.reason
    return reason if reason is not None else CancelReason()


def poll(token: CancelToken, at: Checkpoint) -> None:
    """Look at *token*, at the checkpoint *at*, before something is begun.

    Raises:
        Cancelled: It has fired.
    """
    if token.is_cancelled(at_least=refuses_from(at)):
        raise Cancelled(stop_reason(token), at)


def describe(error: BaseException | None) -> str:
    """Give the name and the text of an error of foreign code, which may be unable to say anything."""
    name = type(error).__name__
    try:
        text = str(error)
    except Exception:  # its own __str__ runs here
        return name
    return f"{name}: {text}" if text else name


def quote(value: object) -> str:
    """Give the `repr` of a value of foreign code, or the name of its type if it has none."""
    try:
        return repr(value)
    except Exception:  # its own __repr__ runs here
        return type(value).__name__
