"""After the handshake, in memory: records, half-closed ends, abrupt ends."""

from __future__ import annotations

from typing import Any

import pytest
from tolliver_transports.twisted.policy import make_context
from tolliver_transports.twisted.tls import Creator, PlainTransport, TLSFactory, plain_factory
from twisted.internet.error import ConnectionAborted, ConnectionDone
from twisted.internet.error import ConnectionLost as CutOff
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from tests.certificates import Certificates
from tests.tls import pumping
from tests.tls.pumping import VERSIONS, records
from tests.tls.test_stream import APPLICATION_DATA, SEALED
from tolliver_proto import ConnectionLost, PeerIdentity

from . import sides
from .sides import Line, Recorder, Side, move, shake

versions = pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.name)
roles = pytest.mark.parametrize("role", ["dialler", "listener"])


def pair(certs: Certificates, version: Any = VERSIONS[0], role: str = "dialler") -> tuple[Any, Any]:
    """A side of ours in the role, and a Pump at the other end; all that the handshake brings has been read."""
    if role == "dialler":
        ours, theirs = sides.client(certs.tls("alice"), version), pumping.server(certs.tls("bob"), version)
        assert shake(ours, theirs) == (None, None)
    else:
        theirs, ours = pumping.client(certs.tls("bob"), version), sides.server(certs.tls("alice"), version)
        assert shake(theirs, ours) == (None, None)
    assert theirs.read() is None
    return ours, theirs


@versions
@roles
@pytest.mark.parametrize("size", [1, 30, 16384])
def test_each_unit_is_one_record(certs: Certificates, version: Any, role: str, size: int) -> None:
    """T-69: no reactor turn passes here, and still each unit is sealed by itself, and at once."""
    ours, theirs = pair(certs, version, role)
    for _ in range(3):
        ours.write(bytes(size))
    ciphertext = ours.outgoing()
    assert records(ciphertext) == [(APPLICATION_DATA, size + SEALED[version])] * 3
    theirs.receive(ciphertext)
    assert theirs.read() == bytes(3 * size)


@pytest.mark.parametrize("size", [16385, 65536, 65537, 300_000])
def test_a_large_unit_fills_its_records(certs: Certificates, size: int) -> None:
    ours, theirs = pair(certs)
    ours.write(bytes(size))
    ciphertext = ours.outgoing()
    full, rest = divmod(size, 16384)
    assert [length for _, length in records(ciphertext)] == [16384 + 17] * full + ([rest + 17] if rest else [])
    theirs.receive(ciphertext)
    assert theirs.read() == bytes(size)


def test_a_unit_of_the_handshake_listener_is_a_record_too(certs: Certificates) -> None:
    """What is written in `handshakeCompleted` follows the handshake's own records."""
    dialler, listener = sides.client(certs.tls("alice")), pumping.server(certs.tls("bob"))
    dialler.protocol.handshakeCompleted = lambda: list(map(dialler.write, (b"one", b"two")))
    move(dialler, listener)
    listener.handshake()
    move(listener, dialler)
    ciphertext = dialler.outgoing()
    assert [length for _, length in records(ciphertext)][-2:] == [3 + 17, 3 + 17]
    listener.receive(ciphertext)
    assert listener.handshake()
    assert listener.read() == b"onetwo"


# Half-closed connections.


@versions
@roles
def test_reading_goes_on_after_our_close(certs: Certificates, version: Any, role: str) -> None:
    ours, theirs = pair(certs, version, role)
    ours.write(b"last")
    ours.close_notify()
    ours.close_notify()
    ours.write(b"too late")
    assert ours.line.half_closed
    move(ours, theirs)
    assert theirs.read() == b"last"
    assert theirs.read() is None
    assert theirs.peer_closed
    for unit in (b"still", b" talking"):
        theirs.write(unit)
        move(theirs, ours)
        assert ours.read() == unit
    assert "read end" not in ours.protocol.calls
    theirs.close_notify()
    move(theirs, ours)
    assert ours.protocol.calls == ["handshake", "read end"]
    assert not ours.line.ended, "the protocol says when"
    ours.lose_connection()
    assert ours.line.ended == "lost"
    ours.lose()
    assert ours.protocol.error is None


