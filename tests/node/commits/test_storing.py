"""Commits and fetches, and failures of the store (T-54, V9, V10)."""

from __future__ import annotations

import pytest

from tolliver_proto import (
    Fetch,
    Limits,
    Message,
    Notice,
    NoticeKind,
    Stored,
    StoreError,
    Subscribe,
    Subscription,
    Unsubscribe,
)
from tolliver_proto._testing.inspection import inside
from tolliver_proto.errors import Unconfirmed
from tolliver_proto.store import ReserveIds, StoreMessages

from ..play import HIGH, LOW, Play, every, notices, only


def test_what_waits_while_a_commit_runs_goes_into_the_next() -> None:
    play = Play()
    wire = play.peer(LOW, ("c", ""))
    play.commits.clear()
    play.hold_commits = True
    receipts = [play.send("c", "k", b"%d" % n) for n in range(10)]
    assert len(play.held) == 1
    assert ([*(play.node.committing or ())], play.node.uncommitted) == (receipts[:1], True)
    play.call("subscribe", "own", "")
    assert only(play.finish(), Stored).tokens == receipts[:1]
    (second,) = play.held
    stored = [message.seq for op in second.operations if isinstance(op, StoreMessages) for message in op.messages]
    assert stored == list(range(2, 11))
    assert only(play.finish(), Stored).tokens[:9] == receipts[1:]
    assert len(play.commits) == 2
    assert (play.node.committing, play.node.uncommitted) == (None, False)
    assert wire.bodies() == [b"%d" % n for n in range(10)]


def test_removals_ride_with_the_next_commit_or_wait_fifty_milliseconds() -> None:
    play = Play()
    wire = play.peer(LOW, ("c", ""))
    play.send("c", "k", b"1")
    play.commits.clear()
    wire.ack(*wire.messages())
    assert play.commits == []
    play.send("c", "k", b"2")
    assert len(play.commits) == 1
    wire.ack(*wire.messages())
    play.wait(0.04)
    assert len(play.commits) == 1
    play.wait(0.02)
    assert len(play.commits) == 2
    assert play.store.messages == []


def test_a_failed_commit_is_as_if_it_had_never_been_and_the_next_one_works() -> None:
    """V10: nothing half-true, connections live."""
    play = Play()
    wire = play.peer(LOW, ("c", ""))
    play.send("c", "k", b"before")
    (before,) = wire.messages()
    play.hold_commits = True
    failed = play.send("c", "k", b"failed")
    wire.ack(before)
    waiting = play.send("c", "k", b"waiting")
    actions = play.fail()
    assert [(stored.tokens, stored.error is None) for stored in every(actions, Stored)] == [([failed], False)]
    assert notices(actions) == [NoticeKind.STORE_ERROR]
    assert only(play.finish(), Stored).tokens == [waiting]
    assert wire.bodies() == [b"waiting"]
    play.hold_commits = False
    play.wait(2.0)
    assert [message.body for message in play.store.messages] == [b"waiting"]
    assert play.pending() == 1


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (StoreError("no"), "a commit failed, nothing of it was stored: no"),
        (Unconfirmed("who knows"), "a commit failed: who knows"),
    ],
    ids=["certain", "unconfirmed"],
)
def test_nobody_says_that_nothing_was_stored_where_that_is_not_known(error: StoreError, said: str) -> None:
    play = Play()
    play.peer(LOW, ("c", ""))
    play.hold_commits = True
    receipt = play.send("c", "k", b"x")
    actions = play.fail(error)
    assert only(actions, Notice).detail == said
    assert [(stored.tokens, stored.error) for stored in every(actions, Stored)] == [([receipt], error)]


def test_removals_of_a_failed_commit_come_again_later() -> None:
    """And a store that goes on failing is not asked without pause."""
    play = Play()
    wire = play.peer(LOW, ("c", ""))
    play.send("c", "k", b"1")
    wire.ack(*wire.messages())
    play.hold_commits = True
    play.wait(0.1)
    for _ in range(5):
        play.fail()
        assert play.held == []
        play.wait(0.9)
        assert play.held == []
        play.wait(0.2)
        assert len(play.held) == 1
    play.finish()
    assert (play.store.messages, play.store.deliveries(LOW)) == ([], [])


