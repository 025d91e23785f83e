"""A disk without room: what is put away goes on, and so do handshakes (D-13, V10)."""

from __future__ import annotations

from dataclasses import replace

from tolliver_proto import (
    Ack,
    Deliver,
    Delivery,
    Limits,
    Message,
    Notice,
    NoticeKind,
    PeerIdentity,
    PeerUp,
    Policy,
    Stored,
    Subscribe,
    Subscription,
)
from tolliver_proto._testing.inspection import inside
from tolliver_proto.errors import DiskFull
from tolliver_proto.node import QuotaPolicy
from tolliver_proto.store import (
    AddDeadLetter,
    DeadLetter,
    RememberHandled,
    ReserveIds,
    StoredMessage,
    StoreMessages,
    bytes_of,
)

from ..play import HIGH, LOW, Play, Wire, every, notices, only

KEY = bytes(32)


def backlog(play: Play, count: int = 5) -> tuple[Wire, list[Message]]:
    """A peer that was sent so many messages."""
    wire = play.peer(LOW, ("c", ""))
    for number in range(count):
        play.send("c", "k", b"%d" % number)
    return wire, wire.messages()


def test_what_was_acknowledged_is_removed_at_once_though_no_message_can_be_stored() -> None:
    play = Play()
    wire, messages = backlog(play)
    play.store.full = True
    play.hold_commits = True
    refused = play.send("c", "k", b"refused")
    wire.ack(*messages)
    gathered = play.send("c", "k", b"gathered")
    play.hold_commits = False
    actions = play.finish()
    assert [stored.tokens for stored in every(actions, Stored) if isinstance(stored.error, DiskFull)] == [
        [gathered],
        [refused],
    ]
    assert notices(actions) == [NoticeKind.STORE_ERROR]
    assert play.store.messages == []
    assert play.pending() == 0
    assert wire.bodies() == []


def test_messages_go_in_commits_of_their_own_until_there_is_room() -> None:
    """A new list is stored, though somebody never stops to send."""
    play = Play()
    wire, _ = backlog(play, 1)
    play.store.full = True
    assert isinstance(only(play.call("send", "c", "k", b"1"), Stored).error, DiskFull)
    play.hold_commits = True
    other = play.accepted(HIGH)
    play.send("c", "k", b"2")
    other.request(("other", ""))
    play.send("c", "k", b"3")
    for _ in range(3):
        play.send("c", "k", b"more")
        assert every(play.finish(), PeerUp) == [] or len(play.held) == 1
    assert play.store.load().peers[HIGH].subscriptions == {Subscription("other", "")}
    for commit in play.commits:
        operations = [one for one in commit.operations if not isinstance(one, ReserveIds)]
        assert len({isinstance(one, StoreMessages) for one in operations}) == 1
    play.store.full = False
    play.send("c", "k", b"4")
    while play.held:
        play.finish()
    assert b"4" in wire.bodies()
    assert not inside(play.node).commits.apart


def test_a_send_that_needs_no_room_does_not_end_that() -> None:
    play = Play()
    backlog(play, 1)
    play.store.full = True
    assert isinstance(only(play.call("send", "c", "k", b"1"), Stored).error, DiskFull)
    assert only(play.call("send", "nobody", "wants", b"it"), Stored).error is None
    assert isinstance(only(play.call("send", "c", "k", b"2"), Stored).error, DiskFull)
    play.store.full = False
    assert only(play.call("send", "c", "k", b"3"), Stored).error is None


def test_what_waits_for_a_connecting_peer_waits_on_a_full_disk_too() -> None:
    """T-62: both reasons must be over."""
    play = Play(limits=Limits(keep_bytes=1))
    backlog(play, 1)
    play.store.full = True
    assert isinstance(only(play.call("send", "c", "k", b"1"), Stored).error, DiskFull)
    play.store.full = False
    wire = play.dialled(play.call("connect", "remote"), HIGH)
    assert only(play.call("send", "c", "k", b"2"), Stored).error is None
    assert every(play.call("send", "c", "k", b"3"), Stored) == []
    assert only(wire.respond(), Stored).error is None


def test_a_gathered_batch_that_stores_nothing_goes_on() -> None:
    play = Play()
    wire, _ = backlog(play, 1)
    play.store.full = True
    play.hold_commits = True
    play.send("c", "k", b"refused")
    wire.send(Subscribe("d", "", 7))
    play.hold_commits = False
    play.finish()
    assert wire.acks() == [7]
    assert play.store.load().peers[LOW].subscriptions == {Subscription("c", ""), Subscription("d", "")}


