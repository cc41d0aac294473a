"""Ask a server (`loopctl serve`, or an application of its own) for its runs, and to cancel one: the HTTP API.

Rules: an answer becomes what another process on this machine would have said, so the commands say it in the same words;
a server that cannot be reached, or says no, is one line.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from loopctl.control import LiveProcess, Receipt, ReceiptState
from loopctl.errors import LoopError, MissingExtra, UsageError
from loopctl.record import CancelReason, Run, RunStatus, Urgency

try:
    import httpx2
except ImportError as error:
    raise MissingExtra.of("--url", "web") from error

__all__ = ["Remote", "remote"]

_MOST = 200
"""Runs that are listed, at most."""
_PATIENCE = 10.0
"""Seconds for a server to be reached, and to say something."""
_LONGEST_WAIT = 90.0
"""Seconds for the answer to a cancel, which comes when the run has ended, or its bound is over."""
_STATES: dict[int, ReceiptState] = {200: "ended", 202: "cancelling", 409: "already_ended", 404: "unknown"}


class Remote:
    """One server; made by `remote`."""

    def __init__(self, url: str, client: httpx2.AsyncClient) -> None:
        """Ask the server at *url* by *client*."""
        self._url = url
        self._client = client

    async def list_processes(self) -> list[LiveProcess]:
        """Give the server, with its runs.

        Raises:
            LoopError: It cannot be reached, or says no.

        Cancellation:
            Leaves the question.
        """
        status, answer = await self._ask("GET", f"/runs?outcome=running&limit={_MOST}")
        if status != httpx2.codes.OK:
            raise self._refused(status, answer)
        try:
            runs = tuple(_status(run["status"], self._url) for run in answer["runs"] if run["status"] is not None)
        except (KeyError, TypeError, AttributeError, msgspec.ValidationError) as error:
            raise LoopError(f"{self._url} does not speak the API of loopctl: {error}") from error
        return [LiveProcess(runs[0].pid if runs else 0, self._url, runs)]

    async def cancel(self, run_id: str, reason: CancelReason, urgency: Urgency) -> Receipt:
        """Cancel a run; who asks is for the server to say.

        Raises:
            LoopError: It cannot be reached, or says no.

        Cancellation:
            Leaves the wait; what was cancelled stays cancelled.
        """
        body = {"urgency": urgency.name.lower(), **({"reason": reason.message} if reason.message else {})}
        status, answer = await self._ask("POST", f"/runs/{run_id}/cancel", body)
        if status not in _STATES:
            raise self._refused(status, answer)
        if answer.get("state") == "unknown":  # of a store that others write too: it goes on, and not there
            return Receipt(run_id, "unknown")
        try:
            run = None if answer.get("run") is None else Run.from_json(answer["run"])
        except UsageError as error:
            raise LoopError(f"{self._url} does not speak the API of loopctl: {error}") from error
        outcome = answer.get("outcome") if run is None else run.outcome
        return Receipt(run_id, _STATES[status], outcome, None if run is None else run.stop, run=run)

    async def _ask(self, method: str, path: str, body: dict[str, str] | None = None) -> tuple[int, dict[str, Any]]:
        try:
            answer = await self._client.request(method, self._url + path, json=body)
            value = answer.json()
        except httpx2.HTTPError as error:
            what = str(error) or type(error).__name__
            raise LoopError(f"{self._url} cannot be reached: {what}. Does loopctl serve run there?") from error
        except ValueError as error:
            raise LoopError(f"{self._url} does not speak the API of loopctl: its answer is no JSON") from error
        return answer.status_code, value if isinstance(value, dict) else {}

    def _refused(self, status: int, answer: dict[str, Any]) -> LoopError:
        error = answer.get("error")
        message = error.get("message") if isinstance(error, dict) else None
        return LoopError(f"{self._url} said no ({status}): {message or 'it does not say why'}")


@asynccontextmanager
async def remote(url: str, token: str | None) -> AsyncIterator[Remote]:
    """Give the server at *url*, which is shown *token* if there is one.

    Raises:
        UsageError: *url* is none.

    Cancellation:
        Never suspends by itself.
    """
    try:
        parsed = httpx2.URL(url)
    except (httpx2.InvalidURL, TypeError) as error:
        raise UsageError(f"--url {url} is no URL: {error}") from error
    if parsed.scheme not in {"http", "https"} or not parsed.host:
        raise UsageError(f"--url {url} is no URL of a server: write http://127.0.0.1:8780")
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    timeout = httpx2.Timeout(_PATIENCE, read=_LONGEST_WAIT)
    async with httpx2.AsyncClient(headers=headers, timeout=timeout) as client:
        yield Remote(url.rstrip("/"), client)


def _status(value: dict[str, Any], url: str) -> RunStatus:
    return msgspec.convert({**value, "checkpoint": value["checkpoint"].lower(), "command": url}, RunStatus)
