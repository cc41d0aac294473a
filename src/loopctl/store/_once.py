"""`once` for a plain function, on its thread, and for a coroutine function, on a loop that is never blocked.

Rules: waiting for the store is the checkpoint `SETUP`; a cancel that comes before the function was called leaves the
key free; what the function has done is recorded whatever comes then.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import Any

from loopctl.concurrency import Grace, ThreadWork, off_the_loop, sleep, supervise
from loopctl.errors import UsageError
from loopctl.record import Checkpoint, Urgency
from loopctl.store._caller import Caller, inside
from loopctl.store._rows import Row

__all__ = ["once_here", "once_on_loop"]

_FIRST_PAUSE, _LONGEST_PAUSE = 0.01, 0.25
"""Seconds between two looks at what another is doing."""
_THREAD = "loopctl store"
_ON_LOOP = 1.0
"""Seconds for which a plain function may block its event loop to wait for the store."""


def once_here(caller: Caller, function: Callable[[], Any]) -> Any:
    """Do it on this thread."""
    is_on_loop = asyncio._get_running_loop() is not None
    if is_on_loop:
        caller.patience = _ON_LOOP
    pause = _FIRST_PAUSE
    while (row := caller.look()) is not None:
        if row.is_done:
            return row.value()
        caller.refuse(row)
        if is_on_loop:
            caller.refuse_to_block(row)
        caller.token.wait(pause, at_least=Urgency.STOP)
        pause = min(2 * pause, _LONGEST_PAUSE)
    _check(caller)
    before = inside.get()
    inside.set(before | {caller.number})
    try:
        value = function()
    except BaseException as error:
        if caller.fail(error):
            caller.release()
        raise
    finally:
        inside.set(before)
    if inspect.iscoroutine(value):
        value.close()  # unstarted: nothing of it was done
        caller.release()
        raise UsageError(
            f"the function of once({caller.key!r}) gave a coroutine: give the async function itself, with its"
            " arguments by functools.partial, and await what once gives"
        )
    return caller.record(value)


def _check(caller: Caller) -> None:
    try:
        caller.check()
    except BaseException:
        caller.release()
        raise


async def once_on_loop(caller: Caller, function: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Do it in this task.

    Cancellation:
        The checkpoint `SETUP` while it waits for the store or for who else does it: nothing is begun. In the function:
        goes to it, and what it did is unknown if it lets it through. While the end is recorded: waits for that, once.
    """
    pause = _FIRST_PAUSE
    while (row := await _look(caller)) is not None:
        if row.is_done:
            return row.value()
        caller.refuse(row)
        await sleep(pause, caller.token, at=Checkpoint.SETUP)
        pause = min(2 * pause, _LONGEST_PAUSE)
    before = inside.get()
    inside.set(before | {caller.number})
    try:
        value = await function()
    except BaseException as error:
        if caller.fail(error):
            await off_the_loop(caller.release, _THREAD)
        raise
    finally:
        inside.set(before)  # not by its token: a coroutine may be closed in another context
    return await off_the_loop(lambda: caller.record(value), _THREAD)


async def _look(caller: Caller) -> Row | None:
    work = ThreadWork(caller.look, _THREAD, can_unwind=False)
    try:
        # Not at=SETUP, which begins nothing in a drained run: what is in flight there is to be finished.
        ending = await supervise(work, caller.token, grace=Grace(0))
    except BaseException:  # the coroutine is being closed
        caller.withdraw()
        raise
    if ending.stopped_by is not None:
        await off_the_loop(functools.partial(caller.withdraw, wait=True), _THREAD)
    ending.raise_if_stopped(Checkpoint.SETUP)
    row: Row | None = ending.unwrap()
    return row
