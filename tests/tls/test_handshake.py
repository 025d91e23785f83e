"""Handshakes of pumps (V18): refusals and their words, in both roles."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from contextlib import suppress

import pytest
from tolliver._options.instance import Remote
from tolliver._options.uuid7 import uuid7
from tolliver._tls.policy import ALPN, Pumps, client_context, server_context
from tolliver._tls.pump import PlainPump, Pump

from tests.certificates import Certificates
from tolliver_proto import (
    Closed,
    Connection,
    ConnectionLost,
    HandshakeRequest,
    IdentityConflict,
    MalformedFrame,
    Role,
    TolliverError,
    encode,
)
from tolliver_proto.errors import CertificateError

from .pumping import (
    LOCALHOST,
    TLS12,
    TLS13,
    VERSIONS,
    client,
    client_without_certificate,
    connected,
    move,
    read_all,
    reason,
    says,
    server,
    shake,
)

versions = pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.name)


@versions
def test_both_sides_prove_who_they_are(certs: Certificates, version: ssl.TLSVersion) -> None:
    a, b = connected(client(certs.tls("alice"), version), server(certs.tls("bob"), version))
    assert a.identity("here").uuids == {certs.uuid("bob")}
    assert b.identity("there").uuids == {certs.uuid("alice")}
    assert b.identity("there").address == "there"


def test_an_instance_needs_nothing_but_its_options(certs: Certificates) -> None:
    alice, bob = Pumps(certs.tls("alice")), Pumps(certs.tls("bob"))
    assert alice.identity.uuids == {certs.uuid("alice")}
    dialler, listener = alice.client(LOCALHOST), bob.server()
    assert shake(dialler, listener) == (None, None)
    assert listener.identity("") == alice.identity
    assert dialler.identity("") == bob.identity


def test_only_tls_1_3_by_default(certs: Certificates) -> None:
    assert client_context(certs.tls("alice")).minimum_version is TLS13
    assert server_context(certs.tls("alice")).minimum_version is TLS13
    assert server_context(certs.tls("alice", tls12=True)).minimum_version is TLS12


@pytest.mark.parametrize("make", [client_context, server_context])
def test_policy(certs: Certificates, make: Callable[..., ssl.SSLContext]) -> None:
    context = make(certs.tls("alice"))
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.cert_store_stats()["x509_ca"] == 1, "our CA and no other: never the system's store (D-1)"
    assert context.num_tickets == (0 if make is server_context else 2), "each connection shows its certificate again"
    assert not context.hostname_checks_common_name
    for option in (ssl.OP_NO_COMPRESSION, ssl.OP_NO_RENEGOTIATION, ssl.OP_NO_TICKET):
        assert context.options & option


def test_host_names_are_checked_unless_it_is_spelt_out(certs: Certificates) -> None:
    assert client_context(certs.tls("alice")).check_hostname
    assert not client_context(certs.tls("alice", insecure_ca_only=True)).check_hostname


@pytest.mark.parametrize("offer", [[ALPN], ["h2"], []], ids=["ours", "another", "none"])
def test_the_application_protocol_is_offered_and_not_required(certs: Certificates, offer: list[str]) -> None:
    context = client_context(certs.tls("alice"))
    context.set_alpn_protocols(offer)
    tls = context.wrap_bio(incoming := ssl.MemoryBIO(), outgoing := ssl.MemoryBIO(), server_hostname="localhost")
    listener = server(certs.tls("bob"))
    for _ in range(3):
        with suppress(ssl.SSLWantReadError):
            tls.do_handshake()
        listener.receive(outgoing.read())
        done = listener.handshake()
        incoming.write(listener.outgoing())
    assert done
    assert tls.selected_alpn_protocol() == (ALPN if ALPN in offer else None)


def test_no_session_ticket_is_given(certs: Certificates) -> None:
    dialler, listener = connected(client(certs.tls("alice")), server(certs.tls("bob")))
    assert listener.outgoing() == b""
    assert dialler.read() is None


def test_a_resumed_session_is_refused(certs: Certificates) -> None:
    """TLS 1.2 resumes by session id, without a look at the certificate (D-1)."""
    member = certs.tls("alice", tls12=True)
    theirs, ours = client_context(member), server_context(certs.tls("bob", tls12=True))
    theirs.maximum_version = TLS12

    def dial(session: ssl.SSLSession | None) -> tuple[Pump, ssl.SSLSession | None]:
        incoming, outgoing, listener = ssl.MemoryBIO(), ssl.MemoryBIO(), Pump.server(ours)
        tls = theirs.wrap_bio(incoming, outgoing, server_hostname="localhost", session=session)
        for _ in range(3):
            with suppress(ssl.SSLWantReadError):
                tls.do_handshake()
            listener.receive(outgoing.read())
            listener.handshake()
            incoming.write(listener.outgoing())
        return listener, tls.session

    _, session = dial(None)
    with pytest.raises(ConnectionLost, match="resumed a TLS session"):
        dial(session)


# Refused certificates. Each side: the error, and OpenSSL's reason or the code of its verification.

Side = tuple[type[TolliverError], str]
WE_REFUSE = (CertificateError, "CERTIFICATE_VERIFY_FAILED")
CASES: dict[str, tuple[str, str, str, Side, Side]] = {
    # name: dialler, listener, what is said of the certificate, at the dialler, at the listener
    "dialler expired": (
        "expired", "bob", "certificate has expired",
        (CertificateError, "SSLV3_ALERT_CERTIFICATE_EXPIRED"), WE_REFUSE,
    ),
    "listener expired": (
        "alice", "expired", "certificate has expired",
        WE_REFUSE, (CertificateError, "SSLV3_ALERT_CERTIFICATE_EXPIRED"),
    ),
    "dialler not yet valid": (
        "future", "bob", "certificate is not yet valid",
        (CertificateError, "SSLV3_ALERT_BAD_CERTIFICATE"), WE_REFUSE,
    ),
    "listener not yet valid": (
        "alice", "future", "certificate is not yet valid",
        WE_REFUSE, (CertificateError, "SSLV3_ALERT_BAD_CERTIFICATE"),
    ),
    "dialler of another CA": (
        "intruder", "bob", "unable to get local issuer certificate",
        (CertificateError, "TLSV1_ALERT_UNKNOWN_CA"), WE_REFUSE,
    ),
    "listener of another CA": (
        "alice", "intruder", "unable to get local issuer certificate",
        WE_REFUSE, (CertificateError, "TLSV1_ALERT_UNKNOWN_CA"),
    ),
    "neither trusts the other": (
        "alice", "stranger", "self-signed certificate in certificate chain",
        WE_REFUSE, (CertificateError, "TLSV1_ALERT_UNKNOWN_CA"),
    ),
    "listener of another host": (
        "alice", "elsewhere", "Hostname mismatch, certificate is not valid for 'localhost'",
        WE_REFUSE, (CertificateError, "SSLV3_ALERT_BAD_CERTIFICATE"),
    ),
    "dialler may not dial": (
        "listener", "bob", "unsuitable certificate purpose",
        (CertificateError, "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE"), WE_REFUSE,
    ),
    "listener may not listen": (
        "alice", "dialler", "unsuitable certificate purpose",
        WE_REFUSE, (CertificateError, "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE"),
    ),
}  # fmt: skip


@versions
@pytest.mark.parametrize("case", CASES)
def test_refused_certificate(certs: Certificates, case: str, version: ssl.TLSVersion) -> None:
    dialler, listener, words, *expected = CASES[case]
    pumps = (client(certs.tls(dialler), version), server(certs.tls(listener), version))
    errors = list(shake(*pumps))
    if errors[0] is None:  # T-74: TLS 1.3 tells a client after its handshake
        assert version is TLS13
        with pytest.raises(CertificateError) as caught:
            pumps[0].read()
        errors[0] = caught.value
    for error, (kind, because) in zip(errors, expected, strict=True):
        assert (type(error), reason(error)) == (kind, because)
        side = f"we refuse the certificate of .*: {words}: " if because == WE_REFUSE[1] else "refuses our certificate: "
        assert says(error, kind, side)
        if "BAD_CERTIFICATE" in because:
            assert "not be valid yet by the peer's clock" in str(error)


@versions
def test_no_client_certificate(certs: Certificates, version: ssl.TLSVersion) -> None:
    dialler, listener = client_without_certificate(certs.ca, version), server(certs.tls("bob"), version)
    ours, theirs = shake(dialler, listener)
    assert type(theirs) is CertificateError
    assert reason(theirs) == "PEER_DID_NOT_RETURN_A_CERTIFICATE"
    if version is TLS12:
        assert type(ours) is CertificateError
        assert reason(ours) == "SSLV3_ALERT_HANDSHAKE_FAILURE"
    else:
        assert ours is None
        with pytest.raises(CertificateError, match="certificate required") as caught:
            dialler.read()
        assert reason(caught.value) == "TLSV13_ALERT_CERTIFICATE_REQUIRED"


def test_an_address_that_is_not_in_the_certificate(certs: Certificates) -> None:
    ours, _ = shake(client(certs.tls("alice"), remote=Remote("127.0.0.2")), server(certs.tls("bob")))
    assert says(ours, CertificateError, r"IP address mismatch.*pin the peer")


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_addresses_of_the_certificate(certs: Certificates, host: str) -> None:
    connected(client(certs.tls("alice"), remote=Remote(host)), server(certs.tls("bob")))


@pytest.mark.parametrize("late_write", [False, True])
def test_late_refusal_is_recovered(certs: Certificates, late_write: bool) -> None:
    """T-74: the client's handshake is good, its write is good, and only then comes the alert, followed by the end."""
    dialler, listener = client(certs.tls("expired")), server(certs.tls("bob"))
    assert shake(dialler, listener)[0] is None
    dialler.write(b"request")
    dialler.receive_eof()  # bytes that the listener sent before its end have been received already
    for _ in range(2):
        with pytest.raises(CertificateError, match="certificate expired") as caught:
            dialler.read()
        assert reason(caught.value) == "SSLV3_ALERT_CERTIFICATE_EXPIRED"
        if late_write:
            with pytest.raises(CertificateError, match="certificate expired"):
                dialler.write(b"more")
    assert not dialler.peer_closed
    dialler.close_notify()


