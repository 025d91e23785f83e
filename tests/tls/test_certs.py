"""Files of a private CA, and reading of certificates."""

from __future__ import annotations

import datetime
import hashlib
import stat
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID
from hypothesis import given
from hypothesis import strategies as st
from tolliver._options.instance import TLS
from tolliver._tls.policy import Pumps
from tolliver._tls.x509 import subject_public_key_info
from tolliver.certs import Authority, make_ca, make_certificate

from tests.certificates import Certificates
from tolliver_proto import PeerIdentity
from tolliver_proto.errors import CertificateError

ID = UUID("01890000-0000-7000-8000-000000000001")
OTHER = UUID("01890000-0000-7000-8000-000000000002")


def load(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def public_key(path: Path) -> bytes:
    return (
        load(path)
        .public_key()
        .public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    )


# Files that make_ca and make_certificate write.


def test_a_ca_signs_members_and_nothing_else(tmp_path: Path) -> None:
    ca = make_ca(tmp_path / "new" / "directory")
    assert ca == Authority(tmp_path / "new/directory/ca.pem", tmp_path / "new/directory/ca.key")
    cert = load(ca.cert)
    constraints = cert.extensions.get_extension_for_class(x509.BasicConstraints)
    assert (constraints.critical, constraints.value.ca, constraints.value.path_length) == (True, True, 0)
    usage = cert.extensions.get_extension_for_class(x509.KeyUsage).value
    assert (usage.key_cert_sign, usage.digital_signature) == (True, False)


def test_a_member_has_its_uuid_hosts_and_both_roles(tmp_path: Path) -> None:
    make_ca(tmp_path)
    member = make_certificate(tmp_path, "alice", ID, hosts=("alice.example", "10.0.0.1", "fd00::1"), days=7)
    assert member.uuid == ID
    cert = load(member.cert)
    names = cert.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.UniformResourceIdentifier) == [f"urn:uuid:{ID}"]
    assert names.get_values_for_type(x509.DNSName) == ["alice.example"]
    assert [str(ip) for ip in names.get_values_for_type(x509.IPAddress)] == ["10.0.0.1", "fd00::1"]
    usages = cert.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert set(usages) == {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH}
    assert not cert.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert cert.not_valid_before_utc < datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=30)
    left = cert.not_valid_after_utc - datetime.datetime.now(datetime.UTC)
    assert datetime.timedelta(days=6) < left <= datetime.timedelta(days=7)


def test_keys_are_for_their_owner_alone(tmp_path: Path) -> None:
    ca = make_ca(tmp_path)
    member = make_certificate(tmp_path, "alice")
    assert [stat.S_IMODE(path.stat().st_mode) for path in (ca.key, member.key)] == [0o600, 0o600]


def test_a_member_without_a_uuid_gets_a_new_one(tmp_path: Path) -> None:
    make_ca(tmp_path)
    first, second = make_certificate(tmp_path, "first"), make_certificate(tmp_path, "second")
    assert first.uuid.version == 7
    assert first.uuid < second.uuid
    assert Pumps(first.tls()).identity.uuids == {first.uuid}


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    make_ca(tmp_path)
    make_certificate(tmp_path, "alice")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(CertificateError, match=r"ca\.key: File exists: nothing is overwritten"):
        make_ca(tmp_path)
    with pytest.raises(CertificateError, match=r"alice\.key: File exists: nothing is overwritten"):
        make_certificate(tmp_path, "alice")
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_half_a_pair_is_not_left_behind(tmp_path: Path) -> None:
    make_ca(tmp_path)
    (tmp_path / "alice.pem").write_text("mine")
    with pytest.raises(CertificateError, match=r"alice\.pem: File exists"):
        make_certificate(tmp_path, "alice")
    assert not (tmp_path / "alice.key").exists()
    assert (tmp_path / "alice.pem").read_text() == "mine"


