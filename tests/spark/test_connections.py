"""Whole connections from a partition: over recorded bytes, of both protocols, and over live sockets."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import islice
from typing import Any
from uuid import UUID

import pytest
from tolliver.blocking import TLS, Instance, InstanceOptions, create_instance
from tolliver.spark import DamagedRecording, over_bytes, over_socket, partition_connections

from tests.certificates import Certificates
from tests.ports import free_port
from tests.spark.publishers import few, numbers, publishing
from tests.spark.receivers import PATIENCE, wait_for
from tests.wire.drive import REVISIONS
from tolliver_proto import (
    Ack,
    Closed,
    Connection,
    ConnectionLost,
    Established,
    Frame,
    HandshakeFinal,
    HandshakeRejected,
    HandshakeRequest,
    HandshakeResponse,
    HandshakeStatus,
    Message,
    Revision,
    Role,
    Subscribe,
    Subscription,
    UnexpectedEOF,
    UnexpectedFrame,
    Unsubscribe,
    encode,
    reactive,
)
from tolliver_proto.errors import CertificateError
from tolliver_proto.recording import Direction

from .recordings import NOON, OURS, PEER, block, group, header

SAYS = [Message("readings", "cpu", b"%d" % number, number) for number in range(1, 4)]
READINGS = Subscription("readings", "")


# Over recorded bytes.


@pytest.mark.parametrize("revision", REVISIONS, ids=["draft1", "draft2"])
def test_a_machine_over_the_bytes_of_one_direction(revision: Revision) -> None:
    frames: list[Frame] = [HandshakeRequest(1, PEER, (READINGS,)), *SAYS]
    said = b"".join(encode(one, revision) for one in frames)
    for size in (1, 7, len(said)):
        machine = Connection(Role.SERVER, instance_id=OURS, revision=revision)
        chunks = [said[at : at + size] for at in range(0, len(said), size)]
        request, established, *messages, closed = over_bytes(machine, iter(chunks))
        assert isinstance(request, HandshakeRequest)
        assert isinstance(established, Established)
        assert established.subscriptions == (READINGS,)
        assert messages == SAYS
        assert closed == Closed(None)
    torn = Connection(Role.SERVER, instance_id=OURS, revision=revision)
    *_, last = over_bytes(torn, [said[:-1]])
    assert isinstance(last, Closed)
    assert isinstance(last.error, UnexpectedEOF)


def test_a_subscriber_over_what_a_publisher_said() -> None:
    publisher, subscriber, other = (reactive.Connection(role) for role in (Role.SERVER, Role.CLIENT, Role.CLIENT))
    stream = subscriber.subscribe("numbers", 10)
    heard: list[bytes] = []
    for unit in subscriber.data_to_send():
        publisher.receive_data(unit)
    assert [type(event) for event in publisher.events()] == [reactive.ClientHello, reactive.Subscribe]
    publisher.subscribed(stream)
    publisher.next_many(stream, few(3))
    publisher.complete(stream)
    publisher.goodbye("all said")
    heard += publisher.data_to_send()
    assert other.subscribe("numbers", 10) == stream
    events = list(over_bytes(other, heard))
    assert [event.element for event in events if isinstance(event, reactive.OnNext)] == few(3)
    assert [type(event) for event in events[-3:]] == [reactive.OnComplete, reactive.Goodbye, Closed]


def recorded(*ways: tuple[Direction, Any], revision: Revision = Revision.DRAFT_2) -> bytes:
    """A connection's frames in the order in which they came and went, in one group."""
    return group(
        [(header(NOON + at, direction=way, revision=revision), [frame]) for at, (way, frame) in enumerate(ways)]
    )


IN, OUT = Direction.IN, Direction.OUT


