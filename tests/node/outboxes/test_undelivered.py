"""Answers to whoever waits for acknowledgements (T-54), and sends that ask for recipients."""

from __future__ import annotations

import gc
import pickle

import pytest

from tolliver_proto import Limits, Policy, Stored
from tolliver_proto._testing.inspection import inside
from tolliver_proto.errors import BodyNotDecoded, BodyNotEncoded, TooFewRecipients, Undelivered, UndeliveredReason
from tolliver_proto.node import Acked, QuotaPolicy

from ..play import LOW, OTHER, Play, only

WANTED = ("c", "")
DROP = Policy(quota_policy=QuotaPolicy.DROP_OLDEST)
SKIP = Policy(quota_policy=QuotaPolicy.SKIP)


def asked(play: Play, receipt: object) -> tuple[object, UndeliveredReason, int] | None:
    """The answer to who asks now: None for an acknowledgement."""
    play.node.watch(receipt)  # type: ignore[arg-type]
    error = only(play.run(), Acked).error
    return None if error is None else (error.peer, error.reason, error.count)


def absent(**options: object) -> Play:
    """Two peers that were here and have gone."""
    play = Play(**options)  # type: ignore[arg-type]
    play.peer(LOW, WANTED).lose()
    play.peer(OTHER, WANTED).lose()
    return play


def test_who_waits_for_what_is_forgotten_is_told_so_and_not_that_it_was_acknowledged() -> None:
    play = absent()
    receipt = play.send("c", "k", b"for both")
    play.node.watch(receipt)
    answer = only(play.call("forget_peer", LOW), Acked)
    assert answer.tokens == [receipt]
    assert isinstance(answer.error, Undelivered)
    assert (answer.error.peer, answer.error.reason, answer.error.count) == (LOW, UndeliveredReason.FORGOTTEN, 1)
    assert str(LOW) in str(answer.error)
    assert "forgotten" in str(answer.error)
    assert not inside(play.node).ledger._watched


def test_who_asks_later_is_told_the_same() -> None:
    play = absent()
    receipt = play.node.send_many([("c", "k", b"1"), ("c", "k", b"2")], now=play.now)
    other = play.send("c", "k", b"3")
    play.run()
    play.call("forget_peer", LOW)
    assert asked(play, receipt) == (LOW, UndeliveredReason.FORGOTTEN, 2)
    assert asked(play, receipt) == (LOW, UndeliveredReason.FORGOTTEN, 2)
    assert asked(play, other) == (LOW, UndeliveredReason.FORGOTTEN, 1)
    wire = play.peer(OTHER, WANTED)
    wire.ack(*play.wires[wire.cid].messages())
    assert asked(play, receipt) == (LOW, UndeliveredReason.FORGOTTEN, 2), "an ack of others does not mend it"


def test_each_who_gave_something_up_is_named() -> None:
    play = absent()
    receipt = play.send("c", "k", b"for both")
    play.call("forget_peer", LOW)
    play.call("forget_peer", OTHER)
    assert [one.peer for one in receipt.undelivered] == [LOW, OTHER]


def test_what_expires_was_not_delivered() -> None:
    play = absent(policy=Policy(expire_after=100.0))
    receipt = play.send("c", "k", b"old")
    play.node.watch(receipt)
    play.store.age = 101.0
    answer = only(play.wait(120.0), Acked)
    assert answer.error is not None
    assert answer.error.reason is UndeliveredReason.EXPIRED
    assert len(receipt.undelivered) == 2


def test_what_goes_for_newer_ones_was_not_delivered() -> None:
    play = absent(policy=DROP, limits=Limits(outbox_messages=1))
    receipt = play.send("c", "k", b"1")
    play.send("c", "k", b"2")
    assert asked(play, receipt) == (LOW, UndeliveredReason.DROPPED_OLDEST, 1)


def test_who_was_skipped_does_not_get_it() -> None:
    play = absent(policy=SKIP, limits=Limits(outbox_messages=2))
    first = play.send("c", "k", b"1")
    rest = play.node.send_many([("c", "k", b"%d" % number) for number in range(2, 5)], now=play.now)
    play.run()
    told = {(one.peer, one.reason, one.count) for one in rest.undelivered}
    assert told == {(peer, UndeliveredReason.SKIPPED, 2) for peer in (LOW, OTHER)}
    assert asked(play, rest) in told
    assert first.undelivered == ()


def test_what_is_dropped_after_it_was_parked_was_not_delivered() -> None:
    play = absent()
    play.peer(LOW, WANTED)
    receipt = play.send("c", "k", b"poison")
    inside(play.node).ledger.park(inside(play.node).context.peers[LOW].outbox, LOW, receipt.first_seq, 10)
    play.node.watch(receipt)
    play.wait(1.0)
    answer = only(play.call("drop_parked", LOW), Acked)
    assert answer.error is not None
    assert answer.error.reason is UndeliveredReason.DROPPED


