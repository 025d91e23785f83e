"""Rare ways through the node: late reports, full tables, odd peers."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from tolliver_proto import (
    Abort,
    Connection,
    Limits,
    Message,
    PeerDown,
    PeerUp,
    Policy,
    Revision,
    Role,
    Stored,
    StoreError,
    Subscribe,
    Subscription,
    build_info,
    encode,
)
from tolliver_proto._node.inboxes.dedupe import DedupeCache
from tolliver_proto._node.outboxes.outbox import Outbox, Window
from tolliver_proto._node.outboxes.transmission import Transmission
from tolliver_proto._testing.inspection import inside
from tolliver_proto._testing.invariants import check
from tolliver_proto._testing.pair import Side
from tolliver_proto._testing.shrink import FAULTS
from tolliver_proto._testing.shrink import shrink as shrink_life
from tolliver_proto._testing.world import LOSSY, TIGHT
from tolliver_proto.layouts import Known
from tolliver_proto.node import Acked
from tolliver_proto.store import AddDeliveries, LoadedPeer, ParkDelivery, StoredMessage, StoreMessages
from tolliver_proto.testing import ConnectionPair, MemoryStore, SimFailure, SimNet, Weather, shrink

from .play import HIGH, LOW, Play, deliveries, every, only


def test_more_names_than_are_remembered() -> None:
    """The memory for names is bounded, and forgetting one changes nothing."""
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
    cid = play.new_cid()
    assert play.node.timeout_reason == f"connection {cid}"


def test_a_client_without_a_remote() -> None:
    """The adapter made the connection by itself, and the node is its client."""
    play = Play()
    wire = play._open(play.new_cid(), Role.CLIENT, LOW, None)
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
    head = bytes.fromhex("03 00000008 00000000 00000001 7fffffff")
    play.node.receive_data(wire.cid, head + b"tolliver" + b"\xff")
    play.run()
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
    assert not inside(play.node).ledger._watched


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


def test_kept_messages_that_a_peer_cannot_be_given_are_released() -> None:
    """They are stored for whoever connects; the list that claims them is not stored, and the connection ends (T-62)."""
    play = Play()
    wire = play.dialled(play.call("connect", "a"))
    play.send("c", "k", b"1")
    play.hold_commits = True
    wire.respond(("c", ""))
    play.fail()
    play.hold_commits = False
    play.wait(21.0)  # its window is over
    assert (play.store.messages, play.pending()) == ([], 0)


def test_a_row_that_is_expected_twice_is_sent_once() -> None:
    """Its second resend falls due while its body is still waiting for room."""
    play = Play(retry_interval=1.0, limits=Limits(resend_max=1.0, high_water=200, low_water=100))
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
    play = Play(retry_interval=1.0)
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


def test_reports_about_connections_that_are_forgotten() -> None:
    """The adapter was a moment late, that is all."""
    play = Play()
    play.node.receive_data(99, b"x")
    play.node.receive_eof(99)
    play.node.sent(99)
    play.call("fetched", LOW, [])
    play.call("fetch_failed", LOW, StoreError("locked"))
    play.call("repin", LOW)
    assert not play.node.peers()


def test_more_events_than_one_turn_takes() -> None:
    play = Play(handlers=[("c", "", "h")])
    play.call("subscribe", "c", "")
    wire = play.peer()
    assert len(deliveries(wire.send(*(Message("c", "k", b"", n) for n in range(1, 700))))) == 699


def test_a_parked_remote_that_is_disconnected_is_not_dialled_again() -> None:
    play = Play()
    wire = play.dialled(play.call("connect", "a"))
    wire.respond()
    wire.lose()
    other = play.peer(LOW)
    assert play.wait(60.0) == [], "its peer is connected"
    play.call("connect", "b")
    play.call("disconnect", "a")
    other.lose()
    assert play.wait(0.0) == []


def test_failed_deliveries_are_counted_up_to_a_bound() -> None:
    """T-47: beyond it the oldest count is forgotten; what has no id has none."""
    play = Play(handlers=[("c", "", "h")], limits=Limits(attempts_remembered=1))
    play.call("subscribe", "c", "")
    wire = play.peer()
    for number in (1, 2, None):
        play.call("fail", deliveries(wire.send(Message("c", "k", b"", number))))
    attempts = [one.attempt for n in (1, 2) for one in deliveries(wire.send(Message("c", "k", b"", n)))]
    assert attempts == [1, 2]


def test_a_change_of_ones_own_while_a_connection_is_closing() -> None:
    play = Play()
    wire = play.peer()
    play.hold_commits = True
    play.call("subscribe", "c", "")
    play.call("close")
    play.finish()
    assert wire.got() == []


def test_what_a_loser_says_it_wants_is_not_stored() -> None:
    """T-70: it was on its way when the newer connection won."""
    play = Play()
    old = play.peer(LOW)
    new = play.accepted(LOW)
    play.hold_commits = True
    new.request(("d", ""))
    play._commit()
    play.node.receive_data(old.cid, encode(Subscribe("c", "", 1), Revision.DRAFT_2))
    play.run()
    assert play.knows() == {Subscription("d", "")}
    assert old.acks() == []


def test_handled_twice_is_remembered_once() -> None:
    handled = DedupeCache(2)
    for message_id in (1, 1, 2):
        handled.add(LOW, message_id, 7)
    assert handled.find(LOW, 1, 7) is Known.YES


def window(**limits: int) -> Window:
    outbox = Outbox(LoadedPeer())
    return Window(outbox, Limits(**limits), 1.0, lambda: 0.0)


def next_of(window: Window) -> StoredMessage | None:
    run = window.next_run(1)
    return run[0] if run else None


def row(seq: int) -> StoredMessage:
    return StoredMessage(seq, seq, "c", "k", b"....", 30)


def test_a_window_that_is_behind_reads_from_disk() -> None:
    """T-52: what does not fit is not kept; what was asked for before rows came below it is not taken."""
    one = window(window_bytes=20)
    for seq in (1, 2):
        one.committed([row(seq)])
    one.outbox.add(2, 60)
    assert one.next_fetch() == (1, 256, 20)
    one.go_back(5)
    assert one.next_fetch() == (1, 256, 20)
    one.go_back(0)
    assert one.fetched([row(2)], 1, None) == []
    assert next_of(one) is None
    assert one.fetched([row(1)], 0, None) == []
    assert next_of(one) == row(1)


def test_a_window_drops_what_is_owed_no_more() -> None:
    one = window()
    one.committed([row(1), row(2), row(3)])
    assert next_of(one) == row(1)
    one.drop({1: 1, 2: 2})
    assert next_of(one) == row(3)
    one.committed([row(4), row(5), row(6)])
    one.drop({5: 5})
    assert [next_of(one), next_of(one)] == [row(4), row(6)]


def test_a_window_and_what_is_settled_while_it_waits_for_its_turn() -> None:
    one = window()
    one.committed([row(1), row(2), row(3)])
    for _ in range(3):
        next_of(one)
    one.transmitted([1, 2, 3], (), 0.0)
    assert one.fall_due(2.0) == []
    one.acked(1)
    assert next_of(one) == row(2)
    assert next_of(one) == row(3)
    one.transmitted([2, 3], (), 2.0)
    one.transmitted([2, 3], (), 2.0)
    one.transmitted([99], (), 2.0)
    one.fall_due(10.0)
    first, count, _ = one.next_fetch() or (0, 0, 0)
    assert (first, count) == (1, 2)
    one.acked(2)
    assert one.fetched([row(2), row(3)], 1, None) == []
    assert next_of(one) == row(3)
    assert next_of(one) is None


def test_a_delivery_is_added_once() -> None:
    store = MemoryStore()
    store.commit([StoreMessages([row(1)], [[LOW]]), AddDeliveries(LOW, [(1, 1, 30)])])
    assert store.deliveries(LOW) == [1]


def test_shrinking_keeps_what_is_needed() -> None:
    """A failure that needs three nodes, five operations, some time and crashes, and another one beside it."""

    def live(seed: int, scenario: dict[str, Any]) -> SimFailure | None:
        enough = scenario["nodes"] >= 3 and scenario["operations"] >= 5 and scenario["seconds"] >= 0.3
        try:
            if enough and "crash" not in scenario["never"]:
                raise SimFailure(f"seed {seed}")
            if seed == 2:
                check(False, "another")
        except SimFailure as failure:
            return failure
        return None

    start = {"nodes": 7, "operations": 80, "seconds": 64.0, "never": ()}
    failure = live(1, start)
    assert failure is not None
    found = shrink_life(live, failure, 1, start, 5000)
    never = found.scenario.pop("never")
    assert found.scenario == {"nodes": 3, "operations": 5, "seconds": 0.5}
    assert {*never} == {*FAULTS} - {"crash"}
    assert found.lives < 1000, "it knows when it is done"
    assert shrink_life(live, failure, 1, start, 3).lives == 3


WATCHED = (5, 6, 12, 63)  # with sends that wait while the rules change, and what is linked and fails
LIVES = [*WATCHED, *(pytest.param(seed, marks=pytest.mark.search) for seed in range(5))]

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


@pytest.mark.parametrize("seed", LIVES)
def test_a_hard_life(seed: int) -> None:
    """Everything that the simulator can do happens in a few long lives."""
    limits = replace(TIGHT, outbox_messages=15) if seed % 2 else None
    report = SimNet(seed, weather=None if seed % 2 else HARD, limits=limits, operations=300, seconds=90.0).run()
    assert report.counts["messages"]


@pytest.mark.search
@pytest.mark.parametrize("seed", [2, 5, 8])
def test_a_hard_life_at_the_quota(seed: int) -> None:
    """D-10: peers that lose their oldest messages, or are skipped."""
    limits = replace(TIGHT, outbox_messages=15)
    report = SimNet(seed, policy=LOSSY, weather=HARD, limits=limits, operations=150, seconds=60.0).run()
    assert report.counts["messages"]


@pytest.mark.skipif(
    build_info().compiled, reason="it plants a fault in a function that compiled callers do not look up"
)
def test_a_life_that_fails_is_made_short(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shrink(1) is None
    monkeypatch.setattr(Transmission, "_fetch", lambda *_: None)  # nothing is read back
    found = next(filter(None, (shrink(seed, lives=2) for seed in (2, 3))))
    assert found.lives == 2
    assert str(found.failure).startswith(f"seed {found.seed} at ")


@pytest.mark.search
def test_stores_that_are_put_back_from_a_copy() -> None:
    """Their nodes may give ids again, to other messages, and each of those is handled (T-48)."""
    never = {"corrupt", "disconnect", "split", "jump", "stop_clock", "slow", "handler_slow", "handler_hangs"}
    counts: Counter[str] = Counter()
    for seed in range(3, 67, 8):  # worlds in which stores are copied
        policy = Policy(dedupe=10_000, dedupe_durable=seed % 16 == 3)
        counts.update(SimNet(seed, nodes=2, operations=300, seconds=90.0, policy=policy, never=never).run().counts)
    assert counts["restored"] > 5
    assert counts["handled"] > 100


def test_what_is_set_aside_is_not_drained() -> None:
    """Somebody asks for it again (T-09), and the simulation waits for that; not for what cannot be read (V9)."""
    net = SimNet(1, nodes=2)
    net.run()
    host, other = net._hosts
    sent = net._new_message(host)
    message = StoredMessage(10_000, 7, sent.channel, sent.key, sent.body, 50)
    host.store.commit([StoreMessages([message], [[other.ledger.uuid]]), ParkDelivery(other.ledger.uuid, 10_000)])
    assert net._unfinished() == [f"n0 has set [{sent.body!r}] aside for n1"]
    sent.damaged = True
    assert net._unfinished() == []


def test_a_late_handler_of_a_former_life_is_registered_nowhere() -> None:
    net = SimNet(0)
    host = net._hosts[0]
    host.ledger.ordered = False  # its handlers come late
    net._start(host)
    assert host.node is not None
    net._register_late(host, host.born - 1)
    assert not inside(host.node).delivering.handlers
    net._register_late(host, host.born)
    assert inside(host.node).delivering.handlers
