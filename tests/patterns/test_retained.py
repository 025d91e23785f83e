"""Last values: kept, and given once to whoever subscribes anew (P-30 to P-36)."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from tolliver_proto import (
    Ack,
    Acl,
    Action,
    ConnectionClosing,
    Dial,
    Limits,
    LocalProtocolError,
    Message,
    Notice,
    NoticeKind,
    OwnLimitExceeded,
    PeerIdentity,
    Policy,
    Receipt,
    ReservedChannel,
    Rights,
    Stored,
    StoreError,
    Subscribe,
    Subscription,
    Unsubscribe,
)
from tolliver_proto._patterns.last_values import AGAIN
from tolliver_proto._patterns.value_index import Name, Reading
from tolliver_proto._testing.invariants import audit
from tolliver_proto.errors import DiskFull, UndeliveredReason
from tolliver_proto.node import Acked, RetainedValue
from tolliver_proto.store import VALUES

from .play import HIGH, LOW, Play, Wire, every, notices, only


def retain(play: Play, *items: tuple[str, str, bytes | None]) -> list[Any]:
    receipts = [play.values.retain(*item, now=play.now) for item in items]
    play.run()
    return receipts


def bodies(wire: Wire) -> list[bytes]:
    """Those of the messages that came; they are acknowledged."""
    messages = [frame for frame in wire.got() if isinstance(frame, Message)]
    wire.ack(*messages)
    return [message.body for message in messages]


def kept(
    play: Play, after: tuple[str, str] | None = None, count: int = 1000, channel: str | None = None
) -> list[RetainedValue]:
    """The last values that the application lists; the node began at 1000 s."""
    token = play.values.retained(after, count, channel, play.now, 1000.0)
    play.run()
    return token.values


def waiting(play: Play) -> list[Any]:
    """Deliveries on disk, without the last values themselves."""
    return play.store.find(None, 0, 100, 0.0)


def errors(actions: list[Action]) -> list[Exception]:
    return [stored.error for stored in every(actions, Stored) if stored.error is not None]


def test_a_new_subscriber_gets_the_newest_value_once_and_then_the_changes() -> None:
    play = Play()
    retain(play, ("c", "k", b"1"), ("c", "k", b"2"), ("c", "other", b"x"))
    wire = play.accepted()
    wire.request(("c", "k"))
    assert bodies(wire) == [b"2"]
    play.send("c", "k", b"sent")
    retain(play, ("c", "k", b"3"))
    assert bodies(wire) == [b"sent", b"3"]


def test_one_that_subscribes_on_its_connection_gets_it_before_what_is_sent_later() -> None:
    play = Play()
    retain(play, ("c", "k", b"1"))
    wire = play.peer(LOW)
    play.hold_looks = True
    wire.send(Subscribe("c", "k", 7))
    play.send("c", "k", b"while it was looked up")
    assert play.seen() == []
    play.send("c", "k", b"later")
    got = wire.got()
    assert got[0] == Ack(7)
    assert [frame.body for frame in got if isinstance(frame, Message)] == [b"1", b"later"]


def test_a_value_that_nobody_subscribes_to_has_no_place_in_the_order_of_messages() -> None:
    play = Play()
    for body in (b"1", b"2"):
        [receipt] = retain(play, ("c", "k", body))
        assert (receipt.recipients, receipt.last_seq + 1 - receipt.first_seq) == (0, 0)
    play.peer(LOW, ("other", "")).lose()
    play.send("other", "", b"of another seq")
    [receipt] = retain(play, ("c", "k", b"3"))
    assert (receipt.recipients, receipt.last_seq + 1 - receipt.first_seq) == (0, 0)


def test_what_does_not_match_is_not_given_and_a_wildcard_gets_all_that_does() -> None:
    play = Play()
    retain(play, ("c", "k", b"ck"), ("c", "", b"c"), ("d", "k", b"dk"), ("", "", b""))
    for number, (subscription, expected) in enumerate(
        {
            ("c", ""): [b"c", b"ck"],
            ("", "k"): [b"ck", b"dk"],
            ("", ""): [b"", b"c", b"ck", b"dk"],
            ("d", "other"): [],
        }.items()
    ):
        wire = play.accepted(UUID(int=LOW.int + number))
        wire.request(subscription)
        assert sorted(bodies(wire)) == expected


def test_a_value_that_matches_several_new_entries_comes_once() -> None:
    play = Play()
    retain(play, ("c", "k", b"1"))
    wire = play.accepted()
    wire.request(("c", "k"), ("c", ""), ("", "k"), ("", ""))
    assert bodies(wire) == [b"1"]
    wire.send(Subscribe("c", "more", 9))
    assert bodies(wire) == []


def test_the_same_list_again_gets_nothing_twice_after_a_restart_too() -> None:
    play = Play()
    retain(play, ("c", "k", b"1"))
    wire = play.accepted()
    wire.request(("c", "k"))
    assert bodies(wire) == [b"1"]
    play.wait(1)
    wire.lose()
    for again in (play, play.restart()):
        wire = again.accepted()
        wire.request(("c", "k"))
        assert bodies(wire) == []
        wire.lose()


def test_a_longer_list_gets_what_is_new_in_it_alone() -> None:
    play = Play()
    retain(play, ("c", "k", b"1"), ("d", "", b"2"))
    wire = play.accepted()
    wire.request(("c", "k"))
    assert bodies(wire) == [b"1"]
    wire.lose()
    wire = play.accepted()
    wire.request(("c", "k"), ("d", ""))
    assert bodies(wire) == [b"2"]


def test_it_is_sent_again_until_it_is_acknowledged() -> None:
    play = Play()
    retain(play, ("c", "k", b"1"))
    wire = play.accepted()
    wire.request(("c", "k"))
    wire.lose()  # before it acknowledges anything
    again = play.restart()
    wire = again.accepted()
    wire.request(("c", "k"))
    assert bodies(wire) == [b"1"]


def test_who_subscribes_anew_after_an_unsubscribe_gets_it_again() -> None:
    play = Play()
    retain(play, ("c", "k", b"1"))
    wire = play.peer(LOW)
    for number in (1, 3):
        wire.send(Subscribe("c", "k", number))
        assert bodies(wire) == [b"1"]
        wire.send(Unsubscribe("c", "k", number + 1))
        assert bodies(wire) == []


def test_one_that_unsubscribes_gets_no_more_of_the_values_and_their_disk_is_free() -> None:
    """Those that have gone out stay until they are acknowledged, and messages that were sent stay."""
    play = Play(limits=Limits(window_messages=2))
    retain(play, *[("c", str(number), b"%d" % number) for number in range(5)])
    wire = play.peer(LOW, ("c", "sent"))
    for number in range(3):
        play.send("c", "sent", b"sent")
        wire.send(Subscribe("c", "", 2 * number + 1))
        assert len(play.store.deliveries(LOW)) <= number + 1 + 5
        wire.send(Unsubscribe("c", "", 2 * number + 2))
    assert len(play.store.deliveries(LOW)) == 3 + 1
    got = []
    while batch := bodies(wire):
        got += batch
    assert got == [b"sent", b"0", b"sent", b"sent"]
    play.wait(1)
    assert waiting(play) == []


def test_a_value_that_still_waits_is_not_queued_again() -> None:
    play = Play(limits=Limits(window_messages=1))
    retain(play, ("c", "a", b"1"), ("c", "b", b"1"), ("c", "c", b"1"))
    wire = play.accepted()
    wire.request(("c", "a"), ("c", "b"))
    wire.send(Subscribe("c", "", 1))
    got = []
    while batch := bodies(wire):
        got += batch
    assert got == [b"1"] * 3
    wire.send(Subscribe("", "", 2))
    assert len(play.store.deliveries(LOW)) == 3, "what was acknowledged is given again"


def test_a_value_that_was_given_in_the_commit_of_its_change_is_not_queued_again() -> None:
    play = Play()
    retain(play, ("c", "a", b"1"), ("c", "b", b"1"))
    play.peer(HIGH, ("c", "a"))  # a value waits for it
    play.hold_looks = True
    wire = play.accepted()
    wire.request(("c", "b"))
    play.values.retain("c", "b", b"2", now=play.now)
    play.hold_looks = False
    play.seen()
    wire.send(Subscribe("c", "", 1))
    assert [message.body for message in wire.messages()] == [b"2", b"1"]


def test_a_newer_value_than_the_one_that_waits_is_given() -> None:
    play = Play()
    retain(play, ("c", "a", b"1"), ("c", "b", b"1"))
    wire = play.peer(LOW)
    wire.send(Subscribe("c", "", 1))
    wire.send(Unsubscribe("c", "", 2))
    retain(play, ("c", "b", b"2"))
    wire.send(Subscribe("c", "", 3))
    assert bodies(wire) == [b"1", b"1", b"2"]


def test_an_old_value_that_was_changed_is_not_taken_for_the_newest_of_a_later_time() -> None:
    """Once nothing waits, changes are not remembered any more."""
    play = Play()
    retain(play, ("c", "a", b"1"))
    wire = play.peer(LOW, ("c", ""))
    retain(play, ("c", "a", b"2"))
    for number in (1, 3):
        wire.ack(*wire.messages())
        wire.send(Unsubscribe("c", "", number))
        wire.send(Subscribe("c", "", number + 1))
    assert bodies(wire) == [b"2"]


def test_rules_that_take_a_value_away_leave_what_waits() -> None:
    """The rules may change again: P-31."""
    play = Play(limits=Limits(window_messages=1))
    retain(play, ("c", "a", b"1"), ("c", "b", b"2"))
    wire = play.peer(LOW, ("c", ""))
    play.call("set_acl", Acl(peers={LOW: Rights(subscribe=(("d", "*"),))}))
    assert len(play.store.deliveries(LOW)) == 2
    assert wire is not None


def test_values_of_one_who_is_forgotten_go_with_all_else() -> None:
    play = Play(limits=Limits(window_messages=1))
    retain(play, ("c", "a", b"1"), ("c", "b", b"2"))
    play.peer(LOW, ("c", ""))
    play.call("forget_peer", LOW)
    assert waiting(play) == []
    wire = play.accepted()
    wire.request(("c", ""))
    assert bodies(wire) == [b"1"]


def test_one_search_for_values_that_are_wanted_no_more_at_a_time() -> None:
    play = Play(limits=Limits(window_messages=1))
    names = [("c", str(number)) for number in range(4)]
    retain(play, *[(*name, b"%d" % number) for number, name in enumerate(names)])
    wire = play.accepted()
    wire.request(*names)
    play.hold_searches = True
    for number in (1, 2, 3):
        wire.send(Unsubscribe("c", str(number), number))
    assert len(play.searches) == 1
    play.looked()
    play.looked()
    assert play.searches == []
    assert bodies(wire) == [b"0"]
    play.wait(1)
    assert play.store.deliveries(LOW) == []


def test_what_waits_cannot_be_looked_up() -> None:
    """The peer comes again with its list; what was to be dropped stays."""
    play = Play(limits=Limits(window_messages=1))
    retain(play, ("c", "a", b"1"), ("c", "b", b"2"))
    wire = play.peer(LOW, ("c", ""))
    play.search_error = StoreError("unreadable")
    wire.send(Subscribe("c", "b", 1))
    assert play.knows() == {Subscription("c", "")}
    wire.send(Unsubscribe("c", "", 2))
    assert len(play.store.deliveries(LOW)) == 2
    play.search_error = None
    wire.send(Subscribe("c", "b", 3))
    assert play.knows() == {Subscription("c", "b")}


def test_a_hold_that_ends_by_subscribing_is_nothing_new_and_one_that_is_over_is() -> None:
    play = Play()
    wire = play.accepted()
    wire.request(("c", "k"))
    retain(play, ("c", "k", b"1"))
    assert bodies(wire) == [b"1"]
    wire.lose()
    wire = play.accepted()
    wire.request()  # held for an hour (T-61)
    retain(play, ("c", "k", b"2"))
    assert bodies(wire) == []
    wire.send(Subscribe("c", "k", 5))
    assert bodies(wire) == [b"2"]
    wire.lose()
    wire = play.accepted()
    wire.request()
    play.wait(3601)
    wire.got()
    wire = play.accepted()
    wire.request(("c", "k"))
    assert bodies(wire) == [b"2"]


def test_it_comes_once_to_a_peer_that_was_connecting() -> None:
    """T-62."""
    play = Play()
    retain(play, ("c", "k", b"1"))
    wire = play.dialled(play.call("connect", "remote"))
    play.send("c", "k", b"kept")
    retain(play, ("c", "k", b"2"))
    wire.respond(("c", "k"))
    assert bodies(wire) == [b"kept", b"2"]
    play.wait(1)
    assert waiting(play) == []


def test_clearing_sends_nothing_and_nobody_gets_it_any_more() -> None:
    play = Play()
    wire = play.accepted()
    wire.request(("c", "k"))
    (receipt, cleared, never) = retain(play, ("c", "k", b"1"), ("c", "k", None), ("never", "", None))
    assert (receipt.recipients, cleared.recipients, never.recipients) == (1, 0, 0)
    assert bodies(wire) == [b"1"]
    other = play.accepted(HIGH)
    other.request(("c", "k"))
    assert bodies(other) == []
    assert play.node.stats().retained == play.node.stats().retained_bytes == 0


def test_access_rules_hold_for_what_is_retained() -> None:
    play = Play(acl=Acl(peers={LOW: Rights(subscribe=(("c", "*"),))}))
    retain(play, ("c", "k", b"1"), ("secret", "", b"2"))
    wire = play.accepted()
    wire.request(("c", ""), ("secret", ""), ("", ""))
    assert bodies(wire) == [b"1"]
    wire.send(Subscribe("secret", "", 3))
    assert bodies(wire) == []


def test_a_change_while_values_are_looked_up_counts_in_the_state_of_the_end() -> None:
    play = Play()
    retain(play, ("c", "a", b"1"), ("c", "b", b"1"), ("c", "gone", b"1"), ("d", "", b"1"))
    play.hold_looks = True
    wire = play.accepted()
    wire.request(("c", ""))
    play.hold_commits = True
    retain(play, ("c", "a", b"2"), ("c", "gone", None), ("d", "", b"2"))
    play.seen()  # of the names that are not in use: none, all were
    assert play.held
    play.finish()
    play.finish()
    assert bodies(wire) == [b"2", b"1"]


def test_a_change_that_is_not_stored_is_not_given() -> None:
    play = Play()
    retain(play, ("c", "k", b"1"))
    play.hold_looks = play.hold_commits = True
    wire = play.accepted()
    wire.request(("c", ""))
    retain(play, ("c", "k", b"never stored"))
    play.seen()
    play.fail()
    play.finish()
    assert bodies(wire) == [b"1"]
    assert play.node.stats().retained_bytes == 3


def test_changes_that_gather_go_with_the_list() -> None:
    play = Play()
    retain(play, ("c", "a", b"1"), ("c", "gone", b"1"))
    play.hold_looks = True
    wire = play.accepted()
    wire.request(("c", ""))
    for name, body in (("a", b"2"), ("gone", None), ("new", b"3")):
        play.values.retain("c", name, body, now=play.now)
    play.seen()
    assert bodies(wire) == [b"2", b"3"]
    play.hold_looks = False
    assert [one.body for one in kept(play)] == [b"2", b"3"]


def test_a_change_that_gathers_while_another_fails_goes_with_the_list() -> None:
    play = Play()
    retain(play, ("c", "k", b"1"))
    play.hold_looks = play.hold_commits = True
    wire = play.accepted()
    wire.request(("c", ""))
    retain(play, ("c", "k", b"never stored"))
    retain(play, ("c", "k", b"3"))
    play.fail()
    play.seen()
    while play.held:
        play.finish()
    assert bodies(wire) == [b"3"]


def test_the_values_come_with_the_list_or_not_at_all() -> None:
    """A commit that fails leaves neither: the peer says its list again."""
    play = Play()
    retain(play, ("c", "k", b"1"))
    play.hold_commits = True
    wire = play.accepted()
    wire.request(("c", "k"))
    play.fail()
    assert (play.pending(), play.node.stats().held_subscriptions) == (0, 0)
    assert play.store.deliveries(LOW) == []
    wire = play.accepted()
    wire.request(("c", "k"))
    play.finish()
    assert bodies(wire) == [b"1"]


@pytest.mark.parametrize("is_restarted", [False, True], ids=["same_life", "after_a_restart"])
def test_the_values_come_with_the_next_list_though_a_message_waits_because_of_one_that_failed(
    is_restarted: bool,
) -> None:
    """The message holds the entries of the failed list for the peer, which has not had their values for that."""
    play = Play()
    retain(play, ("c", "k", b"1"))
    play.peer(LOW).lose()
    play.hold_commits = True
    wire = play.accepted()
    wire.request(("c", ""))
    play.node.send("c", "other", b"x", now=play.now)
    play.run()
    play.fail()
    play.hold_commits = False
    play.finish()
    if is_restarted:
        play = play.restart()
    wire = play.accepted()
    wire.request(("c", ""))
    assert sorted(bodies(wire)) == [b"1", b"x"]


def test_a_subscription_whose_commit_fails_is_said_again() -> None:
    play = Play()
    retain(play, ("c", "k", b"1"))
    wire = play.peer(LOW)
    play.hold_commits = True
    wire.send(Subscribe("c", "k", 5))
    wire.send(Subscribe("d", "", 6))
    play.fail()
    play.finish()
    assert [frame.message_id for frame in wire.got() if isinstance(frame, Ack)] == [6]
    wire.send(Subscribe("c", "k", 5))
    play.finish()
    assert bodies(wire) == [b"1"]


def test_where_the_values_cannot_be_read_the_peer_comes_again() -> None:
    play = Play()
    retain(play, ("c", "k", b"1"))
    play.look_error = StoreError("unreadable")
    wire = play.accepted()
    wire.request(("c", "k"))
    assert [frame for frame in wire.got() if isinstance(frame, Message)] == []
    assert play.knows() == set()
    up = play.peer(HIGH)
    up.send(Subscribe("c", "k", 5))
    assert [frame for frame in up.got() if isinstance(frame, Ack)] == []
    play.look_error = None
    up.send(Subscribe("c", "k", 5))
    assert bodies(up) == [b"1"]


def test_one_list_of_a_peer_after_the_other() -> None:
    """A second connection waits until it is stored what the first one is new to, or that it is not."""
    play = Play()
    retain(play, ("c", "k", b"1"))
    play.hold_looks = True
    first, second = play.accepted(), play.accepted()
    first.request(("c", "k"))
    second.request(("c", "k"))
    play.seen()
    assert bodies(first) + bodies(second) == [b"1"]
    assert play.looks == []


def test_a_connection_that_is_lost_meanwhile_gets_nothing() -> None:
    play = Play()
    retain(play, ("c", "k", b"1"))
    play.hold_looks = True
    wire = play.accepted()
    wire.request(("c", "k"))
    wire.lose()
    play.seen()
    assert play.knows() == set()
    wire = play.peer(LOW)
    wire.send(Subscribe("c", "k", 5))
    wire.lose()
    play.seen()  # it came before the end, and counts
    assert play.knows() == {Subscription("c", "k")}
    wire = play.accepted()
    wire.request(("c", "k"))
    assert bodies(wire) == [b"1"]
    play.node.close(now=play.now)
    play.run()


def test_who_it_is_is_asked_again_after_the_look() -> None:
    """Two keys claim one new UUID: the first is pinned with its list, and the other is refused (D-3)."""
    play = Play()
    retain(play, ("c", "k", b"1"))
    play.hold_looks = True
    wires = [play.accepted(LOW, PeerIdentity(address=key, spki_sha256=key.encode() * 32)) for key in "ab"]
    for wire in wires:
        wire.request(("c", "k"))
    actions = play.seen()
    assert [bodies(wire) for wire in wires] == [[b"1"], []]
    assert NoticeKind.IDENTITY_MISMATCH in notices(actions)


def test_looks_for_two_peers_go_side_by_side() -> None:
    play = Play()
    retain(play, ("c", "k", b"1"), ("d", "", b"2"))
    play.hold_looks = True
    wires = play.accepted(LOW), play.accepted(HIGH)
    wires[0].request(("c", "k"))
    wires[1].request(("d", ""))
    play.looks.reverse()
    play.seen()
    play.seen()
    assert [bodies(wire) for wire in wires] == [[b"1"], [b"2"]]


def test_a_connection_that_is_forgotten_meanwhile_is_left_alone() -> None:
    play = Play()
    retain(play, ("c", "k", b"1"))
    play.hold_looks = True
    wires = play.accepted(LOW), play.peer(HIGH)
    wires[0].request(("c", "k"))
    wires[1].send(Subscribe("c", "k", 5))
    for uuid in (LOW, HIGH):
        play.call("forget_peer", uuid)
    play.wait(60)  # their time to end is over
    play.seen()
    play.seen()
    assert play.knows(LOW) == play.knows(HIGH) == set()


def test_a_connection_that_ends_meanwhile_is_ended() -> None:
    play = Play()
    retain(play, ("c", "k", b"1"))
    play.hold_looks = True
    wire = play.accepted()
    wire.request(("c", "k"))
    play.call("set_acl", Acl(default=Rights.none()))
    play.seen()
    assert play.knows() == set()


def test_a_hold_that_ends_meanwhile_makes_it_new() -> None:
    play = Play()
    wire = play.accepted()
    wire.request(("c", "k"))
    retain(play, ("c", "k", b"1"), ("d", "", b"2"))
    assert bodies(wire) == [b"1"]
    wire.lose()
    wire = play.accepted()
    wire.request()
    play.wait(3599)
    wire.lose()
    play.hold_looks = True
    wire = play.accepted()
    wire.request(("c", "k"), ("d", ""))
    play.node.handle_timeout(now=play.now + 2)
    play.run()
    play.seen()
    play.seen()
    assert bodies(wire) == [b"1", b"2"]


def test_many_values_are_looked_up_in_pieces() -> None:
    play = Play()
    items = [("c", f"{number:04}", b"%d" % number) for number in range(2500)]
    retain(play, *items)
    wire = play.accepted()
    wire.request(("c", ""))
    got = []
    while batch := bodies(wire):
        got += batch
    assert got == [body for _, _, body in items]


def test_what_a_peer_has_no_room_for_is_left_out_and_told() -> None:
    play = Play(limits=Limits(outbox_messages=3))
    retain(play, *[("c", str(number), b"x") for number in range(5)])
    wire = play.accepted()
    actions = wire.request(("c", ""))
    assert bodies(wire) == [b"x"] * 3
    assert NoticeKind.SKIPPED in notices(actions)
    assert play.node.stats().skipped == 2
    other = Play(limits=Limits(outbox_bytes=1), store=play.store)
    wire = other.accepted(HIGH)
    wire.request(("c", ""))
    assert bodies(wire) == []


@pytest.mark.parametrize("limits", [Limits(outbox_messages=4), Limits(outbox_bytes=85)])
def test_values_get_the_room_that_the_messages_of_a_peer_have_left(limits: Limits) -> None:
    play = Play(limits=limits)
    retain(play, *[("c", str(number), b"x") for number in range(5)])
    play.peer(LOW, ("d", "")).lose()
    play.send("d", "", b"waits")
    wire = play.accepted()
    wire.request(("c", ""), ("d", ""))
    assert bodies(wire) == [b"waits", b"x", b"x", b"x"]


def test_on_a_full_disk_a_peer_connects_and_the_values_are_left_out() -> None:
    play = Play()
    retain(play, ("c", "k", b"1"))
    play.store.full = True
    receipt = play.values.retain("c", "k", b"2", now=play.now)
    assert isinstance(errors(play.run())[0], DiskFull)
    wire = play.accepted()
    wire.request(("c", "k"))
    assert bodies(wire) == []
    assert play.knows() == {Subscription("c", "k")}
    (cleared,) = retain(play, ("c", "k", None))
    assert cleared is not receipt
    assert play.node.stats().retained == 0


# Bounds.


def test_there_is_a_bound_for_names_and_bytes_and_a_change_needs_no_more() -> None:
    play = Play(limits=Limits(max_retained=2, max_retained_bytes=20))
    retain(play, ("c", "a", b"123"), ("c", "b", b"1"))
    with pytest.raises(OwnLimitExceeded, match=r"max_retained.*P-35|P-35.*max_retained"):
        play.values.retain("c", "a", b"1" * 20, now=play.now)
    with pytest.raises(OwnLimitExceeded, match="3 values"):
        play.values.retain("c", "new", b"1", now=play.now)
    retain(play, ("c", "a", b"12"), ("c", "b", None), ("c", "new", b"1"))
    assert (play.node.stats().retained, play.node.stats().retained_bytes) == (2, 9)
    assert play.restart().node.stats().retained_bytes == 9


def test_bounds_that_were_lowered_let_values_become_smaller() -> None:
    play = Play()
    retain(play, ("c", "a", b"1" * 50), ("c", "b", b"1" * 50))
    later = Play(store=play.store, limits=Limits(max_retained=1, max_retained_bytes=10))
    retain(later, ("c", "a", b"1" * 40))
    assert later.node.stats().retained == 2


def test_values_of_an_earlier_run_are_counted_before_they_are_read() -> None:
    play = Play()
    retain(play, ("c", "k", b"1"))
    later = Play(store=play.store)
    assert (later.node.stats().retained, later.node.stats().retained_bytes) == (1, 3)


def test_retains_wait_in_order_until_the_values_of_an_earlier_run_are_known() -> None:
    play = Play()
    retain(play, ("c", "k", b"1"))
    later = play.restart()
    later.hold_looks = True
    receipts = [later.values.retain("c", "k", body, now=0.0) for body in (b"2", b"3", None, b"4")]
    receipts.append(later.values.retain("d", "", b"5", now=0.0))
    assert later.run() == []
    is_idle = [later.node.idle]
    actions = later.seen()
    assert {token for stored in every(actions, Stored) for token in stored.tokens} == {*receipts}
    assert [*is_idle, later.node.idle] == [False, True]
    later.hold_looks = False
    assert [one.body for one in kept(later)] == [b"4", b"5"]
    assert len(later.store.messages) == 2, "the older values have gone"


def test_nothing_is_retained_while_the_values_of_an_earlier_run_cannot_be_read() -> None:
    play = Play()
    retain(play, ("c", "k", b"1"))
    later = play.restart()
    later.look_error = StoreError("unreadable")
    later.values.retain("c", "k", b"2", now=0.0)
    assert isinstance(errors(later.run())[0], StoreError)
    wire = later.accepted()
    wire.request(("c", "k"))
    assert bodies(wire) == []
    later.values.retained(now=0.0)
    assert isinstance(errors(later.run())[0], StoreError)
    later.look_error = None
    retain(later, ("c", "k", b"3"))
    assert [one.body for one in kept(later)] == [b"3"]


def test_a_retain_that_waits_is_refused_as_any_other() -> None:
    play = Play()
    retain(play, ("c", "k", b"1"))
    later = Play(store=play.store, limits=Limits(max_retained=1))
    later.values.retain("c", "new", b"2", now=0.0)
    assert isinstance(errors(later.run())[0], OwnLimitExceeded)


def test_each_value_is_on_disk_once_however_often_it_changes() -> None:
    play = Play()
    for number in range(5):
        retain(play, ("c", "a", b"%d" % number), ("c", "b", b"x"), ("c", "b", b"y"))
    assert sorted(one.body for one in play.store.messages) == [b"4", b"y"]
    retain(play, ("c", "a", None), ("c", "b", None))
    assert play.store.messages == []


def test_a_value_that_is_set_again_while_it_is_stored_is_kept() -> None:
    play = Play()
    play.hold_commits = True
    for _ in range(2):
        retain(play, ("c", "k", b"1"))
    play.hold_commits = False
    play.finish()
    assert [(one.key, one.body) for one in kept(play)] == [("k", b"1")]
    wire = play.accepted()
    wire.request(("c", ""))
    assert bodies(wire) == [b"1"]


def test_an_instance_is_not_idle_while_values_are_read() -> None:
    play = Play()
    retain(play, ("c", "k", b"1"))
    play = play.restart()
    play.hold_looks = True
    play.values.retained(now=play.now)
    play.run()
    for _ in ("names", "bodies"):
        assert not play.node.idle
        play.seen()
    assert play.node.idle


def test_a_commit_that_fails_leaves_the_older_value() -> None:
    play = Play()
    retain(play, ("c", "a", b"1"), ("c", "b", b"1"), ("c", "c", b"1"))
    play.hold_commits = True
    retain(play, ("c", "a", b"2"), ("c", "b", None))
    retain(play, ("c", "c", b"22"), ("c", "new", None))
    play.fail()
    assert (play.node.stats().retained, play.node.stats().retained_bytes) == (3, 10)
    play.finish()
    audit(play.node, play.store)
    for later in (play, play.restart()):
        assert [one.body for one in kept(later)] == [b"1", b"1", b"22"]


def test_a_full_disk_takes_no_value_and_loses_none() -> None:
    """A change that gathers while another one finds no room fails with it (D-13)."""
    play = Play()
    retain(play, ("c", "a", b"1"), ("c", "b", b"1"))
    play.store.full = play.hold_commits = True
    receipts = retain(play, ("c", "a", b"2"))
    receipts += retain(play, ("c", "b", b"2"))
    actions = play.finish()
    assert {token for stored in every(actions, Stored) if stored.error for token in stored.tokens} == {*receipts}
    assert play.node.stats().retained_bytes == 6
    play.store.full = play.hold_commits = False
    retain(play, ("c", "b", b"33"))
    assert [one.body for one in kept(play)] == [b"1", b"33"]


def test_values_wait_for_no_peer() -> None:
    """No answer waits for them, they do not expire, and they are not pending."""
    play = Play(policy=Policy(expire_after=10.0))
    wire = play.peer(LOW, ("c", ""))
    (receipt,) = retain(play, ("c", "k", b"1"))
    assert play.node.stats().pending == 1
    assert bodies(wire) == [b"1"]
    assert told(play, receipt) == [None]
    play.store.age = 100.0
    play.wait(60)
    assert play.node.stats().pending == play.node.stats().pending_bytes == 0
    assert [one.body for one in kept(play)] == [b"1"]
    with pytest.raises(LocalProtocolError, match="owner of the last values"):
        play.node.forget_peer(VALUES, now=play.now)
    play.call("forget_peer", LOW)


def test_no_peer_is_taken_for_the_owner_of_the_values() -> None:
    play = Play()
    wire = play.accepted(VALUES)
    wire.request(("c", ""))
    assert play.node.peers() == []


# The list of the application.


def test_values_are_listed_by_name_from_a_name_on() -> None:
    play = Play()
    retain(play, ("d", "a", b"3"), ("c", "b", b"2"), ("c", "a", b"1"))
    play.wait(5)
    assert [(one.channel, one.key, one.body) for one in kept(play, count=2)] == [("c", "a", b"1"), ("c", "b", b"2")]
    assert [(one.key, one.size, one.stored_at) for one in kept(play, ("c", "b"))] == [("a", 3, 1000.0)]
    assert kept(play, ("d", "a")) == []
    assert [one.key for one in kept(play, channel="c")] == ["a", "b"]


def test_a_list_has_what_is_on_disk() -> None:
    """A value that changes while the list is read is taken from its commit, and one that gathers is not in the list."""
    play = Play()
    retain(play, ("c", "a", b"1"), ("c", "b", b"1"))
    play.hold_looks = play.hold_commits = True
    token = play.values.retained(now=play.now)
    play.run()
    retain(play, ("c", "a", b"2"))
    play.finish()
    retain(play, ("c", "b", b"not stored yet"))
    assert not play.node.idle
    assert not is_answered(play.seen(), token), "a commit runs that may change what is listed"
    play.fail()
    assert [one.body for one in token.values] == [b"2", b"1"]


def test_a_damaged_value_is_left_out_and_told() -> None:
    play = Play()
    retain(play, ("c", "a", b"1"), ("c", "b", b"2"))
    play.store.corrupt(play.store.messages[0].seq)
    wire = play.accepted()
    actions = wire.request(("c", ""))
    assert bodies(wire) == [b"2"]
    assert notices(actions) == [NoticeKind.STORE_ERROR]
    assert [one.body for one in kept(play)] == [b"2"]
    retain(play, ("c", "a", b"3"))
    assert [one.body for one in kept(play)] == [b"3", b"2"]


def test_a_value_waits_with_the_sends_that_wait() -> None:
    """Behind one that a full disk holds up (D-13), and it keeps its place."""
    play = Play()
    retain(play, ("c", "k", b"1"))
    play.peer(LOW, ("c", "k"))
    play.store.full = True
    play.send("c", "k", b"fails")
    play.hold_commits = True
    sent = play.node.send("c", "k", b"waits", now=play.now)
    receipt = play.values.retain("c", "k", b"2", now=play.now)
    play.run()
    play.store.full = False
    for _ in range(5):
        if play.held:
            play.finish()
    assert (sent.recipients, receipt.recipients) == (1, 1)
    assert [one.body for one in kept(play)] == [b"2"]


def test_nothing_is_retained_once_the_instance_is_closing() -> None:
    play = Play()
    play.call("close")
    with pytest.raises(ConnectionClosing):
        play.values.retain("c", "k", b"1", now=play.now)


def is_answered(actions: list[Action], receipt: Receipt) -> bool:
    return any(receipt in stored.tokens for stored in every(actions, Stored))


def told(play: Play, receipt: Receipt) -> list[object]:
    """The answer to who asks now, if there is one: None, or why it was given up."""
    play.node.watch(receipt)
    found = [one.error and one.error.reason for one in every(play.run(), Acked) if receipt in one.tokens]
    play.node.unwatch(receipt)
    return [*found]


def test_sends_that_wait_inside_come_first() -> None:
    """While the disk is full (D-13), and while names are looked up that are not in use."""
    play = Play()
    play.peer(LOW, ("c", ""))
    play.store.full = True
    play.send("c", "k", b"fails")
    play.hold_commits = True
    waits = play.node.send("c", "k", b"waits", now=play.now)
    receipt = play.node.flush(now=play.now)
    assert not is_answered(play.run(), receipt)
    play.store.full = False
    actions: list[Action] = []
    while play.held:
        actions += play.finish()
    tokens = [token for stored in every(actions, Stored) for token in stored.tokens]
    assert tokens.index(waits) < tokens.index(receipt)
    play.hold_commits = False
    retain(play, ("c", "k", b"0"))
    play = play.restart()
    play.hold_looks = True
    play.values.retain("c", "k", b"1", now=play.now)
    receipt = play.node.flush(now=play.now)
    assert not is_answered(play.run(), receipt)
    actions = play.seen()
    while play.held:
        actions += play.finish()
    assert is_answered(actions, receipt)


def test_what_is_for_nobody_by_design_is_no_failure() -> None:
    """A retained value is kept for who comes later; `to=()` says nobody; a reply's requester may have left."""
    play = Play()
    play.values.retain("c", "k", b"value", now=play.now)
    play.send("c", "k", b"x", to=())
    play.send("tolliver.reply/01890000-0000-7000-8000-000000000001", "", bytes(9))
    play.send("tolliver.request/sum", "", bytes(8))
    assert every(play.wait(61.0), Notice) == []
    assert play.node.stats().no_recipients == 0
    unsubscribed = play.send("c", "k", b"x", to=LOW)
    assert told(play, unsubscribed) == [UndeliveredReason.NO_RECIPIENTS], (
        "a peer that does not subscribe is one that was meant"
    )


