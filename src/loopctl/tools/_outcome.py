"""How a tool call ended, as the middleware around it sees and gives it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from loopctl.errors import UsageError
from loopctl.record import CallStatus

__all__ = ["ToolOutcome"]

_STATUSES = (CallStatus.COMPLETED, CallStatus.FAILED, CallStatus.DENIED)


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """The end of a call that was not stopped.

    Raises:
        UsageError: The status is none that a call can end in by itself, or the content is no text.
    """

    status: CallStatus
    """`COMPLETED`, `FAILED` or `DENIED`."""
    content: str
    """The text for the model."""
    value: Any = None
    """What the tool returned; for middleware, nobody else reads it."""
    error: BaseException | None = None
    """What the tool raised."""

    def __post_init__(self) -> None:
        """Check both."""
        if self.status not in _STATUSES:
            raise UsageError(f"ToolOutcome.status is completed, failed or denied, not {self.status!r}")
        if not isinstance(self.content, str):
            raise UsageError(f"ToolOutcome.content is the text for the model, not {type(self.content).__name__}")

    @classmethod
    def completed(cls, content: str, value: Any = None) -> ToolOutcome:
        """Give *content* to the model as the result."""
        return cls(CallStatus.COMPLETED, content, value)

    @classmethod
    def failed(cls, content: str, error: BaseException | None = None) -> ToolOutcome:
        """Give *content* to the model as an error; the recovery of tools sees it."""
        return cls(CallStatus.FAILED, content, None, error)

    @classmethod
    def denied(cls, content: str) -> ToolOutcome:
        """Say no, and *content* to the model."""
        return cls(CallStatus.DENIED, content)
