"""One machine over one socket, without an instance around it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any
from uuid import UUID

import pytest
from tolliver._tls.policy import client_context
from tolliver._tls.pump import Pump
from tolliver.blocking import BlockingConnection, Pumps, Remote

from tests.blocking.nodes import PATIENCE, Nodes
from tests.certificates import Certificates
from tolliver_proto import (
    Ack,
    Closed,
    ConnectionClosing,
    ConnectionLost,
    Established,
    Event,
    HandshakeRejected,
    HandshakeRequest,
    HandshakeResponse,
    IdentityConflict,
    Limits,
    LocalProtocolError,
    Message,
    Role,
    Subscription,
    TolliverError,
    UnexpectedEOF,
    encode,
)
from tolliver_proto.errors import CertificateError

NEWS = Subscription("news", "")
PLAIN: tuple[Callable[[], Any], Callable[[], Any]] = (lambda: None, lambda: None)


@pytest.fixture(params=["plain", "TLS"])
def pumps(request: pytest.FixtureRequest, certs: Certificates) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Factories of the server's and the client's pump."""
    if request.param == "plain":
        return PLAIN
    remote = Remote("127.0.0.1", 1, identity=certs.uuid("right"))
    return Pumps(certs.tls("right")).server, lambda: Pumps(certs.tls("left")).client(remote)


@contextmanager
def pair(
    serve: Callable[[BlockingConnection], Any], pumps: tuple[Callable[[], Any], Callable[[], Any]] = PLAIN
) -> Iterator[tuple[BlockingConnection, Future[Any]]]:
    """The client, and what a server on another thread makes of it."""
    ours, theirs = socket.socketpair()

    def run() -> Any:
        with BlockingConnection(theirs, Role.SERVER, pump=pumps[0](), subscriptions=[NEWS]) as server:
            return serve(server)

    with ThreadPoolExecutor(1) as pool:
        served = pool.submit(run)
        with BlockingConnection(ours, Role.CLIENT, pump=pumps[1]()) as client:
            yield client, served


def established(connection: BlockingConnection) -> Established:
    while not isinstance(event := connection.receive(PATIENCE), Established):
        assert isinstance(event, HandshakeRequest | HandshakeResponse)
    return event


def acknowledging(server: BlockingConnection) -> list[Message]:
    seen = []
    for event in server:
        if isinstance(event, Message):
            seen.append(event)
            assert event.message_id is not None
            server.send(Ack(event.message_id))
    return seen


def test_a_message_goes_and_its_ack_comes(pumps: tuple[Callable[[], Any], Callable[[], Any]]) -> None:
    message = Message("news", "k", bytes(300_000), 1)
    with pair(acknowledging, pumps) as (client, served):
        assert established(client).subscriptions == (NEWS,)
        client.send(message)
        assert client.receive(PATIENCE) == Ack(1)
        assert repr(client) == f"<BlockingConnection over {client.machine!r}>"
        client.close()
        client.close()
        assert served.result(PATIENCE) == [message]
        with pytest.raises(ConnectionClosing):
            client.receive()
        with pytest.raises(ConnectionClosing):
            client.send(Ack(1))


def test_two_that_both_write_much_do_not_wait_for_each_other(
    pumps: tuple[Callable[[], Any], Callable[[], Any]],
) -> None:
    count = 4  # more than the system takes, and less than Limits.high_water
    many = [Message("news", "", bytes(200_000), number) for number in range(1, count + 1)]

    def both(connection: BlockingConnection) -> list[Message]:
        established(connection)
        for message in many:
            connection.send(message, PATIENCE)
        return [event for _ in range(count) if isinstance(event := connection.receive(PATIENCE), Message)]

    with pair(both, pumps) as (client, served):
        assert both(client) == many
        client.close()
        assert served.result(PATIENCE) == many


def test_what_is_taken_in_while_sending_is_bounded() -> None:
    """A peer that writes and never reads: its bytes wait in the system, not here."""
    high_water = 100_000

    def floods(server: BlockingConnection) -> None:
        established(server)
        with pytest.raises(TimeoutError):
            server.send(Message("news", "", bytes(8_000_000), 1), 0.3)

    ours, theirs = socket.socketpair()
    with ThreadPoolExecutor(1) as pool:
        served = pool.submit(lambda: floods(BlockingConnection(theirs, Role.SERVER)))
        with BlockingConnection(ours, Role.CLIENT, limits=Limits(high_water=high_water, low_water=1)) as client:
            established(client)
            with pytest.raises(TimeoutError):
                client.send(Message("news", "", bytes(8_000_000), 1), 0.2)
            assert high_water < client.machine.buffered_bytes <= high_water + 65536
            served.result(PATIENCE)
            theirs.close()


