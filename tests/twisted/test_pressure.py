"""Pressure both ways, turn by turn, with reactor and transports in memory.

An end in halves is shown, too. Twisted's own doubles stand for Twisted, and the peer is a `Connection` by hand. So a
test says itself when a transport is full and when the reactor turns.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any
from uuid import UUID

import pytest
from tolliver.twisted import Instance, InstanceOptions, create_instance
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone
from twisted.internet.testing import MemoryReactorClock, StringTransport
from twisted.python.failure import Failure

from tolliver_proto import Connection, Delivery, Event, Limits, Message, Role, Subscription

TIMEOUT = 20  # seconds; nothing here takes one
PEER = UUID("01890000-0000-7000-8000-00000000bbbb")
SIZE = 1000
CHUNK = 16384  # bytes that Twisted hands on at once


class Reactor(MemoryReactorClock):
    """Hears the reports of threads in `turn` and in `until`."""

    def __init__(self) -> None:
        super().__init__()
        self._reports: SimpleQueue[Callable[[], object]] = SimpleQueue()

    def callFromThread(self, function: Callable[..., object], *args: Any, **kwargs: Any) -> None:
        self._reports.put(partial(function, *args, **kwargs))

    def turn(self) -> None:
        for _ in range(5):
            while not self._reports.empty():
                self._reports.get()()
            self.advance(0)

    def until(self, true: Callable[[], object]) -> None:
        self.turn()
        while not true():
            self._reports.get(timeout=TIMEOUT)()
            self.turn()


class Line(StringTransport):
    """TCP in memory, with a half that can be shut; whether it is full, the test says."""

    producer: Any
    disconnected = False
    half_closed = False

    def __init__(self) -> None:
        super().__init__()
        with socket.create_server(("127.0.0.1", 0)) as listener:  # for what is asked of a socket: nothing passes it
            self.far = socket.create_connection(listener.getsockname())
            self.near, _ = listener.accept()

    def getHandle(self) -> socket.socket:
        return self.near

    def close(self) -> None:
        self.near.close()
        self.far.close()

    def loseWriteConnection(self) -> None:
        self.half_closed = True

    def unregisterProducer(self) -> None:
        self.producer = None


class Peer:
    """Connected to the instance, and subscribed to "news"."""

    def __init__(self, instance: Instance) -> None:
        self.core = instance._core
        self.reactor: Reactor = self.core._reactor
        self.line = Line()
        self.machine = Connection(Role.CLIENT, instance_id=PEER, subscriptions=[Subscription("news", "")])
        self.events: list[Event] = []
        factory: Any = self.reactor.tcpServers[0][1]
        self.protocol = factory.buildProtocol(self.line.getPeer())
        self.protocol.makeConnection(self.line)
        self.talk()

    def talk(self) -> None:
        """All that both have to say, and the reactor's turns between."""
        for _ in range(3):
            data = b"".join(self.machine.data_to_send())
            for at in range(0, len(data), CHUNK):
                self.protocol.dataReceived(data[at : at + CHUNK])
            stored = threading.Event()  # behind all that the instance stores
            self.core.store(lambda: None, lambda *_, stored=stored: stored.set())
            self.reactor.until(stored.is_set)
            self.machine.receive_data(self.line.value())
            self.line.clear()
            self.events += self.machine.events()

    @property
    def messages(self) -> list[bytes]:
        return [event.body for event in self.events if isinstance(event, Message)]


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[Instance]:
    opened: list[Instance] = []
    options = InstanceOptions(
        database=tmp_path / "node.db", listen="127.0.0.1:0", plaintext=True, limits=Limits(inbox_messages=10)
    )
    reactor = Reactor()
    create_instance(options, reactor).addCallback(opened.append)
    reactor.until(lambda: opened)
    [instance] = opened
    yield instance
    instance._core._finish()


@pytest.fixture
def peer(instance: Instance) -> Iterator[Peer]:
    made = Peer(instance)
    yield made
    made.line.close()


def test_what_a_full_transport_cannot_take_stays_with_the_node(instance: Instance, peer: Peer) -> None:
    peer.line.producer.pauseProducing()
    sent, limits = 0, instance._core.options.limits
    for _ in range(4 * limits.high_water // SIZE):
        sent += instance.unreliable_send("news", "", b"%d " % sent + bytes(SIZE))
        peer.reactor.turn()
    assert sent * SIZE < limits.high_water + 2 * SIZE
    assert len(peer.line.value()) < 10 * SIZE, "one unit, and no more while it is full"
    peer.line.producer.resumeProducing()
    peer.talk()
    assert [int(body.partition(b" ")[0]) for body in peer.messages] == list(range(sent))


def test_it_stops_reading_while_handlers_have_enough(instance: Instance, peer: Peer) -> None:
    waiting: list[Deferred[None]] = []

    def handler(_delivery: Delivery) -> Deferred[None]:
        waiting.append(Deferred())
        return waiting[-1]

    instance.subscribe("orders", handler=handler)
    peer.talk()
    body = bytes(instance._core.options.limits.low_water // 20)
    for number in range(1, 41):
        peer.machine.send(Message("orders", "", body, number))
    peer.talk()
    assert peer.line.producerState == "paused"
    assert len(waiting) == 1
    for number in range(40):
        assert len(waiting) == number + 1, "one call at a time"
        waiting[number].callback(None)
        peer.talk()
    assert peer.line.producerState == "producing"
    assert instance.stats()["handled"] == 40


# Ends.


def test_an_end_in_halves_that_the_peer_begins(instance: Instance, peer: Peer) -> None:
    instance.unreliable_send("news", "", b"last")
    peer.protocol.readConnectionLost()
    assert peer.line.half_closed
    states = [peer.line.disconnecting]
    peer.talk()
    states.append(peer.line.disconnecting)
    assert states == [False, True], "or Twisted might report the end in the middle of what led to it"
    assert peer.line.producer is None
    peer.protocol.connectionLost(Failure(ConnectionDone()))
    assert instance._core.wires == {}
    assert instance.stats()["connections"] == 0


def test_an_end_in_halves_that_the_instance_begins(instance: Instance, peer: Peer) -> None:
    closed: list[None] = []
    instance.close().addCallback(closed.append)
    peer.reactor.turn()
    assert peer.line.half_closed
    states = [peer.line.disconnecting]
    peer.talk()
    peer.protocol.readConnectionLost()
    peer.reactor.turn()
    states.append(peer.line.disconnecting)
    assert states == [False, True], "until the peer has closed its half it may have something to say"
    assert closed == []
    peer.protocol.connectionLost(Failure(ConnectionDone()))
    peer.reactor.until(lambda: closed)
    assert closed == [None]
    assert peer.reactor.getDelayedCalls() == []


def test_a_peer_that_does_not_answer_an_end_is_cut_off(instance: Instance, peer: Peer) -> None:
    closed: list[None] = []
    instance.close().addCallback(closed.append)
    peer.reactor.turn()
    peer.reactor.advance(instance._core.options.limits.close_timeout + 1)
    peer.reactor.until(lambda: closed)
    assert closed == [None]
    assert peer.line.disconnected, "aborted, as this double calls it"
