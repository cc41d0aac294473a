"""What is told of runs and conversations that are asked for by name or as a list.

Rule: what is told of a run has the same keys, whether it goes on, has ended lately, or stands in the store.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from loopctl.messages import message_to_json
from loopctl.record import Run
from loopctl.web._answers import ApiError
from loopctl.web._conversations import Conversations
from loopctl.web._encode import JsonObject
from loopctl.web._run import WebRun

__all__ = ["Records", "latencies_of", "no_run", "no_session", "public", "status_of"]

_TITLE = 80


class Records:
    """What one application can tell of its runs."""

    def __init__(self, conversations: Conversations) -> None:
        """Tell of *conversations*."""
        self._conversations = conversations

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
            Leaves the question.
        """
        found = [
            live
            for live in self._conversations.runs_of(owner)
            if outcome in {None, _outcome(live)} and session in {None, live.names.thread_id}
        ]
        if before is not None:
            places = [place for place, live in enumerate(found) if live.id == before]
            found = found[places[0] + 1 :] if places else []
        page = found[:limit]
        return {
            "runs": [_described(live) for live in page],
            "next": page[-1].id if len(found) > limit else None,
        }

    async def run(self, owner: str, run_id: str) -> JsonObject:
        """Give one run.

        Raises:
            ApiError: There is none.

        Cancellation:
            Leaves the question.
        """
        live = self._conversations.find(owner, run_id)
        if live is None:
            raise no_run(run_id)
        return {
            **_described(live),
            "policy": live.policy,
            "last_event": live.log.last,
            "is_live": live.run is None,
        }

    async def sessions(self, owner: str, *, limit: int) -> JsonObject:
        """Give the conversations of *owner*, the last used first.

        Cancellation:
            Leaves the question.
        """
        found = [self._session(owner, thread_id) for thread_id, _ in self._conversations.sessions_of(owner)]
        return {"sessions": found[:limit]}

    async def session(self, owner: str, thread_id: str) -> JsonObject:
        """Give one conversation, with its messages and its runs.

        Raises:
            ApiError: There is none.

        Cancellation:
            Leaves the question.
        """
        for known, session in self._conversations.sessions_of(owner):
            if known == thread_id:
                runs = [_described(live) for live in self._runs_in(owner, thread_id)]
                messages = [message_to_json(message) for message in session.history]
                return {**self._session(owner, thread_id), "messages": messages, "run_list": runs}
        raise no_session(thread_id)

    async def latencies(self, owner: str) -> JsonObject:
        """Give how long the stops of *owner* took, by the checkpoint that caught them.

        Cancellation:
            Leaves the question.
        """
        ended = (live.run for live in self._conversations.runs_of(owner) if live.run is not None)
        return latencies_of((run.stop.checkpoint.name, run.stop.latency) for run in ended if run.stop is not None)

    def _session(self, owner: str, thread_id: str) -> JsonObject:
        runs = self._runs_in(owner, thread_id)
        active = self._conversations.active_in(owner, thread_id)
        return {
            "id": thread_id,
            "title": runs[-1].input[:_TITLE] if runs else "",
            "created_at": runs[-1].started_at if runs else None,
            "runs": len(runs),
            "active_run_id": None if active is None else active.id,
        }

    def _runs_in(self, owner: str, thread_id: str) -> list[WebRun]:
        return [live for live in self._conversations.runs_of(owner) if live.names.thread_id == thread_id]


def no_run(run_id: str) -> ApiError:
    """Say that there is no such run, or that it is another's, which is the same."""
    return ApiError(404, "unknown_run", f"there is no run {run_id}: GET runs lists those that there are")


def no_session(thread_id: str) -> ApiError:
    """Say that there is no such conversation, or that it is another's."""
    return ApiError(404, "unknown_session", f"there is no conversation {thread_id}: POST runs begins one")


def latencies_of(stops: Iterable[tuple[str, float]]) -> JsonObject:
    """Tell of *stops*: where each was caught, and how long it took."""
    found: dict[str, list[float]] = {}
    for checkpoint, seconds in stops:
        found.setdefault(checkpoint, []).append(seconds)
    return {"checkpoints": found, "count": sum(map(len, found.values()))}


def public(run: Run, thread_id: str) -> JsonObject:
    """Give the record of *run* with the client's name of its conversation."""
    return {**run.to_json(), "session_id": thread_id}


def _outcome(live: WebRun) -> str:
    return "running" if live.run is None else live.run.outcome


def _described(live: WebRun) -> JsonObject:
    record = None if live.run is None else public(live.run, live.names.thread_id)
    return {
        "id": live.id,
        "client_run_id": live.names.run_id,
        "session_id": live.names.thread_id,
        "outcome": _outcome(live),
        "started_at": live.started_at,
        "ended_at": None if live.run is None else live.run.ended_at,
        "input": live.input,
        "pid": os.getpid(),
        "status": status_of(live),
        "calls": [] if record is None else record["tool_calls"],
        "record": record,
    }


def status_of(live: WebRun | None) -> JsonObject | None:
    """Say what a run does; None if it has ended, or is not one of this process."""
    if live is None or live.status is None:
        return None
    return {**live.status.to_json(), "session_id": live.names.thread_id, "pid": os.getpid()}