def test_late_refusal_byte_by_byte(certs: Certificates) -> None:
    dialler, listener = client(certs.tls("expired")), server(certs.tls("bob"))
    move_all = (dialler.handshake(), move(dialler, listener), listener.handshake(), move(listener, dialler))
    assert move_all[0] is False
    assert dialler.handshake()
    move(dialler, listener)
    with pytest.raises(CertificateError):
        listener.handshake()
    alert = listener.outgoing()
    for at in range(len(alert) - 1):
        dialler.receive(alert[at : at + 1])
        assert dialler.read() is None
    dialler.receive(alert[-1:])
    with pytest.raises(CertificateError):
        dialler.read()


def test_a_refusal_after_the_first_byte_is_a_lost_connection(certs: Certificates) -> None:
    """A peer that took our certificate once and asks again in mid-connection: not the refusal that T-74 is about."""
    theirs = server_context(certs.tls("bob"))
    theirs.post_handshake_auth = True
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    peer = theirs.wrap_bio(incoming, outgoing, server_side=True)
    bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    bare.load_verify_locations(certs.ca)
    bare.post_handshake_auth = True
    dialler = Pump.client(bare, LOCALHOST)
    for _ in range(3):
        dialler.handshake()
        incoming.write(dialler.outgoing())
        with suppress(ssl.SSLWantReadError):
            peer.do_handshake()
        dialler.receive(outgoing.read())
    peer.write(b"hello")
    peer.verify_client_post_handshake()
    peer.write(b" and now show it")
    dialler.receive(outgoing.read())
    assert read_all(dialler) == b"hello and now show it"
    incoming.write(dialler.outgoing())
    with pytest.raises(ssl.SSLError):
        peer.read()
    dialler.receive(outgoing.read())
    with pytest.raises(ConnectionLost) as caught:
        dialler.read()
    assert reason(caught.value) == "TLSV13_ALERT_CERTIFICATE_REQUIRED"


