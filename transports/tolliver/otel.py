"""OpenTelemetry: metrics and spans of an instance.

Spans and metrics of calls and handlers follow the messaging conventions, version 1.44. Wrap the instance, `traced =
instrument(instance)`, and call `traced` instead: only such calls are traced, and an instance that is not wrapped has no
cost. docs/watching.md has every name. Needs `opentelemetry-api` (the [otel] extra).
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial, wraps
from time import monotonic
from typing import Any, TypeVar, cast

from ._extras import needed

needed("otel", "attrs", "opentelemetry.trace", "opentelemetry.metrics")

from opentelemetry import metrics, trace
from opentelemetry.context import Context
from opentelemetry.metrics import CallbackOptions, Counter, Histogram, Meter, MeterProvider, Observation
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, Tracer, TracerProvider
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from tolliver_proto import Delivery, __version__

from ._messages.facade import BaseInstance
from ._messages.snapshots import Snapshots
from ._messages.status import histograms_of
from ._status.metrics import METRICS, Metric, Sample, Unit, samples
from .codecs import CloudEvents, Headed, Headers

__all__ = ["Traced", "TracedChannel", "TracedDelivery", "TracedQueue", "TracedRun", "instrument"]

I = TypeVar("I", bound=BaseInstance[Any])  # noqa: E741
T = TypeVar("T")
_NAME = "tolliver"
_UNITS: Mapping[Unit, str] = {"": "{count}", "bytes": "By", "seconds": "s", "ratio": "1", "timestamp": "s"}
_SCHEMA = "https://opentelemetry.io/schemas/1.44.0"
_CONTEXT = TraceContextTextMapPropagator()
_FIELDS = ("traceparent", "tracestate")
_KINDS = {
    "send": SpanKind.PRODUCER,
    "receive": SpanKind.CLIENT,
    "process": SpanKind.CONSUMER,
    "settle": SpanKind.CLIENT,
}


def instrument(
    instance: I, *, meter_provider: MeterProvider | None = None, tracer_provider: TracerProvider | None = None
) -> I:
    """Observe the numbers of an open instance, and return it as `Traced`. Call it on the instance's thread.

    Providers are by default the global ones. The numbers are those of `status()`, with one snapshot for each reading;
    none are reported once the instance is closed.
    """
    # A meter for each instance: the SDK ignores a second instrument with the same meter and name.
    own = {"tolliver.instance": str(instance.instance_id)}
    meter = metrics.get_meter(_NAME, __version__, meter_provider, _SCHEMA, own)
    _observe(instance, meter)
    return cast(I, Traced(instance, meter, trace.get_tracer(_NAME, __version__, tracer_provider, _SCHEMA)))


# Metrics.


class _Reading:
    """Samples of one snapshot for all instruments. An instrument that asks a second time gets a new snapshot."""

    def __init__(self, snapshots: Snapshots) -> None:
        self._snapshots = snapshots
        self._lock = threading.Lock()
        self._left: set[str] = set()  # instruments that have not read this snapshot yet
        self._samples: dict[Metric, list[Sample]] = {}
        self._names: set[str] = set()

    def of(self, metric: Metric, instrument: str) -> list[Sample]:
        with self._lock:
            self._names.add(instrument)
            if instrument not in self._left:
                self._take()
            self._left.discard(instrument)
            return self._samples.get(metric, [])

    def _take(self) -> None:
        self._left = {*self._names}
        self._samples = {}
        status = self._snapshots.take()
        if status is not None:
            whose = {"tolliver.instance": str(status.uuid)}
            for sample in samples(status):
                labels = {f"tolliver.{label}": text for label, text in sample.labels.items()}
                own = sample._replace(labels={**whose, **labels})
                self._samples.setdefault(sample.metric, []).append(own)

    def expect(self, instrument: str) -> None:
        self._names.add(instrument)


def _observe(instance: BaseInstance[Any], meter: Meter) -> None:
    """Create the instruments. Counters and gauges are read from snapshots; histograms get each value as it is counted,
    as an instrument does not accept sums."""
    reading = _Reading(Snapshots(instance))
    live, own = histograms_of(cast(Any, instance._core)), {"tolliver.instance": str(instance.instance_id)}
    for metric in METRICS:
        name, unit = _name(metric), _UNITS[metric.unit]
        if metric.kind != "histogram":
            reading.expect(name)
            make = meter.create_observable_counter if metric.kind == "counter" else meter.create_observable_gauge
            make(name, [partial(_observed, reading, metric, name)], unit, metric.help)
        elif metric.subject == "instance" and (histogram := live.get(metric.name)) is not None:
            bounds = histogram.bounds
            made = meter.create_histogram(name, unit, metric.help, explicit_bucket_boundaries_advisory=bounds)
            histogram.listeners += (partial(made.record, attributes=own),)


def _name(metric: Metric) -> str:
    """Name of a metric's instrument. It does not include the unit, which the instrument has."""
    subject = "" if metric.subject == "instance" else f"{metric.subject}."
    named = metric.name.removesuffix("_seconds")
    if metric.unit == "bytes":
        named = f"{named.removesuffix('_bytes')}.size"
    return f"{_NAME}.{subject}{named}{'.duration' if metric.kind == 'histogram' and metric.unit else ''}"


