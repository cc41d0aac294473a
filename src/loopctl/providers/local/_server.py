"""Owns a model's server: at most one child process at a time, shared by every task, loop and thread that asks for it.

Rules:

- Single flight without a task of its own: who comes first starts the child, everybody waits for it, and the last one
  who gives up while it still loads ends it. So a cancelled start leaves nothing, and does not disturb who still waits.
- A child that died is replaced at the next `ready()`; nothing is repeated for a request that it took with it.
- A request that was dropped while its prompt was read keeps the child busy until the prompt is read (llama.cpp looks
  for lost clients between tokens only). If it is still so when the next one comes, and nobody else uses the child, the
  child is replaced: loading takes about a second, a long prompt a minute.
- The lock is held for a few statements, or for the milliseconds that starting or killing a child takes.
"""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2

from loopctl.errors import ModelError
from loopctl.providers._http import HttpClients
from loopctl.providers._transport import HttpOptions
from loopctl.providers.local._process import ServerProcess, ServerSpec
from loopctl.providers.openai import OpenAIModel

__all__ = ["Endpoint", "LocalServer"]

_ASK_TIMEOUT = 2.0  # seconds; it answers between two batches of a prompt
# llama.cpp closes idle connections after some seconds, which can meet a request on its way. On loopback a new one is
# as cheap.
_NO_REUSE = HttpOptions(max_idle_connections=0)
_LOOKS = 10  # at a busy slot before the child is given up; each takes some milliseconds


class Endpoint:
    """One life of the server: its process and the clients that talk to it."""

    def __init__(self, spec: ServerSpec, process: ServerProcess, sampling: Mapping[str, float]) -> None:
        self.process = process
        self.base_url = f"{process.address}/v1"
        self._spec = spec
        self.model = self.model_with(sampling)
        headers = {"authorization": f"Bearer {spec.key}"}
        self._clients = HttpClients(process.address, _NO_REUSE, headers)

    def model_with(self, extra_body: Mapping[str, Any]) -> OpenAIModel:
        """Give a client of its own, which the caller closes, that adds *extra_body* to its requests."""
        spec = self._spec
        return OpenAIModel(
            spec.name, base_url=self.base_url, api_key=spec.key, name=spec.name, extra_body=extra_body, http=_NO_REUSE
        )

    async def slots(self) -> list[dict[str, Any]] | None:
        """Ask what the server's slots do; None if it has no time to answer, [] if there is nobody to ask."""
        client = await self._clients.client()
        try:
            answer = await client.get(f"{self.process.address}/slots", timeout=_ASK_TIMEOUT)
            slots: list[dict[str, Any]] = json.loads(answer.raise_for_status().content)
        except httpx2.TimeoutException:
            return None
        except httpx2.HTTPError:
            return []
        return slots

    async def is_listening(self) -> bool:
        """Tell whether it answers at all; a server with a lot to do does, as this question does not wait for a slot."""
        client = await self._clients.client()
        try:
            return (await client.get(f"{self.process.address}/health", timeout=_ASK_TIMEOUT)).is_success
        except httpx2.TimeoutException:
            return True
        except httpx2.HTTPError:
            return False

    async def aclose(self) -> None:
        """Close the running loop's connections."""
        try:
            await self._clients.aclose()
        finally:
            await self.model.aclose()


@dataclass(slots=True)
class _Life:
    """A started child, who waits for it, and who uses it."""

    process: ServerProcess
    waiting: int = 0
    streams: int = 0
    endpoint: Endpoint | None = None
    has_unread_prompt: bool = False