@pytest.mark.parametrize("revision", REVISIONS, ids=["draft1", "draft2"])
def test_each_direction_of_a_recording_is_the_input_of_its_receiver(revision: Revision) -> None:
    content = recorded(
        (OUT, HandshakeRequest(1, OURS)),
        (IN, HandshakeResponse(1, PEER, HandshakeStatus.SAME_VERSION, (READINGS,))),
        *((OUT, HandshakeFinal(True)) for _ in range(revision is Revision.DRAFT_1)),
        *((OUT, one) for one in SAYS),
        (IN, Ack(1)),
        revision=revision,
    )
    told = list(partition_connections([content, content]))
    for way, messages, acks in ((IN, [], [Ack(1)]), (OUT, SAYS, [])):
        events = [event for head, event in told if head.direction is way][: len(told) // 2]
        assert [event for event in events if isinstance(event, Message)][:3] == messages
        assert [event for event in events if isinstance(event, Ack)][:1] == acks
        [first, *_] = [event for event in events if isinstance(event, Established)]
        assert first.peer_id == (PEER if way is IN else OURS)
    assert Counter(type(event) for _, event in told)[Closed] == 4


REFUSAL = HandshakeResponse(2, OURS, HandshakeStatus.NEWER_INCOMPATIBLE)


@pytest.mark.parametrize(
    ("ways", "ends"),
    [
        ([(IN, HandshakeRequest(1, PEER)), (IN, SAYS[0])], [type(None)]),
        ([(IN, HandshakeRequest(1, PEER)), (OUT, REFUSAL)], [HandshakeRejected, HandshakeRejected]),
        ([(IN, SAYS[0])], [UnexpectedFrame]),
    ],
    ids=["unanswered", "refused", "no handshake"],
)
def test_how_each_end_of_a_connection_ended(ways: list[Any], ends: list[type]) -> None:
    told = [event for _, event in partition_connections([recorded(*ways)])]
    assert [type(event.error) for event in told if isinstance(event, Closed)] == ends


def test_what_is_damaged_is_named() -> None:
    with pytest.raises(DamagedRecording, match="recording 1 of the partition: byte 0: is no recording"):
        list(partition_connections([block(SAYS), b"x" * 100]))


# Over live sockets.


def sender(certs: Certificates | None = None, **options: Any) -> Any:
    security = {"plaintext": True} if certs is None else {"tls": certs.tls("sender")}
    return create_instance(InstanceOptions(database=":memory:", listen="127.0.0.1:0", **security, **options))


def subscriber(uuid: UUID, revision: Revision = Revision.DRAFT_2) -> Connection:
    return Connection(Role.CLIENT, instance_id=uuid, subscriptions=[READINGS], revision=revision)


def task(connection: Connection, address: str, count: int, **how: Any) -> Iterator[bytes]:
    """As a program has it: so many messages, each acknowledged when the next one is asked for."""
    for event in over_socket(connection, address, **how):
        if isinstance(event, Message):
            yield event.body
            connection.send(Ack(event.message_id or 0))
            count -= 1
            if not count:
                return


def wants(instance: Instance) -> bool:
    return any(peer.connected and peer.subscriptions for peer in instance.peers())


def served(instance: Instance, bodies: Iterator[bytes], count: int) -> list[bytes]:
    """Those that a task takes, which are sent as soon as it wants them."""
    with ThreadPoolExecutor(1) as pool:
        taken = pool.submit(list, bodies)
        wait_for(lambda: wants(instance) or taken.done())
        for number in range(count):
            instance.send("readings", "", b"%d" % number)
        return taken.result(PATIENCE)


@pytest.mark.parametrize("secured", [False, True], ids=["plain", "TLS"])
def test_a_task_that_subscribes_unsubscribes_before_it_ends(certs: Certificates, secured: bool) -> None:
    uuid = certs.uuid("task") if secured else OURS
    how: dict[str, Any] = {"tls": certs.tls("task")} if secured else {"plaintext": True}
    with sender(certs if secured else None) as instance:
        address = f"127.0.0.1:{instance.port}"
        for number in range(3):
            one = uuid if secured else UUID(int=uuid.int + number)
            assert served(instance, task(subscriber(one), address, 3, **how), 3) == few(3)
            wait_for(lambda: not any(peer.connected for peer in instance.peers()))
        assert instance.send("readings", "", b"for nobody").recipients == 0
        assert {(peer.subscriptions, peer.pending) for peer in instance.peers()} == {((), 0)}
        many = subscriber(UUID(int=uuid.int + 9 * (not secured)))
        events = over_socket(many, address, unsubscribe=False, **how)
        for event in events:
            if isinstance(event, Established):
                many.send(Subscribe("alarms", "", 1))
            elif isinstance(event, Ack):
                break
        events.close()
        [stays] = [peer for peer in instance.peers() if peer.subscriptions]
        assert [one.channel for one in stays.subscriptions] == ["alarms", "readings"]


def test_what_was_subscribed_to_on_the_way_is_taken_back_too() -> None:
    with sender() as instance:
        connection = subscriber(OURS)
        with closing(over_socket(connection, f"127.0.0.1:{instance.port}", plaintext=True)) as events:
            assert any(isinstance(event, Established) for event in events)
            for number, channel in enumerate(("alarms", "moons"), 1):
                connection.send(Subscribe(channel, "", number))
            connection.send(Unsubscribe("readings", "", 3))
            acks = [event.message_id for event in islice((one for one in events if isinstance(one, Ack)), 3)]
            assert acks == [1, 2, 3]
            [peer] = instance.peers()
            assert [one.channel for one in peer.subscriptions] == ["alarms", "moons"]
        assert [peer.subscriptions for peer in instance.peers()] == [()]


def test_time_ends_a_task_to_which_nobody_says_anything() -> None:
    with sender() as instance:
        assert list(task(subscriber(OURS), f"127.0.0.1:{instance.port}", 1, plaintext=True, seconds=0.3)) == []
        assert [peer.subscriptions for peer in instance.peers()] == [()]


def test_a_task_of_the_first_draft_has_no_word_for_it() -> None:
    with sender(revision=Revision.DRAFT_1) as instance:
        bodies = task(subscriber(OURS, Revision.DRAFT_1), f"127.0.0.1:{instance.port}", 2, plaintext=True)
        assert served(instance, bodies, 2) == few(2)
        wait_for(lambda: not any(peer.connected for peer in instance.peers()))
        assert [peer.subscriptions for peer in instance.peers()] == [(READINGS,)]


def test_a_task_that_asks_a_publisher(certs: Certificates) -> None:
    with publishing(certs, numbers=numbers) as publisher:
        connection = reactive.Connection(Role.CLIENT)
        stream = connection.subscribe("numbers", 5)
        taken = []
        for event in over_socket(connection, f"127.0.0.1:{publisher.port}", tls=certs.tls("job")):
            if isinstance(event, reactive.OnNext):
                taken.append(event.element)
                if len(taken) == 10:
                    break
                if len(taken) % 5 == 0:
                    connection.request(stream, 5)
        assert taken == few(10)
        wait_for(lambda: not publisher.stats()["connections"])


def test_what_makes_no_sense_is_said_at_once(certs: Certificates) -> None:
    client, server = subscriber(OURS), Connection(Role.SERVER, instance_id=OURS)
    with pytest.raises(ValueError, match=r"a task dials: make the connection with Role\.CLIENT"):
        over_socket(server, "127.0.0.1", plaintext=True)
    with pytest.raises(ValueError, match="seconds=0: give a positive number, or None"):
        over_socket(client, "127.0.0.1", plaintext=True, seconds=0)
    with pytest.raises(ValueError, match="neither of the options tls and plaintext"):
        over_socket(client, "127.0.0.1")
    with pytest.raises(ValueError, match="would leave this machine"):
        over_socket(client, "192.0.2.1:7011", plaintext=True)
    with pytest.raises(CertificateError):
        over_socket(client, "127.0.0.1", tls=TLS("no.pem", "no.key", "no.pem"))
    with pytest.raises(ConnectionLost, match=r"127\.0\.0\.1:"):
        next(over_socket(client, f"127.0.0.1:{free_port()}", plaintext=True))


def test_a_peer_that_goes_away_fails_the_task() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        events = over_socket(subscriber(OURS), f"127.0.0.1:{listener.getsockname()[1]}", plaintext=True)
        with ThreadPoolExecutor(1) as pool:
            first = pool.submit(next, events)
            listener.accept()[0].close()
            with pytest.raises((ConnectionLost, UnexpectedEOF)):
                first.result(PATIENCE)
