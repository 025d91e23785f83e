"""Certificates that are renewed while an instance runs."""

from __future__ import annotations

import shutil
import socket
import ssl
from pathlib import Path

import pytest
from tolliver._options.instance import TLS
from tolliver.certs import Member, make_certificate

from tests.certificates import Certificates
from tolliver_proto import IdentityConflict
from tolliver_proto.errors import CertificateError

from .facade import Facade
from .nodes import Nodes


def shown(node: Facade) -> bytes:
    """The certificate that the node shows to whoever dials it now."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", node.port or 0)) as sock, context.wrap_socket(sock) as tls:
        return tls.getpeercert(binary_form=True) or b""


def test_a_renewed_certificate_is_shown_from_now_on(nodes: Nodes, certs: Certificates) -> None:
    def member(name: str, like: str | None = None) -> Member:
        uuid = None if like is None else certs.uuid(like)
        return make_certificate(certs.directory, f"{nodes.directory.name}-{name}", uuid=uuid)

    def put(made: Member, key: Path | None = None) -> None:
        shutil.copyfile(made.cert, tls.cert)
        shutil.copyfile(key or made.key, tls.key)

    certs.tls("right")
    old, new, other = member("old", "right"), member("new", "right"), member("other")
    tls = TLS(nodes.directory / "mine.pem", nodes.directory / "mine.key", certs.ca)
    put(old)
    with nodes.pair(right={"tls": tls}) as (left, right, inbox):
        first = shown(right)
        put(new, key=old.key)
        with pytest.raises(CertificateError, match="is not the key of"):
            right.reload_tls()
        put(other)
        with pytest.raises(IdentityConflict, match="renew it with the same UUID"):
            right.reload_tls()
        assert shown(right) == first
        put(new)
        right.reload_tls()
        assert shown(right) not in (first, b"")
        left.send("news", "k", b"on the connection that there was")
        inbox.holds(1)
        assert left.stats()["connections"] == 1
