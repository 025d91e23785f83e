"""Reactive Streams on threads: only what is the threads' own.

Behaviour of every adapter is in `tests/adapters`.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import queue
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from tolliver_transports.blocking import (
    InstanceOptions,
    Peer,
    Streams,
    StreamsOptions,
    Subscription,
    create_instance,
    create_streams,
    still_wanted,
)
from tolliver_transports.blocking.feed import ThreadOutboundStream

from tests.blocking.nodes import PATIENCE, until
from tests.blocking.test_process import needs_fork, run
from tests.opening import no_more_threads
from tolliver_proto import ConnectionClosing, ConnectionLost
from tolliver_proto.reactive import (
    UNBOUNDED,
    Cancel,
    ClientHello,
    Closed,
    Connection,
    ConnectionClosed,
    Event,
    Limits,
    OnComplete,
    OnNext,
    Request,
    Role,
    ServerHello,
    StreamError,
    Subscribe,
    Subscribed,
    encode,
)


def opened(**options: Any) -> Streams:
    return create_streams(StreamsOptions(plaintext=True, **options))


@contextmanager
def pair(**options: Any) -> Iterator[tuple[Streams, Streams]]:
    """A publisher, and a subscriber that is connected to it. The options are the subscriber's."""
    with opened(listen="127.0.0.1:0") as publisher, opened(**options) as subscriber:
        subscriber.connect(f"127.0.0.1:{publisher.port}", timeout=PATIENCE)
        yield publisher, subscriber


