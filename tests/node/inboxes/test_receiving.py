"""Inbound half of the node: handlers, acks, credit, control messages.

The rulings are T-20 to T-29, T-42 to T-49, T-57, T-66, D-9.
"""

from __future__ import annotations

import pytest

from tolliver_proto import (
    Ack,
    Deliver,
    HandshakeFinal,
    HandshakeRequest,
    HandshakeResponse,
    HandshakeStatus,
    Limits,
    Message,
    NoticeKind,
    OwnLimitExceeded,
    PauseReading,
    PeerDown,
    ReservedChannel,
    ResumeReading,
    Revision,
    ShutdownWrite,
    Subscribe,
    Subscription,
    Unsubscribe,
    encode,
)
from tolliver_proto._testing.inspection import inside

from ..play import HIGH, LOW, Play, deliveries, every, notices, only, subscribed


def subscriber(*own: tuple[str, str], limits: Limits | None = None) -> Play:
    play = Play(handlers=[("", "", "all")], limits=limits)
    for subscription in own or (("c", ""),):
        play.call("subscribe", *subscription)
    return play


def message(n: int, channel: str = "c", key: str = "k") -> Message:
    return Message(channel, key, b"%d" % n, n)


def test_all_matching_handlers_one_run_each() -> None:
    """T-57: handlers and subscriptions are independent, wildcards as in T-24; a delivery goes to all that match. A run
    is of the handlers, whatever the names in it are."""
    play = subscriber(("", ""))
    play.node.register("c", "", "by channel")
    play.node.register("", "k", "by key")
    wire = play.peer()
    sent = [message(1), message(2), message(3, "d", "z"), message(4, "e", "z"), message(5), message(6, "c", "k")]
    runs = every(wire.send(*sent), Deliver)
    assert [[one.message_id for one in run.deliveries] for run in runs] == [[1, 2], [3, 4], [5, 6]]
    assert set(runs[0].handlers) == {"all", "by channel", "by key"}
    assert set(runs[1].handlers) == {"all"}
    play.node.unregister("", "", "all")
    assert set(only(wire.send(message(7)), Deliver).handlers) == {"by channel", "by key"}


def test_wanted_but_nobody_there_is_withheld_unwanted_is_acknowledged_and_dropped() -> None:
    """T-46."""
    play = Play(subscriptions=[("c", "")])
    play.wait(6.0)
    wire = play.peer()
    assert notices(wire.send(message(1), message(2, "other"))) == [NoticeKind.UNWANTED]
    assert wire.acks() == [2]
    play.node.register("c", "", "late")
    assert [one.message_id for one in deliveries(wire.send(message(1)))] == [1]


def test_a_handler_without_a_subscription_gets_nothing() -> None:
    """T-57, T-21: what was unsubscribed is acknowledged and dropped, handler or not."""
    play = subscriber()
    wire = play.peer()
    play.call("unsubscribe", "c", "")
    assert deliveries(wire.send(message(1))) == []
    assert 1 in wire.acks()


def test_attempts_count_failures() -> None:
    """T-45, T-47: each failed delivery raises the attempt, a success forgets it."""
    play = subscriber()
    wire = play.peer()
    for attempt in (1, 2, 3):
        (delivery,) = deliveries(wire.send(message(7)))
        assert delivery.attempt == attempt
        play.call("fail", [delivery])
        play.call("fail", [delivery])
    (delivery,) = deliveries(wire.send(message(7)))
    play.call("acknowledge", [delivery])
    assert wire.acks() == [7]
    assert deliveries(wire.send(message(7)))[0].attempt == 1


def test_what_is_acknowledged_on_receipt_counts_when_its_handler_has_ended() -> None:
    play = subscriber()
    wire = play.peer()
    handed = deliveries(wire.send(message(1), message(2)))
    for one in handed:
        play.node.acknowledge([one], is_judged=False)
    play.run()
    assert wire.acks() == [1, 2]
    assert (play.node.stats().handled, play.node.stats().failed) == (0, 0)
    play.node.judge(True)
    play.node.judge(False)
    assert (play.node.stats().handled, play.node.stats().failed) == (1, 1)


def test_every_copy_is_handed_out_and_acknowledged() -> None:
    """T-48."""
    play = subscriber()
    wire = play.peer()
    for _ in range(2):
        play.call("acknowledge", deliveries(wire.send(message(7))))
    assert wire.acks() == [7, 7]


@pytest.mark.parametrize("id_", [0, 1, 2**31 - 2, 2**31, 2**32 - 1])
def test_every_id_but_the_reserved_one_is_acknowledged(id_: int) -> None:
    """T-42."""
    play = subscriber()
    wire = play.peer()
    play.call("acknowledge", deliveries(wire.send(Message("c", "k", b"", id_))))
    assert wire.acks() == [id_]