def test_a_send_that_took_too_long_goes_on(pumps: tuple[Callable[[], Any], Callable[[], Any]]) -> None:
    go_on = threading.Event()

    def late(server: BlockingConnection) -> list[Message]:
        established(server)
        go_on.wait(PATIENCE)
        return acknowledging(server)

    message = Message("news", "", bytes(8_000_000), 1)
    with pair(late, pumps) as (client, served):
        established(client)
        with pytest.raises(TimeoutError, match=r"after 0\.05 s the system has not taken Message"):
            client.send(message, 0.05)
        with pytest.raises(TimeoutError, match="nothing has come"):
            client.receive(0)
        go_on.set()
        assert client.receive(PATIENCE) == Ack(1)
        client.close()
        assert served.result(PATIENCE) == [message]


def test_frames_that_are_encoded_already(pumps: tuple[Callable[[], Any], Callable[[], Any]]) -> None:
    go_on = threading.Event()

    def late(server: BlockingConnection) -> list[Message]:
        established(server)
        go_on.wait(PATIENCE)
        return acknowledging(server)

    messages = [Message("news", "k", bytes(2_000_000), number) for number in range(1, 5)]
    with pair(late, pumps) as (client, served):
        with pytest.raises(LocalProtocolError):
            client.send_encoded(encode(messages[0]))
        established(client)
        with pytest.raises(TimeoutError, match="has not taken all frames"):
            client.send_encoded(b"".join(map(encode, messages)), 0.05)
        go_on.set()
        client.send_encoded(b"", PATIENCE)
        assert [client.receive(PATIENCE) for _ in messages] == [Ack(number) for number in range(1, 5)]
        client.close()
        assert served.result(PATIENCE) == messages
        with pytest.raises(ConnectionClosing):
            client.send_encoded(encode(messages[0]))


def test_nothing_is_sent_before_the_handshake_and_all_of_it_is_at_once() -> None:
    ours, theirs = socket.socketpair()
    soon = Limits(close_timeout=0.05)  # in one thread nobody answers the close
    server, client = (
        BlockingConnection(sock, role, limits=soon) for sock, role in ((ours, Role.SERVER), (theirs, Role.CLIENT))
    )
    with server, client:
        with pytest.raises(LocalProtocolError):
            client.send(Ack(1))
        with pytest.raises(TimeoutError):
            client.receive(0)  # queued bytes go out
        established(server)
        assert established(client).peer_id == server.machine.instance_id  # the server does not have to ask for more


def test_a_loop_of_ones_own_and_a_faster_way_for_some_of_what_comes() -> None:
    """Two ends in one thread, neither of which waits."""
    ours, theirs = socket.socketpair()
    taken: list[bytes] = []

    def intake(plaintext: bytes) -> bytes:
        """All but the handshake is taken past the machine."""
        if not server.machine.live:
            return plaintext
        taken.append(plaintext)
        return b""

    message = Message("news", "k", bytes(3_000_000), 1)
    soon = Limits(close_timeout=0.05)
    client = BlockingConnection(ours, Role.CLIENT, limits=soon)
    server = BlockingConnection(theirs, Role.SERVER, limits=soon, intake=intake)
    seen: list[Event] = []
    with server, client:
        for _ in range(10_000):
            for end in (client, server):
                end.step(0)
                while (event := end.next_event()) is not None:
                    seen.append(event)
                    if isinstance(event, HandshakeRequest):
                        server.machine.accept()
                    elif isinstance(event, Established) and end is client:
                        client.machine.send(message)
                        assert not client.flush(), "more than the system takes"
            if sum(map(len, taken)) == len(encode(message)):
                break
        assert b"".join(taken) == encode(message)
        assert client.flush()
        assert [type(event) for event in seen].count(Established) == 2


def test_a_handshake_can_be_refused() -> None:
    def refuse(server: BlockingConnection) -> Any:
        assert isinstance(server.receive(PATIENCE), HandshakeRequest)
        server.machine.reject()
        return server.receive(PATIENCE)

    with pair(refuse) as (client, served):
        with pytest.raises(UnexpectedEOF):
            list(client)
        assert isinstance(served.result(PATIENCE), Closed)


