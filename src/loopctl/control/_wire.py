"""What goes over a socket: one line of JSON to ask, one line of JSON to answer, and no more on a connection.

Rules: every line carries the version, which is looked at before the rest; a question that is not understood is
answered by an error, in words.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias, TypeVar

import msgspec

from loopctl.control._receipt import Receipt, ReceiptState
from loopctl.errors import LoopError
from loopctl.record import CancelReason, Outcome, RunStatus, Stop, Urgency

__all__ = [
    "ANSWER",
    "LONGEST_WAIT",
    "QUESTION",
    "Answer",
    "CancelRun",
    "ListRuns",
    "NotUnderstood",
    "Question",
    "Told",
    "decode",
    "encode",
]

_VERSION = 1
LONGEST_WAIT = 60.0
"""Seconds for which a run's end is waited for, at most."""

T = TypeVar("T")


class NotUnderstood(LoopError):
    """The other side said what the protocol does not have."""


class _Line(msgspec.Struct, kw_only=True, frozen=True):
    v: int = _VERSION


class ListRuns(_Line, kw_only=True, frozen=True, tag_field="do", tag="list"):
    """Which runs are there?"""


class CancelRun(_Line, kw_only=True, frozen=True, tag_field="do", tag="cancel"):
    """Cancel one run, and say what that did."""

    run_id: str
    reason: CancelReason
    urgency: Urgency = Urgency.STOP
    wait: Annotated[float, msgspec.Meta(ge=0)] | None = None


Question: TypeAlias = ListRuns | CancelRun


class Told(msgspec.Struct, kw_only=True, frozen=True):
    """A receipt as it is told."""

    run_id: str
    state: ReceiptState
    outcome: Outcome | None = None
    stop: Stop | None = None
    blocked_at: str = ""

    @classmethod
    def of(cls, receipt: Receipt) -> Told:
        """Tell *receipt*."""
        return cls(
            run_id=receipt.run_id,
            state=receipt.state,
            outcome=receipt.outcome,
            stop=receipt.stop,
            blocked_at=receipt.blocked_at,
        )

    def receipt(self) -> Receipt:
        """Give what was told."""
        return Receipt(self.run_id, self.state, self.outcome, self.stop, self.blocked_at)


class Answer(_Line, kw_only=True, frozen=True):
    """The runs, or a receipt, or why there is neither."""

    command: str = ""
    runs: tuple[RunStatus, ...] = ()
    receipt: Told | None = None
    error: str = ""


def encode(line: Question | Answer) -> bytes:
    """Give *line* as it goes over the socket."""
    return msgspec.json.encode(line) + b"\n"


QUESTION: msgspec.json.Decoder[Question] = msgspec.json.Decoder(Question)
ANSWER: msgspec.json.Decoder[Answer] = msgspec.json.Decoder(Answer)


def decode(line: bytes, kind: msgspec.json.Decoder[T]) -> T:
    """Read one line that is a *kind*.

    Raises:
        NotUnderstood: It is none, or of another version.
    """
    try:
        version = msgspec.json.decode(line, type=_Line).v
        if version == _VERSION:
            return kind.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, LoopError) as error:
        raise NotUnderstood(f"not understood: {error}") from error
    raise NotUnderstood(f"version {version} is not spoken here, but {_VERSION}")
