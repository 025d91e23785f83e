"""TLS that is not in files, on every adapter."""

from __future__ import annotations

import pytest
from tolliver_transports._options.instance import TLS
from tolliver_transports._tls.policy import client_context, server_context
from tolliver_transports.certs import make_certificate

from tests.certificates import Certificates
from tolliver_proto import CertificateError, IdentityConflict

from .nodes import Nodes
from .test_renewal import shown


def pem(files: TLS) -> tuple[bytes, bytes, bytes]:
    return files.cert.read_bytes(), files.key.read_bytes(), files.ca.read_bytes()


def test_bytes_are_fetched_again(nodes: Nodes, certs: Certificates) -> None:
    renewed = make_certificate(certs.directory, f"{nodes.directory.name}-renewed", uuid=certs.uuid("right"))
    given = [pem(certs.tls("right"))]
    right, left = TLS.from_bytes(lambda: given[-1]), TLS.from_bytes(*pem(certs.tls("left")))
    with nodes.pair(left={"tls": left}, right={"tls": right}) as (dialler, listener, inbox):
        first = shown(listener)
        given.append(pem(certs.tls("left")))
        with pytest.raises(IdentityConflict, match=r"the certificate given as bytes says .* renew it with the same"):
            listener.reload_tls()
        given.append(pem(TLS(renewed.cert, renewed.key, renewed.ca)))
        listener.reload_tls()
        assert shown(listener) not in (first, b"")
        with pytest.raises(CertificateError, match="give a function that returns new ones"):
            dialler.reload_tls()
        dialler.send("news", "k", b"on the connection that there was")
        inbox.holds(1)


def test_contexts_are_checked_again(nodes: Nodes, certs: Certificates) -> None:
    files = certs.tls("right")
    client, server = client_context(files), server_context(files)
    with nodes.pair(right={"tls": TLS.from_contexts(client=client, server=server, cert=files.cert)}) as (
        left,
        right,
        inbox,
    ):
        left.send("news", "k", b"over contexts of its own")
        inbox.holds(1)
        right.reload_tls()
        server.num_tickets = 2
        with pytest.raises(CertificateError, match=r"server\.num_tickets = 0"):
            right.reload_tls()
