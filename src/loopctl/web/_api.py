"""The endpoints: what each request does.

Rules: an answer never says more than is so (a cancel that has not ended yet is 202, one that came too late is 409 and
says how the run ended); what another owner has is not found.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from starlette.requests import Request
from starlette.responses import Response

from loopctl.control import Receipt
from loopctl.record import CancelReason
from loopctl.web._answers import ApiError, JsonResponse
from loopctl.web._conversations import Conversations
from loopctl.web._encode import JsonObject
from loopctl.web._input import check_id, count_of, number_of, policy_of, read_json, run_input, urgency_of
from loopctl.web._log import Missed
from loopctl.web._records import Records, no_run, public
from loopctl.web._run import Policy, RunNames, WebRun
from loopctl.web._stream import RunStream

__all__ = ["Api", "Owner", "Settings"]

Owner: TypeAlias = Callable[[Request], str | None]
"""Says whose request it is; None is nobody's, which is refused."""

_LONGEST_REASON = 500


@dataclass(frozen=True, slots=True)
class Settings:
    """What the endpoints go by."""

    policy: Policy
    owner: Owner | None
    most_bytes: int


class Api:
    """The endpoints of one application."""

    def __init__(self, conversations: Conversations, settings: Settings) -> None:
        """Serve *conversations* by *settings*."""
        self.conversations = conversations
        self._records = Records(conversations)
        if conversations.store is not None:
            from loopctl.store import Store  # a Python may be without SQLite
            from loopctl.web._stored import StoredRecords

            self._records = StoredRecords(conversations, Store(conversations.store))
        self._settings = settings

    async def start(self, request: Request) -> Response:
        """Begin a run and stream it.

        Cancellation:
            Before the run has begun: it does not begin.
        """
        owner = self._owner(request)
        policy = policy_of(request.query_params.get("on_disconnect"), self._settings.policy)
        thread_id, run_id, text = run_input(await read_json(request, self._settings.most_bytes))
        live = await self.conversations.begin(RunNames(owner, thread_id, run_id), text, policy)
        return RunStream(live, 0, _client(request))

    async def events(self, request: Request) -> Response:
        """Stream a run from where the client was.

        Cancellation:
            Leaves the question whether there is such a run.
        """
        live = self.conversations.find(*self._named(request))
        if live is None:
            told = await self._records.run(*self._named(request))
            text = f"the events of the run {told['id']} are no longer kept: GET runs/{told['id']} gives its record"
            raise ApiError(410, "events_missed", text)
        given = request.query_params.get("after", request.headers.get("last-event-id"))
        after = number_of("after", given, 0)
        if after > live.log.last:
            raise ApiError(400, "bad_number", f"after is {after}, and the run has told {live.log.last} events")
        try:
            live.log.read(after)
        except Missed as missed:
            text = f"{missed.count} events of the run {live.id} are no longer kept: GET runs/{live.id} gives its record"
            raise ApiError(410, "events_missed", text) from None
        return RunStream(live, after, _client(request))

    async def cancel(self, request: Request) -> Response:
        """Cancel a run, and say what came of it.

        Cancellation:
            Leaves the wait; the run is cancelled.
        """
        body = await read_json(request, self._settings.most_bytes)
        live = self.conversations.find(*self._named(request))
        if live is None:
            return _elsewhere(await self._records.run(*self._named(request)))
        urgency = urgency_of(body.get("urgency"))
        message = body.get("reason")
        if message is not None and not isinstance(message, str):
            raise ApiError(400, "bad_reason", "reason is a text")
        by = live.names.owner or _client(request)
        reason = CancelReason("user", (message or "stopped over HTTP")[:_LONGEST_REASON], by)
        return _answer(live, await self.conversations.live_runs.cancel(live.id, reason, urgency))

    async def answer(self, request: Request) -> Response:
        """Answer the question whether a call may run.

        Cancellation:
            Leaves the body.
        """
        live = self._find(request)
        call_id = request.path_params["call_id"]
        if call_id not in live.questions:
            raise ApiError(404, "unknown_call", f"nothing was asked about a call {call_id} of the run {live.id}")
        body = await read_json(request, self._settings.most_bytes)
        answer = body.get("answer")
        if answer not in {"allow", "deny"}:
            raise ApiError(400, "bad_answer", "answer is allow or deny")
        question = live.questions[call_id]
        if question.done():
            raise ApiError(409, "not_asked", f"nobody asks about the call {call_id} any more")
        question.set_result(answer == "allow")
        return JsonResponse({"call_id": call_id, "answer": answer})

    async def runs(self, request: Request) -> Response:
        """List runs.

        Cancellation:
            Leaves the question.
        """
        asked = request.query_params
        return JsonResponse(
            await self._records.runs(
                self._owner(request),
                limit=count_of(request),
                before=asked.get("before"),
                outcome=asked.get("outcome"),
                session=asked.get("session"),
            )
        )

    async def run(self, request: Request) -> Response:
        """Show one run.

        Cancellation:
            Leaves the question.
        """
        return JsonResponse(await self._records.run(*self._named(request)))

    async def sessions(self, request: Request) -> Response:
        """List conversations.

        Cancellation:
            Leaves the question.
        """
        return JsonResponse(await self._records.sessions(self._owner(request), limit=count_of(request)))

    async def session(self, request: Request) -> Response:
        """Show one conversation.

        Cancellation:
            Leaves the question.
        """
        thread_id = check_id("the conversation's id", request.path_params["session_id"])
        return JsonResponse(await self._records.session(self._owner(request), thread_id))

    async def latency(self, request: Request) -> Response:
        """Tell how long stops took.

        Cancellation:
            Leaves the question.
        """
        return JsonResponse(await self._records.latencies(self._owner(request)))

    async def health(self, request: Request) -> Response:
        """Tell that the process answers.

        Cancellation:
            Never waits.
        """
        del request
        return JsonResponse({"status": "ok"})

    async def readiness(self, request: Request) -> Response:
        """Tell whether runs are taken.

        Cancellation:
            Never waits.
        """
        del request
        if self.conversations.is_closing:
            raise ApiError(503, "closing", "the server is shutting down: ask its successor")
        return JsonResponse({"status": "ready"})

    def _owner(self, request: Request) -> str:
        if self._settings.owner is None:
            return ""
        owner = self._settings.owner(request)
        if not owner:
            raise ApiError(401, "unauthorized", "it is not known who asks: sign in, then ask again")
        return owner

    def _named(self, request: Request) -> tuple[str, str]:
        """Whose run is meant, and which."""
        return self._owner(request), check_id("the run's id", request.path_params["run_id"])

    def _find(self, request: Request) -> WebRun:
        owner, run_id = self._named(request)
        live = self.conversations.find(owner, run_id)
        if live is None:
            raise no_run(run_id)
        return live


