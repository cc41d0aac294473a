"""One latch: what a single token knows, and the atomic steps by which it is claimed.

Invariants, on which the rest of this package rests:

1. Every change of shared state is one operation of a built-in dict or list on keys that are plain integers, so no
   Python code runs inside it. It is atomic under the interpreter lock, and a signal handler or a finalizer that
   interrupts *any* line finds a state from which it can go on. (`_parents` and `_roots` are rebound instead; they only
   say where pins belong, and are looked at again after they were used.)
2. `_claims` is write-once for each key (`setdefault`), so exactly one caller wins the firing, each rise of the urgency,
   and the seal. Key 0 holds the cause that fired (or `SEALED`), 2 and 3 the rises to STOP and ABANDON.
3. Claim first, publish afterwards, all levels up to the claimed one in one step. `_reached[level]` only ever goes from
   False to True, so whoever sees a level reached finds its cause, no reader sees the urgency fall, and none sees a STOP
   as a DRAIN on its way.
4. `_fired` is set before the levels: False means that nothing was reached (the poll's fast answer), True that it is
   worth a look.
5. No `Urgency` is ever a dict key: an enum member's hash is Python code, and it is not the hash of its integer.
6. A table is listed with `list(table)` or `list(table.values())` only. `items()` makes a tuple for each entry, which
   can start a collection, whose finalizers may change the table under the iteration.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from typing import TYPE_CHECKING, Final

from loopctl.errors import UsageError
from loopctl.record import CancelReason, Urgency

if TYPE_CHECKING:
    from loopctl.cancel._registration import Registration

__all__ = ["SEALED", "Cause", "Latch", "level_of", "new_key"]

MAX_LATER: Final = 32
"""How many later causes a latch keeps: enough for a report, and a bound for a button that is held down."""

_FIRST: Final = 0
_SEAL: Final = -1
_RISES: Final = (2, 3)

_keys = itertools.count(1)


def new_key() -> int:
    """Give a number that no other entry of any table has; later ones are greater."""
    return next(_keys)


def level_of(at_least: Urgency) -> int:
    """Give the level that *at_least* stands for, as a plain integer.

    Raises:
        UsageError: It is no urgency.
    """
    if type(at_least) is Urgency:
        return at_least.value
    try:
        return Urgency(at_least).value
    except ValueError:
        names = ", ".join(member.name for member in Urgency)
        raise UsageError(f"{at_least!r} is no urgency: use one of Urgency.{{{names}}}") from None


class Cause:
    """One call of `cancel`, told apart from all others by its identity, and never changed."""

    __slots__ = ("at", "level", "reason", "thread")

    def __init__(self, reason: CancelReason, at: float, level: int) -> None:
        """Keep the reason, the `time.monotonic()` of the call, and the urgency it asked for (0 only in `SEALED`)."""
        self.reason = reason
        self.at = at
        self.level = level
        self.thread: int = threading.get_ident()
        """The thread that called."""


SEALED: Final = Cause(CancelReason(), 0.0, 0)
"""Stands in `_claims` where no cause can come any more."""


class Latch:
    """The state of one token. It fires at most once, and then only its urgency can still rise."""

    __slots__ = (
        "__weakref__",
        "_claims",
        "_entries",
        "_fired",
        "_key",
        "_kids",
        "_later",
        "_parents",
        "_pins",
        "_reached",
        "_roots",
    )

    def __init__(self) -> None:
        """Make an unfired latch that has no parents."""
        self._fired = False
        self._reached = [False, False, False, False]
        self._claims: dict[int, Cause] = {}
        self._later: dict[tuple[str, str, str], CancelReason] = {}
        self._entries: dict[int, Registration] = {}
        """Everything that observes this latch."""
        self._pins: dict[int, Registration] = {}
        """What keeps observed descendants alive; only the roots of a tree have any."""
        self._kids: dict[int, weakref.ref[Latch]] = {}
        self._key = new_key()
        self._parents: tuple[Latch, ...] = ()
        self._roots: tuple[Latch, ...] = ()

    def _first(self) -> Cause | None:
        """Give the cause that fired this latch, once that is published."""
        return self._claims[_FIRST] if self._reached[1] else None

    def _level(self) -> int:
        """Give the claimed urgency as an integer: 0 if unfired, also before it is published."""
        claims = self._claims
        first = claims.get(_FIRST, SEALED).level
        if not first:
            return 0
        return max(first, *(claims.get(rise, SEALED).level for rise in _RISES))

    def _causes(self) -> list[Cause]:
        """Give the causes that made this latch what it is: the first, then the rises."""
        claims = self._claims
        return [cause for key in (_FIRST, *_RISES) if (cause := claims.get(key, SEALED)).level]

    def _claim(self, cause: Cause) -> bool:
        """Take *cause* as the first one or as a rise; True if it changed something.

        Asking again with the same cause changes nothing more, so that whoever helps need not know what was done.
        """
        first = self._claims.setdefault(_FIRST, cause)
        if first is cause:
            return True
        if self._is_sealed():
            return False
        self._note(cause, first)
        return cause.level > self._level() and self._claims.setdefault(cause.level, cause) is cause

    def _publish(self) -> None:
        """Make what was claimed visible to every reader."""
        level = self._level()
        if level:
            self._fired = True
            self._reached[1 : level + 1] = [True] * level

    def _seal(self) -> bool:
        """Close the latch for every later cause; True if it was unfired."""
        claims = self._claims
        unfired = claims.setdefault(_FIRST, SEALED) is SEALED
        for key in (_SEAL, *_RISES):
            claims.setdefault(key, SEALED)
        return unfired

    def _is_sealed(self) -> bool:
        claims = self._claims
        return bool(claims) and (_SEAL in claims or claims[_FIRST] is SEALED)

    def _note(self, cause: Cause, first: Cause) -> None:
        """Keep the reason of a cause that lost, once, up to the bound."""
        key = _fields(cause.reason)
        if key != _fields(first.reason) and len(self._later) < MAX_LATER:
            self._later.setdefault(key, cause.reason)


def _fields(reason: CancelReason) -> tuple[str, str, str]:
    """Give *reason* as a key that is hashed and compared without running Python code."""
    return (reason.origin, reason.message, reason.requested_by)
