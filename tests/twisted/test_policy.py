"""V18 for Twisted, in memory: the same peers are refused, and with the same words, as `_tls.py` does."""

from __future__ import annotations

import re
import ssl
from contextlib import suppress
from typing import Any
from uuid import UUID

import pytest
from OpenSSL import SSL
from tolliver_transports._options.instance import Remote
from tolliver_transports._tls.policy import client_context
from tolliver_transports._tls.pump import Pump
from tolliver_transports.twisted.policy import make_context
from tolliver_transports.twisted.tls import Transports

from tests.certificates import Certificates
from tests.tls import pumping
from tests.tls.pumping import LOCALHOST, TLS12, TLS13, VERSIONS, client_without_certificate
from tests.tls.test_handshake import CASES
from tolliver_proto import CertificateError, ConnectionLost, IdentityConflict, TolliverError

from . import sides
from .sides import move, shake

versions = pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.name)
KINDS = {"pump": pumping, "twisted": sides}
others = pytest.mark.parametrize("other", KINDS)


@versions
@others
@pytest.mark.parametrize("role", ["dialler", "listener"])
def test_both_kinds_understand_each_other(certs: Certificates, version: Any, other: str, role: str) -> None:
    kinds = (sides, KINDS[other]) if role == "dialler" else (KINDS[other], sides)
    dialler: Any = kinds[0].client(certs.tls("alice"), version)
    listener: Any = kinds[1].server(certs.tls("bob"), version)
    assert shake(dialler, listener) == (None, None)
    assert dialler.identity("here").uuids == {certs.uuid("bob")}
    assert listener.identity("there").uuids == {certs.uuid("alice")}
    assert listener.identity("there").address == "there"
    for ours, theirs in ((dialler, listener), (listener, dialler)):
        ours.write(b"one")
        move(ours, theirs)
        assert theirs.read() == b"one"


def test_an_instance_needs_nothing_but_its_options(certs: Certificates) -> None:
    dialler = sides.by_transports(certs.tls("alice"), LOCALHOST)
    listener = sides.by_transports(certs.tls("bob"))
    assert shake(dialler, listener) == (None, None)
    ours = Transports(certs.tls("alice")).identity
    assert listener.identity("") == ours
    assert dialler.protocol.calls == ["handshake"]


@pytest.mark.parametrize("server", [False, True])
def test_policy(certs: Certificates, server: bool) -> None:
    context = make_context(certs.tls("alice"), server=server)
    assert context.get_verify_mode() == SSL.VERIFY_PEER | SSL.VERIFY_FAIL_IF_NO_PEER_CERT
    options = context.set_options(0)
    for option in (SSL.OP_NO_COMPRESSION, SSL.OP_NO_RENEGOTIATION, SSL.OP_NO_TICKET):
        assert options & option
    assert not options & SSL.OP_IGNORE_UNEXPECTED_EOF
    assert context.get_session_cache_mode() == SSL.SESS_CACHE_OFF


def test_a_file_that_does_not_fit(certs: Certificates) -> None:
    mixed = certs.tls("alice")
    mixed = type(mixed)(mixed.cert, certs.tls("bob").key, mixed.ca)
    with pytest.raises(CertificateError, match="is not the key of"):
        Transports(mixed)
    with pytest.raises(CertificateError, match="do not fit"):
        make_context(mixed, server=True)


@pytest.mark.parametrize("offer", [["tolliver/1"], ["h2"], []], ids=["ours", "another", "none"])
def test_the_application_protocol_is_offered_and_not_required(certs: Certificates, offer: list[str]) -> None:
    context = client_context(certs.tls("alice"))
    context.set_alpn_protocols(offer)
    tls, listener = dial(context, certs)
    assert listener.handshake()
    assert tls.selected_alpn_protocol() == ("tolliver/1" if "tolliver/1" in offer else None)


def dial(
    context: ssl.SSLContext, certs: Certificates, session: ssl.SSLSession | None = None, version: Any = TLS13
) -> tuple[ssl.SSLObject, sides.Side]:
    """A client of `ssl` at our listener, shaken hands."""
    incoming, outgoing, listener = ssl.MemoryBIO(), ssl.MemoryBIO(), sides.server(certs.tls("bob"), version)
    tls = context.wrap_bio(incoming, outgoing, server_hostname="localhost", session=session)
    for _ in range(4):
        with suppress(ssl.SSLWantReadError):
            tls.do_handshake()
            tls.read()
        listener.receive(outgoing.read())
        incoming.write(listener.outgoing())
    return tls, listener


@versions
def test_no_session_is_resumed(certs: Certificates, version: Any) -> None:
    context = client_context(certs.tls("alice", tls12=True))
    context.options &= ~ssl.OP_NO_TICKET
    context.maximum_version = version
    first, _ = dial(context, certs, version=version)
    assert first.session is not None, "there is something to try with"
    second, listener = dial(context, certs, first.session, version)
    assert not second.session_reused
    assert listener.identity("").uuids == {certs.uuid("alice")}


