"""Upkeep: absent peers, full outboxes, dead letters, other keys."""

from __future__ import annotations

import os
import shutil
import sqlite3
import threading
import time
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from tolliver._store.checks import make_known

from tests.certificates import Certificates
from tests.raw import RawPeer
from tolliver_proto import (
    Ack,
    ConnectionClosing,
    Limits,
    Message,
    NoticeKind,
    OutboxFull,
    Policy,
    StoreError,
    Subscribe,
)
from tolliver_proto.errors import TooFewRecipients, Undelivered, UndeliveredReason
from tolliver_proto.layouts import Dialect
from tolliver_proto.node import QuotaPolicy

from .facade import Facade, until
from .kinds import ONE_KIND
from .nodes import SOMEBODY, Inbox, Nodes, address, connected, noticed, silent_port, subscribed

QUICK = Limits(redial_first=0.001, redial_max=0.02)


# Copies (T-48).


def _send(port: int | None, certs: Certificates, copies: int) -> list[int]:
    """As a peer that sends one message again and again, each time after the ack. Returns the acks."""
    with RawPeer(port or 0, certs.tls("mallory"), certs.uuid("mallory")) as raw:
        raw.establish()
        for number in range(1, copies + 1):
            raw.connection.send(Message("news", "k", b"x", 7))
            raw.flush()
            while sum(isinstance(event, Ack) for event in raw.events) < number:
                assert raw.receive(), "the connection ended"
        return [event.message_id for event in raw.events if isinstance(event, Ack)]


@ONE_KIND
@pytest.mark.parametrize(
    ("policy", "handled", "after_a_restart"),
    [(Policy(), 2, 3), (Policy(dedupe=9), 1, 2), (Policy(dedupe=9, dedupe_durable=True), 1, 1)],
    ids=["every copy", "dedupe", "durable dedupe"],
)
def test_every_copy_is_acknowledged(
    nodes: Nodes, certs: Certificates, policy: Policy, handled: int, after_a_restart: int
) -> None:
    inbox = Inbox()
    with nodes.open("right", policy=policy) as right:
        right.subscribe("news", handler=inbox)
        assert _send(right.port, certs, copies=2) == [7, 7]
        assert len(inbox.deliveries) == handled
    with nodes.open("right", policy=policy) as right:
        right.register_callback("news", "", inbox)
        assert _send(right.port, certs, copies=1) == [7]
        assert len(inbox.deliveries) == after_a_restart


# Peers that do not come back (T-77, D-10).


@ONE_KIND
def test_a_peer_is_forgotten_with_all_that_waits_for_it(nodes: Nodes) -> None:
    with nodes.open("left") as left:
        with nodes.open("right") as right:
            gone = right.instance_id
            right.subscribe("news")
            right.new_connection(address(left))
            subscribed(left)
        until(lambda: not connected(left))
        receipt = left.send_many([("news", "", b"x")] * 2500)
        assert left.stats()["pending"] == 2500
        left.forget_peer(gone)
        assert left.peers() == []
        assert left.stats()["pending"] == 0
        with pytest.raises(Undelivered) as caught:
            left.wait_acked(receipt)  # T-54: nobody is owed any of it, and nobody has it
        answer = caught.value
        assert (answer.peer, answer.reason, answer.count) == (gone, UndeliveredReason.FORGOTTEN, 2500)
        assert left.send("news", "", b"x").recipients == 0
        left.forget_peer(gone)
    tables = ("batch", "owed", "peer", "peer_subscription")
    assert {table: nodes.rows("left", table) for table in tables} == dict.fromkeys(tables, 0)


def test_a_peer_that_is_away_for_too_long_is_forgotten(nodes: Nodes) -> None:
    with nodes.open("left", policy=Policy(forget_after=0.2)) as left:
        with nodes.open("right") as right:
            right.subscribe("news")  # without a handler: nothing is acknowledged yet
            right.new_connection(address(left))
            subscribed(left)
            receipt = left.send("news", "", b"x")
        until(lambda: left.peers() == [])
        with pytest.raises(Undelivered, match="forgotten"):
            left.wait_acked(receipt)