def test_unreliable_is_settled_and_not_acknowledged() -> None:
    play = subscriber(limits=Limits(inbox_messages=1))
    wire = play.peer()
    (first,) = deliveries(wire.send(Message("c", "k", b"1"), Message("c", "k", b"2")))
    (second,) = deliveries(play.call("acknowledge", [first]))
    assert second.body == b"2"
    assert wire.acks() == []


def test_after_lost_only_copies_are_acknowledged() -> None:
    """T-49, T-48: what came again on another connection, and what comes there later."""
    play = subscriber()
    wire = play.peer()
    old = deliveries(wire.send(message(1), message(2)))
    wire.lose()
    wire = play.peer()
    assert deliveries(wire.send(message(1))) == []
    assert play.call("acknowledge", old) == []
    assert play.call("fail", old) == []
    assert wire.acks() == [1]
    play.call("acknowledge", deliveries(wire.send(message(2))))
    assert wire.acks() == [2]


def test_what_came_before_the_loss_is_delivered_before_it_is_reported() -> None:
    play = subscriber()
    wire = play.peer()
    data = b"".join(encode(message(n)) for n in (1, 2))
    play.node.receive_data(wire.cid, data + b"\x03\x00")
    play.node.lost(wire.cid)
    assert [type(action) for action in play.run()][:2] == [Deliver, PeerDown]


def test_credit_stops_events_then_reading_and_settling_brings_both_back() -> None:
    """D-9: bounded by number, half of it settled before reading goes on, in order, nothing lost."""
    play = subscriber(limits=Limits(inbox_messages=10, high_water=400, low_water=200))
    wire = play.peer()
    actions = wire.send(*map(message, range(1, 41)))
    first = deliveries(actions)
    assert [one.message_id for one in first] == list(range(1, 11))
    actions = wire.send(*map(message, range(41, 51)))
    assert (deliveries(actions), len(every(actions, PauseReading))) == ([], 1)
    assert wire.send(message(51)) == [], "paused once"
    assert play.call("acknowledge", first[:5]) == []
    seen, waiting = list(first), list(first[5:])
    resumed = 0
    for _ in range(60):
        actions = play.call("acknowledge", waiting[:1])
        waiting = waiting[1:] + deliveries(actions)
        seen += deliveries(actions)
        resumed += len(every(actions, ResumeReading))
        assert len(waiting) <= 10
    assert [one.message_id for one in seen] == list(range(1, 52))
    assert resumed >= 1


def test_settling_messages_of_several_peers_together_gives_each_its_credit() -> None:
    """D-9: and each connection its acks, whatever the order."""
    play = subscriber(limits=Limits(inbox_messages=2))
    wires = [play.peer(LOW), play.peer(HIGH)]
    held = [deliveries(wire.send(message(1), message(2), message(3))) for wire in wires]
    assert [[one.message_id for one in some] for some in held] == [[1, 2], [1, 2]]
    (first, second), (third, fourth) = held
    more = deliveries(play.call("acknowledge", [first, third, second, fourth]))
    assert sorted((one.peer_id, one.message_id) for one in more) == sorted([(LOW, 3), (HIGH, 3)])
    assert [wire.acks() for wire in wires] == [[1, 2], [1, 2]]


def test_credit_by_bytes_always_admits_one() -> None:
    """D-9."""
    play = subscriber(limits=Limits(inbox_bytes=100))
    wire = play.peer()
    (big,) = deliveries(wire.send(Message("c", "k", bytes(5000), 1), message(2)))
    assert [one.message_id for one in deliveries(play.call("fail", [big]))] == [2]


def test_acknowledgements_pass_while_nothing_is_handed_out() -> None:
    """A peer that waits for our handlers still gets what it owes us an ack for: here, after the credit is back."""
    play = subscriber(limits=Limits(inbox_messages=1))
    wire = play.peer(LOW, ("c", ""))
    play.send("c", "k", b"out")
    (out,) = wire.messages()
    (held,) = deliveries(wire.send(message(1)))
    wire.ack(out)
    assert play.pending() == 1
    play.call("acknowledge", [held])
    assert play.pending() == 0


def test_subscriptions_of_a_peer_change_by_control_messages() -> None:
    """T-23, T-26, T-28: exactly that entry; unknown ones are no error; unreliable ones are processed, not acked."""
    play = Play()
    wire = play.peer(LOW, ("", ""))
    wire.send(Subscribe("c", "k", 1), Unsubscribe("c", "", 2), Subscribe("d", ""), Unsubscribe("", "", 3))
    assert play.knows() == {Subscription("c", "k"), Subscription("d", "")}
    assert wire.acks() == [1, 2, 3]
    assert play.store.load().peers[LOW].subscriptions == play.knows()