class Raw:
    """A peer whose wire a test can see: it accepts one connection, and has the machine of one connection."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.machine = Connection(Role.SERVER)
        self.seen: list[Event] = []

    def accept(self) -> None:
        self._sock, _ = self._listener.accept()
        self._sock.settimeout(0.02)

    def read_until(self, true: Callable[[], object]) -> None:
        def look() -> object:
            for unit in self.machine.data_to_send():
                self._sock.sendall(unit)
            with contextlib.suppress(TimeoutError):
                if data := self._sock.recv(65536):
                    self.machine.receive_data(data)
                else:
                    self.machine.receive_eof()
            self.seen += self.machine.events()
            return true()

        until(look)

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.seen if type(event) is kind]

    def close(self) -> None:
        self._sock.close()
        self._listener.close()


@pytest.fixture
def raw() -> Iterator[Raw]:
    peer = Raw()
    yield peer
    peer.close()


def connected_to(raw: Raw, streams: Streams) -> Peer:
    with ThreadPoolExecutor(1) as pool:
        peer = pool.submit(streams.connect, raw.address, timeout=PATIENCE)
        raw.accept()
        raw.read_until(peer.done)
        return peer.result()


def numbers(_name: str) -> Iterator[bytes]:
    return (b"%d" % number for number in itertools.count())


class Blocks:
    """A source that says a few elements and blocks then, until it is let go."""

    def __init__(self, *elements: bytes) -> None:
        self.elements = elements
        self.blocked = threading.Event()
        self.go_on = threading.Event()
        self.ended: list[threading.Thread] = []

    def __call__(self, _name: str) -> Iterator[bytes]:
        try:
            yield from self.elements
            self.blocked.set()
            assert self.go_on.wait(PATIENCE)
            yield b"at last"
        finally:
            self.ended.append(threading.current_thread())


@pytest.fixture
def blocks() -> Iterator[Blocks]:
    source = Blocks(b"1", b"2", b"3")
    yield source
    source.go_on.set()


def feeds() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("tolliver reads")]


@pytest.fixture(autouse=True)
def _no_feed_is_left() -> Iterator[None]:
    yield
    until(lambda: not feeds())


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
            with pytest.raises(ValueError, match="most is 0: give a number of elements"):
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
        publisher.publish("numbers", range(3), codec=Codec(publisher))
        assert list(subscriber.subscribe("numbers", codec=Codec(subscriber))) == [0, 1, 2]
        runs = list(subscriber.subscribe("numbers", codec=Codec(subscriber)).runs())
        assert list(itertools.chain.from_iterable(runs)) == [0, 1, 2]


# The end of a stream.


def test_a_dropped_subscription_is_cancelled_once(raw: Raw) -> None:
    """Rule 2.6."""
    with opened() as streams:
        peer = connected_to(raw, streams)
        subscription = peer.subscribe("numbers")
        raw.read_until(lambda: raw.of(Subscribe))
        del subscription
        gc.collect()
        raw.read_until(lambda: raw.of(Cancel))
        peer.goodbye("the end")
        raw.read_until(lambda: raw.of(Closed))
        raw.close()
        assert len(raw.of(Cancel)) == 1


def test_many_are_dropped_at_once() -> None:
    with pair(limits=Limits(max_streams=2001)) as (publisher, subscriber):
        publisher.publish("good", [b"x"])
        with publisher._core.lock, subscriber._core.lock:
            dropped = [subscriber.subscribe("nothing") for _ in range(2000)]
            dropped.clear()
        until(lambda: not subscriber.stats()["streams_taken"])
        assert list(subscriber.subscribe("good")) == [b"x"]


def test_a_cancelled_source_is_closed_on_its_own_thread(blocks: Blocks) -> None:
    with pair() as (publisher, subscriber):
        publisher.publish("three", blocks)
        waiting = numbers("")

        def source(_name: str) -> Iterator[bytes]:
            return waiting

        publisher.publish("numbers", source)
        with subscriber.subscribe("three") as three, subscriber.subscribe("numbers", prefetch=3) as few:
            assert three.next(PATIENCE) == b"1"
            assert few.next(PATIENCE) == b"0"
            assert blocks.blocked.wait(PATIENCE)
            assert len(feeds()) == 2
        until(lambda: len(feeds()) == 1)  # the other one blocks
        assert list(waiting) == []  # closed
        assert three.closed
        assert list(three) == []
        assert not blocks.ended
        blocks.go_on.set()
        until(lambda: blocks.ended)
        assert blocks.ended[0].name == "tolliver reads 'three'"


def test_a_source_that_goes_on_is_stopped_after_a_cancel() -> None:
    """It is not pulled until its credit is used up: that may be for ever."""
    cancelled, pulled = threading.Event(), itertools.count()

    def source(_name: str) -> Iterator[bytes]:
        yield b"first"
        assert cancelled.wait(PATIENCE)
        for _ in pulled:
            yield b"more"

    with pair() as (publisher, subscriber):
        publisher.publish("endless", source)
        with subscriber.subscribe("endless", demand=UNBOUNDED) as endless:
            assert endless.next(PATIENCE) == b"first"
        until(lambda: not publisher.stats()["streams_given"])
        cancelled.set()
        until(lambda: not feeds())
        assert next(pulled) <= 1


@pytest.mark.parametrize("kind", ["error", "exit", "close", "not iterable", "wrong size", "not bytes", "silent error"])
def test_whatever_a_source_does_ends_its_stream_alone(kind: str) -> None:
    class Silent(Exception):
        def __str__(self) -> str:
            raise ValueError("no text")

    def error(_name: str) -> Iterator[bytes]:
        yield b"aa"
        raise {"error": OSError("no more"), "exit": SystemExit(3), "silent error": Silent()}[kind]

    class Close:
        def __init__(self, _name: str) -> None:
            self._left = [b"aa"]

        def __iter__(self) -> Close:
            return self

        def __next__(self) -> bytes:
            if not self._left:
                raise StopIteration
            return self._left.pop()

        def close(self) -> None:
            raise OSError("cannot close")

    sources: dict[str, Any] = {
        "close": Close,
        "not iterable": lambda _name: 7,
        "wrong size": [b"aa", b"b", b"cc"],
        "not bytes": [b"aa", "b", b"cc"],
    }
    texts = {
        "error": "OSError: no more",
        "exit": "SystemExit: 3",
        "silent error": "Silent",
        "close": "OSError: cannot close",
        "not iterable": "TypeError",
        "wrong size": "rule 1.4",
        "not bytes": "element",
    }
    with pair() as (publisher, subscriber):
        publisher.publish("bad", sources.get(kind, error), element_size=2)
        publisher.publish("good", [b"x"])
        taken: list[bytes] = []
        with pytest.raises(StreamError) as failure:
            taken.extend(iter(partial(subscriber.subscribe("bad").next, PATIENCE), None))
        assert texts[kind] in str(failure.value)
        assert list(subscriber.subscribe("good")) == [b"x"]
        until(lambda: not feeds())


def test_nothing_goes_out_behind_an_element_that_cannot_be_sent() -> None:
    """Also where more has gathered meanwhile."""
    looked_at, gathered = threading.Event(), threading.Event()

    class Huge(bytes):
        def __len__(self) -> int:  # the machine asks for it
            looked_at.set()
            assert gathered.wait(PATIENCE)
            return 2**40

    def source(_name: str) -> Iterator[bytes]:
        yield Huge()
        assert looked_at.wait(PATIENCE)
        yield b"behind"
        gathered.set()

    with pair() as (publisher, subscriber):
        publisher.publish("huge", source)
        with pytest.raises(StreamError, match="R-33"):
            subscriber.subscribe("huge").next(PATIENCE)


def test_a_source_that_opens_after_its_cancel_says_nothing() -> None:
    """Its id may be another stream's by then."""
    gates = {"early": threading.Event(), "late": threading.Event()}

    opening = threading.Event()

    def source(name: str) -> list[bytes]:
        opening.set()
        assert gates[name].wait(PATIENCE)
        return [name.encode()]

    with opened(listen="127.0.0.1:0") as publisher:
        publisher.publish("early", source, element_size=5)
        publisher.publish("late", source)
        with socket.create_connection(("127.0.0.1", cast(int, publisher.port)), timeout=PATIENCE) as sock:
            sock.sendall(encode(ClientHello()) + encode(Subscribe("early", 7, 9)))
            assert opening.wait(PATIENCE)
            for frame in (Cancel(7), Subscribe("late", 7, 9)):
                sock.sendall(encode(frame))
            until(lambda: len(feeds()) == 2)
            gates["early"].set()
            until(lambda: len(feeds()) == 1)
            gates["late"].set()
            seen, expected = b"", [ServerHello(), Subscribed(7), Subscribed(7), OnNext(7, b"late"), OnComplete(7)]
            whole = b"".join(map(encode, expected))
            while len(seen) < len(whole) and (data := sock.recv(4096)):
                seen += data
            assert seen == whole


