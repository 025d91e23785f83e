"""Streams on Twisted: only what is Twisted's own.

Behaviour that all adapters share is proved for all of them together.
"""

from __future__ import annotations

import gc
import logging
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tolliver.twisted import (
    EndOfStream,
    Peer,
    Streams,
    StreamsOptions,
    Subscription,
    create_streams,
)
from twisted.internet.defer import CancelledError, Deferred, inlineCallbacks
from twisted.internet.defer import TimeoutError as DeferredTimeout
from twisted.internet.task import deferLater
from twisted.python.failure import Failure

from tests.certificates import Certificates
from tolliver_proto import ConnectionClosing, ConnectionLost
from tolliver_proto.reactive import ConnectionClosed, StreamError

from .nodes import until
from .reactors import TIMEOUT, Loop, running

NUMBERS = [b"%d" % number for number in range(1000)]


class Flows:
    """Streams that know each other."""

    def __init__(self, reactor: Any) -> None:
        self.reactor = reactor

    def open(self, **options: Any) -> Deferred[Streams]:
        options = {"listen": "127.0.0.1:0", "plaintext": "tls" not in options, **options}
        return create_streams(StreamsOptions(**options), self.reactor)

    @asynccontextmanager
    async def pair(self) -> AsyncIterator[tuple[Streams, Peer]]:
        """Streams that publish, and what those are to others."""
        async with await self.open() as giving, await self.open() as taking:
            yield giving, await taking.connect(f"127.0.0.1:{giving.port}")

    async def until(self, true: Callable[[], object]) -> None:
        await until(self.reactor, true)


@pytest.fixture
def flows(loop: Loop) -> Flows:
    return Flows(loop.reactor)


async def rest(subscription: Subscription[Any]) -> list[Any]:
    return [element async for element in subscription]


# Their users.


def test_a_life_in_callbacks(loop: Loop, flows: Flows) -> None:
    """Nothing needs a coroutine."""
    elements: list[bytes] = []

    def on_giving(giving: Streams) -> Deferred[Any]:
        giving.publish("numbers", NUMBERS)
        used = flows.open().addCallback(on_both, giving)
        return used.addBoth(lambda result: giving.close().addCallback(lambda _: result))

    def on_both(taking: Streams, giving: Streams) -> Deferred[Any]:
        used: Deferred[Any] = taking.connect(f"127.0.0.1:{giving.port}", timeout=TIMEOUT)
        used.addCallback(lambda peer: peer.subscribe("numbers").for_each(elements.append))
        return used.addBoth(lambda result: taking.close().addCallback(lambda _: result))

    loop.wait(lambda: flows.open().addCallback(on_giving))
    assert elements == NUMBERS


def test_a_life_in_inline_callbacks(loop: Loop, flows: Flows) -> None:
    elements: list[bytes] = []

    @inlineCallbacks
    def scenario() -> Any:
        giving = yield flows.open()
        taking = yield flows.open()
        giving.publish("numbers", NUMBERS)
        peer = yield taking.connect(f"127.0.0.1:{giving.port}")
        subscription = peer.subscribe("numbers")
        try:
            while True:
                elements.append((yield subscription.next()))
        except EndOfStream:
            pass
        yield taking.close()
        yield giving.close()

    loop.wait(scenario)
    assert elements == NUMBERS


def test_a_life_in_coroutines_over_tls(loop: Loop, flows: Flows, certs: Certificates) -> None:
    async def scenario() -> None:
        bob, alice = ({"tls": certs.tls(name)} for name in ("bob", "alice"))
        async with await flows.open(**bob) as giving, await flows.open(**alice) as taking:
            giving.publish("numbers", NUMBERS)
            peer = await taking.connect(f"localhost:{giving.port}")
            assert peer.identity.uuids == {certs.uuid("bob")}
            [caller] = giving.peers()
            assert caller.identity.uuids == {certs.uuid("alice")}
            assert await rest(taking.subscribe("numbers")) == NUMBERS
            runs = [run async for run in peer.subscribe("numbers").runs()]
            assert [element for run in runs for element in run] == NUMBERS

    loop.wait(scenario)


