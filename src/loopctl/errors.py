"""Every exception that loopctl raises, in one tree.

```text
LoopError(.run)
├── UsageError             you called it wrong: your code changes, nothing is retried
│   ├── SessionBusy          a run is active in this session
│   ├── SessionClosed        the session was closed
│   ├── UnknownModel         a model name that nothing answers to
│   ├── MissingExtra         an optional part is not installed: says which command installs it
│   └── IllegalTransition    a driver fed the brain an input that its phase cannot take
├── Cancelled(.reason, .checkpoint)     the run or the wait was stopped on request
├── MaxTurnsExceeded       the model still wanted to go on at the last allowed turn
├── ModelError(.status, .retryable, .retry_after)     the model's side failed
│   └── FallbackExhausted    every model of the chain failed
├── MiddlewareError        a middleware around a model request failed, or said no by raising
├── ToolError              a tool's side failed; its text is given to the model
├── EffectUnknown          a crash or a stop left a side effect neither known to be done nor not done
└── StoreError             the record could not be written or read
```

Rule: `Cancelled` is an ordinary exception. It is never `asyncio.CancelledError`, which always means that
somebody cancelled a *task* and always travels on to that task's owner.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from loopctl.record import CancelReason, Checkpoint, Run

__all__ = [
    "Cancelled",
    "EffectUnknown",
    "FallbackExhausted",
    "IllegalTransition",
    "LoopError",
    "MaxTurnsExceeded",
    "MiddlewareError",
    "MissingExtra",
    "ModelError",
    "SessionBusy",
    "SessionClosed",
    "StoreError",
    "ToolError",
    "UnknownModel",
    "UsageError",
]


class LoopError(Exception):
    """The root of the tree.

    Raised itself only for a part of the public API that this version does not have yet, and as the error of a run that
    a fault in loopctl tore.
    """

    run: Run | None = None
    """The record of the run that ended with this error; None if there was no run."""


class UsageError(LoopError):
    """The caller asked for something that cannot be."""


class SessionBusy(UsageError):
    """A session does one run at a time, and one is active."""


class SessionClosed(UsageError):
    """The session was closed and takes no more runs."""


class UnknownModel(UsageError):
    """A model name that no installed provider answers to."""


class MissingExtra(UsageError):
    """An optional dependency is not installed."""

    @classmethod
    def of(cls, what: str, extra: str) -> MissingExtra:
        """Say that *what* needs the extra *extra*, and how to install it."""
        return cls(f"{what} needs an extra that is not installed. Run: pip install 'loopctl-py[{extra}]'")


class IllegalTransition(UsageError):
    """A driver fed the brain an input that is impossible in its phase: a bug in that driver."""


class Cancelled(LoopError):
    """The work was stopped because its signal fired.

    Source: an exception and not an `asyncio.CancelledError`, so that a stop asked for through a signal and a
    stop of the caller's own task can always be told apart.
    """

    reason: CancelReason
    """Who stopped it, and why: the first cause."""
    checkpoint: Checkpoint | None
    """The wait or poll that noticed it; None outside of a run."""

    def __init__(self, reason: CancelReason, checkpoint: Checkpoint | None = None) -> None:
        """Keep *reason* and *checkpoint*; the text is made from them."""
        super().__init__(reason, checkpoint)
        self.reason = reason
        self.checkpoint = checkpoint

    def __str__(self) -> str:
        """Say who stopped it, why, and where it was noticed."""
        where = f" at {self.checkpoint.name}" if self.checkpoint is not None else ""
        return f"cancelled{where}: {self.reason}"


class MaxTurnsExceeded(LoopError):
    """The model still asked for tools in the last turn that `RunConfig.max_turns` allows."""


class ModelError(LoopError):
    """A model request failed: the server said no, answered nonsense, or could not be reached."""

    status: int | None
    """The HTTP status, or None if there was no answer to have one."""
    retryable: bool
    """True if the same request may succeed later."""
    retry_after: float | None
    """Seconds the server asked to wait, or None if it did not say."""

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        retryable: bool = False,
        retry_after: float | None = None,
    ) -> None:
        """Describe the failure in *message*, naming the model, its state and the next move."""
        super().__init__(message)
        self.status = status
        self.retryable = retryable
        self.retry_after = retry_after


class FallbackExhausted(ModelError):
    """Every model of the fallback chain failed."""


class MiddlewareError(LoopError):
    """A middleware around a model request failed, or said no by raising; the cause is what it raised."""


class ToolError(LoopError):
    """A tool failed. Raise it in a tool to choose the text that the model is given."""


class EffectUnknown(LoopError):
    """A side effect may or may not have happened, and nobody has said which."""


class StoreError(LoopError):
    """The store could not be read or written."""
