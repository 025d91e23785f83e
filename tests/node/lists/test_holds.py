"""Holds: subscriptions that a peer's newer list lacks, and unsubscribes that are repeated (T-61)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tolliver_proto import (
    Ack,
    Action,
    Fetch,
    Frame,
    HandshakeRequest,
    HandshakeResponse,
    HandshakeStatus,
    Limits,
    Message,
    Notice,
    NoticeKind,
    OutboxFull,
    Policy,
    Revision,
    StoreError,
    Subscribe,
    Unsubscribe,
    encode,
)
from tolliver_proto._node.outboxes.outbox import Outbox, Window
from tolliver_proto._testing.inspection import inside
from tolliver_proto._testing.invariants import audit
from tolliver_proto.errors import TooFewRecipients, UndeliveredReason
from tolliver_proto.layouts import Dialect
from tolliver_proto.node import Acked, QuotaPolicy
from tolliver_proto.store import ForgetPeer, LoadedPeer, ReplacePeerSubscriptions, StoredMessage

from ..play import LOW, OTHER, Play, Wire, every, notices, only, subscribed

C, D = ("c", ""), ("d", "")


def back(play: Play, *subscriptions: tuple[str, str], uuid: object = LOW) -> Wire:
    """The peer is back, with this list."""
    for cid in list(play.wires):
        if play.wires[cid].uuid == uuid:
            play.wires[cid].lose()
    wire = play.accepted(uuid)  # type: ignore[arg-type]
    wire.request(*subscriptions)
    return wire


def held(play: Play) -> tuple[tuple[str, str], ...]:
    return next(peer.held for peer in play.node.peers() if peer.uuid == LOW)


def sound(play: Play, **options: object) -> None:
    play.wait(1.0)
    audit(play.node, play.store)
    again = play.restart(**options)
    audit(again.node, again.store)


def lacking(**options: object) -> tuple[Play, Wire]:
    """A peer that had subscribed, and is back with an empty list: a second database, a fresh disk."""
    play = Play(**options)  # type: ignore[arg-type]
    play.peer(LOW, C)
    return play, back(play)


def test_what_a_newer_list_lacks_goes_on_routing_and_is_held() -> None:
    play, wire = lacking()
    receipt = play.send("c", "k", b"1")
    assert receipt.recipients == 1
    assert wire.bodies() == []
    assert play.pending() == 1
    assert held(play) == (C,)
    assert play.knows() == set()
    assert play.node.stats().held_subscriptions == 1
    sound(play)


def test_what_waited_already_is_held_too_and_released_in_order() -> None:
    play = Play()
    play.peer(LOW, C, D).lose()
    for number in range(10):
        play.send("cd"[number % 2], "k", b"%d" % number)
    wire = back(play, D)
    assert wire.bodies() == [b"1", b"3", b"5", b"7", b"9"], "the others go on"
    play.send("c", "k", b"10")
    play.send("d", "k", b"11")
    assert wire.bodies() == [b"11"]
    wire.send(Subscribe("c", "", 1))
    assert wire.bodies() == [b"0", b"2", b"4", b"6", b"8", b"10"]
    assert held(play) == ()
    sound(play)


def test_a_message_that_is_being_stored_when_a_hold_ends_comes_after_what_was_held() -> None:
    """A new disk's first subscription came between a commit's beginning and its end: the newest message went first."""
    play, wire = lacking()
    play.send("c", "k", b"1")
    play.hold_commits = True
    play.send("c", "k", b"2")
    wire.send(Subscribe("c", "", 1))
    play.finish()
    seen = wire.bodies()
    while play.held:
        play.finish()
        seen += wire.bodies()
    assert seen == [b"1", b"2"]
    play.hold_commits = False
    sound(play)


def test_another_subscription_that_matches_it_releases_it() -> None:
    play, wire = lacking()
    play.send("c", "k", b"1")
    play.send("c", "other", b"2")
    wire.send(Subscribe("", "k", 1))
    assert wire.bodies() == [b"1"]
    assert held(play) == (C,)
    wire.send(Subscribe("c", "other", 2))
    assert wire.bodies() == [b"2"]
    sound(play)


def test_a_handshake_that_lists_it_again_releases_it() -> None:
    play, _ = lacking()
    play.send("c", "k", b"1")
    assert back(play, C).bodies() == [b"1"]
    assert held(play) == ()
    sound(play)


def test_what_matches_another_subscription_of_the_peer_is_not_held() -> None:
    play = Play()
    play.peer(LOW, C, ("", "k"))
    wire = back(play, ("", "k"))
    play.send("c", "k", b"both")
    play.send("c", "other", b"held")
    assert wire.bodies() == [b"both"]


def test_what_is_held_survives_a_restart_with_its_time() -> None:
    play, _ = lacking()
    play.send("c", "k", b"1")
    play.store.age += 3000.0
    again = play.restart()
    wire = again.peer(LOW)
    assert wire.bodies() == []
    assert held(again) == (C,)
    actions = again.wait(599.0)
    assert again.pending() == 1
    actions = again.wait(2.0)
    assert NoticeKind.UNSUBSCRIBED in notices(actions)
    assert again.pending() == 0
    assert held(again) == ()
    sound(again)


def test_when_the_time_is_over_what_is_held_is_given_up() -> None:
    play, wire = lacking()
    receipt = play.send("c", "k", b"1")
    other = play.send("d", "k", b"2")
    play.node.watch(receipt)
    actions = play.wait(3601.0)
    error = only(actions, Acked).error
    assert error is not None
    assert (error.peer, error.reason, error.count) == (LOW, UndeliveredReason.UNSUBSCRIBED, 1)
    assert play.node.stats().unsubscribed == 1
    assert play.send("c", "k", b"3").recipients == 0
    assert other.recipients == 0
    assert wire.bodies() == []
    assert play.store.messages == []
    sound(play)


def test_when_the_time_is_over_what_another_subscription_wants_stays() -> None:
    play = Play()
    play.peer(LOW, C, ("", "k"))
    back(play, ("", "k"))
    play.send("c", "k", b"both")
    actions = play.wait(3601.0)
    assert NoticeKind.UNSUBSCRIBED not in notices(actions)
    assert play.pending() == 1
    assert held(play) == ()


def test_an_unsubscribe_ends_it_at_once() -> None:
    play, wire = lacking()
    play.send("c", "k", b"1")
    wire.send(Unsubscribe("c", "", 1))
    assert 1 in wire.acks()
    play.wait(1.0)
    assert play.pending() == 0
    assert play.send("c", "k", b"2").recipients == 0
    sound(play)


ENDED = (Unsubscribe("c", "", 1), Subscribe("c", "", 2))


@pytest.mark.parametrize("pieces", [[ENDED], [ENDED[:1], ENDED[1:]]], ids=["one piece", "two pieces"])
def test_an_unsubscribe_ends_it_also_where_a_subscribe_follows(pieces: list[tuple[Frame, ...]]) -> None:
    """In one piece of bytes the subscribe came before what was held was found, and kept it."""
    play, wire = lacking()
    receipt = play.send("c", "k", b"1")
    for piece in pieces:
        wire.send(*piece)
    assert [one.reason for one in receipt.undelivered] == [UndeliveredReason.UNSUBSCRIBED]
    assert play.knows() == {C}
    assert [frame for frame in wire.got() if isinstance(frame, Message)] == []
    play.send("c", "k", b"2")
    assert wire.bodies() == [b"2"]
    sound(play)


def test_a_list_that_wants_what_is_being_given_up_waits_for_that() -> None:
    play, wire = lacking()
    play.send("c", "k", b"1")
    play.hold_searches = True
    wire.send(Unsubscribe("c", "", 1), Subscribe("", "k", 2), Subscribe("d", "", 3))
    assert play.knows() == set(), "and what comes behind it waits, too"
    assert wire.acks() == [1]
    other = play.accepted(LOW)
    other.request(C)
    assert other.got() == [], "its handshake waits, too"
    wire.lose()
    play.hold_searches = False
    play.looked()
    assert play.knows() == {C}
    assert other.bodies() == []
    assert play.pending() == 0
    sound(play)


def test_a_list_that_wants_something_else_does_not_wait() -> None:
    play, wire = lacking()
    play.send("c", "k", b"1")
    play.hold_searches = True
    wire.send(Unsubscribe("c", "", 1), Subscribe("d", "", 2))
    assert play.knows() == {D}
    assert wire.acks() == [1, 2]
    play.looked()
    assert play.pending() == 0


@pytest.mark.parametrize("said", [ENDED, ENDED[:1]], ids=["subscribed again", "unsubscribed"])
def test_where_it_cannot_be_looked_for_all_goes_on(said: tuple[Frame, ...]) -> None:
    play, wire = lacking()
    wire.send(Subscribe("d", "", 3))
    play.send("c", "k", b"1")
    play.search_error = StoreError("unreadable")
    wire.send(*said)
    assert len(play.knows()) == len(said)
    assert wire.bodies() == ([b"1"] if said is ENDED else []), "it goes to who wants it"
    play.send("d", "k", b"2")
    assert wire.bodies() == [b"2"]
    assert play.pending() == 2, "nothing is lost by an error"


CHANGES = st.lists(st.tuples(st.booleans(), st.sampled_from([C, D, ("c", "k"), ("", "")])), min_size=1, max_size=6)


@given(CHANGES, st.sets(st.integers(1, 300)), st.booleans())
def test_what_is_left_does_not_depend_on_how_the_bytes_are_cut(
    changes: list[tuple[bool, tuple[str, str]]], cuts: set[int], slow: bool
) -> None:
    """Nor on whether the store finds what was held at once, or when all has come. A message that is released and held
    again may have been sent meanwhile, or not: it is owed in either case."""
    said = [(Subscribe if wanted else Unsubscribe)(*entry, number) for number, (wanted, entry) in enumerate(changes, 1)]
    data = b"".join(encode(frame, Revision.DRAFT_2) for frame in said)

    def play(pieces: list[bytes], slow: bool) -> tuple[object, ...]:
        play, wire = lacking()
        play.send("c", "k", b"1")
        play.hold_searches = slow
        for piece in pieces:
            play.call("receive_data", wire.cid, piece)
        play.hold_searches = False
        for _ in said:
            play.looked()
        sound(play)
        return sorted(wire.acks()), play.knows(), play.pending()

    ends = sorted({cut for cut in cuts if cut < len(data)} | {len(data)})
    cut = [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    one_by_one = [encode(frame, Revision.DRAFT_2) for frame in said]
    assert play(cut, slow) == play(one_by_one, slow=False)


def test_what_waits_for_a_live_subscription_stays_when_that_is_unsubscribed() -> None:
    """T-30: queued deliveries stay."""
    play = Play(limits=Limits(window_messages=1))
    wire = play.peer(LOW, C)
    play.send("c", "k", b"1")
    play.send("c", "k", b"2")
    wire.send(Unsubscribe("c", "", 1))
    play.wait(0.2)
    assert play.pending() == 2
    assert held(play) == ()


def test_forgetting_the_peer_ends_it() -> None:
    play, _ = lacking()
    receipt = play.send("c", "k", b"1")
    play.call("forget_peer", LOW)
    assert [one.reason for one in receipt.undelivered] == [UndeliveredReason.FORGOTTEN]
    assert play.node.peers() == []
    assert play.store.messages == []
    assert notices(play.wait(4000.0)) == []


def test_what_is_sent_while_the_peer_is_being_forgotten_is_not_held_for_it() -> None:
    play, _ = lacking()
    receipt = play.send("c", "k", b"1")
    play.hold_commits = True
    play.call("forget_peer", LOW)
    assert play.send("c", "k", b"2").recipients == 0
    while play.held:
        play.finish()
    assert [one.reason for one in receipt.undelivered] == [UndeliveredReason.FORGOTTEN]
    assert play.node.peers() == []


def test_without_a_hold_it_is_as_it_was() -> None:
    play, _ = lacking(policy=Policy(unsubscribed_hold=0.0))
    assert held(play) == ()
    assert play.send("c", "k", b"1").recipients == 0


@pytest.mark.parametrize("revision", [Revision.DRAFT_1, Revision.DRAFT_2])
def test_where_no_control_messages_are_said_a_list_that_is_not_empty_ends_it(revision: Revision) -> None:
    """Draft 1 has none, and a peer that would die of them is not asked for any."""
    play = Play(revision=revision, dialects={LOW: Dialect(control_messages=False)})

    def again(*listed: tuple[str, str]) -> Wire:
        for wire in list(play.wires.values()):
            wire.lose()
        wire = play.accepted(LOW, revision=revision)
        wire.request(*listed)
        return wire

    again(C)
    again()
    play.send("c", "k", b"1")
    assert held(play) == (C,)
    wire = again(D)
    play.wait(1.0)
    assert held(play) == ()
    assert play.pending() == 0
    assert wire.bodies() == []


def test_unreliable_messages_and_required_recipients_do_not_count_it() -> None:
    play, wire = lacking()
    assert play.node.unreliable_send("c", "k", b"x") == 0
    with pytest.raises(TooFewRecipients):
        play.node.send("c", "k", b"x", require_recipients=1)
    play.run()
    assert wire.got()[1:] == []


@pytest.mark.parametrize("policy", list(QuotaPolicy))
def test_at_the_quota_new_ones_are_skipped_whatever_the_policy(policy: QuotaPolicy) -> None:
    play = Play(limits=Limits(outbox_messages=2), policy=Policy(quota_policy=policy))
    play.peer(OTHER, C)
    play.peer(LOW, C)
    back(play)
    play.send("c", "k", b"1")
    play.send("c", "k", b"2")
    other = next(wire for wire in play.wires.values() if wire.uuid == OTHER)
    other.ack(*other.messages())
    receipt = play.send("c", "k", b"3")
    assert receipt.recipients == 1
    assert [(one.peer, one.reason) for one in receipt.undelivered] == [(LOW, UndeliveredReason.UNSUBSCRIBED)]
    assert play.pending() == 2
    if policy is QuotaPolicy.RAISE:
        back(play, C)
        with pytest.raises(OutboxFull):
            play.node.send("c", "k", b"4")


@pytest.mark.parametrize("limits", [Limits(max_subscriptions=3), Limits(max_handshake=79)])
def test_listed_and_held_together_are_bounded_and_the_oldest_hold_ends_first(limits: Limits) -> None:
    play = Play(limits=limits)
    a, b, c, d, e = ((name * 12, "") for name in "abcde")  # 20 bytes each
    play.peer(LOW, a, b)
    back(play, c)
    assert held(play) == (a, b)
    play.wait(1.0)
    play.send(a[0], "k", b"1")
    back(play, d, e)
    assert len(held(play)) == 1
    assert held(play) == (c,), "held last"
    sound(play)


def test_what_the_remaining_connection_lacks_is_held() -> None:
    """T-70: while two stand, their union counts."""
    play = Play()
    play.wait(60.0)
    first = play.peer(LOW, C)
    second = play.accepted(LOW)
    second.request(D)
    assert first.cid not in play.wires or play.knows() == {D}
    assert held(play) == (C,)
    sound(play)
    play.send("c", "k", b"1")
    assert second.bodies() == []


def beside(**options: object) -> tuple[Play, Wire, Wire]:
    """A peer whose live connection has said nothing, while another one that wants C is being made."""
    play, live = lacking(**options)
    play.hold_commits = True
    play.send("c", "k", b"1")
    other = play.accepted(LOW)
    other.request(C)
    play.finish()
    assert play.knows() == {C}, "the union counts (T-70)"
    return play, live, other


def test_what_only_another_connection_wants_is_not_sent_on_the_live_one() -> None:
    """A second database of a peer acknowledges and drops what the first one wants."""
    play, live, other = beside()
    assert live.bodies() == []
    assert play.node.unreliable_send("c", "k", b"not kept", now=play.now) == 0
    play.finish()
    assert other.bodies() == [b"1"], "it is the live one now"
    play.hold_commits = False
    sound(play)


def test_what_only_another_connection_wanted_is_held_when_that_ends() -> None:
    play, live, other = beside()
    other.lose()
    play.hold_commits = False
    play.finish()
    play.wait(1.0)
    assert live.bodies() == []
    assert held(play) == (C,)
    live.send(Subscribe("c", "", 1))
    assert live.bodies() == [b"1"]
    sound(play)


def test_what_the_live_connection_comes_to_want_too_goes_on_it() -> None:
    play, live, other = beside()
    live.send(Subscribe("c", "", 1))
    other.lose()
    play.hold_commits = False
    play.finish()
    play.wait(0.5)
    assert live.bodies() == [b"1"]
    assert held(play) == ()
    sound(play)


def test_without_a_hold_what_another_connection_wanted_goes_when_that_ends() -> None:
    play, live = lacking(policy=Policy(unsubscribed_hold=0.0))
    play.hold_commits = True
    other = play.accepted(LOW)
    other.request(C)
    play.send("c", "k", b"1")
    other.lose()
    play.hold_commits = False
    play.finish()
    play.wait(1.0)
    assert live.bodies() == [b"1"]
    sound(play)


def test_a_list_that_is_not_stored_holds_nothing() -> None:
    play = Play()
    play.peer(LOW, C).lose()
    play.hold_commits = True
    wire = play.accepted(LOW)
    wire.request(D)
    play.fail()
    play.hold_commits = False
    play.run()
    assert play.knows() == {C}
    assert held(play) == ()
    sound(play)


def test_of_two_lists_that_are_not_stored_the_one_before_both_stands() -> None:
    """The second was heard while the first was on its way to the disk, and says what the store has."""
    play = Play()
    play.peer(LOW, C).lose()
    play.hold_commits = True
    play.accepted(LOW).request(D)
    play.accepted(LOW).request(C)
    play.fail()
    play.fail()
    play.hold_commits = False
    play.run()
    assert play.knows() == {C}
    assert held(play) == ()
    sound(play)


@pytest.mark.parametrize("hold", [0.0, 3600.0])
def test_a_connection_whose_end_is_not_stored_ends_its_list_later(hold: float) -> None:
    play = Play(policy=Policy(unsubscribed_hold=hold))
    first = play.peer(LOW, C)
    play.accepted(LOW).request(D)
    play.hold_commits = True
    play.wait(0.1)
    first.lose()
    play.fail()
    play.hold_commits = False
    play.wait(2.0)
    assert play.knows() == {D}
    assert held(play) == (C,) * bool(hold)
    sound(play)


@pytest.mark.parametrize("tries", [0, 1, 2])
def test_an_end_of_a_hold_is_stored_though_a_list_that_came_with_it_is_not(tries: int) -> None:
    """The list came while another commit ran, while that of the end did, or when that had failed twice."""
    play, _ = lacking()
    play.hold_commits = True
    if not tries:
        play.call("subscribe", "y", "")
    play.wait(3601.0)
    if tries == 2:
        play.fail()
        play.fail()
    back(play, D)
    if tries < 2:
        play.fail()
    [said] = [one for one in play.held[0].operations if isinstance(one, ReplacePeerSubscriptions)]
    assert said.subscriptions == (D,)
    play.fail()
    play.hold_commits = False
    play.wait(10.0)
    assert held(play) == ()
    sound(play)
    assert play.store.load().peers[LOW].held == {}


@pytest.mark.parametrize("failing", ["the commit", "the search", "both"])
def test_what_an_ended_hold_kept_is_given_up_once_the_store_works_and_never_sent(failing: str) -> None:
    play, wire = lacking()
    receipt = play.send("c", "k", b"1")
    play.hold_commits = failing != "the search"
    play.search_error = StoreError("cannot be read") if failing != "the commit" else None
    play.wait(3601.0)
    for _ in range(5):
        if play.held:
            play.fail()
        play.wait(1.0)
    play.hold_commits, play.search_error = False, None
    while play.held:
        play.finish()
    play.wait(5.0)
    assert wire.bodies() == []
    assert [one.reason for one in receipt.undelivered] == [UndeliveredReason.UNSUBSCRIBED]
    assert (play.pending(), held(play)) == (0, ())
    sound(play)


def test_a_message_that_was_sent_before_is_not_sent_again_while_it_is_held() -> None:
    play = Play()
    wire = play.peer(LOW, C)
    play.send("c", "k", b"1")
    wire = back(play, C)
    assert wire.bodies() == [b"1"]
    wire.send(HandshakeRequest(1, LOW, subscribed()))
    play.wait(60.0)
    assert wire.bodies() == []
    wire.send(Subscribe("c", "", 1))
    assert wire.bodies() == [b"1"]


def test_a_reconnect_reads_no_body_of_what_is_held() -> None:
    play, _ = lacking()
    play.node.send_many([("c", "k", b"%d" % number) for number in range(1000)])
    play.run()
    play.fetches.clear()
    back(play)
    play.wait(1.0)
    assert len(play.fetches) <= 2
    assert all(play.store.fetch(LOW, one.after_seq, 256, 2**20) == [] for one in play.fetches)
    assert every(play.run(), Fetch) == []


def test_a_hold_that_ends_as_its_connection_does() -> None:
    play, wire = lacking()
    play.send("c", "k", b"1")
    play.hold_commits = True
    wire.send(Subscribe("c", "", 1))
    wire.lose()
    play.hold_commits = False
    play.finish()
    inside(play.node).peer_lists._on_hold_timeout(OTHER)  # of a peer that is gone
    assert held(play) == ()
    assert back(play, C).bodies() == [b"1"]


def test_a_hold_is_a_time() -> None:
    with pytest.raises(ValueError, match="unsubscribed_hold"):
        Policy(unsubscribed_hold=-1.0)


def test_what_is_read_to_be_sent_again_and_is_held_goes_out_anew_later() -> None:
    limits = Limits()
    outbox = Outbox(LoadedPeer())
    window = Window(outbox, limits, 1.0, lambda: 0.0)
    rows = [StoredMessage(seq, seq, "c", "k", b"", 20) for seq in (1, 2)]
    window.committed(rows)
    outbox.add(2, 40)
    assert [*window.next_run(1), *window.next_run(1)] == rows
    window.transmitted([1, 2], (), 0.0)
    window.fall_due(1.0)
    assert [*window.next_run(1), *window.next_run(1)] == rows
    window.transmitted([1, 2], (), 1.0)
    window.fall_due(10.0)
    assert window.next_fetch() == (0, 2, limits.window_bytes)
    assert window.fetched(rows[:1], 0, lambda channel, key: True) == []
    assert window.next_fetch() == (1, 1, limits.window_bytes)
    assert window.fetched([], 1, lambda channel, key: True) == []
    assert window.in_backoff == 0
    assert not window.next_run(1)
    window.go_back(0)
    assert window.fetched(rows, 0, None) == []
    assert [*window.next_run(1), *window.next_run(1)] == rows


# Unsubscribes that are repeated.


def unsubscribes(wire: Wire) -> list[Unsubscribe]:
    """Those that came; they are acknowledged."""
    said = [one for one in wire.got() if isinstance(one, Unsubscribe)]
    wire.send(*(Ack(one.message_id) for one in said if one.message_id is not None))
    return said


def test_an_unsubscribe_is_repeated_until_it_is_acknowledged() -> None:
    play = Play()
    play.call("subscribe", "c", "")
    wire = play.peer(LOW)
    wire.lose()
    play.call("unsubscribe", "c", "")
    for _ in range(2):
        wire = play.accepted(LOW)
        wire.request()
        response, said = wire.got()
        assert isinstance(response, HandshakeResponse)
        assert response.subscriptions == ()
        assert isinstance(said, Unsubscribe)
        wire.lose()
    again = play.restart()
    wire = again.accepted(LOW)
    wire.request()
    [said] = [one for one in wire.got() if isinstance(one, Unsubscribe)]
    assert said.message_id is not None
    wire.send(Ack(said.message_id))
    assert back(again).got()[1:] == []
    sound(again)


def test_it_is_repeated_where_another_connection_has_told_the_list_before() -> None:
    """The peer may read that list last, and would hold what it lacks next time."""
    play = Play(version=2)
    play.call("subscribe", "c", "")
    other = play.accepted(LOW)
    other.request(version=3)
    (response,) = other.got()
    assert isinstance(response, HandshakeResponse)
    assert (response.status, response.subscriptions) == (HandshakeStatus.OLDER, subscribed(C))

    def repeated() -> list[Unsubscribe]:
        wire = play.accepted(LOW)
        wire.request(version=2)
        said = unsubscribes(wire)
        wire.lose()
        return said

    wire = play.accepted(LOW)
    wire.request(version=2)
    wire.got()
    play.call("unsubscribe", "c", "")
    assert unsubscribes(wire)
    wire.lose()
    other.lose()
    assert [(one.channel, one.key) for one in repeated()] == [C]
    assert repeated() == []
    sound(play)


def test_what_was_held_goes_out_though_the_commit_that_ends_the_hold_fails_first() -> None:
    """The peer says it twice. The store holds the message until the second commit: it is read once more after that."""
    play = Play()
    play.peer(LOW, C).lose()
    wire = back(play)
    play.send("c", "k", b"x")
    play.hold_commits = True
    wire.send(Subscribe(*C, 1))
    wire.send(Subscribe(*C, 2))
    play.fail()
    play.hold_commits = False
    while play.held:
        play.finish()
    assert wire.bodies() == [b"x"]
    sound(play)


def test_what_was_sent_to_a_list_that_failed_is_not_sent_on_the_connection_of_another_program() -> None:
    """Two programs of one identity: the second one wants nothing, and would acknowledge and drop it (T-70)."""
    play = Play()
    second = play.peer(LOW)
    first = play.accepted(LOW)
    play.hold_commits = True
    first.request(C)
    play.node.send("c", "k", b"x", now=play.now)
    play.run()
    play.fail()
    play.hold_commits = False
    while play.held:
        play.finish()
    assert (first.bodies(), second.bodies()) == ([], [])
    first.lose()
    first = play.accepted(LOW)
    first.request(C)
    assert first.bodies() == [b"x"]
    sound(play)


@pytest.mark.parametrize("is_dialled", [False, True], ids=["its_peer_is_known", "not_known"])
def test_it_is_repeated_at_once_on_the_live_connection_when_the_other_has_ended(is_dialled: bool) -> None:
    """The live one may last for months, and the peer would hold the subscription meanwhile."""
    play = Play(version=2)
    play.call("subscribe", "c", "")
    if is_dialled:
        other = play.dialled(play.call("connect", "there"))
    else:
        other = play.accepted(LOW)
        other.request(version=3)
    other.got()
    wire = play.accepted(LOW)
    wire.request(version=2)
    wire.got()
    play.call("unsubscribe", "c", "")
    assert unsubscribes(wire)
    assert unsubscribes(wire) == []
    other.lose()
    assert [(one.channel, one.key) for one in unsubscribes(wire)] == [C]
    wire.lose()
    again = play.accepted(LOW)
    again.request(version=2)
    assert again.got()[1:] == []
    sound(play)


def test_it_is_repeated_to_a_peer_that_became_known_only_then() -> None:
    play = Play()
    play.call("subscribe", "c", "")
    wire = play.dialled(play.call("connect", "host:1"))
    play.hold_commits = True
    wire.respond()
    play.call("unsubscribe", "c", "")
    play.hold_commits = False
    play.finish()
    assert [one for one in wire.got() if isinstance(one, Unsubscribe)]
    wire.lose()
    assert unsubscribes(back(play))
    assert back(play).got()[1:] == []
    sound(play)


def test_it_is_not_repeated_once_it_is_wanted_again_or_after_a_day() -> None:
    play = Play()
    for channel in ("c", "d"):
        play.call("subscribe", channel, "")
    play.peer(LOW).lose()
    for channel in ("c", "d"):
        play.call("unsubscribe", channel, "")
    play.call("subscribe", "c", "")
    later = play.restart()
    assert [one.channel for one in back(later).got() if isinstance(one, Unsubscribe)] == ["d"]
    play.wait(24 * 3600.0 + 1)
    assert [one for one in back(play).got() if isinstance(one, Unsubscribe)] == []
    sound(play)


def test_nobody_is_told_of_what_was_never_wanted() -> None:
    play = Play()
    play.peer(LOW).lose()
    play.call("unsubscribe", "c", "")
    assert back(play).got()[1:] == []


def test_it_is_never_said_in_draft_1() -> None:
    play = Play(revision=Revision.DRAFT_1)
    play.call("subscribe", "c", "")
    wire = play.accepted(LOW, revision=Revision.DRAFT_1)
    wire.request()
    wire.lose()
    play.call("unsubscribe", "c", "")
    wire = play.accepted(LOW, revision=Revision.DRAFT_1)
    wire.request()
    assert len(wire.got()) == 1


# A peer of a Go layout loses its own subscribe in a race, and then says an empty list.

HOUR, DAY = 3600.0, 86400.0
GO = [Revision.GO_SEED, Revision.GO_D05F89B, Revision.GO_499B76D, Revision.GO_2026]


def gone_quiet(play: Play, revision: Revision) -> tuple[Wire, list[Action]]:
    """It had subscribed, is back with an empty list, and a message waits for it."""
    play.accepted(LOW, revision=revision).request(C)
    for cid in list(play.wires):
        play.wires[cid].lose()
    wire = play.accepted(LOW, revision=revision)
    actions = wire.request()
    play.send("c", "k", b"x")
    return wire, actions


@pytest.mark.parametrize("revision", GO)
def test_an_empty_list_of_a_go_program_is_held_for_a_day_with_the_cure(revision: Revision) -> None:
    play = Play(revision=revision)
    wire, actions = gone_quiet(play, revision)
    [text] = [one.detail for one in every(actions, Notice) if one.kind is NoticeKind.HELD]
    assert "86400 s" in text
    assert "let it subscribe again, or start it anew" in text
    play.wait(DAY - 1.0)
    assert held(play) == subscribed(C)
    assert wire.cid in play.wires, "no connection is ended for it"
    wire.send(Subscribe(*C, 99))
    assert wire.bodies() == [b"x"]
    wire.lose()
    gone = play.accepted(LOW, revision=revision)
    gone.request()
    play.wait(DAY + 1.0)
    assert held(play) == ()
    sound(play, revision=revision)


EARLIER: dict[str, tuple[dict[str, Any], list[tuple[str, str]]]] = {
    "draft 2": ({"revision": Revision.DRAFT_2}, []),
    "no control messages": ({"dialects": {LOW: Dialect(control_messages=False)}}, []),
    "not an empty list": ({}, [D]),
    "no hold at all": ({"policy": Policy(unsubscribed_hold=0.0)}, []),
}


@pytest.mark.parametrize("how", EARLIER)
def test_else_the_earlier_rule_stands(how: str) -> None:
    given, listed = EARLIER[how]
    given = {"revision": Revision.GO_2026, **given}
    play, revision = Play(**given), given["revision"]
    play.accepted(LOW, revision=revision).request(C)
    for cid in list(play.wires):
        play.wires[cid].lose()
    play.accepted(LOW, revision=revision).request(*listed)
    play.wait(HOUR + 1.0)
    assert held(play) == ()


@pytest.mark.parametrize("known", ["by its UUID", "by a remote that does not answer"])
def test_the_day_goes_on_where_it_was_not_heard_since_a_restart(known: str) -> None:
    dialect = Dialect(revision=Revision.GO_2026)
    play = Play(dialects={LOW: dialect})
    gone_quiet(play, Revision.GO_2026)
    play.wait(1.0)
    again = play.restart(dialects={LOW: dialect} if known == "by its UUID" else {})
    if known != "by its UUID":
        again.node.connect("there", dialect=dialect)
    again.wait(HOUR * 2)
    assert held(again) == subscribed(C)
    again.wait(DAY)
    assert held(again) == ()


@pytest.mark.parametrize("stored", [True, False])
def test_an_unsubscribe_is_not_kept_for_a_peer_that_is_being_forgotten(stored: bool) -> None:
    """The store has dropped all rows of the peer by then: a kept unsubscribe would outlive the peer there (T-77)."""
    play = Play()
    play.peer(LOW, ("c", ""))
    play.hold_commits = True
    play.call("forget_peer", LOW)
    while len(play.held) == 1 and not any(isinstance(one, ForgetPeer) for one in play.held[0].operations):
        play.finish()
    play.call("subscribe", "x", "")
    play.call("unsubscribe", "x", "")
    play.finish() if stored else play.fail()
    while play.held:
        play.finish()
    audit(play.node, play.store)