# The next element.


def test_elements_that_are_asked_for_together_come_in_order(loop: Loop, flows: Flows) -> None:
    async def scenario() -> None:
        async with flows.pair() as (giving, peer):
            giving.publish("numbers", NUMBERS[:3])
            subscription = peer.subscribe("numbers")
            coming = [subscription.next() for _ in range(5)]
            assert [await one for one in coming[:3]] == NUMBERS[:3]
            for over in (*coming[3:], subscription.next()):
                with pytest.raises(EndOfStream, match="'numbers' has no more elements"):
                    await over

    loop.wait(scenario)


def test_an_element_is_not_lost_with_who_waits_for_it(loop: Loop, flows: Flows) -> None:
    async def scenario() -> None:
        gates: list[Deferred[bytes]] = [Deferred() for _ in NUMBERS[:9]]

        async def source(_name: str) -> AsyncIterator[bytes]:
            for gate in gates:
                yield await gate

        async with flows.pair() as (giving, peer):
            giving.publish("numbers", source)
            subscription = peer.subscribe("numbers")
            elements = []
            for gate, number in zip(gates, NUMBERS, strict=False):
                first, second = subscription.next(), subscription.next()
                waiting = second.addTimeout(0.001, loop.reactor)
                if int(number) % 2:
                    await deferLater(loop.reactor, 0)
                first.cancel()
                for left in (first, waiting):
                    with pytest.raises((CancelledError, DeferredTimeout)):
                        await left
                gate.callback(number)
                elements.append(await subscription.next())
            assert elements == NUMBERS[:9]

    loop.wait(scenario)


def test_a_callback_may_ask_for_the_next_one_again_and_again(loop: Loop, flows: Flows) -> None:
    """However many are there at once, and without a stack that grows with them."""
    elements: list[bytes] = []

    async def scenario() -> None:
        async with flows.pair() as (giving, peer):
            giving.publish("numbers", NUMBERS)
            subscription = peer.subscribe("numbers", prefetch=8 * len(NUMBERS))
            await flows.until(lambda: subscription.closed)
            over: Deferred[None] = Deferred()

            def on_element(element: bytes) -> None:
                elements.append(element)
                ask()

            def ask() -> None:
                subscription.next().addCallbacks(on_element, on_end)

            def on_end(failure: Failure) -> None:
                failure.trap(EndOfStream)
                over.callback(None)

            ask()
            await over

    loop.wait(scenario)
    assert elements == NUMBERS


@pytest.mark.parametrize("mine", [EOFError, CancelledError])
def test_what_a_codec_raises_is_not_taken_for_the_end(loop: Loop, flows: Flows, mine: type[Exception]) -> None:
    class Codec:
        def encode(self, value: bytes) -> bytes:
            return value

        def decode(self, data: bytes) -> bytes:
            raise mine("not one of ours")

    async def scenario() -> None:
        async with await flows.open() as giving, await flows.open() as taking:
            await taking.connect(f"127.0.0.1:{giving.port}")
            giving.publish("numbers", NUMBERS)
            with pytest.raises(mine, match="not one of ours"):
                await taking.channel("numbers", codec=Codec()).subscribe().next()

    loop.wait(scenario)


def test_a_stream_that_fails_does_so_for_whoever_waits(loop: Loop, flows: Flows) -> None:
    def source(_name: str) -> Iterator[bytes]:
        yield b"1"
        raise ValueError("no second one")

    async def scenario() -> None:
        async with flows.pair() as (giving, peer):
            giving.publish("numbers", source)
            subscription = peer.subscribe("numbers")
            one, two, three = (subscription.next() for _ in range(3))
            assert await one == b"1"
            for failed in (two, three, peer.subscribe("nothing").for_each(print)):
                with pytest.raises(StreamError, match=r"no second one|nothing is published"):
                    await failed

    loop.wait(scenario)


# Handlers.