def test_a_send_does_not_wait_for_removals_that_find_no_room_either() -> None:
    play = Play()
    wire, messages = backlog(play)
    play.hold_commits = True
    play.send("c", "k", b"refused")
    wire.ack(*messages)
    play.fail(DiskFull("full"))
    waiting = play.send("c", "k", b"waits")
    stored = only(play.fail(DiskFull("full")), Stored)
    assert stored.tokens == [waiting]
    assert isinstance(stored.error, DiskFull)


def test_without_a_reserve_removals_are_tried_again_later_and_not_without_pause() -> None:
    play = Play()
    wire, messages = backlog(play)
    play.hold_commits = True
    play.send("c", "k", b"refused")
    wire.ack(*messages)
    play.fail(DiskFull("full"))
    for _ in range(3):
        assert len(play.held) == 1
        play.fail(DiskFull("full"))
        assert play.held == []
        play.wait(1.1)
    play.finish()
    assert play.store.messages == []


def test_a_dead_letter_that_finds_no_room_comes_again_and_its_ack_waits() -> None:
    play = Play(limits=replace(Limits(), max_attempts=1))
    play.node.register("c", "", "handler")
    play.call("subscribe", "c", "")
    wire, messages = backlog(play)
    play.store.full = True
    play.hold_commits = True
    deliveries: list[Delivery] = []
    for deliver in every(wire.send(Message("c", "k", b"bad", 9), *(Ack(m.message_id or 0) for m in messages)), Deliver):
        deliveries += deliver.deliveries
    play.node.fail(deliveries, now=play.now)
    play.run()
    assert any(isinstance(one, AddDeadLetter) for one in play.held[0].operations)
    play.hold_commits = False
    play.finish()
    assert wire.acks() == []
    assert (play.store.dead_letters(0, 9), play.store.messages) == ([], [])
    play.store.full = False
    for wait, acks in ((0.9, []), (0.2, [9])):  # a second after the last one was refused
        play.wait(wait)
        [again] = only(wire.send(Message("c", "k", b"bad", 9)), Deliver).deliveries
        play.node.fail([again], now=play.now)
        play.run()
        assert wire.acks() == acks


def test_what_was_handled_is_remembered_with_what_is_put_away() -> None:
    """Durable: its ack comes with a copy, as it does after any failure."""

    play = Play(policy=Policy(dedupe=9, dedupe_durable=True))
    play.node.register("c", "", "handler")
    play.call("subscribe", "c", "")
    wire, messages = backlog(play)
    play.store.full = True
    play.hold_commits = True
    play.send("c", "k", b"refused")
    deliver = only(wire.send(Message("c", "k", b"handled", 9)), Deliver)
    play.node.acknowledge(deliver.deliveries, now=play.now)
    wire.ack(*messages)
    play.hold_commits = False
    play.finish()
    assert any(isinstance(one, RememberHandled) for one in play.commits[-1].operations)
    assert not any(isinstance(one, StoreMessages) for one in play.commits[-1].operations)
    assert [(peer, number) for peer, number, _ in play.store.load().handled] == [(LOW, 9)]
    assert play.store.messages == []


def test_what_a_commit_stores_is_counted_in_bytes() -> None:
    letter = AddDeadLetter(DeadLetter(LOW, "c", "k", b"12345", 7, 20))
    messages = [StoredMessage(seq, seq, "c", "k", b"", size) for seq, size in ((1, 10), (2, 100))]
    stored = StoreMessages(messages, [[LOW], [LOW]])
    assert bytes_of([letter, stored, RememberHandled([(LOW, 1, None)], 9)]) == 115


def test_what_a_store_has_to_tell_is_a_notice_and_counted() -> None:
    play = Play()
    assert only(play.call("notice", NoticeKind.DISK_LOW, "little is left"), Notice).detail == "little is left"
    assert play.node.stats().notices[NoticeKind.DISK_LOW] == 1


# A handshake that the store has nothing to learn from.


def shaken(play: Play, *subscriptions: tuple[str, str], identity: PeerIdentity | None = None) -> int:
    """Commits of a handshake, which was successful."""
    before = len(play.commits)
    wire = play.accepted(LOW, identity)
    assert every(wire.request(*subscriptions), PeerUp)
    commits = len(play.commits) - before
    wire.lose()
    return commits


def test_a_list_and_a_pin_that_the_store_has_need_no_commit() -> None:
    play = Play()
    with_key = PeerIdentity(uuids=frozenset({LOW}), spki_sha256=KEY)
    assert shaken(play, ("c", ""), identity=with_key) == 1
    for again in (play, play.restart()):
        assert shaken(again, ("c", ""), identity=with_key) == 0
        assert again.knows() == {Subscription("c", "")}
    assert shaken(play, ("d", ""), identity=with_key) == 1
    with_key = replace(with_key, spki_sha256=bytes(31) + b"1")
    assert shaken(play, ("d", ""), identity=with_key) == 1
    assert shaken(play, identity=with_key) == 1
    assert shaken(play, identity=with_key) == 0


