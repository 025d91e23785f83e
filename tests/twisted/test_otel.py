"""Instrumented instances on Twisted: a span lasts until its Deferred fires."""

from __future__ import annotations

import pytest
from tolliver.otel import instrument

from tests.status.spans import EVENTS, Memory, event, ids, parent
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
