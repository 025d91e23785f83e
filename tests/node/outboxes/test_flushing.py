"""Flushes: an answer when what was sent is given to the sockets of the peers that are connected."""

from __future__ import annotations

import pytest

from tolliver_proto import Action, ConnectionClosing, Limits, Message, Policy, Receipt, Stored
from tolliver_proto.node import QuotaPolicy

from ..play import HIGH, LOW, Play, every


def is_answered(actions: list[Action], receipt: Receipt) -> bool:
    return any(receipt in stored.tokens for stored in every(actions, Stored))


def test_there_is_nothing_to_wait_for_where_nobody_is_connected() -> None:
    play = Play()
    receipt = play.node.flush(now=play.now)
    assert is_answered(play.run(), receipt)


def test_it_waits_for_the_sockets_of_all_who_are_connected() -> None:
    play = Play()
    play.peer(LOW, ("c", ""))
    play.peer(HIGH, ("d", ""))
    play.hold_writes = True
    assert play.node.unreliable_send("c", "k", b"1") == 1
    play.send("d", "k", b"2")
    receipt = play.node.flush(now=play.now)
    assert play.run() == []
    assert set(play.node.unflushed(receipt)) == {LOW, HIGH}
    play.node.unreliable_send("c", "k", b"behind it")
    play.run()
    play.hold_writes = False
    assert is_answered(play.written(), receipt)
    assert play.node.unflushed(receipt) == []


def test_it_waits_for_what_is_not_stored_yet() -> None:
    play = Play()
    play.peer(LOW, ("c", ""))
    play.hold_commits = True
    play.send("c", "k", b"1")
    receipts = [play.node.flush(now=play.now) for _ in range(2)]
    assert play.run() == []
    actions: list[Action] = []
    while play.held:
        actions += play.finish()
    assert all(is_answered(actions, receipt) for receipt in receipts)


def test_it_waits_for_a_window_that_is_full() -> None:
    play = Play(limits=Limits(window_messages=2))
    wire = play.peer(LOW, ("c", ""))
    for number in range(5):
        play.send("c", "k", b"%d" % number)
    receipt = play.node.flush(now=play.now)
    assert not is_answered(play.run(), receipt)
    acked, answered = 0, False
    while not answered:
        messages = [frame for frame in wire.got() if isinstance(frame, Message)]
        assert messages
        acked += len(messages)
        answered = is_answered(wire.ack(*messages), receipt)
    assert acked >= 3


def test_it_waits_for_a_send_that_waits_for_room() -> None:
    play = Play(policy=Policy(quota_policy=QuotaPolicy.DROP_OLDEST), limits=Limits(outbox_messages=1))
    play.peer(LOW, ("c", "")).lose()
    play.send("c", "k", b"1")
    play.hold_searches = True
    play.send("c", "k", b"2")
    receipt = play.node.flush(now=play.now)
    assert not is_answered(play.run(), receipt)
    assert is_answered(play.looked(), receipt)


def test_it_does_not_wait_for_what_is_sent_later() -> None:
    play = Play(limits=Limits(window_messages=1))
    wire = play.peer(LOW, ("c", ""))
    play.send("c", "k", b"1")
    play.send("c", "k", b"2")
    receipt = play.node.flush(now=play.now)
    assert not is_answered(play.run(), receipt)
    play.send("c", "k", b"3")
    assert is_answered(wire.ack(*wire.messages()), receipt)
    assert wire.bodies() == [b"2"], "the third waits for the window"


def test_one_who_goes_is_not_waited_for() -> None:
    play = Play()
    wire = play.peer(LOW, ("c", ""))
    play.hold_writes = True
    play.send("c", "k", b"1")
    receipt = play.node.flush(now=play.now)
    play.run()
    assert is_answered(wire.lose(), receipt)


def test_what_was_not_stored_does_not_leave() -> None:
    play = Play()
    play.peer(LOW, ("c", ""))
    play.hold_commits = True
    play.send("c", "k", b"1")
    receipt = play.node.flush(now=play.now)
    play.run()
    actions = play.fail()
    while play.held:
        actions += play.finish()
    assert is_answered(actions, receipt)


def test_there_is_no_flush_of_what_is_closing() -> None:
    play = Play()
    play.call("close")
    with pytest.raises(ConnectionClosing):
        play.node.flush(now=play.now)
