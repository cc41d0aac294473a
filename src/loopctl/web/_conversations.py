"""The conversations of all owners, their runs that go on and those that ended lately.

Rules:

1. Everything is found by its owner too: what is another's is not there.
2. What is remembered is bounded: runs by number, their logs by a smaller one, conversations by number too (the one that
   was used longest ago goes first, never one that is busy).
3. Once closing has begun no run begins.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter, OrderedDict
from collections.abc import Iterator
from typing import TypeAlias

from loopctl.cancel import CancelSignal
from loopctl.concurrency import ForeignWork, Grace, Patience, monotonic, supervise, together
from loopctl.control import LiveRuns
from loopctl.driver import Agent, Session
from loopctl.errors import SessionBusy
from loopctl.record import CancelReason, Urgency
from loopctl.web._answers import ApiError
from loopctl.web._run import CURRENT, Policy, RunNames, WebRun

__all__ = ["Conversations", "name_of"]

_Key: TypeAlias = tuple[str, str]
"""The owner of a conversation, and the client's name of it."""

_KEPT_RUNS = 500
"""Ended runs that are remembered; more are in the store."""
_KEPT_LOGS = 32
"""Of them, those that can still be read again event by event."""
_KEPT_SESSIONS = 1000
_OPEN_SESSIONS = 64
"""The same where there is a store: what is closed is read again when it is needed, and free for other processes."""
_SHUTDOWN = CancelReason("shutdown", "the server is shutting down", "http")
_RETRY = {"retry-after": "1"}