# A failure that is not about certificates may pass, and is tried again (T-73).

NOT_TLS = {"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"}  # the second is OpenSSL 3.2's


@pytest.mark.parametrize("cut", [1, 5, 11, 29], ids=lambda cut: f"{cut} bytes")
def test_plaintext_to_a_tls_listener(certs: Certificates, cut: int) -> None:
    request = encode(HandshakeRequest(1, uuid7()))
    listener = server(certs.tls("bob"))
    errors = []
    for at in range(0, len(request), cut):
        listener.receive(request[at : at + cut])
        try:
            assert not listener.handshake()
        except ConnectionLost as error:
            errors.append(error)
    assert errors
    assert {reason(error) for error in errors} <= NOT_TLS
    assert "does not speak TLS" in str(errors[0])


def test_a_browser_at_a_tls_listener(certs: Certificates) -> None:
    listener = server(certs.tls("bob"))
    listener.receive(b"GET / HTTP/1.1\r\n\r\n")
    with pytest.raises(ConnectionLost, match="does not speak TLS") as caught:
        listener.handshake()
    assert reason(caught.value) in {"HTTP_REQUEST"} | NOT_TLS


def test_tls_to_a_plaintext_listener(certs: Certificates) -> None:
    """The listener's machine refuses the first byte of a ClientHello (T-05) and closes; the dialler sees an end."""
    dialler, listener = client(certs.tls("alice")), PlainPump()
    assert not dialler.handshake()
    move(dialler, listener)
    machine = Connection(Role.SERVER, instance_id=uuid7())
    machine.receive_data(listener.read() or b"")
    closed = machine.next_event()
    assert isinstance(closed, Closed)
    assert isinstance(closed.error, MalformedFrame)
    dialler.receive_eof()
    with pytest.raises(ConnectionLost, match="closed during the TLS handshake"):
        dialler.handshake()


