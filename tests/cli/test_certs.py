"""`tolliver certs`: files, modes, identities, and nothing ever overwritten."""

from __future__ import annotations

import ipaddress
import json
import stat
from pathlib import Path
from uuid import UUID

import pytest
from cryptography import x509
from tolliver._options.instance import TLS
from tolliver._tls.policy import Pumps

from tests.cli.commands import on_a_read_only_disk, tolliver
from tests.wire.vectors import ONE
from tolliver_proto.store import VALUES

SECRET = {"ca.key", "alice.key", "bob.key"}


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def alternative_names(path: Path) -> x509.SubjectAlternativeName:
    certificate = x509.load_pem_x509_certificate(path.read_bytes())
    return certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value


def test_a_ca_and_a_certificate_for_each_name(tmp_path: Path) -> None:
    directory = tmp_path / "new" / "certificates"
    result = tolliver("certs", directory, "alice", "bob")
    assert result.exit_code == 0, result.stderr
    assert set(contents(directory)) == SECRET | {"ca.pem", "alice.pem", "bob.pem"}
    for path in directory.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == (0o600 if path.name in SECRET else 0o644)
    for name in ("alice", "bob"):
        tls = TLS(directory / f"{name}.pem", directory / f"{name}.key", directory / "ca.pem")
        (uuid,) = Pumps(tls).identity.uuids
        (row,) = (line for line in result.stdout.splitlines() if line.startswith(name))
        assert str(uuid) in row


def test_a_second_call_adds_a_member_to_the_same_ca(tmp_path: Path) -> None:
    tolliver("certs", tmp_path, "alice")
    before = contents(tmp_path)
    assert tolliver("certs", tmp_path, "bob").exit_code == 0
    assert contents(tmp_path).items() > before.items()


def test_identities_may_be_derived_from_it(tmp_path: Path) -> None:
    result = tolliver("certs", tmp_path, "job", "other", "--derive")
    assert result.exit_code == 0, result.stderr
    for name in ("job", "other"):
        tls = TLS(tmp_path / f"{name}.pem", tmp_path / f"{name}.key", tmp_path / "ca.pem")
        (prefix,) = Pumps(tls).identity.prefixes
        assert f"{name} may be any identity of the prefix {prefix}" in result.stderr
    assert tolliver("certs", tmp_path, "plain").exit_code == 0
    assert Pumps(TLS(tmp_path / "plain.pem", tmp_path / "plain.key", tmp_path / "ca.pem")).identity.prefixes == set()


def test_a_tool_that_plays_several_peers_has_no_uuid(tmp_path: Path) -> None:
    made = tolliver("certs", tmp_path, "kit", "--no-uuid", "--json")
    assert made.exit_code == 0
    assert json.loads(made.stdout)["uuid"] is None
    certificate = x509.load_pem_x509_certificate((tmp_path / "kit.pem").read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.UniformResourceIdentifier) == []
    assert tolliver("certs", tmp_path, "other", "--no-uuid", "--derive").exit_code != 0


def test_of_several_names_those_that_exist_stay(tmp_path: Path) -> None:
    tolliver("certs", tmp_path, "alice")
    before = contents(tmp_path)
    result = tolliver("certs", tmp_path, "alice", "bob", "--json")
    assert result.exit_code == 0
    assert result.stderr.startswith("tolliver: alice is there already, and stays as it is: ")
    assert [json.loads(line)["name"] for line in result.stdout.splitlines()] == ["bob"]
    assert contents(tmp_path).items() >= before.items()


@pytest.mark.parametrize(
    "uuid", ["00000000-0000-0000-0000-000000000000", "efffffff-ffff-8000-8000-000000000001", str(VALUES)]
)
def test_a_uuid_that_is_nobodys_is_refused(tmp_path: Path, uuid: str) -> None:
    result = tolliver("certs", tmp_path, "alice", "--uuid", uuid)
    assert result.exit_code != 0
    assert f"{uuid} can be no instance's, every peer refuses it" in result.stderr
    assert not (tmp_path / "alice.pem").exists()


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    tolliver("certs", tmp_path, "alice")
    before = contents(tmp_path)
    result = tolliver("certs", tmp_path, "alice")
    assert result.exit_code == 1
    assert result.stderr.startswith(f"tolliver: {tmp_path / 'alice.key'}: File exists: nothing is overwritten")
    assert len(result.stderr.splitlines()) == 1
    assert contents(tmp_path) == before