def test_a_directory_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CertificateError, match="choose another"):
        make_ca(tmp_path / "file")


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (lambda ca, _: ca.cert.unlink(), r"ca\.pem is missing: make a CA"),
        (lambda ca, _: ca.key.unlink(), r"ca\.key is missing: make a CA"),
        (lambda ca, _: ca.cert.write_text("?"), r"cannot be used .*restore ca\.pem and ca\.key"),
        (lambda ca, _: ca.key.write_text("?"), r"cannot be used .*restore ca\.pem and ca\.key"),
        (lambda ca, other: ca.key.write_bytes(other.key.read_bytes()), r"ca\.key is not the key of .*ca\.pem"),
    ],
)
def test_a_ca_that_cannot_sign(tmp_path: Path, spoil: Callable[[Authority, Authority], None], text: str) -> None:
    spoil(make_ca(tmp_path), make_ca(tmp_path / "other"))
    with pytest.raises(CertificateError, match=text):
        make_certificate(tmp_path, "alice")


@pytest.mark.parametrize("name", ["", "ca", "a/b", "..", ".hidden", "-x", "x" * 65, "a b", "\N{SNOWMAN}"])
def test_names_that_are_no_file_names(tmp_path: Path, name: str) -> None:
    make_ca(tmp_path)
    with pytest.raises(ValueError, match="cannot name an instance: use"):
        make_certificate(tmp_path, name)


@pytest.mark.parametrize("host", ["", "a b", "host:7011", "[::1]", "b\N{LATIN SMALL LETTER U WITH DIAERESIS}cher.de"])
def test_hosts_that_are_none(tmp_path: Path, host: str) -> None:
    make_ca(tmp_path)
    with pytest.raises(ValueError, match="is no host: give"):
        make_certificate(tmp_path, "alice", hosts=[host])


def test_times_that_cannot_be(tmp_path: Path) -> None:
    make_ca(tmp_path)
    with pytest.raises(ValueError, match="give at least one"):
        make_certificate(tmp_path, "alice", days=0)
    with pytest.raises(ValueError, match="has no time zone"):
        make_certificate(tmp_path, "alice", valid_from=datetime.datetime(2026, 1, 1))  # on purpose


# Our own certificate, at start-up.


def test_own_identity_is_what_others_see(certs: Certificates) -> None:
    tls = certs.tls("alice")
    digest = hashlib.sha256(public_key(tls.cert)).digest()
    assert Pumps(tls).identity == PeerIdentity(frozenset({certs.uuid("alice")}), digest)
    assert Pumps(certs.tls("alice", tls12=True)).identity == Pumps(tls).identity
    assert [repr(Pumps(one)) for one in (None, tls)] == ["<Pumps of plaintext>", f"<Pumps of {certs.uuid('alice')}>"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("expired", "certificate has expired: make a new certificate"),
        ("future", "certificate is not yet valid: check the clocks"),
        ("intruder", "unable to get local issuer certificate: both sides need certificates of the same private CA"),
        ("dialler", "unsuitable certificate purpose: it needs the extended key usages serverAuth and clientAuth"),
        ("listener", "unsuitable certificate purpose: it needs the extended key usages serverAuth and clientAuth"),
    ],
)
def test_own_certificate_that_others_would_refuse(certs: Certificates, name: str, text: str) -> None:
    with pytest.raises(CertificateError, match=rf"our own certificate .*{name}\.pem would be refused: {text}"):
        Pumps(certs.tls(name))


def make_bad_file(directory: Path, content: bytes | None) -> Path:
    path = directory / "bad.pem"
    if content is not None:
        path.write_bytes(content)
    return path


@pytest.mark.parametrize("option", ["cert", "key", "ca"])
@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, r"bad\.pem cannot be read \(No such file or directory\): correct the path"),
        (b"", r"bad\.pem holds no (certificate|private key) in PEM form"),
        (b"hello", r"bad\.pem holds no (certificate|private key) in PEM form"),
        (b"\xff\x00\xfe", r"bad\.pem holds no (certificate|private key) in PEM form"),
        (
            b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            r"bad\.pem holds no (certificate|private key) in PEM form",
        ),
    ],
)
def test_bad_files_are_named(
    certs: Certificates, tmp_path: Path, option: str, content: bytes | None, text: str
) -> None:
    good = certs.tls("alice")
    paths = {"cert": good.cert, "key": good.key, "ca": good.ca, option: make_bad_file(tmp_path, content)}
    with pytest.raises(CertificateError, match=text):
        Pumps(TLS(paths["cert"], paths["key"], paths["ca"]))


