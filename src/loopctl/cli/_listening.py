"""Let `loopctl ps` and `loopctl cancel` reach the runs of a command."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from loopctl.control import Listener, listen
from loopctl.driver import Agent
from loopctl.errors import UsageError

__all__ = ["listening"]


@contextmanager
def listening(command: str, *agents: Agent) -> Iterator[Listener | None]:
    """Listen for *agents* while the block runs, as *command*; where that cannot be, say so and give None."""
    try:
        listener = listen(*agents, command=f"loopctl {command}")
    except UsageError as error:
        print(f"loopctl: other processes cannot list or cancel these runs: {error}", file=sys.stderr)
        yield None
        return
    with listener:
        yield listener
