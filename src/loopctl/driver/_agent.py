"""The configuration of an agent: shared by any number of sessions, never changed by them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from typing import Any

from loopctl.cancel import CancelSignal, CancelToken
from loopctl.concurrency import Straggler, interrupts, run as run_bounded
from loopctl.driver._config import RunConfig
from loopctl.driver._execution import running_of
from loopctl.driver._handle import RunHandle
from loopctl.driver._models import resolve_model
from loopctl.driver._session import Session
from loopctl.errors import LoopError, UsageError
from loopctl.fallback import BreakerConfig, Chain
from loopctl.messages import Message, UserMessage
from loopctl.middleware import Layers, Middleware, check_middleware
from loopctl.model import Model
from loopctl.observers import Observer, Observers, check_observers
from loopctl.record import CancelReason, Run, Urgency
from loopctl.recovery import ModelRecovery, Recovery, ToolRecovery, ToolStrategy
from loopctl.tools import Approver, Tool, ToolRegistry, check_approver

__all__ = ["Agent"]

_TERMINATED = 128 + 15
"""What a shell reports of a process that SIGTERM ended."""


class Agent:
    """What answers: a model, its tools, its instructions, the bounds of its runs."""

    def __init__(  # noqa: PLR0913 - the public constructor: spec section 6
        self,
        model: Model | str,
        tools: Iterable[Tool | Callable[..., Any]] = (),
        instructions: str = "",
        *,
        fallback_models: Iterable[Model | str] = (),
        observers: Iterable[Observer] = (),
        middleware: Iterable[Middleware] = (),
        approve: Approver | None = None,
        recovery: Recovery | ModelRecovery | ToolRecovery | BreakerConfig | ToolStrategy | None = None,
        config: RunConfig | None = None,
    ) -> None:
        """Configure an agent; nothing is opened before the first run.

        Args:
            model: A `Model`, or a name: `openai:gpt-5.2`, `ollama:llama3.2`, `local`, `local:/path/model.gguf`.
            tools: Functions that the model may call.
            instructions: What the model is told before the conversation.
            fallback_models: Models, or names, that are asked in this order when *model* is given up for a turn; see
                `loopctl.fallback`.
            observers: Functions that are called with each event of every run, in this order; see `loopctl.observers`.
            middleware: Objects with `async tool_call(call, ctx, call_next)`, which stand around each tool call,
                `tool_text(text)`, which rewrite what it says, or `model_call(request, call_next)`, which stand around
                each model request; the first one outermost. See `loopctl.middleware`.
            approve: `async approve(call, ctx)`, asked before each call of a tool that needs approval; gives True,
                False or an `Approval`. None means nobody can be asked: such a call is denied.
            recovery: What follows a failed model request, and a failed tool call: a `Recovery`, or one part of it (a
                `ModelRecovery`, a `ToolRecovery`, a `BreakerConfig`), or a strategy for tools; None means the defaults,
                in which no tool call is tried twice.
            config: The bounds of its runs; None means `RunConfig()`.

        Raises:
            UnknownModel: No provider answers to the name.
            MissingExtra: The model's provider needs a package that is not installed.
            UsageError: Something cannot be a model, a tool or a configuration.
            LoopError: A part that this version does not have was asked for.
        """
        if config is not None and not isinstance(config, RunConfig):
            raise UsageError(f"config= takes a RunConfig, not {type(config).__name__}")
        if not isinstance(instructions, str):
            raise UsageError(f"instructions= takes a text, not {type(instructions).__name__}")
        if isinstance(fallback_models, str):
            raise UsageError(f"fallback_models= takes a list of models: give [{fallback_models!r}]")
        self.models: tuple[Model, ...] = tuple(map(resolve_model, (model, *fallback_models)))
        self.model: Model = self.models[0]
        self.recovery: Recovery = Recovery.of(recovery)
        self.chain: Chain = Chain.of((each.name for each in self.models), self.recovery.breaker)
        """How the models did so far, in all sessions; replaced with each report."""
        self._held: dict[str, Straggler] = {}
        """The resources that abandoned tool calls still touch, in all sessions."""
        self.tools: ToolRegistry = ToolRegistry(tools)
        self.middleware: Layers = check_middleware(middleware)
        self.approve: Approver | None = check_approver(approve)
        self.observers: Observers = check_observers(observers)
        self.instructions = instructions
        self.config: RunConfig = config if config is not None else RunConfig()

    @property
    def active(self) -> tuple[RunHandle, ...]:
        """Its runs that have not ended, in all sessions, loops and threads, the oldest first."""
        return tuple(map(RunHandle, running_of(self)))

    def session(
        self, *, history: Iterable[Message] = (), store: str | os.PathLike[str] | None = None, id: str | None = None
    ) -> Session:
        """Begin a conversation; nothing is opened before it is needed.

        Args:
            history: What was said before.
            store: The file that the session and its runs are kept in, made if it is not there; with the ledger of
                effects, which `ToolContext.once` needs. A session that is in it goes on: see `Session.open`.
            id: A name for the session; None makes one.

        Raises:
            UsageError: *history* is one that a provider would reject, or *store* is not the path of a file.
        """
        return Session(self, history, id, store)

    def run_sync(self, input: str | UserMessage, *, signal: CancelSignal | CancelToken | None = None) -> Run:
        """Run to the end, from a script without an event loop.

        In the main thread the first Ctrl-C stops the run, the second abandons what does not end, the third raises
        `KeyboardInterrupt`. SIGTERM stops the run too (origin `shutdown`), and then ends the program, unless it has a
        handler of its own for it. The handlers that were there before are put back, and functions among them are still
        called.

        Args:
            input: What the person says.
            signal: Ends the run too, for instance from another thread.

        Returns:
            The completed run.

        Raises:
            Cancelled: It was stopped.
            LoopError: It failed, or ran out of turns.
            UsageError: An event loop is running in this thread: await `Session.run` there.
            KeyboardInterrupt: Ctrl-C was pressed a third time, or again when the run had ended.
            SystemExit: The process was asked to terminate; its code is 143, its cause what ended the run.

        Cancellation:
            Not a coroutine.
        """
        if asyncio._get_running_loop() is not None:
            raise UsageError("run_sync cannot be called from a running event loop: await agent.session().run(…) there")
        session = self.session()

        harder = iter((Urgency.STOP, Urgency.ABANDON))

        def stop(reason: CancelReason) -> None:
            # Not to be asked of the signal: the run re-arms it at its end.
            urgency = next(harder, None)
            if urgency is None or session.runs:
                raise KeyboardInterrupt
            session.signal.cancel(reason, urgency=urgency)

        with interrupts(stop) as arrived:
            try:
                run = run_bounded(session.run(input, signal=signal))
            except LoopError as error:
                if arrived.is_fatal:  # whoever asked the process to end must not see it go on after `except Cancelled`
                    raise SystemExit(_TERMINATED) from error
                raise
            if arrived.is_fatal:  # it came when the run had been committed
                raise SystemExit(_TERMINATED)
            return run

    async def aclose(self) -> None:
        """Close what the models hold open: connections, local servers; idempotent.

        Cancellation:
            As of the models' own `aclose`.
        """
        async with AsyncExitStack() as closing:  # each of them is closed, whatever another one does
            for model in reversed(self.models):
                close = getattr(model, "aclose", None)
                if close is not None:
                    closing.push_async_callback(close)

    def __repr__(self) -> str:
        """Name the model and count the tools."""
        return f"<Agent {self.model.name}, {len(self.tools)} tools>"
