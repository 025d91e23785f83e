"""TLS that is not in files, on every adapter."""

from __future__ import annotations

import pytest
from tolliver._options.instance import TLS
from tolliver._tls.policy import client_context, server_context
from tolliver.certs import make_certificate

from tests.certificates import Certificates
from tolliver_proto import IdentityConflict
from tolliver_proto.errors import CertificateError
from tolliver_proto.reactive import ALPN

from .kinds import EACH_ADAPTER
from .nodes import Nodes
from .streams import Stage
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


@pytest.mark.parametrize(
    "error", [KeyError("x"), SystemExit(1), GeneratorExit()], ids=lambda error: type(error).__name__
)
def test_a_function_that_raises_leaves_the_old_certificate(
    nodes: Nodes, certs: Certificates, error: BaseException
) -> None:
    raised: list[BaseException] = []

    def load() -> tuple[bytes, bytes, bytes]:
        for one in raised:
            raise one
        return pem(certs.tls("right"))

    with nodes.pair(right={"tls": TLS.from_bytes(load)}) as (dialler, listener, inbox):
        raised.append(error)
        with pytest.raises(CertificateError, match=f"the function of TLS.from_bytes failed: {type(error).__name__}"):
            listener.reload_tls()
        dialler.send("news", "k", b"and it goes on")
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


def contexts(files: TLS) -> TLS:
    client, server = client_context(files, alpn=ALPN), server_context(files, alpn=ALPN)
    return TLS.from_contexts(client=client, server=server, cert=files.cert)


def test_streams_take_bytes_and_contexts(stage: Stage, certs: Certificates) -> None:
    left, right = certs.tls("left"), certs.tls("right")
    fetched: list[bool] = []

    def fetch() -> tuple[bytes, bytes, bytes]:
        fetched.append(True)
        return pem(right)

    for listening, dialling in (
        (TLS.from_bytes(fetch), contexts(left)),
        (contexts(right), TLS.from_bytes(*pem(left))),
    ):
        publisher, subscriber = stage.open(tls=listening), stage.open(tls=dialling, listen=None)
        publisher.publish("news", [b"1"])
        peer = subscriber.connect(publisher)
        assert list(peer.subscribe("news")) == [b"1"]
        assert certs.uuid("right") in peer.itself.identity.uuids
        assert certs.uuid("left") in publisher.peers()[0].itself.identity.uuids
    assert fetched == [True]


@EACH_ADAPTER
def test_streams_hold_contexts_to_the_policy(stage: Stage, certs: Certificates) -> None:
    files = certs.tls("right")
    of_messages = TLS.from_contexts(client=client_context(files), server=server_context(files), cert=files.cert)
    with pytest.raises(CertificateError, match=r"speak 'tolliver/1' by ALPN: .*contexts of their own \(R-35\)"):
        stage.open(tls=of_messages)
    server = server_context(files, alpn=ALPN)
    server.num_tickets = 2
    with pytest.raises(CertificateError, match=r"server\.num_tickets = 0"):
        stage.open(tls=TLS.from_contexts(client=client_context(files, alpn=ALPN), server=server, cert=files.cert))
    with pytest.raises(CertificateError, match="no certificate in PEM form"):
        stage.open(tls=TLS.from_bytes(b"", *pem(files)[1:]))