def test_a_read_only_disk_is_told_with_the_file_and_what_to_do(tmp_path: Path) -> None:
    tolliver("certs", tmp_path, "alice")
    before = contents(tmp_path)
    for arguments, file in (
        (("certs", tmp_path, "bob"), tmp_path / "bob.key"),
        (("init", tmp_path / "demo"), tmp_path / "demo"),
    ):
        result = on_a_read_only_disk(tmp_path, *arguments)
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr.startswith(
            f"tolliver: {file}: Read-only file system: nothing can be written there, choose"
        )
    assert contents(tmp_path) == before


def test_what_was_made_before_a_refusal_is_shown(tmp_path: Path) -> None:
    tolliver("certs", tmp_path, "alice")
    (tmp_path / "alice.pem").unlink()
    result = tolliver("certs", tmp_path, "bob", "alice")
    assert result.exit_code == 1
    assert "bob.key" in result.stdout


def test_half_of_a_ca_is_not_made_whole(tmp_path: Path) -> None:
    tolliver("certs", tmp_path, "alice")
    (tmp_path / "ca.key").unlink()
    before = contents(tmp_path)
    result = tolliver("certs", tmp_path, "bob")
    assert result.exit_code == 1
    assert "ca.key is missing" in result.stderr
    assert contents(tmp_path) == before


def test_uuid_and_hosts_are_what_was_asked_for(tmp_path: Path) -> None:
    result = tolliver("certs", tmp_path, "alice", "--uuid", ONE, "--host", "a.example", "--host", "10.0.0.7")
    assert result.exit_code == 0
    names = alternative_names(tmp_path / "alice.pem")
    assert names.get_values_for_type(x509.UniformResourceIdentifier) == [ONE.urn]
    assert names.get_values_for_type(x509.DNSName) == ["a.example"]
    assert names.get_values_for_type(x509.IPAddress) == [ipaddress.ip_address("10.0.0.7")]


@pytest.mark.parametrize("arguments", [("alice", "bob", "--uuid", UUID(int=5)), ("../alice",), ("ca",)])
def test_what_cannot_work_is_refused(tmp_path: Path, arguments: tuple[object, ...]) -> None:
    result = tolliver("certs", tmp_path, *arguments)
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1].startswith("tolliver: ")
    assert not list(tmp_path.glob("*alice*"))


def test_what_to_pin(tmp_path: Path) -> None:
    tolliver("certs", tmp_path, "alice", "--uuid", ONE)
    result = tolliver("pin", tmp_path / "alice.pem")
    assert result.exit_code == 0, result.stderr
    tls = TLS(tmp_path / "alice.pem", tmp_path / "alice.key", tmp_path / "ca.pem")
    digest = Pumps(tls).identity.spki_sha256
    assert digest is not None
    assert result.stdout == f"{tls.cert}  {digest.hex()}  {ONE}\n"
    assert "alice.key" in tolliver("pin", tmp_path / "alice.key").stderr


def test_a_certificate_is_revoked_and_the_list_is_signed_anew(tmp_path: Path) -> None:
    directory = tmp_path / "certs"
    assert tolliver("certs", directory, "alice", "bob").exit_code == 0
    result = tolliver("revoke", directory, directory / "bob.pem", "--json")
    crl = directory / "crl.pem"
    assert json.loads(result.stdout) == {"crl": str(crl)}
    assert tolliver("revoke", directory, "--days", 7).exit_code == 0
    (entry,) = x509.load_pem_x509_crl(crl.read_bytes())
    bob = x509.load_pem_x509_certificate((directory / "bob.pem").read_bytes())
    assert entry.serial_number == bob.serial_number
    result = tolliver("revoke", directory, directory / "ca.key")
    assert (result.exit_code, "cannot be read as a certificate" in result.stderr) == (1, True)