def test_versions_that_do_not_fit_are_told() -> None:
    ours, theirs = socket.socketpair()
    with ThreadPoolExecutor(1) as pool, BlockingConnection(theirs, Role.CLIENT, version=1) as client:

        def serve() -> None:
            with BlockingConnection(ours, Role.SERVER, version=2) as server, suppress(TolliverError):
                list(server)

        pool.submit(serve)
        with pytest.raises(HandshakeRejected):
            list(client)


def test_a_peer_that_says_nothing_is_given_up() -> None:
    ours, theirs = socket.socketpair()
    with theirs, BlockingConnection(ours, Role.SERVER, limits=Limits(handshake_timeout=0.05)) as server:
        event = server.receive(PATIENCE)
        assert isinstance(event, Closed)
        assert isinstance(event.error, ConnectionLost)


def test_closing_does_not_wait_for_ever() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        BlockingConnection(ours, Role.CLIENT, limits=Limits(close_timeout=0.05)).close()
        assert ours.fileno() < 0


def test_what_still_comes_while_closing_is_dropped() -> None:
    def serve(server: BlockingConnection) -> None:
        established(server)
        for number in range(1, 11):
            server.machine.send(Message("news", "", b"x", number))
        server.send(Message("news", "", b"the last", 11))  # and all goes out together
        for _event in server:
            pass

    with pair(serve) as (client, served):
        established(client)
        client.receive(PATIENCE)
        client.close()
        served.result(PATIENCE)


def test_a_broken_line_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = BlockingConnection(socket.create_connection(listener.getsockname()), Role.CLIENT)
        theirs, _ = listener.accept()
        with pytest.raises(TimeoutError):
            client.receive(0)  # its request is sent
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        theirs.close()  # a reset
        with client, pytest.raises(ConnectionLost, match="broke"):
            client.receive(PATIENCE)
        with pytest.raises(ConnectionClosing):
            client.receive()


def test_a_line_that_was_broken_before_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours = socket.create_connection(listener.getsockname())
        theirs, _ = listener.accept()
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        theirs.close()  # a reset
        with pytest.raises(ConnectionResetError):
            ours.recv(1)
        with BlockingConnection(ours, Role.CLIENT) as client, pytest.raises(ConnectionLost, match="broke"):
            client.receive(PATIENCE)


def test_a_line_that_is_cut_under_tls_is_no_orderly_end(certs: Certificates) -> None:
    remote = Remote("127.0.0.1", 1, identity=certs.uuid("right"))

    def cut(server: BlockingConnection) -> None:
        established(server)
        server.send(Message("news", "", b"the last one"))
        server._sock.shutdown(socket.SHUT_RDWR)

    pumps = (Pumps(certs.tls("right")).server, lambda: Pumps(certs.tls("left")).client(remote))
    with pair(cut, pumps) as (client, served):
        established(client)
        assert isinstance(client.receive(PATIENCE), Message)  # frames that came before the end are handed out before it
        with pytest.raises(ConnectionLost):
            client.receive(PATIENCE)
        served.result(PATIENCE)


def test_who_is_refused_is_told_why(nodes: Nodes, certs: Certificates) -> None:
    """T-74: by a real instance, and it is what `receive` raises."""
    with nodes.open("right") as right:
        remote = Remote("127.0.0.1", right.port or 0)
        sock = socket.create_connection(("127.0.0.1", remote.port))
        pump = Pumps(certs.tls("left"))
        with BlockingConnection(sock, Role.CLIENT, pump=pump.client(remote), instance_id=certs.uuid("left")) as client:
            assert established(client).peer_id == right.instance_id
        sock = socket.create_connection(("127.0.0.1", remote.port))
        foreign = Pumps(certs.tls("elsewhere")).client(Remote("127.0.0.1", remote.port, identity=UUID(int=5)))
        with BlockingConnection(sock, Role.CLIENT, pump=foreign) as client, pytest.raises(IdentityConflict):
            client.receive(PATIENCE)
        sock = socket.create_connection(("127.0.0.1", remote.port))
        stranger = _without_own_check(certs, "intruder", remote)
        with BlockingConnection(sock, Role.CLIENT, pump=stranger) as client, pytest.raises(CertificateError):
            client.receive(PATIENCE)


def _without_own_check(certs: Certificates, name: str, remote: Remote) -> Pump:
    return Pump.client(client_context(certs.tls(name)), remote)
