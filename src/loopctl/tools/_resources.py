"""What running and abandoned calls touch, so that no two of them touch it at once."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from loopctl.concurrency import Straggler
from loopctl.errors import ToolError
from loopctl.tools._round import Round
from loopctl.tools._tool import Tool
from loopctl.tools._waves import Wish

__all__ = ["claim", "hold", "let_go", "wish_of"]

_log = logging.getLogger("loopctl")


def wish_of(tool: Tool, arguments: Mapping[str, Any]) -> Wish:
    """What the tool says of a call; a call of which it cannot say it runs alone."""
    try:
        return tool.wish(arguments)
    except Exception:  # what a tool declares may be a function of the application
        _log.warning("tool %s cannot say what a call may run beside: the call runs alone", tool.name, exc_info=True)
        return Wish()


def claim(call_id: str, resources: frozenset[str], into: Round) -> None:
    """Take what the call touches.

    Raises:
        ToolError: Something else still touches it: an abandoned call, or one that changed arguments ran into.
    """
    for resource in sorted(resources):
        straggler = into.held.get(resource)
        if straggler is not None:
            place = f", hangs at {straggler.where}" if straggler.where else ""
            raise ToolError(
                f"{resource!r} is still in use by an earlier call of {straggler.name} ({straggler.call_id}), which"
                f" was stopped and has not ended (it began {straggler.age:.1f} s ago{place}). Go on without it, or try"
                " again later."
            )
        if resource in into.busy:
            raise ToolError(f"{resource!r} is in use by the call {into.busy[resource]}. Try again when it has ended.")
    into.busy.update(dict.fromkeys(resources, call_id))


def let_go(resources: frozenset[str], into: Round) -> None:
    """Give back what `claim` took."""
    for resource in resources:
        into.busy.pop(resource, None)


def hold(resources: frozenset[str], straggler: Straggler, held: dict[str, Straggler]) -> None:
    """Keep *resources* from others until *straggler* has ended."""

    def release(_: Straggler) -> None:
        for resource in resources:
            if held.get(resource) is straggler:
                del held[resource]

    held.update(dict.fromkeys(resources, straggler))
    straggler.on_end(release)
