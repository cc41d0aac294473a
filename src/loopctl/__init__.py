"""loopctl: an agent-loop engine whose runs can be stopped at any instant, cleanly.

This is the public face, and nothing else: each name is looked up in the package that owns it when it is first used.

Rules:
1. Importing `loopctl` loads no event loop, reads nothing and prints nothing: `loopctl.brain` must be importable
   where asyncio is not welcome, and its parent is imported first.
2. At most 45 names. What only the writers of models, tools and tests need stays in `loopctl.model`,
   `loopctl.messages`, `loopctl.testing`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from loopctl.cancel import CancelSignal, CancelToken, Registration
    from loopctl.concurrency import race, run, scope, sleep
    from loopctl.driver import Agent, RunConfig, RunHandle, Session
    from loopctl.errors import (
        Cancelled,
        EffectUnknown,
        FallbackExhausted,
        LoopError,
        MaxTurnsExceeded,
        MissingExtra,
        ModelError,
        SessionBusy,
        SessionClosed,
        StoreError,
        ToolError,
        UnknownModel,
        UsageError,
    )
    from loopctl.record import (
        ApprovalEnded,
        ApprovalRequested,
        AttemptReset,
        CancelReason,
        Checkpoint,
        Event,
        Run,
        RunEnded,
        RunStarted,
        StragglerEnded,
        TextDelta,
        ThinkingDelta,
        ToolFinished,
        ToolProgress,
        ToolStarted,
        TurnEnded,
        TurnStarted,
        Urgency,
    )
    from loopctl.tools import Tool, ToolContext, tool

__all__ = [
    "Agent",
    "ApprovalEnded",
    "ApprovalRequested",
    "AttemptReset",
    "CancelReason",
    "CancelSignal",
    "CancelToken",
    "Cancelled",
    "Checkpoint",
    "EffectUnknown",
    "Event",
    "FallbackExhausted",
    "LoopError",
    "MaxTurnsExceeded",
    "MissingExtra",
    "ModelError",
    "Registration",
    "Run",
    "RunConfig",
    "RunEnded",
    "RunHandle",
    "RunStarted",
    "Session",
    "SessionBusy",
    "SessionClosed",
    "StoreError",
    "StragglerEnded",
    "TextDelta",
    "ThinkingDelta",
    "Tool",
    "ToolContext",
    "ToolError",
    "ToolFinished",
    "ToolProgress",
    "ToolStarted",
    "TurnEnded",
    "TurnStarted",
    "UnknownModel",
    "Urgency",
    "UsageError",
    "race",
    "run",
    "scope",
    "sleep",
    "tool",
]

_HOMES = tuple(f"loopctl.{name}" for name in ("errors", "record", "cancel", "concurrency", "tools", "driver"))
"""Where the names are, lowest layer first: looking for one loads nothing that its home does not need itself."""


def __getattr__(name: str) -> object:
    if name not in __all__:
        message = f"module 'loopctl' has no attribute {name!r}"
        raise AttributeError(message)
    home = next(home for home in map(import_module, _HOMES) if name in home.__all__)
    value: object = getattr(home, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__]