def test_own_subscriptions_after_a_failure_are_what_the_store_has_and_what_is_coming() -> None:
    play = Play()
    play.call("subscribe", "kept", "")
    play.hold_commits = True
    play.call("subscribe", "failed", "")
    play.call("subscribe", "failed and again", "")
    play.call("unsubscribe", "kept", "")
    play.fail()
    play.call("subscribe", "failed", "")
    play.finish()
    while play.held:
        play.finish()
    assert set(play.node.subscriptions()) == play.store.load().own_subscriptions
    assert Subscription("failed", "") in play.node.subscriptions()


def test_two_failures_in_a_row_with_the_same_subscription() -> None:
    play = Play()
    play.hold_commits = True
    play.call("subscribe", "c", "")
    play.call("subscribe", "c", "")
    play.fail()
    play.fail()
    assert play.node.subscriptions() == []
    assert play.restart().node.subscriptions() == []


def test_a_peers_subscriptions_after_a_failure() -> None:
    """A list that was not stored is not acknowledged; one that came after it counts (T-28, T-29)."""
    play = Play()
    wire = play.peer(LOW, ("a", ""))
    play.hold_commits = True
    wire.send(Subscribe("b", "", 1))
    wire.send(Unsubscribe("a", "", 2), Subscribe("d", "", 3))
    play.fail()
    play.finish()
    assert wire.acks() == [2, 3]
    assert play.knows() == {Subscription("d", "")}
    assert play.store.load().peers[LOW].subscriptions == {Subscription("d", "")}
    wire.send(Subscribe("b", "", 1))
    play.finish()
    assert wire.acks() == [1]
    assert play.store.load().peers[LOW].subscriptions == set(play.knows())


def test_ids_are_reserved_again_after_a_failure() -> None:
    """T-40: or a restart would give them twice."""
    play = Play()
    play.peer(LOW, ("c", ""))
    play = play.restart()
    play.hold_commits = True
    play.send("c", "k", b"1")
    assert any(isinstance(op, ReserveIds) for op in play.held[0].operations)
    play.fail()
    play.send("c", "k", b"2")
    assert any(isinstance(op, ReserveIds) for op in play.held[0].operations)
    play.finish()
    assert inside(play.restart().node).ledger.ids.take() > 4096


def test_held_messages_do_not_outlive_a_restart() -> None:
    """T-62: acknowledged by all whom it was sent to, kept for one that was connecting."""
    play = Play()
    wire = play.peer(LOW, ("c", ""))
    play.dialled(play.call("connect", "there"), HIGH)
    play.send("c", "k", b"x")
    wire.ack(*wire.messages())
    play.wait(1.0)
    assert len(play.store.messages) == 1
    assert play.restart().store.messages == []


def test_corrupt_rows_are_set_aside_and_the_rest_goes_on() -> None:
    """V9."""
    play = Play()
    play.peer(LOW, ("c", "")).lose()
    for n in range(5):
        play.send("c", "k", b"%d" % n)
    play.store.corrupt(2)
    play.store.corrupt(4)
    wire = play.accepted()
    actions = wire.request(("c", ""))
    assert notices(actions) == [NoticeKind.CORRUPT_MESSAGE] * 2
    assert wire.bodies() == [b"0", b"2", b"4"]
    play.wait(1.0)
    (peer,) = play.node.peers()
    assert (peer.pending, peer.parked) == (3, 2)
    known = play.store.load().peers[LOW]
    assert (known.pending, known.pending_bytes, known.parked) == (3, peer.pending_bytes, 2)
    again = play.restart()
    wire = again.accepted()
    assert notices(wire.request(("c", ""))) == []
    assert wire.bodies() == [b"0", b"2", b"4"]


def test_a_row_that_could_not_be_set_aside_is_counted_once() -> None:
    play = Play()
    play.peer(LOW, ("c", "")).lose()
    play.send("c", "k", b"1")
    play.store.corrupt(1)
    wire = play.peer(LOW, ("c", ""))
    play.hold_commits = True
    play.wait(0.1)
    play.fail()
    wire.lose()
    play.hold_commits = False
    play.peer(LOW, ("c", ""))
    play.wait(2.0)
    (peer,) = play.node.peers()
    assert (peer.pending, peer.parked) == (0, 1)
    assert play.store.load().peers[LOW].parked == 1


