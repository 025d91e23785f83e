"""Reactive Streams on threads: ends of streams, and sources that cannot be."""

from __future__ import annotations

import contextlib
import gc
import itertools
import queue
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from tolliver.blocking import InstanceOptions, Subscription, create_instance, still_wanted

from tests.blocking.nodes import PATIENCE, until
from tests.blocking.streams import Blocks, Raw, connected_to, feeds, numbers, opened, pair
from tolliver_proto.reactive import (
    UNBOUNDED,
    Cancel,
    ClientHello,
    Closed,
    Limits,
    OnComplete,
    OnNext,
    ServerHello,
    StreamError,
    Subscribe,
    Subscribed,
    encode,
)

pytestmark = pytest.mark.usefixtures("no_feed_is_left")


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
            seen, expected = (
                b"",
                [ServerHello(0, (1,)), Subscribed(7), Subscribed(7), OnNext(7, b"late"), OnComplete(7)],
            )
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
        publisher.channel("bad", codec=Codec()).publish([b"1", "x"])
        each = subscriber.channel("mixed", codec=Codec()).subscribe()
        assert [each.next(PATIENCE), each.next(PATIENCE)] == [1, 2]
        for _ in range(2):
            with pytest.raises(ValueError, match="invalid literal"):
                each.next(PATIENCE)
        runs = subscriber.channel("mixed", codec=Codec()).subscribe(prefetch=16).runs()
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
        subscription = subscriber.channel("numbers", codec=Interrupts()).subscribe(prefetch=1)
        with pytest.raises(KeyboardInterrupt):
            subscription.next(PATIENCE)
        assert list(subscription) == [b"1", b"2"]  # nobody was given it


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
