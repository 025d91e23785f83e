"""Derived identities: many writers under one certificate, none kept (T-72a)."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tolliver_proto import (
    Abort,
    ConnectionLost,
    Delivery,
    HandshakeFinal,
    HandshakeRequest,
    HandshakeResponse,
    HandshakeStatus,
    Limits,
    LocalProtocolError,
    Message,
    Notice,
    NoticeKind,
    PeerDown,
    PeerIdentity,
    PeerUp,
    Policy,
    Role,
    ShutdownWrite,
    Stored,
    Subscribe,
    Unsubscribe,
)
from tolliver_proto._common.derived_ids import FIRST_PREFIX
from tolliver_proto._testing.inspection import inside
from tolliver_proto._testing.invariants import audit
from tolliver_proto.layouts import Dialect
from tolliver_proto.node import is_derived
from tolliver_proto.store import AddDeadLetter, ForgetPeer, RememberHandled

from ..play import HIGH, LOW, Play, Wire, deliveries, every, notices, only

PREFIX = "f00dbabe0001"
DAY = 24 * 3600.0


def writer(number: int, prefix: str = PREFIX) -> UUID:
    return UUID(int=int(prefix, 16) << 80 | 8 << 76 | 2 << 62 | number)


ONE, TWO = writer(1), writer(2)
CERTIFICATE = PeerIdentity(spki_sha256=b"k" * 32, address="cluster", prefixes=frozenset([PREFIX]))
MEMBER = PeerIdentity(frozenset([LOW]), b"k" * 32, "member", frozenset([PREFIX]))
DURABLE = Policy(dedupe=100, dedupe_durable=True)


def subscriber(**options: Any) -> Play:
    play = Play(handlers=[("", "", "all")], **options)
    play.call("subscribe", "c", "")
    return play


def joined(play: Play, uuid: UUID = ONE, identity: PeerIdentity = CERTIFICATE) -> Wire:
    """A derived identity that dialled us, its handshake over."""
    wire = play.accepted(uuid, identity)
    assert [action.peer for action in every(wire.request(), PeerUp)] == [uuid]
    assert [type(frame) for frame in wire.got()] == [HandshakeResponse]
    return wire


def message(n: int) -> Message:
    return Message("c", "k", b"%d" % n, n)


def bodies(actions: list[Any]) -> list[bytes]:
    return [delivery.body for delivery in deliveries(actions)]


def remembered(play: Play) -> list[tuple[UUID, int]]:
    """On disk."""
    return [(peer, message_id) for peer, message_id, _ in play.store.load().handled]


def handle(play: Play, actions: list[Any]) -> list[bytes]:
    """All that was delivered is handled well."""
    given: list[Delivery] = deliveries(actions)
    play.call("acknowledge", given)
    return [delivery.body for delivery in given]


# Its form, and who may be it.


@given(st.uuids())
def test_no_uuid_of_today_looks_derived(uuid: UUID) -> None:
    for version in range(1, 8):
        other = UUID(int=uuid.int & ~(0xF << 76) & ~(3 << 62) | version << 76 | 2 << 62)
        assert not is_derived(other)
    eight = UUID(int=uuid.int & ~(0xF << 76) & ~(3 << 62) | 8 << 76 | 2 << 62)
    assert is_derived(eight) is (eight.int >> 80 >= FIRST_PREFIX)
    assert not is_derived(UUID(int=eight.int & ~(1 << 63))), "of another variant"


@pytest.mark.parametrize(
    ("identity", "claimed", "is_let_in"),
    [
        (CERTIFICATE, ONE, True),
        (CERTIFICATE, TWO, True),
        (CERTIFICATE, writer(1, "f00dbabe0002"), False),
        (CERTIFICATE, LOW, False),  # a plain UUID: it names none
        (CERTIFICATE, UUID(int=ONE.int & ~(0xF << 76) | 7 << 76), False),  # the prefix, but not version 8
        (MEMBER, LOW, True),  # itself
        (MEMBER, ONE, True),  # and whatever is derived from it
        (MEMBER, HIGH, False),
        (PeerIdentity(frozenset([LOW]), b"k" * 32), ONE, False),  # a v7 certificate claims a v8
        (PeerIdentity(frozenset([ONE]), b"k" * 32), ONE, False),  # only a prefix makes it one
        (PeerIdentity(spki_sha256=b"k" * 32), ONE, False),  # a certificate that names nobody
        (PeerIdentity(spki_sha256=b"k" * 32), HIGH, True),
        (PeerIdentity(), ONE, True),  # no certificates at all: a trial on one machine (D-15)
    ],
)
@pytest.mark.parametrize("role", Role)
def test_who_may_claim_what(identity: PeerIdentity, claimed: UUID, is_let_in: bool, role: Role) -> None:
    play = Play()
    if role is Role.SERVER:
        actions = play.accepted(claimed, identity).request()
    else:
        actions = play.dialled(play.call("connect", "there"), claimed, identity).respond()
    assert [action.peer for action in every(actions, PeerUp)] == [claimed] * is_let_in
    assert notices(actions) == [NoticeKind.IDENTITY_MISMATCH] * (not is_let_in)
    assert len(every(actions, ShutdownWrite)) == (not is_let_in)
    if not is_let_in:
        assert play.node.peers() == []


def test_a_refusal_says_what_the_certificate_names() -> None:
    play = Play()
    for identity, words in (
        (MEMBER, f"{LOW}, the derive prefix {PREFIX}"),
        (PeerIdentity(spki_sha256=b"k"), "no UUID"),
    ):
        refused = play.accepted(TWO, identity).send(HandshakeRequest(1, writer(1, "f" * 12)))
        [notice] = every(refused + play.wait(61.0), Notice)
        assert words in notice.detail


# It writes.


def test_it_is_up_without_a_commit_and_leaves_nothing() -> None:
    play = subscriber()
    before = len(play.commits)
    wire = joined(play)
    [peer] = play.node.peers()
    assert (peer.uuid, peer.connected, peer.address, peer.subscriptions) == (ONE, True, "cluster", ())
    assert handle(play, wire.send(message(1), Message("c", "k", b"unreliable"))) == [b"1", b"unreliable"]
    assert wire.acks() == [1]
    assert only(wire.lose(), PeerDown).peer == ONE
    play.wait(DAY + 1)
    assert len(play.commits) == before
    assert play.node.peers() == []
    assert play.node.stats()["peers"] == 0
    assert play.store.load().peers == {}
    assert play.node.next_timeout() is None


def test_thousands_come_and_go() -> None:
    play = subscriber(policy=Policy(dedupe=50))
    for number in range(1000):
        wire = joined(play, writer(number))
        assert handle(play, wire.send(message(1), message(2))) == [b"1", b"2"]
        wire.lose()
    node = play.node
    assert node.peers() == []
    assert len(inside(node).delivering.dedupe._known) == 50
    assert len(inside(node).delivering.dedupe.peers()) <= 700
    assert len(inside(node).delivering.dedupe._used) <= 50
    assert not inside(node).context.links
    assert not inside(node).routing.routes
    assert len(inside(node).context.timers.deadlines) <= 2


def test_nothing_is_routed_to_it() -> None:
    play = subscriber()
    wire = joined(play)
    assert play.send("c", "k", b"x").recipients == 0
    assert play.node.unreliable_send("c", "k", b"x") == 0
    assert wire.got() == []


def test_a_dial_that_reaches_one_keeps_nothing_for_it() -> None:
    play = subscriber()
    wire = play.dialled(play.call("connect", "there"), ONE, CERTIFICATE)
    receipt = play.send("c", "k", b"meanwhile")  # held: nobody knows yet who is there (T-62)
    assert only(wire.respond(), PeerUp).remote == "there"
    play.wait(1.0)
    assert receipt.recipients == 0
    assert play.store.messages == []


def test_it_is_told_what_we_subscribe_to() -> None:
    play = subscriber()
    first, second = joined(play), joined(play)
    play.call("subscribe", "d", "")
    for wire in (first, second):
        [frame] = wire.got()
        assert isinstance(frame, Subscribe)
        assert frame.channel == "d"
        wire.send(message(frame.message_id or 0))  # no matter
    assert play.node.next_timeout() is not None, "not acknowledged: it is said again"
    play.wait(13)
    assert [type(frame) for frame in first.got()] == [Subscribe]


# Write only.


@pytest.mark.parametrize("role", Role)
def test_a_list_is_refused(role: Role) -> None:
    play = Play()
    if role is Role.SERVER:
        wire = play.accepted(ONE, CERTIFICATE)
        actions = wire.request(("c", ""))
    else:
        wire = play.dialled(play.call("connect", "there"), ONE, CERTIFICATE)
        wire.got()
        actions = wire.respond(("c", ""))
    notice = only(actions, Notice)
    assert notice.kind is NoticeKind.PROTOCOL_ERROR
    assert notice.detail.startswith(f"cluster is the derived identity {ONE} and subscribes")
    assert len(every(actions, ShutdownWrite)) == 1
    assert wire.got() == []
    wire.lose()
    assert play.node.peers() == []
    assert play.commits == []
    assert play.send("c", "k", b"x").recipients == 0


def test_a_list_in_a_second_handshake_is_refused() -> None:
    play = Play(version=2, speaks=lambda version: True)
    wire = joined(play)
    assert every(wire.send(HandshakeRequest(1, ONE)), ShutdownWrite) == [], "an empty one is let through"
    assert [type(frame) for frame in wire.got()] == [HandshakeResponse]
    actions = wire.request(("c", ""))
    assert notices(actions) == [NoticeKind.PROTOCOL_ERROR]
    assert len(every(actions, ShutdownWrite)) == 1


def test_a_list_that_waits_for_a_final_is_refused() -> None:
    for listed, is_up in (((), 1), ((("c", ""),), 0)):
        play = Play()
        wire = play.accepted(ONE, CERTIFICATE)
        wire.request(*listed, version=2)
        [response] = wire.got()
        assert isinstance(response, HandshakeResponse)
        assert response.status is HandshakeStatus.OLDER
        assert len(every(wire.send(HandshakeFinal(True)), PeerUp)) == is_up


def test_later_subscriptions_are_acknowledged_and_not_taken() -> None:
    play = Play()
    wire = joined(play)
    wire.send(Subscribe("c", "", 1), Unsubscribe("c", "", 2), Subscribe("d", "", 3))
    assert wire.acks() == [1, 2, 3]
    assert play.node.stats()["refused_subscriptions"] == 3
    assert play.send("c", "k", b"x").recipients == play.send("d", "", b"x").recipients == 0
    assert play.commits == []


def test_a_derived_instance_cannot_subscribe() -> None:
    play = Play(uuid=ONE)
    with pytest.raises(LocalProtocolError, match=f"{ONE} is a derived identity") as caught:
        play.node.subscribe("c", "")
    assert caught.value.code == "write_only"
    wire = play.dialled(play.call("connect", "there"))
    [request] = wire.got()
    assert isinstance(request, HandshakeRequest)
    assert request.subscriptions == ()
    wire.respond(("c", ""))
    assert play.send("c", "k", b"x").recipients == 1
    assert wire.bodies() == [b"x"]


# Several connections of one.


def test_each_of_its_connections_delivers() -> None:
    """T-70 is not for them."""
    play = subscriber()
    wires = [joined(play) for _ in range(3)]
    assert play.node.stats()["notices_duplicate_closed"] == 0
    assert (play.node.stats()["peers"], play.node.stats()["peers_up"], play.node.stats()["connections"]) == (1, 1, 3)
    for number, wire in enumerate(wires):
        assert handle(play, wire.send(message(number + 1))) == [b"%d" % (number + 1)]
        assert wire.acks() == [number + 1]
    wires[2].lose()
    [peer] = play.node.peers()
    assert peer.connected
    assert handle(play, wires[0].send(message(9))) == [b"9"]
    wires[0].lose()
    wires[1].lose()
    assert play.node.peers() == []


def test_remotes_with_one_derived_peer_are_all_dialled() -> None:
    play = Play()
    for remote in ("here", "there"):
        wire = play.dialled(play.call("connect", remote), ONE, CERTIFICATE)
        assert only(wire.respond(), PeerUp).remote == remote
    here, there = play.wires.values()
    assert len(every(play.call("disconnect", "here"), ShutdownWrite)) == 1, "and not the other's"
    here.lose()
    there.lose(ConnectionLost("reset"))
    play.wait(1.0)
    assert play.node.stats()["connections"] == 1


def test_a_connection_that_fails_before_it_is_up_leaves_nothing() -> None:
    play = Play()
    wire = play.accepted(ONE, CERTIFICATE)
    play.node.receive_data(wire.cid, b"")
    wire.request(version=2)  # waits for a final
    assert len(play.node.peers()) == 1
    wire.lose()
    assert play.node.peers() == []


# Copies.


@pytest.mark.parametrize("policy", [Policy(dedupe=100), DURABLE])
def test_a_copy_from_another_connection_is_known(policy: Policy) -> None:
    play = subscriber(policy=policy)
    first, second = joined(play), joined(play)
    given = deliveries(first.send(message(1)))
    assert bodies(second.send(message(1), message(2))) == [b"2"], "the twin waits for the first to be handled"
    assert second.acks() == []
    play.call("acknowledge", given)
    assert first.acks() == [1]
    assert second.acks() == [1]
    first.lose()
    assert bodies(second.send(message(1))) == []
    assert second.acks() == [1]
    second.lose()
    again = joined(play)
    assert bodies(again.send(message(1))) == [], "and so does the next try"
    assert again.acks() == [1]
    assert bodies(joined(play, TWO).send(message(1))) == [b"1"], "somebody else's 1 is another message"


def test_copies_are_known_for_a_day() -> None:
    play = subscriber(policy=Policy(dedupe=100))
    wire = joined(play)
    handle(play, wire.send(message(1)))
    play.wait(DAY / 2)
    handle(play, wire.send(message(2)))
    handle(play, joined(play, TWO).send(message(1)))
    plain = play.peer(LOW)
    handle(play, plain.send(message(1)))
    play.wait(DAY / 2 + 1)
    assert bodies(wire.send(message(1), message(2))) == [], "the day begins with its last one"
    play.wait(DAY / 2)
    assert handle(play, wire.send(message(1), message(2))) == [b"1", b"2"]
    assert bodies(plain.send(message(1))) == [], "of others there is no such day"
    assert set(inside(play.node).delivering.dedupe._used) == {ONE}


def test_what_is_on_disk_goes_too() -> None:
    play = subscriber(policy=DURABLE)
    wire = joined(play)
    handle(play, wire.send(message(1)))
    plain = play.peer(LOW)
    handle(play, plain.send(message(1)))
    assert remembered(play) == [(ONE, 1), (LOW, 1)]
    wire.lose()
    assert ONE in play.store.load().peers
    later = play.restart(handlers=[("", "", "all")], policy=DURABLE)
    assert later.node.peers() != []
    assert ONE not in {peer.uuid for peer in later.node.peers()}
    assert bodies(joined(later).send(message(1))) == []
    audit(later.node, later.store)
    later.wait(DAY + 1)
    assert remembered(later) == [(LOW, 1)]
    assert handle(later, joined(later).send(message(1))) == [b"1"]
    assert (ONE, 1) in remembered(later)


def test_one_that_comes_back_while_it_is_removed_is_remembered() -> None:
    play = subscriber(policy=DURABLE)
    wire = joined(play)
    handle(play, wire.send(message(1)))
    play.hold_commits = True
    given = deliveries(wire.send(message(2)))
    play.wait(DAY + 1)  # its removal is being committed
    assert [type(one) for one in play.held[0].operations] == [ForgetPeer]
    play.call("acknowledge", given)
    assert wire.acks() == [1]
    play.fail()  # and is tried again, in one commit with what came since
    assert [type(one) for one in play.held[0].operations][:2] == [ForgetPeer, RememberHandled]
    play.finish()
    assert wire.acks() == [2]
    assert remembered(play) == [(ONE, 2)]


@pytest.mark.parametrize("count", [1, 2])
def test_of_more_identities_than_messages_that_are_remembered_the_oldest_go_from_the_disk(count: int) -> None:
    """Nothing of them is remembered any more. Also at the opening of one that remembers fewer than before."""
    play = subscriber(policy=DURABLE)
    for number in range(5):
        handle(play, joined(play, writer(number)).send(message(1)))
    assert len(play.store.load().peers) == 5
    later = play.restart(handlers=[("", "", "all")], policy=Policy(dedupe=count, dedupe_durable=True))
    later.wait(1.0)
    assert [*later.store.load().peers] == [writer(number) for number in range(5 - count, 5)]
    handle(later, joined(later, writer(5)).send(message(1)))
    later.wait(1.0)
    assert [*later.store.load().peers] == [writer(number) for number in range(6 - count, 6)]


def test_old_rows_go_though_nothing_is_remembered_any_more() -> None:
    play = subscriber(policy=DURABLE)
    handle(play, joined(play).send(message(1)))
    later = play.restart()
    later.wait(DAY + 1)
    assert remembered(later) == []


def test_another_row_under_a_known_id_is_delivered() -> None:
    """A batch came again in another shape: nothing of it is lost, and that is told (T-48, T-72a)."""
    play = subscriber(policy=Policy(dedupe=10))
    wire, twin = joined(play), joined(play)
    given = deliveries(wire.send(message(1)))
    other = Message("c", "k", b"another row", 1)
    given += deliveries(twin.send(other, message(1)))
    assert [delivery.body for delivery in given] == [b"1", b"another row"], "the copy waits for the first"
    told = play.call("acknowledge", given)
    assert (wire.acks(), twin.acks()) == ([1], [1, 1])
    assert bodies(twin.send(other, message(1))) == []
    assert twin.acks() == [1, 1]
    [notice] = every(told, Notice)
    assert (notice.kind, notice.peer) == (NoticeKind.ID_REUSED, ONE)
    assert "Rows of a batch came again in another shape" in notice.detail
    assert play.node.stats()["ids_reused"] == 1


def test_its_attempts_are_those_of_a_row() -> None:
    play = subscriber(limits=Limits(max_attempts=2))
    wire = joined(play)
    play.call("fail", deliveries(wire.send(message(1))))
    [other] = deliveries(wire.send(Message("c", "k", b"another row", 1)))
    assert other.attempt == 1
    [again] = deliveries(wire.send(message(1)))
    assert again.attempt == 2
    play.call("fail", [again])
    assert wire.acks() == [1]
    assert bodies(wire.send(message(1))) == []


class Job:
    """A batch of rows, which is written by tasks until they are done. Messages of a task that is killed are handled, or
    let go. `how` says which shape a try has: any, that of `spark.stable`, or any order within with ids of a column."""

    def __init__(self, rng: Random, rows: list[bytes], how: str) -> None:
        self.rng, self.rows, self.how = rng, rows, how
        self.partitions = rng.randint(1, 4)
        self.play = subscriber(policy=Policy(dedupe=100))
        self.handled: Counter[bytes] = Counter()
        self.pending: list[Delivery] = []

    def tasks(self) -> list[list[Message]]:
        """The messages of each task of a try."""
        numbers = [*range(len(self.rows))]
        of = dict(enumerate(self.rng.choices(range(4), k=len(numbers)) if self.how == "any" else numbers))
        if self.how != "stable":
            self.rng.shuffle(numbers)
        parts = [[n for n in numbers if of[n] % self.partitions == part] for part in range(self.partitions)]
        if self.how == "any":
            self.partitions = self.rng.randint(1, 4)  # of the next try
        return [
            [Message("c", "k", self.rows[n], n + 1 if self.how == "ids" else place) for place, n in enumerate(part, 1)]
            for part in parts
        ]

    def run(self, *, killed: bool) -> None:
        """One try, with a twin of some of its tasks."""
        owed: dict[Wire, dict[int | None, Message]] = {}
        for number, task in enumerate(self.tasks()):
            for _ in range(self.rng.randint(1, 2)):
                owed[joined(self.play, writer(number))] = {one.message_id: one for one in task}
        while any(owed.values()):
            wire = self.rng.choice([*owed])
            if killed and self.rng.random() < 0.1:
                wire.lose()
                del owed[wire]
            else:
                some = [*owed[wire].values()][: self.rng.randint(0, 4)]
                self.pending += deliveries(wire.send(*some))
            self.settle()
            for one in owed:
                for message_id in one.acks():
                    owed[one].pop(message_id, None)
        for wire in owed:
            wire.lose()

    def settle(self) -> None:
        """Some of what handlers have, in any order."""
        self.rng.shuffle(self.pending)
        some = [self.pending.pop() for _ in range(self.rng.randint(0, len(self.pending)))]
        good = [one for one in some if self.rng.random() < 0.9]
        self.handled.update(one.body for one in good)
        self.play.call("acknowledge", good)
        self.play.call("let_go", [one for one in some if one not in good])


@pytest.mark.search
@given(st.integers(0, 2**64), st.integers(1, 20), st.integers(0, 3))
def test_a_batch_that_comes_again_loses_nothing_in_any_shape(seed: int, count: int, kills: int) -> None:
    for how in ("any", "stable", "ids"):
        rng = Random(seed)
        job = Job(rng, [b"%d" % rng.randrange(count) for _ in range(count)], how)  # some rows are equal
        for killed in (*[True] * kills, False):
            job.run(killed=killed)
        while job.pending:
            job.settle()
        expected = Counter(job.rows)
        assert job.handled >= expected
        assert how == "any" or job.handled == expected


# Failures, and calls of an operator.


FEW = Limits(max_attempts=1)


def test_a_dead_letter_of_one_that_is_gone() -> None:
    play = subscriber(limits=FEW)
    wire = joined(play)
    given = deliveries(wire.send(message(1)))
    play.hold_commits = True
    play.call("fail", given)
    wire.lose()
    play.finish()
    [letter] = play.store.dead_letters(0, 10)
    assert letter.peer == ONE
    assert isinstance(play.commits[-1].operations[0], AddDeadLetter)
    assert play.node.peers() == []


def test_forgetting_one_that_is_there() -> None:
    play = subscriber(policy=DURABLE)
    first, second = joined(play), joined(play)
    handle(play, first.send(message(1)))
    actions = play.call("forget_peer", ONE)
    assert len(every(actions, ShutdownWrite)) == 2
    assert len(every(actions, Stored)) == 1
    first.lose()
    second.lose()
    assert play.node.peers() == []
    assert remembered(play) == []
    assert handle(play, joined(play).send(message(1))) == [b"1"]


def test_forgetting_one_that_is_gone_or_was_never_there() -> None:
    play = subscriber(policy=DURABLE)
    wire = joined(play)
    handle(play, wire.send(message(1)))
    wire.lose()
    for uuid in (ONE, TWO):
        assert only(play.call("forget_peer", uuid), Stored).error is None
    assert play.node.peers() == []
    assert remembered(play) == []
    assert handle(play, joined(play).send(message(1))) == [b"1"]


def test_forgetting_that_fails_leaves_nothing_either() -> None:
    play = subscriber(policy=DURABLE)
    wire = joined(play)
    handle(play, wire.send(message(1)))
    play.hold_commits = True
    play.call("forget_peer", ONE)
    joining = play.accepted(ONE, CERTIFICATE)
    assert every(joining.request(), PeerUp) == [], "not while it is being forgotten (T-77)"
    wire.lose()
    assert only(play.fail(), Stored).error is not None
    assert play.node.peers() == []
    play.hold_commits = False
    assert bodies(joined(play).send(message(1))) == [], "what it sent is known still"


@pytest.mark.parametrize("role", Role)
def test_identities_derived_from_our_own_certificate_are_others(role: Role) -> None:
    for claimed in (ONE, LOW):
        play = Play(uuid=LOW)
        if role is Role.SERVER:
            actions = play.accepted(claimed, MEMBER).request()
        else:
            actions = play.dialled(play.call("connect", "there"), claimed, MEMBER).respond()
        assert len(every(actions, PeerUp)) == (claimed == ONE)
        assert notices(actions)[: claimed == LOW] == [NoticeKind.SELF_CONNECTION] * (claimed == LOW)


def test_reaching_oneself_is_seen_among_derived_ones_too() -> None:
    play = Play(uuid=ONE)
    assert notices(play.accepted(ONE, CERTIFICATE).request()) == [NoticeKind.SELF_CONNECTION]
    assert len(every(play.accepted(TWO, CERTIFICATE).request(), PeerUp)) == 1
    assert every(play.run(), Abort) == []


def test_strict_uuid7_takes_those_that_a_certificate_binds_and_no_other_of_version_8() -> None:
    """T-03."""
    play = Play(dialect=Dialect(strict_uuid7=True))
    assert every(play.accepted(writer(1), CERTIFICATE).request(), PeerUp)
    assert every(play.accepted(writer(2, "f00dbabe0002"), CERTIFICATE).request(), ShutdownWrite)
    eight = UUID(int=writer(3).int & ~(1 << 127))
    assert eight.version == 8
    assert every(play.accepted(eight, PeerIdentity()).request(), ShutdownWrite)
