"""Floods by peers within the grammar: memory is bounded (D-3, D-6, D-12).

`tests/adapters/test_abuse.py` has the same on real sockets.
"""

from __future__ import annotations

from uuid import UUID

import pytest

from tolliver_proto import (
    Acl,
    Deliver,
    Delivery,
    HandshakeFinal,
    LimitExceeded,
    Limits,
    Message,
    Notice,
    NoticeKind,
    PauseReading,
    PeerDown,
    PeerIdentity,
    ResumeReading,
    Rights,
    Subscribe,
    Subscription,
    Unsubscribe,
    encode,
)
from tolliver_proto._testing.inspection import inside

from .play import LOW, OTHER, Play, deliveries, every, notices, only

KEY = PeerIdentity(spki_sha256=bytes(32), address="192.0.2.1")
ANOTHER_KEY = PeerIdentity(spki_sha256=bytes([1] * 32), address="192.0.2.2")


def stranger(number: int) -> UUID:
    return UUID(int=LOW.int + 0x1000 + number)


# Peers that never read.


def held(play: Play, cid: int) -> int:
    return inside(play.node).context.links[cid].unsent if cid in inside(play.node).context.links else 0


@pytest.mark.parametrize("channel", ["unwanted", "handled"])
def test_who_never_reads_its_acks_is_closed_out(channel: str) -> None:
    """Reading never waits for writing (D-9), and each of these five bytes is caused by seventeen of the peer's."""
    play = Play(limits=Limits(max_answers=1000), handlers=[("handled", "", "handler")], subscriptions=[])
    play.call("subscribe", "handled", "")
    wire = play.peer()
    play.hold_writes = True
    seen = []
    for first in range(1, 2000, 100):
        seen += wire.send(*(Message(channel, "", b"", number) for number in range(first, first + 100)))
        for run in every(seen, Deliver):
            play.node.acknowledge(run.deliveries, now=play.now)
        seen += play.run()
        assert held(play, wire.cid) <= 3000
    assert [str(LOW) in one.detail for one in every(seen, Notice) if one.kind is NoticeKind.PROTOCOL_ERROR] == [True]
    seen += play.wait(6.0)
    error = only(seen, PeerDown).error
    assert isinstance(error, LimitExceeded)
    assert error.code == "flood"
    assert play.node.stats()["connections"] == 0


def test_a_flood_before_a_broken_frame_is_told_as_the_frame() -> None:
    """The connection has ended for the frame: one reason is told."""
    play = Play(limits=Limits(max_answers=1000), subscriptions=[])
    wire = play.peer()
    came = b"".join(encode(Message("unwanted", "", b"", number)) for number in range(1, 250))
    play.node.receive_data(wire.cid, came + bytes([255]) * 64, play.now)
    seen = play.run()
    assert play.node.stats().notices[NoticeKind.PROTOCOL_ERROR] == 1
    error = only(seen, PeerDown).error
    assert not isinstance(error, LimitExceeded)


def test_who_reads_may_cause_as_many_acks_as_it_likes() -> None:
    play = Play(limits=Limits(max_answers=1000), subscriptions=[])
    wire = play.peer()
    for _ in range(20):
        wire.send(*(Message("unwanted", "", b"", number) for number in range(1, 101)))
        assert len(wire.acks()) == 100
    assert play.node.stats()["peers_up"] == 1


@pytest.mark.parametrize(("most", "stays"), [(505, True), (504, False)])
def test_the_bound_is_one_of_bytes(most: int, stays: bool) -> None:
    play = Play(limits=Limits(max_answers=most), subscriptions=[])
    wire = play.peer()
    wire.send(*(Message("unwanted", "", b"", number) for number in range(1, 102)))
    assert play.node.stats().notices[NoticeKind.PROTOCOL_ERROR] == (not stays)


