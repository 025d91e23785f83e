"""Rare ways through the node, each by itself: late reports, full tables, odd peers."""

from __future__ import annotations

import pytest

from tolliver_proto import (
    Abort,
    Acked,
    Connection,
    Limits,
    Message,
    PeerDown,
    PeerUp,
    Role,
    Stored,
    StoreError,
    Subscribe,
)
from tolliver_proto._simulation._pair import Side
from tolliver_proto.testing import ConnectionPair, SimNet, Weather

from .play import HIGH, LOW, Play, deliveries, every, only


def test_more_names_than_are_remembered() -> None:
    """What is remembered by name is bounded, and forgetting it changes nothing."""
    play = Play(handlers=[("c", "", "h")])
    play.call("subscribe", "c", "")
    wire = play.peer(LOW, ("c", ""))
    for number in range(5000):
        assert play.node.unreliable_send("c", str(number), b"x") == 1
    play.run()
    assert len(wire.messages()) == 5000
    got = 0
    for number in range(5000):
        actions = wire.send(Message("c", str(number), b"", None))
        got += len(deliveries(actions))
        play.call("acknowledge", deliveries(actions))
    assert got == 5000


def test_only_the_same_version_is_spoken_by_default() -> None:
    play = Play(version=2)
    wire = play.accepted()
    wire.request(version=1)
    (response,) = wire.got()
    assert getattr(response, "status", None) == 2


def test_the_next_timeout_says_what_it_is_for() -> None:
    play = Play()
    assert play.node.timeout_reason is None
    cid = play.node.new_cid(now=0.0)
    assert play.node.timeout_reason == repr(("open", cid))


def test_a_client_without_a_remote() -> None:
    """The adapter made the connection by itself, and the node is its client."""
    play = Play()
    wire = play._open(play.node.new_cid(now=0.0), Role.CLIENT, LOW, None)
    wire.got()
    assert only(wire.respond(), PeerUp).remote is None
    wire.lose()
    assert play.wait(100.0) == [], "nobody is dialled"


@pytest.mark.parametrize("good", [True, False])
def test_a_list_is_stored_after_its_connection_was_given_up(good: bool) -> None:
    """The store takes longer than the handshake and the close may."""
    play = Play()
    wire = play.accepted()
    play.hold_commits = True
    wire.request(("c", ""))
    assert every(play.wait(20.0), Abort)
    play.finish() if good else play.fail()
    assert wire.got() == []
    assert bool(play.knows()) is good


def test_acks_and_the_end_in_one_turn() -> None:
    play = Play()
    wire = play.peer(LOW, ("c", ""))
    receipt = play.send("c", "k", b"1")
    play.node.watch(receipt)
    play.node.receive_data(wire.cid, b"\x04\x00\x00\x00\x01")
    play.node.receive_eof(wire.cid)
    actions = play.run()
    assert only(actions, Acked).tokens == [receipt]
    assert only(actions, PeerDown).error is None
    assert play.pending() == 0


def test_what_has_no_id_is_not_acknowledged() -> None:
    """Control messages that are ignored or refused may be unreliable, too (T-28)."""
    play = Play(limits=Limits(max_subscriptions=1))
    wire = play.peer(LOW, ("a", ""))
    wire.send(Subscribe("b", "", None))
    assert wire.got() == []
    assert play.node.stats()["refused_subscriptions"] == 1
    wire.send(Message("tolliver", "", b"\xff", None))
    assert wire.got() == []
    assert sum(number for name, number in play.node.stats().items() if name.startswith("ignored_")) == 1


def test_watching_some_of_what_one_ack_run_covers() -> None:
    play = Play()
    wire = play.peer(LOW, ("c", ""))
    first, second = play.send("c", "k", b"1"), play.send("c", "k", b"2")
    play.node.watch(second)
    assert only(wire.ack(*wire.messages()), Acked).tokens == [second]
    assert first.unacked == 0


def test_a_watched_send_that_is_not_stored() -> None:
    play = Play()
    play.peer(LOW, ("c", ""))
    play.hold_commits = True
    receipt = play.send("c", "k", b"1")
    play.node.watch(receipt)
    assert only(play.fail(), Stored).error
    assert not play.node._watched


