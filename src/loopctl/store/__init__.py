"""The store: what outlives a process, in one SQLite file. Of it there is the ledger of effects.

Rules: a fact is on disk before anything is built on it; what cannot be known is said to be unknown; a file of somebody
else is never touched.
"""

from loopctl.store._ledger import Ledger
from loopctl.store._rows import Effect

__all__ = ["Effect", "Ledger"]
