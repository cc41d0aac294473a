"""The signal: cancelled once, from anywhere, and seen everywhere. `CancelSignal` cancels, `CancelToken` is asked."""

from loopctl.cancel._engine import fired_at, later_causes, levels, seal, watch
from loopctl.cancel._registration import Registration
from loopctl.cancel._signal import CancelSignal, CancelToken, token_of

__all__ = [
    "CancelSignal",
    "CancelToken",
    "Registration",
    "fired_at",
    "later_causes",
    "levels",
    "seal",
    "token_of",
    "watch",
]