def _observed(reading: _Reading, metric: Metric, name: str, _options: CallbackOptions) -> Iterable[Observation]:
    return [Observation(cast(float, one.value), one.labels) for one in reading.of(metric, name)]


class _Calls:
    """OpenTelemetry's instruments by its conventions for messaging: numbers and durations of calls and handlers."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._operation = self._durations("messaging.client.operation.duration", "Duration of a call.")
        self._process = self._durations("messaging.process.duration", "Duration of a handler.")
        self._sent = self._messages("messaging.client.sent.messages", "Messages that calls sent, or failed to send.")
        self._consumed = self._messages("messaging.client.consumed.messages", "Messages that came to the program.")

    def _durations(self, name: str, text: str) -> Histogram:
        return self._meter.create_histogram(name, "s", text, explicit_bucket_boundaries_advisory=_BOUNDS)

    def _messages(self, name: str, text: str) -> Counter:
        return self._meter.create_counter(name, "{message}", text)

    def record(self, operation: str, seconds: float, messages: int, attributes: Mapping[str, str]) -> None:
        """Record an ended call of this name, which took `seconds` for `messages` messages. `attributes` are those
        common to all four instruments.
        """
        if operation == "process":
            self._process.record(seconds, attributes)
        else:
            self._operation.record(seconds, {**attributes, "messaging.operation.type": operation})
        if operation == "send":
            self._sent.add(messages, attributes)
        elif operation != "settle":
            self._consumed.add(messages, attributes)


_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
"""Bucket bounds in seconds that the conventions require."""


# Spans.


class Traced:
    """An instance whose sends, requests, jobs, handlers and iterators have spans. The rest are the instance's own.

    A value with headers (codec `Headers(codec)`), or a CloudEvent (codec `CloudEvents()`), that is sent without a
    trace context gets that of its send span, a reply that of its respond span; one with a context keeps it, and the
    send span links to it. Other messages carry no context, so their spans are not connected.
    """

    def __init__(self, instance: BaseInstance[Any], meter: Meter, tracer: Tracer) -> None:
        self._instance = instance
        self._spans = _Spans(_Calls(meter), tracer, str(instance.instance_id))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._instance, name)

    def __dir__(self) -> list[str]:
        return dir(self._instance)

    def __repr__(self) -> str:
        return f"<Traced {self._instance!r}>"

    def channel(self, name: str, **codecs: Any) -> Any:
        """Like the instance's call; returns a `TracedChannel`."""
        codec, reply_codec = codecs.get("codec"), codecs.get("reply_codec")
        made = cast(Any, self._instance).channel(name, **codecs)
        return TracedChannel(made, self._spans, codec, codec if reply_codec is None else reply_codec)

    def send(self, channel: str, key: str, body: Any, **terms: Any) -> Any:
        """Like the instance's call, with a span."""
        return self._spans.sent(
            "send", [channel], lambda _span: cast(Any, self._instance).send(channel, key, body, **terms)
        )

    def unreliable_send(self, channel: str, key: str, body: Any, **terms: Any) -> Any:
        """Like the instance's call, with a span."""
        send = cast(Any, self._instance).unreliable_send
        return self._spans.sent("unreliable_send", [channel], lambda _span: send(channel, key, body, **terms))

    def send_many(self, items: Iterable[tuple[str, str, Any]], **terms: Any) -> Any:
        """Like the instance's call, with one span for all messages."""
        items = tuple(items)
        channels, send = [channel for channel, _, _ in items], cast(Any, self._instance).send_many
        return self._spans.sent("send_many", channels, lambda _span: send(items, **terms), batch=len(items))

    def request(self, channel: str, body: Any, key: str = "", **terms: Any) -> Any:
        """Like the instance's call, with a span that ends with the reply."""
        ask = cast(Any, self._instance).request
        return self._spans.sent("request", [channel], lambda _span: ask(channel, body, key, **terms))

    def gather(self, channel: str, body: Any, key: str = "", **terms: Any) -> Any:
        """Like the instance's call, with a span that ends with the replies."""
        ask = cast(Any, self._instance).gather
        return self._spans.sent("gather", [channel], lambda _span: ask(channel, body, key, **terms))

    def respond(self, channel: str, handler: Any, key: str = "", **choices: Any) -> Any:
        """Like the instance's call, with a span for each call of the handler."""
        return cast(Any, self._instance).respond(channel, self._spans.responding(handler), key, **choices)

    def register_callback(self, channel: str, key: str, handler: Any, **choices: Any) -> Any:
        """Like the instance's call, with a span for each call of the handler."""
        return cast(Any, self._instance).register_callback(channel, key, self._spans.handling(handler), **choices)

    def subscribe(self, channel: str, key: str = "", handler: Any = None, **choices: Any) -> Any:
        """Like the instance's call, with a span for each call of the handler."""
        return cast(Any, self._instance).subscribe(channel, key, self._spans.handling(handler), **choices)

    def messages(self, channel: str, key: str = "", **choices: Any) -> Any:
        """Like the instance's call; yields `TracedDelivery`."""
        return _Receiving(cast(Any, self._instance).messages(channel, key, **choices), self._spans.received)

    def message_runs(self, channel: str, key: str = "", **choices: Any) -> Any:
        """Like the instance's call; yields `TracedRun`."""
        return _Receiving(cast(Any, self._instance).message_runs(channel, key, **choices), self._spans.received_run)

    def work_queue(self, channel: str, **terms: Any) -> Any:
        """Like the instance's call; returns a `TracedQueue`."""
        return TracedQueue(cast(Any, self._instance).work_queue(channel, **terms), self._spans, False)

    def work(self, channel: str, **choices: Any) -> Any:
        """Like the instance's call; yields `TracedDelivery`."""
        return _Receiving(cast(Any, self._instance).work(channel, **choices), self._spans.received)