def test_a_row_that_went_bad_before_its_resend() -> None:
    """V9, T-52: the body of a message in the backoff set is read back, and cannot be."""
    play = Play()
    wire = play.peer(LOW, ("c", ""))
    play.send("c", "k", b"1")
    play.wait(15.0)
    play.store.corrupt(1)
    assert NoticeKind.CORRUPT_MESSAGE in notices(play.wait(30.0))
    assert wire.bodies() == [b"1", b"1"]
    assert play.pending() == 0


def test_a_fetch_that_fails_is_tried_again() -> None:
    play = Play()
    play.peer(LOW, ("c", "")).lose()
    play.send("c", "k", b"1")
    play.hold_fetches = True
    wire = play.peer(LOW, ("c", ""))
    play.node.fetch_failed(LOW, StoreError("locked"), now=play.now)
    assert notices(play.run()) == [NoticeKind.STORE_ERROR]
    assert len(play.fetches) == 1
    play.wait(1.1)
    assert len(play.fetches) == 2
    play.fetched()
    assert wire.bodies() == [b"1"]


def test_a_fetch_for_a_connection_that_is_gone_is_asked_again() -> None:
    play = Play()
    play.peer(LOW, ("c", "")).lose()
    for n in range(3):
        play.send("c", "k", b"%d" % n)
    play.hold_fetches = True
    play.peer(LOW, ("c", "")).lose()
    wire = play.peer(LOW, ("c", ""))
    assert len(play.fetches) == 1, "one at a time for a peer"
    play.fetched()
    assert wire.bodies() == []
    play.fetched()
    assert wire.bodies() == [b"0", b"1", b"2"]


def test_resends_whose_bodies_are_read_back_skip_what_was_acknowledged_meanwhile() -> None:
    """T-52: the rows of a range of due messages, some of them gone, others not due."""
    play = Play(limits=Limits(window_messages=4), retry_interval=1.0)
    wire = play.peer(LOW, ("c", ""))
    for n in range(4):
        play.send("c", "k", b"%d" % n)
    play.wait(1.0)
    first = wire.messages()[:4]
    play.hold_fetches = True
    play.wait(2.5)
    fetch = play.fetches[-1]
    assert isinstance(fetch, Fetch)
    wire.ack(first[0], first[2])
    play.wait(0.1)
    play.hold_fetches = False
    play.fetched()
    assert sorted(wire.bodies()) == [b"1", b"3"]


def test_one_that_falls_due_while_the_body_of_the_next_is_read_is_resent_too() -> None:
    play = Play()
    wire = play.peer(LOW, ("c", ""))
    for value, body in ((0.999, b"1"), (0.0, b"2")):
        play.dice.value = value
        play.send("c", "k", body)
    play.wait(29.0)
    assert wire.bodies() == [b"1", b"2", b"2", b"1"]
    play.hold_fetches = True
    play.wait(4.0)
    assert [fetch.max_count for fetch in play.fetches] == [1]
    play.hold_fetches = False
    play.fetched()
    assert sorted(wire.bodies()) == [b"1", b"2"]


def test_acknowledgements_of_a_run_are_one_operation() -> None:
    play = Play()
    wire = play.peer(LOW, ("c", ""))
    for n in range(100):
        play.send("c", "k", b"%d" % n)
    play.commits.clear()
    wire.ack(*wire.messages())
    play.wait(0.1)
    (commit,) = play.commits
    assert [len(getattr(op, "spans", ())) for op in commit.operations] == [1, 1]


def test_a_late_report_of_a_commit_is_ignored() -> None:
    play = Play()
    wire = play.peer(LOW, ("c", ""))
    play.send("c", "k", b"1")
    for batch_id in (1, 2, 99):
        play.node.committed(batch_id)
        play.node.store_failed(batch_id, StoreError("no"))
    assert play.run() == []
    assert wire.messages() == [Message("c", "k", b"1", 1)]
