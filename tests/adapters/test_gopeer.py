"""Instances with a Go peer of the drafts' era, both roles (V22).

The double is in `gopeer`, and `test_gopeer_double` shows that it has the defects. 1860a51 learns subscriptions from
messages alone (G1); 499b76d dies of such a message (G7), so it never learns any and can send us nothing. Bytes that
must not be sent to Go show as a byte that it skips or as a control body that it cannot read: `clean` looks at both.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tolliver._options.instance import Remote

from tests.adapters.facade import Facade, until
from tests.adapters.gopeer import (
    DRAFT_UNRELIABLE,
    GO_UNRELIABLE,
    PRESETS,
    Defect,
    GoPeer,
    HandshakeFailed,
    Identity,
    final,
    go_identity,
    request,
    response,
)
from tests.adapters.kinds import ONE_KIND
from tests.adapters.nodes import Inbox, Nodes, connected, error_of, noticed
from tests.certificates import Certificates
from tolliver_proto import HandshakeRejected, IdentityConflict, Limits, NoticeKind, Policy
from tolliver_proto.errors import CertificateError
from tolliver_proto.layouts import Dialect

WE_DIAL, IT_DIALS = "we dial", "it dials"
BIG = bytes(range(256)) * 400  # several TLS records

both_roles = pytest.mark.parametrize("role", [WE_DIAL, IT_DIALS])

USUAL = Dialect()
ANNOUNCING = Dialect(announce_after_handshake=True)


@pytest.fixture(scope="module")
def identity(certs: Certificates) -> Identity:
    return go_identity(certs, "gopeer")


def ours(nodes: Nodes, **options: Any) -> Facade:
    """Leave it after the Go peers: Go closes nothing while it lives (G3, G6), and `Limits.close_timeout` is long."""
    return nodes.open("ours", **options)


@contextmanager
def connection(node: Facade, go: GoPeer, identity: Identity, role: str, dialect: Dialect = USUAL) -> Iterator[None]:
    """For as long as the Go process lives. Its host name cannot be checked: its key is pinned instead (D-2)."""
    remote = None
    with go:
        if role == WE_DIAL:
            remote = Remote("127.0.0.1", go.listen(), spki_sha256=identity.spki_sha256, dialect=dialect)
            assert node.new_connection(remote) == go.instance_id
        else:
            assert go.dial(node.port or 0) == node.instance_id
        until(lambda: connected(node) and go.connections, "the connection")
        yield
    if remote is not None:
        node.remove_connection(remote)
    until(lambda: not connected(node), "the end of the connection")


def clean(go: GoPeer) -> bool:
    """It is in step, alive, and was never sent a second handshake (G13) or a control body that it cannot read (G12)."""
    return (bytes(go.stray), go.malformed, go.panic, len(go.conns)) == (b"", 0, None, 1)


def seen(go: GoPeer) -> list[bytes]:
    return [message.body for message in go.messages]


# Exchanges that work.


@both_roles
def test_messages_subscriptions_and_acks_pass_both_ways(nodes: Nodes, identity: Identity, role: str) -> None:
    inbox = Inbox()
    go = GoPeer(PRESETS["1860a51"], identity)
    with ours(nodes, dialect=ANNOUNCING) as node:
        node.subscribe("news", "k", inbox)
        with connection(node, go, identity, role):
            until(lambda: go.table == [("news", "k", node.instance_id)], "our subscription, as a message (T-33)")
            ids = [go.send("news", "k", body) for body in (b"", b"hi", BIG)]
            until(lambda: go.acks == ids, "our acks")
            assert inbox.bodies == [b"", b"hi", BIG]

            go.unreliable_send("news", "k", b"unreliable")
            until(lambda: go.acks == [*ids, GO_UNRELIABLE], "our ack for what is reliable to us (T-42)")
            assert inbox.bodies[3:] == [b"unreliable"]

            go.subscribe("back", "k")
            until(lambda: node.peers()[0].subscriptions, "its subscription")
            receipt = node.send_many([("back", "k", body) for body in (b"", b"ho", BIG)])
            assert receipt.deliveries == 3
            node.wait_acked(receipt)
            assert node.unreliable_send("back", "k", b"unreliable") == 1
            until(lambda: go.acked[-1] == DRAFT_UNRELIABLE, "its ack for what is unreliable to us")
            node.wait_acked(node.send("back", "k", b"after that ack"))
            assert seen(go) == [b"", b"ho", BIG, b"unreliable", b"after that ack"]
            assert all(0 < one.message_id <= DRAFT_UNRELIABLE for one in go.messages)  # T-40

            node.unsubscribe("news", "k")
            node.subscribe("more", "k")
            until(lambda: go.table == [("more", "k", node.instance_id)], "what we changed")
            go.unsubscribe("back", "k")
            until(lambda: not node.peers()[0].subscriptions, "what it changed")
            assert node.send("back", "k", b"nobody's").recipients == 0
            assert clean(go)
            assert noticed(node, NoticeKind.PROTOCOL_ERROR) == []
            shown = go.conns[0].peer_certificate
            assert (shown is None) is (role == WE_DIAL)  # G16: its server does not ask for ours


@both_roles
def test_a_peer_whose_unreliable_id_is_known_loses_nothing_by_it(nodes: Nodes, identity: Identity, role: str) -> None:
    """G18, T-42: all that it sends unreliably has one id; none of it is a copy, and none is acknowledged either way."""
    inbox = Inbox()
    go = GoPeer(PRESETS["1860a51"], identity)
    known = Dialect(unreliable_id=GO_UNRELIABLE, announce_after_handshake=True)
    with ours(nodes, policy=Policy(dedupe=100), dialects={go.instance_id: known}) as node:
        node.subscribe("news", "k", inbox)
        with connection(node, go, identity, role):
            until(lambda: go.table == [("news", "k", node.instance_id)], "our subscription, as a message (T-33)")
            for _ in range(3):
                go.unreliable_send("news", "k", b"again")
            ids = [go.send("news", "k", b"last")]
            until(lambda: go.acks == ids, "our ack, of the last one alone")
            assert inbox.bodies == [b"again", b"again", b"again", b"last"]
            go.subscribe("back", "k")
            until(lambda: node.peers()[0].subscriptions, "its subscription")
            assert node.unreliable_send("back", "k", b"unreliable") == 1
            node.wait_acked(node.send("back", "k", b"after it"))
            assert seen(go) == [b"unreliable", b"after it"]
            assert {GO_UNRELIABLE, DRAFT_UNRELIABLE}.isdisjoint(go.acked)
            assert clean(go)


@both_roles
def test_a_peer_that_dies_of_subscriptions_is_served_without_any(nodes: Nodes, identity: Identity, role: str) -> None:
    """G7, G1, G11: its own list reaches us in the handshake, ours is thrown away, and no message says it again."""
    inbox = Inbox()
    go = GoPeer(PRESETS["499b76d"], identity, subscriptions=[("back", "")])
    refused = {b"refused at first"}
    go.register("", "", lambda body: body not in refused)
    with ours(nodes, retry_interval=0.02) as node:
        node.subscribe("news", "", inbox)
        with connection(node, go, identity, role):
            node.wait_acked(node.send("back", "any", b"hi"))
            assert node.unreliable_send("back", "", b"unreliable") == 1
            again = node.send("back", "", b"refused at first")
            until(lambda: len(go.messages) >= 3, "the first copy")
            refused.clear()
            node.wait_acked(again)
            go.send("news", "", b"it knows nobody")
            node.wait_acked(node.send("back", "", b"last"))
            assert [*dict.fromkeys(seen(go))] == [b"hi", b"unreliable", b"refused at first", b"last"]
            assert (go.controls, go.table, inbox.bodies) == ([], [], [])
            assert clean(go)


def test_announcing_to_that_peer_is_what_kills_it(nodes: Nodes, identity: Identity) -> None:
    """T-33: why it is off by default. It says so by its end alone; we live and can be connected to again."""
    go = GoPeer(PRESETS["499b76d"], identity)
    with ours(nodes, dialect=ANNOUNCING) as node:
        node.subscribe("news")
        with go:
            assert go.dial(node.port or 0) == node.instance_id
            until(lambda: go.panic == "no such column", "its end")
        until(lambda: not connected(node), "that we see it")
        careful = GoPeer(PRESETS["499b76d"] - {Defect.CONTROL_KILLS}, identity, instance_id=go.instance_id)
        with connection(node, careful, identity, IT_DIALS):
            until(lambda: careful.table, "our subscription")


@both_roles
def test_that_peer_lives_where_it_is_named_and_is_sent_no_control_messages(
    nodes: Nodes, identity: Identity, role: str
) -> None:
    """G7: by its remote or, where it dials us, by its UUID."""
    go = GoPeer(PRESETS["499b76d"], identity, subscriptions=[("back", "")])
    mute = Dialect(control_messages=False)
    named = {go.instance_id: mute} if role == IT_DIALS else {}
    with ours(nodes, dialect=ANNOUNCING, dialects=named) as node:
        node.subscribe("news")
        with connection(node, go, identity, role, mute):
            node.subscribe("sport")
            node.unsubscribe("news")
            node.wait_acked(node.send("back", "", b"last"))
            assert (go.controls, seen(go)) == ([], [b"last"])
            assert clean(go)


def test_what_a_peer_does_not_read_waits_until_it_is_started_again(nodes: Nodes, identity: Identity) -> None:
    """G3, G4: it never forgets a connection, and answers a second handshake only to leave that one unread."""
    wants = [("back", "")]
    with ours(nodes) as node:
        with GoPeer(PRESETS["499b76d"], identity, subscriptions=wants) as stuck:
            remote = Remote("127.0.0.1", stuck.listen(), spki_sha256=identity.spki_sha256)
            node.new_connection(remote)
            node.wait_acked(node.send("back", "", b"read"))
            node.remove_connection(remote)
            until(lambda: stuck.conns[0].ended, "our end")
            node.new_connection(remote)
            receipt = node.send("back", "", b"kept")
            assert receipt.recipients == 1
            assert seen(stuck) == [b"read"]
        node.remove_connection(remote)
        again = GoPeer(stuck.defects, identity, instance_id=stuck.instance_id, subscriptions=wants)
        with connection(node, again, identity, IT_DIALS):
            node.wait_acked(receipt)
            assert seen(again) == [b"kept"]


# Records.


@both_roles
def test_no_frame_is_in_a_record_with_a_response_or_a_final(nodes: Nodes, identity: Identity, role: str) -> None:
    """T-69, G2: though there is plenty to say at once, of both kinds. A frame in there would be lost."""
    bodies = [f"{number}".encode() for number in range(20)]
    names = [f"news{number}" for number in range(5)]
    first = GoPeer(PRESETS["1860a51"], identity, subscriptions=[("back", "")])
    second = GoPeer(first.defects, identity, instance_id=first.instance_id, subscriptions=first.subscriptions)
    with ours(nodes, dialect=ANNOUNCING, version=9, speaks=lambda version: version == 1) as node:
        with connection(node, first, identity, role):
            pass
        for name in names:
            node.subscribe(name)
        node.send_many([("back", "", body) for body in bodies])
        with connection(node, second, identity, role):
            until(lambda: len(second.messages) == len(bodies) and len(second.controls) == len(names), "all of it")
            assert seen(second) == bodies
            assert clean(second)
            wants = [(name, "") for name in names]
            handshake = second.conns[0].records
            if role == WE_DIAL:
                assert handshake[:2] == [request(9, node.instance_id, wants), final(1)]
            else:
                assert handshake[0] == response(9, node.instance_id, 1, wants)


# Versions.


@ONE_KIND
@pytest.mark.parametrize(("version", "status"), [(0, 3), (9, 2)])
def test_we_close_where_there_is_no_version_in_common(
    nodes: Nodes, identity: Identity, version: int, status: int
) -> None:
    """T-60, T-67. It never closes (G6); to version 0 its server says status 2 and goes on as if nothing were (G5)."""
    defects = PRESETS["499b76d"]
    limits = Limits(close_timeout=0.2)  # seconds; the error is raised when our close is over, and it never closes
    with (
        ours(nodes, version=version, limits=limits) as node,
        GoPeer(defects, identity) as dialler,
        GoPeer(defects, identity) as go,
    ):
        with pytest.raises(HandshakeFailed, match=f"status {status}"):
            dialler.dial(node.port or 0)
        with pytest.raises(EOFError):
            dialler.conns[0].read()
        assert dialler.conns[0].records == [response(version, node.instance_id, status)]

        error = error_of(node, Remote("127.0.0.1", go.listen(), spki_sha256=identity.spki_sha256))
        assert isinstance(error, HandshakeRejected)
        assert error.peer_version == 1
        asked = request(version, node.instance_id)
        until(lambda: go.conns[0].records == ([asked] if version == 0 else [asked, final(2)]), "what we say")
        if version == 0:
            until(lambda: go.conns[0].ended, "our end")
            assert go.connections == {node.instance_id: go.conns[0]}
        else:
            with pytest.raises(EOFError):
                go.conns[0].read()
        assert connected(node) == 0
        assert len(go.conns) == 1  # we do not dial again either (T-73)


# Its identity.


def test_its_certificate_serves_by_a_pin_or_by_the_ca_alone(nodes: Nodes, identity: Identity) -> None:
    """D-2, G22: there is no host name in it and no UUID."""
    with ours(nodes) as node, GoPeer(PRESETS["499b76d"], identity) as go:
        port = go.listen()
        by_name, wrong_key = Remote("127.0.0.1", port), Remote("127.0.0.1", port, spki_sha256=bytes(32))
        by_uuid = Remote("127.0.0.1", port, identity=go.instance_id)
        assert isinstance(error_of(node, by_name), CertificateError)
        assert isinstance(error_of(node, wrong_key), IdentityConflict)
        assert isinstance(error_of(node, by_uuid), IdentityConflict)
        by_key = Remote("127.0.0.1", port, spki_sha256=identity.spki_sha256)
        assert node.new_connection(by_key) == go.instance_id
    with (
        ours(nodes, tls=nodes.certs.tls("ours", insecure_ca_only=True)) as node,
        GoPeer(PRESETS["499b76d"], identity) as go,
    ):
        assert node.new_connection(Remote("127.0.0.1", go.listen())) == go.instance_id


def test_its_client_needs_a_certificate_of_our_ca(nodes: Nodes, certs: Certificates) -> None:
    """D-1: it asks nobody for one (G16), we do."""
    stranger = certs.tls("stranger")
    with ours(nodes) as node:
        for shown in (None, Identity(stranger.cert, stranger.key, stranger.ca, b"")):
            with GoPeer(PRESETS["499b76d"], shown) as go, pytest.raises(HandshakeFailed, match=r"(?i)alert|EOF"):
                go.dial(node.port or 0)
        assert connected(node) == 0


def test_its_uuid_is_bound_to_the_first_key_that_it_came_with(nodes: Nodes, identity: Identity) -> None:
    """D-3: its certificates carry no UUID, and all that it says about itself is a claim."""
    other = go_identity(nodes.certs, "gopeer-impostor")
    go = GoPeer(PRESETS["1860a51"], identity, subscriptions=[("back", "")])
    with ours(nodes) as node:
        with connection(node, go, identity, IT_DIALS):
            pass
        assert node.send("back", "", b"for the first").recipients == 1
        with GoPeer(go.defects, other, instance_id=go.instance_id) as impostor, pytest.raises(HandshakeFailed):
            impostor.dial(node.port or 0)
        [detail] = noticed(node, NoticeKind.IDENTITY_MISMATCH)
        assert str(go.instance_id) in detail
        back = GoPeer(go.defects, identity, instance_id=go.instance_id, subscriptions=go.subscriptions)
        with connection(node, back, identity, IT_DIALS):
            until(lambda: seen(back) == [b"for the first"], "what was kept for it")
