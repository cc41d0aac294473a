"""The instruments of OpenTelemetry that runs are counted and timed with.

Rules: what is not known is not recorded. A cancel is a value of the outcome, never of `error.type`. Labels have few
values: no ids, no free text, and no tool name that only a model has ever heard of.
"""

from __future__ import annotations

from opentelemetry.metrics import Histogram, Meter

from loopctl.messages import Usage
from loopctl.observers._conventions import ERROR_TYPE, Attributes, run_error, stop_labels
from loopctl.record import Run, StragglerEnded

__all__ = ["Metrics"]

_DURATION_NAMES = {
    "chat": "gen_ai.client.operation.duration",
    "execute_tool": "gen_ai.execute_tool.duration",
    "invoke_agent": "gen_ai.invoke_agent.duration",
}
# The buckets of durations and tokens are those of the conventions.
_DURATIONS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
_TOKENS = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864)
_LATENCIES = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """The instruments of one observer."""

    def __init__(self, meter: Meter) -> None:
        """Make them with *meter*."""
        self._durations = {
            operation: _histogram(meter, name, "s", f"Duration of {operation}.", _DURATIONS)
            for operation, name in _DURATION_NAMES.items()
        }
        self._tokens = _histogram(meter, "gen_ai.client.token.usage", "{token}", "Tokens used by a request.", _TOKENS)
        self._latency = _histogram(
            meter, "loopctl.cancel.latency", "s", "From a cancel to the end of the run.", _LATENCIES
        )
        self._late = _histogram(
            meter, "loopctl.straggler.duration", "s", "Whole duration of work that outlived its run.", _DURATIONS
        )
        self._runs = meter.create_counter("loopctl.runs", "{run}", "Runs that have ended, by outcome.")

    def note_duration(self, operation: str, seconds: float, labels: Attributes) -> None:
        """Record how long one model request, tool call or run took."""
        self._durations[operation].record(seconds, {"gen_ai.operation.name": operation, **labels})

    def note_usage(self, usage: Usage, model: Attributes) -> None:
        """Record what one request used, as far as it is known; marked if there was more."""
        labels = {"gen_ai.operation.name": "chat", **model}
        if usage.is_partial:
            labels["loopctl.usage.partial"] = True
        for kind, count in (("input", usage.input_tokens), ("output", usage.output_tokens)):
            if count:  # zero is a request that was never sent
                self._tokens.record(count, {**labels, "gen_ai.token.type": kind})

    def note_run(self, run: Run) -> None:
        """Count a run that has ended."""
        labels = dict[str, str | bool | int | float | tuple[str, ...]]({"loopctl.run.outcome": run.outcome})
        if run.stop is not None:
            self._latency.record(run.stop.latency, stop_labels(run.stop))
            labels["loopctl.cancel.origin"] = run.stop.reason.origin
        error = run_error(run)
        if error is not None:
            labels[ERROR_TYPE] = error
        self._runs.add(1, labels)

    def note_straggler(self, event: StragglerEnded) -> None:
        """Record abandoned work that has ended after all."""
        how = "returned" if event.error is None else "raised"
        self._late.record(event.straggler.age, {"loopctl.straggler.kind": event.straggler.kind, "loopctl.late": how})


def _histogram(meter: Meter, name: str, unit: str, description: str, bounds: tuple[float, ...]) -> Histogram:
    return meter.create_histogram(name, unit, description, explicit_bucket_boundaries_advisory=bounds)