class Conversations:
    """What goes on in one application."""

    def __init__(self, agent: Agent, store: str | os.PathLike[str] | None, most_runs: int, most_events: int) -> None:
        """Begin with none; see `create_app`."""
        self.agent = agent
        self.live_runs: LiveRuns = LiveRuns(agent)
        self.store = store
        self.is_closing: bool = False
        self._most_runs = most_runs
        self._most_events = most_events
        self._sessions: OrderedDict[_Key, Session] = OrderedDict()
        self._wanted: Counter[_Key] = Counter()
        """The conversations in which runs are about to begin: these are not closed to make room."""
        self._door = asyncio.Lock()
        self._active: dict[str, WebRun] = {}
        self._ended: OrderedDict[str, WebRun] = OrderedDict()
        self._by_client: dict[tuple[str, str], WebRun] = {}

    async def begin(self, names: RunNames, text: str, policy: Policy) -> WebRun:
        """Begin a run.

        Raises:
            ApiError: Not now: we are closing, there are too many, or its conversation is busy.

        Cancellation:
            Before the run has begun: it does not begin.
        """
        self._check_room()
        key = (names.owner, names.thread_id)
        self._wanted[key] += 1
        try:
            session = await self._session(key)
            self._check_room()  # it may have taken a while
            return self._begin(session, names, text, policy)
        finally:
            self._wanted[key] -= 1
            self._wanted += Counter()  # drops what is 0

    def _begin(self, session: Session, names: RunNames, text: str, policy: Policy) -> WebRun:
        busy = self._by_client.get((names.owner, names.run_id))
        if busy is not None and busy.run is None:
            raise ApiError(409, "run_exists", f"the run {names.run_id} goes on: give a new runId", more=_run_id(busy))
        live = WebRun(names, policy, text, self._most_events)
        mark = CURRENT.set(live)  # the run's task, and all that comes of it, is made in this context
        try:
            live.begin(session.start(text))
        except SessionBusy:
            running = self.active_in(names.owner, names.thread_id)
            more = {} if running is None else _run_id(running)
            text = f"the conversation {names.thread_id} is busy with a run: cancel it, or wait for its end"
            raise ApiError(409, "session_busy", text, more=more) from None
        finally:
            CURRENT.reset(mark)
        self._active[live.id] = live
        self._by_client[names.owner, names.run_id] = live
        live.task.add_done_callback(lambda _: self._on_end(live))
        return live

    def find(self, owner: str, run_id: str) -> WebRun | None:
        """Give a run of *owner*, by our name of it or by the client's."""
        for live in (self._active.get(run_id), self._ended.get(run_id), self._by_client.get((owner, run_id))):
            if live is not None and live.names.owner == owner:
                return live
        return None

    def runs_of(self, owner: str) -> Iterator[WebRun]:
        """Give the runs of *owner*, newest first."""
        known = [*self._ended.values(), *self._active.values()]
        known.sort(key=lambda live: live.started_at, reverse=True)
        return (live for live in known if live.names.owner == owner)

    def active_in(self, owner: str, thread_id: str) -> WebRun | None:
        """Give the run that goes on in a conversation."""
        for live in self._active.values():
            if (live.names.owner, live.names.thread_id) == (owner, thread_id):
                return live
        return None

    def sessions_of(self, owner: str) -> Iterator[tuple[str, Session]]:
        """Give the conversations of *owner* that are in memory, with the client's names, the last used first."""
        return ((thread_id, session) for (of, thread_id), session in reversed(self._sessions.items()) if of == owner)

    async def aclose(self) -> None:
        """Cancel every run (origin `shutdown`), wait a bounded time for them, close the conversations; idempotent.

        Cancellation:
            Leaves the waits.
        """
        self.is_closing = True
        await self._end_runs(Urgency.STOP, self.agent.config.grace + 0.2)
        # Also what a tool may finish: who shuts down does not wait for ever.
        await self._end_runs(Urgency.ABANDON, 1.0)
        sessions = [session.aclose for session in self._sessions.values()]
        self._sessions.clear()
        if sessions:
            await together(sessions, limit=len(sessions), name="loopctl web session")
        self.live_runs.close()

    def abandon(self) -> None:
        """Cancel every run and give it no grace."""
        for live in self._active.values():
            live.cancel(_SHUTDOWN, Urgency.ABANDON)

    async def _end_runs(self, urgency: Urgency, seconds: float) -> None:
        active = tuple(self._active.values())
        for live in active:
            live.cancel(_SHUTDOWN, urgency)
        until, never = monotonic() + seconds, CancelSignal().token
        for live in active:
            patience = Patience(total=max(0.0, until - monotonic()))
            ending = await supervise(ForeignWork(live.task), never, grace=Grace(0), patience=patience)
            ending.raise_if_stopped()

    def _check_room(self) -> None:
        if self.is_closing:
            raise ApiError(503, "closing", "the server is shutting down: ask its successor", headers=_RETRY)
        if len(self._active) >= self._most_runs:
            text = f"{self._most_runs} runs go on, which is the most at once: wait for one to end"
            raise ApiError(429, "too_many_runs", text, headers=_RETRY)

    async def _session(self, key: _Key) -> Session:
        async with self._door:  # what is being closed must be closed before it is opened again
            session = self._sessions.get(key)
            if session is None:
                await self._make_room()
                session = self._sessions[key] = self.agent.session(store=self.store, id=name_of(*key))
            self._sessions.move_to_end(key)
        try:
            await session.open()
        except SessionBusy:
            text = f"the conversation {key[1]} is open in another process: close it there, or take another name"
            raise ApiError(409, "session_busy", text) from None
        return session

    async def _make_room(self) -> None:
        while len(self._sessions) >= (_KEPT_SESSIONS if self.store is None else _OPEN_SESSIONS):
            idle = next((key for key in self._sessions if not self._is_used(key)), None)
            if idle is None:
                return
            await self._sessions.pop(idle).aclose()

    def _is_used(self, key: _Key) -> bool:
        return key in self._wanted or self.active_in(*key) is not None

    def _on_end(self, live: WebRun) -> None:
        del self._active[live.id]
        self._ended[live.id] = live
        if len(self._ended) > _KEPT_LOGS:
            list(self._ended.values())[-_KEPT_LOGS - 1].log.forget()
        if len(self._ended) > _KEPT_RUNS:
            _, oldest = self._ended.popitem(last=False)
            key = (oldest.names.owner, oldest.names.run_id)
            if self._by_client.get(key) is oldest:
                del self._by_client[key]


def name_of(owner: str, thread_id: str) -> str:
    """Give our name of the conversation that *owner* calls *thread_id*, in which there is no slash."""
    return f"{owner}/{thread_id}" if owner else thread_id


def _run_id(live: WebRun) -> dict[str, str]:
    return {"run_id": live.id}
