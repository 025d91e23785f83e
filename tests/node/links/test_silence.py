"""Silence of a peer that acknowledges nothing or answers no probe, and the end of our certificate (T-80, D-8)."""

from __future__ import annotations

from tolliver_proto import Action, Delivery, Limits, Message, Notice, NoticeKind, PeerIdentity, Policy
from tolliver_proto._node.outboxes.suspicion import AckWatch
from tolliver_proto._testing.inspection import inside
from tolliver_proto.node import CertificateExpires

from ..play import HIGH, LOW, Play, deliveries, every
from .test_derived import writer

DAY = 86400.0


def told(actions: list[Action], kind: NoticeKind = NoticeKind.UNACKNOWLEDGED) -> list[str]:
    return [notice.detail for notice in every(actions, Notice) if notice.kind is kind]


def test_a_peer_that_acknowledges_nothing_is_told_once() -> None:
    play = Play()
    wire = play.peer(LOW, ("c", ""))
    play.send("c", "k", b"first")
    play.wait(5.0)
    play.send("c", "k", b"second")
    assert told(play.wait(54.9)) == []
    (detail,) = told(play.wait(0.2))
    assert "acknowledged none of 2 messages for 60 s; the oldest is 1 on 'c' 'k'" in detail
    assert told(play.wait(600.0)) == []
    first, second, *_ = wire.messages()
    wire.ack(first)
    assert told(play.wait(59.0)) == []
    (detail,) = told(play.wait(2.0))
    assert "none of 1 messages" in detail
    wire.ack(second)
    assert told(play.wait(600.0)) == []
    play.send("c", "k", b"third")
    assert len(told(play.wait(61.0))) == 1


def test_an_acknowledgement_begins_it_anew() -> None:
    play = Play()
    wire = play.peer(LOW, ("c", ""))
    for number in range(10):
        play.send("c", "k", b"%d" % number)
    for message in wire.messages():
        assert told(play.wait(40.0)) == []
        wire.ack(message)
    assert told(play.wait(600.0)) == []


def test_its_end_ends_it_and_none_asks_for_none() -> None:
    play = Play()
    wire = play.peer(LOW, ("c", ""))
    play.send("c", "k", b"x")
    play.wait(1.0)
    wire.lose()
    assert told(play.wait(600.0)) == []
    play = Play(policy=Policy(unacknowledged_after=None))
    wire = play.peer(LOW, ("c", ""))
    play.send("c", "k", b"x")
    (message,) = wire.messages()
    assert told(play.wait(600.0)) == []
    wire.ack(message)


def test_a_look_where_nothing_waits_tells_nothing() -> None:
    assert AckWatch(60.0).look(100.0) == AckWatch(None).look(100.0) == (None, None)


def test_acks_that_we_do_not_read_are_no_silence() -> None:
    play = Play(limits=Limits(inbox_messages=1))
    wire = play.peer(LOW, ("c", ""))
    play.node.register("own", "", "handler")
    play.node.subscribe("own", "", play.now)
    play.run()
    held: list[Delivery] = deliveries(wire.send(Message("own", "", b"takes its time", 7)))
    play.send("c", "k", b"x")
    assert told(play.wait(90.0)) == []
    play.node.acknowledge(held, now=play.now)
    play.run()
    assert len(told(play.wait(2.0))) == 1


def test_a_connection_that_a_probe_drops_is_told() -> None:
    play = Play(policy=Policy(probe="message", probe_interval=5.0, probe_timeout=5.0))
    play.peer(LOW)
    (detail,) = told(play.wait(30.0), NoticeKind.PROBE_UNANSWERED)
    assert detail.startswith(f"1 connections to {LOW} were dropped, as no probe was answered within 5 s")