def test_who_waits_is_told_what_was_given_up_and_a_send_may_require_recipients(nodes: Nodes) -> None:
    with nodes.open("left") as left:
        with pytest.raises(TooFewRecipients):
            left.send("news", "", b"x", require_recipients=1)
        with nodes.open("right") as right:
            gone = right.instance_id
            right.subscribe("news")
            right.new_connection(address(left))
            subscribed(left)
        until(lambda: not connected(left))
        receipt = left.send("news", "", b"x", require_recipients=1)
        with pytest.raises(TooFewRecipients):
            left.send_many([("news", "", b"y"), ("nobody", "", b"z")], require_recipients=1)
        waiting = left.start("wait_acked", receipt)
        left.forget_peer(gone)
        with pytest.raises(Undelivered, match="forgotten"):
            waiting.wait()
        with pytest.raises(Undelivered, match="forgotten"):
            left.wait_acked(receipt)


@ONE_KIND
def test_a_peer_that_is_forgotten_while_connected_may_come_back(nodes: Nodes) -> None:
    with nodes.pair(left={"limits": QUICK}) as (left, right, inbox):
        left.forget_peer(right.instance_id)
        subscribed(left)
        left.wait_acked(left.send("news", "", b"again"))
        assert inbox.bodies == [b"again"]


@ONE_KIND
def test_a_full_outbox_is_refused_until_it_is_forgotten(nodes: Nodes) -> None:
    with nodes.open("left", limits=Limits(outbox_messages=2)) as left:
        with nodes.open("right") as right:
            gone = right.instance_id
            right.subscribe("news")
            right.new_connection(address(left))
            subscribed(left)
        until(lambda: not connected(left))
        left.send_many([("news", "", b"1"), ("news", "", b"2")])
        with pytest.raises(OutboxFull, match=f"peer {gone} has 2 messages.*forget the peer"):
            left.send("news", "", b"3")
        with pytest.raises(OutboxFull):
            left.send_many([("news", "", b"3"), ("nobody", "", b"4")])
        assert left.stats()["pending"] == 2
        left.forget_peer(gone)
        assert left.send("news", "", b"3").recipients == 0
    assert nodes.rows("left", "batch") == 0


@ONE_KIND
def test_at_its_quota_one_peer_loses_its_oldest_and_another_is_skipped(nodes: Nodes) -> None:
    """D-10: and the one that is there gets everything."""
    with ExitStack() as stack:
        gone = []
        for name in ("mallory", "right"):
            with nodes.open("left") as left, nodes.open(name) as away:
                away.subscribe("news")
                away.new_connection(address(left))
                subscribed(left)
                until(lambda: all(peer.subscriptions for peer in left.peers()))
                gone.append(away.instance_id)
        policies = {gone[0]: QuotaPolicy.DROP_OLDEST, gone[1]: QuotaPolicy.SKIP}
        left = stack.enter_context(
            nodes.open("left", limits=Limits(outbox_messages=3), policy=Policy(quota_policies=policies))
        )
        receipts = [left.send("news", "", b"%d" % number) for number in range(1, 6)]
        assert [receipt.recipients for receipt in receipts] == [2, 2, 2, 1, 1]
        assert {peer.uuid: peer.pending for peer in left.peers()} == dict.fromkeys(gone, 3)
        assert left.stats().dropped_oldest == left.stats().skipped == 2
        assert len(noticed(left, NoticeKind.OUTBOX_FILLING)) == 2
        for kind in (NoticeKind.DROPPED_OLDEST, NoticeKind.SKIPPED):
            assert noticed(left, kind)[0].startswith("1 messages")
        for name, bodies in (("mallory", [b"3", b"4", b"5"]), ("right", [b"1", b"2", b"3"])):
            inbox = Inbox()
            with nodes.open(name) as back:
                back.register_callback("news", "", inbox)
                back.new_connection(address(left))
                until(lambda inbox=inbox: len(inbox.bodies) == 3)  # type: ignore[misc]
                assert inbox.bodies == bodies


@ONE_KIND
def test_what_is_too_old_is_given_up(nodes: Nodes) -> None:
    with nodes.open("left", policy=Policy(expire_after=0.1)) as left:
        with nodes.open("right") as right:
            gone = right.instance_id
            right.subscribe("news")
            right.new_connection(address(left))
            subscribed(left)
        until(lambda: not connected(left))
        left.send_many([("news", "", b"1"), ("news", "", b"2")])
        until(lambda: not left.stats()["pending"])
        assert left.stats()["expired_messages"] == 2
        assert sum(int(text.split()[0]) for text in noticed(left, NoticeKind.EXPIRED)) == 2
        assert [peer.uuid for peer in left.peers()] == [gone]  # it stays known
    assert nodes.rows("left", "batch") == nodes.rows("left", "owed") == 0


