"""The store: what outlives a process, in one SQLite file: sessions, their runs, and the ledger of effects.

Rules: a fact is on disk before anything is built on it; what cannot be known is said to be unknown; a file of somebody
else is never touched.
"""

from loopctl.store._journal import Journal, Kept
from loopctl.store._ledger import Ledger
from loopctl.store._reader import Store
from loopctl.store._rows import Effect
from loopctl.store._stored import StoredCall, StoredOutcome, StoredRun, StoredSession

__all__ = [
    "Effect",
    "Journal",
    "Kept",
    "Ledger",
    "Store",
    "StoredCall",
    "StoredOutcome",
    "StoredRun",
    "StoredSession",
]
