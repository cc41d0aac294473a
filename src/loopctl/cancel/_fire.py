"""Firing: mark the whole tree, wake its waiters, run its callbacks, in this order.

Invariants:

1. The whole tree is marked before anything is woken, and everything is woken before a callback runs. So no callback
   sees a half-cancelled tree, and a slow one delays no waiter.
2. Losers help: a cancel that changed nothing still marks, wakes and tells. So when any `cancel` returns, the tree is
   marked and its waiters are woken, also if an earlier cancel was torn in the middle by a `KeyboardInterrupt` or its
   thread is not running just now.
3. In one thread, a latch's callbacks are run by one activation. A cancel from inside such a callback, or from a signal
   handler that interrupts it, leaves the rest to that activation: neither the stack nor the work grows with the number
   of callbacks that cancel again. An activation that was torn is gone, and with it its claim: it is known by a weak
   reference only.
"""

from __future__ import annotations

import threading
import time
import weakref

from loopctl.cancel._latch import Cause, Latch
from loopctl.cancel._links import detach, inherit, kids_of, unlink
from loopctl.cancel._post import Post
from loopctl.cancel._registration import Callback
from loopctl.record import CancelReason

__all__ = ["fire", "seal_latch"]


def fire(latch: Latch, reason: CancelReason, level: int) -> bool:
    """Cancel *latch* and all below it; True if that fired it or raised its urgency."""
    cause = Cause(reason, time.monotonic(), level)
    known = len(latch._later)
    changed = latch._claim(cause)
    if not changed and len(latch._later) == known and _is_telling(latch):
        return False  # this thread has marked and woken the tree, and there is no news for it
    # A seal that came after this call's own claim leaves the callbacks to it.
    if changed or not latch._is_sealed():
        tree = _mark(latch, cause)
        _wake(tree)
        _tell(tree)
    return changed


def seal_latch(latch: Latch) -> bool:
    """Close *latch* for every later cause; True if it had not fired, and then never will.

    If it had, whoever fired it may not have come further than that: the marks and the wake-ups are made good here, so
    that the caller can rely on the reason being there. The callbacks stay with whoever fired it.
    """
    unfired = latch._seal()
    latch._publish()
    if latch._kids or latch._entries:
        tree = _mark(latch, None)
        _wake(tree)
        for entry in list(latch._entries.values()):
            if not entry._is_due():
                entry._give_up()
    unlink(latch)
    return unfired


def _mark(top: Latch, news: Cause | None) -> list[Latch]:
    """Bring all below *top* to its state; give the tree, *top* first."""
    top._publish()
    tree = {top._key: top}
    queue = [top]
    for latch in queue:  # grows while it is walked
        causes = latch._causes() if news is None else [*latch._causes(), news]
        for kid in kids_of(latch):
            if kid._is_sealed():
                continue
            has_risen = inherit(kid, causes)
            if has_risen or kid._key not in tree:
                tree[kid._key] = kid
                queue.append(kid)
    return list(tree.values())


def _wake(tree: list[Latch]) -> None:
    """Wake every waiter whose level is reached: one call for each loop, one lock for each thread."""
    post = Post()
    due = [entry for latch in tree for entry in list(latch._entries.values()) if entry._is_due()]
    told = [entry for entry in due if entry._wake(post)]
    post.deliver()
    for entry in told:
        detach(entry)


class _Activation:
    """One call of `_tell`: alive as long as its frame, and known to its thread by a weak reference only."""

    __slots__ = ("__weakref__", "keys", "outer")

    def __init__(self, tree: list[Latch], outer: _Activation | None) -> None:
        self.outer = outer
        self.keys = frozenset(latch._key for latch in tree)


_activations: dict[int, weakref.ref[_Activation]] = {}
"""Thread id -> the innermost activation of that thread."""


def _innermost() -> _Activation | None:
    ref = _activations.get(threading.get_ident())
    return ref() if ref is not None else None


def _is_telling(latch: Latch) -> bool:
    """Is an activation further down this thread's stack telling *latch*?"""
    activation = _innermost()
    while activation is not None:
        if latch._key in activation.keys:
            return True
        activation = activation.outer
    return False


def _tell(tree: list[Latch]) -> None:
    """Run every callback whose level is reached, the newest first; raise the first error that is not to be logged."""
    if not any(_due_callbacks([latch]) for latch in tree if latch._entries):
        return
    mine = [latch for latch in tree if (latch._entries or latch is tree[0]) and not _is_telling(latch)]
    outer, thread = _innermost(), threading.get_ident()
    activation = _Activation(mine, outer)
    failures: list[BaseException] = []
    _activations[thread] = weakref.ref(activation)
    try:
        while due := _due_callbacks(mine):
            _tell_each(due, failures)
        if failures:
            raise failures[0]
    finally:
        failures.clear()  # their tracebacks refer to this frame
        if outer is None:
            _activations.pop(thread, None)
        else:
            _activations[thread] = weakref.ref(outer)


def _tell_each(due: list[Callback], failures: list[BaseException]) -> None:
    for callback in due:
        try:
            callback._tell()
        except BaseException as error:  # noqa: ASYNC103 - the first of them is raised when all were told
            failures.append(error)


def _due_callbacks(latches: list[Latch]) -> list[Callback]:
    """Give the callbacks that nobody has taken yet, the newest first."""
    due = [
        entry
        for latch in latches
        for entry in list(latch._entries.values())
        if isinstance(entry, Callback) and entry._box and entry._is_due()
    ]
    return sorted(due, key=lambda entry: entry._key, reverse=True)