def test_nothing_is_kept_of_what_is_retained_or_for_nobody() -> None:
    play = Play()
    only(play.call("connect", "there"), Dial)
    retained = play.values.retain("c", "k", b"value", now=play.now)
    play.run()
    nobody = play.send("c", "k", b"x", to=())
    assert waiting(play) == []
    assert [told(play, one) for one in (retained, nobody)] == [[None], [None]]


def test_a_value_that_is_kept_is_not_given_once_more() -> None:
    """Though the peer says again that it wants it (T-50)."""
    play = Play()
    play.call("retain", "c", "k", b"value")
    wire = play.peer(LOW, ("c", ""))
    wire.ack(*wire.messages())
    for channel in "cd":
        wire.send(Subscribe(channel, "", ord(channel)))
        assert wire.messages() == []


class Odd(str):
    """A text that cannot be compared."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, _other: object) -> bool:
        raise RuntimeError("odd")

    def __gt__(self, _other: object) -> bool:
        raise RuntimeError("odd")

    __lt__ = __gt__


def test_texts_of_the_application_are_not_compared_while_values_are_read() -> None:
    """Not before the index is known, when the error would be no caller's, nor while a commit runs."""
    play = Play()
    retain(play, ("c", "k", b"1"))
    for again in (play.restart(), play):
        assert [one.body for one in kept(again, channel=Odd("c"))] == [b"1"]
        assert [one.body for one in kept(again, after=(Odd("b"), Odd("k")))] == [b"1"]
        retain(again, ("c", "k", b"1"))
    assert play.node.idle


