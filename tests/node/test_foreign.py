"""Peers of other programs: each with its layout, as a remote or by its UUID (C6)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, cast
from uuid import UUID

import pytest

from tolliver_proto import (
    Ack,
    Action,
    HandshakeFinal,
    HandshakeRequest,
    HandshakeResponse,
    HandshakeStatus,
    Limits,
    LocalProtocolError,
    Message,
    NoticeKind,
    OwnLimitExceeded,
    PeerDown,
    PeerUp,
    Policy,
    Revision,
    Subscribe,
    Subscription,
    Unsubscribe,
    encode,
)
from tolliver_proto._wire.layouts import LAYOUTS, Fields, Shape
from tolliver_proto.errors import TooFewRecipients
from tolliver_proto.layouts import Dialect, Refusal, SubscribeMany, UnsubscribeMany

from .play import LOW, OTHER, Play, Wire, deliveries, every, notices, only

GO, RUST = Revision.GO_2026, Revision.RUST_2026
WANTED = (Subscription("c", ""),)
MADE_UP = cast(Revision, 204)


def go(play: Play) -> Wire:
    wire = play.accepted(LOW, revision=GO)
    wire.request(("c", ""))
    return wire


def rust(play: Play) -> tuple[Wire, list[Action]]:
    wire = play.accepted(LOW, revision=RUST)
    wire.request()
    assert wire.got() == [HandshakeResponse(1, play.node.instance_id, HandshakeStatus.SAME_VERSION)]
    return wire, wire.send(HandshakeFinal(True))


def known(revision: Revision = GO, **more: Any) -> dict[UUID, Dialect]:
    return {LOW: Dialect(revision=revision, **more)}


@pytest.fixture
def made_up() -> Iterator[Revision]:
    """Acks, and no lists; lengths of 16 bits."""
    LAYOUTS[MADE_UP] = replace(
        LAYOUTS[Revision.DRAFT_2],
        request=Fields("B code, Q version, 16s instance_id"),
        response=Fields("B code, Q version, 16s instance_id, B status"),
        message=Shape("B code, I message_id, H body, *body, H key, *key, H channel, *channel"),
        max_body=2**16 - 1,
        max_name=2**16 - 1,
    )
    yield MADE_UP
    del LAYOUTS[MADE_UP]


# Lists, control messages, acks and refusals.


def test_one_that_dials_us_is_known_by_its_uuid() -> None:
    play = Play(handlers=[("", "", "h")], dialects=known())
    play.call("subscribe", "news", "")
    wire = go(play)
    own = (Subscription("news", ""),)
    assert wire.got() == [HandshakeResponse(1, play.node.instance_id, HandshakeStatus.SAME_VERSION, own)]
    play.send("c", "k", b"hi")
    [message] = wire.messages()
    wire.ack(message)
    play.wait(1.0)
    assert play.node.stats().pending == 0
    [delivery] = deliveries(wire.send(Message("news", "k", b"ho", 2**40)))
    play.node.acknowledge([delivery], now=play.now)
    play.run()
    assert wire.got() == [Ack(2**40)]
    assert play.node.unreliable_send("c", "", b"now") == 1
    play.run()
    assert wire.messages() == [Message("c", "", b"now")]
    # Everybody else speaks as before.
    other = play.peer(OTHER, ("c", ""))
    play.send("c", "k", b"both")
    assert (wire.bodies(), other.bodies()) == ([b"both"], [b"both"])


def test_one_that_we_dial_is_known_by_its_remote() -> None:
    play = Play()
    play.node.connect("there", play.now, dialect=Dialect(revision=GO))
    wire = play.dialled(play.run(), revision=GO)
    [request] = wire.got()
    assert isinstance(request, HandshakeRequest)
    assert only(wire.respond(("c", "")), PeerUp).peer == LOW
    assert play.node.revision_to("there") is GO
    assert play.node.revision_to("elsewhere") is play.node.revision
    play.send("c", "", b"hi")
    assert wire.bodies() == [b"hi"]


def test_a_refused_message_stays_blocks_nobody_and_goes_again_with_growing_pauses() -> None:
    play = Play(dialects=known(), limits=Limits(window_messages=1))
    wire = go(play)
    play.send("c", "", b"refused")
    play.send("c", "", b"next")
    first = wire.messages()
    assert [one.body for one in first] == [b"refused"]
    told = wire.send(Refusal(first[0].message_id or 0))
    assert notices(told).count(NoticeKind.REFUSED_THERE) == 1
    [after] = wire.messages()
    assert after.body == b"next"
    wire.ack(after)
    times = []
    for _ in range(3):
        again: list[Message] = []
        before = play.now
        for _ in range(100):
            play.wait(1.0)
            if again := wire.messages():
                break
        assert [one.body for one in again] == [b"refused"]
        times.append(play.now - before)
        wire.send(Refusal(again[0].message_id or 0))
    assert times == sorted(times)
    assert times[-1] > 2 * times[0]
    wire.ack(*first)
    play.wait(1.0)
    assert play.node.stats().pending == 0


def test_refusals_while_as_many_as_may_be_wait_for_their_resend_stay_in_the_window() -> None:
    play = Play(dialects=known(), limits=Limits(backoff_messages=1, window_messages=2))
    wire = go(play)
    for body in (b"1", b"2", b"3"):
        play.send("c", "", body)
    refused = wire.messages()
    assert len(refused) == 2
    wire.send(*(Refusal(one.message_id or 0) for one in refused))
    assert wire.bodies() == [b"3"]
    wire.send(Refusal(12345))  # of nothing
    assert play.node.stats()["stray_acks"] == 1


def test_a_refused_control_message_goes_again_and_a_refused_probe_is_an_answer() -> None:
    play = Play(dialects=known(), policy=Policy(probe="message", probe_interval=30.0, probe_timeout=30.0))
    wire = go(play)
    wire.got()
    play.call("subscribe", "more", "")
    [said] = wire.got()
    assert isinstance(said, Subscribe)
    wire.send(Refusal(said.message_id or 0))
    play.wait(15.0)
    assert wire.got() == [said]
    wire.send(Ack(said.message_id or 0))
    play.wait(31.0)
    [probe] = wire.messages()
    assert every(wire.send(Refusal(probe.message_id or 0)), PeerDown) == []
    assert every(play.wait(29.0), PeerDown) == []


def test_several_entries_are_stored_with_one_ack() -> None:
    play = Play(dialects=known(), limits=Limits(max_subscriptions=4))
    wire = go(play)
    wire.got()
    play.hold_commits = True
    some = (Subscription("a", ""), Subscription("b", "k"), Subscription("d", ""))
    wire.send(SubscribeMany((*some, Subscription("tolliver", "")), 5))
    assert wire.got() == []
    play.finish()
    play.hold_commits = False
    assert wire.got() == [Ack(5)]
    assert play.knows() == {*WANTED, *some}
    assert play.node.stats()["refused_subscriptions"] == 1
    wire.send(UnsubscribeMany((*some, *WANTED), 6), SubscribeMany((), 7), UnsubscribeMany((), None))
    assert sorted(wire.got(), key=str) == [Ack(6), Ack(7)]
    assert play.knows() == set()
    many = tuple(Subscription("c", str(number)) for number in range(6))
    wire.send(SubscribeMany(many[:3], 8))
    wire.send(SubscribeMany(many[3:], 8))
    assert len(play.knows()) == 4
    assert wire.got() == [Ack(8), Ack(8)]
    wire.send(Unsubscribe("c", "0", 9))
    assert len(play.knows()) == 3


# Without acks.


@pytest.mark.parametrize("said_of", ["it", "everybody"])
def test_no_reliable_message_is_for_a_peer_without_acks(said_of: str) -> None:
    own, everybody = (WANTED, None) if said_of == "it" else (None, WANTED)  # peers that say their own lists have those
    play = Play(dialects=known(RUST, subscriptions=own), dialect=Dialect(subscriptions=everybody))
    wire, actions = rust(play)
    assert only(actions, PeerUp).peer == LOW
    assert play.knows() == {*WANTED}
    other = play.peer(OTHER, ("c", ""))
    receipt = play.node.send("c", "", b"for one", now=play.now)
    assert notices(play.run()).count(NoticeKind.NOT_RELIABLE) == 1
    assert receipt.recipients == 1
    assert (wire.got(), other.bodies()) == ([], [b"for one"])
    assert play.send("nobody", "", b"").recipients == 0
    assert play.node.subscribed("c", "") == 1
    with pytest.raises(TooFewRecipients):
        play.send("c", "", b"for two", require_recipients=2)
    with pytest.raises(LocalProtocolError, match="unreliable_send"):
        play.send("c", "", b"for it", to=LOW)
    play.send("c", "", b"for the other", to=OTHER)
    assert other.bodies() == [b"for the other"]

    assert play.node.unreliable_send("c", "k", b"to both", now=play.now) == 2
    assert play.node.unreliable_send("c", "k", b"to it", now=play.now, to=LOW) == 1
    play.run()
    assert wire.bodies() == [b"to both", b"to it"]
    assert other.bodies() == [b"to both"]
    wire.lose()
    assert play.knows() == set()
    assert play.node.unreliable_send("c", "k", b"to one", now=play.now) == 1
    assert play.node.peers()[0].pending == 0


def test_what_its_format_cannot_carry_goes_to_nobody() -> None:
    play = Play(dialects=known(RUST, subscriptions=WANTED))
    wire, _ = rust(play)
    other = play.peer(OTHER, ("c", ""))
    with pytest.raises(OwnLimitExceeded, match="65535"):
        play.node.unreliable_send("c", "", bytes(65536), now=play.now)
    play.run()
    assert (wire.got(), other.got()) == ([], [])
    assert play.node.unreliable_send("c", "", bytes(65536), now=play.now, to=OTHER) == 1
    assert play.node.unreliable_send("c", "", bytes(65535), now=play.now) == 2


def test_its_messages_are_never_acknowledged_whatever_their_id() -> None:
    play = Play(handlers=[("", "", "h")], dialects=known(RUST), policy=Policy(dedupe=10), subscriptions=[("c", "")])
    wire, _ = rust(play)
    data = bytes.fromhex("03 00000001 0001 63 0000 0002 6869")
    for _ in range(2):  # Rust's ids begin anew
        play.node.receive_data(wire.cid, data, now=play.now)
        [delivery] = deliveries(play.run())
        assert delivery.message == Message("c", "", b"hi")
        play.node.acknowledge([delivery], now=play.now)
    play.run()
    assert wire.got() == []


@pytest.mark.parametrize("probe", ["ack", "message"])
def test_it_is_not_probed(probe: Any) -> None:
    play = Play(dialects=known(RUST), policy=Policy(probe=probe))
    wire, _ = rust(play)
    assert every(play.wait(300.0), PeerDown) == []
    assert wire.got() == []


def test_a_client_says_its_final_and_is_told_nothing_of_our_list() -> None:
    play = Play()
    play.call("subscribe", "news", "")
    play.node.connect("there", play.now, dialect=Dialect(revision=RUST, subscriptions=WANTED))
    wire = play.dialled(play.run(), revision=RUST)
    assert wire.got() == [HandshakeRequest(1, play.node.instance_id)]
    assert only(wire.respond(), PeerUp).peer == LOW
    assert wire.got() == [HandshakeFinal(True)]
    play.call("subscribe", "more", "")
    assert wire.got() == []
    assert play.knows() == {*WANTED}


def test_a_peer_that_had_acks_before() -> None:
    """Its waiting messages go on waiting; new messages are not for it, until it is the other program again."""
    play = Play(policy=Policy(unsubscribed_hold=0.0))
    wire = play.peer(LOW, ("c", ""))
    wire.lose()
    play.send("c", "", b"waits")
    play.node.connect("there", play.now, dialect=Dialect(revision=RUST, subscriptions=WANTED))
    changed = play.dialled(play.run(), revision=RUST)
    changed.respond()
    assert changed.got()[1:] == [HandshakeFinal(True)]
    assert play.send("c", "", b"not for it").recipients == 0
    play.wait(60.0)
    assert changed.got() == []
    changed.lose()
    play.call("disconnect", "there")
    again = play.accepted(LOW)
    again.request(("c", ""))
    assert again.bodies() == [b"waits"]
    assert play.send("c", "", b"new").recipients == 1
    assert again.bodies() == [b"new"]


def test_known_by_its_uuid_it_has_no_messages_waiting_after_a_restart() -> None:
    play = Play()
    play.peer(LOW, ("c", ""))
    again = Play(store=play.store, dialects=known(RUST))
    assert again.send("c", "", b"").recipients == 0


# Refused: options that cannot work.


def test_a_layout_that_carries_less_than_the_limits_allow(made_up: Revision) -> None:
    with pytest.raises(ValueError, match=r"Limits\.max_body"):
        Play(dialects=known(made_up))
    play = Play()
    with pytest.raises(ValueError, match="65535"):
        play.node.connect("there", dialect=Dialect(revision=made_up))
    with pytest.raises(ValueError, match="revision"):
        Dialect(revision=cast(Revision, 205))
    play = Play(limits=Limits(max_body=1000), dialects=known(made_up, subscriptions=WANTED))
    wire = play.accepted(LOW, revision=made_up)
    wire.request()
    wire.got()
    receipt = play.send("c", "k", b"hi")
    assert receipt.recipients == 1
    wire.ack(*(messages := wire.messages()))
    assert [one.body for one in messages] == [b"hi"]


@pytest.mark.parametrize("names", ["", "a", "ab", "abcd"])
def test_a_list_may_be_as_long_in_another_layout_as_its_peers_take(names: str) -> None:
    listed = tuple(Subscription(name, "") for name in (*names, "last"))
    size = len(encode(HandshakeResponse(1, LOW, HandshakeStatus.SAME_VERSION, listed), GO))
    for most, fits in ((size, True), (size - 1, False)):
        later, given = (
            Play(limits=Limits(max_handshake=most)),
            Play(limits=Limits(max_handshake=most), dialects=known()),
        )
        for one in listed[:-1]:
            later.call("subscribe", *one)
            given.call("subscribe", *one)
        later.call("subscribe", *listed[-1])
        with nullcontext() if fits else pytest.raises(OwnLimitExceeded, match="GO_2026"):
            later.node.connect("there", dialect=Dialect(revision=GO))
        with nullcontext() if fits else pytest.raises(OwnLimitExceeded):
            given.node.subscribe(*listed[-1])


def test_a_list_that_would_be_too_long_in_another_layout() -> None:
    play = Play(limits=Limits(max_handshake=100))
    for name in ("a", "b", "c", "d"):
        play.call("subscribe", name, "")
    with pytest.raises(OwnLimitExceeded, match="GO_2026"):
        play.node.connect("there", dialect=Dialect(revision=GO))
    play.node.connect("there", dialect=Dialect(revision=RUST))
    play = Play(limits=Limits(max_handshake=100), dialects=known())
    for name in ("a", "b", "c"):
        play.call("subscribe", name, "")
    with pytest.raises(OwnLimitExceeded):
        play.node.subscribe("d", "")
    assert len(play.node.subscriptions()) == 3
    go(play)  # fits
