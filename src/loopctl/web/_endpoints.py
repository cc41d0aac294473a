"""The table of endpoints, from which both the routes and the OpenAPI document are made."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, TypeAlias

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from loopctl.web._answers import JsonResponse
from loopctl.web._api import Api
from loopctl.web._encode import JsonObject

__all__ = ["Endpoint", "endpoints", "openapi", "routes"]

Handler: TypeAlias = Callable[[Request], Awaitable[Response]]

_ERRORS = {
    400: "What was sent cannot be read; `message` says what.",
    401: "The token, or the owner, is missing.",
    403: "A page of another site asks.",
    404: "There is no such thing, or it is another owner's.",
    408: "The body did not arrive in time.",
    409: "It is too late, or something else goes on; `message` says which.",
    410: "The events that were missed are no longer kept.",
    413: "The body is too large.",
    415: "The body is not said to be JSON.",
    421: "The server does not answer to this host.",
    429: "Too many runs go on; see Retry-After.",
    503: "The server is shutting down, or its store cannot be used.",
}
_ALWAYS = (401, 403, 421, 503)
_BODY = (400, 408, 413, 415)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One way to ask."""

    method: str
    path: str
    handler: Handler
    summary: str
    answers: dict[int, str]
    """What each status that is no error means."""
    errors: tuple[int, ...] = ()
    query: tuple[tuple[str, str], ...] = ()
    body: JsonObject | None = None
    media: str = "application/json"
    is_open: bool = False
    """True if nobody needs a token or an owner for it."""


def endpoints(api: Api) -> tuple[Endpoint, ...]:
    """Give the table for *api*."""
    return (*_of_runs(api), *_of_stops(api), *_of_records(api), *_of_server(api))


def _of_runs(api: Api) -> tuple[Endpoint, ...]:
    return (
        Endpoint(
            "POST",
            "/runs",
            api.start,
            "Begin a run: the last message of a user is what is asked. The answer is a stream of AG-UI events.",
            {200: "Events of AG-UI. The header X-Run-Id names the run."},
            (*_BODY, 409, 429, 503),
            (("on_disconnect", "cancel or detach: what becomes of the run when its last stream has gone"),),
            _RUN_AGENT_INPUT,
            "text/event-stream",
        ),
        Endpoint(
            "GET",
            "/runs/{run_id}/events",
            api.events,
            "Join the stream of a run after the event that Last-Event-ID, or `after`, names; 0 is the whole.",
            {200: "Events of AG-UI."},
            (400, 404, 410),
            (("after", "The number of the last event that was seen"),),
            media="text/event-stream",
        ),
    )


def _of_stops(api: Api) -> tuple[Endpoint, ...]:
    return (
        Endpoint(
            "POST",
            "/runs/{run_id}/cancel",
            api.cancel,
            "Cancel a run, by our name of it or by the client's runId.",
            {200: "It was cancelled, and has ended.", 202: "It is cancelled, and has not ended yet."},
            (*_BODY, 404, 409),
            body=_object(
                {
                    "reason": {"type": "string", "description": "Why, for people"},
                    "urgency": {"enum": ["drain", "stop", "abandon"], "default": "stop"},
                }
            ),
        ),
        Endpoint(
            "POST",
            "/runs/{run_id}/approvals/{call_id}",
            api.answer,
            "Answer the question whether a call may run.",
            {200: "The answer was taken."},
            (*_BODY, 404, 409),
            body=_object({"answer": {"enum": ["allow", "deny"]}}, "answer"),
        ),
    )


def _of_records(api: Api) -> tuple[Endpoint, ...]:
    limit = ("limit", "How many at most, up to 500 (50)")
    return (
        Endpoint(
            "GET",
            "/runs",
            api.runs,
            "List runs, newest first.",
            {200: "A page of runs; `next` is the `before` of the next page."},
            (400,),
            (limit, ("before", "From which run on"), ("outcome", "Only those"), ("session", "Only its runs")),
        ),
        Endpoint("GET", "/runs/{run_id}", api.run, "Show one run.", {200: "The run."}, (400, 404)),
        Endpoint("GET", "/sessions", api.sessions, "List conversations.", {200: "Conversations."}, (400,), (limit,)),
        Endpoint(
            "GET",
            "/sessions/{session_id}",
            api.session,
            "Show one conversation, with its messages and its runs.",
            {200: "The conversation."},
            (400, 404),
        ),
        Endpoint(
            "GET",
            "/stats/latency",
            api.latency,
            "Tell how long stops took, in seconds, by the checkpoint that caught them.",
            {200: "Seconds by checkpoint."},
        ),
    )


def _of_server(api: Api) -> tuple[Endpoint, ...]:
    return (
        Endpoint("GET", "/healthz", api.health, "Does it answer?", {200: "It does."}, is_open=True),
        Endpoint("GET", "/readyz", api.readiness, "Does it take runs?", {200: "It does."}, (503,), is_open=True),
    )


def routes(table: tuple[Endpoint, ...]) -> list[Route]:
    """Give the routes of *table*, and that of the document which describes it."""
    document = openapi(table)

    async def describe(request: Request) -> Response:
        del request
        return JsonResponse(document)

    made = [Route(each.path, each.handler, methods=[each.method]) for each in table]
    return [*made, Route("/openapi.json", describe, methods=["GET"])]


def openapi(table: tuple[Endpoint, ...]) -> JsonObject:
    """Describe *table* by OpenAPI 3.1."""
    paths: dict[str, JsonObject] = {}
    for each in table:
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each)
    error = _object({"code": {"type": "string"}, "message": {"type": "string"}}, "code", "message")
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "loopctl",
            "version": version("loopctl-py"),
            "description": "Runs of an agent, as streams of AG-UI events, and their stops.",
        },
        "security": [{}, {"bearer": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
            "schemas": {"Error": _object({"error": error}, "error")},
        },
    }


def _operation(each: Endpoint) -> JsonObject:
    names = [part[1:-1] for part in each.path.split("/") if part.startswith("{")]
    text = {"type": "string"}
    parameters = [{"name": name, "in": "path", "required": True, "schema": text} for name in names]
    parameters += [{"name": name, "in": "query", "description": what, "schema": text} for name, what in each.query]
    errors = (421, 403, *each.errors) if each.is_open else (*_ALWAYS, *each.errors)
    failed = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    operation: JsonObject = {
        "summary": each.summary,
        "operationId": each.handler.__name__,
        "parameters": parameters,
        "responses": {
            **{
                str(status): {"description": what, "content": {each.media: {}}} for status, what in each.answers.items()
            },
            **{str(status): {"description": _ERRORS[status], "content": failed} for status in sorted(set(errors))},
        },
    }
    if each.body is not None:
        content = {"application/json": {"schema": each.body}}
        operation["requestBody"] = {"required": True, "content": content}
    if each.is_open:
        operation["security"] = []
    return operation


def _object(properties: dict[str, Any], *required: str) -> JsonObject:
    return {"type": "object", "properties": properties, "required": list(required)}


_RUN_AGENT_INPUT = _object(
    {
        "threadId": {"type": "string", "description": "The conversation; a new one is begun by a new name"},
        "runId": {"type": "string", "description": "The client's name of the run"},
        "messages": {"type": "array", "items": {"type": "object"}, "description": "Messages of AG-UI"},
    },
    "threadId",
    "runId",
    "messages",
)