def test_a_reading_that_fails_as_it_begins_leaves_nothing_behind() -> None:
    play = Play()
    retain(play, ("c", "k", b"1"))

    def wants(_name: Name) -> bool:
        raise RuntimeError("odd")

    index = play.values.index
    reading = Reading(wants, lambda: [*filter(wants, index.entries)], lambda _error: None)
    with pytest.raises(RuntimeError, match="odd"):
        index.begin(reading)
    retain(play, ("c", "k", b"2"))
    assert [one.body for one in kept(play)] == [b"2"]
    assert play.node.idle


def test_names_that_cannot_be_meant_are_refused() -> None:
    play = Play()
    for channel in ("tolliver.request/c", "tolliver.reply/c"):
        with pytest.raises(ReservedChannel, match="for requests and replies"):
            play.values.retain(channel, "", b"1")
    for after in ("c", ("c",), ("c", 1)):
        with pytest.raises(TypeError, match="after="):
            play.values.retained(after=after)  # type: ignore[arg-type]  # that is the point
    assert play.node.idle


# Asking again (P-37).


def asking(play: Play, wire: Wire, *entries: tuple[str, str]) -> None:
    for number, entry in enumerate(entries):
        wire.send(Subscribe(*entry, 100 + number))
    play.run()


@pytest.mark.parametrize(
    ("listed", "asked", "expected"),
    [
        ([("c", "")], [("c", AGAIN + "1")], [b"ck", b"co"]),
        ([("c", "k"), ("d", "")], [("c", AGAIN + "1")], [b"ck"]),
        ([("", "k"), ("d", "")], [("c", AGAIN + "1")], [b"ck"]),
        ([("", "")], [("c", AGAIN + "1")], [b"ck", b"co"]),
        ([("", "")], [("", AGAIN + "1")], [b"ck", b"co", b"dk"]),
        ([("c", "k"), ("d", "")], [("", AGAIN + "1")], [b"ck", b"dk"]),
        ([("d", "")], [("c", AGAIN + "1")], []),
        ([("c", "")], [("c", "other")], [b"co"]),
    ],
)
def test_a_peer_that_asks_again_gets_what_it_subscribes_to(
    listed: list[tuple[str, str]], asked: list[tuple[str, str]], expected: list[bytes]
) -> None:
    play = Play()
    retain(play, ("c", "k", b"ck"), ("c", "other", b"co"), ("d", "k", b"dk"))
    wire = play.accepted()
    wire.request(*listed)
    bodies(wire)
    asking(play, wire, *asked)
    assert sorted(bodies(wire)) == expected
    asking(play, wire, *asked)  # the same question is none
    assert bodies(wire) == []