def _elsewhere(told: JsonObject) -> Response:
    """Answer the cancel of a run that is not one of this process."""
    more = {"run_id": told["id"], "outcome": told["outcome"], "run": told["record"]}
    if told["outcome"] == "running":
        text = (
            f"the run {told['id']} goes on in another process, {told['pid']}: loopctl cancel on that machine stops it"
        )
        raise ApiError(409, "runs_elsewhere", text, more={**more, "state": "unknown"})
    text = f"the run {told['id']} had ended before the cancel came: it is {told['outcome']}"
    raise ApiError(409, "already_ended", text, more={**more, "state": "already_ended"})


def _answer(live: WebRun, receipt: Receipt) -> Response:
    run = receipt.run or live.run
    outcome = receipt.outcome if run is None else run.outcome
    value: JsonObject = {"run_id": live.id, "state": receipt.state, "outcome": outcome}
    value["run"] = None if run is None else public(run, live.names.thread_id)
    match receipt.state:
        case "ended":
            return JsonResponse(value)
        case "cancelling":
            return JsonResponse(value, 202)
    how = f"it is {outcome}" if outcome else "it is being recorded"
    text = f"the run {live.id} had ended before the cancel came: {how}"
    raise ApiError(409, "already_ended", text, more={**value, "state": "already_ended"})


def _client(request: Request) -> str:
    return "http" if request.client is None else f"http {request.client.host}:{request.client.port}"