def test_who_never_reads_the_answers_to_its_handshakes_is_closed_out() -> None:
    """T-66 lets it ask once a second, for ever, and each answer may be a MiB."""
    play = Play(limits=Limits(max_answers=1000))
    for number in range(10):
        play.call("subscribe", "c" * 50, str(number))
    wire = play.peer()
    play.hold_writes = True
    for _ in range(10):
        wire.request()
        assert held(play, wire.cid) <= 3000
        play.wait(1.0)
    play.wait(6.0)
    assert play.node.stats()["connections"] == 0


# Peers that say more than is handled.


def test_a_little_credit_lets_in_no_more_than_it_hands_out() -> None:
    """D-9: reading goes on when what was read before is handed out, not whenever a handler has settled something.

    Else a peer that sends tiny messages fills the memory as fast as it can send, however fast they are handled.
    """
    limits = Limits(inbox_messages=16, low_water=1000)
    play = Play(limits=limits, handlers=[("handled", "", "handler")])
    play.call("subscribe", "handled", "")
    wire = play.peer()
    chunk = [Message("handled", "", b"", number) for number in range(1, 201)]
    size = sum(len(encode(message)) for message in chunk)
    received, handled, reading = 0, 0, True
    waiting: list[Delivery] = []
    for _ in range(1000):
        seen = wire.send(*chunk) if reading else []
        received += len(chunk) * reading
        waiting += deliveries(seen)
        settled, waiting = waiting[:9], waiting[9:]
        handled += len(settled)
        settling = play.call("acknowledge", settled)
        waiting += deliveries(settling)
        for action in (*seen, *settling):
            if isinstance(action, PauseReading | ResumeReading):
                reading = isinstance(action, ResumeReading)
        buffered = inside(play.node).context.links[wire.cid].connection.buffered_bytes  # type: ignore[union-attr]  # it is open
        assert buffered <= limits.low_water + size
    assert received > handled > 8000, "and it goes on"


def test_what_the_credit_takes_is_handed_out_when_the_line_breaks() -> None:
    """And no more: a peer that comes again and again would fill the memory. From there on all of it comes again."""
    limits = Limits(inbox_messages=16, low_water=1000)
    play = Play(limits=limits, handlers=[("handled", "", "handler")])
    play.call("subscribe", "handled", "")
    wire = play.peer()
    seen = []
    for first in range(1, 1000, 20):
        seen += wire.send(*(Message("handled", "", b"", number) for number in range(first, first + 20)))
        if every(seen, PauseReading):
            break
    given = deliveries(seen)
    play.call("acknowledge", given[:7])
    seen = wire.lose()
    assert [one.message_id for one in (*given, *deliveries(seen))] == [*range(1, 17)]
    assert play.node.stats()["connections"] == 0
    assert play.node.stats()["withheld"] == first + 19 - 16
    wire = play.peer()
    assert deliveries(wire.send(Message("handled", "", b"again", 17))) == [], "its credit is still spent"
    [again] = deliveries(play.call("acknowledge", given))
    assert again.body == b"again"


# Subscriptions.


def test_control_messages_add_no_more_than_a_handshake_may_list() -> None:
    """D-6: a list has two bounds, and one of 10,000 long names would take 80 MiB."""
    play = Play(limits=Limits(max_handshake=1000))
    wire = play.peer()
    wire.send(*(Subscribe("c" * 92, f"{number:03}", number + 1) for number in range(20)))
    assert sorted(wire.acks()) == [*range(1, 21)]
    assert len(play.knows()) == 9
    assert play.node.stats()["refused_subscriptions"] == 11
    wire.send(Subscribe("c" * 92, "003", 30), Unsubscribe("c" * 92, "000", 31), Subscribe("d" * 92, "020", 32))
    assert {"000", "003", "020"} & {one.key for one in play.knows()} == {"003", "020"}
    wire.send(Unsubscribe("c" * 92, "001", 33), Unsubscribe("never", "there", 34))
    wire.send(Subscribe("e" * 192, "", 35))
    assert len(play.knows()) == 8