def test_the_end_of_our_certificate_is_told_at_the_start_and_daily() -> None:
    play = Play()
    play.node.watch_certificate(20.5 * DAY, "a.pem", now=play.now)
    seen = told(play.wait(2.5 * DAY), NoticeKind.CERTIFICATE_ENDS)
    assert [one.partition(":")[0] for one in seen] == [
        f"our certificate a.pem ends in {days} days" for days in ("20.5", "19.5", "18.5")
    ]
    assert "has ended" in told(play.wait(19 * DAY), NoticeKind.CERTIFICATE_ENDS)[-1]
    play.node.watch_certificate(365 * DAY, "b.pem", now=play.now)
    assert told(play.wait(334.9 * DAY), NoticeKind.CERTIFICATE_ENDS) == []
    assert len(told(play.wait(1.0 * DAY), NoticeKind.CERTIFICATE_ENDS)) == 1


def test_a_peer_is_known_by_its_certificate() -> None:
    play = Play()
    play.accepted(LOW, PeerIdentity(address="there", name="alice")).request()
    assert (play.node.identity_of(LOW).name, play.node.identity_of(HIGH)) == ("alice", PeerIdentity())


def ends(actions: list[Action]) -> list[CertificateExpires]:
    return every(actions, CertificateExpires)


def test_the_end_of_our_certificate_is_an_event_where_events_are_asked_for() -> None:
    play = Play(tell_events=True)
    play.node.watch_certificate(1.5 * DAY, "a.pem", now=play.now)
    actions = play.wait(2.5 * DAY)
    assert [(one.seconds_left, one.peer) for one in ends(actions)] == [
        (1.5 * DAY, None),
        (0.5 * DAY, None),
        (-DAY / 2, None),
    ]
    assert [one.text for one in ends(actions)] == told(actions, NoticeKind.CERTIFICATE_ENDS)
    quiet = Play()
    quiet.node.watch_certificate(DAY, "a.pem", now=quiet.now)
    assert ends(quiet.wait(3 * DAY)) == []


def test_the_end_of_a_peers_certificate_is_told_daily_while_it_is_connected() -> None:
    play = Play(tell_events=True)
    wire = play.peer(LOW)
    play.node.watch_certificate(20 * DAY, "alice", now=play.now, peer=LOW)
    (told_at_once,) = ends(play.wait(0.5 * DAY))
    assert (told_at_once.peer, told_at_once.seconds_left) == (LOW, 20 * DAY)
    assert told_at_once.text == "the certificate of alice ends in 20.0 days: it needs a new one with the same UUID"
    wire.lose()
    play.peer(LOW)
    play.node.watch_certificate(19.5 * DAY, "alice", now=play.now, peer=LOW)
    actions = play.wait(0.6 * DAY)
    assert [(one.peer, one.seconds_left) for one in ends(actions)] == [(LOW, 19 * DAY)], "not before the day is over"
    assert [notice.peer for notice in every(actions, Notice)] == [LOW]


def test_a_certificate_without_a_uuid_is_replaced_by_any() -> None:
    play = Play(tell_events=True)
    play.peer(LOW)
    play.node.watch_certificate(DAY, "a.pem", now=play.now, has_uuid=False)
    play.node.watch_certificate(DAY, "alice", now=play.now, peer=LOW, has_uuid=False)
    assert [one.text for one in ends(play.wait(0.0))] == [
        "our certificate a.pem ends in 1.0 days: make a new one, and call reload_tls()",
        "the certificate of alice ends in 1.0 days: it needs a new one",
    ]


def test_the_certificate_of_a_peer_that_is_gone_is_forgotten() -> None:
    play = Play(tell_events=True)
    wire = play.peer(LOW)
    play.node.watch_certificate(DAY, "alice", now=play.now, peer=LOW)
    assert len(ends(play.wait(0.0))) == 1
    wire.lose()
    assert ends(play.wait(5 * DAY)) == []
    assert not inside(play.node).remotes._certificates._known


def test_a_derived_identity_has_the_certificate_of_many() -> None:
    play = Play(tell_events=True)
    play.node.watch_certificate(DAY, "job", now=play.now, peer=writer(1))
    assert play.node.next_timeout() is None