def test_handlers_of_each_kind(loop: Loop, flows: Flows) -> None:
    """An element waits until the one before it is done with."""
    handled: dict[str, list[bytes]] = {"plain": [], "coroutine": [], "generator": [], "deferred": []}

    def plain(element: bytes) -> None:
        handled["plain"].append(element)

    async def coroutine(element: bytes) -> None:
        await deferLater(loop.reactor, 0)
        handled["coroutine"].append(element)

    @inlineCallbacks
    def generator(element: bytes) -> Any:
        yield deferLater(loop.reactor, 0)
        handled["generator"].append(element)

    def deferred(element: bytes) -> Deferred[None]:
        delay = 0.002 if element == b"0" else 0
        return deferLater(loop.reactor, delay, handled["deferred"].append, element)

    async def scenario() -> None:
        async with flows.pair() as (giving, peer):
            giving.publish("numbers", NUMBERS[:9])
            ends = [peer.subscribe("numbers").for_each(one) for one in (plain, coroutine, generator, deferred)]
            for end in ends:
                await end

    loop.wait(scenario)
    assert handled == dict.fromkeys(handled, NUMBERS[:9])


@pytest.mark.parametrize("how", ["raises", "fails", "is cancelled"])
def test_a_handler_that_goes_wrong_cancels_the_stream(loop: Loop, flows: Flows, how: str) -> None:
    def handler(_element: bytes) -> Deferred[Any]:
        if how == "raises":
            raise ValueError("mine")
        waiting: Deferred[Any] = deferLater(loop.reactor, 0, int, "mine") if how == "fails" else Deferred()
        return waiting

    async def scenario() -> None:
        async with flows.pair() as (giving, peer):
            giving.publish("numbers", iter(lambda: b"0", b"1"))
            subscription = peer.subscribe("numbers")
            handling = subscription.for_each(handler)
            await flows.until(lambda: handling.called or giving.stats()["streams_given"])
            if how == "is cancelled":
                handling.cancel()
            with pytest.raises((ValueError, CancelledError)):
                await handling
            assert subscription.closed
            await flows.until(lambda: not giving.stats()["streams_given"])

    loop.wait(scenario)


# Sources.


def test_sources_of_each_kind(loop: Loop, flows: Flows) -> None:
    def deferred(_name: str) -> Deferred[list[bytes]]:
        return deferLater(loop.reactor, 0, lambda: NUMBERS)

    async def coroutine(_name: str) -> Iterator[bytes]:
        await deferLater(loop.reactor, 0)
        return iter(NUMBERS)

    @inlineCallbacks
    def generator(_name: str) -> Any:
        yield deferLater(loop.reactor, 0)
        return NUMBERS

    async def elements(_name: str) -> AsyncIterator[bytes]:
        for number in NUMBERS:
            if number.endswith(b"0"):
                await deferLater(loop.reactor, 0)
            yield number

    def deferred_elements(name: str) -> Deferred[AsyncIterator[bytes]]:
        return deferLater(loop.reactor, 0, elements, name)

    async def scenario() -> None:
        async with flows.pair() as (giving, peer):
            for source in (deferred, coroutine, generator, elements, deferred_elements):
                giving.publish(source.__name__, source)
                assert await rest(peer.subscribe(source.__name__)) == NUMBERS

    loop.wait(scenario)


def test_a_source_runs_in_a_turn_of_its_own(loop: Loop, flows: Flows) -> None:
    """The driver sees the calls of a source, and one that ends at once leaves nothing behind."""

    async def scenario() -> None:
        async with flows.pair() as (giving, peer):

            def source(name: str) -> list[bytes]:
                assert giving.stats()["streams_given"] == 1
                return []

            giving.publish("nothing*", source)
            for number in range(3):
                assert await rest(peer.subscribe(f"nothing{number}")) == []
                assert giving.stats()["streams_given"] == 0

            def last(_name: str) -> list[bytes]:
                giving.goodbye(giving.peers()[0], "enough")
                return []

            giving.publish("last words", last)
            with pytest.raises(ConnectionClosed, match="enough"):
                await rest(peer.subscribe("last words"))
            await flows.until(lambda: not giving.stats()["streams_given"])

    loop.wait(scenario)


