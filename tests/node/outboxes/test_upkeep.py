"""Upkeep of the outbox: forgetting, new keys, parking, retrying, expiring."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tolliver_proto import (
    ConnectionLost,
    Limits,
    NoticeKind,
    OutboxFull,
    PeerDown,
    PeerIdentity,
    Policy,
    Stored,
    StoreError,
    Subscribe,
    Unsubscribe,
)
from tolliver_proto._testing.inspection import inside
from tolliver_proto._testing.invariants import audit
from tolliver_proto.errors import CertificateError
from tolliver_proto.layouts import Dialect
from tolliver_proto.node import Acked
from tolliver_proto.store import Find, ForgetPeer, RemoveDeliveries
from tolliver_proto.testing import MemoryStore

from ..play import LOW, OTHER, Play, Wire, every, notices, only

WANTED = ("c", "")


def back(play: Play, wire: Wire) -> Wire:
    """The peer ends its connection in order and dials again, until it is sent something."""
    wire.end()
    wire.lose()
    return up(play)


def up(play: Play) -> Wire:
    """The peer dials: what waits for it is sent, at once or, if that is suspected, after five seconds (T-09)."""
    wire = play.accepted(LOW)
    wire.request(WANTED)
    if inside(play.node).context.up[wire.cid].sending.window.deferred:  # type: ignore[union-attr]  # it is up
        play.wait(5.0)
    return wire


def sound(play: Play) -> None:
    """The node counts what its store holds, now and after a restart."""
    play.wait(1.0)
    audit(play.node, play.store)
    again = play.restart()
    audit(again.node, again.store)


# T-09: messages that a peer closes for.


def strikes(play: Play, wire: Wire, count: int) -> Wire:
    """The peer gets something and ends the connection in order, that often."""
    for _ in range(count):
        wire = back(play, wire)
    return wire


def test_after_two_orderly_ends_the_head_goes_alone() -> None:
    play = Play()
    wire = play.peer(LOW, WANTED)
    for body in (b"a", b"b", b"c"):
        play.send("c", "k", body)
    for expected in ([b"a", b"b", b"c"], [b"a", b"b", b"c"], [b"a"], [b"a"]):
        got = play.wires[wire.cid].messages()
        assert [message.body for message in got] == expected
        wire = back(play, wire)


def test_five_strikes_set_it_aside_and_the_next_ones_go() -> None:
    play = Play()
    wire = play.peer(LOW, WANTED)
    for body in (b"poison", b"b", b"c"):
        play.send("c", "k", body)
    kinds = []
    for _ in range(7):  # two with all in flight, five with the head alone
        kinds += notices(wire.end())
        wire.lose()
        wire = up(play)
    assert kinds == [NoticeKind.PARKED]
    assert wire.bodies() == [b"b", b"c"]
    assert [peer.parked for peer in play.node.peers()] == [1]
    assert play.pending() == 2
    sound(play)
    again = play.restart()
    wire = again.accepted(LOW)
    wire.request(WANTED)
    assert wire.bodies() == [b"b", b"c"], "set aside for good, in another life too"


def lost_by_reset(play: Play, wire: Wire) -> None:
    wire.lose(ConnectionLost("reset"))


def lost_without_a_word(play: Play, wire: Wire) -> None:
    wire.lose()


def lost_with_a_frame_cut(play: Play, wire: Wire) -> None:
    play.node.receive_data(wire.cid, b"\x03\x00", now=play.now)
    wire.end()
    wire.lose()


def ended_by_us(play: Play, wire: Wire) -> None:
    play.node.disconnect("nobody", now=play.now)
    inside(play.node).links.end(inside(play.node).context.links[wire.cid])
    play.run()
    wire.end()
    wire.lose()


@pytest.mark.parametrize("end", [lost_by_reset, lost_without_a_word, lost_with_a_frame_cut, ended_by_us])
def test_other_ends_do_not_count(end: object) -> None:
    play = Play()
    wire = play.peer(LOW, WANTED)
    play.send("c", "k", b"one")
    for _ in range(12):
        end(play, wire)  # type: ignore[operator]  # one of the functions above
        wire = play.accepted(LOW)
        wire.request(WANTED)
        assert wire.bodies() == [b"one"]
    assert [peer.parked for peer in play.node.peers()] == [0]


def test_a_message_that_the_socket_has_not_taken_is_not_to_blame() -> None:
    play = Play()
    wire = play.peer(LOW, WANTED)
    play.send("c", "k", b"one")
    strikes(play, wire, 4).lose()
    for _ in range(5):
        play.hold_writes = play.hold_fetches = True
        wire = play.accepted(LOW)
        wire.request(WANTED)
        play.fetched()  # while the response is still in the socket
        assert wire.messages() == []
        wire.end()
        wire.lose()
        play.unreported.clear()
    play.hold_writes = play.hold_fetches = False
    assert [peer.parked for peer in play.node.peers()] == [0]
    back(play, up(play))
    assert [peer.parked for peer in play.node.peers()] == [1], "four strikes and one"


def test_an_ack_makes_it_innocent() -> None:
    play = Play()
    wire = play.peer(LOW, WANTED)
    for number in range(8):
        play.send("c", "k", b"%d" % number)
        wire = strikes(play, wire, 4)
        wire.lose()
        wire = up(play)
        wire.ack(*wire.messages())
    assert [(peer.pending, peer.parked) for peer in play.node.peers()] == [(0, 0)]


def test_a_head_that_is_only_not_acknowledged_does_not_block_for_ever() -> None:
    """T-52 goes on while the head is suspected: a peer that keeps the connection is not refusing it."""
    play = Play()
    wire = play.peer(LOW, WANTED)
    for body in (b"unhandled", b"b", b"c"):
        play.send("c", "k", body)
    wire = strikes(play, wire, 3)
    assert wire.bodies() == [b"unhandled"]
    play.wait(play.node.retry_interval * 1.3)
    bodies = wire.bodies()
    assert b"b" in bodies


def parked(play: Play, *bodies: bytes) -> Wire:
    """The peer is connected, these were sent and set aside."""
    wire = play.peer(LOW, WANTED)
    for body in bodies:
        play.send("c", "k", body)
        for _ in range(20):
            if not play.pending():
                break
            wire = back(play, wire)
    assert [peer.parked for peer in play.node.peers()] == [len(bodies)]
    play.wait(1.0)
    wire.got()
    return wire


def test_retry_sends_again_on_the_connection_that_stands() -> None:
    play = Play()
    wire = parked(play, b"x", b"y")
    play.send("c", "k", b"later")
    receipt = play.node.retry(LOW, now=play.now)
    stored = only(play.run(), Stored)
    assert stored.tokens == [receipt]
    assert receipt.deliveries == 2
    messages = wire.messages()
    assert sorted(message.body for message in messages) == [b"later", b"x", b"y"]
    sound(play)
    wire.ack(*messages)
    play.wait(1.0)
    assert play.pending() == 0
    assert play.store.messages == []


def test_retry_for_a_peer_that_is_away_and_after_a_restart() -> None:
    play = Play()
    parked(play, b"x").lose()
    again = play.restart()
    again.call("retry", LOW)
    assert again.pending() == 1
    once_more = again.restart()
    wire = once_more.accepted(LOW)
    wire.request(WANTED)
    assert wire.bodies() == [b"x"]


def test_a_retry_that_is_not_stored_changes_nothing() -> None:
    play = Play()
    parked(play, b"x")
    play.hold_commits = True
    receipt = play.node.retry(LOW, now=play.now)
    play.run()
    stored = only(play.fail(), Stored)
    assert (stored.tokens, isinstance(stored.error, StoreError)) == ([receipt], True)
    play.hold_commits = False
    assert [(peer.pending, peer.parked) for peer in play.node.peers()] == [(0, 1)]
    sound(play)


def test_drop_parked_gives_up_what_was_set_aside_and_nothing_else() -> None:
    play = Play()
    wire = parked(play, b"x", b"y")
    play.send("c", "k", b"stays")
    watched = play.node.drop_parked(LOW, now=play.now)
    assert only(play.run(), Stored).tokens == [watched]
    assert watched.deliveries == 2
    assert [(peer.pending, peer.parked) for peer in play.node.peers()] == [(1, 0)]
    assert [message.body for message in play.store.messages] == [b"stays"]
    assert wire.bodies() == [b"stays"]
    sound(play)


@pytest.mark.search
@given(st.lists(st.sampled_from(("retry", "drop_parked", "forget_peer")), min_size=2, max_size=4), st.booleans())
@settings(max_examples=30, deadline=None)
def test_several_at_once_count_each_delivery_once(calls: list[str], held: bool) -> None:
    play = Play()
    parked(play, b"x", b"y")
    play.hold_commits = held
    receipts = [getattr(play.node, call)(LOW, now=play.now) for call in calls]
    told = [token for stored in every(play.run(), Stored) for token in stored.tokens]
    for _ in range(20):
        if play.held:
            told += [token for stored in every(play.finish(), Stored) for token in stored.tokens]
    play.hold_commits = False
    assert told == receipts or set(told) == set(receipts)
    sound(play)


def test_nobody_to_do_it_for_is_no_error() -> None:
    play = Play()
    for call in ("retry", "drop_parked", "forget_peer"):
        receipt = getattr(play.node, call)(LOW, now=play.now)
        assert only(play.run(), Stored).tokens == [receipt]
        assert receipt.deliveries == 0


@pytest.mark.parametrize("call", ["retry", "drop_parked", "forget_peer"])
def test_a_search_that_fails_is_told_and_changes_nothing(call: str) -> None:
    play = Play()
    parked(play, b"x")
    play.search_error = StoreError("no more file descriptors")
    receipt = getattr(play.node, call)(LOW, now=play.now)
    actions = play.run()
    stored = only(actions, Stored)
    assert (stored.tokens, stored.error) == ([receipt], play.search_error)
    assert NoticeKind.STORE_ERROR in notices(actions)
    play.search_error = None
    assert [(peer.pending, peer.parked) for peer in play.node.peers()] == [(0, 1)]
    sound(play)
    assert only(play.call(call, LOW), Stored).error is None, "and it can be tried again"


# Forgetting.


def test_a_forgotten_peer_leaves_nothing_behind() -> None:
    play = Play()
    pinned = PeerIdentity(spki_sha256=b"k" * 32)
    wire = play.accepted(LOW, pinned)
    wire.request(WANTED)
    other = play.peer(OTHER, WANTED)
    shared = play.send("c", "k", b"for both")
    play.node.watch(shared)
    other.ack(*other.messages())
    other.lose()
    play.send("c", "k", b"for both too")
    receipt = play.node.forget_peer(LOW, now=play.now)
    actions = play.run()
    assert only(actions, PeerDown).peer == LOW
    assert only(actions, Stored).tokens == [receipt]
    assert only(actions, Acked).tokens == [shared], "one has it, and the other never will (T-54)"
    assert [peer.uuid for peer in play.node.peers()] == [OTHER]
    play.wait(1.0)
    assert [message.body for message in play.store.messages] == [b"for both too"], "what others are owed stays"
    loaded = play.store.load()
    assert LOW not in loaded.peers
    sound(play)
    wire.end()
    wire.lose()
    assert play.send("c", "k", b"not for it").recipients == 1


def test_a_forgotten_peer_may_come_back_with_another_key() -> None:
    play = Play()
    play.accepted(LOW, PeerIdentity(spki_sha256=b"a" * 32)).request(WANTED)
    play.send("c", "k", b"old")
    play.call("forget_peer", LOW)
    wire = play.accepted(LOW, PeerIdentity(spki_sha256=b"b" * 32))
    wire.request(("d", ""))
    assert play.pending() == 0
    play.send("d", "k", b"new")
    play.send("c", "k", b"old channel")
    assert wire.bodies() == [b"new"]
    assert play.store.load().peers[LOW].spki_sha256 == b"b" * 32
    sound(play)


def test_who_comes_back_too_soon_is_refused_for_a_moment() -> None:
    play = Play()
    play.peer(LOW, WANTED)
    play.hold_commits = True
    play.node.forget_peer(LOW, now=play.now)
    play.run()
    early = play.accepted(LOW)
    early.request(WANTED)
    assert early.got() == []
    assert not any(peer.connected for peer in play.node.peers())
    play.hold_commits = False
    play.finish()
    late = play.accepted(LOW)
    late.request(WANTED)
    assert [peer.connected for peer in play.node.peers()] == [True]


def test_what_is_being_stored_for_it_is_purged_too() -> None:
    play = Play()
    play.peer(LOW, WANTED)
    play.hold_commits = True
    play.send("c", "k", b"in the running commit")
    play.send("c", "k", b"in the next")
    play.node.forget_peer(LOW, now=play.now)
    play.send("c", "k", b"not for it any more")
    play.run()
    for _ in range(10):
        if play.held:
            play.finish()
    play.hold_commits = False
    play.wait(1.0)
    assert play.store.messages == []
    assert play.node.peers() == []
    assert play.node.stats()["pending"] == 0
    sound(play)


@given(st.integers(0, 6))
@settings(deadline=None)
def test_forgetting_is_whole_or_can_be_repeated(failing: int) -> None:
    """The commit of that number fails: whoever asked is told, and the second try succeeds."""
    play = Play()
    play.peer(LOW, WANTED)
    play.send("c", "k", b"one")
    play.hold_commits = True
    play.send("c", "k", b"two")
    receipt = play.node.forget_peer(LOW, now=play.now)
    actions = play.run()
    for number in range(10):
        if play.held:
            actions += play.fail() if number == failing else play.finish()
    play.hold_commits = False
    actions += play.wait(3.0)
    error = next(stored.error for stored in every(actions, Stored) if receipt in stored.tokens)
    assert [peer.uuid for peer in play.node.peers()] == ([LOW] if error else [])
    sound(play)
    assert only(play.call("forget_peer", LOW), Stored).error is None
    assert play.node.peers() == []
    sound(play)


def test_two_who_ask_are_both_told() -> None:
    play = Play()
    play.peer(LOW, WANTED)
    receipts = [play.node.forget_peer(LOW, now=play.now) for _ in range(2)]
    assert only(play.run(), Stored).tokens == receipts
    forgets = [op for commit in play.commits for op in commit.operations if isinstance(op, ForgetPeer)]
    assert forgets == [ForgetPeer(LOW)]


def test_forgetting_makes_room() -> None:
    play = Play(limits=Limits(outbox_messages=3))
    play.peer(LOW, WANTED).lose()
    for number in range(3):
        play.send("c", "k", b"%d" % number)
    with pytest.raises(OutboxFull, match="forget the peer"):
        play.send("c", "k", b"one too many")
    play.call("forget_peer", LOW)
    assert play.send("c", "k", b"nobody wants it").recipients == 0
    wire = play.peer(LOW, WANTED)
    for number in range(3):
        play.send("c", "k", b"%d" % number)
    assert wire.bodies() == [b"0", b"1", b"2"]


def test_a_queue_of_many_pieces_is_purged() -> None:
    play = Play()
    play.peer(LOW, WANTED).lose()
    play.peer(OTHER, WANTED).lose()
    play.node.send_many([("c", "k", b"%d" % number) for number in range(2500)], now=play.now)
    play.run()
    searches = play.finds
    play.call("forget_peer", LOW)
    assert play.finds - searches == 3
    removals = [op for one in play.commits for op in one.operations if isinstance(op, RemoveDeliveries)]
    assert [op.spans for op in removals] == [[(1, 1000)], [(1001, 2000)], [(2001, 2500)]], "a commit for each piece"
    assert play.pending(OTHER) == 2500
    sound(play)
    play.call("forget_peer", OTHER)
    play.wait(1.0)
    assert play.store.messages == []
    assert play.node.idle


# New keys.


def pin(play: Play) -> bytes | None:
    return play.store.load().peers[LOW].spki_sha256


def test_another_key_is_refused_until_repin() -> None:
    play = Play()
    old, new = PeerIdentity(spki_sha256=b"o" * 32), PeerIdentity(spki_sha256=b"n" * 32)
    wire = play.accepted(LOW, old)
    wire.request(WANTED)
    wire.lose()
    refused = play.accepted(LOW, new)
    assert NoticeKind.IDENTITY_MISMATCH in notices(refused.request(WANTED))
    refused.lose()
    receipt = play.node.repin(LOW, now=play.now)
    assert only(play.run(), Stored).tokens == [receipt]
    assert pin(play) is None
    wire = play.accepted(LOW, new)
    wire.request(WANTED)
    assert [peer.connected for peer in play.node.peers()] == [True]
    assert pin(play) == b"n" * 32


def test_repin_to_a_key_closes_the_connection_on_another() -> None:
    play = Play()
    wire = play.accepted(LOW, PeerIdentity(spki_sha256=b"o" * 32))
    wire.request(WANTED)
    play.call("repin", LOW, b"o" * 32)
    assert play.node.peers()[0].connected, "the same key"
    play.call("repin", LOW, b"n" * 32)
    wire.end()
    wire.lose()
    assert not play.node.peers()[0].connected
    assert pin(play) == b"n" * 32
    assert NoticeKind.IDENTITY_MISMATCH in notices(
        play.restart().accepted(LOW, PeerIdentity(spki_sha256=b"o" * 32)).request(WANTED)
    )


def test_a_key_may_be_given_before_the_first_connection() -> None:
    play = Play()
    play.call("repin", LOW, b"n" * 32)
    stranger = play.accepted(LOW, PeerIdentity(spki_sha256=b"x" * 32))
    assert NoticeKind.IDENTITY_MISMATCH in notices(stranger.request(WANTED))
    play.accepted(LOW, PeerIdentity(spki_sha256=b"n" * 32)).request(WANTED)
    assert play.knows(LOW)


@pytest.mark.parametrize("fails", [False, True], ids=["forgotten", "not forgotten"])
@pytest.mark.parametrize("begun", [False, True], ids=["before its commit", "while it is stored"])
def test_a_key_given_while_a_peer_is_being_forgotten_stays(begun: bool, fails: bool) -> None:
    play = Play()
    play.accepted(LOW, PeerIdentity(spki_sha256=b"o" * 32)).request(WANTED)
    play.hold_commits = True
    play.node.forget_peer(LOW, now=play.now)
    if begun:
        play.run()
    receipt = play.node.repin(LOW, b"n" * 32, now=play.now)
    said = play.run()
    while play.held:
        said += play.fail() if fails else play.finish()
        fails = False
    assert receipt in [token for action in said if isinstance(action, Stored) for token in action.tokens]
    play.hold_commits = False
    assert pin(play) == b"n" * 32
    refused = play.accepted(LOW, PeerIdentity(spki_sha256=b"o" * 32))
    assert NoticeKind.IDENTITY_MISMATCH in notices(refused.request(WANTED))
    play.accepted(LOW, PeerIdentity(spki_sha256=b"n" * 32)).request(WANTED)
    assert [peer.connected for peer in play.node.peers()] == [True]
    assert list(play.store.load().peers) == [LOW]


def test_a_repin_that_is_not_stored_changes_nothing() -> None:
    play = Play()
    play.accepted(LOW, PeerIdentity(spki_sha256=b"o" * 32)).request(WANTED)
    play.hold_commits = True
    play.node.repin(LOW, now=play.now)
    play.run()
    play.node.repin(LOW, b"n" * 32, now=play.now)
    play.run()
    play.fail()
    play.fail()
    play.hold_commits = False
    play.wait(2.0)
    same = play.accepted(LOW, PeerIdentity(spki_sha256=b"o" * 32))
    same.request(WANTED)
    assert same.got(), "its old key is still its key"
    assert pin(play) == b"o" * 32


# Expiry.


def aged(play: Play, seconds: float) -> list[object]:
    """That much later for the clock of the wall too."""
    play.store.age += seconds
    return list(play.wait(seconds))


def test_what_is_older_than_the_policy_allows_is_given_up() -> None:
    play = Play(policy=Policy(expire_after=100.0))
    play.peer(LOW, WANTED).lose()
    play.peer(OTHER, WANTED).lose()
    receipt = play.send("c", "k", b"old")
    play.node.watch(receipt)
    play.wait(99.0)
    assert play.pending() == 1
    play.store.age = 101.0
    actions = play.wait(20.0)
    assert notices(actions) == [NoticeKind.EXPIRED] * 2
    assert only(actions, Acked).tokens == [receipt]
    assert play.node.stats()["expired_messages"] == 2
    assert play.store.messages == []
    sound(play)
    assert notices(play.wait(50.0)) == [], "once"


def test_expired_in_the_window_and_set_aside() -> None:
    limits = Limits(window_messages=2)
    play = Play(policy=Policy(expire_after=1000.0), limits=limits)
    wire = parked(play, b"aside")
    for body in (b"a", b"b", b"c"):
        play.send("c", "k", body)
    held = wire.messages()
    assert [message.body for message in held] == [b"a", b"b"]
    play.store.age = 1001.0
    actions = play.wait(150.0)
    assert NoticeKind.EXPIRED in notices(actions)
    assert play.node.stats()["expired_messages"] == 4
    assert [(peer.pending, peer.parked) for peer in play.node.peers()] == [(0, 0)]
    sound(play)
    wire.got()
    play.store.age = 0.0
    wire.ack(*held)  # late: they mean nothing
    for body in (b"e", b"f", b"g"):
        play.send("c", "k", body)
    assert wire.bodies() == [b"e", b"f"], "there is room in the window"
    sound(play)


def test_an_ack_that_crosses_the_search_counts_once() -> None:
    play = Play(policy=Policy(expire_after=10.0))
    wire = play.peer(LOW, WANTED)
    play.send("c", "k", b"one")
    [message] = wire.messages()
    play.store.age = 11.0
    play.hold_searches = True
    play.wait(2.0)
    play.hold_commits = True
    wire.ack(message)
    assert NoticeKind.EXPIRED not in notices(play.looked())
    play.hold_commits = False
    play.wait(1.0)
    for _ in range(5):
        if play.held:
            play.finish()
    play.hold_searches = False
    assert play.pending() == 0
    sound(play)


def test_set_aside_while_it_is_searched_for_is_still_purged() -> None:
    """The row is found as it was before the parking was stored."""
    play = Play()
    wire = play.peer(LOW, WANTED)
    play.send("c", "k", b"x")
    wire = strikes(play, wire, 4)
    play.hold_searches = True
    play.node.retry(LOW, now=play.now)
    play.run()
    wire.end()  # the fifth strike
    assert [(peer.pending, peer.parked) for peer in play.node.peers()] == [(0, 1)]
    wire.lose()
    play.hold_searches = False
    play.looked()
    play.call("forget_peer", LOW)
    play.wait(1.0)
    assert play.store.messages == []
    sound(play)


def test_expiry_goes_on_after_a_failed_search() -> None:
    play = Play(policy=Policy(expire_after=10.0))
    play.peer(LOW, WANTED).lose()
    play.send("c", "k", b"one")
    play.store.age = 11.0
    play.search_error = StoreError("busy")
    assert NoticeKind.STORE_ERROR in notices(play.wait(1.5))
    play.search_error = None
    assert NoticeKind.EXPIRED in notices(play.wait(3.0))


def test_more_than_a_piece_of_one_message_for_many_expires_whole() -> None:
    play = Play(policy=Policy(expire_after=10.0))
    for peer in (LOW, OTHER):
        play.peer(peer, WANTED).lose()
    play.node.send_many([("c", "k", b"")] * 1501, now=play.now)
    play.run()
    play.store.age = 11.0
    play.wait(1.5)
    assert play.node.stats()["pending"] == 0
    assert play.node.stats()["expired_messages"] == 3002
    sound(play)


def test_without_the_policy_nothing_expires() -> None:
    play = Play()
    play.peer(LOW, WANTED).lose()
    play.send("c", "k", b"one")
    aged(play, 10_000_000.0)
    assert play.finds == 0
    assert play.pending() == 1


def test_a_late_answer_to_no_question_is_passed_over() -> None:
    play = Play()
    play.node.found(7, [], now=play.now)
    assert play.run() == []


# Policies that say what they mean.


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"dedupe": -1}, "dedupe is -1: give the number of messages to remember"),
        ({"dedupe": 9, "dedupe_durable": 1}, "dedupe_durable is 1: give True or False"),
        ({"dedupe_durable": True}, "dedupe_durable without dedupe"),
        ({"expire_after": 0.0}, "expire_after is 0.0: give seconds above zero, or None"),
        ({"expire_after": -1.0}, "expire_after is -1.0: give seconds above zero, or None"),
    ],
)
def test_a_policy_that_cannot_be_meant(options: dict[str, float], told: str) -> None:
    with pytest.raises(ValueError, match=rf"^Policy\.{told}"):
        Policy(**options)  # type: ignore[arg-type]  # that is the point


@pytest.mark.parametrize("strict", [False, True])
def test_strict_block_waits_for_every_connection_in_the_making(strict: bool) -> None:
    """T-62: by default sends go on while a peer answers its handshake, and it gets them all the same."""
    play = Play(policy=Policy(strict_block=strict))
    other = play.peer(OTHER, WANTED)
    play.node.connect("there", now=play.now)
    wire = play.dialled(play.run())
    receipt = play.node.send("c", "k", b"meanwhile", now=play.now)
    stored = every(play.run(), Stored)
    assert (stored == []) is strict
    assert other.bodies() == ([] if strict else [b"meanwhile"])
    told = [token for stored in every(wire.respond(WANTED), Stored) for token in stored.tokens]
    assert (receipt in told) is strict
    assert receipt.recipients == (2 if strict else 1)
    assert other.bodies() == ([b"meanwhile"] if strict else [])
    assert b"meanwhile" in wire.bodies()


def test_strict_block_ends_with_a_peer_that_never_answers() -> None:
    play = Play(policy=Policy(strict_block=True))
    other = play.peer(OTHER, WANTED)
    play.node.connect("there", now=play.now)
    play.dialled(play.run())
    play.send("c", "k", b"waits")
    assert other.bodies() == []
    play.wait(play.node.limits.handshake_timeout + play.node.limits.close_timeout + 1)
    assert other.bodies() == [b"waits"]


def test_strict_block_ends_with_a_connection_that_fails() -> None:
    play = Play(policy=Policy(strict_block=True))
    other = play.peer(OTHER, WANTED)
    play.node.connect("there", now=play.now)
    wire = play.dialled(play.run())
    play.send("c", "k", b"waits")
    wire.lose(CertificateError("not ours"))
    assert other.bodies() == [b"waits"]


def controls(wire: Wire) -> list[tuple[str, str, str]]:
    """Frames that change what we want, as (kind, channel, key)."""
    return [
        (type(frame).__name__, frame.channel, frame.key)
        for frame in wire.got()
        if isinstance(frame, Subscribe | Unsubscribe)
    ]


@pytest.mark.parametrize("announce", [False, True])
def test_subscriptions_are_announced_as_messages_too_where_asked(announce: bool) -> None:
    """T-33: for peers that throw a handshake's list away."""
    play = Play(dialect=Dialect(announce_after_handshake=announce))
    play.call("subscribe", "a", "")
    play.call("subscribe", "b", "k")
    wire = play.accepted(LOW)
    wire.request()
    both = [("Subscribe", "a", ""), ("Subscribe", "b", "k")]
    assert controls(wire) == (both if announce else [])
    play.call("unsubscribe", "zzz", "")
    assert controls(wire) == []


