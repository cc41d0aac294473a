"""Stands around the parts of one session and counts: model requests, tools that begin, events, middleware.

Rule: it changes nothing but the number of callbacks of the loop, and that in the same way each time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any

from loopctl.driver import Session
from loopctl.messages import ToolCall
from loopctl.middleware import CallNext, ModelNext, ToolOutcome
from loopctl.model import Delta, Model, ModelRequest
from loopctl.observers import check_observers
from loopctl.record import Event, RunEnded
from loopctl.testing._scenario import Source
from loopctl.tools import CallContext, Tool, ToolContext, ToolRegistry

__all__ = ["Watch"]


class Watch:
    """What a session did so far."""

    def __init__(self, session: Session, reached: Callable[[Source, int, bool], object], *, is_layered: bool) -> None:
        """Stand around the parts of *session*.

        Args:
            session: It was not used yet, and its agent is its own.
            reached: Called as a call from inside begins (False) and ends (True), with its number.
            is_layered: True puts a middleware in, which makes the run take more steps.
        """
        self._reached = reached
        self.requests: int = 0
        """Model requests, those of retries, rescues and other models too."""
        self.starts: int = 0
        """Calls of tools that run as tasks. (A thread's first line runs whenever the system lets it.)"""
        self.events: list[Event] = []
        self.ended_at: float | None = None
        """When the first run had ended, by the loop's clock."""
        self.calls: dict[Source, int] = {"observer": 0, "middleware": 0, "tool": 0}
        agent = session.agent
        agent.models = tuple(_WatchedModel(model, self) for model in agent.models)
        agent.tools = ToolRegistry(_WatchedTool(tool, self) for tool in agent.tools.values())
        agent.observers = check_observers((*agent.observers, self._observe))
        if is_layered:
            layers, calls = agent.middleware, _WatchedCalls(self)
            around_tools, around_models = (*layers.around_tools, calls), (*layers.around_models, calls)
            agent.middleware = replace(layers, around_tools=around_tools, around_models=around_models)

    def begins(self, source: Source) -> int:
        """Note a call from inside; give its number."""
        number = self.calls[source]
        self.calls[source] += 1
        self._reached(source, number, False)
        return number

    def ends(self, source: Source, number: int) -> None:
        """Note the end of it."""
        self._reached(source, number, True)

    def _observe(self, event: Event) -> None:
        self.events.append(event)
        if isinstance(event, RunEnded) and self.ended_at is None:
            self.ended_at = asyncio.get_running_loop().time()
        self.begins("observer")


class _WatchedModel:
    """A model whose requests are counted; everything else of it is its own."""

    def __init__(self, model: Model, watch: Watch) -> None:
        self._model = model
        self._watch = watch

    @property
    def name(self) -> str:
        return self._model.name

    def stream(self, request: ModelRequest) -> AsyncIterator[Delta]:
        self._watch.requests += 1
        return self._model.stream(request)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._model, name)
        if name != "complete":
            return value

        async def complete(request: ModelRequest) -> Sequence[Delta]:
            self._watch.requests += 1
            deltas: Sequence[Delta] = await value(request)
            return deltas

        return complete


class _WatchedTool(Tool):
    """A tool whose calls are counted."""

    def __init__(self, tool: Tool, watch: Watch) -> None:
        self.__dict__.update(tool.__dict__)
        self._watch = watch

    def call(self, kwargs: Mapping[str, Any], ctx: ToolContext) -> Any:
        if self.is_async:
            return self._run(kwargs, ctx)
        number = self._watch.begins("tool")
        result = super().call(kwargs, ctx)
        self._watch.ends("tool", number)
        return result

    def _run(self, kwargs: Mapping[str, Any], ctx: ToolContext) -> Coroutine[Any, Any, Any]:
        call = super().call

        async def run() -> Any:
            self._watch.starts += 1
            number = self._watch.begins("tool")
            result = await call(kwargs, ctx)
            self._watch.ends("tool", number)
            return result

        return run()


class _WatchedCalls:
    """A middleware that lets everything through."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    async def tool_call(self, call: ToolCall, ctx: CallContext, call_next: CallNext) -> ToolOutcome:  # noqa: ARG002
        number = self._watch.begins("middleware")
        outcome = await call_next(call)
        self._watch.ends("middleware", number)
        return outcome

    async def model_call(self, request: ModelRequest, call_next: ModelNext) -> AsyncIterator[Delta]:
        number = self._watch.begins("middleware")
        async for delta in call_next(request):
            yield delta
        self._watch.ends("middleware", number)
