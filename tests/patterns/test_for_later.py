"""Messages for later: for a time, or for a subscriber (P-90 to P-97)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any
from uuid import UUID

import pytest

from tolliver_proto import (
    Action,
    ConnectionClosing,
    Limits,
    LocalProtocolError,
    Notice,
    NoticeKind,
    OutboxFull,
    Policy,
    Receipt,
    Stored,
    StoreError,
    Subscribe,
    TolliverError,
)
from tolliver_proto._common.owner_ids import LATER, kept_id
from tolliver_proto._patterns.message_keys import KEEPERS
from tolliver_proto._testing.invariants import audit
from tolliver_proto.errors import DiskFull, TooFewRecipients, UndeliveredReason
from tolliver_proto.node import PATTERNS, Acked, ForLater, QuotaPolicy, SendState
from tolliver_proto.store import StoreMessages

from .play import HIGH, LOW, Wire, every
from .play import Play as PatternsPlay


class Play(PatternsPlay):
    """A stage that remembers its last actions, and so the answers of sends."""

    last: tuple[Action, ...] = ()

    def run(self) -> list[Action]:
        actions = super().run()
        self.last += (*actions,)
        return actions

    @property
    def later(self) -> ForLater:
        return self.node.use(ForLater)

    def after(self, seconds: float, *bodies: bytes, channel: str = "c", **terms: Any) -> Receipt:
        self.last = ()
        items = [(channel, "", body) for body in bodies or (b"m",)]
        receipt = self.later.send_later(items, self.now, after=seconds, **terms)
        self.run()
        return receipt

    def plain(self, body: bytes, channel: str = "c", key: str = "", **terms: Any) -> Receipt:
        self.last = ()
        receipt = self.node.send(channel, key, body, self.now, **terms)
        self.run()
        return receipt

    def keep(self, channel: str = "c") -> None:
        self.later.keep(channel, self.now)
        self.run()

    def answers(self, receipt: Receipt) -> list[TolliverError | None]:
        return [one.error for one in every([*self.last], Stored) if receipt in one.tokens]

    def check(self) -> None:
        self.wait(0.2)
        audit(self.node, self.store)


def subscribed_play(**options: Any) -> tuple[Play, Wire]:
    play = Play(**options)
    return play, play.peer(LOW, ("c", ""))


def comes(play: Play, uuid: UUID = LOW, *subscriptions: tuple[str, str]) -> Wire:
    """A peer connects and subscribes; nothing of what it got is forgotten."""
    wire = play.accepted(uuid)
    wire.request(*subscriptions)
    return wire


def heard(wire: Wire) -> list[bytes]:
    """Bodies that came; they are acknowledged."""
    messages = wire.messages()
    wire.ack(*messages)
    return [one.body for one in messages]


def test_a_message_waits_for_its_time_and_goes_as_any_other() -> None:
    play, wire = subscribed_play()
    receipt = play.after(60)
    assert play.answers(receipt) == [None]
    assert (receipt.later, receipt.recipients, receipt.counts, receipt.state) == (1, 0, [0], SendState.WAITING)
    assert (play.node.stats().later, play.node.stats().pending) == (1, 0)
    play.wait(59.9)
    assert heard(wire) == []
    play.wait(0.2)
    assert (receipt.later, receipt.recipients, receipt.counts) == (0, 1, [1])
    assert heard(wire) == [b"m"]
    assert receipt.state is SendState.ACKNOWLEDGED
    assert play.node.stats().later == 0
    play.check()
    assert play.store.messages == []


def test_what_is_due_goes_in_the_order_of_the_times() -> None:
    play, wire = subscribed_play()
    wire.lose()
    play.after(30, b"3")
    play.after(10, b"1")
    play.after(20, b"2", b"2b")
    play.plain(b"0")
    play.wait(40)
    wire = comes(play, LOW, ("c", ""))
    assert heard(wire) == [b"0", b"1", b"2", b"2b", b"3"]


def test_what_is_due_moves_in_commits_of_a_bounded_size() -> None:
    play, wire = subscribed_play()
    play.after(10, *[bytes(3 * 2**20)] * 3)
    del play.commits[:]
    play.wait(11)
    moved = [one for commit in play.commits for one in commit.operations if isinstance(one, StoreMessages)]
    assert [len(one.messages) for one in moved] == [1, 1, 1]
    assert len(heard(wire)) == 2, "as much as the window of a connection takes"


def test_a_channel_keeps_for_its_first_subscriber() -> None:
    play = Play()
    play.keep()
    receipt = play.plain(b"1")
    assert (receipt.recipients, receipt.counts, receipt.state) == (1, [1], SendState.WAITING)
    play.plain(b"2")
    assert (play.node.stats().kept, play.node.stats().pending) == (2, 2)
    wire = comes(play, LOW, ("c", ""))
    play.plain(b"3")
    assert heard(wire) == [b"1", b"2", b"3"]
    assert receipt.state is SendState.ACKNOWLEDGED
    assert heard(comes(play, HIGH, ("c", ""))) == []
    play.check()
    assert play.store.messages == []


def test_what_is_wrong_with_a_time_is_said() -> None:
    play = Play()
    for after, not_before, text in (
        (-1.0, None, "after=-1"),
        (1.0, 5.0, "give one of them"),
        (None, float("inf"), "seconds since 1970"),
        (None, 2.0**53, "seconds since 1970"),
        (None, 2.0**60, "seconds since 1970"),
    ):
        with pytest.raises(ValueError, match=text):
            play.later.send_later([("c", "", b"m")], play.now, after=after, not_before=not_before)
    with pytest.raises(LocalProtocolError, match="no work queue"):
        play.later.put_later("jobs", [("", b"job")], play.now, after=1.0)
    play.node.close(play.now)
    with pytest.raises(ConnectionClosing, match="nothing was stored"):
        play.later.send_later([("c", "", b"m")], play.now, after=1.0)


def test_without_messages_there_is_nothing_to_wait_for() -> None:
    play = Play()
    receipt = play.later.send_later([], play.now, after=1.0)
    play.run()
    assert play.answers(receipt) == [None]


def test_a_time_of_the_wall_clock_is_looked_at_as_that_is_set() -> None:
    play, wire = subscribed_play()
    play.later.send_later([("c", "", b"m")], play.now, not_before=3600.0)
    play.run()
    play.wait(100)
    assert heard(wire) == []
    play.store.wall = 3600.0
    play.wait(60)
    assert {*heard(wire)} == {b"m"}  # sent again, as nobody acknowledged it meanwhile


def test_a_message_that_nobody_gets_at_its_time_is_given_up() -> None:
    play = Play()
    receipt = play.after(10)
    play.node.watch(receipt)
    play.wait(11)
    assert receipt.state is SendState.GIVEN_UP
    assert [one.reason for one in receipt.undelivered] == [UndeliveredReason.NO_RECIPIENTS]
    assert any(receipt in one.tokens for one in every([*play.last], Acked))
    assert NoticeKind.NO_RECIPIENTS in [one.kind for one in every([*play.last], Notice)]
    unwatched = play.after(10, b"1", b"2")
    play.wait(11)
    assert (unwatched.unacked, unwatched.later) == (0, 0)
    play.check()


def test_terms_are_kept_over_a_restart() -> None:
    play = Play()
    play.after(10, b"1", to=LOW)
    play.after(11, b"2", to=())
    play.after(12, b"3", expire_after=5)
    play = play.restart()
    low, high = play.peer(LOW, ("c", "")), play.peer(HIGH, ("c", ""))
    play.wait(13)
    assert (low.bodies(), high.bodies()) == ([b"1", b"3"], [b"3"])
    play.wait(10)
    assert play.pending(HIGH) == 0  # expired
    assert play.pending(LOW) == 1


def test_a_failed_commit_leaves_a_due_message_with_its_owner() -> None:
    play, wire = subscribed_play()
    receipt = play.after(10)
    play.hold_commits = True
    play.wait(10.1)
    play.fail()
    assert (receipt.later, play.node.stats().later) == (1, 1)
    play.hold_commits = False
    play.wait(2)
    assert heard(wire) == [b"m"]
    play.check()


def test_a_send_that_is_not_stored_waits_for_nothing() -> None:
    play = Play()
    play.hold_commits = True
    receipt = play.after(10)
    play.fail()
    assert isinstance(play.answers(receipt)[0], StoreError)
    assert (receipt.later, receipt.unacked, play.node.stats().later) == (0, 0, 0)
    receipt = play.later.send_later([("c", "", b"m")], play.now, not_before=5.0)
    play.run()
    play.fail()
    play.hold_commits = False
    play.wait(10)
    assert play.node.stats().later == 0


def test_a_search_that_fails_is_made_again() -> None:
    play, wire = subscribed_play()
    play.after(10)
    play.look_error = StoreError("a made-up failure")
    play.wait(11)
    play.look_error = None
    play.hold_looks = True
    play.wait(2)
    play.seen()
    play.look_error = StoreError("a made-up failure")
    play.seen()  # the fetch
    play.look_error, play.hold_looks = None, False
    play.wait(2)
    assert heard(wire) == [b"m"]


def test_more_than_the_bounds_is_refused() -> None:
    play = Play(limits=Limits(max_later=2))
    play.after(10, b"1", b"2")
    with pytest.raises(OutboxFull, match="max_later"):
        play.after(10)
    assert play.node.stats().refused_sends == 1


def test_what_waits_is_counted_byte_by_byte() -> None:
    play, sizes = Play(), [0]
    for length in range(40):
        play.after(10, b"." * length)
        sizes.append(play.node.stats().later_bytes)
    each = [later - earlier for earlier, later in pairwise(sizes)]
    assert each == [*range(each[0], each[0] + 40)]


def test_a_send_waits_for_room_on_the_disk() -> None:
    play, wire = subscribed_play()
    play.store.full = True
    play.plain(b"0")
    refused = play.after(1)
    assert isinstance(play.answers(refused)[0], DiskFull)
    play.store.full = False
    play.after(1)
    play.wait(10)
    assert {*heard(wire)} == {b"m"}


def test_sends_behind_a_full_disk_are_told_of_their_errors() -> None:
    play, wire = subscribed_play(limits=Limits(max_later=1))
    play.store.full = True
    play.plain(b"0")
    play.hold_commits = True
    wire.send(Subscribe("d", "", 1))  # a commit of its own
    receipts = [play.later.send_later([("c", "", b"m")], play.now, after=1.0) for _ in range(2)]
    play.store.full = False
    play.last = ()
    play.hold_commits = False
    play.finish()
    play.run()
    assert play.answers(receipts[0]) == [None]
    assert isinstance(play.answers(receipts[1])[0], OutboxFull)


def test_without_any_room_sends_fail() -> None:
    play, wire = subscribed_play()
    play.store.full = True
    play.plain(b"0")
    play.hold_commits = True
    wire.send(Subscribe("d", "", 1))
    receipt = play.later.send_later([("c", "", b"m")], play.now, after=1.0)
    play.last = ()
    play.store.spent = True
    play.finish()
    assert isinstance(play.answers(receipt)[0], DiskFull)


def test_a_due_message_passes_the_quota_of_its_recipient() -> None:
    play = Play(limits=Limits(outbox_messages=1))
    play.peer(LOW, ("c", "")).lose()
    play.plain(b"0")
    play.after(1, b"1")
    play.wait(2)
    assert play.pending() == 2


def test_a_message_that_breaks_a_rule_by_then_is_given_up() -> None:
    play = Play()
    wire = play.peer(LOW, ("", ""))
    play.after(1, b"3")
    receipt = play.after(1, b"1", b"2", channel="jobs")
    play.call("work_queue", "jobs")
    play.wait(2)
    assert [one.reason for one in receipt.undelivered] == [UndeliveredReason.DROPPED]
    assert b"3" in wire.bodies()
    assert NoticeKind.CORRUPT_MESSAGE in [one.kind for one in every([*play.last], Notice)]
    assert play.node.stats().later == 0


def test_a_damaged_message_is_given_up() -> None:
    play, wire = subscribed_play()
    receipt = play.after(1)
    play.store.corrupt(receipt.first_seq)
    play.wait(2)
    assert heard(wire) == []
    assert [one.reason for one in receipt.undelivered] == [UndeliveredReason.DROPPED]


def test_a_key_stands_for_a_message_before_and_after_its_time() -> None:
    play, wire = subscribed_play()
    first = play.keys.send("c", "", b"m", "k", play.now, after=10.0)
    play.run()
    again = play.keys.send("c", "", b"n", "k", play.now)
    play.run()
    assert (again.repeats, again.later, first.later) == (True, 1, 1)
    play = play.restart()
    play.wait(0.1)
    wire = comes(play, LOW, ("c", ""))
    play.wait(10)
    assert heard(wire) == [b"m"]
    play.wait(1)
    again = play.keys.send("c", "", b"n", "k", play.now, after=5.0)
    play.run()
    assert (again.repeats, again.later, again.state) == (True, 0, SendState.ACKNOWLEDGED)
    play.check()


def test_a_key_of_a_message_that_nobody_got_is_free() -> None:
    play = Play()
    play.keys.send("c", "", b"m", "k", play.now, after=1.0)
    play.run()
    play.wait(2)
    assert not play.keys.send("c", "", b"m", "k", play.now).repeats
    assert sum(len(play.store.deliveries(uuid)) for uuid in KEEPERS.values()) == 0


def test_a_key_comes_back_with_its_message_after_a_failed_commit() -> None:
    play, wire = subscribed_play()
    play.keys.send("c", "", b"m", "k", play.now, after=1.0)
    play.run()
    play.hold_commits = True
    play.wait(1.1)
    play.fail()
    play.hold_commits = False
    again = play.keys.send("c", "", b"n", "k", play.now)
    play.run()
    assert (again.repeats, again.later) == (True, 1)
    play.wait(2)
    assert heard(wire) == [b"m"]


def test_a_job_is_put_at_its_time() -> None:
    play = Play()
    play.call("work_queue", "jobs")
    play.later.put_later("jobs", [("", b"1")], play.now, after=1.0)
    keyed = play.keys.put("jobs", "", b"2", "k", play.now, after=2.0)
    play.run()
    play.wait(1.1)
    assert play.queues.numbers()[0].waiting == 1
    play = play.restart()
    play.wait(3)
    play.call("work_queue", "jobs")
    assert play.queues.numbers()[0].waiting == 2
    assert keyed.later == 1


def test_what_is_kept_goes_on_after_a_restart() -> None:
    play = Play()
    play.keep()
    play.keep()
    play.plain(b"1", key="a")
    play.plain(b"2", key="b")
    wire = comes(play, LOW, ("c", "a"))
    assert heard(wire) == [b"1"]
    assert play.later.kept() == {"c": (1, play.node.stats().kept_bytes)}
    play.wait(0.2)
    play = play.restart()
    play.wait(0.1)
    wire = comes(play, HIGH, ("c", ""))
    assert heard(wire) == [b"2"]
    assert play.plain(b"3", channel="other").recipients == 0
    play.check()


def test_a_crash_while_messages_move_leaves_the_rest_for_the_next_opening() -> None:
    play = Play()
    play.keep()
    play.plain(b"1")
    play.hold_looks = True
    play.searches.clear()
    play.hold_searches = True
    comes(play, LOW, ("c", ""))
    blocked = play.plain(b"2")
    assert play.answers(blocked) == []
    play = play.restart()
    wire = comes(play, LOW, ("c", ""))
    play.wait(0.1)
    assert heard(wire) == [b"1"]


def test_what_a_channel_keeps_has_the_bounds_of_a_peer() -> None:
    play = Play(limits=Limits(outbox_messages=1), policy=Policy(quota_policy=QuotaPolicy.SKIP))
    play.keep()
    play.plain(b"1")
    with pytest.raises(OutboxFull, match="first subscriber"):
        play.plain(b"2")
    with pytest.raises(TooFewRecipients):
        play.plain(b"2", require_recipients=1)
    assert play.plain(b"2", to=LOW).recipients == 0
    for owner in (LATER, kept_id("c")):
        with pytest.raises(LocalProtocolError, match="keeps messages"):
            play.node.forget_peer(owner, play.now)
    with pytest.raises(ValueError, match="one channel"):
        play.keep("")


def test_one_that_subscribes_while_messages_move_gets_its_own() -> None:
    play = Play()
    play.keep()
    play.plain(b"1", key="a")
    play.plain(b"2", key="b")
    play.hold_searches = True
    first = comes(play, LOW, ("c", "a"))
    second = comes(play, HIGH, ("c", "b"))
    play.hold_searches = False
    play.looked()
    assert (heard(first), heard(second)) == ([b"1"], [b"2"])
    play.check()


def test_sends_wait_for_the_second_move_as_for_the_first() -> None:
    play = Play()
    for channel in ("c", "d"):
        play.keep(channel)
        play.plain(b"kept", channel=channel)
    assert heard(comes(play, LOW, ("c", ""))) == [b"kept"]
    play.hold_searches = True
    wire = comes(play, HIGH, ("d", ""))
    assert play.answers(play.plain(b"later", channel="d")) == []
    play.hold_searches = False
    play.looked()
    assert heard(wire) == [b"kept", b"later"]
    play.check()


def test_a_move_that_fails_is_made_again() -> None:
    play = Play()
    play.keep()
    play.plain(b"1")
    play.search_error = StoreError("a made-up failure")
    wire = comes(play, LOW, ("c", ""))
    play.search_error = None
    play.wait(2)
    assert heard(wire) == [b"1"]


def test_a_channel_is_declared_again_where_that_failed() -> None:
    play = Play()
    play.hold_commits = True
    play.keep()
    play.fail()
    play.hold_commits = False
    play.wait(2)
    play.plain(b"1")
    play = play.restart()
    wire = comes(play, LOW, ("c", ""))
    play.wait(0.1)
    assert heard(wire) == [b"1"]


def test_what_was_kept_in_an_earlier_run_can_be_forgotten() -> None:
    play = Play()
    play.keep()
    play.plain(b"1")
    play = play.restart()
    for kind in PATTERNS:
        play.node.use(kind)
    play.wait(0.1)
    assert play.node.stats().kept == 1
    play.call("forget_peer", kept_id("c"))
    play.wait(0.1)
    assert play.node.stats().kept == 0
    play.keep()
    assert play.plain(b"2").recipients == 1


def test_a_second_subscriber_comes_while_messages_move() -> None:
    play = Play()
    play.keep()
    play.plain(b"1", key="a")
    play.plain(b"2", key="b")
    play.hold_searches = True
    low, high = comes(play, LOW, ("c", "a")), comes(play, HIGH, ("c", "b"))
    assert not play.node.idle
    play.hold_searches = False
    play.looked()
    play.wait(1)
    assert (heard(low), heard(high)) == ([b"1"], [b"2"])


def test_a_move_whose_commit_fails_is_made_again() -> None:
    play = Play()
    play.keep()
    play.plain(b"1")
    play.hold_searches = True
    wire = comes(play, LOW, ("c", ""))
    play.hold_searches, play.hold_commits = False, True
    play.looked()
    play.fail()
    play.hold_commits = False
    play.wait(2)
    assert heard(wire) == [b"1"]
    play.check()


def test_several_messages_of_one_send_are_counted_together() -> None:
    play, wire = subscribed_play()
    receipt = play.after(1, b"1", b"2")
    play.wait(2)
    assert heard(wire) == [b"1", b"2"]
    assert (receipt.later, receipt.counts, receipt.state) == (0, [1, 1], SendState.ACKNOWLEDGED)


def test_messages_that_are_due_together_have_receipts_of_their_own_beside_one_for_a_connecting_peer() -> None:
    play, wire = subscribed_play()
    kept, given = play.after(1, b"1", channel="d"), play.after(1, b"2")
    play.call("connect", "there")
    play.wait(2)
    assert heard(wire) == [b"2"]
    assert given.state is SendState.ACKNOWLEDGED
    assert kept.state is SendState.WAITING


def test_a_message_that_is_due_waits_for_room_on_the_disk() -> None:
    """Also if nobody sends another one."""
    play, wire = subscribed_play()
    receipt = play.after(10)
    play.store.full = True
    play.wait(30)
    assert (heard(wire), receipt.later) == ([], 1)
    play.store.full = False
    play.wait(2)
    assert (heard(wire), receipt.later) == ([b"m"], 0)
    play.check()


def test_a_message_that_is_due_waits_longer_where_there_is_no_room_at_all() -> None:
    play, wire = subscribed_play()
    play.after(10)
    play.store.full = True
    play.wait(11)
    play.hold_looks = True
    play.wait(2)
    play.seen()
    play.hold_commits = True
    wire.send(Subscribe("d", "", 1))
    play.seen()  # the message waits for a commit of its own
    assert play.later.busy()
    play.store.spent, play.hold_commits, play.hold_looks = True, False, False
    play.finish()
    play.store.full = play.store.spent = False
    play.wait(2)
    assert heard(wire) == [b"m"]
    play.check()