# The words. A Pump in the same place, in front of the same peer, is what we compare with.


def outcome(ours: Any, theirs: Any, *, dials: bool) -> TolliverError | None:
    """How the handshake and what follows it failed on our side."""
    index = 0 if dials else 1
    error = shake(*((ours, theirs) if dials else (theirs, ours)))[index]
    if error is None:  # T-74: TLS 1.3 tells a client after its handshake
        try:
            ours.read()
        except TolliverError as late:
            error = late
    return error


@versions
@pytest.mark.parametrize("dials", [True, False], ids=["dialler", "listener"])
@pytest.mark.parametrize("case", CASES)
def test_the_words_about_certificates(certs: Certificates, case: str, dials: bool, version: Any) -> None:
    dialler, listener = CASES[case][:2]
    errors = []
    for kind in (pumping, sides):
        if dials:
            ours: Any = kind.client(certs.tls(dialler), version)
            theirs = pumping.server(certs.tls(listener), version)
        else:
            ours = kind.server(certs.tls(listener), version)
            theirs = pumping.client(certs.tls(dialler), version)
        errors.append(outcome(ours, theirs, dials=dials))
    expected, got = errors
    assert type(got) is type(expected) is CertificateError
    assert str(got) == str(expected)


@versions
def test_no_client_certificate(certs: Certificates, version: Any) -> None:
    errors = [
        outcome(kind.server(certs.tls("bob"), version), client_without_certificate(certs.ca, version), dials=False)
        for kind in (pumping, sides)
    ]
    assert type(errors[1]) is CertificateError
    assert str(errors[0]) == str(errors[1])


PINS = {
    "another address": Remote("127.0.0.2"),
    "another scope": Remote("fe80::1%eth0"),
    "another identity": Remote("localhost", identity=UUID(int=1)),
    "another key": Remote("localhost", spki_sha256=bytes(32)),
}


@versions
@pytest.mark.parametrize("case", PINS)
def test_somebody_else(certs: Certificates, case: str, version: Any) -> None:
    errors, told = [], []
    for kind in (pumping, sides):
        listener = pumping.server(certs.tls("bob"), version)
        dialler: Any = kind.client(certs.tls("alice"), version, PINS[case])
        errors.append(outcome(dialler, listener, dials=True))
        told.append(listener._identity)
    assert type(errors[1]) is (IdentityConflict if PINS[case].pinned else CertificateError)
    assert (type(errors[0]), str(errors[0])) == (type(errors[1]), str(errors[1]))
    if version is TLS13:
        assert told == [None, None], "an impostor need not see our certificate"


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1"])
def test_names_and_addresses_of_the_certificate(certs: Certificates, host: str) -> None:
    assert shake(sides.client(certs.tls("alice"), remote=Remote(host)), pumping.server(certs.tls("bob"))) == (
        None,
        None,
    )


@pytest.mark.parametrize("how", ["pinned", "insecure"])
def test_a_name_that_nobody_checks(certs: Certificates, how: str) -> None:
    remote = Remote("nowhere.example", identity=certs.uuid("bob") if how == "pinned" else None)
    tls = certs.tls("alice", insecure_ca_only=how == "insecure")
    assert shake(sides.client(tls, remote=remote), sides.server(certs.tls("bob"))) == (None, None)
    assert shake(sides.by_transports(tls, remote), sides.server(certs.tls("bob"))) == (None, None)


@pytest.mark.parametrize("member", ["anonymous", "garbled"])
def test_a_certificate_without_a_uuid(certs: Certificates, member: str) -> None:
    results = []
    for kind in (pumping, sides):
        listener: Any = kind.server(certs.tls("bob"))
        error = outcome(listener, pumping.client(certs.tls(member)), dials=False)
        results.append((type(error), str(error)) if error is not None else listener.identity(""))
    assert results[0] == results[1]


def test_names_that_cannot_be_read_are_refused(certs: Certificates) -> None:
    error = outcome(sides.server(certs.tls("bob")), pumping.client(certs.tls("unreadable")), dials=False)
    assert type(error) is CertificateError
    assert "the certificate of the peer that dialled us cannot be understood" in str(error)


def broken_bytes(version: Any) -> dict[str, bytes]:
    return {
        "http": b"GET / HTTP/1.1\r\n\r\n",
        "proxy": b"CONNECT host:7011 HTTP/1.1\r\n\r\n",
        "mail": b"220 mail.example ESMTP\r\n",
        "zeroes": bytes(64),
        "alert": b"\x15\x03\x03\x00\x02\x02\x50",  # internal error
        "refused": b"\x15\x03\x03\x00\x02\x02\x30",  # unknown CA
        "handshake failure": b"\x15\x03\x03\x00\x02\x02\x28",
        "denied": b"\x15\x03\x03\x00\x02\x02\x31",
        "revoked": b"\x15\x03\x03\x00\x02\x02\x2c",
        "old version": b"\x15\x03\x03\x00\x02\x02\x46",
        "their end": b"\x15\x03\x03\x00\x02\x01\x00",
        "end": b"",
    }


