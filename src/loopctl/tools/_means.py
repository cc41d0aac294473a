"""What a call acts by: the engine's side of a context, which is no business of the tool."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from loopctl.cancel import CancelToken
from loopctl.tools._commands import Commands
from loopctl.tools._ledger import EffectLedger
from loopctl.tools._temp import TemporaryFolder

__all__ = ["Means"]


@dataclass(slots=True)
class Means:
    """What one context acts by."""

    acting: CancelToken
    """Ends the waits of the call: its own token, or another one if it may finish after a cancel."""
    report: Callable[[str, float | None], None]
    """Told of progress, in the tool's thread."""
    commands: Commands
    ledger: EffectLedger | None
    folder: TemporaryFolder = field(default_factory=TemporaryFolder)
    is_over: bool = False
    """True once nothing may be done in the name of the call any more."""
