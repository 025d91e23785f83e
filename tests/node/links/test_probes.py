"""Connections that stand: probes (T-80) and the greatest age (D-8)."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from tolliver_proto import (
    Abort,
    Ack,
    ConnectionLost,
    Dial,
    Limits,
    Message,
    PauseReading,
    PeerDown,
    PeerUp,
    Policy,
    ReservedChannel,
    ResumeReading,
    ShutdownWrite,
    Subscribe,
)
from tolliver_proto._node.outboxes.ids import LAST_ID, NO_ID
from tolliver_proto._testing.inspection import inside
from tolliver_proto._testing.invariants import audit
from tolliver_proto.node import PROBE_CHANNEL

from ..play import LOW, OTHER, Play, Wire, aborted, deliveries, every, only

ACKS = Policy(probe="ack")
MESSAGES = Policy(probe="message", probe_timeout=10.0)
WRITER = UUID("f00dbabe-0001-8000-8000-000000000001")


def probed(policy: Policy, *subscriptions: tuple[str, str], **options: Any) -> tuple[Play, Wire]:
    """A peer that dialled us and stays silent."""
    play = Play(policy=policy, **options)
    return play, play.peer(LOW, *subscriptions)


def the_probe(wire: Wire) -> Message:
    [message] = wire.got()
    assert isinstance(message, Message)
    assert (message.channel, message.key, message.body) == (PROBE_CHANNEL, "", b"")
    return message


# The choice.


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"probe": "ping"}, "probe is 'ping': give one of 'off', 'ack', 'message'"),
        ({"probe_interval": 0.0}, "probe_interval is 0.0"),
        ({"probe_timeout": float("nan")}, "probe_timeout is nan"),
        ({"max_connection_age": -1.0}, "max_connection_age is -1.0"),
    ],
)
def test_what_cannot_be_meant(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        Policy(**options)


def test_by_default_nothing_is_said_and_nothing_ends() -> None:
    play, wire = probed(Policy())
    assert play.wait(1e6) == []
    assert wire.got() == []
    assert play.node.next_timeout() is None


# One way.


def test_an_ack_of_nothing_after_each_silence() -> None:
    play, wire = probed(ACKS)
    play.wait(29.0)
    assert wire.got() == []
    for _ in range(3):
        play.wait(30.0)
        assert wire.acks() == [NO_ID]
    assert play.node.stats()["probes"] == 3
    assert wire.units[-1].hex() == "047fffffff"


def test_a_look_that_comes_late_probes() -> None:
    play, wire = probed(ACKS)
    play.now += 31.0
    play.node.handle_timeout(now=play.now)
    play.run()
    assert wire.acks() == [NO_ID]
    assert play.node.next_timeout() == play.now + 30.0


def test_whatever_is_sent_breaks_the_silence() -> None:
    play, wire = probed(ACKS, ("c", ""))
    for number in range(10):
        play.wait(19.0)
        play.now += 1.0
        play.node.unreliable_send("c", "k", b"%d" % number, play.now)
        play.run()
    play.wait(29.5)
    assert [type(frame) for frame in wire.got()] == [Message] * 10
    play.wait(0.5)
    assert wire.acks() == [NO_ID]


def test_no_probe_behind_bytes_that_the_socket_does_not_take() -> None:
    play, wire = probed(ACKS, ("c", ""))
    play.hold_writes = True
    play.node.unreliable_send("c", "k", b"x")
    play.run()
    wire.got()
    play.wait(300.0)
    assert wire.got() == []
    play.written()
    play.wait(30.0)
    assert wire.acks() == [NO_ID]


def test_everybody_ignores_it() -> None:
    play, wire = probed(Policy())
    wire.send(Ack(NO_ID), Ack(17), Ack(18))
    assert play.node.stats()["stray_acks"] == 2, "17 is one, a probe is not"


# Two ways.


def test_the_ack_is_the_answer() -> None:
    play, wire = probed(MESSAGES, ("c", ""))
    seen = set()
    start = 30.0
    for _ in range(5):
        play.wait(start - play.now)
        probe = the_probe(wire)
        seen.add(probe.message_id)
        assert play.wait(9.0) == []
        wire.ack(probe)
        start += 30.0  # the silence begins with the probe
    assert len(seen) == 5, "each has an id of its own"
    assert not inside(play.node).ledger.ids.live
    assert play.store.messages == []
    assert play.node.stats()["probes"] == 5
    assert play.node.stats()["stray_acks"] == 0


def test_who_talks_all_the_time_asks_for_an_answer_too() -> None:
    """Our own sends show nothing of the peer: resends and unreliable messages would put the question off for ever."""
    play, wire = probed(MESSAGES, ("c", ""))
    for _ in range(int(2 * MESSAGES.probe_interval)):
        play.wait(1.0)
        play.node.unreliable_send("c", "", b"x")
        play.run()
    assert PROBE_CHANNEL in {frame.channel for frame in wire.got() if isinstance(frame, Message)}


def test_the_interval_counts_from_what_was_said_last() -> None:
    """However long an answer may take."""
    play, wire = probed(Policy(probe="message", probe_interval=1.0, probe_timeout=600.0))
    for _ in range(50):
        play.wait(1.0)
        wire.ack(the_probe(wire))
    assert play.node.stats()["probes"] == 50


def test_no_answer_is_a_lost_connection() -> None:
    play = Play(policy=MESSAGES)
    wire = play.dialled(play.call("connect", "there"))
    wire.respond(("c", ""))
    play.dice.value = 0.5
    wire.got()
    play.wait(30.0)
    assert the_probe(wire).message_id == 1
    play.wait(5.0)
    play.send("c", "k", b"stored")
    assert wire.bodies() == [b"stored"]
    assert play.wait(4.0) == []
    actions = play.wait(2.0)
    assert aborted(actions) == [wire.cid]
    down = only(actions, PeerDown)
    assert down.peer == LOW
    assert isinstance(down.error, ConnectionLost)
    assert "probe within 10 s" in str(down.error)
    again = play.dialled(actions)
    assert only(again.respond(("c", "")), PeerUp).remote == "there"
    assert again.bodies() == [b"stored"], "what was not acknowledged comes again"
    assert play.node.stats()["probes_unanswered"] == 1
    wire.lose()  # the adapter's word for the Abort
    assert play.node.stats()["connections"] == 1
    assert list(inside(play.node).ledger.ids.live) == [(2, 2)], "the probe's id is free, the message's is not"


def test_what_came_before_is_handed_out_first() -> None:
    play = Play(policy=MESSAGES, handlers=[("", "", "all")])
    play.call("subscribe", "c", "")
    wire = play.peer()
    play.wait(30.0)
    play.node.receive_data(wire.cid, bytes.fromhex("01"), now=play.now)  # a frame has begun
    actions = play.wait(10.0)
    assert aborted(actions) == [wire.cid]
    assert every(actions, PeerDown) != []


def test_a_probe_is_never_sent_twice_and_its_id_never_reused() -> None:
    play, wire = probed(MESSAGES, ("c", ""), retry_interval=1.0)
    play.wait(30.0)
    probe = the_probe(wire)
    assert probe.message_id is not None
    assert probe.message_id in inside(play.node).ledger.ids.live
    play.wait(9.0)
    assert wire.got() == []
    inside(play.node).ledger.ids._next = inside(play.node).ledger.ids._clear_until = probe.message_id  # once around
    play.send("c", "k", b"x")
    [message] = wire.messages()
    assert message.message_id != probe.message_id
    audit(play.node, play.store)


def test_a_full_range_of_ids_needs_no_id() -> None:
    play, wire = probed(MESSAGES)
    inside(play.node).ledger.ids.live.add(1, LAST_ID)
    play.wait(30.0)
    assert wire.acks() == [NO_ID]


@pytest.mark.parametrize("wanted", [(PROBE_CHANNEL, ""), ("", ""), (PROBE_CHANNEL, "k"), ("", "k")])
def test_a_peer_that_wants_everything_is_probed_one_way(wanted: tuple[str, str]) -> None:
    """T-46: it would hand a probe to its application, or keep back the ack."""
    play, wire = probed(MESSAGES, wanted)
    play.wait(30.0)
    assert (wire.acks() == [NO_ID]) is (wanted[1] == "")
    assert play.node.stats()["probes"] == 1


def test_a_peer_that_begins_to_want_everything_is_not_cut_off() -> None:
    play, wire = probed(MESSAGES)
    play.wait(30.0)
    probe = the_probe(wire)
    wire.send(Subscribe("", "", 1))
    assert wire.acks() == [1]
    assert aborted(play.wait(300.0)) == []
    assert set(wire.acks()) == {NO_ID}, "from now on one way"
    assert probe.message_id is not None
    assert probe.message_id in inside(play.node).ledger.ids.live, "it may still be acknowledged"


def test_an_answer_that_we_do_not_read_is_not_missed() -> None:
    play = Play(policy=MESSAGES, handlers=[("", "", "all")], limits=Limits(inbox_messages=1, low_water=1))
    play.call("subscribe", "c", "")
    wire = play.peer()
    [delivery] = deliveries(wire.send(Message("c", "k", b"slow", None)))
    actions = wire.send(Message("c", "k", b"next", None))
    assert every(actions, PauseReading) != []
    assert aborted(play.wait(300.0)) == []
    probe, *acks = wire.got()
    assert isinstance(probe, Message)
    assert set(acks) == {Ack(NO_ID)}, "while that is open, one way"
    actions = play.call("acknowledge", [delivery])
    assert every(actions, ResumeReading) != []
    play.call("acknowledge", deliveries(actions))
    wire.ack(probe)
    assert aborted(play.wait(300.0)) != [], "the next one is not answered"
    assert play.node.stats()["probes_unanswered"] == 1


def test_an_instance_that_slept_reads_before_it_judges() -> None:
    play, wire = probed(MESSAGES)
    play.wait(30.0)
    probe = the_probe(wire)
    play.now += 1000.0
    play.node.handle_timeout(now=play.now)
    wire.ack(probe)  # it had been there all the time
    assert aborted(play.wait(9.0)) == []


def test_a_probe_is_never_a_message() -> None:
    """One that was on its way when we began to want everything."""
    play = Play(handlers=[("", "", "all")])
    play.call("subscribe", "", "")
    wire = play.peer()
    assert deliveries(wire.send(Message(PROBE_CHANNEL, "", b"", 1), Message("c", "", b"", 2))) != []
    assert wire.acks() == [1]
    assert play.node.stats()["unwanted"] == 1


@pytest.mark.parametrize("call", ["send", "unreliable_send"])
def test_nobody_else_sends_on_that_channel(call: str) -> None:
    play = Play()
    with pytest.raises(ReservedChannel, match=r"'tolliver\.probe' is the protocol's own"):
        getattr(play.node, call)(PROBE_CHANNEL, "", b"")
    with pytest.raises(ReservedChannel, match=r"'tolliver\.probe' is the protocol's own"):
        play.node.subscribe(PROBE_CHANNEL, "")


def test_a_derived_identity_probes_one_way() -> None:
    """Its ids must be the same in every try (T-72a)."""
    play = Play(policy=MESSAGES, uuid=WRITER)
    wire = play.dialled(play.call("connect", "there"))
    wire.got()
    wire.respond(("c", ""))
    play.wait(30.0)
    assert wire.acks() == [NO_ID]
    play.send("c", "k", b"first")
    assert [message.message_id for message in wire.messages()] == [1]


def test_two_nodes_answer_each_other() -> None:
    """Frames of one go to the other: a probe is unwanted there, and so acknowledged at once."""
    here, there = Play(policy=MESSAGES, uuid=LOW), Play(uuid=OTHER, handlers=[("", "", "all")])
    there.call("subscribe", "c", "")
    wire = here.dialled(here.call("connect", "there"), OTHER)
    far = there.accepted(LOW)
    for _ in range(40):
        for end, other in ((wire, far), (far, wire)):
            other.play.node.receive_data(other.cid, b"".join(end.units), now=other.play.now)
            end.units.clear()
            assert deliveries(other.play.run()) == []
        here.wait(5.0)
        there.wait(5.0)
    stats = here.node.stats()
    assert stats["probes"] > 5
    assert (stats["peers_up"], stats.get("probes_unanswered", 0)) == (1, 0)
    assert there.node.stats()["unwanted"] == stats["probes"]


def test_what_is_ending_is_not_probed() -> None:
    play, wire = probed(MESSAGES, limits=Limits(close_timeout=100.0))
    play.wait(20.0)
    assert every(play.call("close"), ShutdownWrite) != []
    play.wait(60.0)
    assert wire.got() == []


# D-8: the greatest age.


def test_an_old_connection_is_ended_in_order_and_dialled_again() -> None:
    play = Play(policy=Policy(max_connection_age=1000.0))
    wire = play.dialled(play.call("connect", "there"))
    wire.respond(("c", ""))
    assert play.wait(999.0) == []
    play.dice.value = 0.5
    actions = play.wait(1.0)
    assert [one.cid for one in every(actions, ShutdownWrite)] == [wire.cid]
    assert every(actions, Abort) == []
    wire.end()
    assert only(play.wait(1.0) + wire.lose() + play.wait(1.0), Dial).remote == "there"
    assert play.node.stats()["aged_out"] == 1


def test_not_all_end_at_once() -> None:
    play = Play(policy=Policy(max_connection_age=1000.0))
    ended: dict[float, UUID] = {}
    for number in range(11):
        play.dice.value = number / 11
        play.peer(UUID(int=LOW.int + 2 * number))
    for _ in range(1000):
        for action in every(play.wait(1.0), ShutdownWrite):
            ended[play.now] = play.wires[action.cid].uuid
    assert len(ended) == 11, "each at another time"
    assert min(ended) > 900.0


def test_one_that_is_ending_already_is_not_counted() -> None:
    play = Play(policy=Policy(max_connection_age=10.0), limits=Limits(close_timeout=100.0))
    wire = play.peer()
    wire.end()
    play.wait(20.0)
    assert play.node.stats()["aged_out"] == 0