def test_an_acknowledgement_is_one_still() -> None:
    play = Play()
    wire = play.peer(LOW, WANTED)
    receipt = play.send("c", "k", b"1")
    play.node.watch(receipt)
    assert only(wire.ack(*wire.messages()), Acked).error is None
    play.call("forget_peer", LOW)
    assert asked(play, receipt) is None, "nothing of it was left to be given up"


def test_one_answer_names_all_that_one_run_of_acks_brings_to_its_end() -> None:
    play = Play()
    wire = play.peer(LOW, WANTED)
    receipts = [play.send("c", "k", b"%d" % number) for number in range(3)]
    batch = play.node.send_many([("c", "k", b"3"), ("c", "k", b"4")], now=play.now)
    play.run()
    assert not any(play.node.watch(one) for one in (*receipts[1:], batch)), "each is owed still"
    first, *others = wire.messages()
    wire.ack(first)
    assert receipts[0].unacked == 0
    assert only(wire.ack(*others[:-1]), Acked).tokens == receipts[1:]
    assert batch.unacked == 1
    assert only(wire.ack(others[-1]), Acked).tokens == [batch]
    assert play.node.watch(batch), "it is told at once"
    assert only(play.run(), Acked).tokens == [batch]


def test_what_is_sent_while_a_commit_runs_needs_no_turn() -> None:
    play = Play()
    wire = play.peer(LOW, WANTED)
    gathers = [play.node.gathers]
    play.hold_commits = True
    play.send("c", "k", b"1")
    gathers.append(play.node.gathers)
    play.node.send("c", "k", b"2")
    gathers.append(play.node.gathers)
    play.node.send("nobody", "wants", b"this")
    gathers.append(play.node.gathers)
    assert gathers == [False, True, True, False], "the last one is stored already, and that is to be told"
    play.hold_commits = False
    play.finish()
    assert [message.body for message in wire.messages()] == [b"1", b"2"]


@pytest.mark.parametrize("held", [1, 20])
def test_the_node_holds_no_receipt_for_its_own_sake(held: int) -> None:
    play = absent()
    kept = [play.send("c", "k", b"kept") for _ in range(held)]
    for number in range(1_000):
        play.send("c", "k", b"%d" % number)
    gc.collect()
    assert len(inside(play.node).ledger.receipts) == held
    assert inside(play.node).ledger.receipts.places < 200, "and no place for each that is gone"
    play.call("forget_peer", LOW)
    assert asked(play, kept[0]) == (LOW, UndeliveredReason.FORGOTTEN, 1)


def test_the_error_survives_a_process() -> None:
    error = pickle.loads(pickle.dumps(Undelivered(LOW, UndeliveredReason.EXPIRED, 3)))
    assert (error.peer, error.reason, error.count) == (LOW, "expired", 3)
    few = pickle.loads(pickle.dumps(TooFewRecipients("c", "k", 2, 1)))
    assert (few.channel, few.key, few.required, few.found) == ("c", "k", 2, 1)
    assert "2" in str(few)
    mute = pickle.loads(pickle.dumps(BodyNotEncoded("c", "k", "it is none")))
    assert (mute.channel, mute.key, mute.why) == ("c", "k", "it is none")
    assert str(mute) == "the value for 'c' 'k' has no body: it is none"
    dark = pickle.loads(pickle.dumps(BodyNotDecoded("c", "k", LOW, "it is none")))
    assert (dark.channel, dark.key, dark.peer, dark.why) == ("c", "k", LOW, "it is none")
    assert str(dark) == f"the body of 'c' 'k' from peer {LOW} has no value: it is none"


# Recipients that a send asks for.


def test_a_send_with_fewer_recipients_than_it_asks_for_stores_nothing() -> None:
    play = absent()
    with pytest.raises(TooFewRecipients) as caught:
        play.node.send("c", "k", b"x", now=play.now, require_recipients=3)
    assert (caught.value.required, caught.value.found) == (3, 2)
    with pytest.raises(TooFewRecipients):
        play.node.send_many([("c", "k", b"1"), ("nobody", "", b"2")], now=play.now, require_recipients=1)
    play.run()
    assert play.store.messages == []
    assert play.node.stats().pending == 0
    receipt = play.node.send("c", "k", b"x", now=play.now, require_recipients=2)
    assert only(play.run(), Stored).error is None
    assert receipt.recipients == 2


def test_who_is_skipped_at_its_quota_is_not_counted() -> None:
    play = absent(policy=SKIP, limits=Limits(outbox_messages=1))
    play.send("c", "k", b"1")
    with pytest.raises(TooFewRecipients):
        play.node.send("c", "k", b"2", now=play.now, require_recipients=1)
    assert play.node.stats().skipped == 0


def test_a_send_that_waits_is_told_when_its_turn_comes() -> None:
    play = absent(policy=Policy(strict_block=True))
    play.node.connect("remote", now=play.now)
    wire = play.dialled(play.run(), LOW)
    receipt = play.node.send("c", "k", b"x", now=play.now, require_recipients=2)
    stored = [one for one in wire.respond() if isinstance(one, Stored) and receipt in one.tokens]
    assert len(stored) == 1
    assert isinstance(stored[0].error, TooFewRecipients)
    assert play.store.messages == []
