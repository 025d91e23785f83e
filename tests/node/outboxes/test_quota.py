"""Quotas of outboxes: raise, drop the oldest, skip, and the notice before (D-10)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from tolliver_proto import (
    Action,
    Fetch,
    Limits,
    Message,
    Notice,
    NoticeKind,
    OutboxFull,
    Policy,
    Receipt,
    Stored,
    StoreError,
    encode,
)
from tolliver_proto._testing.invariants import Ledger, Sent, SimFailure, audit
from tolliver_proto._testing.world import LOSSY, TIGHT
from tolliver_proto.errors import Blocked
from tolliver_proto.node import Acked, QuotaPolicy
from tolliver_proto.store import RemoveDeliveries, RemoveMessages, StoredMessage, StoreMessages
from tolliver_proto.testing import SimNet

from ..play import HIGH, LOW, OTHER, Play, every, notices, only

WANTED = ("c", "")
DROP, SKIP = Policy(quota_policy=QuotaPolicy.DROP_OLDEST), Policy(quota_policy=QuotaPolicy.SKIP)
ROOMY = 2**40


def stage(policy: Policy, *peers: UUID, messages: int = ROOMY, size: int = ROOMY, **limits: Any) -> Play:
    """Those peers are away, and want everything."""
    play = Play(policy=policy, limits=Limits(outbox_messages=messages, outbox_bytes=size, **limits))
    for peer in peers or (LOW,):
        play.peer(peer, WANTED).lose()
    return play


def send(play: Play, *bodies: bytes) -> tuple[Receipt, list[Action]]:
    receipt = play.node.send_many([("c", "k", body) for body in bodies], now=play.now)
    return receipt, play.run()


def numbered(first: int, last: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, last + 1)]


def waiting(play: Play, peer: UUID = LOW) -> list[bytes]:
    rows = {message.seq: message.body for message in play.store.messages}
    return [rows[seq] for seq in play.store.deliveries(peer)]


def sound(play: Play) -> None:
    play.wait(1.0)
    audit(play.node, play.store)


def told(actions: list[Action], kind: NoticeKind) -> list[str]:
    return [notice.detail for notice in every(actions, Notice) if notice.kind is kind]


# Drop that peer's oldest.


def test_the_oldest_go_in_the_commit_that_stores_the_newest() -> None:
    play = stage(DROP, messages=3)
    send(play, *numbered(1, 3))
    commits = len(play.commits)
    receipt, actions = send(play, b"4", b"5")
    assert only(actions, Stored).tokens == [receipt]
    assert list(receipt.counts) == [1, 1]
    assert waiting(play) == [b"3", b"4", b"5"]
    [commit] = play.commits[commits:]
    assert {type(operation) for operation in commit.operations} == {StoreMessages, RemoveDeliveries, RemoveMessages}
    assert told(actions, NoticeKind.DROPPED_OLDEST)[0].startswith("2 messages, the oldest")
    assert play.node.stats().dropped_oldest == 2
    assert not play.fetches, "no body is read for that"
    sound(play)


@pytest.mark.parametrize(("channel", "key"), [("c", ""), ("c", "key"), ("c/longer", "k")])
def test_a_message_takes_as_many_bytes_as_its_frame(channel: str, key: str) -> None:
    play = Play()
    play.peer(LOW, ("", "")).lose()
    play.send(channel, key, b"body")
    assert play.node.peers()[0].pending_bytes == len(encode(Message(channel, key, b"body", 1)))


def test_as_many_go_as_make_room_in_bytes() -> None:
    play = stage(DROP)
    send(play, b"x" * 100)
    size = play.node.peers()[0].pending_bytes
    play = stage(DROP, size=3 * size)
    for letter in (b"a", b"b", b"c"):
        send(play, letter * 100)
    send(play, b"d" * 101)
    assert [body[:1] for body in waiting(play)] == [b"c", b"d"]
    assert play.node.peers()[0].pending_bytes == 2 * size + 1
    sound(play)


def test_only_that_peers_delivery_goes() -> None:
    """I3: of a message that others are owed too."""
    play = stage(Policy(quota_policies={LOW: QuotaPolicy.DROP_OLDEST}), LOW, OTHER, messages=4)
    send(play, b"1", b"2")
    play.node.forget_peer(OTHER, now=play.now)
    play.run()
    play.peer(OTHER, WANTED).lose()
    send(play, b"3", b"4")
    send(play, b"5")
    assert waiting(play) == numbered(2, 5)
    assert waiting(play, OTHER) == numbered(3, 5)
    send(play, b"6")
    with pytest.raises(Blocked, match=f"peer {OTHER}") as refused:
        send(play, b"7")
    assert isinstance(refused.value, OutboxFull)
    assert (waiting(play), waiting(play, OTHER)) == (numbered(3, 6), numbered(3, 6)), "all or none"
    sound(play)


def test_what_is_in_flight_goes_last() -> None:
    play = stage(DROP, messages=5, window_messages=2)
    wire = play.peer(LOW, WANTED)
    send(play, *numbered(1, 5))
    [first, _second] = wire.messages()
    send(play, b"6", b"7")
    assert waiting(play) == [b"1", b"2", b"5", b"6", b"7"]
    wire.ack(first)
    assert wire.bodies() == [b"5"], "those that went are not sent"
    send(play, b"8", b"9", b"10")
    assert waiting(play) == [b"2", b"5", b"8", b"9", b"10"]
    sound(play)


def test_what_is_in_flight_goes_where_nothing_else_is_left() -> None:
    play = stage(DROP, messages=3, window_messages=2)
    wire = play.peer(LOW, WANTED)
    send(play, *numbered(1, 3))
    held = wire.messages()
    send(play, *numbered(4, 6))
    assert waiting(play) == numbered(4, 6)
    wire.ack(*held)  # late: they mean nothing
    assert wire.bodies() == [b"4", b"5"], "there is room in the window"
    assert play.node.stats().stray_acks == 2
    sound(play)


def test_what_was_due_again_goes_too() -> None:
    play = stage(DROP, messages=2, window_messages=1)
    wire = play.peer(LOW, WANTED)
    send(play, b"1", b"2")
    play.wait(15.0)
    wire.got()
    send(play, b"3", b"4")
    assert waiting(play) == [b"3", b"4"]
    play.wait(100.0)
    assert set(wire.bodies()) == {b"3", b"4"}
    sound(play)


def test_one_search_is_enough_for_many_sends() -> None:
    play = stage(DROP, messages=1000)
    send(play, *numbered(1, 1000))
    for number in range(1001, 1201):
        send(play, b"%d" % number)
    assert play.finds == 1
    assert waiting(play) == numbered(201, 1200)
    sound(play)


def test_a_search_goes_as_far_as_the_bytes_of_one_large_message_need() -> None:
    """More than the first piece has, and not all."""
    play = stage(DROP)
    send(play, b"000")
    size = play.node.peers()[0].pending_bytes
    play = stage(DROP, size=600 * size)
    send(play, *(b"%03d" % number for number in range(600)))
    large = bytes(300 * size - size + 3)
    send(play, large)
    assert waiting(play) == [*(b"%03d" % number for number in range(300, 600)), large]
    assert play.finds == 2
    sound(play)


def test_sends_that_wait_for_room_keep_their_order() -> None:
    play = stage(DROP, LOW, OTHER, messages=3)
    send(play, *numbered(1, 3))
    play.hold_searches = True
    first, _ = send(play, b"4")
    second, actions = send(play, b"5")
    assert not every(actions, Stored)
    tokens = [token for stored in every(play.looked() + play.looked(), Stored) for token in stored.tokens]
    assert tokens == [first, second]
    assert waiting(play) == waiting(play, OTHER) == numbered(3, 5)
    sound(play)


def test_a_later_send_waits_its_turn() -> None:
    """One to nobody that is full."""
    play = stage(DROP, LOW, messages=2)
    play.peer(OTHER, ("other", "")).lose()
    send(play, b"1", b"2")
    play.hold_searches = True
    first, _ = send(play, b"3")
    second = play.node.send("other", "", b"4", now=play.now)
    assert not every(play.run(), Stored)
    assert [token for stored in every(play.looked(), Stored) for token in stored.tokens] == [first, second]
    assert [message.body for message in play.store.messages] == [b"2", b"3", b"4"]
    sound(play)


def test_more_than_is_stored_so_far() -> None:
    """A search finds them once they are stored."""
    play = stage(DROP, messages=3)
    play.hold_commits = True
    for bodies in (numbered(1, 3), [b"4"], [b"5"]):
        send(play, *bodies)
    while play.held:
        play.finish()
    play.hold_commits = False
    play.run()
    assert waiting(play) == numbered(3, 5)
    sound(play)


def test_more_at_once_than_the_whole_quota_is_refused() -> None:
    play = stage(DROP, messages=3)
    send(play, b"1")
    with pytest.raises(OutboxFull, match=r"more than its whole quota.*Send fewer at once"):
        send(play, *numbered(2, 5))
    assert waiting(play) == [b"1"]
    send(play, *numbered(2, 4))
    assert waiting(play) == numbered(2, 4)
    sound(play)


def test_an_ack_in_between_is_no_loss_and_no_drop() -> None:
    play = stage(DROP, messages=3)
    wire = play.peer(LOW, WANTED)
    send(play, *numbered(1, 3))
    sent = wire.messages()
    play.hold_searches = True
    send(play, b"4")
    wire.ack(*sent[:2])
    play.looked()
    assert play.node.stats().dropped_oldest == 0, "the acks made room"
    wire.ack(sent[2])
    play.hold_searches = False
    for number in range(5, 9):
        send(play, b"%d" % number)
    assert waiting(play) == numbered(6, 8)
    assert play.node.stats().dropped_oldest == 2
    sound(play)


def test_an_ack_while_the_search_waits_for_a_commit() -> None:
    """It was found, acknowledged and removed before the search was over."""
    play = stage(DROP, messages=4)
    wire = play.peer(LOW, WANTED)
    send(play, *numbered(1, 4))
    sent = wire.messages()
    play.hold_searches = True
    send(play, *numbered(5, 8))
    play.hold_commits = True
    play.call("subscribe", "x", "")  # a commit runs when the search brings what it has found
    wire.got()
    play.looked()
    wire.ack(*sent[:2])
    play.hold_searches = play.hold_commits = False
    play.finish()
    play.wait(1.0)
    assert waiting(play) == numbered(5, 8)
    assert play.node.stats().dropped_oldest == 2
    sound(play)


def test_what_was_known_and_expired_is_not_dropped_again() -> None:
    policy = Policy(quota_policy=QuotaPolicy.DROP_OLDEST, expire_after=100.0)
    play = stage(policy, messages=4)
    send(play, *numbered(1, 4))
    send(play, b"5")
    play.store.age = 101.0
    play.wait(20.0)
    assert waiting(play) == []
    play.store.age = 0.0
    send(play, *numbered(6, 9))
    send(play, b"10")
    assert waiting(play) == numbered(7, 10)
    assert play.node.stats().dropped_oldest == 2
    sound(play)


def test_what_is_set_aside_neither_counts_nor_goes() -> None:
    """T-09."""
    play = stage(DROP, messages=4)
    send(play, b"bad", *numbered(1, 3))
    play.store.corrupt(play.store.messages[0].seq)  # it is set aside when it is read
    wire = play.peer(LOW, WANTED)
    assert [peer.parked for peer in play.node.peers()] == [1]
    wire.lose()
    send(play, b"4")
    send(play, b"5")
    assert waiting(play) == [b"bad", *numbered(2, 5)]
    play.call("retry", LOW)
    send(play, b"6")
    assert waiting(play) == numbered(3, 6), "it is the oldest again, and it was one too many"
    sound(play)


def test_a_search_that_fails_fails_the_send_and_no_other() -> None:
    play = stage(DROP, LOW, OTHER, messages=2)
    send(play, b"1", b"2")
    play.search_error = StoreError("disk")
    play.hold_searches = True
    first, _ = send(play, b"3")
    second, _ = send(play, b"4")
    actions = play.looked()
    [failed] = every(actions, Stored)
    assert (failed.tokens, str(failed.error)) == ([first], "disk")
    play.search_error = None
    play.hold_searches = False
    [stored] = every(play.looked(), Stored)
    assert (stored.tokens, stored.error) == ([second], None)
    assert waiting(play) == [b"2", b"4"]
    sound(play)


def test_a_send_that_found_room_before_the_search_failed_is_stored() -> None:
    play = stage(DROP, messages=2)
    wire = play.peer(LOW, WANTED)
    send(play, b"1", b"2")
    play.hold_searches = True
    waits, _ = send(play, b"3")
    wire.ack(*wire.messages())
    dialled = play.dialled(play.call("connect", "there"), OTHER)
    stored = every(dialled.lose(), Stored)  # the send that waits is tried again
    assert [(one.tokens, one.error) for one in stored] == [([waits], None)]
    play.search_error = StoreError("disk")
    assert not every(play.looked(), Stored)
    assert waiting(play) == [b"3"]
    play.search_error, play.hold_searches = None, False
    sound(play)


def test_where_the_commit_fails_the_room_stays() -> None:
    """As with an acknowledgement: the removal waits for the next commit."""
    play = stage(DROP, messages=2)
    send(play, b"1", b"2")
    play.hold_commits = True
    receipt, _ = send(play, b"3")
    [failed] = every(play.fail(), Stored)
    assert failed.tokens == [receipt]
    assert failed.error is not None
    assert waiting(play) == [b"1", b"2"]
    play.hold_commits = False
    play.wait(2.0)
    send(play, b"4")
    assert waiting(play) == [b"2", b"4"]
    assert play.node.stats().dropped_oldest == 1
    sound(play)


def test_a_crash_before_that_commit_leaves_all_as_it_was() -> None:
    play = stage(DROP, messages=2)
    send(play, b"1", b"2")
    play.hold_commits = True
    send(play, b"3")
    later = play.restart(policy=DROP)
    assert waiting(later) == [b"1", b"2"]
    send(later, b"4")
    assert waiting(later) == [b"2", b"4"]
    sound(later)


def test_a_watcher_is_told_as_of_what_was_forgotten() -> None:
    play = stage(DROP, messages=1)
    receipt, _ = send(play, b"1")
    play.node.watch(receipt)
    _, actions = send(play, b"2")
    assert only(actions, Acked).tokens == [receipt]
    assert only(actions, Acked).error is not None


def test_many_drops_are_told_once_a_minute_with_their_number() -> None:
    play = stage(DROP, messages=1)
    actions = [action for number in range(12) for action in send(play, b"%d" % number)[1]]
    assert len(told(actions, NoticeKind.DROPPED_OLDEST)) == 1
    [sum_of_a_minute] = told(play.wait(61.0), NoticeKind.DROPPED_OLDEST)
    assert sum_of_a_minute.startswith("10 messages")


def test_a_store_that_has_lost_them_makes_no_room() -> None:
    play = stage(DROP, messages=2)
    send(play, b"1", b"2")
    play.store.commit([RemoveDeliveries(LOW, [(1, 2)])])  # behind the node's back
    receipt, actions = send(play, b"3")
    [failed] = every(actions, Stored)
    assert failed.tokens == [receipt]
    assert isinstance(failed.error, OutboxFull)


def test_what_was_kept_for_a_connection_counts_once_it_is_stored() -> None:
    """T-62: it became this peer's while the search ran, and was not found."""
    play = stage(DROP, messages=2)
    send(play, b"1", b"2")
    wire = play.dialled(play.call("connect", "there"), LOW)
    for body in (b"d1", b"d2"):
        play.send("d", "", body)
    play.hold_searches = True
    play.hold_commits = True
    receipt, _ = send(play, b"3")
    wire.respond(WANTED, ("d", ""))
    play.looked()
    assert play.pending() == 4
    play.hold_searches = play.hold_commits = False
    [stored] = [one for one in every(play.finish(), Stored) if receipt in one.tokens]
    assert stored.error is None
    assert waiting(play) == [b"d2", b"3"]
    sound(play)


