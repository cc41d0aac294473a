"""One caller's way through `once`, step by step; each step blocks, and may be done on any thread.

Invariants: the intent is on disk before the function is called, and the result before it is given to anybody; what ends
in between leaves the key begun and held by nobody, which is what "unknown" means, so that it need never be written.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from typing import Any

from loopctl.cancel import CancelToken
from loopctl.concurrency import epoch, stop_reason
from loopctl.errors import Cancelled, EffectUnknown, StoreError, UsageError
from loopctl.record import Urgency
from loopctl.store._claims import Claim, find, hold, is_held
from loopctl.store._file import StoreFile
from loopctl.store._rows import Row, delete, encode, finish, insert, read

__all__ = ["Caller", "check_key", "inside"]

inside: ContextVar[frozenset[int]] = ContextVar("loopctl_inside_once", default=frozenset())
"""The claims whose functions the current task or thread is a part of."""


class Caller:
    """Who calls `once`, for one key."""

    def __init__(self, file: StoreFile, key: str, by: str, token: CancelToken, check_open: Callable[[], None]) -> None:
        """Prepare to do *key* for *by*.

        Raises:
            UsageError: *key* is no text.
        """
        self.key: str = check_key(key)
        self.token = token
        self.patience: float = 30.0
        """Seconds for which others may lock the store."""
        self._file = file
        self._by = by
        self._check_open = check_open
        self._lock = threading.Lock()
        self._claim: Claim | None = None
        self._is_withdrawn = False

    @property
    def number(self) -> int:
        """The number of the claim that was taken."""
        assert self._claim is not None
        return self._claim.number

    def check(self) -> None:
        """Raise if nothing may be begun any more."""
        self.token.raise_if_cancelled(Urgency.STOP)
        if self._is_withdrawn:
            raise Cancelled(stop_reason(self.token))
        self._check_open()

    def look(self) -> Row | None:
        """Take the key if nobody has it.

        Returns:
            None if it was taken; the row if it is done, or if something that lives is doing it.

        Raises:
            EffectUnknown: It was begun, and never recorded as done.
            Cancelled: The token has fired.
            StoreError: The store cannot be used.
        """
        with self._lock:
            row = self._look()
        if self._is_withdrawn:  # while we looked: nobody will do what was taken here
            self.withdraw()
        return row

    def _look(self) -> Row | None:
        suspect = None
        while True:
            try:
                row = self._file.transact(self._read_or_take, self.check, self.patience)
            except BaseException:
                self._let_go()
                raise
            if row is None or row.is_done or is_held(self._file.holders, row.claim):
                return row
            if row.claim == suspect:
                raise EffectUnknown(_unknown(row))
            suspect = row.claim  # it may have ended since it was read; if it still stands there now, it has not

    def _read_or_take(self, connection: Any) -> Row | None:
        self._let_go()  # of a try that was rolled back
        row = read(connection, self.key)
        if row is None:
            self._claim = hold(self._file.holders, self.token)
            insert(connection, Row(self.key, self._claim.number, self._by, os.getpid(), epoch()))
        return row

    def refuse(self, row: Row) -> None:
        """Raise if it makes no sense to wait for who is doing *row*."""
        if row.claim in inside.get():
            raise UsageError(f"once({self.key!r}) was called in its own function, and would wait for itself")
        claim = find(row.claim)
        if claim is not None and claim.token.is_cancelled(Urgency.STOP):
            raise EffectUnknown(
                f"whether {self.key!r} is done is not known yet: {row.by} is doing it, was stopped, and has not ended"
            )

    def refuse_to_block(self, row: Row) -> None:
        """Raise, because this thread is an event loop's."""
        raise EffectUnknown(
            f"whether {self.key!r} is done is not known yet: {row.by} in process {row.pid} is doing it. A plain"
            " function on an event loop cannot wait for that: give once an async function, or make the tool a plain def"
        )

    def withdraw(self, *, wait: bool = False) -> None:
        """Give back what was taken, or is being taken by a look that goes on; nothing of it was done.

        Args:
            wait: False leaves it to that look, if one goes on.
        """
        self._is_withdrawn = True
        if self._lock.acquire(blocking=wait):
            try:
                self.release()
            finally:
                self._lock.release()

    def release(self) -> None:
        """Free the key: it was not done."""
        claim = self._claim
        if claim is not None:
            with suppress(StoreError):  # then it stays unknown, which is true too
                self._file.transact(lambda connection: delete(connection, self.key, claim.number))
            self._let_go()

    def fail(self, error: BaseException) -> bool:
        """Judge what the function raised.

        Returns:
            True if it means that nothing was done, and `release` is to follow; else the key is unknown now.
        """
        is_open = isinstance(error, TimeoutError | EffectUnknown | Cancelled) or self.token.is_cancelled(Urgency.STOP)
        if isinstance(error, Exception) and not is_open:
            return True
        self._let_go()
        return False

    def record(self, value: object) -> Any:
        """Write that it is done.

        Returns:
            What every later caller will be given.

        Raises:
            StoreError: It is done, and that could not be written.
            UsageError: *value* could not be written.
        """
        result, fault = encode(self.key, value)
        row = Row(self.key, self.number, self._by, os.getpid(), 0.0, epoch(), result, fault)
        try:
            if not self._file.transact(lambda connection: finish(connection, row, epoch(), result, fault)):
                raise StoreError("its row is gone")
        except StoreError as error:
            raise StoreError(f"{self.key!r} was done, and could not be recorded: {error}") from error
        finally:
            self._let_go()
        return row.value()

    def _let_go(self) -> None:
        claim, self._claim = self._claim, None
        if claim is not None:
            claim.let_go()


def check_key(key: object) -> str:
    """Give *key* if it can be one.

    Raises:
        UsageError: It cannot.
    """
    if isinstance(key, str) and key:
        with suppress(UnicodeEncodeError):
            key.encode()
            return key
    raise UsageError(f"a key of once is a text that says what is done, not {key!r}")


def _unknown(row: Row) -> str:
    return (
        f"whether {row.key!r} was done is not known: {row.by} in process {row.pid} began it"
        f" {epoch() - row.begun_at:.0f} s ago, and it was never recorded as done. Somebody has to find out, and to"
        " resolve the key in the store"
    )
