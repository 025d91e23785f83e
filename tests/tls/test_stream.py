"""After the handshake: records, cuts anywhere, half-closed ends, abrupt ends."""

from __future__ import annotations

import itertools
import ssl

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tolliver._options.instance import Remote
from tolliver._tls.policy import Pumps
from tolliver._tls.pump import PlainPump, Pump

from tests.certificates import Certificates
from tolliver_proto import ConnectionClosing, ConnectionLost, PeerIdentity

from .pumping import VERSIONS, client, connected, ends, move, read_all, records, server, shake

versions = pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.name)
roles = pytest.mark.parametrize("role", ["dialler", "listener"])

APPLICATION_DATA = 23
SEALED = {ssl.TLSVersion.TLSv1_3: 17, ssl.TLSVersion.TLSv1_2: 24}  # added by AES-GCM to a record, and 1.3's type byte


def pair(certs: Certificates, version: ssl.TLSVersion = VERSIONS[0], role: str = "dialler") -> tuple[Pump, Pump]:
    """Two connected pumps; the one of the role first."""
    dialler, listener = connected(client(certs.tls("alice"), version), server(certs.tls("bob"), version))
    return (dialler, listener) if role == "dialler" else (listener, dialler)


@versions
@roles
@pytest.mark.parametrize("size", [1, 30, 16384])
def test_each_unit_is_one_record(certs: Certificates, version: ssl.TLSVersion, role: str, size: int) -> None:
    """T-69: a peer that loses the rest of a record must lose nothing."""
    ours, theirs = pair(certs, version, role)
    for _ in range(3):
        ours.write(bytes(size))
    ours.write(b"")
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
    expected = [16384 + 17] * full + ([rest + 17] if rest else [])
    assert [length for _, length in records(ciphertext)] == expected
    theirs.receive(ciphertext)
    assert theirs.read() == bytes(size)


@versions
def test_everything_byte_by_byte(certs: Certificates, version: ssl.TLSVersion) -> None:
    dialler, listener = client(certs.tls("alice"), version), server(certs.tls("bob"), version)
    for _ in range(4):
        for pump, other in ((dialler, listener), (listener, dialler)):
            pump.handshake()
            for byte in pump.outgoing():
                other.receive(bytes((byte,)))
                other.handshake()
    assert dialler.handshake()
    assert listener.handshake()
    dialler.write(b"one")
    dialler.write(b"two")
    parts = []
    for byte in dialler.outgoing():
        listener.receive(bytes((byte,)))
        parts.append(listener.read())
    assert [part for part in parts if part is not None] == [b"one", b"two"]


@given(units=st.lists(st.binary(min_size=1, max_size=200), min_size=1, max_size=5), data=st.data())
def test_any_cut_gives_the_same_bytes(certs: Certificates, units: list[bytes], data: st.DataObject) -> None:
    ours, theirs = pair(certs)
    for unit in units:
        ours.write(unit)
    ours.close_notify()
    ciphertext = ours.outgoing()
    cuts = data.draw(st.lists(st.integers(0, len(ciphertext)), max_size=6).map(sorted))
    received = b""
    for start, end in itertools.pairwise([0, *cuts, len(ciphertext)]):
        theirs.receive(ciphertext[start:end])
        received += read_all(theirs)
    assert received == b"".join(units)
    assert ends(theirs) == (True, False)


def test_nothing_yet_is_not_the_end(certs: Certificates) -> None:
    ours, _ = pair(certs)
    assert ours.read() is None
    assert ends(ours) == (False, False)


# Half-closed connections.


@versions
@roles
def test_reading_goes_on_after_our_close(certs: Certificates, version: ssl.TLSVersion, role: str) -> None:
    ours, theirs = pair(certs, version, role)
    ours.write(b"last")
    ours.close_notify()
    ours.close_notify()
    with pytest.raises(ConnectionClosing):
        ours.write(b"too late")
    move(ours, theirs)
    assert theirs.read() == b"last"
    assert theirs.read() is None
    assert theirs.peer_closed
    for unit in (b"still", b" talking"):
        theirs.write(unit)
        move(theirs, ours)
        assert ours.read() == unit
    assert ends(ours) == (False, False)
    theirs.close_notify()
    move(theirs, ours)
    assert ours.read() is None
    assert ends(ours) == (True, False)
    assert ours.outgoing() == b"", "one close_notify is enough"
    ours.receive_eof()
    assert ours.read() is None
    assert ends(ours) == (True, False)