def test_a_peer_without_subscriptions_is_stored_once() -> None:
    play = Play()
    assert shaken(play) == 1
    assert LOW in play.store.load().peers
    assert shaken(play) == 0


def test_a_list_that_is_on_its_way_is_waited_for() -> None:
    """The store may yet refuse it."""
    play = Play()
    old = play.peer(LOW, ("c", ""))
    play.hold_commits = True
    old.send(Subscribe("d", "", 1))
    new = play.accepted(LOW)
    assert every(new.request(("c", ""), ("d", "")), PeerUp) == []
    play.fail()
    assert len(play.held) == 1
    assert every(play.finish(), PeerUp)
    assert play.store.load().peers[LOW].subscriptions == {Subscription("c", ""), Subscription("d", "")}


def test_a_pin_that_is_on_its_way_is_waited_for() -> None:
    play = Play()
    shaken(play)
    play.hold_commits = True
    play.call("repin", LOW, KEY)
    wire = play.accepted(LOW, PeerIdentity(uuids=frozenset({LOW}), spki_sha256=KEY))
    assert every(wire.request(), PeerUp) == []
    play.finish()
    assert every(play.finish(), PeerUp)


def test_what_was_kept_for_a_peer_is_still_linked_to_it() -> None:
    """T-62: it subscribed long ago, and was away as the message was sent."""
    play = Play()
    shaken(play)
    remote = object()
    wire = play.dialled(play.call("connect", remote))
    wire.respond(("c", ""))
    wire.lose()
    wire = play.dialled(play.wait(1.0))
    play.send("c", "k", b"for it anyway")
    assert len(every(wire.respond(("c", "")), PeerUp)) == 1
    assert wire.bodies() == [b"for it anyway"]


def linked(play: Play) -> tuple[Wire, Wire]:
    """Two connections of a peer: it said on the first that it wants what was sent while the second was being made."""
    old = play.peer(LOW, ("c", ""))
    new = play.dialled(play.call("connect", "remote"))
    play.send("d", "k", b"before it said so")
    old.send(Subscribe("d", "", 1))
    assert play.store.deliveries(LOW) == []
    return old, new


def test_what_was_kept_for_a_connection_is_linked_though_its_list_is_known() -> None:
    play = Play()
    _, new = linked(play)
    new.respond(("c", ""), ("d", ""))
    assert play.store.deliveries(LOW) == [1]


def test_what_was_linked_and_failed_is_linked_later_though_nothing_else_is_to_be_stored() -> None:
    """The other connection of the peer takes it."""
    play = Play()
    old, new = linked(play)
    play.hold_commits = True
    new.respond(("c", ""), ("d", ""))
    play.fail()
    play.hold_commits = False
    play.wait(2.0)
    assert play.store.deliveries(LOW) == [1]
    assert old.bodies() == [b"before it said so"]


def test_a_failure_of_something_else_does_not_undo_such_a_handshake() -> None:
    play = Play()
    shaken(play, ("c", ""))
    play.hold_commits = True
    play.call("subscribe", "own", "")
    wire = play.accepted(LOW)
    assert every(wire.request(("c", "")), PeerUp)
    play.fail()
    play.hold_commits = False
    assert play.knows() == {Subscription("c", "")}
    wire.send(Subscribe("d", "", 1))
    assert play.knows() == {Subscription("c", ""), Subscription("d", "")} == play.store.load().peers[LOW].subscriptions


def test_a_send_apart_waits_until_room_at_a_quota_is_found() -> None:
    """D-10: nothing is committed meanwhile, and what makes room is found again where there was none on the disk."""
    play = Play(policy=Policy(quota_policy=QuotaPolicy.DROP_OLDEST), limits=Limits(outbox_messages=3))
    play.peer(LOW, ("c", "")).lose()
    for number in range(2):
        play.send("c", "k", b"%d" % number)
    play.store.full = True
    assert isinstance(only(play.call("send", "c", "k", b"refused"), Stored).error, DiskFull)
    assert inside(play.node).commits.apart
    play.store.full = False
    play.hold_searches = True
    commits = len(play.commits)
    receipt = play.node.send_many([("c", "k", b"2"), ("c", "k", b"3")], now=play.now)
    assert every(play.run(), Stored) == []
    assert len(play.searches) == 1
    assert len(play.commits) == commits
    assert only(play.looked(), Stored).tokens == [receipt]
    assert [message.body for message in play.store.messages] == [b"1", b"2", b"3"]
    assert not inside(play.node).commits.apart