def test_a_choked_connection_waits_until_the_buffer_is_low() -> None:
    """D-9: above high water nothing is pulled until there is less than low water."""
    play = Play(limits=Limits(high_water=300, low_water=100))
    wire = play.peer(LOW, ("c", ""))
    play.hold_writes = True
    for number in range(10):
        play.send("c", "k", b"%d" % number + b"." * 100)
    sent = wire.bodies()
    play.send("c", "k", b"last")
    assert 0 < len(sent) < 10
    assert wire.bodies() == []
    for _ in range(20):
        play.written()
    assert len(sent) + len(wire.bodies()) == 11


def test_a_fetch_that_failed_for_a_peer_that_has_left() -> None:
    play = Play()
    wire = play.peer(LOW, ("c", ""))
    wire.lose()
    play.send("c", "k", b"1")
    play.hold_fetches = True
    wire = play.peer(LOW, ("c", ""))
    wire.lose()
    play.call("fetch_failed", LOW, StoreError("locked"))
    play.hold_fetches = False
    assert play.wait(5.0) == []
    wire = play.accepted()
    wire.request(("c", ""))
    assert wire.bodies() == [b"1"]


def test_a_claim_passes_to_the_other_connection_when_its_commit_fails() -> None:
    """Two connections of one peer are being made; what the first claims and cannot store the second has (T-62)."""
    play = Play()
    dials = [only(play.call("connect", remote), object) for remote in ("a", "b")]
    wires = [play._open(dial.cid, Role.CLIENT, LOW, None) for dial in dials]  # type: ignore[attr-defined]
    play.send("c", "k", b"1")
    play.hold_commits = True
    wires[0].respond(("c", ""))
    wires[1].respond(("c", ""))
    play.fail()
    play.hold_commits = False
    while play.held:
        play.finish()
    assert [body for wire in wires for body in wire.bodies()] == [b"1"]
    assert play.pending() == 1


def test_a_row_that_is_expected_twice_is_sent_once() -> None:
    """Its second resend falls due while its body is still waiting for room."""
    play = Play(limits=Limits(resend_first=1.0, resend_max=1.0, high_water=200, low_water=100))
    wire = play.peer(LOW, ("c", ""))
    play.send("c", "k", b"1")
    assert wire.bodies() == [b"1"]
    play.hold_fetches = True
    play.wait(1.5)
    assert wire.bodies() == [b"1"]
    play.wait(5.0)
    play.hold_fetches = False
    play.fetched()
    assert wire.bodies() == [b"1"]


def test_an_ack_between_the_resend_and_its_turn() -> None:
    play = Play(limits=Limits(resend_first=1.0))
    wire = play.peer(LOW, ("c", ""))
    play.send("c", "k", b"1")
    (message,) = wire.messages()
    play.now = 1.5
    play.node.handle_timeout(now=1.5)
    play.node.receive_data(wire.cid, b"\x04\x00\x00\x00\x01")
    play.run()
    assert wire.got() == []
    assert play.pending() == 0
    assert message.message_id == 1


def test_bytes_without_end_are_found() -> None:
    def answer(side: Side) -> None:
        side.connection.accept()

    both = ConnectionPair(
        client=Connection(Role.CLIENT, instance_id=LOW), server=Connection(Role.SERVER, instance_id=HIGH), decide=answer
    )
    with pytest.raises(RuntimeError, match="after 1 rounds"):
        both.run(max_rounds=1)


HARD = Weather(
    delay=0.05,
    slow=0.2,
    dial_fails=0.4,
    store_fails=0.2,
    handler_fails=0.3,
    handler_slow=0.2,
    handler_hangs=0.1,
    half_open=0.5,
    late_drain=0.5,
    late_handlers=0.5,
)


@pytest.mark.parametrize("seed", range(4))
def test_a_hard_life(seed: int) -> None:
    """Everything that the simulator can do happens in a few long lives."""
    report = SimNet(seed, weather=HARD, nodes=4, operations=250, seconds=60.0).run()
    assert report.counts["handled"]