@versions
@roles
def test_close_with_their_data_in_flight(certs: Certificates, version: ssl.TLSVersion, role: str) -> None:
    """Wherever the incoming bytes are cut when we close, none is lost and both ends are orderly."""
    ours, theirs = pair(certs, version, role)
    for unit in (b"first", b"second"):
        theirs.write(unit)
    theirs.close_notify()
    length = len(theirs.outgoing())
    for cut in range(length + 1):
        ours, theirs = pair(certs, version, role)
        for unit in (b"first", b"second"):
            theirs.write(unit)
        theirs.close_notify()
        ciphertext = theirs.outgoing()
        ours.receive(ciphertext[:cut])
        ours.close_notify()
        move(ours, theirs)
        ours.receive(ciphertext[cut:])
        assert read_all(ours) == b"firstsecond"
        assert ours.peer_closed
        assert theirs.read() is None
        assert theirs.peer_closed


@versions
def test_both_close_at_once(certs: Certificates, version: ssl.TLSVersion) -> None:
    ours, theirs = pair(certs, version)
    for pump in (ours, theirs):
        pump.write(b"bye")
        pump.close_notify()
    crossing = ours.outgoing(), theirs.outgoing()
    theirs.receive(crossing[0])
    ours.receive(crossing[1])
    for pump in (ours, theirs):
        assert pump.read() == b"bye"
        assert pump.read() is None
        assert pump.peer_closed


def test_the_end_is_not_told_before_the_data(certs: Certificates) -> None:
    ours, theirs = pair(certs)
    theirs.write(b"before the end")
    theirs.close_notify()
    move(theirs, ours)
    ours.close_notify()  # looks ahead
    assert ends(ours) == (False, False)
    assert ours.read() == b"before the end"
    assert ends(ours) == (True, False)


@roles
def test_close_inside_the_handshake_says_nothing(certs: Certificates, role: str) -> None:
    dialler, listener = client(certs.tls("alice")), server(certs.tls("bob"))
    dialler.handshake()
    move(dialler, listener)
    listener.handshake()
    pump = dialler if role == "dialler" else listener
    flight = listener.outgoing()
    pump.close_notify()
    assert pump.outgoing() == b""
    dialler.receive(flight)
    assert dialler.handshake(), "it goes on where it was"
    move(dialler, listener)
    assert listener.handshake()


# Abrupt ends (T-09 treats them differently).


@versions
@roles
def test_an_end_without_close_notify_is_told_apart(certs: Certificates, version: ssl.TLSVersion, role: str) -> None:
    ours, theirs = pair(certs, version, role)
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
        assert read_all(ours) == (b"cut" if cut >= 5 + first else b"")
        assert ends(ours) == (cut == len(ciphertext), cut < len(ciphertext))


def test_after_an_abrupt_end(certs: Certificates) -> None:
    ours, theirs = pair(certs)
    theirs.write(b"kept")
    move(theirs, ours)
    ours.receive_eof()
    ours.close_notify()  # looks ahead, and finds the end
    assert ends(ours) == (False, False), "what came before it is still to be read"
    assert ours.read() == b"kept"
    assert ends(ours) == (False, True)
    ours.receive(b"after the end of the transport: dropped")
    assert ours.read() is None
    with pytest.raises(ConnectionLost, match="has gone"):
        ours.write(b"to nobody")
    ours.close_notify()


def test_an_abrupt_end_after_our_close(certs: Certificates) -> None:
    ours, _ = pair(certs)
    ours.close_notify()
    ours.receive_eof()
    assert ours.read() is None
    assert ends(ours) == (False, True)


def test_calls_before_the_handshake(certs: Certificates) -> None:
    pump = client(certs.tls("alice"))
    assert pump.read() is None
    for call in (lambda: pump.write(b"x"), lambda: pump.identity("")):
        with pytest.raises(RuntimeError, match=r"call handshake\(\) until it is True"):
            call()


# Plaintext, with the same methods.


def test_plaintext_has_the_same_methods() -> None:
    public = {name for name in dir(Pump) if not name.startswith("_")} - {"client", "server"}
    assert public <= set(dir(PlainPump()))


def test_plaintext() -> None:
    pumps = Pumps(None)
    ours, theirs = pumps.client(Remote("localhost")), pumps.server()
    assert pumps.identity == PeerIdentity()
    assert shake(ours, theirs) == (None, None)
    assert theirs.read() is None
    ours.write(b"one")
    ours.write(b"two")
    ours.close_notify()
    with pytest.raises(ConnectionClosing):
        ours.write(b"three")
    move(ours, theirs)
    theirs.receive_eof()
    assert ends(theirs) == (False, False), "there is something to read"
    assert theirs.read() == b"onetwo"
    assert theirs.read() is None
    assert ends(theirs) == (True, False)
    assert theirs.identity("127.0.0.1:5") == PeerIdentity(address="127.0.0.1:5")
