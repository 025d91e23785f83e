"""Outbound: routing, ids, windows, resending, order, quotas (T-40 to T-57, D-9, D-10)."""

from __future__ import annotations

import gc
import tracemalloc
from dataclasses import replace

import pytest

from tolliver_proto import (
    ConnectionClosing,
    Limits,
    LocalProtocolError,
    Message,
    Notice,
    NoticeKind,
    OutboxFull,
    OwnLimitExceeded,
    ReservedChannel,
    Stored,
    Subscription,
    encode,
)
from tolliver_proto._testing.inspection import inside

from ..play import HIGH, LOW, Play, deliveries, every, only


def test_routing_by_wildcards_one_copy_each() -> None:
    """T-24, T-25, T-53."""
    play = Play()
    low = play.peer(LOW, ("c", "k"), ("c", ""), ("", "k"), ("", ""))
    high = play.peer(HIGH, ("c", ""))
    counts = [play.send(*names, b"x").recipients for names in (("c", "k"), ("c", "z"), ("d", "k"), ("d", ""))]
    assert counts == [2, 2, 1, 1]
    assert len(low.messages()) == 4
    assert len(high.messages()) == 2


def test_a_message_with_an_empty_key_matches_only_empty_keys() -> None:
    """T-24."""
    play = Play()
    wire = play.peer(LOW, ("c", "k"))
    assert play.send("c", "", b"x").recipients == 0
    assert wire.messages() == []


def test_nobody_wants_it_and_nothing_is_stored() -> None:
    """T-53: reported as stored at once, with no recipients and no commit."""
    play = Play()
    play.peer(LOW, ("c", "k"))
    play.commits.clear()
    receipt = play.node.send("other", "k", b"x")
    assert only(play.run(), Stored).tokens == [receipt]
    assert (receipt.recipients, play.commits, play.store.messages) == (0, [], [])
    batch = play.node.send_many([("other", "k", b"x"), ("other", "k", b"y")])
    assert only(play.run(), Stored).tokens == [batch]
    assert (batch.counts, batch.recipients, play.commits, play.store.messages) == ([0, 0], 0, [], [])
    assert [one.last_seq + 1 - one.first_seq for one in (receipt, batch)] == [0, 0]


def test_no_delivery_to_oneself_and_no_relaying() -> None:
    """T-56."""
    play = Play(handlers=[("", "", "h")])
    play.call("subscribe", "", "")
    low, high = play.peer(LOW, ("", "")), play.peer(HIGH, ("", ""))
    actions = low.send(Message("c", "k", b"x", 1))
    play.call("acknowledge", deliveries(actions))
    assert high.messages() == []
    assert play.send("c", "k", b"own").recipients == 2
    assert not deliveries(play.run())


@pytest.mark.parametrize("start", [1, 2**31 - 8, 2**31 - 2])
def test_ids_wrap_over_live_ones(start: int) -> None:
    """T-40, T-41, V17: never 0, never 2^31-1 or more, never one that is still owed."""
    play = Play(first_id=start)
    wire = play.peer(LOW, ("c", ""))
    play.send("c", "k", b"never acknowledged")
    (stuck,) = wire.messages()
    assert stuck.message_id == start
    seen = []
    inside(play.node).ledger.ids._next = 2**31 - 5
    inside(play.node).ledger.ids._clear_until = 0
    for n in range(20):
        play.send("c", "k", b"%d" % n)
        (message,) = wire.messages()
        wire.ack(message)
        seen.append(message.message_id)
    assert stuck.message_id not in seen
    assert all(one is not None and 0 < one < 2**31 - 1 for one in seen)
    assert len(set(seen)) == 20
    play.wait(1.0)
    assert list(play.store.load().live_ids) == [(start, start)]


def test_one_id_for_several_recipients() -> None:
    """T-43: the row goes with the last of them."""
    play = Play()
    low, high = play.peer(LOW, ("c", "")), play.peer(HIGH, ("c", ""))
    play.send("c", "k", b"x")
    message = Message("c", "k", b"x", 1)
    assert low.messages() == high.messages() == [message]
    low.ack(message)
    play.wait(1.0)
    assert [row.body for row in play.store.messages] == [b"x"]
    high.ack(message)
    play.wait(1.0)
    assert play.store.messages == []