class TracedChannel:
    """A channel whose calls have spans, like those of `Traced`. All other attributes are the channel's."""

    def __init__(self, channel: Any, spans: _Spans, codec: object, reply_codec: object) -> None:
        self._channel = channel
        self._spans = spans
        self._carries = isinstance(codec, CloudEvents | Headers)
        self._replies_carry = isinstance(reply_codec, CloudEvents | Headers)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)

    def __dir__(self) -> list[str]:
        return dir(self._channel)

    def __repr__(self) -> str:
        return f"<Traced {self._channel!r}>"

    def _sent(self, name: str, values: Sequence[Any], send: Callable[[list[Any]], Any]) -> Any:
        def call(span: Span) -> Any:
            return send([_carrying(span, value) if self._carries else value for value in values])

        count = len(values) if name == "send_many" else None
        return self._spans.sent(name, [self._channel.name] * len(values), call, values, count)

    def send(self, key: str, value: Any, **terms: Any) -> Any:
        """Like the channel's call, with a span."""
        return self._sent("send", [value], lambda given: self._channel.send(key, *given, **terms))

    def unreliable_send(self, key: str, value: Any, **terms: Any) -> Any:
        """Like the channel's call, with a span."""
        return self._sent("unreliable_send", [value], lambda given: self._channel.unreliable_send(key, *given, **terms))

    def send_many(self, items: Iterable[tuple[str, Any]], **terms: Any) -> Any:
        """Like the channel's call, with one span for all messages."""
        items = tuple(items)
        keys = [key for key, _ in items]
        return self._sent(
            "send_many",
            [value for _, value in items],
            lambda given: self._channel.send_many(list(zip(keys, given, strict=True)), **terms),
        )

    def request(self, value: Any, key: str = "", **terms: Any) -> Any:
        """Like the channel's call, with a span that ends with the reply."""
        return self._sent("request", [value], lambda given: self._channel.request(*given, key, **terms))

    def gather(self, value: Any, key: str = "", **terms: Any) -> Any:
        """Like the channel's call, with a span that ends with the replies."""
        return self._sent("gather", [value], lambda given: self._channel.gather(*given, key, **terms))

    def respond(self, handler: Any, key: str = "", **choices: Any) -> Any:
        """Like the channel's call, with a span for each call of the handler."""
        return self._channel.respond(self._spans.responding(handler, self._replies_carry), key, **choices)

    def register_callback(self, key: str, handler: Any, **choices: Any) -> Any:
        """Like the channel's call, with a span for each call of the handler."""
        return self._channel.register_callback(key, self._spans.handling(handler), **choices)

    def subscribe(self, key: str = "", handler: Any = None, **choices: Any) -> Any:
        """Like the channel's call, with a span for each call of the handler."""
        return self._channel.subscribe(key, self._spans.handling(handler), **choices)

    def messages(self, key: str = "", **choices: Any) -> Any:
        """Like the channel's call; yields `TracedDelivery`."""
        return _Receiving(self._channel.messages(key, **choices), self._spans.received)

    def runs(self, key: str = "", **choices: Any) -> Any:
        """Like the channel's call; yields `TracedRun`."""
        return _Receiving(self._channel.runs(key, **choices), self._spans.received_run)

    def queue(self, **terms: Any) -> Any:
        """Like the channel's call; returns a `TracedQueue`."""
        return TracedQueue(self._channel.queue(**terms), self._spans, self._carries)

    def work(self, **choices: Any) -> Any:
        """Like the channel's call; yields `TracedDelivery`."""
        return _Receiving(self._channel.work(**choices), self._spans.received)