@pytest.mark.parametrize("how", ["cancel", "goodbye", "close"])
@pytest.mark.parametrize("where", ["opening", "pulling"])
def test_a_source_that_waits_is_cancelled_and_that_is_no_failure(
    loop: Loop, flows: Flows, caplog: pytest.LogCaptureFixture, how: str, where: str
) -> None:
    steps: list[str] = []

    async def waits() -> bytes:
        steps.append("waits")
        try:
            return await Deferred()
        except CancelledError:
            steps.append("cancelled")
            raise
        finally:
            await deferLater(loop.reactor, 0)  # there may be something to clean up
            steps.append("clean")

    async def opening(_name: str) -> list[bytes]:
        return [await waits()]

    async def pulling(_name: str) -> AsyncIterator[bytes]:
        yield await waits()

    async def scenario() -> None:
        async with flows.pair() as (giving, peer):
            giving.publish("source", opening if where == "opening" else pulling)
            subscription = peer.subscribe("source")
            coming = subscription.next()
            await flows.until(lambda: steps)
            if how == "cancel":
                subscription.cancel()
            elif how == "goodbye":
                peer.goodbye("enough")
            else:
                await giving.close()
            with pytest.raises(EndOfStream if how == "cancel" else ConnectionClosed):
                await coming
            await flows.until(lambda: steps[2:])
            assert not giving.stats()["streams_given"]

    with caplog.at_level(logging.WARNING, "tolliver"):
        loop.wait(scenario)
    assert steps == ["waits", "cancelled", "clean"]
    assert caplog.messages == []


def test_a_source_that_goes_on_when_it_is_cancelled_is_asked_for_no_more(loop: Loop, flows: Flows) -> None:
    steps: list[str] = []

    async def source(_name: str) -> AsyncIterator[bytes]:
        try:
            for _ in range(9):
                try:
                    steps.append("asked")
                    await Deferred()
                except CancelledError:
                    yield b"stubborn"
        finally:
            steps.append("closed")

    async def scenario() -> None:
        async with flows.pair() as (giving, peer):
            giving.publish("source", source)
            async with peer.subscribe("source"):
                await flows.until(lambda: steps)
            await flows.until(lambda: steps[1:])

    loop.wait(scenario)
    assert steps == ["asked", "closed"]


def test_a_source_whose_own_deferred_is_cancelled_has_failed(loop: Loop, flows: Flows) -> None:
    """Its stream is not over: so the subscriber hears of it."""

    async def scenario() -> None:
        gate: Deferred[list[bytes]] = Deferred()
        async with flows.pair() as (giving, peer):
            giving.publish("source", lambda _: gate)
            coming = peer.subscribe("source").next()
            await flows.until(lambda: giving.stats()["streams_given"])
            gate.cancel()
            with pytest.raises(StreamError, match="CancelledError"):
                await coming

    loop.wait(scenario)


def test_a_source_that_fails_while_it_is_cancelled_is_in_the_log(
    loop: Loop, flows: Flows, caplog: pytest.LogCaptureFixture
) -> None:
    async def source(_name: str) -> AsyncIterator[bytes]:
        try:
            yield await Deferred()
        finally:
            raise ValueError("not clean")

    async def scenario() -> None:
        async with flows.pair() as (giving, peer):
            giving.publish("source", source)
            async with peer.subscribe("source"):
                await flows.until(lambda: giving.stats()["streams_given"])
                await deferLater(loop.reactor, 0)
            await flows.until(lambda: caplog.messages)

    loop.wait(scenario)
    [message] = caplog.messages
    assert "not clean" in message


# Connections.


def peek(sock: socket.socket) -> str:
    """Text that has come, and is still there."""
    try:
        return sock.recv(1024, socket.MSG_PEEK).decode("utf-8", "replace")
    except BlockingIOError:
        return ""