def test_the_reserved_channel_is_refused_everywhere() -> None:
    """T-27: not stored, acknowledged, counted; in a list too. Locally an error."""
    play = Play()
    wire = play.peer(LOW, ("tolliver", ""), ("c", ""))
    wire.send(Subscribe("tolliver", "x", 9))
    assert wire.acks() == [9]
    assert play.knows() == {Subscription("c", "")}
    for call in (play.node.subscribe, play.node.unsubscribe):
        with pytest.raises(ReservedChannel):
            call("tolliver", "")
    with pytest.raises(ReservedChannel):
        play.node.register("tolliver", "", "h")
    assert play.node.stats()["refused_subscriptions"] == 2


def test_what_cannot_be_understood_is_acknowledged() -> None:
    """T-10, T-20, T-27: or it would come again for ever."""
    play = subscriber(("", ""))
    wire = play.peer()
    bad_text = encode(message(5)).replace(b"ck5", b"\xff\xffk5"[:3])
    bad_control = encode(Subscribe("c", "k", 6))
    bad_control = bad_control[:-11] + b"\x09" + bad_control[-10:]
    play.node.receive_data(wire.cid, bad_text + bad_control)
    assert notices(play.run()) == [NoticeKind.IGNORED]
    assert wire.acks() == [5, 6]
    assert sum(count for name, count in play.node.stats().items() if name.startswith("ignored_")) == 2


def test_too_many_subscriptions_of_a_peer_are_refused_and_acknowledged() -> None:
    """D-6."""
    play = Play(limits=Limits(max_subscriptions=3))
    wire = play.peer(LOW, ("a", ""), ("b", ""))
    wire.send(Subscribe("c", "", 1), Subscribe("d", "", 2), Subscribe("c", "", 3))
    assert play.knows() == set(subscribed(("a", ""), ("b", ""), ("c", "")))
    assert sorted(wire.acks()) == [1, 2, 3]


@pytest.mark.parametrize("more", [0, 1])
def test_a_list_of_a_peer_is_as_long_as_a_handshake_and_no_byte_longer(more: int) -> None:
    """D-6: each entry is eight bytes and its names."""
    play = Play(limits=Limits(max_handshake=100))
    wire = play.peer(LOW, ("a", ""))
    long = ("c" * (100 - 9 - 8 + more), "")
    wire.send(Subscribe(*long, 1))
    assert (Subscription(*long) in play.knows()) is not bool(more)
    assert wire.acks() == [1]


def test_own_changes_are_told_to_every_peer_once_they_are_stored() -> None:
    """T-23, T-31."""
    play = Play()
    wire = play.peer(LOW)
    play.hold_commits = True
    play.call("subscribe", "c", "k")
    assert wire.got() == []
    play.finish()
    assert wire.got() == [Subscribe("c", "k", 1)]
    assert play.restart().node.subscriptions() == [Subscription("c", "k")]


def test_one_change_of_a_subscription_at_a_time_and_the_latest_wins() -> None:
    """T-29."""
    play = Play()
    wire = play.peer(LOW)
    play.call("subscribe", "c", "k")
    (first,) = wire.got()
    for call in ("unsubscribe", "subscribe", "unsubscribe"):
        play.call(call, "c", "k")
    play.call("subscribe", "d", "")
    assert wire.got() == [Subscribe("d", "", 2)]
    assert isinstance(first, Subscribe)
    wire.send(message(99, "x"))
    wire.ack(Message("", "", b"", first.message_id))
    assert wire.got()[-1:] == [Unsubscribe("c", "k", 3)]
    play.call("subscribe", "c", "k")
    play.call("unsubscribe", "c", "k")
    wire.ack(Message("", "", b"", 3))
    assert wire.got() == [], "the peer knows already"


def test_a_control_message_is_sent_again_and_not_over_a_new_connection() -> None:
    """T-29: on a handshake the list says it all; nothing stale is ever resent."""
    play = Play()
    wire = play.peer(LOW)
    play.call("subscribe", "c", "k")
    assert wire.got() == [Subscribe("c", "k", 1)]
    play.wait(10.5)
    assert wire.got() == [Subscribe("c", "k", 1)]
    play.call("unsubscribe", "c", "k")
    wire.lose()
    wire = play.accepted()
    wire.request()
    response, repeated = wire.got()
    assert isinstance(response, HandshakeResponse)
    assert response.subscriptions == ()
    assert repeated == Unsubscribe("c", "k", 2), "what we want no more is said until it is acknowledged (T-61)"
    wire.send(Ack(2))
    assert play.wait(100.0) == []
    assert wire.got() == []