def test_a_subscription_that_is_opened_after_the_end_of_its_stream_is_cancelled() -> None:
    opening, opened_late = threading.Event(), threading.Event()
    with pair() as (publisher, subscriber):
        publisher.publish("numbers", numbers)
        held = subscriber.subscribe("numbers")

        def source(_name: str) -> Subscription[bytes]:
            opening.set()
            assert opened_late.wait(PATIENCE)
            return held

        subscriber.publish("late", source)
        with publisher.subscribe("late"):
            assert opening.wait(PATIENCE)
        until(lambda: not subscriber.stats()["streams_given"])
        opened_late.set()
        until(lambda: held.closed)
        assert not subscriber.stats()["streams_taken"]


def test_a_source_over_messages_ends_with_its_stream(tmp_path: Path) -> None:
    """Its thread waits within a generator, where nobody else can close it."""
    options = InstanceOptions(database=tmp_path / "a.db", plaintext=True)
    with pair() as (publisher, subscriber), create_instance(options) as instance:
        taken: list[Any] = [instance.messages("news"), instance.message_runs("news")]
        publisher.publish("0", lambda _name: (message.body for message in taken[0]))
        publisher.publish("1", lambda _name: (run[0].body for run in taken[1]))
        for name in ("0", "1"):
            with subscriber.subscribe(name) as bodies:
                until(lambda bodies=bodies: bodies.element_size is not None)  # type: ignore[misc]  # bound now
            until(lambda: not feeds())
        with pytest.raises(TimeoutError):
            taken[0].next(0.01)  # it goes on for others


def test_a_source_that_waits_for_something_else_asks_whether_it_is_wanted() -> None:
    elements: queue.Queue[bytes] = queue.Queue()

    def source(_name: str) -> Iterator[bytes]:
        while still_wanted():
            with contextlib.suppress(queue.Empty):
                yield elements.get(timeout=0.01)

    assert still_wanted()
    with pair() as (publisher, subscriber):
        publisher.publish("queue", source)
        with subscriber.subscribe("queue") as subscription:
            elements.put(b"x")
            assert subscription.next(PATIENCE) == b"x"
        until(lambda: not feeds())