def test_resending_waits_doubles_and_jitters() -> None:
    """T-50: 10 s, 20 s, 40 s ... 300 s, and up to a fifth more."""
    play = Play()
    wire = play.peer(LOW, ("c", ""))
    play.send("c", "k", b"x")
    wire.got()
    for expected in (10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0):
        play.wait(expected - 0.25)
        assert wire.messages() == []
        play.wait(0.25)
        assert wire.bodies() == [b"x"]
    play.dice.value = 0.999
    play.wait(300.0)
    wire.got()
    play.wait(359.0)
    assert wire.messages() == []
    play.wait(1.0)
    assert wire.bodies() == [b"x"]


def test_a_change_of_the_list_is_resent_though_messages_go_and_are_acknowledged() -> None:
    play = Play()
    wire = play.peer(LOW, ("c", ""))
    play.call("subscribe", "x", "")
    [change] = wire.got()
    for _ in range(4):
        play.wait(2.0)
        play.send("c", "k", b"x")
        wire.ack(*wire.messages())
    assert wire.got() == []
    play.wait(2.0)
    assert wire.got() == [change]


def test_retry_interval_is_the_first_interval() -> None:
    play = Play(retry_interval=1.5)
    wire = play.peer(LOW, ("c", ""))
    play.send("c", "k", b"x")
    play.wait(1.4)
    assert wire.bodies() == [b"x"]
    play.wait(0.2)
    assert wire.bodies() == [b"x"]


def test_never_again_while_the_first_copy_is_in_our_own_buffer() -> None:
    """T-50: the time runs from when the socket took it."""
    play = Play()
    wire = play.peer(LOW, ("c", ""))
    play.hold_writes = True
    play.send("c", "k", b"first")
    play.send("c", "k", b"second")
    assert wire.bodies() == [b"first"]
    play.wait(1000.0)
    assert wire.bodies() == []
    play.written()
    assert wire.bodies() == [b"second"]
    play.wait(11.0)
    assert wire.bodies() == [], "the second is still in the socket's hands, and nothing overtakes it"
    play.hold_writes = False
    play.written()
    assert wire.bodies() == [b"first"]


def test_everything_again_at_once_and_in_order_on_a_new_connection() -> None:
    """T-50, T-51: before new messages, and nothing of the old connection counts (T-49)."""
    play = Play()
    wire = play.peer(LOW, ("c", ""))
    for n in range(6):
        play.send("c", "k", b"%d" % n)
    sent = wire.messages()
    wire.ack(sent[0], sent[3])
    wire.lose()
    play.send("c", "k", b"6")
    wire = play.accepted()
    play.send("c", "k", b"7")
    wire.request(("c", ""))
    play.send("c", "k", b"8")
    assert wire.bodies() == [b"1", b"2", b"4", b"5", b"6", b"7", b"8"]


def test_the_window_holds_messages_back_and_acks_let_them_go() -> None:
    """T-52: by number, and by bytes, but always one."""
    play = Play(limits=Limits(window_messages=3, window_bytes=1000))
    wire = play.peer(LOW, ("c", ""))
    for n in range(8):
        play.send("c", "k", b"%d" % n)
    messages = wire.messages()
    assert len(messages) == 3
    wire.ack(messages[1])
    (fourth,) = wire.messages()
    wire.ack(messages[0], messages[2], fourth)
    assert len(wire.messages()) == 3
    big = Play(limits=Limits(window_bytes=100))
    wire = big.peer(LOW, ("c", ""))
    big.send("c", "k", bytes(5000))
    big.send("c", "k", b"small")
    (first,) = wire.messages()
    assert len(first.body) == 5000
    wire.ack(first)
    assert wire.bodies() == [b"small"]
    size = len(encode(Message("c", "k", b"0", 1)))
    exact = Play(limits=Limits(window_bytes=3 * size))
    wire = exact.peer(LOW, ("c", ""))
    exact.node.send_many([("c", "k", b"%d" % n) for n in range(8)], now=0.0)
    exact.run()
    assert wire.bodies() == [b"0", b"1", b"2"]


