"""The ledger: what was done, so that it is not done twice, over crashes too.

Rules: nothing is opened before the first use; keys are global to the file; a key whose effect is not known is resolved
by a person and by nobody else.
"""

from __future__ import annotations

import inspect
import json
import os
import sqlite3
from collections.abc import Callable
from typing import Any, Literal

from loopctl.cancel import CancelSignal, CancelToken
from loopctl.concurrency import epoch
from loopctl.errors import UsageError
from loopctl.store._caller import Caller, check_key
from loopctl.store._claims import is_held
from loopctl.store._file import StoreFile
from loopctl.store._once import once_here, once_on_loop
from loopctl.store._rows import Effect, Row, delete, encode, finish, read, read_unfinished

__all__ = ["Ledger"]


class Ledger:
    """The effects that were begun, and those that are done; in one SQLite file, for any number of processes.

    All methods block, but for what `once` gives for a coroutine function.
    """

    __slots__ = ("_file",)

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Use the file *path*; it is opened, and made if it is not there, when something is done for the first time.

        Raises:
            UsageError: *path* is not the path of a file.
        """
        self._file = StoreFile(path)

    @property
    def path(self) -> str:
        """The file."""
        return str(self._file.path)

    def once(
        self,
        key: str,
        function: Callable[[], Any],
        *,
        token: CancelToken | None = None,
        by: str = "a program",
        check_open: Callable[[], None] = lambda: None,
    ) -> Any:
        """Do something at most once; `ToolContext.once` is this, for a call.

        Args:
            key: What is done.
            function: Does it. Its result is kept as JSON.
            token: Ends a wait for the store, or for another who is doing it.
            by: Who does it, for a person to read.
            check_open: Raises if nothing may be begun any more.

        Returns:
            The recorded result; an awaitable for it if *function* is a coroutine function.

        Raises:
            EffectUnknown: It was begun and never recorded as done.
            Cancelled: The token fired before *function* was called.
            UsageError: *key* or *function* is none, or the result has no JSON form.
            StoreError: The file cannot be used.
        """
        if not callable(function):
            raise UsageError(f"once({key!r}) takes a function without parameters, not {function!r}")
        caller = Caller(self._file, key, by, token or CancelSignal().token, check_open)
        if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__):
            return once_on_loop(caller, function)
        return once_here(caller, function)

    def get(self, key: str) -> Effect | None:
        """Say what is known of *key*; None if it was never begun, or not done.

        Raises:
            UsageError: *key* is none.
            StoreError: The file cannot be used.
        """
        check_key(key)
        if not self._file.path.exists():
            return None
        return self._file.transact(lambda connection: self._effect(read(connection, key)))

    def unknown(self) -> tuple[Effect, ...]:
        """Give the effects that were begun, never recorded as done, and that nobody is doing; oldest first.

        Raises:
            StoreError: The file cannot be used.
        """
        if not self._file.path.exists():
            return ()
        effects = self._file.transact(lambda connection: [self._effect(row) for row in read_unfinished(connection)])
        return tuple(effect for effect in effects if effect is not None and effect.state == "unknown")

    def resolve(self, key: str, *, done: bool, result: Any = None) -> None:
        """Say what became of an effect that is unknown.

        Args:
            key: Its key.
            done: True if it has happened: it will not be done again. False if it has not: the next `once` does it.
            result: What `once` gives from now on, if it has happened.

        Raises:
            UsageError: The key is not unknown, or *result* has no JSON form.
            StoreError: The file cannot be used.
        """
        text, fault = encode(check_key(key), result)
        if fault is not None:
            raise UsageError(f"the result of {key!r} has to be what JSON can hold, not {result!r}")
        if not self._file.path.exists():
            raise UsageError(f"there is no store {self.path}")
        self._file.transact(lambda connection: self._resolve(connection, key, text if done else None, done=done))

    def _resolve(self, connection: sqlite3.Connection, key: str, result: str | None, *, done: bool) -> None:
        row = read(connection, key)
        effect = self._effect(row)
        if row is None or effect is None:
            raise UsageError(f"{key!r} was never begun, or was not done: the next once does it")
        if effect.state == "done":
            raise UsageError(f"{key!r} is done, with the result {json.dumps(effect.result)}")
        if effect.state == "in_progress":
            raise UsageError(f"{key!r} is being done by {row.by} in process {row.pid}: wait for it, or end it")
        if done:
            finish(connection, row, epoch(), result)
        else:
            delete(connection, key, row.claim)

    def _effect(self, row: Row | None) -> Effect | None:
        """Judge a row, in the transaction that read it: who does it cannot end meanwhile."""
        if row is None:
            return None
        state: Literal["done", "in_progress", "unknown"] = "unknown"
        if row.is_done:
            state = "done"
        elif is_held(self._file.holders, row.claim):
            state = "in_progress"
        return row.effect(state)

    def __repr__(self) -> str:
        """Give the path."""
        return f"<Ledger {self.path}>"
