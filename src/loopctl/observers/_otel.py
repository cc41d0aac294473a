"""The observer for OpenTelemetry: which run an event belongs to, and nothing of what it is called there.

Invariants: nothing is kept of a run after its end, and never more than `max_open_runs`. Sessions in several loops and
threads may share one observer. Without the extra `otel` this module can be imported; only the class refuses.
"""

from __future__ import annotations

import threading
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from loopctl.errors import MissingExtra, UsageError
from loopctl.record import (
    Event,
    RunEnded,
    RunStarted,
    StragglerEnded,
    TextDelta,
    ThinkingDelta,
    ToolProgress,
)

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from loopctl.observers._trace import RunTrace

__all__ = ["OpenTelemetryObserver"]


class OpenTelemetryObserver:
    """Traces and measures runs by the GenAI conventions of OpenTelemetry.

    A run is a span `invoke_agent` under the span that was current where it was started; its model requests are `chat`
    spans, its tool calls `execute_tool` spans. Whoever stops a run on purpose makes no error of it: the status stays
    unset, without `error.type`. What people and models said is in none of them.

    Source: the GenAI conventions, and for what a cancel is, the HTTP conventions on a request that its caller stopped.
    """

    def __init__(
        self,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        *,
        agent_name: str = "",
        max_open_runs: int = 10_000,
    ) -> None:
        """Trace to *tracer_provider* and measure with *meter_provider*.

        Args:
            tracer_provider: None takes the global one.
            meter_provider: None takes the global one.
            agent_name: How the agent is called in span names and labels; empty leaves it out.
            max_open_runs: Runs that are followed at once, 1 or more. Beyond it the oldest is given up, its spans ended:
                a run whose event loop was thrown away never tells its end.

        Raises:
            MissingExtra: The extra `otel` is not installed.
            UsageError: *max_open_runs* is less than 1.
        """
        try:
            from opentelemetry.metrics import get_meter
            from opentelemetry.trace import get_tracer

            from loopctl.observers._metrics import Metrics
            from loopctl.observers._trace import RunTrace
        except ModuleNotFoundError as error:
            raise MissingExtra.of("OpenTelemetryObserver", "otel") from error
        if max_open_runs < 1:
            raise UsageError(f"max_open_runs={max_open_runs}: follow one run or more")
        ours = _our_version()
        self._tracer = get_tracer("loopctl", ours, tracer_provider)
        self._metrics = Metrics(get_meter("loopctl", ours, meter_provider))
        self._begin = RunTrace.begin
        self._agent = {"gen_ai.agent.name": agent_name} if agent_name else {}
        self._most = max_open_runs
        self._lock = threading.Lock()
        self._open: dict[str, RunTrace] = {}

    @property
    def open_runs(self) -> int:
        """How many runs are followed now."""
        return len(self._open)

    def __call__(self, event: Event) -> None:
        """Take *event*."""
        match event:
            case TextDelta() | ThinkingDelta() | ToolProgress():
                return
            case RunStarted():
                self._start(event.run_id)
            case RunEnded():
                self._end(event)
            case StragglerEnded():  # its run's span is closed; a measure of its own has no parent
                self._metrics.note_straggler(event)
            case _:
                trace = self._open.get(event.run_id)
                if trace is not None:
                    trace.see(event)

    def _start(self, run_id: str) -> None:
        trace = self._begin(self._tracer, self._metrics, run_id, self._agent)
        given_up = None
        with self._lock:
            if len(self._open) >= self._most:
                given_up = self._open.pop(next(iter(self._open)))
            self._open[run_id] = trace
        if given_up is not None:
            given_up.end(None)

    def _end(self, event: RunEnded) -> None:
        with self._lock:
            trace = self._open.pop(event.run.id, None)
        try:
            if trace is not None:
                trace.end(event.run)
        finally:
            self._metrics.note_run(event.run)

    def __repr__(self) -> str:
        """Say how many runs are followed."""
        return f"<OpenTelemetryObserver, {self.open_runs} open runs>"


def _our_version() -> str:
    try:
        return version("loopctl-py")
    except PackageNotFoundError:  # a copy inside of another program, without the metadata of an installation
        return ""