def test_announced_or_not_what_changed_during_the_handshake_is_told() -> None:
    play = Play(dialect=Dialect(announce_after_handshake=True))
    for channel in ("gone", "stays"):
        play.call("subscribe", channel, "")
    play.node.connect("there", now=play.now)
    wire = play.dialled(play.run())
    play.call("unsubscribe", "gone", "")
    play.call("subscribe", "new", "")
    wire.got()
    wire.respond()
    assert sorted(controls(wire)) == [("Subscribe", "new", ""), ("Subscribe", "stays", ""), ("Unsubscribe", "gone", "")]


def test_the_node_is_not_idle_before_its_search_is_over() -> None:
    play = Play()
    parked(play, b"x").lose()
    play.hold_searches = True
    play.call("drop_parked", LOW)
    play.call("close")
    assert not play.node.idle
    play.hold_searches = False
    play.looked()
    play.wait(1.0)
    assert play.node.idle


def test_store_is_never_asked_twice_at_once() -> None:
    play = Play(store=MemoryStore())
    parked(play, b"x")
    play.hold_searches = True
    for call in ("retry", "drop_parked", "retry"):
        play.call(call, LOW)
    assert play.finds == 1
    finds: list[Find] = []
    for _ in range(10):
        finds += play.searches
        play.looked()
    assert play.finds == 3