def test_loops_that_wait_end_when_another_thread_cancels(blocks: Blocks) -> None:
    with pair() as (publisher, subscriber), ThreadPoolExecutor(3) as pool:
        publisher.publish("three", blocks)
        subscription = subscriber.subscribe("three")
        assert [subscription.next(PATIENCE) for _ in range(3)] == [b"1", b"2", b"3"]
        waiting: list[Future[Any]] = [pool.submit(list, subscription), pool.submit(list, subscription.runs())]
        waiting.append(pool.submit(lambda: [next(subscription, None)]))
        subscription.cancel()
        assert [one.result(PATIENCE) for one in waiting] == [[], [], [None]]


def test_a_codec_that_fails_ends_the_stream_after_what_it_could_read() -> None:
    class Codec:
        def encode(self, value: Any) -> bytes:
            return bytes(value)

        def decode(self, element: bytes) -> Any:
            return int(element)

    with pair() as (publisher, subscriber):
        publisher.publish("mixed", lambda _name: [b"1", b"2", b"x", b"3"])
        publisher.publish("bad", [b"1", "x"], codec=Codec())
        each = subscriber.subscribe("mixed", codec=Codec())
        assert [each.next(PATIENCE), each.next(PATIENCE)] == [1, 2]
        for _ in range(2):
            with pytest.raises(ValueError, match="invalid literal"):
                each.next(PATIENCE)
        runs = subscriber.subscribe("mixed", codec=Codec(), prefetch=16).runs()
        taken: list[int] = []
        with pytest.raises(ValueError, match="invalid literal"):
            taken.extend(itertools.chain.from_iterable(runs))
        assert taken == [1, 2]
        with pytest.raises(StreamError, match="TypeError"):
            list(subscriber.subscribe("bad"))
        until(lambda: not publisher.stats()["streams_given"])


def test_an_interrupt_is_no_failure_of_the_codec() -> None:
    class Interrupts:
        left = [KeyboardInterrupt()]  # noqa: RUF012  # of this test alone

        def encode(self, value: bytes) -> bytes:
            return value

        def decode(self, data: bytes) -> bytes:
            if self.left:
                raise self.left.pop()
            return data

    with pair() as (publisher, subscriber):
        publisher.publish("numbers", [b"1", b"2"])
        subscription = subscriber.subscribe("numbers", prefetch=1, codec=Interrupts())
        with pytest.raises(KeyboardInterrupt):
            subscription.next(PATIENCE)
        assert list(subscription) == [b"2"]


def test_a_handler_that_raises_cancels() -> None:
    """Rule 2.13."""
    with pair() as (publisher, subscriber):
        publisher.publish("numbers", numbers)
        subscription = subscriber.subscribe("numbers")
        with pytest.raises(ValueError, match="no such number"):
            subscription.for_each(_raise)
        assert subscription.closed
        until(lambda: not feeds())
        assert subscriber.peers()


def _raise(_element: bytes) -> None:
    raise ValueError("no such number")


async def _coroutine(_name: Any) -> list[bytes]:
    return []


async def _elements(_name: Any) -> AsyncIterator[bytes]:
    yield b"x"


class _AsyncCallable:
    async def __call__(self, _name: str) -> list[bytes]:
        return []


class _Awaitable:
    def __await__(self) -> Iterator[None]:
        yield

    def __call__(self) -> None:
        pass


ASYNC_SOURCES = {
    "coroutine function": _coroutine,
    "async generator function": _elements,
    "async generator": _elements(""),
    "callable": _AsyncCallable(),
    "partial": partial(_coroutine, ""),
    "awaitable": _Awaitable(),
}


@pytest.mark.parametrize("kind", ASYNC_SOURCES)
def test_an_async_source_is_refused(kind: str) -> None:
    with opened() as streams:
        with pytest.raises(TypeError, match="adapter of your event loop"):
            streams.publish("x", cast(Any, ASYNC_SOURCES[kind]))
        streams.publish("x", [])