class LocalServer:
    """Gives an `Endpoint` that works, starting and replacing the child as needed. Safe to use from several threads."""

    def __init__(self, spec: ServerSpec, sampling: Mapping[str, float]) -> None:
        self._spec = spec
        self._sampling = sampling
        self._lock = threading.Lock()
        self._life: _Life | None = None
        self._retired: list[Endpoint] = []

    @property
    def pid(self) -> int | None:
        """The process id of the child that is loading or serving, or None."""
        life = self._life
        return life.process.pid if life is not None and life.process.state() != "ended" else None

    async def ready(self) -> Endpoint:
        """Wait until the server serves, starting it if need be.

        Raises:
            ModelError: The child ended before it served.

        Cancellation:
            If nobody else waits for the start, the child is killed and reaped.
        """
        await self._drop_unread_prompt()
        life = self._join()
        try:
            await self._close_retired()
            state = await life.process.loaded()
        finally:
            self._leave(life)
        if state != "ready":
            life.process.end()
            raise self._ended(life.process, "ended while it loaded the model")
        with self._lock:
            life.endpoint = life.endpoint or Endpoint(self._spec, life.process, self._sampling)
            return life.endpoint

    @asynccontextmanager
    async def lease(self) -> AsyncIterator[Lease]:
        """Give an endpoint that is not replaced while it is leased."""
        while True:
            endpoint = await self.ready()
            with self._lock:
                life = self._life
                if life is not None and life.endpoint is endpoint:
                    life.streams += 1
                    break
        try:
            yield Lease(endpoint, life)
        finally:
            with self._lock:
                life.streams -= 1

    async def slots(self) -> list[dict[str, Any]] | None:
        """Ask what the slots do: [] if no server serves, None if it has no time to answer."""
        life = self._life
        if life is None or life.endpoint is None or life.process.state() == "ended":
            return []
        return await life.endpoint.slots()

    async def explain(self, error: ModelError, endpoint: Endpoint) -> ModelError:
        """Give *error* as it is, or say instead that the child has died, if it has."""
        process = endpoint.process
        if error.status is not None or (process.state() == "ready" and await endpoint.is_listening()):
            return error
        process.end()  # it serves no more; a killed process drops its connections before it can be reaped
        return self._ended(process, "died in the middle of a request")

    async def aclose(self) -> None:
        """End the child and close the running loop's connections. A later use starts anew."""
        with self._lock:
            life, self._life = self._life, None
        if life is not None:
            life.process.end()
            self._retire(life)
        await self._close_retired()

    def _join(self) -> _Life:
        with self._lock:
            life = self._life
            if life is None or life.process.state() == "ended":
                if life is not None:
                    self._retire(life)
                life = self._life = _Life(self._start())
            life.waiting += 1
            return life

    def _leave(self, life: _Life) -> None:
        with self._lock:
            life.waiting -= 1
            if not life.waiting and life.process.state() == "loading":
                life.process.end()

    def _retire(self, life: _Life) -> None:
        if life.endpoint is not None:
            self._retired.append(life.endpoint)

    async def _close_retired(self) -> None:
        while self._retired:
            await self._retired.pop().aclose()

    def _start(self) -> ServerProcess:
        try:
            return ServerProcess(self._spec)
        except OSError as error:
            raise ModelError(f"the server of {self._spec.name} cannot be started: {error}", retryable=True) from error

    async def _drop_unread_prompt(self) -> None:
        life = self._life
        if life is None or not life.has_unread_prompt or life.streams or life.endpoint is None:
            return
        for _ in range(_LOOKS):
            slots = await life.endpoint.slots()
            if slots is not None and not any(slot["is_processing"] for slot in slots):
                life.has_unread_prompt = False
                return
        with self._lock:
            if not life.streams:
                life.process.end()

    def _ended(self, process: ServerProcess, what: str) -> ModelError:
        code, words = process.returncode, process.last_words()
        how = "" if code is None else f" (signal {-code})" if code < 0 else f" (exit status {code})"
        said = f": {words}" if words else ""
        is_killed = code is None or code < 0
        move = "Try again: the next request starts a new one." if is_killed else f"Check the file {self._spec.path}."
        return ModelError(f"the server of {self._spec.name} {what}{how}{said}. {move}", retryable=is_killed)


@dataclass(frozen=True, slots=True)
class Lease:
    """The use of an endpoint by one request."""

    endpoint: Endpoint
    _life: _Life

    def leave_prompt_unread(self) -> None:
        """Note that a request was dropped before its first token: the server reads its prompt to the end."""
        self._life.has_unread_prompt = True
