"""Derived identities: their UUIDs, and the certificates that they come under (T-72a)."""

from __future__ import annotations

import hashlib
from pathlib import Path
from uuid import RFC_4122, UUID

import pytest
from cryptography import x509
from hypothesis import given
from hypothesis import strategies as st
from tolliver._tls.policy import Pumps
from tolliver.certs import make_ca, make_certificate
from tolliver.derived import derived_identity, new_prefix

from tests.certificates import PREFIX, Certificates
from tests.tls.pumping import client, server, shake
from tolliver_proto import PeerIdentity
from tolliver_proto.errors import CertificateError
from tolliver_proto.node import is_derived

PREFIXES = st.integers(0xF00000000000, 0xFFFFFFFFFFFF).map(lambda number: f"{number:012x}")


@given(PREFIXES, st.text())
def test_prefix_version_variant_and_hash(prefix: str, label: str) -> None:
    uuid = derived_identity(prefix, label)
    assert uuid == derived_identity(prefix.upper(), label)
    assert uuid.hex[:12] == prefix
    assert (uuid.version, uuid.variant) == (8, RFC_4122)
    assert is_derived(uuid)
    digest = int.from_bytes(hashlib.sha256(label.encode()).digest())
    assert (uuid.int >> 64) & 0xFFF == digest >> 244
    assert uuid.int & (2**62 - 1) == digest & (2**62 - 1)


def test_one_that_others_can_compare_with() -> None:
    assert derived_identity(PREFIX, "query/7/3") == UUID("f00dbabe-0001-88a4-95a9-24c677cc9ae8")


def test_labels_make_different_ones() -> None:
    assert (
        len({derived_identity(PREFIX, f"query/{batch}/{part}") for batch in range(100) for part in range(100)}) == 10**4
    )


@pytest.mark.parametrize("prefix", ["", "f", "e" * 12, "0" * 12, "f" * 11, "f" * 13, "f0000000000g", "f00000000000\n"])
def test_what_is_no_prefix(prefix: str, tmp_path: Path) -> None:
    make_ca(tmp_path)
    with pytest.raises(ValueError, match="is no derive prefix: give 12 hex digits from f00000000000 on"):
        derived_identity(prefix, "job")
    with pytest.raises(ValueError, match="is no derive prefix"):
        make_certificate(tmp_path, "job", derive=prefix)
    assert not (tmp_path / "job.key").exists()


def test_new_prefixes_are_good_ones() -> None:
    made = {new_prefix() for _ in range(100)}
    assert len(made) == 100
    assert all(is_derived(derived_identity(prefix, "")) for prefix in made)


# In certificates.


def test_a_certificate_carries_its_prefix_beside_its_uuid(tmp_path: Path) -> None:
    make_ca(tmp_path)
    member = make_certificate(tmp_path, "job", derive=PREFIX.upper())
    cert = x509.load_pem_x509_certificate(member.cert.read_bytes())
    names = cert.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    uris = names.get_values_for_type(x509.UniformResourceIdentifier)
    assert uris == [f"urn:uuid:{member.uuid}", f"urn:tolliver:derive:{PREFIX}"]
    assert member.derive == PREFIX
    seen = Pumps(member.tls()).identity
    assert (seen.uuids, seen.prefixes) == (frozenset({member.uuid}), frozenset({PREFIX}))


def test_a_derived_identity_is_not_certified_by_itself(tmp_path: Path) -> None:
    make_ca(tmp_path)
    with pytest.raises(ValueError, match=f"is a derived identity: give the certificate its prefix, derive=.{PREFIX}"):
        make_certificate(tmp_path, "job", derived_identity(PREFIX, "job"))


def test_the_peer_sees_the_prefix(certs: Certificates) -> None:
    ours, theirs = client(certs.tls("writers")), server(certs.tls("alice"))
    assert shake(ours, theirs) == (None, None)
    seen = theirs.identity("address")
    assert (seen.uuids, seen.prefixes, seen.address) == (frozenset(), frozenset({PREFIX}), "address")
    assert seen.may_be(derived_identity(PREFIX, "any"))
    assert ours.identity("").prefixes == frozenset()


def test_a_prefix_that_begins_other_uuids_is_refused(certs: Certificates) -> None:
    with pytest.raises(CertificateError, match=r"low\.pem would be refused: 'e00dbabe0001' is no derive prefix"):
        Pumps(certs.tls("low"))


def test_in_words() -> None:
    both = PeerIdentity(frozenset({UUID(int=2), UUID(int=1)}), None, "", frozenset({PREFIX}))
    assert both.names == f"{UUID(int=1)}, {UUID(int=2)}, the derive prefix {PREFIX}"
