"""Ids used again: other messages under ids that the receiver knows (T-48)."""

from __future__ import annotations

import shutil

import pytest

from tests.certificates import Certificates
from tests.raw import RawPeer
from tolliver_proto import Ack, Message, NoticeKind, Policy

from .facade import until
from .kinds import EACH_ADAPTER
from .nodes import Inbox, Nodes, address, noticed, subscribed


@EACH_ADAPTER
@pytest.mark.parametrize("durable", [False, True], ids=["in memory", "durable"])
def test_what_a_sender_sends_after_it_was_put_back_from_a_copy_is_handled(nodes: Nodes, durable: bool) -> None:
    with nodes.open("right", policy=Policy(dedupe=1000, dedupe_durable=durable)) as right:
        inbox = Inbox()
        right.subscribe("news", handler=inbox)
        with nodes.open("left") as left:
            left.new_connection(address(right))
            subscribed(left)
        database = nodes.directory / "left.db"
        copy = shutil.copy(database, nodes.directory / "copy")
        for life in ("first", "second"):
            with nodes.open("left") as left:
                left.new_connection(address(right))
                left.wait_acked(left.send_many([("news", "", b"%s %d" % (life.encode(), n)) for n in range(100)]))
            shutil.copy(copy, database)
        assert sorted(inbox.bodies) == sorted(b"%s %d" % (one, n) for one in (b"first", b"second") for n in range(100))


def _send(port: int | None, certs: Certificates, *messages: Message) -> list[int]:
    """Each after the ack of the one before, over one connection. Returns the acks."""
    with RawPeer(port or 0, certs.tls("mallory"), certs.uuid("mallory")) as raw:
        raw.establish()
        for number, message in enumerate(messages, 1):
            raw.connection.send(message)
            raw.flush()
            while sum(isinstance(event, Ack) for event in raw.events) < number:
                assert raw.receive(), "the connection ended"
        return [event.message_id for event in raw.events if isinstance(event, Ack)]


@EACH_ADAPTER
def test_another_message_under_a_known_id_is_handled_and_told_with_a_count(nodes: Nodes, certs: Certificates) -> None:
    old, new, key = Message("news", "k", b"old", 7), Message("news", "k", b"new", 7), Message("news", "kn", b"ew", 7)
    for life, bodies in (("first", [b"old", b"new", b"ew"]), ("second", [])):
        with nodes.open("right", policy=Policy(dedupe=9, dedupe_durable=True)) as right:
            inbox = Inbox()
            right.subscribe("news", handler=inbox)
            assert _send(right.port, certs, old, new, key, new, old, key) == [7] * 6
            assert inbox.bodies == bodies, life
            assert right.stats()["ids_reused"] == 2 * bool(bodies)
            assert right.stats()["duplicates"] == 6 - len(bodies)
            if bodies:
                until(lambda: noticed(right, NoticeKind.ID_REUSED), "the notice")
                [told] = noticed(right, NoticeKind.ID_REUSED)
                assert "restored" in told
