"""The loop: ask the brain, perform what it says, tell it what came of it. There is no feature in here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from loopctl.brain import Brain, CancelRequested, Effect, Finish, Input
from loopctl.errors import Cancelled
from loopctl.record import Checkpoint

__all__ = ["Ended", "drive"]


class Ended:
    """How the loop ended: the brain's `Finish`, and where a cancel was noticed if there was one."""

    __slots__ = ("checkpoint", "finish")

    def __init__(self, finish: Finish, checkpoint: Checkpoint | None) -> None:
        """Keep both."""
        self.finish = finish
        self.checkpoint = checkpoint


async def drive(brain: Brain, first: Input, perform: Callable[[tuple[Effect, ...]], Awaitable[Input | None]]) -> Ended:
    """Run *brain* to its end.

    Args:
        brain: In its first phase.
        first: Its first input.
        perform: Performs the effects of one step in order and gives the next input, or None after a `Finish`, before
            which it waits for nothing. A `Cancelled` that it raises is the input `CancelRequested`.

    Returns:
        How it ended.

    Cancellation:
        As often as *perform* is a checkpoint; nothing else is awaited here.
    """
    effects = brain.step(first)
    checkpoint: Checkpoint | None = None
    while True:
        following: Input | None
        try:
            following = await perform(effects)
        except Cancelled as stop:
            checkpoint = stop.checkpoint
            following = CancelRequested(stop.reason, stop.checkpoint or Checkpoint.TURN_ENTRY)
        if following is None:
            break
        effects = brain.step(following)
    last = effects[-1]
    assert isinstance(last, Finish), f"{last!r} brought no input"
    return Ended(last, checkpoint)