def test_tls_to_a_listener_that_greets_first(certs: Certificates) -> None:
    dialler = client(certs.tls("alice"))
    dialler.handshake()
    dialler.receive(b"220 mail.example ESMTP\r\n")
    with pytest.raises(ConnectionLost, match="does not speak TLS") as caught:
        dialler.handshake()
    assert reason(caught.value) in NOT_TLS


@pytest.mark.parametrize("old", ["dialler", "listener"])
def test_no_common_tls_version(certs: Certificates, old: str) -> None:
    dialler = client(certs.tls("alice"), TLS12 if old == "dialler" else TLS13)
    listener = server(certs.tls("bob"), TLS12 if old == "listener" else TLS13)
    errors = shake(dialler, listener)
    assert [type(error) for error in errors] == [ConnectionLost, ConnectionLost]
    assert [reason(error) for error in errors] == ["TLSV1_ALERT_PROTOCOL_VERSION", "UNSUPPORTED_PROTOCOL"]
    assert all("upgrade it, or admit TLS 1.2" in str(error) for error in errors)


@versions
@pytest.mark.parametrize("role", ["dialler", "listener"])
def test_an_end_inside_the_handshake(certs: Certificates, role: str, version: ssl.TLSVersion) -> None:
    dialler, listener = client(certs.tls("alice"), version), server(certs.tls("bob"), version)
    dialler.handshake()
    move(dialler, listener)
    listener.handshake()
    pump = dialler if role == "dialler" else listener
    pump.receive_eof()
    with pytest.raises(ConnectionLost, match="closed during the TLS handshake"):
        pump.handshake()


# Alerts in the handshake that refuse our certificate (RFC 8446, 6.2).
REFUSALS = {40: "handshake failure", 42: "bad certificate", 43: "unsupported certificate", 44: "certificate revoked"}
REFUSALS |= {45: "certificate expired", 46: "certificate unknown", 48: "unknown CA", 49: "access denied"}
REFUSALS |= {116: "certificate required"}


def test_every_alert_in_the_handshake_has_its_words(certs: Certificates) -> None:
    for code in range(256):
        dialler = client(certs.tls("alice"))
        dialler.handshake()
        dialler.receive(bytes((0x15, 3, 3, 0, 2, 2, code)))
        with pytest.raises((CertificateError, ConnectionLost)) as caught:
            dialler.handshake()
        if code in REFUSALS:
            assert says(caught.value, CertificateError, f"refuses our certificate: {REFUSALS[code]}: "), code
        else:
            assert type(caught.value) is ConnectionLost, code


@pytest.mark.parametrize("how", ["refused", "closed"])
def test_what_nobody_reads_any_more_is_not_kept(certs: Certificates, how: str) -> None:
    """A peer that is refused may go on sending until it is told, and a member after its end."""
    dialler = client(certs.tls("expired" if how == "refused" else "alice"))
    listener = server(certs.tls("bob"))
    shake(dialler, listener)
    if how == "closed":
        dialler.close_notify()
        move(dialler, listener)
        assert listener.read() is None
        assert listener.peer_closed
    kept = listener._incoming.pending
    listener.receive(bytes(100_000))
    assert listener._incoming.pending == kept


