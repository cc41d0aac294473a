"""The signal: cancelled once, from anywhere, and seen everywhere. `CancelSignal` cancels, `CancelToken` is asked."""

from loopctl.cancel._engine import fired_at, fired_from, later_causes, levels, seal, watch
from loopctl.cancel._latch import new_key
from loopctl.cancel._registration import Registration
from loopctl.cancel._signal import CancelSignal, CancelToken, token_of
from loopctl.cancel._timer import deadlines

__all__ = [
    "CancelSignal",
    "CancelToken",
    "Registration",
    "deadlines",
    "fired_at",
    "fired_from",
    "later_causes",
    "levels",
    "new_key",
    "seal",
    "token_of",
    "watch",
]
