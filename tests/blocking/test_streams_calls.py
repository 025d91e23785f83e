"""Reactive Streams on threads: calls and their time limits, bounds."""

from __future__ import annotations

import itertools
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.blocking.nodes import PATIENCE, until
from tests.blocking.streams import Blocks, feeds, opened, pair
from tests.opening import no_more_threads
from tolliver_proto import ConnectionLost
from tolliver_proto.reactive import UNBOUNDED, Limits, StreamError

pytestmark = pytest.mark.usefixtures("no_feed_is_left")


# The calls.


def test_a_loop_ends_when_nothing_comes_and_may_go_on(blocks: Blocks) -> None:
    with pair() as (publisher, subscriber):
        publisher.publish("three", blocks)
        subscription = subscriber.peers()[0].subscribe("three", timeout=0.05)
        assert [subscription.next(PATIENCE) for _ in range(3)] == [b"1", b"2", b"3"]
        assert list(subscription) == []
        assert list(subscription.runs()) == []
        assert not subscription.closed
        started = time.monotonic()
        with pytest.raises(TimeoutError, match=r"after 0\.01 s no element of 'three' has come"):
            subscription.next(0.01)
        assert time.monotonic() - started < PATIENCE / 2
        blocks.go_on.set()
        assert subscription.next(PATIENCE) == b"at last"
        with pytest.raises(StopIteration):
            subscription.next()
        with pytest.raises(StopIteration):
            next(subscription)


def test_runs_are_lists_of_what_has_come() -> None:
    with pair() as (publisher, subscriber):
        publisher.publish("numbers", [b"%02d" % (number % 100) for number in range(10_000)], element_size=2)
        subscription = subscriber.subscribe("numbers", prefetch=1000)
        assert subscription.next(PATIENCE) == b"00"
        assert subscription.element_size == 2
        runs = list(subscription.runs())
        assert max(map(len, runs)) <= 250
        assert sum(map(len, runs)) == 9999


def test_a_connection_that_takes_too_long_is_given_up() -> None:
    limits = Limits(close_timeout=0.1, handshake_timeout=10 * PATIENCE)
    with opened(limits=limits) as streams, socket.create_server(("127.0.0.1", 0)) as silent:
        remote = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(TimeoutError, match="it is given up"):
            streams.connect(remote, timeout=0.05)
        until(lambda: not streams.stats()["connections"])
    with opened() as streams, pytest.raises(ConnectionLost):
        streams.connect(remote, timeout=PATIENCE)


def test_a_publication_may_be_withdrawn_by_any_thread_while_names_are_looked_up() -> None:
    with pair() as (publisher, subscriber), ThreadPoolExecutor(4) as pool:

        def come_and_go(number: int) -> None:
            for _ in range(100):
                publisher.publish(f"{number} *", []).close()

        going = [pool.submit(come_and_go, number) for number in range(4)]
        for _ in range(100):
            with pytest.raises(StreamError, match="R-14"):
                list(subscriber.subscribe("nothing"))
        for one in going:
            one.result(PATIENCE)


def test_what_is_not_read_for_a_while_is_read_again() -> None:
    """A connection that is read no longer, as too much has come, is read again when that is taken or dropped."""
    with pair(limits=Limits(max_unread=1000)) as (publisher, subscriber):
        publisher.publish("large", lambda _name: itertools.repeat(bytes(10_000), 300))
        publisher.publish("small", [b"x"])
        assert len(list(subscriber.subscribe("large", demand=UNBOUNDED, timeout=PATIENCE))) == 300
        large = subscriber.subscribe("large", demand=1)
        until(lambda: subscriber.stats()["unread_bytes"] > 1000)
        small = subscriber.subscribe("small")
        large.cancel()
        assert small.next(PATIENCE) == b"x"


# Bounds.


def test_there_are_only_so_many_threads(blocks: Blocks) -> None:
    with pair(max_feeds=2) as (publisher, subscriber):
        publisher.publish("three", blocks)
        with subscriber.subscribe("three") as one, subscriber.subscribe("three") as other:
            assert (one.next(PATIENCE), other.next(PATIENCE)) == (b"1", b"1")
            with pytest.raises(StreamError, match=r"2 streams are given here at once.*R-14"):
                list(subscriber.subscribe("three"))
            until(lambda: len(blocks.held) == 2)  # one that was not there yet would end with its stream
        until(lambda: not publisher.stats()["streams_given"])
        with pytest.raises(StreamError, match=r"2 sources have not returned since their subscribers left.*R-14"):
            list(subscriber.subscribe("three"))
        blocks.go_on.set()
        until(lambda: not feeds())
        assert list(subscriber.subscribe("three")) == [b"1", b"2", b"3", b"at last"]
        until(lambda: not feeds())


def test_sources_that_block_after_their_streams_keep_nobody_out(
    blocks: Blocks, caplog: pytest.LogCaptureFixture
) -> None:
    with pair(max_feeds=20) as (publisher, subscriber):
        publisher.publish("three", blocks)
        publisher.publish("one", [b"1"])
        for count in range(1, 20):
            with subscriber.subscribe("three") as stream:
                assert stream.next(PATIENCE) == b"1"
                until(lambda: len(blocks.held) == count)  # noqa: B023  # called before it changes
            until(lambda: not publisher.stats()["streams_given"])
        waiting = [subscriber.subscribe("three") for _ in range(2)]
        assert [stream.next(PATIENCE) for stream in waiting] == [b"1", b"1"]
        assert list(subscriber.subscribe("one")) == [b"1"]
        assert [text for text in caplog.messages if "have not returned" in text] == [
            "16 sources that are read for subscribers that left have not returned: let them wait with a timeout, "
            "as each keeps a thread, and beyond 20 further subscribers are refused"
        ]
        blocks.go_on.set()
        for stream in waiting:
            stream.cancel()
        until(lambda: not feeds())


def test_without_room_for_a_thread_a_subscription_is_refused() -> None:
    with pair() as (publisher, subscriber):
        publisher.publish("numbers", [b"1"])
        with no_more_threads(), pytest.raises(StreamError, match=r"no room for another thread.*R-14"):
            list(subscriber.subscribe("numbers"))
        assert list(subscriber.subscribe("numbers")) == [b"1"]
