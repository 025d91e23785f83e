"""Derived identities on real TLS: several at once, retried, only writing (T-72a)."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any
from uuid import UUID

import pytest
from tolliver._options.instance import TLS
from tolliver.derived import derived_identity

from tests.certificates import PREFIX
from tests.raw import RawPeer
from tolliver_proto import Closed, IdentityConflict, LocalProtocolError, NoticeKind, Policy

from .facade import Facade, until
from .kinds import ONE_KIND
from .nodes import AGAIN, Inbox, Nodes, address, noticed

TASK = derived_identity(PREFIX, "query/7/3")
OTHER_TASK = derived_identity(PREFIX, "query/7/4")
ROWS = [("rows", "k", b"%d" % number) for number in range(1, 101)]


def attempt(nodes: Nodes, number: int, identity: UUID = TASK, **options: Any) -> Facade:
    """One try of a task: the same identity, an empty database, one certificate for all."""
    options = {"listen": None, "tls": nodes.certs.tls("job"), **AGAIN, **options}
    return nodes.open(f"attempt{number}", identity=identity, **options)


def write(task: Facade, receiver: Facade, count: int) -> None:
    task.new_connection(address(receiver))
    until(lambda: task.peers()[0].subscriptions)
    task.wait_acked(task.send_many(ROWS[:count]))


def is_let_in(instance: Facade, tls: TLS, claimed: UUID, *subscriptions: str) -> bool:
    """True if a handshake that says so succeeds."""

    def shake_hands() -> bool:
        with RawPeer(instance.port or 0, tls, claimed, subscriptions) as raw:
            raw.establish()
            return not isinstance(raw.events[-1], Closed)

    return shake_hands()


@ONE_KIND
@pytest.mark.parametrize("durable", [False, True])
def test_every_try_of_a_task_counts_once(nodes: Nodes, durable: bool) -> None:
    with nodes.open("right", policy=Policy(dedupe=1000, dedupe_durable=durable)) as right:
        inbox = Inbox()
        right.subscribe("rows", handler=inbox)
        with ExitStack() as running:
            first, twin, other = [
                running.enter_context(attempt(nodes, number, identity))
                for number, identity in ((1, TASK), (2, TASK), (3, OTHER_TASK))
            ]
            write(first, right, 30)  # and there it hangs, connected
            assert len(inbox.bodies) == 30
            write(twin, right, 100)
            assert inbox.bodies == [body for _, _, body in ROWS], "30 of one connection, 70 of the other"
            first.wait_acked(first.send_many(ROWS[30:]))
            assert len(inbox.bodies) == 100
            assert {delivery.peer_id for delivery in inbox.deliveries} == {TASK}
            assert {delivery.cid for delivery in inbox.deliveries} == {1, 2}
            write(other, right, 100)
            assert len(inbox.bodies) == 200, "another task"
            stats = right.stats()
            assert (stats["connections"], stats["peers_up"]) == (3, 2)
            assert stats["duplicates"] >= 100, "and more where an ack was late: then a message is sent again"
            assert noticed(right, NoticeKind.DUPLICATE_CLOSED) == []
        until(lambda: not right.stats()["connections"])
        assert right.peers() == []
    with nodes.open("right", policy=Policy(dedupe=1000, dedupe_durable=durable)) as right:
        right.register_callback("rows", "", inbox)
        with attempt(nodes, 4) as last:
            write(last, right, 100)
    assert len(inbox.bodies) == (200 if durable else 300)


@ONE_KIND
def test_it_only_writes(nodes: Nodes) -> None:
    with nodes.open("right") as right, attempt(nodes, 1) as task:
        assert task.instance_id == TASK
        with pytest.raises(LocalProtocolError, match="is a derived identity"):
            task.subscribe("rows")
        assert not is_let_in(right, nodes.certs.tls("job"), OTHER_TASK, "rows")
        assert is_let_in(right, nodes.certs.tls("job"), OTHER_TASK)
        [detail] = noticed(right, NoticeKind.PROTOCOL_ERROR)
        assert "must send an empty list (T-72a)" in detail
        assert (right.send("rows", "k", b"x")).recipients == 0


def test_who_may_be_one(nodes: Nodes) -> None:
    plain = nodes.certs.uuid("left")
    foreign = derived_identity("f00dbabe0002", "query/7/3")
    for name, options, text in (
        (
            "no prefix",
            {"identity": TASK, "tls": nodes.certs.tls("left")},
            rf"the certificate says {plain}: make it with",
        ),
        ("no names", {"identity": TASK, "tls": nodes.certs.tls("anonymous")}, "no UUID and no derive prefix: make it"),
        ("another prefix", {"identity": foreign}, f"the derive prefix {PREFIX}: make it with derived_identity"),
        ("a plain one", {"identity": plain, "tls": nodes.certs.tls("writers")}, "drop one"),
        ("none", {"identity": None, "tls": nodes.certs.tls("writers")}, "and no UUID: give identity=derived_identity"),
    ):
        with pytest.raises(IdentityConflict, match=text), attempt(nodes, 1, **options):
            pytest.fail(name)
    assert list(nodes.directory.glob("attempt*")) == []
    with attempt(nodes, 1, tls=nodes.certs.tls("writers")):
        pass
    belongs = f"belongs to instance {TASK}, but the option identity is {OTHER_TASK}"
    with pytest.raises(IdentityConflict, match=belongs), attempt(nodes, 1, OTHER_TASK):
        pytest.fail("another task's database")
    with nodes.open("job") as itself:
        assert itself.instance_id == nodes.certs.uuid("job")
    with nodes.open("trial", tls=None, plaintext=True, identity=TASK) as trial:
        assert trial.instance_id == TASK


@ONE_KIND
def test_others_cannot_be_one(nodes: Nodes) -> None:
    with nodes.open("right") as right:
        for name in ("left", "anonymous"):
            assert not is_let_in(right, nodes.certs.tls(name), TASK)
        assert not is_let_in(right, nodes.certs.tls("writers"), nodes.certs.uuid("left"))
        assert right.stats()["notices_identity_mismatch"] == 3
