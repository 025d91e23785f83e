"""Nodes in the field: restart loops, clones, silent remotes, and what a receiver drops."""

from __future__ import annotations

import socket

from tests.certificates import Certificates
from tests.raw import RawPeer
from tolliver_proto import Acl, Limits, Message, NoticeKind, Rights, Subscribe, encode

from .facade import until
from .kinds import EACH_ADAPTER, ONE_KIND
from .nodes import Inbox, Nodes, address, connected, noticed, subscribed

QUICK = Limits(redial_first=0.005, redial_max=0.05)
RESTARTS = 9  # two, and five strikes, would set a message aside


@EACH_ADAPTER
def test_a_program_that_starts_again_and_again_has_nothing_set_aside(nodes: Nodes) -> None:
    """T-09: its connections end in order, and it acknowledges nothing."""
    given = {"plaintext": True, "limits": Limits(close_timeout=0.1)}
    with nodes.open("left", **given) as left:
        with nodes.open("right", subscriptions=["news"], **given) as right:
            right.new_connection(address(left))
            subscribed(left)
        receipt = left.send_many([("news", "", b"x")] * 20)
        for _ in range(RESTARTS):
            until(lambda: not connected(left))
            with nodes.open("right", handlers=[("news", "", lambda _: False)], **given) as right:
                right.new_connection(address(left))
                until(lambda: connected(left))
        assert (left.stats()["pending"], left.stats()["parked"], receipt.undelivered) == (20, 0, ())


@ONE_KIND
def test_of_two_live_instances_with_one_uuid_the_first_one_stays(nodes: Nodes) -> None:
    """T-70: each dials again whenever the other has taken its place."""
    inboxes = Inbox(), Inbox()
    with nodes.open("right") as right:
        given = {"remotes": [address(right)], "limits": QUICK}
        with (
            nodes.open("left", handlers=[("news", "", inboxes[0])], subscriptions=["news"], **given),
            nodes.open(
                "left",
                database=nodes.directory / "clone.db",
                handlers=[("news", "", inboxes[1])],
                subscriptions=["news"],
                **given,
            ),
        ):
            until(lambda: noticed(right, NoticeKind.DUPLICATE_IDENTITY))
            for number in range(20):
                right.wait_acked(right.send("news", "", b"%d" % number))
    assert sorted(len(inbox.bodies) for inbox in inboxes) == [0, 20]


@EACH_ADAPTER
def test_a_remote_that_says_nothing_holds_up_sends_once(nodes: Nodes) -> None:
    """T-62: one that failed makes no send wait, and more than its share is not kept for it."""
    limits = Limits(handshake_timeout=60.0, close_timeout=0.1, keep_bytes=100, redial_first=0.005, redial_max=0.01)
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60.0)
        remote = f"127.0.0.1:{server.getsockname()[1]}"
        with nodes.open("left", plaintext=True, remotes=[remote], limits=limits) as left:
            server.accept()[0].close()
            silent, _ = server.accept()
            with silent:
                assert silent.recv(1)  # of its handshake
                left.send("news", "", bytes(1000))
                left.send("news", "", b"beyond its share")
                assert left.stats()["not_kept"] == 1
                assert noticed(left, NoticeKind.NOT_KEPT)


def test_what_is_acknowledged_and_dropped_is_told_by_name(nodes: Nodes, certs: Certificates) -> None:
    """T-46, D-5, T-10."""
    rights = Acl(peers={certs.uuid("mallory"): Rights(publish=(("news", "*"), ("sport", "*")))})
    with (
        nodes.open("right", subscriptions=["news"], acl=rights) as right,
        RawPeer(right.port or 0, certs.tls("mallory"), certs.uuid("mallory")) as raw,
    ):
        raw.establish()
        raw.connection.send(Message("sport", "", b"x", 7))
        raw.connection.send(Message("secret", "", b"x", 8))
        raw.flush()
        odd = encode(Subscribe("c", "k", 9))
        raw.send_raw(odd[:-11] + b"\x09" + odd[-10:])
        until(lambda: right.stats()["ignored_bad_control"])
        for kind, name in ((NoticeKind.UNWANTED, "'sport' 1"), (NoticeKind.REFUSED, "'secret' 1")):
            assert [text.endswith(name) for text in noticed(right, kind)] == [True]
        assert [text.endswith("'bad_control' 1") for text in noticed(right, NoticeKind.IGNORED)] == [True]