def test_a_directory_is_no_certificate(certs: Certificates) -> None:
    with pytest.raises(CertificateError, match=r"cannot be read \(Is a directory\)"):
        Pumps(TLS(certs.directory, certs.tls("alice").key, certs.ca))


def test_the_key_of_somebody_else(certs: Certificates) -> None:
    alice, bob = certs.tls("alice"), certs.tls("bob")
    with pytest.raises(CertificateError, match=r"bob\.key is not the key of .*alice\.pem: give the pair"):
        Pumps(TLS(alice.cert, bob.key, alice.ca))


def test_a_key_with_a_passphrase_asks_nobody(certs: Certificates, tmp_path: Path) -> None:
    alice = certs.tls("alice")
    key = serialization.load_pem_private_key(alice.key.read_bytes(), password=None)
    locked = tmp_path / "locked.key"
    locked.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    with pytest.raises(CertificateError, match=r"locked\.key is locked with a passphrase: give the key without one"):
        Pumps(TLS(alice.cert, locked, alice.ca))


def test_a_weak_key_is_named(certs: Certificates) -> None:
    key = rsa.generate_private_key(65537, 1024)  # OpenSSL's default level wants 2048 bits
    with pytest.raises(CertificateError, match=r"weak\.pem cannot be used \(ee key too small\): make a new"):
        Pumps(certs.special("weak", (), key=key))


def test_a_key_that_tls_has_no_use_for_is_named(certs: Certificates) -> None:
    key = ec.generate_private_key(ec.SECP256K1())  # TLS 1.3 has no signatures of this curve
    with pytest.raises(CertificateError, match=r"our own certificate .*odd\.pem would be refused: .+ \(CA: "):
        Pumps(certs.special("odd", (), key=key))


# Certificates that a pump reads.


@pytest.mark.parametrize(
    "make",
    [
        lambda: ec.generate_private_key(ec.SECP256R1()),
        lambda: ec.generate_private_key(ec.SECP384R1()),
        ed25519.Ed25519PrivateKey.generate,
        lambda: rsa.generate_private_key(65537, 2048),
    ],
    ids=["P-256", "P-384", "Ed25519", "RSA-2048"],
)
def test_the_key_is_found_in_the_certificate(
    certs: Certificates, make: Callable[[], ec.EllipticCurvePrivateKey], request: pytest.FixtureRequest
) -> None:
    names = [x509.UniformResourceIdentifier(uri) for uri in (ID.urn, f"URN:UUID:{str(OTHER).upper()}", "urn:isbn:1")]
    tls = certs.special(f"key-{request.node.callspec.id}", names, key=make())
    expected = public_key(tls.cert)
    assert subject_public_key_info(load(tls.cert).public_bytes(serialization.Encoding.DER)) == expected
    assert Pumps(tls).identity == PeerIdentity(frozenset({ID, OTHER}), hashlib.sha256(expected).digest())


def element(tag: int, content: bytes) -> bytes:
    if len(content) < 0x80:
        return bytes((tag, len(content))) + content
    length = len(content).to_bytes((len(content).bit_length() + 7) // 8)
    return bytes((tag, 0x80 | len(length))) + length + content


contents = st.binary(max_size=300)


@given(version=st.booleans(), fields=st.lists(contents, min_size=5, max_size=5), key=contents, rest=contents)
def test_the_walk_to_the_key(version: bool, fields: list[bytes], key: bytes, rest: bytes) -> None:
    """A certificate of version 1 has no version field; lengths take one, two or three bytes."""
    expected = element(0x30, key)
    body = element(0xA0, b"\x02\x01\x02") if version else b""
    body += b"".join(element(0x30, field) for field in fields) + expected + rest
    certificate = element(0x30, element(0x30, body) + rest)
    assert subject_public_key_info(certificate) == expected
    for cut in range(len(certificate) - len(rest) - len(expected), len(certificate)):
        with pytest.raises((ValueError, IndexError)):
            subject_public_key_info(certificate[:cut])


@given(st.binary(max_size=100))
def test_what_is_no_certificate(data: bytes) -> None:
    try:
        found = subject_public_key_info(data)
    except (ValueError, IndexError):
        return
    assert found in data


def test_indefinite_lengths_are_no_der() -> None:
    with pytest.raises(ValueError, match="indefinite length"):
        subject_public_key_info(b"\x30\x80" + bytes(40))
