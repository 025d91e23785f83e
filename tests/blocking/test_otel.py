"""Instrumented instances on threads."""

from __future__ import annotations

from tolliver.codecs import Headed, Headers, Json
from tolliver.otel import instrument

from tests.status.spans import EVENTS, Memory, carried, event, ids, linked, parent

from .nodes import Nodes, until


def test_a_trace_goes_from_the_send_to_a_handler_and_to_an_iterator(nodes: Nodes) -> None:
    memory = Memory()
    with nodes.pair() as (left, right):
        one, other = instrument(left, **memory.providers), instrument(right, **memory.providers)
        assert dir(one) == dir(left), "a prompt completes it as the instance's own"
        other.channel("news", codec=EVENTS).register_callback("handled", lambda _delivery: None)
        with other.channel("news", codec=EVENTS).messages("taken") as messages:
            left.wait_subscribed("news", "taken", timeout=20)
            one.channel("news", codec=EVENTS).send("handled", event("1"))
            until(lambda: len(memory.spans) == 2)
            one.channel("news", codec=EVENTS).send("taken", event("2"))
            delivery = next(messages)
            assert delivery.value.get_id() == "2"
            delivery.ack()
        handled, taken = [span for span in memory.spans if span.name == "send news"]
        assert parent(memory.span("process news")) == ids(handled)
        assert linked(memory.span("receive news")) == linked(memory.span("ack news")) == [ids(taken)]
        assert parent(memory.span("ack news")) == ids(memory.span("receive news"))
        until(lambda: right.status().counters["handled"] == 2)
        points = [(point.attributes, point.value) for point in memory.numbers()["tolliver.handled"]]
        assert {attributes["tolliver.instance"]: value for attributes, value in points if attributes} == {
            str(left.instance_id): 0,
            str(right.instance_id): 2,
        }


def test_the_trace_of_a_job_and_of_a_request_goes_on_with_any_codec(nodes: Nodes) -> None:
    memory, codec = Memory(), Headers(Json())
    with nodes.pair() as (left, right):
        one, other = instrument(left, **memory.providers), instrument(right, **memory.providers)
        one.channel("jobs", codec=codec).queue().put(Headed({"rows": 5}, {"tenant": "7"}))
        with other.channel("jobs", codec=codec).work() as jobs:
            job = next(jobs)
            assert (job.value.value, job.value.headers["tenant"]) == ({"rows": 5}, "7")
            job.ack()
        assert carried(job.value) == ids(memory.span("put jobs"))
        assert linked(memory.span("receive jobs")) == linked(memory.span("ack jobs")) == [ids(memory.span("put jobs"))]
        other.channel("ask", codec=codec).respond(lambda request: Headed(request.value.value + 1))
        reply = one.channel("ask", codec=codec).request(Headed(1))
        assert reply.value.value == 2
        assert parent(memory.span("respond ask")) == ids(memory.span("request ask"))
        assert carried(reply.value) == ids(memory.span("respond ask"))
