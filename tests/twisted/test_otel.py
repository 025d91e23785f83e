"""Instrumented instances on Twisted: a span lasts until its Deferred fires."""

from __future__ import annotations

from typing import Any

import pytest
from tolliver.codecs import Headed, Headers, Json
from tolliver.otel import instrument
from twisted.internet.defer import Deferred, succeed

from tests.status.spans import EVENTS, Memory, carried, event, ids, parent
from tolliver_proto.errors import NoResponders

from .nodes import Nodes
from .reactors import Loop


def test_a_trace_goes_from_the_send_to_the_handler(loop: Loop, nodes: Nodes) -> None:
    memory = Memory()

    async def scenario() -> None:
        async with nodes.pair() as (left, right):
            one, other = instrument(left, **memory.providers), instrument(right, **memory.providers)
            other.channel("news", codec=EVENTS).register_callback("", lambda _delivery: None)
            await left.wait_acked(await one.channel("news", codec=EVENTS).send("", event("1")))
            await nodes.until(lambda: len(memory.spans) == 2)
            with pytest.raises(NoResponders):
                await one.request("nobody", b"", wait=False)
            assert [point.value for point in memory.numbers()["tolliver.acked"]].count(1) == 1

    loop.wait(scenario)
    assert parent(memory.span("process news")) == ids(memory.span("send news"))
    failed = memory.span("request nobody").attributes
    assert failed is not None
    assert failed["error.type"] == "NoResponders"


def test_the_trace_of_a_job_and_of_a_request_goes_on_with_any_codec(loop: Loop, nodes: Nodes) -> None:
    memory, codec = Memory(), Headers(Json())

    async def scenario() -> None:
        async with nodes.pair() as (left, right):
            one, other = instrument(left, **memory.providers), instrument(right, **memory.providers)
            done: list[Headed[Any]] = []
            await one.channel("jobs", codec=codec).queue().put(Headed({"rows": 5}, {"tenant": "7"}))
            async with other.channel("jobs", codec=codec).work() as jobs:
                job = await jobs.__anext__()
                done.append(job.value)
                job.ack()
            assert (done[0].value, done[0].headers["tenant"]) == ({"rows": 5}, "7")
            assert carried(done[0]) == ids(memory.span("put jobs"))

            def answer(request: Any) -> Deferred[Headed[Any]]:
                return succeed(Headed(request.value.value + 1))

            other.channel("ask", codec=codec).respond(answer)
            reply = await one.channel("ask", codec=codec).request(Headed(1))
            assert reply.value.value == 2
            await nodes.until(lambda: [span for span in memory.spans if span.name == "request ask"])
            assert parent(memory.span("respond ask")) == ids(memory.span("request ask"))
            assert carried(reply.value) == ids(memory.span("respond ask"))

    loop.wait(scenario)
