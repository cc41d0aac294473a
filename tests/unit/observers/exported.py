"""OpenTelemetry with exporters in memory, and what came out of them, easy to ask."""

from __future__ import annotations

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from loopctl.observers import OpenTelemetryObserver


class Exported:
    """One observer, and what it exported."""

    def __init__(self, **kwargs):
        self._spans = InMemorySpanExporter()
        self._reader = InMemoryMetricReader()
        self.tracers = TracerProvider(shutdown_on_exit=False)
        self.tracers.add_span_processor(self)
        self.tracers.add_span_processor(SimpleSpanProcessor(self._spans))
        self.meters = MeterProvider([self._reader], shutdown_on_exit=False)
        self.started = 0
        self.observer = OpenTelemetryObserver(self.tracers, self.meters, **kwargs)

    def on_start(self, span, parent_context=None):
        self.started += 1

    def _on_ending(self, span):
        pass

    def on_end(self, span):
        pass

    def shutdown(self):
        pass

    def force_flush(self, timeout_millis=0):
        return True

    def feed(self, events):
        for event in events:
            self.observer(event)
        return self

    @property
    def spans(self):
        return self._spans.get_finished_spans()

    def span(self, name):
        (found,) = (span for span in self.spans if span.name == name)
        return found

    @property
    def all_ended(self):
        return self.started == len(self.spans) and self.observer.open_runs == 0

    def points(self, name):
        """The points of one instrument: (attributes, point)."""
        data = self._reader.get_metrics_data()
        scopes = [scope for resource in data.resource_metrics for scope in resource.scope_metrics] if data else []
        metrics = [metric for scope in scopes for metric in scope.metrics if metric.name == name]
        return [(dict(point.attributes), point) for metric in metrics for point in metric.data.data_points]

    def labels(self, name):
        return [attributes for attributes, _ in self.points(name)]
