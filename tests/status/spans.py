"""Providers of OpenTelemetry that keep all in memory, and what they have."""

from __future__ import annotations

from typing import TypedDict

from cloudevents.core.v1.event import CloudEvent
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader, Metric, NumberDataPoint
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tolliver.codecs import CloudEvents, Headed

EVENTS = CloudEvents()


def event(word: str, **attributes: str) -> CloudEvent:
    return CloudEvent({"id": word, "source": "s", "type": "t", **attributes}, {"word": word})


class Providers(TypedDict):
    """Choices of `instrument`."""

    meter_provider: MeterProvider
    tracer_provider: TracerProvider


class Memory:
    """Give `**memory.providers` to `instrument`."""

    def __init__(self) -> None:
        self._spans = InMemorySpanExporter()
        self._reader = InMemoryMetricReader()
        tracer_provider = TracerProvider(shutdown_on_exit=False)
        tracer_provider.add_span_processor(SimpleSpanProcessor(self._spans))
        self.tracer = tracer_provider.get_tracer("test")
        self.tracer_provider = tracer_provider
        self.meter_provider = MeterProvider([self._reader], shutdown_on_exit=False)

    @property
    def providers(self) -> Providers:
        return {"meter_provider": self.meter_provider, "tracer_provider": self.tracer_provider}

    @property
    def spans(self) -> list[ReadableSpan]:
        """Those that have ended."""
        return [*self._spans.get_finished_spans()]

    def span(self, name: str) -> ReadableSpan:
        [found] = [one for one in self.spans if one.name == name]
        return found

    def _read(self) -> list[Metric]:
        read = self._reader.get_metrics_data()
        scopes = [] if read is None else [one for resource in read.resource_metrics for one in resource.scope_metrics]
        return [metric for scope in scopes for metric in scope.metrics]

    def numbers(self) -> dict[str, list[NumberDataPoint]]:
        """Read now: from the names of counters and gauges to their points."""
        found: dict[str, list[NumberDataPoint]] = {}
        for metric in self._read():
            points = [one for one in metric.data.data_points if isinstance(one, NumberDataPoint)]
            found.setdefault(metric.name, []).extend(points)
        return {name: points for name, points in found.items() if points}

    def histograms(self) -> dict[str, list[HistogramDataPoint]]:
        """Read now: from the names of histograms to their points."""
        found: dict[str, list[HistogramDataPoint]] = {}
        for metric in self._read():
            points = [one for one in metric.data.data_points if isinstance(one, HistogramDataPoint)]
            found.setdefault(metric.name, []).extend(points)
        return {name: points for name, points in found.items() if points}


def ids(span: ReadableSpan) -> tuple[int, int]:
    """Of its trace, and its own."""
    context = span.get_span_context()
    assert context is not None
    return context.trace_id, context.span_id


def parent(span: ReadableSpan) -> tuple[int, int] | None:
    return None if span.parent is None else (span.parent.trace_id, span.parent.span_id)


def linked(span: ReadableSpan) -> list[tuple[int, int]]:
    return [(one.context.trace_id, one.context.span_id) for one in span.links]


def carried(value: Headed[object]) -> tuple[int, int]:
    """The trace and the span that a value's headers name."""
    _version, trace_id, span_id, _flags = value.headers["traceparent"].split("-")
    return int(trace_id, 16), int(span_id, 16)