def test_a_new_list_is_measured_anew() -> None:
    play = Play(limits=Limits(max_handshake=1000))
    wire = play.peer()
    wire.send(*(Subscribe("c" * 92, f"{number:03}", number + 1) for number in range(9)))
    wire.request(("short", ""))
    wire.send(*(Subscribe("c" * 92, f"{number:03}", number + 1) for number in range(9)))
    assert len(play.knows()) == 10


def test_a_store_failure_takes_back_what_was_measured() -> None:
    play = Play(limits=Limits(max_handshake=1000))
    wire = play.peer()
    play.hold_commits = True
    wire.send(*(Subscribe("c" * 92, f"{number:03}", number + 1) for number in range(9)))
    play.fail()
    play.hold_commits = False
    play.wait(2.0)
    wire.send(*(Subscribe("d" * 92, f"{number:03}", number + 101) for number in range(9)))
    assert len(play.knows()) == 9


# Names without end.


def test_a_key_without_a_uuid_takes_so_many_and_no_more() -> None:
    """D-3: each would be known for ever, with a list and an outbox of its own."""
    play = Play(limits=Limits(peers_per_key=3))
    for number in range(5):
        wire = play.accepted(stranger(number), KEY)
        seen = wire.request()
        assert (NoticeKind.IDENTITY_MISMATCH in notices(seen)) is (number >= 3)
        wire.lose()
    assert play.node.stats()["peers"] == 3
    assert play.accepted(stranger(0), KEY).request() != [], "one that it has may come back"
    play.accepted(stranger(9), ANOTHER_KEY).request()
    play.accepted(OTHER, PeerIdentity(uuids=frozenset({OTHER}), spki_sha256=bytes([2] * 32))).request()
    assert play.node.stats()["peers"] == 5
    again = play.restart()
    again.node.limits = Limits(peers_per_key=3)
    again.accepted(stranger(7), KEY).request()
    assert again.node.stats()["peers"] == 5
    play.call("forget_peer", stranger(1))
    play.accepted(stranger(8), KEY).request()
    assert play.node.stats()["peers"] == 5
    play.accepted(LOW, PeerIdentity(uuids=frozenset({LOW}), spki_sha256=KEY.spki_sha256)).request()
    assert play.node.stats()["peers"] == 6, "a certificate that names its UUIDs has no bound"


@pytest.mark.parametrize("version", [0, 2])
def test_who_never_finishes_a_handshake_is_not_known(version: int) -> None:
    """Too old for us, or newer and without a final: nothing is stored, so nothing is to stay."""
    play = Play(version=1)
    for number in range(3):
        wire = play.accepted(stranger(number), KEY)
        wire.request(version=version)
        wire.lose()
        play.wait(6.0)
    assert play.node.stats()["peers"] == 0
    assert play.node.stats()["connections"] == 0


# A handshake that is held open while others go on.


def test_a_final_counts_for_nothing_once_another_key_has_the_name() -> None:
    """D-3, T-72: it was nobody's when the handshake began."""
    play = Play()
    early = play.accepted(OTHER, KEY)
    early.request(version=2)
    owner = play.accepted(OTHER, ANOTHER_KEY)
    owner.request(("c", ""))
    seen = early.send(HandshakeFinal(True))
    assert NoticeKind.IDENTITY_MISMATCH in notices(seen)
    assert play.knows(OTHER) == {Subscription("c", "")}
    assert play.node.stats()["peers_up"] == 1
    play.send("c", "", b"for the owner")
    assert owner.bodies() == [b"for the owner"]


def test_access_rules_reach_a_handshake_that_is_held_open() -> None:
    play = Play()
    wire = play.accepted(OTHER, KEY)
    wire.request(version=2)
    seen = play.call("set_acl", Acl(peers={OTHER: Rights.none()}))
    seen += wire.send(HandshakeFinal(True))
    assert NoticeKind.ACCESS_DENIED in notices(seen)
    play.wait(6.0)
    assert play.node.stats()["peers_up"] == play.node.stats()["connections"] == 0