def test_what_turns_out_to_be_async_fails() -> None:
    with pair() as (publisher, subscriber):
        publisher.publish("coroutine", cast(Any, lambda name: _coroutine(name)))
        publisher.publish("iterator", cast(Any, lambda name: _elements(name)))
        for name in ("coroutine", "iterator"):
            with pytest.raises(StreamError, match="nobody awaits"):
                list(subscriber.subscribe(name))
        publisher.publish("good", [b"x"])
        with pytest.raises(TypeError, match="plain function"):
            subscriber.subscribe("good").for_each(_coroutine)
        with pytest.raises(TypeError, match="plain function"):
            subscriber.subscribe("good").for_each(lambda _element: _Awaitable())
        with pytest.raises(TypeError, match="plain function"):
            subscriber.subscribe("good").for_each(lambda _element: _coroutine(""))


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
    with pair() as (publisher, subscriber):
        assert publisher.max_feeds == 256
        publisher.max_feeds = 2
        publisher.publish("three", blocks)
        with subscriber.subscribe("three") as one, subscriber.subscribe("three") as other:
            assert (one.next(PATIENCE), other.next(PATIENCE)) == (b"1", b"1")
            with pytest.raises(StreamError, match=r"2 streams are given here at once.*R-14"):
                list(subscriber.subscribe("three"))
        until(lambda: not publisher.stats()["streams_given"])
        with pytest.raises(
            StreamError, match=r"2 streams.*\(2 to subscribers that left"
        ):  # the source blocks, and has its threads still
            list(subscriber.subscribe("three"))
        blocks.go_on.set()
        until(lambda: not feeds())
        assert list(subscriber.subscribe("three")) == [b"1", b"2", b"3", b"at last"]
        until(lambda: not feeds())


def test_without_room_for_a_thread_a_subscription_is_refused() -> None:
    with pair() as (publisher, subscriber):
        publisher.publish("numbers", [b"1"])
        with no_more_threads(), pytest.raises(StreamError, match=r"no room for another thread.*R-14"):
            list(subscriber.subscribe("numbers"))
        assert list(subscriber.subscribe("numbers")) == [b"1"]


# The end.


def test_closing_does_not_wait_for_a_source_that_blocks(blocks: Blocks) -> None:
    started = time.monotonic()
    with ThreadPoolExecutor(1) as pool:
        with opened() as subscriber:
            with opened(listen="127.0.0.1:0") as publisher:
                publisher.publish("three", blocks)
                subscriber.connect(f"127.0.0.1:{publisher.port}", timeout=PATIENCE)
                subscription = subscriber.subscribe("three")
                taken = [subscription.next(PATIENCE) for _ in range(3)]
                waiting = pool.submit(subscription.next)
            assert taken == [b"1", b"2", b"3"]
            with pytest.raises(ConnectionClosed):
                waiting.result(PATIENCE)
        assert time.monotonic() - started < publisher._core.options.limits.close_timeout + 1
        assert len(feeds()) == 1
        blocks.go_on.set()
        until(lambda: not feeds())
        assert blocks.ended


def test_closing_waits_for_a_silent_peer_only_so_long(raw: Raw, blocks: Blocks) -> None:
    started = time.monotonic()
    with opened(limits=Limits(close_timeout=0.1)) as streams:
        subscription = connected_to(raw, streams).subscribe("numbers")
        streams.publish("three", blocks)
        raw.machine.subscribe("three", 9)
        raw.read_until(blocks.blocked.is_set)
    assert time.monotonic() - started < PATIENCE / 2
    with pytest.raises(ConnectionClosed):
        subscription.next(PATIENCE)


@pytest.mark.parametrize("way", ["close", "goodbye"])
def test_a_source_may_close_its_own_streams(way: str) -> None:
    """The elements that it has yielded before go out."""
    with pair() as (publisher, subscriber):

        def source(_name: str) -> Iterator[bytes]:
            yield b"x"
            if way == "close":
                publisher.close()
            else:
                publisher.peers()[0].goodbye()
            yield b"y"

        publisher.publish("closes", source)
        subscription = subscriber.subscribe("closes")
        assert subscription.next(PATIENCE) == b"x"
        with pytest.raises(ConnectionClosed):
            subscription.next(PATIENCE)
        until(lambda: not feeds())


