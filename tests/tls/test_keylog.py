"""Key log: asked for in so many words, the owner's alone, and told (D-17)."""

from __future__ import annotations

import logging
import stat
from pathlib import Path

import attrs
import pytest
from tolliver._options.instance import TLS, Remote
from tolliver._tls.policy import Pumps, client_context, server_context

from tests.certificates import Certificates
from tests.tls.test_sources import contexts, pem
from tolliver_proto.errors import CertificateError

from .pumping import shake

SECRETS = {"CLIENT_TRAFFIC_SECRET_0", "SERVER_TRAFFIC_SECRET_0"}


def labels(path: Path) -> set[str]:
    return {line.split()[0] for line in path.read_text().splitlines() if not line.startswith("#")}


@pytest.mark.parametrize("given", ["files", "bytes", "contexts"])
def test_every_connection_leaves_its_secrets(certs: Certificates, tmp_path: Path, given: str) -> None:
    path = tmp_path / "keys.log"
    path.write_text("# of an earlier run\n")
    path.chmod(0o644)
    made = {
        "files": lambda: attrs.evolve(certs.tls("alice"), keylog=path),
        "bytes": lambda: TLS.from_bytes(*pem(certs, "alice"), keylog=path),
        "contexts": lambda: TLS.from_contexts(**contexts(certs, "alice"), keylog=path),
    }
    tls = made[given]()
    Pumps(tls)
    pumps = Pumps(tls)  # contexts are the same ones, and log keys already
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    before = len(path.read_text().splitlines())
    other = Pumps(certs.tls("bob"))
    for dialler, listener in (
        (pumps.client(Remote("localhost")), other.server()),
        (other.client(Remote("localhost")), pumps.server()),
    ):
        assert shake(dialler, listener) == (None, None)
    text = path.read_text()
    assert text.startswith("# of an earlier run\n")
    assert len(text.splitlines()) > before
    assert labels(path) >= SECRETS


def test_the_log_warns_once_for_each_file(
    certs: Certificates, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tls = attrs.evolve(certs.tls("alice"), keylog=tmp_path / "keys.log")
    with caplog.at_level(logging.WARNING, "tolliver"):
        Pumps(tls)
        Pumps.renewed(tls)
        Pumps(certs.tls("alice"))
    [record] = caplog.records
    assert f"TLS secrets go into {tmp_path / 'keys.log'}" in record.getMessage()


def test_nothing_is_logged_unless_it_is_asked_for(
    certs: Certificates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSLKEYLOGFILE", str(tmp_path / "keys.log"))
    for context in (client_context(certs.tls("alice")), server_context(certs.tls("alice"))):
        assert context.keylog_filename is None
    assert not [*tmp_path.iterdir()]


def test_a_key_log_that_cannot_be_written(certs: Certificates, tmp_path: Path) -> None:
    tls = attrs.evolve(certs.tls("alice"), keylog=tmp_path / "missing" / "keys.log")
    with pytest.raises(CertificateError, match=r"cannot be written as a key log \(No such file.*the option tls.keylog"):
        Pumps(tls)


def test_contexts_that_log_keys_unasked_are_refused(certs: Certificates, tmp_path: Path) -> None:
    made = contexts(certs, "alice")
    made["client"].keylog_filename = str(tmp_path / "other.log")
    for keylog in (None, tmp_path / "keys.log"):
        with pytest.raises(CertificateError, match=r"client\.keylog_filename = None, and keylog="):
            Pumps(TLS.from_contexts(**made, keylog=keylog))


def test_a_key_log_is_a_path() -> None:
    with pytest.raises(TypeError, match="a path must be a str"):
        TLS("a.pem", "a.key", "ca.pem", keylog=True)  # type: ignore[arg-type]
