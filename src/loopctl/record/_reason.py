"""Why something was cancelled, and how urgently."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Literal, TypeAlias, get_args

from loopctl.errors import UsageError

__all__ = ["CancelReason", "Origin", "Urgency"]

Origin: TypeAlias = Literal[
    "user", "deadline", "stall", "budget", "disconnect", "shutdown", "observer", "caller", "parent"
]
"""Who or what asked for the stop. `caller` is the code around the run (its task was cancelled, its reader went away);
`parent` is only a nested run stopped because its parent ended."""

_ORIGINS = frozenset(get_args(Origin))


@dataclass(frozen=True, slots=True)
class CancelReason:
    """The cause of a cancel. It travels unchanged to the outcome, the events, the tools, the children and the logs."""

    origin: Origin = "user"
    message: str = ""
    """Free text for people; nothing is ever decided by it."""
    requested_by: str = ""
    """Who asked, if that is known: a user name, a client address, a component."""

    def __post_init__(self) -> None:
        """Refuse an origin that nobody could count.

        Raises:
            UsageError: *origin* is none of `Origin`.
        """
        if self.origin not in _ORIGINS:
            raise UsageError(f"unknown cancel origin {self.origin!r}: one of {', '.join(sorted(_ORIGINS))}")

    @classmethod
    def of(cls, value: CancelReason | str | None) -> CancelReason:
        """Give *value* as a reason: None and a text mean that the user asked.

        Raises:
            UsageError: *value* is of another type.
        """
        if isinstance(value, CancelReason):
            return value
        if value is None:
            return _BY_USER
        if isinstance(value, str):
            return cls(message=value)
        raise UsageError(f"a cancel reason is a CancelReason, a text or None, not {type(value).__name__}")

    def __str__(self) -> str:
        """Give the origin, the message and who asked, as far as known."""
        text = f"{self.origin}: {self.message}" if self.message else self.origin
        return f"{text} (by {self.requested_by})" if self.requested_by else text

    def to_json(self) -> dict[str, Any]:
        """The reason as a JSON object."""
        return {"origin": self.origin, "message": self.message, "requested_by": self.requested_by}


_BY_USER = CancelReason()


class Urgency(IntEnum):
    """How hard a cancel presses. It only rises; a second, stronger cancel acts."""

    DRAIN = 1
    """Finish what is in flight, start nothing more."""
    STOP = 2
    """Interrupt what is in flight and give it the grace to unwind."""
    ABANDON = 3
    """Interrupt what is in flight and do not wait for it."""