def test_a_failure_of_our_own_tells_everybody_who_waits(blocks: Blocks, caplog: pytest.LogCaptureFixture) -> None:
    with pair() as (publisher, subscriber), ThreadPoolExecutor(2) as pool:
        publisher.publish("three", blocks)
        subscriber.publish("numbers", numbers)
        back = publisher.subscribe("numbers", prefetch=1)
        assert back.next(PATIENCE) == b"0"
        subscription = subscriber.subscribe("three")
        assert [subscription.next(PATIENCE) for _ in range(3)] == [b"1", b"2", b"3"]
        waiting: list[Future[Any]] = [pool.submit(subscription.next), pool.submit(list, subscription)]
        subscriber._core._loop.soon(lambda: 1 // 0)
        for one in waiting:
            with pytest.raises(ConnectionClosing, match="have failed"):
                one.result(PATIENCE)
        assert "ZeroDivisionError" in caplog.text
        until(lambda: [thread.name for thread in feeds()] == ["tolliver reads 'three'"])
        with pytest.raises(ConnectionClosing):
            subscriber.subscribe("three")


@needs_fork
def test_a_forked_child_is_told_to_open_its_own(tmp_path: Path) -> None:
    body = """
        from tolliver_transports.blocking import StreamsOptions, create_streams
        pub = create_streams(StreamsOptions(listen="127.0.0.1:0", plaintext=True)).__enter__()
        sub = create_streams(StreamsOptions(plaintext=True)).__enter__()
        endless = pub.publish("endless", lambda name: (b"x" for _ in iter(int, 1)))
        peer = sub.connect(f"127.0.0.1:{pub.port}")
        subscription = sub.subscribe("endless")
        subscription.next(10)
        child = os.fork()
        if not child:
            for call in (
                lambda: sub.connect("127.0.0.1:1"),
                lambda: pub.publish("more", []),
                lambda: endless.close(),
                lambda: sub.subscribe("endless"),
                lambda: peer.subscribe("endless"),
                lambda: peer.goodbye(),
                lambda: sub.peers(),
                lambda: sub.stats(),
                lambda: next(subscription),
                lambda: subscription.next(0),
                lambda: list(subscription.runs()),
                lambda: subscription.request(1),
                lambda: subscription.cancel(),
            ):
                try:
                    call()
                except TolliverError as error:
                    print(error)
            sub.close()
            raise SystemExit(7)
        _, status = os.waitpid(child, 0)
        for _ in range(1000):
            subscription.next(10)
        subscription.cancel()
        print("the parent goes on,", os.waitstatus_to_exitcode(status), len(list(sub.peers())))
    """
    done = run(body, tmp_path)
    assert done.returncode == 0, done.stderr
    *said, last = done.stdout.splitlines()
    assert last == "the parent goes on, 7 1"
    assert len(said) == 13
    assert all("open another one" in line and "(T-79)" in line for line in said)
    assert done.stderr == ""


def test_a_script_that_forgets_to_close_ends_in_order(tmp_path: Path) -> None:
    body = """
        from tolliver_transports.blocking import StreamsOptions, create_streams
        pub = create_streams(StreamsOptions(listen="127.0.0.1:0", plaintext=True)).__enter__()
        sub = create_streams(StreamsOptions(plaintext=True)).__enter__()
        def blocks(name):
            yield b"x"
            time.sleep(1000)
        pub.publish("blocks", blocks)
        sub.connect(f"127.0.0.1:{pub.port}")
        subscription = sub.subscribe("blocks")
        print(subscription.next(10))
    """
    done = run(body, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "b'x'\n", "")


@pytest.mark.skipif(sys.platform == "win32", reason="signals as POSIX has them")
def test_ctrl_c_in_a_wait_closes_in_order(tmp_path: Path) -> None:
    body = """
        import signal
        from tolliver_transports.blocking import StreamsOptions, create_streams
        with create_streams(StreamsOptions(listen="127.0.0.1:0", plaintext=True)) as pub:
            pub.publish("endless", lambda name: iter(threading.Event().wait, True))
            try:
                with create_streams(StreamsOptions(plaintext=True)) as sub:
                    sub.connect(f"127.0.0.1:{pub.port}")
                    threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
                    sub.subscribe("endless").next()
            except KeyboardInterrupt:
                print("interrupted")
            while pub.peers():
                time.sleep(0.01)
    """
    done = run(body, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "interrupted\n", "")
