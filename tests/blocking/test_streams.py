"""Reactive Streams on threads: many threads, and sources, handlers and codecs that block.

Only the threads' own; behaviour of every adapter is in `tests/adapters`.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest
from tolliver.blocking import Streams, Subscription
from tolliver.blocking.feed import ThreadOutboundStream

from tests.blocking.nodes import PATIENCE, until
from tests.blocking.streams import Blocks, Raw, connected_to, numbers, opened, pair
from tolliver_proto.reactive import Closed, Request, StreamError, Subscribe

pytestmark = pytest.mark.usefixtures("no_feed_is_left")


# Many threads.


def test_requests_of_many_threads_sum_up(raw: Raw) -> None:
    """Rule 2.7, on the wire: every frame is whole, and none is lost."""
    with opened() as streams, ThreadPoolExecutor(16) as pool:
        subscription = connected_to(raw, streams).subscribe("numbers", demand=0, prefetch=0)
        raw.read_until(lambda: raw.of(Subscribe))

        def request() -> None:
            for _ in range(1000):
                subscription.request(1)

        requesting = [pool.submit(request) for _ in range(16)]
        raw.read_until(lambda: sum(event.count for event in raw.of(Request)) >= 16_000)
        for one in requesting:
            one.result(PATIENCE)
        streams.stats()
        assert sum(event.count for event in raw.of(Request)) == 16_000
        streams.goodbye(streams.peers()[0])
        raw.read_until(lambda: raw.of(Closed))
        raw.close()


def test_requests_of_many_threads_bring_as_many_elements() -> None:
    with pair() as (publisher, subscriber), ThreadPoolExecutor(16) as pool:
        publisher.publish("numbers", numbers)
        subscription = subscriber.subscribe("numbers", demand=0, prefetch=0)

        def request() -> None:
            for _ in range(1000):
                subscription.request(1)

        for _ in range(16):
            pool.submit(request)
        assert [subscription.next(PATIENCE) for _ in range(16_000)] == [b"%d" % number for number in range(16_000)]
        with pytest.raises(TimeoutError):
            subscription.next(0.05)
        assert subscriber.peers()


def test_many_threads_publish_at_once_and_each_stream_has_its_order() -> None:
    """Rule 1.3: the subscriber's machine would end the connection if frames were mixed up."""
    count, streams = 2000, 8
    start = threading.Barrier(streams, timeout=PATIENCE)

    def source(_name: str) -> Iterator[bytes]:
        start.wait()
        for number in range(count):
            yield b"%d" % number

    with pair() as (publisher, subscriber), ThreadPoolExecutor(streams) as pool:
        list(pool.map(lambda number: publisher.publish(f"numbers {number}", source), range(streams)))
        taken = pool.map(lambda number: list(subscriber.subscribe(f"numbers {number}")), range(streams))
        for elements in taken:
            assert elements == [b"%d" % number for number in range(count)]
        until(lambda: not publisher.stats()["streams_given"])
        assert subscriber.peers()


def test_threads_that_share_a_subscription_get_each_element_once() -> None:
    both = threading.Barrier(2, timeout=PATIENCE)

    def take(subscription: Subscription[bytes]) -> list[bytes]:
        first = subscription.next(PATIENCE)
        both.wait()
        return [first, *subscription]

    with pair() as (publisher, subscriber), ThreadPoolExecutor(2) as pool:
        publisher.publish("numbers", [b"%d" % number for number in range(4000)])
        subscription = subscriber.subscribe("numbers")
        one, other = pool.map(take, [subscription] * 2)
        assert sorted(map(int, one + other)) == list(range(4000))
        for taken in (one, other):
            assert taken == sorted(taken, key=int)


def test_a_source_that_can_be_read_once_goes_to_one_of_many() -> None:
    class Slow:
        """An iterator that takes its time to say what it is."""

        def __init__(self) -> None:
            self._left = [b"2", b"1"]

        def __getattribute__(self, name: str) -> Any:
            if name == "__next__":
                time.sleep(0.01)
            return super().__getattribute__(name)

        def __iter__(self) -> Slow:
            return self

        def __next__(self) -> bytes:
            if not self._left:
                raise StopIteration
            return self._left.pop()

    def take(subscription: Subscription[bytes]) -> object:
        try:
            return list(subscription)
        except StreamError as error:
            return error.text

    with pair() as (publisher, subscriber), ThreadPoolExecutor(8) as pool:
        publisher.publish("once", Slow())
        ends = list(pool.map(take, [subscriber.subscribe("once") for _ in range(8)]))
        assert [end for end in ends if isinstance(end, list)] == [[b"1", b"2"]]
        assert all("read but once" in end for end in ends if isinstance(end, str))


# Blocking.


def test_what_a_source_has_yielded_goes_out_while_it_blocks(blocks: Blocks) -> None:
    with pair() as (publisher, subscriber):
        publisher.publish("three", blocks)
        subscription = subscriber.subscribe("three")
        assert [subscription.next(PATIENCE) for _ in range(3)] == [b"1", b"2", b"3"]
        assert blocks.blocked.wait(PATIENCE)
        with pytest.raises(TimeoutError):
            subscription.next(0.02)
        blocks.go_on.set()
        assert list(subscription) == [b"at last"]