class TracedQueue:
    """A work queue whose puts have spans. All other attributes are the queue's."""

    def __init__(self, queue: Any, spans: _Spans, carries: bool) -> None:
        self._queue = queue
        self._spans = spans
        self._carries = carries

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)

    def __dir__(self) -> list[str]:
        return dir(self._queue)

    def __repr__(self) -> str:
        return f"<Traced {self._queue!r}>"

    def _carrying(self, span: Span, job: Any) -> Any:
        if not self._carries:
            return job
        return (job[0], _carrying(span, job[1])) if isinstance(job, tuple) else _carrying(span, job)

    def put(self, value: Any, key: str = "", **terms: Any) -> Any:
        """Like the queue's call, with a span."""
        return self._spans.sent(
            "put",
            [self._queue.channel],
            lambda span: self._queue.put(self._carrying(span, value), key, **terms),
            [value] if self._carries else (),
        )

    def put_many(self, jobs: Iterable[Any], **terms: Any) -> Any:
        """Like the queue's call, with one span for all jobs."""
        jobs = tuple(jobs)
        values = [job[1] if isinstance(job, tuple) else job for job in jobs] if self._carries else []
        return self._spans.sent(
            "put_many",
            [self._queue.channel] * len(jobs),
            lambda span: self._queue.put_many([self._carrying(span, job) for job in jobs], **terms),
            values,
            len(jobs),
        )