@ONE_KIND
def test_a_wall_clock_that_is_set_makes_no_message_older(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    """D-10. The system's function is another one here, as nobody may set the clock of a machine that runs tests."""
    real, ahead = time.time, [0.0]
    monkeypatch.setattr(time, "time", lambda: real() + ahead[0])
    with nodes.open("left", policy=Policy(expire_after=2.0)) as left:
        with nodes.open("right") as right:
            right.subscribe("news")
            right.new_connection(address(left))
            subscribed(left)
        until(lambda: not connected(left))
        left.send("news", "", b"new")
        sent_at = time.monotonic()
        ahead[0] = 2 * 86400.0
        until(lambda: not left.stats()["pending"])
        assert time.monotonic() - sent_at > 1.0  # ages are in whole seconds
        assert left.stats()["expired_messages"] == 1


# A message that the peer cannot take (T-09).


@pytest.mark.thorough  # the head goes alone after five seconds, three times; tests/node has the rule in virtual time
@ONE_KIND
def test_a_message_over_the_peers_limit_is_set_aside_and_the_next_one_goes(nodes: Nodes) -> None:
    inbox = Inbox()
    with nodes.open("left", limits=QUICK) as left:
        with nodes.open("right", limits=Limits(max_body=100)) as right:
            right.subscribe("news", handler=inbox)
            left.new_connection(address(right))
            where, peer = address(right), right.instance_id
            left.send_many([("news", "", bytes(1000)), ("news", "", b"small")])
            inbox.holds(1)
            until(lambda: not left.stats()["pending"])
            assert inbox.bodies == [b"small"]
            assert left.stats()["parked"] == 1
            assert "set aside" in noticed(left, NoticeKind.PARKED)[0]
            assert 5 <= right.stats()["notices_protocol_error"] <= 7  # two more until it went alone
        with nodes.open("right", listen=where) as right:
            right.register_callback("news", "", inbox)
            # As another remote, as the old one may have used up its dials of this minute while nobody was there (T-52).
            left.remove_connection(where)
            left.new_connection(where)
            until(lambda: connected(left))
            assert left.retry(peer) == 1
            assert left.retry(peer) == 0
            inbox.holds(2)
            assert inbox.bodies[1:] == [bytes(1000)]
            until(lambda: not left.stats()["pending"] + left.stats()["parked"])
    assert nodes.rows("left", "batch") == 0


@pytest.mark.thorough  # the head goes alone after five seconds, three times; tests/node has the rule in virtual time
@ONE_KIND
def test_what_was_set_aside_stays_so_until_it_is_dropped(nodes: Nodes) -> None:
    with nodes.open("right", limits=Limits(max_body=100)) as right:
        with nodes.open("left", limits=QUICK) as left:
            right.subscribe("news")
            left.new_connection(address(right))
            subscribed(left)
            left.send("news", "", bytes(1000))
            until(lambda: left.stats()["parked"])
        with nodes.open("left") as left:
            assert left.stats()["parked"] == 1
            assert left.drop_parked(right.instance_id) == 1
            assert left.drop_parked(right.instance_id) == 0
            assert left.drop_parked(SOMEBODY) == left.retry(SOMEBODY) == 0
            assert left.stats()["parked"] == 0
    assert nodes.rows("left", "batch") == 0


# Keys in place of UUIDs in certificates (D-3).


@ONE_KIND
def test_a_second_key_for_a_uuid_is_refused_until_it_is_pinned(nodes: Nodes, certs: Certificates) -> None:
    first, second = (
        {"tls": certs.special(name, ()), "identity": SOMEBODY, "limits": QUICK} for name in ("first", "second")
    )
    with nodes.open("right") as right:
        remote = address(right)
        with nodes.open("one", **first) as one:
            one.subscribe("news")
            assert one.new_connection(remote) == right.instance_id
            subscribed(right)
        until(lambda: not connected(right))
        right.send("news", "", b"for the first alone")
        with nodes.open("two", remotes=[remote], **second) as two:
            until(lambda: noticed(right, NoticeKind.IDENTITY_MISMATCH))
            assert "repin" in noticed(right, NoticeKind.IDENTITY_MISMATCH)[0]
            assert connected(right) == connected(two) == 0
            assert two.peers() == []  # it was closed out before it had learnt anything (T-72)
            assert right.stats()["pending"] == 1
            right.repin(SOMEBODY)
            until(lambda: connected(right) and connected(two))
        with nodes.open("one", remotes=[remote], **first):
            refused = right.stats()["notices_identity_mismatch"]
            until(lambda: right.stats()["notices_identity_mismatch"] > refused)
    with nodes.open("right", listen=remote) as right:  # the pin outlives the process
        with nodes.open("one", remotes=[remote], **first):
            until(lambda: noticed(right, NoticeKind.IDENTITY_MISMATCH))
        with nodes.open("two", remotes=[remote], **second) as two:
            until(lambda: connected(right))
            right.repin(SOMEBODY, bytes(32))
            until(lambda: not connected(right))  # it stands on another key


# A database that fails (D-13).


def _damage(database: Path) -> None:
    """As after a crash of the machine: not closed in order, and a page of zeroes that opening does not read."""
    with closing(sqlite3.connect(database)) as connection, connection:
        make_known(connection)
        connection.execute("UPDATE instance SET seal = NULL, crc = row_check(uuid, NULL)")
        [(page,)] = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'dead_letter'").fetchall()
        [(size,)] = connection.execute("PRAGMA page_size").fetchall()
    with database.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(bytes(size))


def test_after_a_crash_damage_is_looked_for_and_told(nodes: Nodes) -> None:
    with nodes.open("left") as left:
        pass
    _damage(left.database)
    with nodes.open("left") as left, nodes.open("right") as right:
        until(lambda: noticed(left, NoticeKind.STORE_ERROR))
        assert f"a look at the database {left.database} found damage: " in noticed(left, NoticeKind.STORE_ERROR)[0]
        left.new_connection(address(right))  # the whole part is used
    with nodes.open("left") as left:  # as long as it cannot be counted, each opening looks
        assert left._look(lambda instance: instance._store.unclean)


def test_a_database_that_cannot_be_looked_at_is_told(nodes: Nodes) -> None:
    with nodes.open("left") as left:
        pass
    with closing(sqlite3.connect(left.database)) as connection, connection:
        make_known(connection)
        connection.execute("UPDATE instance SET seal = NULL, crc = row_check(uuid, NULL)")
    with nodes.open("left") as left:
        left.database.unlink()
        left._look(lambda instance: instance.beside(instance._store.check, instance._on_checked))
        until(lambda: noticed(left, NoticeKind.STORE_ERROR))
        assert "was not looked through for damage: cannot check" in noticed(left, NoticeKind.STORE_ERROR)[-1]


@ONE_KIND
def test_commits_that_are_missing_are_told_at_opening(nodes: Nodes) -> None:
    with nodes.open("left") as left:
        older = left.database.with_name("older")
        left.subscribe("news")
    shutil.copy(left.database, older)
    with nodes.open("left") as left:
        left.subscribe("other")
    older.rename(left.database)
    with nodes.open("left") as left:
        until(lambda: noticed(left, NoticeKind.COMMITS_MISSING))
        assert left.stats()["notices_commits_missing"] == 1
        assert f"{left.database} lacks 3 commits that were confirmed" in noticed(left, NoticeKind.COMMITS_MISSING)[0]


def test_a_log_that_is_emptied_while_the_instance_runs_is_told_at_once(nodes: Nodes) -> None:
    with nodes.open("left") as left:
        left.subscribe("news")
        os.truncate(f"{left.database}-wal", 0)
        with pytest.raises(StoreError, match="was cut while it was open, and nothing more is stored"):
            left.subscribe("other")
        until(lambda: noticed(left, NoticeKind.COMMITS_MISSING))
        assert "was cut while the instance used it" in noticed(left, NoticeKind.COMMITS_MISSING)[0]
        until(lambda: "a commit failed, nothing of it was stored" in noticed(left, NoticeKind.STORE_ERROR)[0])


def test_what_cannot_be_read_is_told_and_goes_out_later(nodes: Nodes) -> None:
    inbox = Inbox()
    with nodes.open("left", limits=QUICK) as left:
        with nodes.open("right") as right:
            right.subscribe("news")
            right.new_connection(address(left))
            subscribed(left)
        until(lambda: not connected(left))
        left.send("news", "", b"x")
        _rename(left, "batch", "away")
        with nodes.open("right", remotes=[address(left)]):
            until(lambda: noticed(left, NoticeKind.STORE_ERROR))
            assert "reading the outbox failed" in noticed(left, NoticeKind.STORE_ERROR)[0]
        _rename(left, "away", "batch")
        with nodes.open("right") as right:
            right.register_callback("news", "", inbox)
            right.new_connection(address(left))
            until(lambda: not left.stats()["pending"])
    assert inbox.bodies == [b"x"]


# Copies of a database that is in use.


def test_a_copy_of_the_database_is_an_instance_of_its_own_time(nodes: Nodes, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    with nodes.open("left") as left, nodes.open("right") as right:
        right.subscribe("news")
        right.new_connection(address(left))
        subscribed(left)
        right.close()
        until(lambda: not connected(left))
        left.send("news", "", b"in it")
        left.backup(copy)
        left.send("news", "", b"later")
        with pytest.raises(StoreError, match=rf"there is a file {copy}: .* Give another name"):
            left.backup(copy)
        assert left.start("admin.backup", tmp_path / "away" / "copy.db").outcome()
        uuid = left.instance_id
    with nodes.open("left", database=copy) as restored:
        assert restored.instance_id == uuid
        assert restored.stats()["pending"] == 1


def test_closing_gives_a_copy_up(nodes: Nodes, tmp_path: Path) -> None:
    copy, under_way, given_up = tmp_path / "copy.db", threading.Event(), threading.Event()
    with nodes.open("left") as left:
        store = left._look(lambda instance: instance._store)
        honest = store._look

        def look() -> None:
            under_way.set()
            until(lambda: store._ending)
            given_up.set()
            honest()

        store._look = look
        copying = left.start("admin.backup", copy)
        until(under_way.is_set)
        left.close()
    assert given_up.is_set()
    assert isinstance(copying.outcome(), ConnectionClosing)
    with pytest.raises(ConnectionClosing):
        left.backup(copy)
    assert not copy.exists()


def _rename(node: Facade, old: str, new: str) -> None:
    node._look(lambda instance: instance._store._file.connection.execute(f"ALTER TABLE {old} RENAME TO {new}"))


# Other choices of the policy.


@pytest.mark.parametrize("strict", [False, True])
def test_sends_wait_for_a_connection_in_the_making_where_that_is_asked_for(nodes: Nodes, strict: bool) -> None:
    """T-62."""
    patient = Limits(handshake_timeout=60.0, close_timeout=0.1)
    with (
        silent_port() as remote,
        nodes.open("left", plaintext=True, policy=Policy(strict_block=strict), limits=patient) as left,
    ):
        dialling = left.start("new_connection", remote)
        until(lambda: left.stats().get("sent_bytes"))  # the handshake's request
        sending = left.start("send", "news", "", b"x")
        if strict:
            for _ in range(20):  # calls that are answered meanwhile
                left.stats()
                assert not sending.done
            left.remove_connection(remote)
            dialling.outcome()
        assert sending.wait().recipients == 0


@ONE_KIND
@pytest.mark.parametrize("announces", [False, True])
def test_subscriptions_are_announced_once_more_where_that_is_asked_for(
    nodes: Nodes, certs: Certificates, announces: bool
) -> None:
    """T-33: for peers that throw a handshake's list away."""
    with nodes.open("right", dialect=Dialect(announce_after_handshake=announces)) as right:
        right.subscribe("news")
        right.subscribe("sport")
        with RawPeer(right.port or 0, certs.tls("mallory"), certs.uuid("mallory"), ["hello"]) as raw:
            raw.establish()
            subscribed(right)
            right.send("hello", "", b"after all announcements")
            raw.receive_messages(1)
            heard = [event.channel for event in raw.events if isinstance(event, Subscribe)]
        assert heard == (["news", "sport"] if announces else [])