# Two builds of OpenSSL have two words for what is no TLS; both kinds must say the same thing about it.
@pytest.mark.parametrize("dials", [True, False], ids=["dialler", "listener"])
@pytest.mark.parametrize("what", broken_bytes(TLS13))
def test_the_words_about_what_is_no_certificate(certs: Certificates, what: str, dials: bool) -> None:
    errors = []
    for kind in (pumping, sides):
        ours: Any = (kind.client if dials else kind.server)(certs.tls("alice"))
        with suppress(TolliverError):
            ours.handshake()
            ours.receive(broken_bytes(TLS13)[what])
            ours.handshake()
        if what in ("end", "zeroes"):
            ours.receive_eof()
        with pytest.raises(TolliverError) as caught:
            ours.handshake()
        errors.append(caught.value)
    assert type(errors[0]) is type(errors[1])
    assert str(errors[0]) == str(errors[1])


@pytest.mark.parametrize("level", [1, 2], ids=["warning", "fatal"])
@pytest.mark.parametrize("dials", [True, False], ids=["dialler", "listener"])
def test_the_words_about_every_alert(certs: Certificates, dials: bool, level: int) -> None:
    for code in range(256):
        errors: list[TolliverError | None] = []
        for kind in (pumping, sides):
            ours: Any = (kind.client if dials else kind.server)(certs.tls("alice"))
            errors.append(None)
            try:
                ours.handshake()
                ours.receive(bytes((0x15, 3, 3, 0, 2, level, code)))
                ours.handshake()
            except TolliverError as error:
                errors[-1] = error
        expected, got = errors
        assert type(got) is type(expected), code
        # `ssl` has no name for a few, and adds where in CPython it noticed.
        assert str(got) == re.sub(r"\[SSL\] | \(_ssl\.c:\d+\)", "", str(expected))


@pytest.mark.parametrize("old", ["dialler", "listener"])
@pytest.mark.parametrize("dials", [True, False], ids=["we dial", "we listen"])
def test_no_common_tls_version(certs: Certificates, old: str, dials: bool) -> None:
    at = (TLS12 if old == "dialler" else TLS13, TLS12 if old == "listener" else TLS13)
    errors = []
    for kind in (pumping, sides):
        kinds: Any = (kind, pumping) if dials else (pumping, kind)
        dialler, listener = kinds[0].client(certs.tls("alice"), at[0]), kinds[1].server(certs.tls("bob"), at[1])
        errors.append(shake(dialler, listener)[0 if dials else 1])
    assert type(errors[1]) is ConnectionLost
    assert str(errors[0]) == str(errors[1])


def test_a_damaged_record_is_a_lost_connection(certs: Certificates) -> None:
    texts = []
    for kind in (pumping, sides):
        dialler, listener = pumping.client(certs.tls("alice")), kind.server(certs.tls("bob"))
        assert shake(dialler, listener) == (None, None)
        dialler.write(b"first")
        dialler.write(b"second")
        data = bytearray(dialler.outgoing())
        data[-1] ^= 1
        listener.receive(bytes(data))
        assert listener.read() == b"first"
        with pytest.raises(ConnectionLost, match="broke down") as caught:
            listener.read()
        texts.append(str(caught.value))
        dialler.receive(listener.outgoing())
        with pytest.raises(ConnectionLost, match="broke down"):
            dialler.read()
    # One OpenSSL says which check failed, a newer one adds that it was the record layer.
    assert texts[0].partition("broke down")[0] == texts[1].partition("broke down")[0]


@pytest.mark.parametrize("late_write", [False, True])
def test_late_refusal_is_recovered(certs: Certificates, late_write: bool) -> None:
    """T-74: our handshake is good, our write is good, and only then comes the alert, followed by the end."""
    dialler, listener = sides.client(certs.tls("expired")), pumping.server(certs.tls("bob"))
    shake(dialler, listener)
    if late_write:
        dialler.write(b"more")
    dialler.lose(ConnectionError())
    assert type(dialler.protocol.error) is CertificateError
    assert "certificate expired" in str(dialler.protocol.error)


def test_a_refusal_after_the_first_byte_is_a_lost_connection(certs: Certificates) -> None:
    """The alert of a peer that took our certificate once: not the refusal that T-74 is about."""
    texts = []
    for kind in (pumping, sides):
        dialler: Any = kind.client(certs.tls("alice"), TLS12)
        listener = Pump.server(pumping._server_context(certs.tls("bob"), TLS12))
        shake(dialler, listener)
        listener.write(b"hello")
        move(listener, dialler)
        assert dialler.read() == b"hello"
        dialler.receive(b"\x15\x03\x03\x00\x02\x02\x30")  # not encrypted, so not the peer's: no refusal either
        with pytest.raises(ConnectionLost) as caught:
            dialler.read()
        texts.append(type(caught.value))
    assert texts == [ConnectionLost, ConnectionLost]