@pytest.mark.parametrize("how", ["timeout", "cancel"])
def test_a_connection_that_nobody_waits_for_is_given_up(loop: Loop, flows: Flows, how: str) -> None:
    async def scenario() -> None:
        async with await flows.open() as taking:
            with socket.create_server(("127.0.0.1", 0)) as silent:
                connecting = taking.connect(
                    f"127.0.0.1:{silent.getsockname()[1]}", timeout=0.1 if how == "timeout" else None
                )
                if how == "cancel":
                    await flows.until(lambda: taking._core.wires[1].transport)
                    connecting.cancel()
                with pytest.raises(TimeoutError if how == "timeout" else CancelledError) as caught:
                    await connecting
                if how == "timeout":
                    assert "after 0.1 s" in str(caught.value)
                    assert "said no hello" in str(caught.value)
                accepted, _ = silent.accept()
                with accepted:
                    accepted.setblocking(False)  # it is the reactor's own thread that would wait
                    await flows.until(lambda: "given up" in peek(accepted))
                await flows.until(lambda: not taking._core.wires)
            assert taking.peers() == []

    loop.wait(scenario)


def test_what_is_wrong_with_a_connection_is_in_its_deferred(loop: Loop, flows: Flows) -> None:
    async def scenario() -> None:
        async with await flows.open() as taking:
            for wrong, kind in (
                (taking.connect("[not:an:address"), ValueError),
                (taking.connect("192.0.2.1"), ValueError),  # plaintext beyond this machine (D-15)
                (taking.connect("127.0.0.1:1"), ConnectionLost),
            ):
                with pytest.raises(kind):
                    await wrong
        with pytest.raises(ConnectionClosing, match="create_streams"):
            await taking.connect("127.0.0.1:1")

    loop.wait(scenario)


# Their life.


def test_a_subscription_that_is_dropped_is_cancelled(loop: Loop, flows: Flows) -> None:
    async def scenario() -> None:
        async with flows.pair() as (giving, peer):
            giving.publish("numbers", iter(lambda: b"0", b"1"))
            subscription = peer.subscribe("numbers")
            assert await subscription.next() == b"0"
            del subscription
            gc.collect()
            await flows.until(lambda: not giving.stats()["streams_given"])

    loop.wait(scenario)


def test_closing_leaves_nobody_waiting(loop: Loop, flows: Flows) -> None:
    async def scenario() -> None:
        async with await flows.open() as giving:
            taking = await flows.open()
            giving.publish("nothing yet", lambda _: Deferred())
            peer = await taking.connect(f"127.0.0.1:{giving.port}")
            coming: list[Deferred[Any]] = [
                peer.subscribe("nothing yet").next(),
                peer.subscribe("nothing yet").for_each(print),
            ]
            with socket.create_server(("127.0.0.1", 0)) as silent:
                connecting = taking.connect(f"127.0.0.1:{silent.getsockname()[1]}")
                closing = taking.close()
                with pytest.raises(ConnectionClosing):
                    await connecting
            for one in coming:
                with pytest.raises(ConnectionClosed, match="the peer is closing"):
                    await one
            await closing
            assert not peer.connected
            await flows.until(lambda: not giving.stats()["streams_given"])

    loop.wait(scenario)


def test_a_reactor_that_stops_closes_what_is_open() -> None:
    ends: list[str] = []

    def source(_name: str) -> Iterator[bytes]:
        try:
            yield from iter(lambda: b"0", b"1")
        finally:
            ends.append("source")

    for kind in ("epoll", "asyncio"):
        with running(kind) as loop:
            flows = Flows(loop.reactor)
            giving, taking = loop.wait(flows.open), loop.wait(flows.open)
            loop.call(giving.publish, "numbers", source)
            peer = loop.wait(taking.connect, f"127.0.0.1:{giving.port}")
            subscription = loop.call(peer.subscribe, "numbers")
            assert loop.wait(subscription.next) == b"0"
            handling = loop.call(subscription.for_each, lambda _: None)
            handling.addErrback(lambda failure: ends.append(failure.type.__name__))
        assert giving._core.hub.idle
        assert taking._core.hub.idle
        assert giving._core.wires == taking._core.wires == {}
    assert sorted(ends) == ["ConnectionClosed", "ConnectionClosed", "source", "source"]
