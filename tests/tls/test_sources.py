"""TLS from bytes and from contexts of a program's own."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tolliver._options.instance import TLS, Remote
from tolliver._tls.policy import ALPN, Pumps, client_context, server_context

from tests.certificates import Certificates
from tolliver_proto.errors import CertificateError

from .pumping import shake

LOCALHOST = Remote("localhost")


def pem(certs: Certificates, name: str) -> tuple[bytes, bytes, bytes]:
    files = certs.tls(name)
    return files.cert.read_bytes(), files.key.read_bytes(), files.ca.read_bytes()


def contexts(certs: Certificates, name: str, **more: Any) -> dict[str, Any]:
    """As a program would make them that keeps to the policy."""
    files = certs.tls(name)
    return {"client": client_context(files), "server": server_context(files), "cert": files.cert.read_bytes(), **more}


def meets(certs: Certificates, tls: TLS) -> None:
    """In both roles, with one whose TLS is in files."""
    ours, theirs = Pumps(tls), Pumps(certs.tls("bob"))
    for dialler, listener in ((ours.client(LOCALHOST), theirs.server()), (theirs.client(LOCALHOST), ours.server())):
        assert shake(dialler, listener) == (None, None)
    assert ours.identity == Pumps(certs.tls("alice")).identity


@pytest.mark.parametrize("form", ["bytes", "function"])
def test_bytes_are_as_good_as_files(certs: Certificates, form: str) -> None:
    given = pem(certs, "alice")
    meets(certs, TLS.from_bytes(*given) if form == "bytes" else TLS.from_bytes(lambda: given))


@pytest.mark.parametrize("missing", ["memfd_create", "/proc"])
def test_without_files_in_memory_nothing_is_left(
    certs: Certificates, missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    unlink = os.unlink

    def watched(path: str) -> None:
        made.append(os.stat(path).st_mode & 0o777)
        unlink(path)

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(os, "unlink", watched)
    if missing == "memfd_create":
        monkeypatch.delattr(os, "memfd_create", raising=False)
    else:
        monkeypatch.setattr(os.path, "exists", lambda _path: False)
    meets(certs, TLS.from_bytes(*pem(certs, "alice")))
    assert [*tmp_path.iterdir()] == []
    assert {*made} == {0o600}


def test_no_key_is_shown(certs: Certificates) -> None:
    tls = TLS.from_bytes(*pem(certs, "alice"))
    assert "PRIVATE" not in repr(tls)
    assert tls == TLS.from_bytes(*pem(certs, "alice"))
    with pytest.raises(TypeError) as refused:
        TLS.from_bytes(b"", "PRIVATE", b"")  # type: ignore[call-overload]
    assert "key is str: give PEM as bytes" in str(refused.value)
    assert "PRIVATE" not in str(refused.value)


def test_bytes_that_do_not_fit(certs: Certificates) -> None:
    cert, key, ca = pem(certs, "alice")
    other = pem(certs, "bob")[1]

    def fails() -> tuple[bytes, bytes, bytes]:
        raise OSError("the store is away")

    short: Any = lambda: (cert, key)  # noqa: E731
    for tls, text in (
        (TLS.from_bytes(b"x", key, ca), "the cert given as bytes holds no certificate"),
        (TLS.from_bytes(cert, b"x", ca), "the key given as bytes holds no private key"),
        (TLS.from_bytes(cert, other, ca), "the key given as bytes is not the key of the cert given as bytes"),
        (TLS.from_bytes(cert, key, pem(certs, "stranger")[2]), "our own certificate the cert given as bytes would be"),
        (TLS.from_bytes(fails), "the function of TLS.from_bytes failed: OSError: the store is away"),
        (TLS.from_bytes(short), r"has to return \(cert, key, ca\)"),
    ):
        with pytest.raises(CertificateError, match=text):
            Pumps(tls)
    with pytest.raises(TypeError, match="a function gives all three"):
        TLS.from_bytes(fails, key)  # type: ignore[call-overload]


def test_only_a_function_of_bytes_is_read_again(certs: Certificates) -> None:
    given = [pem(certs, "alice")]
    tls = TLS.from_bytes(lambda: given[-1])
    first = Pumps(tls).identity
    given.append(pem(certs, "bob"))
    assert Pumps.renewed(tls).identity != first
    with pytest.raises(CertificateError, match="give a function that returns new ones"):
        Pumps.renewed(TLS.from_bytes(*given[0]))


@pytest.mark.parametrize("pinned", [False, True])
@pytest.mark.parametrize("form", ["bytes", "path", "function"])
def test_contexts_of_ones_own(certs: Certificates, form: str, pinned: bool) -> None:
    files = certs.tls("alice")
    given: Any = {"bytes": files.cert.read_bytes(), "path": files.cert, "function": files.cert.read_bytes}[form]
    more = {"pinned": client_context(files, check_hostname=False)} if pinned else {}
    meets(certs, TLS.from_contexts(**contexts(certs, "alice", cert=given, **more)))


def test_a_pinned_remote_is_dialled_by_the_pinned_context(certs: Certificates) -> None:
    """Its name is in no certificate: without such a context it is checked all the same."""
    remote, listening = Remote("elsewhere.example", identity=certs.uuid("bob")), Pumps(certs.tls("bob"))
    without = Pumps(TLS.from_contexts(**contexts(certs, "alice")))
    pinned = client_context(certs.tls("alice"), check_hostname=False)
    with_one = Pumps(TLS.from_contexts(**contexts(certs, "alice", pinned=pinned)))
    assert shake(with_one.client(remote), listening.server()) == (None, None)
    assert isinstance(shake(without.client(remote), listening.server())[0], CertificateError)


def _options_without(option: ssl.Options) -> Callable[[ssl.SSLContext], None]:
    def change(context: ssl.SSLContext) -> None:
        context.options &= ~option

    return change


def _set(name: str, value: object) -> Callable[[ssl.SSLContext], None]:
    return lambda context: setattr(context, name, value)


def _unchecked(context: ssl.SSLContext) -> None:
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE


BREACHES: list[tuple[str, Callable[[ssl.SSLContext], None], str]] = [
    ("client", _set("minimum_version", ssl.TLSVersion.TLSv1_2), "client.minimum_version = ssl.TLSVersion.TLSv1_3"),
    ("server", _set("minimum_version", ssl.TLSVersion.TLSv1_2), "server.minimum_version = ssl.TLSVersion.TLSv1_3"),
    ("client", _unchecked, "client.verify_mode = ssl.CERT_REQUIRED"),
    ("server", _set("verify_mode", ssl.CERT_OPTIONAL), "server.verify_mode = ssl.CERT_REQUIRED"),
    ("client", _set("check_hostname", False), "client.check_hostname = True"),
    ("client", _set("hostname_checks_common_name", True), "client.hostname_checks_common_name = False"),
    ("pinned", _set("check_hostname", True), "pinned.check_hostname = False"),
    ("server", _set("num_tickets", 2), "server.num_tickets = 0"),
    ("client", _options_without(ssl.OP_NO_TICKET), r"client.options \|= ssl.OP_NO_TICKET"),
    ("server", _options_without(ssl.OP_NO_RENEGOTIATION), r"server.options \|= ssl.OP_NO_RENEGOTIATION"),
    ("server", _options_without(ssl.OP_NO_COMPRESSION), r"server.options \|= ssl.OP_NO_COMPRESSION"),
    ("client", _set("maximum_version", ssl.TLSVersion.TLSv1_2), "client.maximum_version = ssl.TLSVersion.MAXIMUM"),
    ("server", lambda context: context.set_alpn_protocols(["h2"]), ""),
]


@pytest.mark.parametrize(("name", "change", "text"), BREACHES)
def test_each_breach_of_the_policy_is_told(
    certs: Certificates, name: str, change: Callable[[ssl.SSLContext], None], text: str
) -> None:
    made = contexts(certs, "alice", pinned=client_context(certs.tls("alice"), check_hostname=False))
    change(made[name])
    if text:
        with pytest.raises(CertificateError, match=f"weaker than our own: set .*{text}"):
            Pumps(TLS.from_contexts(**made))
    else:  # they agree on no name, so ours is set
        assert shake(*_both(Pumps(TLS.from_contexts(**made)))) == (None, None)


def _both(pumps: Pumps) -> tuple[Any, Any]:
    dialler, listener = pumps.client(LOCALHOST), pumps.server()
    return dialler, listener


def test_contexts_that_python_makes_are_told_all_that_they_lack(certs: Certificates) -> None:
    made = contexts(
        certs,
        "alice",
        client=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
        server=ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER),
    )
    with pytest.raises(CertificateError) as refused:
        Pumps(TLS.from_contexts(**made))
    for text in ("server.verify_mode", "server.num_tickets", "client.options |=", "load_verify_locations"):
        assert text in str(refused.value)
    with pytest.raises(CertificateError, match=r"client = ssl.SSLContext\(ssl.PROTOCOL_TLS_CLIENT\)"):
        Pumps(TLS.from_contexts(**{**made, "client": made["server"]}))
    with pytest.raises(TypeError, match=r"client is 1: give an ssl.SSLContext"):
        TLS.from_contexts(**{**made, "client": 1})


def test_a_common_application_protocol_is_ours(certs: Certificates) -> None:
    made = contexts(certs, "alice")
    tls = TLS.from_contexts(**made)
    made["server"].set_alpn_protocols([])
    dialler, listener = _both(Pumps(tls))
    assert shake(dialler, listener) == (None, None)
    assert dialler.application_protocol in (None, ALPN)
    for context in (made["client"], made["server"]):
        context.set_alpn_protocols(["h2"])
    with pytest.raises(CertificateError, match="speak 'h2' by ALPN"):
        Pumps(tls)


def test_contexts_show_the_certificate_that_was_given(certs: Certificates) -> None:
    bob = certs.tls("bob")
    with pytest.raises(CertificateError, match="shows another certificate than cert"):
        Pumps(TLS.from_contexts(**contexts(certs, "alice", cert=bob.cert)))
    with pytest.raises(CertificateError, match="holds no certificate"):
        Pumps(TLS.from_contexts(**contexts(certs, "alice", cert=bob.key)))
    with pytest.raises(CertificateError, match="show different certificates"):
        Pumps(TLS.from_contexts(**contexts(certs, "alice", client=client_context(bob))))
    with pytest.raises(CertificateError, match=r"would be refused.*expired"):
        Pumps(TLS.from_contexts(**contexts(certs, "expired")))