def test_one_run_at_a_time_is_no_longer_than_asked_for(blocks: Blocks) -> None:
    with pair() as (publisher, subscriber):
        publisher.publish("three", blocks)
        with subscriber.subscribe("three", demand=10, prefetch=0) as subscription:
            assert blocks.blocked.wait(PATIENCE)
            until(lambda: publisher.stats()["unsent_bytes"] == 0)
            taken: list[bytes] = []
            while len(taken) < 3:
                run = subscription.next_run(2, PATIENCE)
                assert 1 <= len(run) <= 2
                taken += run
            assert taken == [b"1", b"2", b"3"]
            with pytest.raises(ValueError, match="most=0: give a number"):
                subscription.next_run(0)
            with pytest.raises(TimeoutError):
                subscription.next_run(2, 0.02)
            blocks.go_on.set()
            assert subscription.next(PATIENCE) == b"at last"
            with pytest.raises(StopIteration):
                subscription.next_run(2, PATIENCE)

        publisher.publish("few", [b"1", b"2", b"3", b"4"])
        with subscriber.subscribe("few") as subscription:
            assert subscription.next(PATIENCE) == b"1"
            rest = subscription.next_run(2, PATIENCE)
            assert rest == [b"2", b"3"][: len(rest)]


def test_every_element_of_a_slow_source_goes_out_at_once() -> None:
    steps = threading.Semaphore(0)

    def source(_name: str) -> Iterator[bytes]:
        for number in range(300):
            assert steps.acquire(timeout=PATIENCE)
            yield b"%d" % number

    with pair() as (publisher, subscriber):
        publisher.publish("steps", source)
        subscription = subscriber.subscribe("steps")
        for number in range(300):
            steps.release()
            assert subscription.next(PATIENCE) == b"%d" % number
        assert list(subscription) == []


def test_what_comes_in_the_middle_of_a_flush_is_not_forgotten(blocks: Blocks) -> None:
    """The thread that appends then sees that it is not the first, and does not ask for another flush."""

    class Racing(list[bytes]):
        def __getitem__(self, key: Any) -> Any:
            taken = super().__getitem__(key)
            if taken == [b"1"]:
                self.append(b"meanwhile")
            return taken

    opening = threading.Event()

    def source(name: str) -> Iterator[bytes]:
        assert opening.wait(PATIENCE)
        return blocks(name)

    blocks.elements = (b"1",)
    with pair() as (publisher, subscriber):
        publisher.publish("one", source)
        subscription = subscriber.subscribe("one")
        until(lambda: publisher._core._outbound)
        (feed,) = publisher._core._outbound.values()
        cast(ThreadOutboundStream, feed)._gathered = Racing()
        opening.set()
        assert [subscription.next(PATIENCE) for _ in range(2)] == [b"1", b"meanwhile"]


def test_a_handler_that_blocks_holds_up_its_own_stream_alone() -> None:
    """Rule 2.2."""
    running, go_on = threading.Event(), threading.Event()
    seen: list[bytes] = []

    def handler(element: bytes) -> None:
        running.set()
        assert go_on.wait(PATIENCE)
        seen.append(element)

    with pair() as (publisher, subscriber), ThreadPoolExecutor(1) as pool:
        publisher.publish("slow", [b"a", b"b"])
        publisher.publish("quick", [b"%d" % number for number in range(5000)])
        slow = pool.submit(subscriber.subscribe("slow").for_each, handler)
        assert running.wait(PATIENCE)
        for _ in range(3):
            assert len(list(subscriber.subscribe("quick"))) == 5000
        assert not slow.done()
        go_on.set()
        slow.result(PATIENCE)
        assert seen == [b"a", b"b"]


def test_a_subscriber_that_takes_nothing_stops_the_source_and_not_its_peers() -> None:
    """R-32: what it has granted comes, and no more is pulled."""
    pulled = itertools.count()

    def source(_name: str) -> Iterator[bytes]:
        for number in pulled:
            yield b"%d" % number

    with pair() as (publisher, subscriber):
        publisher.publish("numbers", source)
        publisher.publish("few", [b"x"])
        subscription = subscriber.subscribe("numbers", prefetch=8)
        assert subscription.next(PATIENCE) == b"0"
        assert list(subscriber.subscribe("few")) == [b"x"]
        assert next(pulled) <= 8


def test_a_codec_may_take_its_time() -> None:
    """It does not hold the machine: other threads call meanwhile."""

    class Codec:
        def __init__(self, streams: Streams) -> None:
            self._streams = streams

        def _wait(self) -> None:
            with ThreadPoolExecutor(1) as pool:
                pool.submit(self._streams.stats).result(PATIENCE)

        def encode(self, value: int) -> bytes:
            self._wait()
            return b"%d" % value

        def decode(self, element: bytes) -> int:
            self._wait()
            return int(element)

    with pair() as (publisher, subscriber):
        publisher.channel("numbers", codec=Codec(publisher)).publish(range(3))
        assert list(subscriber.channel("numbers", codec=Codec(subscriber)).subscribe()) == [0, 1, 2]
        runs = list(subscriber.channel("numbers", codec=Codec(subscriber)).subscribe().runs())
        assert list(itertools.chain.from_iterable(runs)) == [0, 1, 2]
