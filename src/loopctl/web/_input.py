"""What clients send: bodies, ids, numbers; everything is checked here, and bounded."""

from __future__ import annotations

import json
import re
from typing import Any

from ag_ui.core import RunAgentInput, UserMessage
from pydantic import ValidationError
from starlette.requests import ClientDisconnect, Request

from loopctl.cancel import CancelSignal
from loopctl.concurrency import Grace, Patience, TaskWork, supervise
from loopctl.record import Urgency
from loopctl.web._answers import ApiError
from loopctl.web._encode import JsonObject
from loopctl.web._run import Policy

__all__ = ["check_id", "count_of", "number_of", "policy_of", "read_json", "run_input", "text_of", "urgency_of"]

_ID = re.compile(r"[A-Za-z0-9._:@-]{1,128}", re.ASCII)
_URGENCIES = {"drain": Urgency.DRAIN, "stop": Urgency.STOP, "abandon": Urgency.ABANDON}
_SLOWEST = 30.0
"""Seconds that a body may take."""
_LONGEST_NUMBER = 15


def check_id(name: str, value: object) -> str:
    """Give *value* if it can be an id.

    Raises:
        ApiError: It cannot.
    """
    if not isinstance(value, str) or not _ID.fullmatch(value):
        raise ApiError(400, "bad_id", f"{name} is 1 to 128 letters, digits and . _ : @ - of ASCII")
    return value


async def read_json(request: Request, limit: int) -> JsonObject:
    """Read the body, at most *limit* bytes, as a JSON object; an empty one is {}.

    Raises:
        ApiError: It is too large, too slow, or no such thing.

    Cancellation:
        Leaves the body.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise ApiError(415, "not_json", "a body is JSON: send it with Content-Type: application/json")
    work = TaskWork(_body(request, limit), "loopctl request body")
    ending = await supervise(work, CancelSignal().token, grace=Grace(0), patience=Patience(total=_SLOWEST))
    if ending.host_error is not None:
        raise ending.host_error
    if ending.how != "returned" and not isinstance(ending.error, ApiError):
        raise ApiError(408, "too_slow", f"the body did not arrive within {_SLOWEST:.0f} s: send it again")
    body = ending.unwrap()
    try:
        value = json.loads(body or b"{}")
    except (ValueError, RecursionError):
        raise ApiError(400, "not_json", "the body is not JSON") from None
    if not isinstance(value, dict):
        raise ApiError(400, "not_json", "the body is a JSON object")
    return value


async def _body(request: Request, limit: int) -> bytes:
    too_large = ApiError(413, "too_large", f"the body is larger than {limit} bytes: send less")
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length[:_LONGEST_NUMBER]) > limit:
        raise too_large
    body = b""
    try:
        async for portion in request.stream():
            body += portion
            if len(body) > limit:
                raise too_large
    except ClientDisconnect:
        raise ApiError(400, "gone", "the client has gone") from None
    return body


def run_input(value: JsonObject) -> tuple[str, str, str]:
    """Give the thread, the run and the text that a `RunAgentInput` asks for; the server knows the rest itself.

    Raises:
        ApiError: It is none, or says nothing that we can pass on.
    """
    try:
        wanted = RunAgentInput.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "the body"
        raise ApiError(400, "bad_input", f"this is no RunAgentInput of AG-UI: {where}: {first['msg']}") from None
    said = [message for message in wanted.messages if isinstance(message, UserMessage)]
    text = text_of(said[-1]) if said else ""
    if not text.strip():
        raise ApiError(400, "nothing_said", "there is no text of a user in messages: the last one is what is asked")
    return check_id("threadId", wanted.thread_id), check_id("runId", wanted.run_id), text


def text_of(message: UserMessage) -> str:
    """Give the text of *message*.

    Raises:
        ApiError: It holds something else.
    """
    if isinstance(message.content, str):
        return message.content
    parts: list[str] = []
    for part in message.content:
        if part.type != "text":
            raise ApiError(400, "not_text", f"a message may hold text only, not {part.type}")
        parts.append(part.text)
    return "".join(parts)


def policy_of(value: str | None, otherwise: Policy) -> Policy:
    """Read what is to become of a run when its last stream has gone.

    Raises:
        ApiError: It is no policy.
    """
    match value:
        case None:
            return otherwise
        case "cancel" | "detach":
            return value
    raise ApiError(400, "bad_policy", "on_disconnect is cancel or detach")


def urgency_of(value: Any) -> Urgency:
    """Read an urgency; None is `stop`.

    Raises:
        ApiError: It is none.
    """
    urgency = _URGENCIES.get("stop" if value is None else value) if isinstance(value, str | None) else None
    if urgency is None:
        raise ApiError(400, "bad_urgency", f"urgency is one of {', '.join(_URGENCIES)}")
    return urgency


def number_of(name: str, value: str | None, otherwise: int) -> int:
    """Read a number, 0 or more.

    Raises:
        ApiError: It is none.
    """
    if value is None:
        return otherwise
    if not (value.isascii() and value.isdecimal() and len(value) <= _LONGEST_NUMBER):
        raise ApiError(400, "bad_number", f"{name} is a whole number, 0 or more")
    return int(value)


def count_of(request: Request, most: int = 500) -> int:
    """Read how many are asked for, by `limit`.

    Raises:
        ApiError: It is no number.
    """
    return min(most, max(1, number_of("limit", request.query_params.get("limit"), 50)))
