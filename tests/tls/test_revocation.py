"""Certificates that are revoked, in handshakes; and lists that cannot be used."""

from __future__ import annotations

import datetime
from pathlib import Path

import attrs
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from tolliver._options.instance import TLS, Remote
from tolliver._tls.contexts import shake
from tolliver._tls.policy import Pumps, client_context, server_context
from tolliver._tls.pump import Pump
from tolliver.certs import make_ca, make_certificate, revoke

from tests.certificates import Certificates
from tolliver_proto import ConnectionLost
from tolliver_proto.errors import CertificateError
from tolliver_proto.node import DialCause

LOCALHOST = Remote("localhost")
DAY = datetime.timedelta(days=1)
NOW = datetime.datetime.now(datetime.UTC)


class Club:
    """A CA of its own, some members, and its list."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        make_ca(directory)
        self.crl = revoke(directory)

    def tls(self, name: str) -> TLS:
        path = self.directory / f"{name}.pem"
        if not path.exists():
            make_certificate(self.directory, name)
        return TLS(path, path.with_suffix(".key"), self.directory / "ca.pem", crl=self.crl)

    def write(self, ca: Path | None = None, start: datetime.datetime = NOW - DAY, days: int = 30) -> None:
        """A list with nobody in it, signed by that CA."""
        ca = ca or self.directory
        key = serialization.load_pem_private_key((ca / "ca.key").read_bytes(), None)
        signed = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(x509.load_pem_x509_certificate((self.directory / "ca.pem").read_bytes()).subject)
            .last_update(start)
            .next_update(start + days * DAY)
            .sign(key, hashes.SHA256())  # type: ignore[arg-type]  # it is an EC key
        )
        self.crl.write_bytes(signed.public_bytes(serialization.Encoding.PEM))


@pytest.fixture
def club(tmp_path: Path) -> Club:
    return Club(tmp_path / "club")


@pytest.mark.parametrize("tls12", [False, True])
def test_a_revoked_certificate_is_refused_by_who_dials_and_who_is_dialled(club: Club, tls12: bool) -> None:
    alice, bob, carol = (attrs.evolve(club.tls(name), tls12=tls12) for name in ("alice", "bob", "carol"))
    without = Pumps(attrs.evolve(bob, crl=None))
    revoke(club.directory, [bob.cert])
    watching, third = Pumps(alice), Pumps(carol)
    shake(watching.client(LOCALHOST), third.server())  # type: ignore[arg-type]  # with TLS
    with pytest.raises(CertificateError, match="at localhost:7011: certificate revoked: it is in our list"):
        shake(watching.client(LOCALHOST), without.server())  # type: ignore[arg-type]
    bobs = without.client(LOCALHOST)
    with pytest.raises(CertificateError, match="the peer that dialled us: certificate revoked: it is in our list"):
        shake(bobs, server := watching.server())  # type: ignore[arg-type]
    bobs.receive(server.outgoing())
    with pytest.raises(CertificateError, match="refuses our certificate: certificate revoked"):
        (bobs.handshake(), bobs.read())
    with pytest.raises(CertificateError, match=r"our own certificate .*bob\.pem would be refused: certificate revoked"):
        Pumps(bob)


def test_a_handshake_that_the_list_overtakes_fails(club: Club) -> None:
    old, other = Pumps(club.tls("alice")), Pumps(club.tls("bob"))
    begun, done = old.client(LOCALHOST), old.client(LOCALHOST)
    shake(done, other.server())  # type: ignore[arg-type]
    assert done.revocation is None
    revoke(club.directory, [club.tls("bob").cert])
    Pumps.renewed(club.tls("alice")).succeed(old)
    assert "certificate revoked" in str(done.revocation)
    with pytest.raises(CertificateError, match="certificate revoked: it is in our list"):
        shake(begun, other.server())  # type: ignore[arg-type]
    assert begun.outgoing() == b"", "it need not see our certificate"


def test_a_list_that_has_ended_keeps_everybody_out_and_nobody_gives_up(club: Club) -> None:
    """The peer is told nothing: an alert would say that its certificate is at fault, and it would dial no more."""
    tls, other = club.tls("alice"), Pumps(attrs.evolve(club.tls("bob"), crl=None))
    club.write(days=0)
    with pytest.raises(CertificateError, match=r"crl\.pem cannot be used: CRL has expired: put a newer one"):
        Pumps(tls)
    server, client = Pump.server(server_context(tls)), other.client(LOCALHOST)
    with pytest.raises(ConnectionLost, match="that dialled us is revoked: CRL has expired") as lost:
        shake(client, server)  # type: ignore[arg-type]
    assert lost.value.cause is DialCause.CERTIFICATE
    assert server.outgoing() == b""
    dialling = Pump.client(client_context(tls), LOCALHOST)
    with pytest.raises(ConnectionLost, match="at localhost:7011 is revoked: CRL has expired: put a newer one"):
        shake(dialling, other.server())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "holds no certificate revocation list in PEM form"),
        (b"-----BEGIN X509 CRL-----\nMAA=\n-----END X509 CRL-----\n", "cannot be read"),
        (b"-----BEGIN X509 CRL-----\nMIIB\n-----END X509 CRL-----\n", "cannot be read"),
        (b"-----BEGIN X509 CRL-----\nM\n-----END X509 CRL-----\n", "cannot be read"),
    ],
)
def test_a_file_that_is_no_list(club: Club, text: bytes, said: str) -> None:
    tls = club.tls("alice")
    club.crl.write_bytes(text)
    with pytest.raises(CertificateError, match=said):
        Pumps(tls)


def test_a_list_of_another_time_or_ca(club: Club, certs: Certificates) -> None:
    tls = club.tls("alice")
    club.write(start=NOW + DAY)
    with pytest.raises(CertificateError, match="cannot be used: CRL is not yet valid: check our clock"):
        Pumps(tls)
    club.write(ca=certs.directory)  # a forgery
    with pytest.raises(CertificateError, match="cannot be used: CRL signature failure"):
        Pumps(tls)
    with pytest.raises(CertificateError, match="cannot be used: unable to get certificate CRL"):
        Pumps(attrs.evolve(tls, crl=revoke(certs.directory)))
    club.crl.unlink()
    with pytest.raises(CertificateError, match=r"crl\.pem cannot be read"):
        Pumps(tls)


def test_a_certificate_in_the_file_is_not_trusted(club: Club, certs: Certificates) -> None:
    tls, stranger = club.tls("alice"), certs.tls("left")
    club.crl.write_bytes(certs.ca.read_bytes() + club.crl.read_bytes())
    with pytest.raises(CertificateError, match="we refuse the certificate"):
        shake(Pumps(tls).client(LOCALHOST), Pumps(stranger).server())  # type: ignore[arg-type]


def test_a_list_keeps_what_it_had(club: Club, certs: Certificates) -> None:
    for name in ("alice", "bob", "bob"):
        revoke(club.directory, [club.tls(name).cert])
    revoke(club.directory)
    listed = x509.load_pem_x509_crl(club.crl.read_bytes())
    assert listed.next_update_utc is not None
    assert Pumps(club.tls("carol")).crl_next_update == listed.next_update_utc.timestamp()
    certificates = [x509.load_pem_x509_certificate(club.tls(name).cert.read_bytes()) for name in ("alice", "bob")]
    assert {entry.serial_number for entry in listed} == {one.serial_number for one in certificates}
    for wrong, said in ((certs.tls("left").cert, "is not a certificate of this CA"), (club.crl, "cannot be read as a")):
        with pytest.raises(CertificateError, match=said):
            revoke(club.directory, [wrong])
    club.crl.write_bytes(revoke(certs.directory).read_bytes())
    with pytest.raises(CertificateError, match="is the list of another CA"):
        revoke(club.directory)
    club.crl.write_bytes(b"x")
    with pytest.raises(CertificateError, match="restore it, or move it away"):
        revoke(club.directory)
