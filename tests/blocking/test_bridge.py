"""Bridge's source on threads: one waits, another one confirms."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from tolliver._streams.bridge import ThreadSource
from tolliver.blocking import Instance, bridge

from tests.blocking.nodes import PATIENCE, Nodes, until
from tolliver_proto import ConnectionClosing


def open_source(instance: Instance, name: str = "tolliver://news") -> ThreadSource:
    source = bridge(instance)(name)
    assert isinstance(source, ThreadSource)
    return source


def test_messages_are_acknowledged_as_they_are_taken(nodes: Nodes) -> None:
    with nodes.pair() as (left, right):
        source = open_source(right)
        receipt = left.send_many([("news", "", b"%d" % number) for number in range(10)])
        assert [int(next(source)) for _ in range(10)] == list(range(10))
        assert left.stats()["pending"] == 10
        source.taken(4)
        until(lambda: left.stats()["pending"] == 6)
        source.taken(100)
        left.wait_acked(receipt, timeout=PATIENCE)


def test_what_was_not_taken_comes_again(nodes: Nodes) -> None:
    with nodes.pair(retry_interval=0.05) as (left, right):
        source = open_source(right)
        receipt = left.send_many([("news", "", b"%d" % number) for number in range(10)])
        for _ in range(5):
            next(source)
        source.taken(2)
        source.close()
        source.taken(3)  # too late
        again = open_source(right)
        assert {int(next(again)) for _ in range(8)} == set(range(2, 10))
        again.taken(8)
        left.wait_acked(receipt, timeout=PATIENCE)


def test_the_end_of_the_stream_wakes_the_thread_that_waits(nodes: Nodes) -> None:
    with nodes.pair() as (_left, right), ThreadPoolExecutor() as pool:
        source = open_source(right)
        waiting = pool.submit(list, source)
        source.close()
        assert waiting.result(PATIENCE) == []


def test_the_end_of_the_instance_is_no_completion(nodes: Nodes) -> None:
    with ThreadPoolExecutor() as pool:
        with nodes.pair() as (_left, right):
            waiting = pool.submit(list, open_source(right))
        with pytest.raises(ConnectionClosing, match="the instance behind this stream was closed: subscribe again"):
            waiting.result(PATIENCE)


def test_what_the_instance_is_not_subscribed_to_is_refused(nodes: Nodes) -> None:
    with nodes.pair() as (_left, right):
        with pytest.raises(LookupError, match="is not subscribed to any of that"):
            bridge(right)("tolliver://other/key")
        open_source(right, "tolliver://news/key").close()
        open_source(right, "tolliver:///key").close()
