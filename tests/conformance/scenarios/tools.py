"""The tools that the scenarios share. Made once: a schema takes longer than a run.

Rule: an effect is noted under its call's key, so that runs do not see each other's.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

from loopctl import ModelError, Run, Tool, ToolContext, tool
from loopctl.messages import UserMessage
from loopctl.record import CallStatus
from loopctl.testing import Reply, ScriptedModel, Stopped, fail

NEXT = ("done", "again", "and again", "and on")
"""What a model says when its story is over: to this run, and to the ones after it."""
THEN = "and then?"
"""What the next run is told: models answer it at once, so that a sweep does not play each story twice."""
LOST = fail(ModelError("lost", retryable=True))
DENIED = fail(ModelError("denied", status=403))
LIMIT = fail(ModelError("slow down", status=429, retryable=True, retry_after=7))

EFFECTS: Counter[str] = Counter()
"""How often each call had its effect, by its key."""
TRIES: Counter[str] = Counter()
POLITE = frozenset({"note", "clean", "alone", "flaky", "deaf"})
"""Tools that have their effect once, unless they are stopped before; with their last act, but `clean` and `deaf`."""


async def note(name: str, ctx: ToolContext) -> str:
    """Have a side effect."""
    await asyncio.sleep(1)
    EFFECTS[ctx.idempotency_key] += 1
    return name


async def clean(name: str, ctx: ToolContext) -> str:
    """Have a side effect, and tidy up."""
    try:
        await asyncio.sleep(1)
        EFFECTS[ctx.idempotency_key] += 1
    finally:
        await asyncio.sleep(0.1)
    return name


async def deaf(name: str, ctx: ToolContext) -> str:
    """Swallow a cancellation and go on."""
    try:
        await asyncio.sleep(1)
    except asyncio.CancelledError:
        await asyncio.sleep(0.2)
    EFFECTS[ctx.idempotency_key] += 1
    return name


async def flaky(name: str, ctx: ToolContext) -> str:
    """Fail twice."""
    await asyncio.sleep(0.5)
    TRIES[ctx.idempotency_key] += 1
    if TRIES[ctx.idempotency_key] <= 2:
        raise ConnectionError("lost")
    EFFECTS[ctx.idempotency_key] += 1
    return name


async def alone(name: str, ctx: ToolContext) -> str:
    """Have a side effect, with nothing beside it."""
    return await note(name, ctx)


async def report(name: str, ctx: ToolContext) -> str:
    """Tell how far it is, and wait by the context."""
    for part in (0.3, 0.6):
        ctx.progress("on the way", part)
        await ctx.sleep(1)
    return name


def slow_thread(name: str) -> str:
    """Do it on a thread."""
    return name


beside: Callable[[Callable[..., Any]], Tool[..., Any]] = tool(parallel=True, resource=lambda a: a["name"][:1])
_SHARED: tuple[Callable[..., Any], ...] = (note, clean, deaf, flaky, slow_thread)
PLAIN: list[Tool[..., Any]] = [tool(function) for function in (*_SHARED, report)]
BESIDE: list[Tool[..., Any]] = [*(beside(function) for function in _SHARED), tool(alone)]
ASKED = [tool(approval=True)(note), tool(clean)]


def telling(*replies: Reply, model: type[ScriptedModel] = ScriptedModel, **options: Any) -> ScriptedModel:
    """Make a model that tells a story, and answers `THEN` at once."""

    def unless_asked_on(reply: Reply) -> Reply:
        return lambda request: "then" if UserMessage(THEN) in request.messages else reply

    story = replies if options.get("repeat") else (*replies, *NEXT)
    return model(*map(unless_asked_on, story), **options)


def is_true(run: Run) -> None:
    """Check that the record says of each call what happened: its effect came, once, or it did not."""
    for record in run.tool_calls:
        if record.name in POLITE:
            effects = EFFECTS[f"{run.id}:{record.id}"]
            is_unsure = record.name in {"clean", "deaf"} and record.status is CallStatus.INTERRUPTED
            expected = {0, 1} if is_unsure else {int(record.status is CallStatus.COMPLETED)}
            assert effects in expected, f"{record}: {effects} effects"


def the_record_is_true(stopped: Stopped) -> None:
    """Check `is_true` of the stopped run, if there is one."""
    if stopped.run is not None:
        is_true(stopped.run)