# Skip that peer.


def test_a_full_peer_is_left_out_and_the_others_get_it() -> None:
    play = stage(Policy(quota_policies={LOW: QuotaPolicy.SKIP}), LOW, OTHER, messages=3)
    send(play, b"1")
    play.node.forget_peer(OTHER, now=play.now)
    play.run()
    play.peer(OTHER, WANTED).lose()
    receipt, actions = send(play, *numbered(2, 4))
    assert list(receipt.counts) == [2, 2, 1]
    assert (waiting(play), waiting(play, OTHER)) == (numbered(1, 3), numbered(2, 4))
    assert told(actions, NoticeKind.SKIPPED)[0].startswith("1 messages were not kept")
    assert play.node.stats().skipped == 1
    sound(play)


def test_each_of_a_send_goes_to_its_own_recipients_but_for_those_that_are_full() -> None:
    play = stage(SKIP, messages=2)
    play.peer(OTHER, ("c", "a")).lose()
    play.peer(HIGH, ("c", "b")).lose()
    send(play, b"1", b"2")
    items = [("c", "a", b"3"), ("c", "b", b"4"), ("c", "b", b"5")]
    receipt = play.node.send_many(items, now=play.now)
    play.run()
    assert list(receipt.counts) == [1, 1, 1]
    assert [waiting(play, peer) for peer in (LOW, OTHER, HIGH)] == [[b"1", b"2"], [b"3"], [b"4", b"5"]]
    sound(play)