def test_a_message_whose_resend_is_due_leaves_the_window() -> None:
    """T-52: what is never handled does not starve the rest; the backoff set is bounded and says when it is full."""
    play = Play(limits=Limits(window_messages=2, backoff_messages=3))
    wire = play.peer(LOW, ("c", ""))
    for n in range(10):
        play.send("c", "k", b"%d" % n)
    assert wire.bodies() == [b"0", b"1"]
    play.wait(10.0)
    assert sorted(wire.bodies()) == [b"0", b"1", b"2", b"3"]
    actions = play.wait(10.0)
    assert [one.peer for one in every(actions, Notice) if one.kind is NoticeKind.BACKOFF_FULL] == [LOW]
    got = wire.messages()
    assert {message.body for message in got} <= {b"0", b"1", b"2", b"3"}, "sends to this peer pause"
    wire.ack(got[0])
    play.wait(30.0)
    later = wire.messages()
    assert b"4" in {message.body for message in later}
    for _ in range(100):
        wire.ack(*later)
        play.wait(10.0)
        later = wire.messages()
        if not later and not play.pending():
            break
    assert play.pending() == 0


def test_a_backlog_beyond_memory_is_read_back_in_order() -> None:
    """T-52: bodies in memory are those of the window; the rest is fetched when there is room."""
    play = Play(limits=Limits(window_messages=4))
    play.peer(LOW, ("c", "")).lose()
    for n in range(50):
        play.send("c", "k", b"%d" % n)
    wire = play.accepted()
    wire.request(("c", ""))
    bodies: list[bytes] = []
    for _ in range(50):
        messages = wire.messages()
        bodies += [message.body for message in messages]
        wire.ack(*messages)
    assert bodies == [b"%d" % n for n in range(50)]
    assert max(fetch.max_count for fetch in play.fetches) == 4
    play.wait(1.0)
    assert play.store.messages == []


def test_unreliable_is_dropped_over_high_water_and_never_stored() -> None:
    """T-55."""
    play = Play(limits=Limits(high_water=100, low_water=50))
    wire = play.peer(LOW, ("c", ""))
    play.peer(HIGH, ("c", "")).lose()
    play.commits.clear()
    play.hold_writes = True
    assert play.node.unreliable_send("c", "k", bytes(60)) == 1
    play.run()
    assert play.node.unreliable_send("c", "k", bytes(60)) == 1
    assert play.node.unreliable_send("c", "k", b"dropped") == 0
    assert play.node.stats()["unreliable_dropped"] == 1
    play.hold_writes = False
    play.written()
    assert [(message.message_id, len(message.body)) for message in wire.messages()] == [(None, 60), (None, 60)]
    assert play.node.unreliable_send("c", "k", b"room again") == 1
    assert (play.commits, play.store.messages) == ([], [])


def test_reading_the_outbox_stops_at_high_water_and_goes_on_below_low() -> None:
    """D-9."""
    play = Play(limits=Limits(high_water=1024, low_water=300, window_messages=1000))
    wire = play.peer(LOW, ("c", ""))
    play.hold_writes = True
    for count in (4, 96):  # those that wait already count, too
        for _ in range(count):
            play.node.send("c", "k", bytes(80))
        play.run()
    for _ in range(40):
        link = inside(play.node).context.links[wire.cid]
        assert link.unsent <= 1024 + 120
        play.written()
    assert len(wire.messages()) == 100