@versions
@roles
def test_writing_goes_on_after_their_close(certs: Certificates, version: Any, role: str) -> None:
    """Twisted alone would close both halves, and the acknowledgements that the peer waits for would be lost."""
    ours, theirs = pair(certs, version, role)
    theirs.write(b"last")
    theirs.close_notify()
    move(theirs, ours)
    ours.transport.readConnectionLost()  # the FIN behind it
    assert ours.read() == b"last"
    assert ours.protocol.calls == ["handshake", "read end"]
    for unit in (b"still", b" talking"):
        ours.write(unit)
        move(ours, theirs)
        assert theirs.read() == unit
    assert not ours.line.ended
    ours.close_notify()
    move(ours, theirs)
    assert theirs.read() is None
    assert theirs.peer_closed
    ours.lose_connection()
    assert ours.line.ended == "lost"
    ours.lose(CutOff())
    assert ours.protocol.error is None, "the peer had closed before the line broke"


@versions
def test_a_close_with_their_data_in_flight(certs: Certificates, version: Any) -> None:
    """Wherever the incoming bytes are cut when we close, none is lost."""
    _, theirs = pair(certs, version)
    theirs.write(b"first")
    theirs.write(b"second")
    theirs.close_notify()
    for cut in range(len(theirs.outgoing()) + 1):
        ours, theirs = pair(certs, version)
        theirs.write(b"first")
        theirs.write(b"second")
        theirs.close_notify()
        ciphertext = theirs.outgoing()
        ours.receive(ciphertext[:cut])
        ours.close_notify()
        move(ours, theirs)
        ours.receive(ciphertext[cut:])
        assert ours.read() == b"firstsecond"
        assert ours.protocol.calls == ["handshake", "read end"]
        assert theirs.read() is None
        assert theirs.peer_closed


def test_a_close_while_reading(certs: Certificates) -> None:
    ours, theirs = pair(certs)
    received: list[bytes] = []

    def close_at_once(data: bytes) -> None:
        received.append(data)
        ours.close_notify()

    ours.protocol.dataReceived = close_at_once
    for unit in (b"one", b"two"):
        theirs.write(unit)
    theirs.close_notify()
    move(theirs, ours)
    assert received == [b"one", b"two"]
    assert ours.protocol.calls == ["handshake", "read end"]


@pytest.mark.parametrize("answers", [True, False])
def test_lose_connection_waits_for_their_close(certs: Certificates, answers: bool) -> None:
    ours, theirs = pair(certs)
    ours.lose_connection()
    assert not ours.line.ended
    move(ours, theirs)
    assert theirs.read() is None
    assert theirs.peer_closed
    if answers:
        theirs.close_notify()
        move(theirs, ours)
        assert ours.line.ended == "lost"
    else:
        ours.transport.abortConnection()
        assert ours.line.ended == "aborted"


def test_close_inside_the_handshake_says_nothing(certs: Certificates) -> None:
    dialler, listener = sides.client(certs.tls("alice")), pumping.server(certs.tls("bob"))
    move(dialler, listener)
    dialler.close_notify()
    assert dialler.outgoing() == b""
    assert shake(dialler, listener) == (None, None)


def test_identity_before_the_handshake(certs: Certificates) -> None:
    with pytest.raises(RuntimeError, match="wait for handshakeCompleted"):
        sides.client(certs.tls("alice")).identity("")


def test_a_protocol_that_knows_no_halves_ends_with_the_peer(certs: Certificates) -> None:
    creator = Creator(make_context(certs.tls("bob"), server=True))
    ours = Side(TLSFactory(creator, Factory.forProtocol(Protocol), Clock(), None, check_name=False))
    theirs = pumping.client(certs.tls("alice"))
    assert shake(theirs, ours) == (None, None)
    theirs.close_notify()
    move(theirs, ours)
    move(ours, theirs)
    assert theirs.read() is None
    assert theirs.peer_closed
    assert ours.line.ended == "lost"


