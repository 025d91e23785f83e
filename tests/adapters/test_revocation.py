"""Peers that are revoked while they are connected, on every adapter."""

from __future__ import annotations

import time
from pathlib import Path

import attrs
import pytest
from tolliver._options.instance import TLS
from tolliver.certs import Member, make_ca, make_certificate, revoke

from tolliver_proto import NoticeKind, TolliverError
from tolliver_proto.errors import CertificateError
from tolliver_proto.node import DialCause

from .facade import until
from .nodes import Nodes, address, connected, error_of, noticed
from .streams import Stage


@pytest.fixture
def members(tmp_path: Path) -> dict[str, Member]:
    """Of a CA that has a list."""
    club = tmp_path / "club"
    make_ca(club)
    revoke(club)
    return {name: make_certificate(club, name) for name in ("left", "right", "third")}


def watching(member: Member) -> TLS:
    return attrs.evolve(member.tls(), crl=member.ca.with_name("crl.pem"))


def test_a_peer_that_is_listed_is_closed_out(nodes: Nodes, members: dict[str, Member]) -> None:
    """Those that dialled, and those that were dialled; others stay. A list that cannot be used changes nothing."""
    left, right, third = (members[name] for name in ("left", "right", "third"))
    crl = left.ca.with_name("crl.pem")
    with (
        nodes.open("third", tls=watching(third)) as dialled,
        nodes.open("right", tls=watching(right)) as middle,
        nodes.open("left", tls=left.tls()) as dialler,
    ):
        dialler.new_connection(address(middle))
        middle.new_connection(address(dialled))
        until(lambda: connected(middle) == 2)

        good = crl.read_bytes()
        crl.write_bytes(b"nothing")
        with pytest.raises(CertificateError, match="holds no certificate revocation list"):
            middle.reload_tls()
        crl.write_bytes(good)
        middle.reload_tls()
        assert connected(middle) == 2
        assert middle.status().gauges["crl_next_update"] > time.time()

        revoke(crl.parent, [left.cert])
        middle.reload_tls()
        until(lambda: connected(middle) == 1)
        (said,) = noticed(middle, NoticeKind.CERTIFICATE_REFUSED)[:1]
        assert "127.0.0.1" in said
        assert "was closed: we refuse the certificate" in said
        assert "certificate revoked" in said
        until(lambda: dialler.remotes()[0].cause is DialCause.CERTIFICATE)  # which dialled again
        assert "refuses our certificate: certificate revoked" in str(error_of(dialler, address(middle)))

        revoke(crl.parent, [third.cert])
        middle.reload_tls()
        until(lambda: connected(middle) == 0)
        assert isinstance(error_of(middle, address(dialled)), CertificateError)
        (remote,) = middle.remotes()
        assert remote.cause is DialCause.CERTIFICATE
        assert "certificate revoked" in noticed(middle, NoticeKind.DIAL_FAILED)[0]
        crl.write_bytes(good)
        middle.reload_tls()  # a mistake in the list is mended: those that are dialled come back at once (T-73)
        until(lambda: connected(middle) == 1)


def test_streams_of_a_peer_that_is_listed_end(stage: Stage, members: dict[str, Member]) -> None:
    left, right = members["left"], members["right"]
    publisher, subscriber = stage.open(tls=watching(right)), stage.open(tls=left.tls(), listen=None)
    publisher.publish("news", [b"1"])
    assert list(subscriber.connect(publisher).subscribe("news")) == [b"1"]
    publisher.reload_tls()
    assert len(publisher.peers()) == 1
    revoke(left.ca.parent, [left.cert])
    publisher.reload_tls()
    until(lambda: not publisher.peers())
    until(lambda: not subscriber.peers())
    with pytest.raises(TolliverError, match="certificate revoked"):
        subscriber.connect(publisher)