def test_a_full_outbox_refuses_before_anything_changes() -> None:
    """D-10: by number and by bytes, all items or none."""
    play = Play(limits=Limits(outbox_messages=3, outbox_bytes=1000))
    wire = play.peer(LOW, ("c", ""))
    play.peer(HIGH, ("c", ""), ("d", ""))
    play.send("c", "k", b"1")
    before = (
        play.node.stats(),
        play.node.peers(),
        list(inside(play.node).ledger.refcounts),
        list(inside(play.node).ledger.ids.live),
    )
    assert before[0].refused_sends == 0
    for items in ([("d", "k", b""), *[("c", "k", b"x")] * 3], [("c", "k", bytes(1000))]):
        with pytest.raises(OutboxFull, match="D-10"):
            play.node.send_many(items)
    assert play.node.stats().refused_sends == 2
    after = replace(play.node.stats(), refused_sends=0)
    assert (
        after,
        play.node.peers(),
        list(inside(play.node).ledger.refcounts),
        list(inside(play.node).ledger.ids.live),
    ) == before
    assert play.run() == []
    wire.ack(*wire.messages())
    assert play.node.send("d", "k", b"another peer has room").recipients == 1


@pytest.mark.parametrize(
    ("item", "error"),
    [
        (("tolliver", "k", b""), ReservedChannel),
        (("c", "k", "text"), LocalProtocolError),
        (("c", "k", bytes(101)), OwnLimitExceeded),
        (("c" * 11, "k", b""), OwnLimitExceeded),
        (("c", "\udc80", b""), LocalProtocolError),
        (("c", None, b""), TypeError),
    ],
)
def test_a_bad_item_is_refused_with_all_its_companions(item: tuple[str, str, bytes], error: type[Exception]) -> None:
    """T-06, T-07, T-11, T-27."""
    play = Play(limits=Limits(max_body=100, max_name=10))
    wire = play.peer(LOW, ("", ""))
    with pytest.raises(error):
        play.node.send_many([("c", "k", b"good"), item])
    with pytest.raises(error):
        play.node.unreliable_send(*item)
    assert play.run() == []
    assert wire.messages() == []
    assert play.pending() == 0


def test_reserved_names_are_case_sensitive() -> None:
    """T-27."""
    play = Play()
    wire = play.peer(LOW, ("Tolliver", ""), ("", "tolliver"))
    play.send("Tolliver", "k", b"1")
    play.send("c", "tolliver", b"2")
    assert wire.bodies() == [b"1", b"2"]


def test_queued_for_a_peer_that_is_away() -> None:
    """T-32: its subscriptions persist, messages wait for it, over a restart too."""
    play = Play()
    play.peer(LOW, ("c", "")).lose()
    assert play.send("c", "k", b"1").recipients == 1
    again = play.restart()
    assert again.knows() == {Subscription("c", "")}
    again.send("c", "k", b"2")
    wire = again.accepted()
    wire.request(("c", ""))
    assert wire.bodies() == [b"1", b"2"]


def is_idle(play: Play) -> bool:
    """Freshly read: to a type checker a property stays what it was."""
    return play.node.idle


def test_close_ends_in_order_and_takes_no_more() -> None:
    play = Play()
    wire = play.peer(LOW, ("c", ""))
    play.send("c", "k", b"last")
    assert not is_idle(play)
    assert [type(action).__name__ for action in play.call("close")] == ["ShutdownWrite"]
    with pytest.raises(ConnectionClosing):
        play.node.send("c", "k", b"too late")
    with pytest.raises(ConnectionClosing):
        play.node.connect("anywhere")
    wire.ack(*wire.messages())
    assert [type(action).__name__ for action in wire.end()] == ["PeerDown"]
    wire.lose()
    play.wait(1.0)
    assert is_idle(play)
    assert play.store.messages == [], "an ack that came during the close counts"
    assert every(play.run(), Stored) == []


@pytest.mark.search
def test_messages_of_several_peers_leave_no_memory_when_all_have_acknowledged() -> None:
    """An encoded frame is kept for the next peer of the same round, and no longer."""
    play = Play(limits=Limits(window_messages=8))
    wires, body = [play.peer(uuid, ("c", "")) for uuid in (LOW, HIGH)], bytes(10_000)

    def round_of(count: int) -> None:
        for _ in range(count):
            play.send("c", "k", body)
            for wire in wires:
                wire.ack(*wire.messages())
                wire.units.clear()  # of the test's own
            play.wait(0.1)
        assert all(play.pending(uuid) == 0 for uuid in (LOW, HIGH))

    round_of(20)
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    round_of(200)
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert after - before < 100 * len(body)  # the test keeps its commits