# Abrupt ends (T-09 treats them differently).


@versions
@roles
def test_an_end_without_close_notify_is_told_apart(certs: Certificates, version: Any, role: str) -> None:
    _, theirs = pair(certs, version, role)
    theirs.write(b"cut")
    theirs.close_notify()
    ciphertext = theirs.outgoing()
    (_, first), (_, _) = records(ciphertext)
    for cut in range(len(ciphertext) + 1):
        ours, theirs = pair(certs, version, role)
        theirs.write(b"cut")
        theirs.close_notify()
        ours.receive(theirs.outgoing()[:cut])
        ours.receive_eof()
        assert (ours.read() or b"") == (b"cut" if cut >= 5 + first else b"")
        if cut == len(ciphertext):
            assert not ours.line.ended
            ours.transport.loseWriteConnection()
            ours.lose_connection()
            ours.lose()
            assert ours.protocol.error is None
        else:
            assert ours.line.ended == "aborted"
            assert type(ours.protocol.error) is ConnectionLost
            assert ours.failure is None


@pytest.mark.parametrize("reason", [ConnectionDone(), CutOff(), ConnectionAborted()])
def test_the_line_breaks(certs: Certificates, reason: Exception) -> None:
    ours, _ = pair(certs)
    ours.lose(reason)
    assert type(ours.protocol.error) is ConnectionLost
    ours.close_notify()  # late calls do no harm
    ours.write(b"to nobody")


def test_a_refusing_listener_closes_softly(certs: Certificates) -> None:
    """Closing at once, with bytes of the client unread, would reset the connection and could overtake the alert."""
    dialler, listener = pumping.client(certs.tls("expired")), sides.server(certs.tls("bob"))
    shake(dialler, listener)
    assert (listener.line.half_closed, listener.line.ended) == (True, None)
    listener.receive(bytes(100_000))
    assert listener.protocol.received == []
    listener.receive_eof()
    assert listener.line.ended == "lost"
    assert "certificate has expired" in str(listener.protocol.error)


# Plaintext, with the same methods.


def test_plaintext() -> None:
    transport = plain_factory(Factory.forProtocol(Recorder)).buildProtocol(None)
    assert isinstance(transport, PlainTransport)
    protocol: Any = transport.wrappedProtocol
    line = Line()
    transport.makeConnection(line)
    transport.write(b"one")
    transport.dataReceived(b"two")
    assert (line.written, protocol.received) == ([b"one"], [b"two"])
    transport.loseWriteConnection()
    assert line.half_closed
    transport.writeConnectionLost()
    transport.readConnectionLost()
    transport.readConnectionLost()
    assert protocol.calls == ["handshake", "write end", "read end"]
    assert transport.identity("127.0.0.1:5") == PeerIdentity(address="127.0.0.1:5")
    transport.connectionLost(Failure(CutOff()))
    assert protocol.error is None


def test_plaintext_for_a_protocol_that_knows_no_halves() -> None:
    """The peer's end is the end of both, as over TCP."""
    transport = plain_factory(Factory.forProtocol(Protocol)).buildProtocol(None)
    assert isinstance(transport, PlainTransport)
    line = Line()
    transport.makeConnection(line)
    transport.readConnectionLost()
    assert line.ended == "lost"


def test_a_unit_written_before_the_handshake_follows_it(certs: Certificates) -> None:
    ours, theirs = sides.client(certs.tls("alice")), pumping.server(certs.tls("bob"))
    ours.write(b"early")
    assert shake(ours, theirs) == (None, None)
    assert theirs.read() == b"early"


def test_a_plaintext_connection_that_breaks() -> None:
    transport = plain_factory(Factory.forProtocol(Recorder)).buildProtocol(None)
    assert isinstance(transport, PlainTransport)
    protocol: Any = transport.wrappedProtocol
    transport.makeConnection(Line())
    transport.connectionLost(Failure(CutOff()))
    assert type(protocol.error) is ConnectionLost
