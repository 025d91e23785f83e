"""Instrumented instances on asyncio and trio: spans and numbers as OpenTelemetry's own exporters get them."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.lowlevel
import pytest
from opentelemetry.trace import SpanKind, StatusCode
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from tolliver.codecs import Headed, Headers, Json
from tolliver.otel import TracedDelivery, TracedRun, instrument
from tolliver.prometheus import Collector

from tests.status.spans import EVENTS, Memory, carried, event, ids, linked, parent
from tolliver_proto import Delivery
from tolliver_proto.errors import NoResponders

from .nodes import Nodes, until

pytestmark = pytest.mark.anyio
OPERATIONS = "messaging.client.operation.duration"


def traced(memory: Memory, instance: Any) -> Any:
    return instrument(instance, **memory.providers)


async def test_the_trace_of_an_event_goes_from_the_send_to_the_handler(nodes: Nodes) -> None:
    memory, got = Memory(), []
    async with nodes.pair() as (left, right):
        one, other = traced(memory, left), traced(memory, right)

        async def handle(delivery: Any) -> None:
            await anyio.lowlevel.checkpoint()
            with memory.tracer.start_as_current_span("inside"):
                got.append(delivery.value.get_data())

        other.channel("news", codec=EVENTS).register_callback("", handle)
        given = event("hello")
        receipt = await one.channel("news", codec=EVENTS).send("secret", given)
        await left.wait_acked(receipt)
        await until(lambda: len(memory.spans) == 3)
        assert given.get_extension("traceparent") is None
        send, process = memory.span("send news"), memory.span("process news")
        assert (send.kind, process.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
        assert parent(process) == ids(send)
        assert parent(memory.span("inside")) == ids(process)
        assert send.attributes == {
            "messaging.system": "tolliver",
            "messaging.operation.type": "send",
            "messaging.operation.name": "send",
            "messaging.client.id": str(left.instance_id),
            "messaging.destination.name": "news",
        }
        assert process.attributes is not None
        assert process.attributes["messaging.message.id"]
        assert not any("secret" in str(span.attributes) for span in memory.spans)
    assert got == [{"word": "hello"}]


async def test_a_batch_is_one_span_with_links(nodes: Nodes) -> None:
    memory = Memory()
    async with nodes.pair() as (left, right):
        one, other = traced(memory, left), traced(memory, right)
        with memory.tracer.start_as_current_span("before") as before:
            context = before.get_span_context()
        own = event("own", traceparent=f"00-{context.trace_id:032x}-{context.span_id:016x}-01")
        async with other.channel("news", codec=EVENTS).runs() as runs:
            await one.channel("news", codec=EVENTS).send_many([("", event("new")), ("", own)])
            words: list[str] = []
            while len(words) < 2:
                run = await anext(runs)
                assert isinstance(run, TracedRun)
                assert repr(run) == f"Traced({run.run!r})"
                words += [delivery.value.get_id() for delivery in run]
                run.ack()
        send = memory.span("send_many news")
        assert send.attributes is not None
        assert send.attributes["messaging.batch.message_count"] == 2
        assert linked(send) == [ids(memory.span("before"))]
        for name, kind in (("receive news", SpanKind.CLIENT), ("ack news", SpanKind.CLIENT)):
            spans = [span for span in memory.spans if span.name == name]
            assert {span.kind for span in spans} == {kind}
            assert [link for span in spans for link in linked(span)] == [ids(send), ids(memory.span("before"))]


async def test_each_way_to_settle_is_a_span_under_its_receive_span(nodes: Nodes) -> None:
    memory = Memory()
    async with nodes.pair() as (left, right):
        one, other = traced(memory, left), traced(memory, right)
        async with other.messages("news") as messages:
            await one.send("news", "", b"bytes")
            assert one.unreliable_send("news", "", b"more") == 1
            first: TracedDelivery = await anext(messages)
            first.ack()
            (await anext(messages)).fail()
        receive = [span for span in memory.spans if span.name == "receive news"]
        assert parent(memory.span("ack news")) == ids(receive[0])
        assert parent(memory.span("fail news")) == ids(receive[1])
        assert linked(receive[0]) == []
        assert memory.span("unreliable_send news").kind is SpanKind.PRODUCER
        assert right.status().counters["handled"] == 1


async def test_failures_are_said_by_their_type_alone(nodes: Nodes) -> None:
    memory = Memory()
    async with nodes.pair() as (left, right):
        one, other = traced(memory, left), traced(memory, right)

        def handle(delivery: Delivery) -> bool:
            if delivery.body == b"raise":
                raise ValueError("secret")
            return False

        other.register_callback("news", "", handle)
        await one.send_many([("news", "", b"raise"), ("news", "", b"false")])
        await until(lambda: len(memory.spans) == 3)
        with pytest.raises(NoResponders):
            await one.request("nobody", b"", wait=False)
        failed = [span for span in memory.spans if span.status.status_code is StatusCode.ERROR]
        kinds = [span.attributes["error.type"] for span in failed if span.attributes is not None]
        assert kinds == ["ValueError", "not_handled", "NoResponders"]
        assert not any("secret" in span.to_json() for span in failed)


async def test_a_request_and_its_answer_are_one_trace(nodes: Nodes) -> None:
    memory = Memory()
    async with nodes.pair() as (left, right):
        one, other = traced(memory, left), traced(memory, right)
        other.channel("ask", codec=EVENTS).respond(lambda request: event(request.value.get_id()))
        reply = await one.channel("ask", codec=EVENTS).request(event("1"), timeout=60)
        assert reply.value.get_id() == "1"
        asked = [span for span in memory.spans if span.name == "request ask"][-1]
        assert parent(memory.span("respond ask")) == ids(asked)


async def test_the_numbers_are_those_of_the_table_in_each_reading(nodes: Nodes) -> None:
    memory = Memory()
    async with nodes.pair() as (left, right):
        traced(memory, left)
        right.register_callback("news", "", lambda _delivery: None)
        for total in (1, 2):
            await left.wait_acked(await left.send("news", "", b"1"))
            found = memory.numbers()  # on the loop itself
            assert [point.value for point in found["tolliver.acked"]] == [total]
        found = await anyio.to_thread.run_sync(memory.numbers)  # and on a thread, as exporters do
        [peer] = found["tolliver.peer.acknowledged"]
        assert peer.attributes == {
            "tolliver.instance": str(left.instance_id),
            "tolliver.peer": str(right.instance_id),
        }
        assert peer.value == 2
        [trips] = memory.histograms()["tolliver.round_trip.duration"]
        told = left.status().histograms["round_trip_seconds"]
        assert (trips.count, trips.sum) == (told.count, told.sum) == (2, told.sum)
        assert (tuple(trips.explicit_bounds), tuple(trips.bucket_counts)) == (told.bounds, told.counts)
        assert trips.attributes == {"tolliver.instance": str(left.instance_id)}
        assert {*memory.histograms()} >= {
            "tolliver.commit.duration",
            "tolliver.fsync.duration",
            "tolliver.rows_per_commit",
        }
    assert "tolliver.acked" not in memory.numbers()


async def test_calls_and_handlers_are_measured_as_the_conventions_say(nodes: Nodes) -> None:
    memory = Memory()
    async with nodes.pair() as (left, right):
        one, other = traced(memory, left), traced(memory, right)
        other.register_callback("news", "", lambda delivery: delivery.body != b"bad")
        async with other.messages("more") as messages:
            await one.send_many([("news", "", b"1"), ("news", "", b"2")])
            await one.send("news", "", b"bad")
            await one.send("more", "", b"3")
            (await anext(messages)).ack()
        await until(lambda: len([span for span in memory.spans if span.name == "process news"]) == 3)
        with pytest.raises(NoResponders):
            await one.request("nobody", b"", wait=False)
        numbers, histograms = memory.numbers(), memory.histograms()

    def by_name(points: list[Any], of: str) -> set[tuple[Any, ...]]:
        said = ("messaging.operation.name", "messaging.destination.name", "error.type")
        assert all(point.attributes["messaging.system"] == "tolliver" for point in points)
        return {(*(point.attributes.get(name) for name in said), getattr(point, of)) for point in points}

    assert by_name(numbers["messaging.client.sent.messages"], "value") == {
        ("send_many", "news", None, 2),
        ("send", "news", None, 1),
        ("send", "more", None, 1),
        ("request", "nobody", "NoResponders", 1),
    }
    handled = {("process", "news", None, 2), ("process", "news", "not_handled", 1)}
    assert by_name(numbers["messaging.client.consumed.messages"], "value") == {*handled, ("receive", "more", None, 1)}
    assert by_name(histograms["messaging.process.duration"], "count") == handled
    assert by_name(histograms[OPERATIONS], "count") == {
        ("send_many", "news", None, 1),
        ("send", "news", None, 1),
        ("send", "more", None, 1),
        ("receive", "more", None, 1),
        ("ack", "more", None, 1),
        ("request", "nobody", "NoResponders", 1),
    }
    kinds = {(point.attributes or {})["messaging.operation.type"] for point in histograms[OPERATIONS]}
    assert kinds == {"send", "receive", "settle"}


async def test_a_registry_of_prometheus_has_several_instances(nodes: Nodes) -> None:
    registry = CollectorRegistry()
    async with nodes.pair() as (left, right):
        registry.register(Collector(left, right))
        right.register_callback("news", "", lambda _delivery: None)
        await left.wait_acked(await left.send("news", "", b"1"))

        def scraped() -> dict[tuple[str, str], float]:
            text = generate_latest(registry).decode()
            families = text_string_to_metric_families(text)
            return {(one.name, one.labels["instance_id"]): one.value for family in families for one in family.samples}

        for found in (scraped(), await anyio.to_thread.run_sync(scraped)):
            assert found["tolliver_acked_total", str(left.instance_id)] == 1
            assert found["tolliver_delivered_total", str(right.instance_id)] == 1
            assert found["tolliver_commit_seconds_count", str(left.instance_id)] >= 1
            assert found["tolliver_instance_info", str(left.instance_id)] == 1
    assert scraped() == {}


async def test_the_trace_of_a_job_goes_to_its_worker_with_any_codec(nodes: Nodes) -> None:
    memory, codec = Memory(), Headers(Json())
    async with nodes.pair() as (left, right):
        one, other = traced(memory, left), traced(memory, right)
        given = Headed({"rows": 5}, {"tenant": "7"})
        queue = one.channel("jobs", codec=codec).queue()
        await queue.put(given)
        await queue.put_many([("key", Headed({"rows": 6})), ("key", given)])
        assert given.headers == {"tenant": "7"}
        got = []
        async with other.channel("jobs", codec=codec).work() as jobs:
            for _ in range(3):
                job = await anext(jobs)
                got.append(job.value)
                job.ack()
        assert [one.value["rows"] for one in got] == [5, 6, 5]
        assert [one.headers.get("tenant") for one in got] == ["7", None, "7"]
        put, many = memory.span("put jobs"), memory.span("put_many jobs")
        first, *others = [span for span in memory.spans if span.name == "receive jobs"]
        assert linked(first) == [ids(put)]
        assert [linked(span) for span in others] == [[ids(many)]] * 2
        assert sum(span.name == "ack jobs" for span in memory.spans) == 3


async def test_the_trace_of_a_request_goes_on_at_its_responder_with_any_codec(nodes: Nodes) -> None:
    memory = Memory()
    codec: Headers[bytes] = Headers()
    async with nodes.pair() as (left, right):
        one, other = traced(memory, left), traced(memory, right)
        other.channel("ask", codec=codec).respond(lambda request: Headed(request.value.value.upper()))
        reply = await one.channel("ask", codec=codec).request(Headed(b"x"))
        assert reply.value.value == b"X"
        assert parent(memory.span("respond ask")) == ids(memory.span("request ask"))
        assert carried(reply.value) == ids(memory.span("respond ask"))


async def test_a_reply_of_an_async_responder_carries_its_context_and_plain_ones_are_left_alone(nodes: Nodes) -> None:
    memory, codec = Memory(), Headers(Json())
    async with nodes.pair() as (left, right):
        one, other = traced(memory, left), traced(memory, right)

        async def answer(request: Any) -> Headed[Any]:
            await anyio.lowlevel.checkpoint()
            return Headed(request.value, {"tenant": "7"})

        other.channel("ask", codec=Json(), reply_codec=codec).respond(answer)
        other.channel("plain", codec=codec, reply_codec=Json()).respond(lambda request: request.value.value)
        reply = await one.channel("ask", codec=Json(), reply_codec=codec).request(1)
        assert (reply.value.value, reply.value.headers["tenant"]) == (1, "7")
        assert carried(reply.value) == ids(memory.span("respond ask"))
        plain = await one.channel("plain", codec=codec, reply_codec=Json()).request(Headed(2))
        assert plain.value == 2
