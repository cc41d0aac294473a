"""Parents and children: who is marked with whom, and what keeps an observed child alive.

Invariants:

1. A parent holds a child weakly, a child holds its parents strongly. So a dropped, unobserved child vanishes at once,
   and its link with it.
2. An observed latch is pinned: each of its entries stands also in `_pins` of its roots (the ancestors that have no
   parents), which keeps it, and through its parents the whole chain up, alive. Nothing is counted: no count can race.
   A pinned entry stands in its latch's table too, so a torn call leaves nothing that the next cancel does not find.
3. Link, then look: a child is entered in its parent's table before the parent's state is read, and a cancel publishes
   before it lists that table. One of the two sees the other.
4. A sealed parent is no parent: its links are cut, and what hung below it is re-rooted.
"""

from __future__ import annotations

import functools
import operator
import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING

from loopctl.cancel._latch import Cause, Latch

if TYPE_CHECKING:
    from loopctl.cancel._registration import Registration

__all__ = ["attach", "detach", "inherit", "kids_of", "link", "unlink"]


def attach(entry: Registration) -> None:
    """Enter *entry* in its latch's table and in those that keep the latch alive.

    The caller looks at the latch's state afterwards: a cancel that came before sees nothing of the entry.
    """
    latch, key = entry._latch, entry._key
    latch._entries[key] = entry
    while True:
        roots = latch._roots
        for root in roots:
            root._pins[key] = entry
        if latch._roots is roots:
            return
        for root in roots:
            root._pins.pop(key, None)


def detach(entry: Registration) -> None:
    """Take *entry* out of every table; does nothing the second time."""
    latch, key = entry._latch, entry._key
    for root in latch._roots:
        root._pins.pop(key, None)
    latch._entries.pop(key, None)


def kids_of(latch: Latch) -> list[Latch]:
    """Give the children of *latch* that are alive now."""
    return [kid for ref in list(latch._kids.values()) if (kid := ref()) is not None]


def link(kid: Latch, parents: tuple[Latch, ...]) -> None:
    """Make the new latch *kid* a child of *parents*, and bring it to their state.

    Of several parents that had fired already, the one that fired first gives the reason; of two that fired in the
    same instant of the clock, the one named first.
    """
    if len(parents) > 1:
        parents = tuple(dict.fromkeys(parents))
    kid._parents, key, has_news = parents, kid._key, False
    for parent in parents:
        # Only C code runs when the child dies: the ref is the default of `dict.pop`. It refers to the table, not to
        # the parent.
        kids = parent._kids
        kids[key] = weakref.ref(kid, functools.partial(kids.pop, key))
        if parent._claims:
            has_news = True
    if has_news:
        _catch_up(kid, parents)
    _take_roots(kid)


def _catch_up(kid: Latch, parents: tuple[Latch, ...]) -> None:
    """Bring a new child to the state of parents that are fired or sealed."""
    for parent in parents:
        if parent._is_sealed():
            _cut(kid, parent)
    fired = [(first.at, parent) for parent in parents if (first := parent._first()) is not None]
    for _, parent in sorted(fired, key=operator.itemgetter(0)):
        inherit(kid, parent._causes())


def inherit(kid: Latch, causes: Iterable[Cause]) -> bool:
    """Pass the *causes* of a parent, in order, on to *kid*; True if its urgency rose."""
    before = kid._reached.count(True)
    for cause in causes:
        kid._claim(cause)
    kid._publish()
    return kid._reached.count(True) > before


def unlink(latch: Latch) -> None:
    """Cut a sealed latch out of its tree: no parent reaches it or, through it, what hangs below it."""
    parents, latch._parents = latch._parents, ()
    for parent in parents:
        parent._kids.pop(latch._key, None)
    _take_roots(latch)
    queue = kids_of(latch)
    for kid in queue:
        _cut(kid, latch)
    for kid in queue:  # grows while it is walked
        if _take_roots(kid):
            queue.extend(kids_of(kid))


def _cut(kid: Latch, parent: Latch) -> None:
    kid._parents = tuple(other for other in kid._parents if other is not parent)
    parent._kids.pop(kid._key, None)


def _take_roots(latch: Latch) -> bool:
    """Set the roots of *latch* from its parents and move its pins there; True if they changed."""
    changed = False
    while (roots := _roots_above(latch)) != latch._roots:
        before, latch._roots = latch._roots, roots
        for entry in list(latch._entries.values()):
            _move_pin(entry, before, roots)
        changed = True
    return changed


def _move_pin(entry: Registration, before: tuple[Latch, ...], after: tuple[Latch, ...]) -> None:
    for root in after:
        root._pins[entry._key] = entry
    for root in before:
        if root not in after:
            root._pins.pop(entry._key, None)
    if entry._key not in entry._latch._entries:  # closed meanwhile
        for root in after:
            root._pins.pop(entry._key, None)


def _roots_above(latch: Latch) -> tuple[Latch, ...]:
    parents = latch._parents  # read once: a seal may cut them
    if len(parents) == 1:  # nearly always
        return parents[0]._roots or parents
    above = (root for parent in parents for root in (parent._roots or (parent,)))
    return tuple(dict.fromkeys(above))