def test_nobody_left_is_nobody() -> None:
    """T-53: 0 recipients, and nothing is kept."""
    play = stage(SKIP, messages=1)
    send(play, b"1")
    receipt, actions = send(play, b"2", b"3")
    assert only(actions, Stored).tokens == [receipt]
    assert (list(receipt.counts), waiting(play)) == ([0, 0], [b"1"])
    assert play.node.stats().skipped == 2
    sound(play)


def test_a_smaller_one_finds_room_in_bytes() -> None:
    play = stage(SKIP, size=200)
    send(play, b"x" * 100)
    receipt, _ = send(play, b"y" * 100, b"z")
    assert list(receipt.counts) == [0, 1]
    sound(play)


def test_messages_of_one_send_take_room_from_each_other() -> None:
    play = stage(SKIP, size=200)
    receipt, _ = send(play, b"x" * 100, b"y" * 100, b"z")
    assert list(receipt.counts) == [1, 0, 1]
    sound(play)


def test_a_peer_that_is_above_its_quota_is_left_out_too() -> None:
    """The quota was larger in an earlier life."""
    play = stage(SKIP, messages=500)
    send(play, *numbered(1, 400))
    play = Play(store=play.store.snapshot(), policy=SKIP, limits=Limits(outbox_messages=300))
    receipt, actions = send(play, b"401")
    assert list(receipt.counts) == [0]
    assert told(actions, NoticeKind.SKIPPED)
    assert len(waiting(play)) == 400
    sound(play)