class _Operation:
    """One span, and the values that are recorded at its end."""

    def __init__(self, span: Span, record: Callable[[float, str], None]) -> None:
        self.span = span
        self._record = record
        self._began = monotonic()

    def end(self, error: str = "") -> None:
        """End the span, with the type of an error if there is one. The error's text is left out, as it may quote a
        peer's bytes."""
        if error:
            self.span.set_attribute("error.type", error)
            self.span.set_status(Status(StatusCode.ERROR))
        self.span.end()
        self._record(monotonic() - self._began, error)

    def fail(self, error: BaseException) -> None:
        """End the span with this exception."""
        self.end(type(error).__qualname__)

    def come(self, result: Any, is_well: Callable[[Any], bool] | None) -> None:
        """End the span with this result of the call."""
        try:
            well = is_well is None or is_well(result)
        except Exception:  # its truth cannot be determined: the instance reports that
            well = False
        self.end("" if well else "not_handled")

    @contextmanager
    def current(self) -> Iterator[None]:
        """Context manager: this span is the current one."""
        with trace.use_span(self.span, record_exception=False, set_status_on_exception=False):
            yield


class _Spans:
    """Creates the spans of one instance by OpenTelemetry's messaging conventions."""

    def __init__(self, calls: _Calls, tracer: Tracer, instance_id: str) -> None:
        self._calls = calls
        self._tracer = tracer
        self._instance_id = instance_id

    def start(
        self,
        operation: str,
        channels: Iterable[str],
        *,
        links: Iterable[Link] = (),
        name: str = "",
        batch: int | None = None,
        context: Context | None = None,
        about: Delivery | None = None,
    ) -> _Operation:
        said = {_readable(channel) for channel in channels}
        measured = {"messaging.system": _NAME, "messaging.operation.name": name or operation}
        if len(said) == 1:
            [measured["messaging.destination.name"]] = said
        attributes: dict[str, str | int] = {
            **measured,
            "messaging.operation.type": operation,
            "messaging.client.id": self._instance_id,
        }
        if batch is not None:
            attributes["messaging.batch.message_count"] = batch
        if about is not None and about.message_id is not None:
            attributes["messaging.message.id"] = str(about.message_id)
        title = " ".join([name or operation, *(said if len(said) == 1 else ())])
        span = self._tracer.start_span(title, context, _KINDS[operation], attributes, [*links])

        def record(seconds: float, error: str) -> None:
            failed = {"error.type": error} if error else {}
            self._calls.record(operation, seconds, 1 if batch is None else batch, {**measured, **failed})

        return _Operation(span, record)

    def within(
        self, operation: _Operation, call: Callable[[], Any], is_well: Callable[[Any], bool] | None = None
    ) -> Any:
        """Make a call with this span as the current one. The span ends with the call's result, even if that is
        awaited."""
        try:
            with operation.current():
                result = call()
        except BaseException as error:
            operation.fail(error)
            raise
        if hasattr(result, "addBoth"):  # a Deferred
            return result.addBoth(partial(_fired, operation, is_well))
        if inspect.isawaitable(result):
            return _awaited(operation, result, is_well)
        operation.come(result, is_well)
        return result

    def sent(
        self,
        name: str,
        channels: Sequence[str],
        send: Callable[[Span], Any],
        values: Iterable[Any] = (),
        batch: int | None = None,
    ) -> Any:
        """Make a sending call in a span named `name`, which ends with the call's result. `values` are the values sent,
        `batch` is their number in a call for several.
        """
        operation = self.start("send", channels, links=_links(values), name=name, batch=batch)
        return self.within(operation, lambda: send(operation.span))

    def handling(self, handler: Any) -> Any:
        """Wrap a handler of messages in a span for each call."""
        return self._processing(handler, "process", _is_well)

    def responding(self, handler: Any, carries: bool = False) -> Any:
        """Wrap a handler of requests in a span for each call, whose context the replies get if they carry one."""
        return self._processing(handler, "respond", lambda _result: True, _replying if carries else None)

    def _processing(
        self,
        handler: Any,
        name: str,
        is_well: Callable[[Any], bool],
        finish: Callable[[Span, Any], Any] | None = None,
    ) -> Any:
        """Wrap a handler, async if it is, in a span named `name` for each call; `is_well` tells by the result if the
        call succeeded. `finish` gets the span and the result, and returns the result that counts.
        """
        if not callable(handler):
            return handler  # registering it raises TypeError

        def call(given: Any) -> Any:
            about = given if isinstance(given, Delivery) else None
            operation = self.start("process", [given.channel], name=name, context=_context_of(given), about=about)
            if finish is None:
                return self.within(operation, lambda: handler(given), is_well)
            return self.within(operation, lambda: finish(operation.span, handler(given)), is_well)

        if inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(type(handler).__call__):

            async def call_async(given: Any) -> Any:
                return await call(given)

            return _named(call_async, handler)
        return _named(call, handler)

    def received(self, delivery: Delivery) -> TracedDelivery:
        operation = self.start("receive", [delivery.channel], links=_links([delivery]), about=delivery)
        operation.end()
        return TracedDelivery(delivery, trace.set_span_in_context(operation.span), self)

    def received_run(self, run: Any) -> TracedRun:
        operation = self.start("receive", {one.channel for one in run}, links=_links(run), batch=len(run))
        operation.end()
        return TracedRun(run, trace.set_span_in_context(operation.span), self)

    @contextmanager
    def settling(self, name: str, given: Any, context: Context) -> Iterator[None]:
        one = given if isinstance(given, Delivery) else None
        many = [given] if one is not None else [*given]
        batch = None if one is not None else len(many)
        channels = {each.channel for each in many}
        ends = self.start("settle", channels, links=_links(many), name=name, batch=batch, context=context, about=one)
        try:
            yield
        except BaseException as error:
            ends.fail(error)
            raise
        ends.end()