def test_a_change_while_the_handshake_runs_follows_it() -> None:
    """T-29: what was changed after the list was taken is sent after Established."""
    play = Play()
    play.call("subscribe", "old", "")
    play.node.connect("there")
    wire = play.dialled(play.run())
    (request,) = wire.got()
    assert isinstance(request, HandshakeRequest)
    assert request.subscriptions == subscribed(("old", ""))
    play.call("subscribe", "new", "")
    play.call("unsubscribe", "old", "")
    wire.respond()
    assert wire.got() == [Subscribe("new", "", 1), Unsubscribe("old", "", 2)]


def test_draft_1_cannot_unsubscribe_on_the_wire() -> None:
    """T-21: at once here, there with the next handshake."""
    play = Play(revision=Revision.DRAFT_1)
    wire = play.accepted(revision=Revision.DRAFT_1)
    wire.request()
    play.call("subscribe", "c", "")
    play.call("unsubscribe", "c", "")
    assert [type(frame) for frame in wire.got()] == [HandshakeResponse, Subscribe]
    wire.lose()
    wire = play.accepted(revision=Revision.DRAFT_1)
    wire.request()
    assert [getattr(frame, "subscriptions", None) for frame in wire.got()] == [()]


def test_a_handshake_on_a_live_connection_replaces_the_list() -> None:
    """T-66, T-30: answered as normal, deliveries already queued stay."""
    play = Play()
    wire = play.peer(LOW, ("a", ""))
    play.send("a", "k", b"queued")
    wire.got()
    wire.request(("b", ""))
    (response,) = wire.got()
    assert isinstance(response, HandshakeResponse)
    assert response.status is HandshakeStatus.SAME_VERSION
    assert play.knows() == {Subscription("b", "")}
    assert play.pending() == 1
    assert play.send("b", "k", b"on").recipients == 1
    assert wire.bodies() == [b"on"]


def test_a_repeated_handshake_whose_connection_is_lost_while_its_list_is_stored() -> None:
    play = Play()
    wire = play.peer(LOW, ("a", ""))
    play.hold_commits = True
    wire.request(("b", ""))
    wire.lose()
    assert [type(action) for action in play.finish()] == [PeerDown]
    assert play.node.stats()["connections"] == 0


def test_a_repeated_handshake_after_older_repeats_its_status() -> None:
    """T-66: the success final that follows is ignored, a failure final closes."""
    play = Play()
    wire = play.accepted()
    wire.request(("a", ""), version=2)
    wire.send(HandshakeFinal(True))
    wire.request(("b", ""), version=2)
    statuses = [frame.status for frame in wire.got() if isinstance(frame, HandshakeResponse)]
    assert statuses == [HandshakeStatus.OLDER] * 2
    wire.send(HandshakeFinal(True))
    assert play.knows() == {Subscription("b", "")}
    wire.request(("b", ""), version=2)
    assert every(wire.send(HandshakeFinal(False)), ShutdownWrite)


def test_own_lists_stay_within_what_peers_take() -> None:
    """T-19: by number and by bytes, the head of the handshake included."""
    for most in range(1, 5):
        play = Play(limits=Limits(max_subscriptions=most, max_handshake=100))
        for name in "abcd"[:most]:
            play.call("subscribe", name, "")
        play.call("subscribe", "a", "")
        with pytest.raises(OwnLimitExceeded, match="T-19"):
            play.node.subscribe("e", "")
        assert play.run() == []
    for size in range(100):
        play = Play(limits=Limits(max_handshake=100))
        try:
            play.call("subscribe", "x" * size, "")
        except OwnLimitExceeded:
            assert size > 50
        for wire in (play.accepted(), play.accepted()):
            wire.request()
            assert wire.got()
        play.node.connect("there")
        assert play.dialled(play.run()).got()


def test_own_lists_have_the_same_room_after_a_restart() -> None:
    """T-19."""

    def fits(play: Play, size: int) -> bool:
        try:
            play.call("subscribe", "x" * size, "")
        except OwnLimitExceeded:
            return False
        play.call("unsubscribe", "x" * size, "")
        return True

    play = Play(limits=Limits(max_handshake=100))
    play.call("subscribe", "a", "")
    again = play.restart()
    sizes = [size for size in range(100) if fits(play, size)]
    assert 0 < len(sizes) < 100
    assert [size for size in range(100) if fits(again, size)] == sizes


def test_an_acknowledged_change_is_never_sent_again() -> None:
    """T-29: a stale resend would bring back what was taken away since."""
    play = Play()
    wire = play.peer(LOW)
    for call, kind, wire_id in (("subscribe", Subscribe, 1), ("unsubscribe", Unsubscribe, 2)):
        play.call(call, "c", "k")
        assert wire.got() == [kind("c", "k", wire_id)]
        wire.ack(Message("", "", b"", wire_id))
    play.wait(1000.0)
    assert wire.got() == []
    assert list(inside(play.node).ledger.ids.live) == []