def test_what_was_skipped_is_not_given_when_it_connects() -> None:
    """T-62: messages are kept for whoever connects, and this one is known and full."""
    play = stage(SKIP, LOW, HIGH, messages=2)
    send(play, b"1")
    send(play, b"2")
    wire = play.dialled(play.call("connect", "there"), LOW)
    send(play, b"3")
    wire.respond(WANTED)
    assert play.pending(LOW) == 2
    assert b"3" not in wire.bodies()
    sound(play)


# Raise, and by peer.


def test_the_default_raises_and_stores_nothing() -> None:
    play = stage(Policy(), messages=1)
    send(play, b"1")
    with pytest.raises(OutboxFull, match=r"Wait until it has caught up, .* or choose another quota_policy"):
        send(play, b"2")
    assert waiting(play) == [b"1"]
    sound(play)


def test_a_peer_is_full_from_a_refusal_until_something_comes_or_goes() -> None:
    play = stage(Policy(), messages=4)
    wire = play.peer(LOW, WANTED)

    def numbers() -> tuple[float, bool, int]:
        (one,) = play.node.numbers(play.now)
        return one.quota_used, one.full, play.node.stats().refused_sends

    with pytest.raises(OutboxFull):
        send(play, *numbered(1, 5))
    assert numbers() == (0.0, False, 1)  # it is too large for any outbox
    send(play, *numbered(1, 3))
    with pytest.raises(OutboxFull):
        send(play, *numbered(4, 5))
    assert numbers() == (0.75, True, 2)
    assert play.node.stats().pending_bytes == play.node.peers()[0].pending_bytes > 0
    send(play, b"4")
    assert numbers() == (1.0, False, 2)
    with pytest.raises(OutboxFull):
        send(play, b"5")
    assert numbers() == (1.0, True, 3)
    wire.ack(wire.messages()[0])
    assert numbers() == (0.75, False, 3)