class TracedDelivery(Delivery):
    """A delivery from a traced iterator, with a span for settling it. All other attributes are the delivery's.

    `context` is the context of its receive span, as the parent of the program's own spans.
    """

    __slots__ = ("_spans", "context", "delivery")

    def __init__(self, delivery: Delivery, context: Context, spans: _Spans) -> None:
        super().__init__(delivery.cid, delivery.peer_id, delivery.message, delivery.attempt)
        self.delivery: Delivery = delivery
        self.context: Context = context
        self._spans = spans

    def __getattr__(self, name: str) -> Any:
        if name == "delivery":  # not set yet
            raise AttributeError(name)
        return getattr(self.delivery, name)

    def ack(self) -> None:
        """Report success: the sender may delete the message (T-45). A second call does nothing."""
        with self._spans.settling("ack", self.delivery, self.context):
            self.delivery.ack()

    def fail(self, retry_in: float | None = None) -> None:
        """Report failure: the sender keeps and resends the message (T-50). `retry_in` is as in `Delivery.fail`
        (P-22)."""
        with self._spans.settling("fail", self.delivery, self.context):
            self.delivery.fail(retry_in)

    def give_up(self, reason: str) -> None:
        """Store the message as a dead letter, with this reason, and acknowledge it: retrying is no use (T-47, P-23)."""
        with self._spans.settling("give_up", self.delivery, self.context):
            self.delivery.give_up(reason)


class TracedRun:
    """A run from a traced iterator: one span with links for receiving it, another for settling it."""

    def __init__(self, run: Any, context: Context, spans: _Spans) -> None:
        self.run = run
        self.context = context
        self._spans = spans

    def __getattr__(self, name: str) -> Any:
        return getattr(self.run, name)

    def __repr__(self) -> str:
        return f"Traced({self.run!r})"

    def __len__(self) -> int:
        return len(self.run)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.run)

    def __getitem__(self, index: int) -> Any:
        return self.run[index]

    def ack(self) -> None:
        """Report success for the rest of the run: the senders may delete the messages (T-45)."""
        with self._spans.settling("ack", self.run, self.context):
            self.run.ack()

    def fail(self, retry_in: float | None = None) -> None:
        """Report failure for the rest of the run: the senders keep and resend the messages (T-50). `retry_in` is as in
        `Delivery.fail` (P-22)."""
        with self._spans.settling("fail", self.run, self.context):
            self.run.fail(retry_in)

    def give_up(self, reason: str) -> None:
        """Store the rest of the run as dead letters, with this reason, and acknowledge it: retrying is no use (T-47,
        P-23)."""
        with self._spans.settling("give_up", self.run, self.context):
            self.run.give_up(reason)


