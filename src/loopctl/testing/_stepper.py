"""The third driver of the brain: a test that tells it what happened, and looks at what it asks for.

Rules: nothing is awaited and nothing is run, so a policy (retries, fallback, the rescue, limits) is played in plain
code, with the time and the jitter that the test chooses; what an agent keeps between runs (the conversation, how the
models did) is kept here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from loopctl.brain import (
    Brain,
    CallModel,
    CancelRequested,
    Effect,
    Finish,
    Input,
    Limits,
    ModelFailed,
    ModelReplied,
    Moment,
    Phase,
    Report,
    RunTools,
    Started,
    ToolsFinished,
    Wait,
    Waited,
    with_unique_ids,
)
from loopctl.errors import ModelError, UsageError
from loopctl.fallback import Chain
from loopctl.messages import AssistantMessage, Block, Message, Text, ToolCall, ToolResult, UserMessage
from loopctl.model import StopReason
from loopctl.record import CancelReason, Checkpoint
from loopctl.recovery import ModelRecovery

__all__ = ["Stepper", "Taken"]


@dataclass(frozen=True, slots=True)
class Taken:
    """One step of the brain."""

    before: Phase
    fact: Input
    effects: tuple[Effect, ...]
    after: Phase


class Stepper:
    """Drives a brain by hand, run after run.

    Each method tells the brain one fact and gives the effect that it waits for after that: `CallModel`, `RunTools`,
    `Wait`, or `Finish`.

    Attributes:
        brain: The brain of the run that was started last.
        history: The conversation: the completed runs.
        chain: The models and how they did; replaced with each report, as an agent does it.
        now: Seconds; `wait` moves it, and so may the test.
        jitter: What each fact carries as its draw.
        log: The steps of all runs.
    """

    def __init__(
        self,
        *,
        tools: Iterable[str] = (),
        models: Iterable[str] = ("model",),
        limits: Limits | None = None,
        recovery: ModelRecovery | None = None,
        is_streaming: bool = True,
        can_complete: bool = False,
    ) -> None:
        """Configure the runs.

        Args:
            tools: The names of the tools that exist.
            models: The names of the models, the preferred one first.
            limits: The bounds of a run; None means `Limits()`.
            recovery: What follows a failed request; None means `ModelRecovery()`.
            is_streaming: False asks in one piece.
            can_complete: True if the models can be asked in one piece, so that there is a rescue.
        """
        self._tools = frozenset(tools)
        self._limits = limits
        self._recovery = recovery
        self._is_streaming = is_streaming
        self._can_complete = can_complete
        self.brain: Brain = self._new_brain()
        self.history: tuple[Message, ...] = ()
        self.chain: Chain = Chain.of(models)
        self.now: float = 0.0
        self.jitter: float = 0.0
        self.log: list[Taken] = []

    @property
    def moment(self) -> Moment:
        """What a fact that comes now carries."""
        return Moment(self.now, self.jitter, self.chain)

    @property
    def effects(self) -> tuple[Effect, ...]:
        """The effects of the last step; empty before the first."""
        return self.log[-1].effects if self.log else ()

    def start(self, say: str = "go") -> Effect:
        """Begin a run on what the person says; one that goes on is dropped."""
        self.brain = self._new_brain()
        return self._next(Started(self.history, UserMessage(say), self.moment))

    def reply(self, *parts: str | Block, stop_reason: StopReason | None = None) -> Effect:
        """Let the model reply.

        Args:
            parts: Text, or blocks such as `ToolCall`; ids that are empty or taken are made new, as a run does it.
            stop_reason: None means `tool_calls` if there are calls, else `stop`.
        """
        blocks = tuple(Text(part) if isinstance(part, str) else part for part in parts)
        reply = with_unique_ids(AssistantMessage(blocks), self.brain.call_ids)
        ended = stop_reason or ("tool_calls" if any(isinstance(block, ToolCall) for block in blocks) else "stop")
        return self._next(ModelReplied(reply, ended, self.moment))

    def fail(self, error: ModelError | str = "lost") -> Effect:
        """Let the request fail; a text is a connection that was lost, which may be tried again."""
        failure = ModelError(error, retryable=True) if isinstance(error, str) else error
        pending = self.brain.pending
        can_rescue = self._can_complete and isinstance(pending, CallModel) and pending.mode == "stream"
        fact = ModelFailed(
            str(failure), failure.status, failure.retryable, failure.retry_after, can_rescue, moment=self.moment
        )
        return self._next(fact)

    def wait(self) -> Effect:
        """Let the time of the `Wait` pass."""
        pending = self.brain.pending
        effect = self._next(Waited())
        if isinstance(pending, Wait):
            self.now += pending.seconds
        return effect

    def finish(self, results: Mapping[str, str | ToolResult] | None = None) -> Effect:
        """Let the tools finish.

        Args:
            results: By call id; a call that is not named gives `done`.
        """
        pending = self.brain.pending
        calls = pending.calls if isinstance(pending, RunTools) else ()
        given = dict(results or {})
        unknown = given.keys() - {call.id for call in calls}
        if unknown:
            open_calls = ", ".join(call.id for call in calls) or "none"
            raise UsageError(f"no such calls are open: {', '.join(sorted(unknown))}. Open are: {open_calls}")
        ended = (given.get(call.id, "done") for call in calls)
        told = (
            result if isinstance(result, ToolResult) else ToolResult(call.id, result)
            for call, result in zip(calls, ended, strict=True)
        )
        return self._next(ToolsFinished(tuple(told), self.moment))

    def cancel(self, reason: CancelReason | str | None = None, at: Checkpoint = Checkpoint.STREAM_EVENT) -> Effect:
        """Let a cancel be noticed."""
        return self._next(CancelRequested(CancelReason.of(reason), at))

    def step(self, fact: Input) -> tuple[Effect, ...]:
        """Tell the brain any fact, do with the effects what an agent does, and give all of them.

        Raises:
            IllegalTransition: It cannot happen now; nothing has changed.
        """
        before = self.brain.phase
        effects = self.brain.step(fact)
        self.log.append(Taken(before, fact, effects, self.brain.phase))
        for effect in effects:
            self._perform(effect)
        return effects

    def _next(self, fact: Input) -> Effect:
        effects = self.step(fact)
        if not effects:
            raise UsageError(f"{type(fact).__name__} came after the end of the run, so nothing follows: start the next")
        return effects[-1]

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Report(route, "succeeded"):
                self.chain = self.chain.succeeded(route)
            case Report(route, _):
                self.chain = self.chain.failed(route, self.now)
            case Finish("completed"):
                self.history += self.brain.scratch

    def _new_brain(self) -> Brain:
        return Brain(tools=self._tools, limits=self._limits, recovery=self._recovery, is_streaming=self._is_streaming)

    def __repr__(self) -> str:
        """Say where the run is."""
        return f"<Stepper {self.brain.phase.name} turn={self.brain.turn} now={self.now:g}>"
