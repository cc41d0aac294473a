"""A model that plays a script and keeps a record of every request.

Rules: it refuses a conversation that a provider would refuse; replies are dealt in the order of the requests; what
happened to each reply (opened, cancelled, closed, where) is in its `Exchange`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence

from loopctl.errors import ModelError
from loopctl.messages import find_problems
from loopctl.model import Delta, ModelRequest
from loopctl.testing._script import Ending, Exchange, Reply, Script, Step, end, script_of

__all__ = ["NonStreamingModel", "ScriptedModel"]


class ScriptedModel:
    """A `Model` whose replies are written in the test.

    Attributes:
        name: How records and errors call it.
        requests: What was asked, in order.
        exchanges: What became of each request, in the same order.
        preparations: What became of each call of `prepare`.
        acloses: How often `aclose` was called.
    """

    def __init__(
        self, *replies: Reply, name: str = "scripted", repeat: bool = False, prepare: Reply | None = None
    ) -> None:
        """Write the script.

        Args:
            replies: One for each request, in order.
            name: How records and errors call the model.
            repeat: Play the last reply again when they run out, instead of failing the request.
            prepare: What `prepare` plays (waits and failures; its deltas are dropped) until it once got to its end.
        """
        self.name = name
        self.requests: list[ModelRequest] = []
        self.exchanges: list[Exchange] = []
        self.preparations: list[Exchange] = []
        self.acloses: int = 0
        self._replies = replies
        self._repeat = repeat
        self._prepare = prepare

    @property
    def opened(self) -> list[Exchange]:
        """The exchanges whose reply somebody began to read."""
        return [exchange for exchange in self.exchanges if exchange.opened_in is not None]

    @property
    def closed(self) -> list[Exchange]:
        """The exchanges whose reply has ended, one way or another."""
        return [exchange for exchange in self.exchanges if exchange.finally_runs]

    @property
    def active(self) -> list[Exchange]:
        """The exchanges that are open now."""
        return [exchange for exchange in self.opened if not exchange.is_cleaned_up]

    def stream(self, request: ModelRequest) -> AsyncIterator[Delta]:
        """Play the next reply.

        Raises:
            ModelError: As scripted; also for a malformed conversation (status 400), and when no reply is left.

        Cancellation:
            As scripted; by default the reply ends at its next await, and its exchange says so.
        """
        exchange = self._exchange(request, is_streamed=True)
        return self._play(exchange, self._script(exchange))

    async def prepare(self) -> None:
        """Play the `prepare` script, unless it already got to its end.

        Cancellation:
            As scripted.
        """
        if self._prepare is None or any(one.ending == "returned" for one in self.preparations):
            return
        exchange = Exchange(0)
        self.preparations.append(exchange)
        async for _ in self._play(exchange, script_of(self._prepare)):
            pass

    async def aclose(self) -> None:
        """Count the call.

        Cancellation:
            Does not wait.
        """
        self.acloses += 1

    def _exchange(self, request: ModelRequest, *, is_streamed: bool) -> Exchange:
        self.requests.append(request)
        exchange = Exchange(len(self.requests), request, is_streamed)
        self.exchanges.append(exchange)
        return exchange

    def _script(self, exchange: Exchange) -> Script | ModelError:
        request = exchange.request
        assert request is not None
        problems = find_problems(request.messages)
        if problems:
            return ModelError(f"model {self.name}: the conversation is malformed: {'; '.join(problems)}", status=400)
        if exchange.number > len(self._replies) and not (self._repeat and self._replies):
            return ModelError(
                f"model {self.name}: request {exchange.number} came, but the script has {len(self._replies)} replies. "
                f"Write one more, or give repeat=True. The request ends with {request.messages[-1:]!r}"
            )
        reply = self._replies[min(exchange.number, len(self._replies)) - 1]
        return (*script_of(reply, request), *end())

    async def _play(self, exchange: Exchange, script: Script | ModelError) -> AsyncGenerator[Delta, None]:
        exchange.opened_in = asyncio.current_task()
        try:
            if isinstance(script, ModelError):
                raise script
            for step in script:
                if exchange.is_finished:
                    break
                delta = await _perform(exchange, step)
                if delta is not None:
                    exchange.deltas += 1
                    yield delta
            exchange.ending = "returned"
        except BaseException as error:
            exchange.ending = _ending(error)
            raise
        finally:
            await _clean_up(exchange)


class NonStreamingModel(ScriptedModel):
    """A scripted model that can also answer in one piece: for `RunConfig(stream=False)`."""

    async def complete(self, request: ModelRequest) -> Sequence[Delta]:
        """Play the next reply and give all of it at once.

        Raises:
            ModelError: As `stream` does.

        Cancellation:
            As scripted; what was played until then is lost.
        """
        exchange = self._exchange(request, is_streamed=False)
        return [delta async for delta in self._play(exchange, self._script(exchange))]


async def _perform(exchange: Exchange, step: Step) -> Delta | None:
    while True:
        try:
            return await step.perform(exchange)
        except asyncio.CancelledError as cancelled:
            _meet_cancel(exchange, cancelled)
            if step.is_wait:
                return None


def _meet_cancel(exchange: Exchange, cancelled: asyncio.CancelledError) -> None:
    """Do with a cancellation what the script says: swallow it, answer it with an error, or let it through."""
    exchange.cancels += 1
    if exchange.error_on_cancel is not None:
        raise exchange.error_on_cancel from cancelled
    if not exchange.is_absorbing:
        raise cancelled


def _ending(error: BaseException) -> Ending:
    if isinstance(error, asyncio.CancelledError):
        return "cancelled"
    return "closed" if isinstance(error, GeneratorExit) else "failed"


async def _clean_up(exchange: Exchange) -> None:
    exchange.finally_runs += 1
    exchange.closed_in = asyncio.current_task()
    if exchange.close_seconds:
        await asyncio.sleep(exchange.close_seconds)
    exchange.is_cleaned_up = True