class _Receiving:
    """An iterator for tasks or threads, with spans for the items that it yields."""

    def __init__(self, source: Any, received: Callable[[Any], Any]) -> None:
        self._source = source
        self._received = received

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return self._received(next(self._source))

    def __enter__(self) -> _Receiving:
        self._source.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._source.__exit__(*error)

    def __aiter__(self) -> _Receiving:
        return self

    async def __anext__(self) -> Any:
        return self._received(await self._source.__anext__())

    async def __aenter__(self) -> _Receiving:
        await self._source.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._source.__aexit__(*error)


def _is_well(result: object) -> bool:
    return result is None or bool(result)


async def _awaited(operation: _Operation, result: Awaitable[T], is_well: Callable[[Any], bool] | None) -> T:
    try:
        with operation.current():
            outcome = await result
    except BaseException as error:
        operation.fail(error)
        raise
    operation.come(outcome, is_well)
    return outcome


def _fired(operation: _Operation, is_well: Callable[[Any], bool] | None, result: Any) -> Any:
    if isinstance(error := getattr(result, "value", None), BaseException) and hasattr(result, "trap"):  # a Failure
        operation.fail(error)
    else:
        operation.come(result, is_well)
    return result


def _named(call: Callable[..., Any], handler: Any) -> Callable[..., Any]:
    """Give a wrapper the name of the program's handler, for texts."""
    if hasattr(handler, "__qualname__"):
        return wraps(handler)(call)
    call.__qualname__ = type(handler).__qualname__
    return call


def _readable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


# Trace context in headers and in CloudEvents.


def _carrier(given: Any) -> dict[str, str]:
    """Trace context of a value, given itself or as the value of a delivery or request."""
    for one in (given, getattr(given, "value", None)):
        ask = one.headers.get if isinstance(one, Headed) else getattr(one, "get_extension", None)
        if ask is not None:
            found = {field: ask(field) for field in _FIELDS}
            return {field: text for field, text in found.items() if isinstance(text, str)}
    return {}


def _context_of(given: Any) -> Context | None:
    """Parent context for a message's span: its sender's if the message carries one, else the current one."""
    carrier = _carrier(given)
    return _CONTEXT.extract(carrier) if carrier else None


def _links(given: Iterable[Any]) -> list[Link]:
    """Links to the contexts of messages."""
    contexts = [
        trace.get_current_span(_CONTEXT.extract(carrier, Context())) for one in given if (carrier := _carrier(one))
    ]
    return [Link(one.get_span_context()) for one in contexts if one.get_span_context().is_valid]


def _replying(span: Span, reply: Any) -> Any:
    """The reply of a handler with this span's context, also where it comes later."""
    if hasattr(reply, "addBoth"):  # a Deferred
        return reply.addCallback(partial(_carrying, span))
    return _replying_later(span, reply) if inspect.isawaitable(reply) else _carrying(span, reply)


async def _replying_later(span: Span, reply: Awaitable[Any]) -> Any:
    return _carrying(span, await reply)


def _carrying(span: Span, given: Any) -> Any:
    """Copy of the value with this span's context. A value that has a context is returned unchanged."""
    is_headed = isinstance(given, Headed)
    if _carrier(given) or not (is_headed or hasattr(given, "get_attributes")):
        return given
    carrier: dict[str, str] = {}
    _CONTEXT.inject(carrier, trace.set_span_in_context(span))
    if is_headed:
        return Headed(given.value, {**given.headers, **carrier})
    attributes = given.get_attributes()
    carrying = type(given)({**attributes, **carrier}, given.get_data())
    if "time" not in attributes:
        carrying.get_attributes().pop("time", None)  # invented by the library
    return carrying