@pytest.mark.parametrize(("messages", "share"), [(12, 0.5), (4, 0.75)])
def test_the_used_share_is_that_of_the_nearer_quota(messages: int, share: float) -> None:
    play = stage(Policy(), messages=4)
    send(play, b"1")
    play = stage(Policy(), messages=messages, size=6 * play.node.peers()[0].pending_bytes)
    send(play, *numbered(1, 3))
    assert play.node.numbers(play.now)[0].quota_used == share


def test_each_peer_has_its_own() -> None:
    policies = {LOW: QuotaPolicy.DROP_OLDEST, OTHER: QuotaPolicy.SKIP}
    play = stage(Policy(quota_policies=policies), LOW, OTHER, messages=2)
    send(play, b"1", b"2")
    receipt, _ = send(play, b"3")
    assert receipt.recipients == 1
    assert (waiting(play), waiting(play, OTHER)) == ([b"2", b"3"], [b"1", b"2"])
    play.peer(HIGH, WANTED).lose()
    send(play, b"4", b"5")
    with pytest.raises(OutboxFull, match=str(HIGH)):
        send(play, b"6")
    assert (waiting(play), waiting(play, OTHER)) == ([b"4", b"5"], [b"1", b"2"])
    sound(play)


@pytest.mark.parametrize(
    "options",
    [
        {"quota_policy": "skip"},
        {"quota_policies": [LOW]},
        {"quota_policies": {"low": QuotaPolicy.SKIP}},
        {"quota_policies": {LOW: "skip"}},
    ],
)
def test_a_policy_that_cannot_be_meant(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"QuotaPolicy\.RAISE, QuotaPolicy\.DROP_OLDEST, QuotaPolicy\.SKIP|a dict"):
        Policy(**options)


