"""Checks for the fuzzers of certificates and of access rules.

A certificate is read before anybody is trusted, so any bytes are refused with a CertificateError, or understood as
`cryptography` understands them. A file of rules is its owner's, and any mistake in it is named.
"""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from uuid import UUID

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_der_public_key
from tolliver._tls.x509 import identity_of, subject_public_key_info
from tolliver.blocking import load_acl

from tolliver_proto import Rights
from tolliver_proto.errors import CertificateError
from tolliver_proto.node import is_derive_prefix

from .bodies import Reader, bounded

_LONGEST_COMPLAINT = 600  # characters: names are cut (D-14)
STRANGER = UUID("01890000-0000-7000-8000-00000000000f")
CERTIFICATE = bytes.fromhex(
    "3082022e308201d3a00302010202145b45ee8aec3bfaa286dc38afa5d0e3f7d68a9ef9300a06082a8648ce3d040302301f31"
    "1d301b06035504030c14746f6c6c69766572204341206438663130656163301e170d3236313132323030343732355a170d32"
    "37313132323031343732355a300c310a300806035504030c01613059301306072a8648ce3d020106082a8648ce3d03010703"
    "4200048d1edc95979e80ef5d82b03c11bc6668c295b7d83ea6452d90bf322618f27824752a2d26034dca1b92cadff6b13580"
    "f5d75f6490d92b3573a6b35bdf1bca8beda381ff3081fc301d0603551d0e04160414c74f97ee39d09b9876882f830284bd11"
    "b0673007307d0603551d1104763074862d75726e3a757569643a30313839303030302d303030302d373030302d383030302d"
    "303030303030303030303031862075726e3a746f6c6c697665723a6465726976653a66303064626162653030303182096c6f"
    "63616c686f737487047f000001871000000000000000000000000000000001300c0603551d130101ff04023000300e060355"
    "1d0f0101ff040403020780301d0603551d250416301406082b0601050507030106082b06010505070302301f0603551d2304"
    "183016801450dcc56426a67f4c1eb3d062e2b605862851b8cb300a06082a8648ce3d0403020349003046022100f679794341"
    "81cf5de8433381199fced41717175cb2112d9751318363e1785b710221009891effaff71e9378e05880440a0d0184e5a200f"
    "53af00a05354411bcbf5d22b"
)
"""Of a CA of `tolliver certs` that is gone: an EC key, a UUID and a derive prefix among its names."""


# Certificates.


def certificate(data: bytes, *, watch_memory: bool = False) -> None:
    """A number of names, each with its length before it, then the certificate."""
    reader = Reader(data)
    names = [reader.bytes(reader.byte() % 64).decode("latin-1") for _ in range(reader.byte() % 4)]
    der = reader.bytes(len(data))
    try:
        with bounded(len(data), watch_memory):
            identity = identity_of(der, names, "192.0.2.1")
    except CertificateError:
        identity = None
    if identity is not None:
        assert all(f"urn:uuid:{uuid}" in map(str.lower, names) for uuid in identity.uuids)
        assert all(is_derive_prefix(prefix) for prefix in identity.prefixes)
        assert subject_public_key_info(der) in der
    theirs = _public_key(der)
    if theirs is not None and not names:
        assert identity is not None, "a certificate that cryptography understands"
        assert load_der_public_key(subject_public_key_info(der)) == theirs, "another key than cryptography's"


def _public_key(der: bytes) -> object:
    try:
        return x509.load_der_x509_certificate(der).public_key()
    except (ValueError, UnsupportedAlgorithm, x509.InvalidVersion):
        return None


def certificate_seeds() -> list[bytes]:
    """The certificate with names that are good, strange, wrong and many; cut, and changed in each of its lengths."""
    names = (
        b"urn:uuid:01890000-0000-7000-8000-000000000001",
        b"urn:uuid:nonsense",
        b"urn:tolliver:derive:f00dbabe0001",
    )
    named = [bytes([1, len(name)]) + name + CERTIFICATE for name in (*names, b"https://example.org", b"URN:UUID:1")]
    several = b"\x03" + b"".join(bytes([len(name)]) + name for name in names) + CERTIFICATE
    lengths = [at for at, byte in enumerate(CERTIFICATE[:-1]) if byte in (0x30, 0x31, 0xA0, 0x02, 0x03, 0x06)][:40]
    changed = [
        CERTIFICATE[: at + 1] + byte + CERTIFICATE[at + 2 :] for at in lengths for byte in (b"\x80", b"\xff", b"\0")
    ]
    cut = [CERTIFICATE[:size] for size in range(0, len(CERTIFICATE), 31)]
    return [b"\0" + one for one in (CERTIFICATE, *changed, *cut)] + [*named, several]


# Access rules.


def rules(data: bytes, *, watch_memory: bool = False) -> None:
    """Any bytes as a file of rules: understood, or refused by a ValueError that names the file."""
    path = _folder() / "acl.toml"
    path.write_bytes(data)
    try:
        with bounded(64 * len(data), watch_memory):
            acl = load_acl(path)
    except ValueError as error:
        text = str(error)
        assert text.startswith(f"access rules in {path}: ")
        assert len(text) < _LONGEST_COMPLAINT, "a complaint of the file's length"
        return
    assert acl.rights(STRANGER) == acl.default or STRANGER in acl.peers
    assert acl.default in (Rights(), Rights.none())
    for rights in (*acl.peers.values(), *acl.derived.values()):
        rights.may_publish("channel", "key")


@cache
def _folder() -> Path:
    folder = tempfile.TemporaryDirectory(prefix="fuzz")
    _kept.append(folder)
    return Path(folder.name)


_kept: list[tempfile.TemporaryDirectory[str]] = []  # removed when the process ends


def rules_seeds() -> list[bytes]:
    """Files as people write them, and as they should not."""
    peer = '[peers."01890000-0000-7000-8000-000000000001"]\n'
    entries = (
        'subscribe = [["readings", "*"], ["alarms", "kitchen"]]',
        'publish = [["*", "*"]]',
        "connect = true",
        "connect = 1",
        "publish = 3",
        'publish = [["a"]]',
        'subscribe = [["a", 1]]',
        'subscribe = "all"',
        "nothing = 0",
        "subscribe = [" * 60,
    )
    files = [
        *(f'default = "{default}"\n' for default in ("deny", "allow", "maybe")),
        *(f'default = "deny"\n{peer}{entry}\n' for entry in entries),
        *(f'default = "deny"\n[derived.{prefix}]\n{entries[1]}\n' for prefix in ("f00dbabe0001", "00", '"é"')),
        f'default = "deny"\n{peer}{peer.upper()}',
        'default = "deny"\npeers = 3',
        'default = "deny"\n[peers]\nnobody = 1',
        "default = 1979-05-27",
    ]
    return [file.encode() for file in files] + [b"\xff\xfe", b'default = "deny"\n' + b"a.b.c." * 20]