def test_an_instance_asks_with_a_new_key_each_time_and_keeps_one() -> None:
    play = Play()
    with pytest.raises(LocalProtocolError, match="nothing of the channel 'c' is subscribed to: subscribe first"):
        play.values.ask_again("c", play.now)
    play.node.subscribe("d", "", play.now)
    with pytest.raises(LocalProtocolError, match="subscribe first"):
        play.values.ask_again("c", play.now)
    play.node.subscribe("", "k", play.now)
    seen = set()
    for channel in ("c", "c", "", "d", ""):
        play.values.ask_again(channel, play.now)
        play.run()
        asked = [one for one in play.node.subscriptions() if one.key.startswith(AGAIN)]
        assert [one.channel for one in asked].count(channel) == 1
        seen.update(asked)
    assert len(seen) == 5
    assert sorted(one.channel for one in asked) == ["", "c", "d"]
    for one in play.node.subscriptions():
        if not one.key.startswith(AGAIN):
            play.node.unsubscribe(*one, play.now)
    play.run()
    for channel in ("c", ""):
        with pytest.raises(LocalProtocolError, match="subscribe first"):  # its own questions are no subscriptions
            play.values.ask_again(channel, play.now)
    play.node.close(play.now)
    with pytest.raises(ConnectionClosing):
        play.values.ask_again("c", play.now)


def test_no_question_of_an_instance_is_an_earlier_one() -> None:
    """A peer that was away may know any of those: for it, an equal one is none."""
    play = Play()
    play.call("subscribe", "c", "")
    asked = set[Subscription]()
    for chance in range(10):
        play.dice.value = chance / 10
        play.call("ask_again", "c")
        asked.update(one for one in play.node.subscriptions() if one.key.startswith(AGAIN))
    assert len(asked) == 10