def test_nobody_changes_a_policy_afterwards() -> None:
    policies = {LOW: QuotaPolicy.SKIP}
    policy = Policy(quota_policies=policies)
    policies[OTHER] = QuotaPolicy.SKIP
    assert policy.quota_of(OTHER) is QuotaPolicy.RAISE
    assert hash(policy)


# The notice before.


def test_at_80_percent_it_is_told_once_a_crossing() -> None:
    play = stage(Policy(), messages=10)
    wire = play.peer(LOW, WANTED)
    story = [(7, 0), (8, 1), (10, 0), (7, 0), (8, 0), (6, 0), (9, 0), (5, 0), (8, 1), (9, 0)]
    acked = 0
    sent: list[Any] = []
    for count, times in story:
        actions: list[Action] = []
        while play.pending() < count:
            actions += send(play, b"x")[1]
        sent += wire.messages()
        while play.pending() > count:
            actions += wire.ack(sent[acked])
            acked += 1
        assert len(told(actions, NoticeKind.OUTBOX_FILLING)) == times, (count, times)
        for detail in told(actions, NoticeKind.OUTBOX_FILLING):
            assert detail.startswith("8 of at most 10 messages")
    sound(play)


def test_at_80_percent_of_the_bytes_too() -> None:
    play = stage(Policy(), size=1000)
    assert NoticeKind.OUTBOX_FILLING not in notices(send(play, b"x" * 700)[1])
    assert NoticeKind.OUTBOX_FILLING in notices(send(play, b"x" * 100)[1])
    assert not every(send(play, b"")[1], Fetch)


def removing(seq: int) -> RemoveDeliveries:
    return RemoveDeliveries(LOW, [(seq, seq)])


def storing(seq: int) -> StoreMessages:
    return StoreMessages([StoredMessage(seq, seq, "c", "", b"%d" % seq, 20)], [[LOW]])


def ledger(policy: Policy) -> Ledger:
    """Of a simulated instance that owes LOW two messages."""
    one = Ledger(HIGH, [])
    one.policy = policy
    one.sent = {b"%d" % seq: Sent(seq, "c", "", b"%d" % seq) for seq in range(1, 5)}
    one.applied([storing(1), storing(2)])
    return one


def test_a_simulated_network_sees_what_goes_for_nothing() -> None:
    """I3."""
    with pytest.raises(SimFailure, match="without an ack"):
        ledger(SKIP).applied([storing(3), removing(1)])
    with pytest.raises(SimFailure, match="makes room for nothing"):
        ledger(DROP).applied([removing(1)])
    fine = ledger(DROP)
    fine.applied([storing(3), removing(1)])
    fine.not_applied([storing(4), removing(2)])
    fine.applied([removing(2)])
    assert not any(fine.is_owed(Sent(0, "c", "", b"%d" % seq), LOW) for seq in (1, 2))
    assert fine.is_owed(Sent(0, "c", "", b"3"), LOW)
    skipped = Sent(0, "c", "", b"9")
    skipped.full_for.add(LOW)
    assert not fine.is_owed(skipped, LOW)


@pytest.mark.search
@pytest.mark.parametrize("quota", [8, 15])
def test_simulated_networks_lose_nothing_else(quota: int) -> None:
    """I3: what goes for newer ones goes with them, what is skipped is told, and all else is handled."""
    lost: Counter[str] = Counter()
    for seed in range(50, 66):
        lost.update(SimNet(seed, policy=LOSSY, limits=replace(TIGHT, outbox_messages=quota)).run().counts)
    assert lost["given_up"] > 0
    assert lost["not_owed"] > 0


@pytest.mark.search
def test_a_peer_that_is_held_when_there_is_room_for_a_send_may_be_skipped() -> None:
    """T-61: it was not when the send came, and the simulator knows."""
    assert SimNet(65, policy=LOSSY, limits=replace(TIGHT, outbox_messages=3)).run().counts["not_owed"]