def test_a_damaged_record_is_a_lost_connection(certs: Certificates) -> None:
    dialler, listener = connected(client(certs.tls("alice")), server(certs.tls("bob")))
    dialler.write(b"first")
    dialler.write(b"second")
    data = bytearray(dialler.outgoing())
    data[-1] ^= 1
    listener.receive(bytes(data))
    assert listener.read() == b"first", "an error never eats what came before it"
    with pytest.raises(ConnectionLost, match=r"broke down: .*(bad record mac|record layer failure)"):
        listener.read()
    move(listener, dialler)
    with pytest.raises(ConnectionLost) as caught:
        dialler.read()
    assert reason(caught.value) == "SSLV3_ALERT_BAD_RECORD_MAC"


# Pins (D-2): known by a UUID or a key, whatever the name.


def test_a_pinned_peer_needs_no_host_name(certs: Certificates) -> None:
    pumps, listeners = Pumps(certs.tls("alice")), Pumps(certs.tls("elsewhere"))
    for remote in (
        Remote("localhost", identity=certs.uuid("elsewhere")),
        Remote("localhost", spki_sha256=listeners.identity.spki_sha256),
        Remote("localhost", 7011, certs.uuid("elsewhere"), listeners.identity.spki_sha256),
    ):
        assert shake(pumps.client(remote), listeners.server()) == (None, None)
    ours, _ = shake(pumps.client(LOCALHOST), listeners.server())
    assert isinstance(ours, CertificateError)


def test_another_than_the_pinned_peer(certs: Certificates) -> None:
    pumps = Pumps(certs.tls("alice"))
    for listener, pins in (
        ("bob", {"identity": certs.uuid("elsewhere")}),
        ("anonymous", {"identity": certs.uuid("bob")}),
        ("bob", {"spki_sha256": bytes(32)}),
        ("bob", {"identity": certs.uuid("bob"), "spki_sha256": bytes(32)}),
    ):
        dialler = pumps.client(Remote("localhost", **pins))
        other = server(certs.tls(listener))
        assert not dialler.handshake()
        move(dialler, other)
        other.handshake()
        move(other, dialler)
        with pytest.raises(IdentityConflict, match="correct the address"):
            dialler.handshake()
        with pytest.raises(IdentityConflict):
            dialler.read()
        assert dialler.outgoing() == b"", "it need not see our certificate"


def test_a_pin_does_not_replace_the_ca(certs: Certificates) -> None:
    remote = Remote("localhost", identity=certs.uuid("stranger"))
    ours, _ = shake(Pumps(certs.tls("alice")).client(remote), server(certs.tls("stranger")))
    assert isinstance(ours, CertificateError)


def test_insecure_ca_only_takes_any_member_and_no_stranger(certs: Certificates) -> None:
    pumps = Pumps(certs.tls("alice", insecure_ca_only=True))
    assert shake(pumps.client(LOCALHOST), server(certs.tls("elsewhere"))) == (None, None)
    ours, _ = shake(pumps.client(LOCALHOST), server(certs.tls("intruder")))
    assert isinstance(ours, CertificateError)


def test_a_garbled_uuid_is_refused(certs: Certificates) -> None:
    ours, _ = shake(client(certs.tls("alice")), server(certs.tls("garbled")))
    assert says(ours, CertificateError, "'urn:uuid:not-a-uuid' is no UUID")
    with pytest.raises(CertificateError, match=r"garbled\.pem would be refused: 'urn:uuid:not-a-uuid' is no UUID"):
        Pumps(certs.tls("garbled"))


def test_names_that_cannot_be_read_are_refused(certs: Certificates) -> None:
    _, ours = shake(client(certs.tls("unreadable")), server(certs.tls("bob")))
    assert says(ours, CertificateError, "the certificate of the peer that dialled us cannot be understood")


def test_no_uuid_is_no_error(certs: Certificates) -> None:
    """Then the first use pins the key (D-3)."""
    identity = Pumps(certs.tls("anonymous")).identity
    assert identity.uuids == frozenset()
    assert identity.spki_sha256 is not None
