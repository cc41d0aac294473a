"""What is told of runs and conversations that a store keeps: also those of earlier processes, and of other ones.

Rules: the store is read off the loop; whose a conversation is stands in front of its name, `owner/name`, and what is
told has the client's name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from loopctl.concurrency import off_the_loop
from loopctl.errors import UsageError
from loopctl.store import Store, StoredRun, StoredSession
from loopctl.web._answers import ApiError
from loopctl.web._conversations import Conversations, name_of
from loopctl.web._encode import JsonObject
from loopctl.web._records import Records, latencies_of, no_run, no_session, status_of

__all__ = ["StoredRecords"]

T = TypeVar("T")

_PAGE = 200
_MOST_SESSIONS = 2000
_MOST_STOPS = 1000
_OUTCOMES = frozenset({"completed", "cancelled", "max_turns", "failed", "interrupted", "running"})


class StoredRecords(Records):
    """What a store can tell."""

    def __init__(self, conversations: Conversations, store: Store) -> None:
        """Tell of what *store* keeps; *conversations* are what goes on here."""
        super().__init__(conversations)
        self._store = store

    async def runs(
        self,
        owner: str,
        *,
        limit: int,
        before: str | None = None,
        outcome: str | None = None,
        session: str | None = None,
    ) -> JsonObject:
        """Give a page of the runs of *owner*, newest first.

        Cancellation:
            Waits for the question.
        """
        if outcome is not None and outcome not in _OUTCOMES:
            raise ApiError(400, "bad_outcome", f"outcome is one of {', '.join(sorted(_OUTCOMES))}")
        name = None if session is None else name_of(owner, session)
        page = await self._ask(lambda: self._page(owner, limit + 1, before, outcome, name))
        told = [self._told(owner, run) for run in page[:limit]]
        return {"runs": told, "next": page[limit - 1].id if len(page) > limit else None}

    async def run(self, owner: str, run_id: str) -> JsonObject:
        """Give one run.

        Raises:
            ApiError: There is none.

        Cancellation:
            Waits for the question.
        """
        if self._conversations.find(owner, run_id) is not None:
            return await super().run(owner, run_id)
        run = await self._ask(lambda: self._store.run(run_id))
        if run is None or not _is_of(owner, run.session_id):
            raise no_run(run_id)
        return {**self._told(owner, run), "policy": None, "last_event": None, "is_live": False}

    async def sessions(self, owner: str, *, limit: int) -> JsonObject:
        """Give the conversations of *owner*, the last used first.

        Cancellation:
            Waits for the question.
        """
        found = await self._ask(lambda: self._store.sessions(_MOST_SESSIONS if owner else limit))
        return {"sessions": [self._shown(owner, one) for one in found if _is_of(owner, one.id)][:limit]}

    async def session(self, owner: str, thread_id: str) -> JsonObject:
        """Give one conversation, with its messages and its runs.

        Raises:
            ApiError: There is none.

        Cancellation:
            Waits for the question.
        """
        name = name_of(owner, thread_id)
        session = await self._ask(lambda: self._store.session(name))
        if session is None:
            raise no_session(thread_id)
        runs = await self._ask(lambda: self._store.runs(_PAGE, session=name))
        told = [self._told(owner, run) for run in runs]
        return {**self._shown(owner, session), "messages": session.to_json()["messages"], "run_list": told}

    async def latencies(self, owner: str) -> JsonObject:
        """Give how long the stops of *owner* took, by the checkpoint that caught them.

        Cancellation:
            Waits for the question.
        """
        stopped = await self._ask(lambda: self._page(owner, _MOST_STOPS, None, "cancelled", None))
        stops = (run.record["stop"] for run in stopped if run.record is not None)
        return latencies_of((stop["checkpoint"], stop["latency"]) for stop in stops)

    def _page(
        self, owner: str, limit: int, before: str | None, outcome: str | None, session: str | None
    ) -> list[StoredRun]:
        found: list[StoredRun] = []
        while len(found) < limit:
            # What `outcome` may be was asked before.
            page = self._store.runs(_PAGE, session=session, outcome=outcome, before=before)  # type: ignore[arg-type]
            found += [run for run in page if _is_of(owner, run.session_id)]
            if len(page) < _PAGE:
                break
            before = page[-1].id
        return found[:limit]

    def _told(self, owner: str, run: StoredRun) -> JsonObject:
        live = self._conversations.find(owner, run.id)
        value = run.to_json()
        value["session_id"] = _shown_name(owner, run.session_id)
        value["client_run_id"] = None if live is None else live.names.run_id
        value["status"] = status_of(live)
        if value["record"] is not None:
            value["record"] = {**value["record"], "session_id": value["session_id"]}
        return value

    def _shown(self, owner: str, session: StoredSession) -> JsonObject:
        thread_id = _shown_name(owner, session.id)
        active = self._conversations.active_in(owner, thread_id)
        return {
            "id": thread_id,
            "title": session.title,
            "created_at": session.created_at,
            "runs": session.run_count,
            "active_run_id": None if active is None else active.id,
        }

    async def _ask(self, question: Callable[[], T]) -> T:
        try:
            return await off_the_loop(question, "loopctl web store")
        except UsageError as error:
            raise ApiError(400, "bad_before", str(error).partition(" in ")[0]) from error


def _is_of(owner: str, name: str) -> bool:
    return not owner or name.rpartition("/")[0] == owner


def _shown_name(owner: str, name: str) -> str:
    return name.rpartition("/")[2] if owner else name
