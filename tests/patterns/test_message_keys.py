"""Message keys: the same key on a channel is the same message (P-60 to P-65)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tolliver_proto import (
    Action,
    ConnectionClosing,
    HandshakeFinal,
    Limits,
    LocalProtocolError,
    Message,
    NoticeKind,
    OutboxFull,
    OwnLimitExceeded,
    Policy,
    Receipt,
    Revision,
    Stored,
    StoreError,
    TolliverError,
)
from tolliver_proto._node.actions import Rider
from tolliver_proto._patterns.envelopes import Status, id_in, reply_body, reply_channel
from tolliver_proto._patterns.message_keys import KEEPERS
from tolliver_proto._testing.invariants import audit
from tolliver_proto.errors import DiskFull, TooFewRecipients, Undelivered, UndeliveredReason
from tolliver_proto.layouts import Dialect
from tolliver_proto.node import Acked, Answered, Asked, QuotaPolicy
from tolliver_proto.store import STORING, Find, StoreMessages

from .play import HIGH, LOW, ME, Wire, every, notices, only
from .play import Play as PatternsPlay

DAY = 86_400.0
REMOTE = "host:1"


class Play(PatternsPlay):
    """A stage that remembers its last actions, and so the answers of sends."""

    last: tuple[Action, ...] = ()

    def run(self) -> list[Action]:
        actions = super().run()
        self.last += (*actions,)
        return actions

    def keyed(self, body: bytes = b"m", message_key: str = "k", channel: str = "c", **terms: Any) -> Receipt:
        self.last = ()
        receipt = self.keys.send(channel, "", body, message_key, self.now, **terms)
        self.run()
        return receipt

    def job(self, body: bytes = b"job", message_key: str = "k") -> Receipt:
        self.last = ()
        receipt = self.keys.put("jobs", "", body, message_key, self.now)
        self.run()
        return receipt

    def answers(self, receipt: Receipt) -> list[TolliverError | None]:
        """Answers to the send, among the actions since the last one."""
        return [one.error for one in every([*self.last], Stored) if receipt in one.tokens]

    def bodies(self) -> list[bytes]:
        """Of the messages on disk, without the notes of keys."""
        return sorted(one.body for one in self.store.messages if one.body)

    def notes(self) -> int:
        """Keys on disk."""
        return sum(len(self.store.deliveries(uuid)) for uuid in KEEPERS.values())

    def check(self) -> None:
        """The numbers of the node are those of its store, once removals are on disk."""
        self.wait(1.0)
        audit(self.node, self.store)

    def a_day(self) -> None:
        """A window goes by, by the store's clock; the node looks for old keys."""
        self.store.age = DAY
        self.wait(DAY / 24)


def told(receipt: Receipt) -> tuple[bool, str, str | None]:
    """Repetition, state, and reason of that, as a receipt tells them."""
    failure = receipt.failure
    return receipt.repeats, str(receipt.state), None if failure is None else str(failure.reason)


def heard(wire: Wire) -> list[bytes]:
    """Bodies that came; they are acknowledged."""
    messages = wire.messages()
    wire.ack(*messages)
    return [one.body for one in messages]


def subscribed_play(**options: Any) -> tuple[Play, Wire]:
    play = Play(**options)
    return play, play.peer(LOW, ("c", ""))


def test_a_message_is_stored_once_for_each_key() -> None:
    play, wire = subscribed_play()
    first, second, other = play.keyed(b"1"), play.keyed(b"2"), play.keyed(b"3", "other")
    assert (told(first), told(second)) == ((False, "waiting", None), (True, "waiting", None))
    assert (second.first_seq, second.counts, second.recipients) == (first.first_seq, [1], 1)
    assert not other.repeats
    assert heard(wire) == [b"1", b"3"]
    stats = play.node.stats()
    assert (stats.message_keys, stats.message_key_bytes) == (2, len("ck" + "cother"))
    play.check()


def test_a_key_is_of_its_channel() -> None:
    play = Play()
    wire = play.peer(LOW, ("", ""))
    assert not play.keyed(b"1", channel="c").repeats
    assert not play.keyed(b"2", channel="d").repeats
    assert heard(wire) == [b"1", b"2"]


def test_the_state_of_the_first_is_told_after_its_ack_and_over_restarts() -> None:
    play, wire = subscribed_play()
    play.keyed()
    assert told(play.restart().keyed()) == (True, "waiting", None)
    assert heard(wire) == [b"m"]
    assert told(play.keyed()) == (True, "acknowledged", None)
    play.wait(1.0)
    later = play.restart()
    repeated = later.keyed(b"other")
    assert told(repeated) == (True, "acknowledged", None)
    assert repeated.recipients == 1
    assert later.bodies() == []
    later.check()


def test_the_acknowledgement_of_the_first_is_that_of_all_that_repeat_it() -> None:
    before, _ = subscribed_play()
    before.keyed()
    play = before.restart()
    second, third = play.keyed(), play.keyed()
    assert not play.node.watch(second)
    assert not play.node.watch(third)
    wire = play.peer(LOW, ("c", ""))
    wire.got()
    play.wait(11.0)
    acked = every(wire.ack(*wire.messages()), Acked)
    assert [(sorted(map(id, one.tokens)), one.error) for one in acked] == [(sorted(map(id, (second, third))), None)]
    assert play.node.watch(play.keyed())


def test_a_send_that_nobody_gets_takes_no_key() -> None:
    play = Play()
    nobody = play.keyed(b"1")
    assert (nobody.recipients, told(nobody)) == (0, (False, "given_up", "no_recipients"))
    assert notices([*play.last]) == [NoticeKind.NO_RECIPIENTS]
    wire = play.peer(LOW, ("c", ""))
    assert not play.keyed(b"2").repeats
    assert play.keyed(b"3", to=()).repeats
    assert play.keyed(b"4", "other", to=()).recipients == 0
    with pytest.raises(TooFewRecipients):
        play.keyed(b"5", "other", require_recipients=2)
    assert not play.keyed(b"6", "other", require_recipients=1).repeats
    assert play.keyed(b"7", "other", require_recipients=2).repeats
    assert heard(wire) == [b"2", b"6"]


def test_the_key_and_its_message_are_in_one_commit() -> None:
    play, _ = subscribed_play()
    play.commits.clear()
    play.keys.send("c", "", b"1", "k", play.now)
    play.keys.send("c", "", b"2", "l", play.now)
    play.run()
    (commit,) = play.commits
    stored = [[one.body for one in part.messages] for part in commit.operations if isinstance(part, StoreMessages)]
    assert stored == [[b"1", b"2"], [b"", b""]]


def test_a_failed_commit_frees_the_key_and_fails_all_that_have_it() -> None:
    play, wire = subscribed_play()
    play.hold_commits = True
    first, second = play.keyed(b"1"), play.keys.send("c", "", b"2", "k", play.now)
    play.run()
    assert (play.answers(first), play.answers(second)) == ([], [])
    play.fail(StoreError("no"))
    assert [str(one) for one in play.answers(first) + play.answers(second)] == ["no", "no"]
    assert play.node.stats().message_keys == 0
    play.hold_commits = False
    assert not play.keyed(b"3").repeats
    assert heard(wire) == [b"3"]
    play.check()


def test_a_send_with_the_key_of_a_running_commit_is_answered_with_it() -> None:
    play, _ = subscribed_play()
    play.hold_commits = True
    first, second = play.keyed(b"1"), play.keys.send("c", "", b"2", "k", play.now)
    play.finish()
    assert play.answers(first) == play.answers(second) == [None]
    assert (told(first), told(second)) == ((False, "waiting", None), (True, "waiting", None))


def test_keys_of_a_commit_that_fails_before_it_begins_are_free() -> None:
    play, _ = subscribed_play()
    play.hold_commits = True
    play.keyed(b"1")
    gathering = play.keyed(b"2", "other")
    play.hold_commits = False
    play.fail(DiskFull("full"))
    assert [str(one) for one in play.answers(gathering)] == ["full"]
    assert play.node.stats().message_keys == 0
    assert not play.keyed(b"3", "other").repeats


def test_while_the_disk_is_full_keyed_sends_wait_and_one_of_a_key_is_stored() -> None:
    play, wire = subscribed_play()
    play.store.full = True
    assert isinstance(play.answers(play.keyed(b"0"))[0], DiskFull)
    play.hold_commits = True
    play.call("subscribe", "x", "")
    first = play.keyed(b"1")
    second = play.keys.send("c", "", b"2", "k", play.now)
    play.store.full = False
    play.hold_commits = False
    play.finish()
    play.wait(2.0)
    assert (told(first), told(second)) == ((False, "waiting", None), (True, "waiting", None))
    assert heard(wire) == [b"1"]
    play.check()


# Messages that are given up.


def expired(play: Play) -> None:
    play.keyed(expire_after=5.0)
    play.wait(10.0)


def forgotten(play: Play) -> None:
    play.keyed()
    play.call("forget_peer", LOW)


@pytest.mark.parametrize("give_up", [expired, forgotten])
def test_what_was_given_up_is_told_with_its_reason_over_restarts(give_up: Callable[[Play], None]) -> None:
    play, wire = subscribed_play()
    wire.lose()
    give_up(play)
    wanted = (True, "given_up", give_up.__name__)
    assert told(play.keyed()) == wanted
    play.check()
    later = play.restart()
    repeated = later.keyed()
    assert told(repeated) == wanted
    later.last = ()
    assert later.node.watch(repeated)
    later.run()
    error = only([*later.last], Acked).error
    assert str(error) == f"the message that was sent with this message_key was given up: {give_up.__name__} (T-54)"
    later.check()


def test_giving_up_and_telling_so_are_one_commit_which_needs_no_room() -> None:
    play, wire = subscribed_play()
    wire.lose()
    play.keyed(expire_after=5.0)
    play.store.full = True
    play.commits.clear()
    play.wait(10.0)
    operations = [operation for commit in play.commits for operation in commit.operations]
    assert operations
    assert not any(isinstance(one, STORING) for one in operations)
    keepers = {peer for commit in play.commits for one in commit.operations if (peer := getattr(one, "peer", None))}
    assert {LOW, KEEPERS[None], KEEPERS[UndeliveredReason.EXPIRED]} <= keepers
    (commit,) = [one for one in play.commits if any(getattr(part, "peer", None) == LOW for part in one.operations)]
    assert {getattr(part, "peer", None) for part in commit.operations} >= {LOW, KEEPERS[UndeliveredReason.EXPIRED]}


def test_a_give_up_whose_commit_fails_is_told_all_the_same() -> None:
    play, wire = subscribed_play()
    wire.lose()
    play.keyed(expire_after=5.0)
    play.hold_commits = True
    play.wait(10.0)
    play.fail()
    play.hold_commits = False
    play.wait(3.0)
    if play.held:
        play.finish()
    assert told(play.restart().keyed()) == (True, "given_up", "expired")
    play.check()


def test_what_is_given_up_for_one_of_two_peers_is_given_up_once() -> None:
    play, wire = subscribed_play()
    play.peer(HIGH, ("c", "")).lose()
    play.keyed()
    play.call("forget_peer", HIGH)
    assert told(play.keyed()) == (True, "given_up", "forgotten")
    play.call("forget_peer", LOW)
    wire.lose()
    later = play.restart()
    assert told(later.keyed()) == (True, "given_up", "forgotten")
    assert later.keyed().recipients == 2


def test_what_was_skipped_for_a_peer_at_its_quota_is_told() -> None:
    play = Play(policy=Policy(quota_policy=QuotaPolicy.SKIP), limits=Limits(outbox_messages=1))
    play.peer(HIGH, ("", "")).lose()
    play.send("x", "", b"fills")
    play.peer(LOW, ("c", ""))
    assert told(play.keyed()) == (False, "given_up", "skipped")
    assert told(play.keyed()) == (True, "given_up", "skipped")
    later = play.restart(policy=Policy(quota_policy=QuotaPolicy.SKIP))
    assert told(later.keyed()) == (True, "given_up", "skipped")
    later.check()


def test_what_all_peers_at_their_quota_skip_takes_no_key() -> None:
    play = Play(policy=Policy(quota_policy=QuotaPolicy.SKIP), limits=Limits(outbox_messages=1))
    play.peer(LOW, ("c", "")).lose()
    play.send("c", "", b"fills")
    assert told(play.keyed()) == (False, "given_up", "skipped")
    assert (play.notes(), play.node.stats().message_keys) == (0, 0)


# Bounds.


@pytest.mark.parametrize("limits", [Limits(max_message_keys=1), Limits(max_message_key_bytes=3)])
def test_above_the_bounds_a_send_raises_and_no_key_is_forgotten(limits: Limits) -> None:
    play, wire = subscribed_play(limits=limits)
    play.keyed(b"1")
    refused = r"message_key='ll' on 'c' would make 2 keys of 5 bytes.*key_window.*max_message_key_bytes"
    with pytest.raises(OwnLimitExceeded, match=refused):
        play.keyed(b"2", "ll")
    assert play.keyed(b"3").repeats
    assert heard(wire) == [b"1"]
    play.wait(1.0)
    play.a_day()
    assert not play.keyed(b"4", "l").repeats


def test_old_keys_are_forgotten_but_not_while_their_messages_wait() -> None:
    play, wire = subscribed_play()
    play.keyed(b"1")
    play.keyed(b"2", "waits")
    first, _ = wire.messages()
    wire.ack(first)
    play.wait(1.0)
    play.store.age = DAY - 1
    play.wait(DAY / 24)
    assert play.keyed(b"3").repeats
    play.a_day()
    play.a_day()
    assert play.node.stats().message_keys == play.notes() == 1
    assert not play.keyed(b"4").repeats
    assert play.keyed(b"5", "waits").repeats
    play.check()


def test_keys_of_an_earlier_opening_are_forgotten_too() -> None:
    play, wire = subscribed_play()
    play.keyed()
    heard(wire)
    play.wait(1.0)
    later = play.restart()
    later.a_day()
    assert later.store.messages == []
    assert later.node.stats().message_keys == 0
    later.wait(DAY)
    assert later.node.next_timeout() is None or later.node.timeout_reason != "'keys'"


def test_an_old_key_that_could_not_be_removed_counts_no_more_after_a_restart() -> None:
    play, wire = subscribed_play()
    play.keyed(b"1")
    heard(wire)
    play.wait(1.0)
    play.store.age = DAY
    play.hold_commits = True
    play.wait(DAY / 24)
    play.fail()
    play.hold_commits = False
    second = play.keyed(b"2")
    assert not second.repeats
    heard(wire)
    play.wait(1.0)
    later = play.restart()
    assert later.notes() == 2
    repeated = later.keyed(b"3")
    assert (repeated.repeats, repeated.first_seq) == (True, second.first_seq)
    assert later.node.stats().message_keys == 1
    later.a_day()
    assert later.notes() == 0


def test_of_two_rows_with_a_key_the_newer_one_counts() -> None:
    play, wire = subscribed_play()
    wire.lose()
    play.keyed(expire_after=1.0)
    play.wait(5.0)
    play.store.age = DAY
    play.hold_commits = True
    play.wait(DAY / 24)
    play.fail()
    play.hold_commits = False
    assert not play.keyed(b"2").repeats
    later = play.restart()
    assert later.notes() == 2
    assert told(later.keyed()) == (True, "waiting", None)


def test_a_key_that_is_released_is_free_at_once_and_off_the_disk() -> None:
    play, wire = subscribed_play()
    for name in ("2", "1", "3"):
        play.keyed(name.encode(), name)
    play.keys.release([("c", "1"), ("c", "2"), ("d", "3"), ("c", "1")])
    play.run()
    assert not play.keyed(b"again", "1").repeats
    assert play.keyed(b"not again", "3").repeats
    assert heard(wire) == [b"2", b"1", b"3", b"again"]
    play.check()
    assert play.notes() == 2
    assert play.restart().keyed(b"not again", "3").repeats


def test_a_key_whose_commit_is_outstanding_is_not_released() -> None:
    play, wire = subscribed_play()
    play.hold_commits = True
    play.keyed(b"1", "1")
    play.keys.release([("c", "1")])
    play.hold_commits = False
    play.finish()
    assert play.keyed(b"2", "1").repeats
    assert heard(wire) == [b"1"]
    play.check()


def test_the_key_of_a_message_that_was_given_up_is_released() -> None:
    play = Play(policy=Policy(quota_policy=QuotaPolicy.DROP_OLDEST), limits=Limits(outbox_messages=1))
    play.peer(LOW, ("c", "")).lose()
    play.keyed(b"1")
    play.hold_commits = True
    play.send("c", "", b"2")
    play.keys.release([("c", "k")])  # it is on its way to another keeper, and stays
    play.hold_commits = False
    while play.held:
        play.finish()
    assert told(play.keyed()) == (True, "given_up", "dropped_oldest")
    play.keys.release([("c", "k")])
    play.run()
    play.check()
    assert (play.notes(), play.node.stats().message_keys) == (0, 0)


@pytest.mark.parametrize("limits", [Limits(max_message_keys=4), Limits(max_message_key_bytes=8)])
def test_half_of_the_keys_is_told(limits: Limits) -> None:
    play, _ = subscribed_play(limits=limits)
    found = []
    for name in "123":
        play.keyed(b"", name)
        found.append(play.keys.is_half_full)
    assert found == [False, False, True]


def test_a_key_is_not_forgotten_while_it_goes_to_another_keeper() -> None:
    play = Play(policy=Policy(quota_policy=QuotaPolicy.DROP_OLDEST), limits=Limits(outbox_messages=1))
    play.peer(LOW, ("c", "")).lose()
    play.keyed(b"1")
    play.hold_looks = play.hold_commits = True
    play.a_day()
    look = play.looks.pop()
    assert isinstance(look, Find)
    found = look.ask(play.store)
    play.send("c", "", b"2")
    play.node.found(look.search_id, found, now=play.now)
    play.run()
    play.hold_looks = play.hold_commits = False
    while play.held:
        play.finish()
    play.check()
    assert told(play.keyed()) == (True, "given_up", "dropped_oldest")
    play.a_day()
    assert play.notes() == 0


def test_a_key_that_is_released_during_a_look_for_old_ones_is_removed_once() -> None:
    play, wire = subscribed_play()
    play.keyed()
    heard(wire)
    play.wait(1.0)
    play.hold_looks = play.hold_commits = True
    play.a_day()
    look = play.looks.pop()
    assert isinstance(look, Find)
    found = look.ask(play.store)
    play.keys.release([("c", "k")])
    play.node.found(look.search_id, found, now=play.now)
    play.run()
    play.hold_looks = play.hold_commits = False
    while play.held:
        play.finish()
    play.check()
    assert (play.notes(), play.store.messages) == (0, [])


# While a peer is connecting.


def test_while_a_peer_connects_a_send_that_nobody_gets_waits_for_its_list() -> None:
    play = Play()
    dials = play.call("connect", REMOTE)
    first, second = play.keyed(b"1"), play.keys.send("c", "", b"2", "k", play.now)
    assert (play.answers(first), play.bodies()) == ([], [])
    assert not play.node.idle
    wire = play.dialled(dials)
    wire.respond(("c", ""))
    assert heard(wire) == [b"1"]
    assert (told(first), told(second)) == ((False, "acknowledged", None), (True, "acknowledged", None))
    assert (first.recipients, second.recipients) == (1, 1)
    play.check()


def test_a_send_that_waited_for_a_peer_that_never_came_took_no_key() -> None:
    play = Play()
    play.call("connect", REMOTE)
    waits = play.keyed(b"1")
    play.wait(30.0)
    assert play.answers(waits) == [None]
    assert told(waits) == (False, "given_up", "no_recipients")
    assert (play.bodies(), play.notes()) == ([], 0)


def test_a_send_that_waited_may_fail() -> None:
    play = Play(limits=Limits(max_message_keys=1))
    play.call("connect", REMOTE)
    play.keyed(b"1")
    refused = play.keys.send("c", "", b"2", "other", play.now)
    play.peer(LOW, ("c", ""))
    play.run()
    assert [type(one) for one in play.answers(refused)] == [OwnLimitExceeded]


def test_no_more_than_the_share_of_a_connecting_peer_waits() -> None:
    play = Play(limits=Limits(keep_bytes=100))
    play.call("connect", REMOTE)
    waits = play.keyed(bytes(90), "1")
    does_not = play.keyed(bytes(90), "2")
    assert (play.answers(does_not), told(does_not)) == ([None], (False, "given_up", "no_recipients"))
    assert not waits.counts


def test_a_required_recipient_is_not_waited_for() -> None:
    play = Play()
    play.call("connect", REMOTE)
    with pytest.raises(TooFewRecipients):
        play.keyed(require_recipients=1)
    assert play.keyed(to=()).recipients == 0


def test_a_keyed_message_is_kept_for_a_connecting_peer_beside_its_recipients() -> None:
    play, wire = subscribed_play()
    dials = play.call("connect", REMOTE)
    play.keyed(b"1")
    other = play.dialled(dials, HIGH)
    other.respond(("c", ""))
    assert heard(other) == heard(wire) == [b"1"]
    play.wait(30.0)
    assert told(play.restart().keyed()) == (True, "acknowledged", None)


def test_a_node_that_closes_ends_the_sends_that_wait() -> None:
    play = Play()
    play.call("connect", REMOTE)
    waits = play.keyed(b"1")
    play.call("close")
    assert [type(one) for one in play.answers(waits)] == [ConnectionClosing]
    with pytest.raises(ConnectionClosing):
        play.keyed()
    with pytest.raises(ConnectionClosing):
        play.job()
    play.wait(10.0)
    assert play.node.idle
    other = Play()
    other.keys  # noqa: B018  # in use, with nothing that waits
    other.call("close")
    assert other.node.idle


# The opening.


def test_calls_before_the_keys_are_known_wait_in_order() -> None:
    before, _ = subscribed_play()
    before.keyed(b"1")
    play = before.restart()
    play.hold_looks = True
    second, other = play.keyed(b"2"), play.keys.send("c", "", b"3", "other", play.now)
    flush = play.node.flush(play.now)
    play.run()
    assert not play.answers(second)
    assert not play.answers(flush)
    play.seen()
    assert (told(second), told(other)) == ((True, "waiting", None), (False, "waiting", None))
    assert play.answers(flush) == [None]
    assert play.bodies() == [b"1", b"3"]


def test_keys_that_cannot_be_read_fail_the_calls_and_are_read_again() -> None:
    before, _ = subscribed_play()
    before.keyed()
    before.keyed(b"late", "late", expire_after=1.0)
    before.wait(5.0)
    play = before.restart()
    play.hold_looks = True
    play.look_error = StoreError("unreadable")
    waits = play.keyed()
    play.seen()
    assert [str(one) for one in play.answers(waits)] == ["unreadable"]
    play.look_error = None
    play.hold_looks = False
    play.wait(2.0)
    assert told(play.keyed()) == (True, "waiting", None)
    assert told(play.keyed(message_key="late")) == (True, "given_up", "expired")


def test_what_is_given_up_before_the_keys_are_known_is_told() -> None:
    before, wire = subscribed_play()
    wire.lose()
    before.keyed(b"1")
    play = Play(
        store=before.store.snapshot(),
        policy=Policy(quota_policy=QuotaPolicy.DROP_OLDEST),
        limits=Limits(outbox_messages=1),
    )
    play.hold_looks = True
    assert play.node.next_action() is None  # an opening performs commits alone
    play.wait(0.0)
    play.send("c", "", b"2")
    assert play.bodies() == [b"2"]
    play.hold_looks = False
    play.seen()
    assert told(play.keyed()) == (True, "given_up", "dropped_oldest")
    play.wait(1.0)
    play.check()
    later = play.restart()
    assert told(later.keyed()) == (True, "given_up", "dropped_oldest")


def test_a_damaged_key_is_told_and_free() -> None:
    before, _ = subscribed_play()
    before.keyed()

    class Damaged(Play):
        def _look(self) -> None:
            look = self.looks.pop(0)
            found = look.ask(self.store)  # type: ignore[union-attr]
            for one in found:
                object.__setattr__(one, "channel", "")
                object.__setattr__(one, "key", "")
            self.node.found(look.search_id, found, None, now=self.now)  # type: ignore[union-attr]

    play = Damaged(store=before.store.snapshot())
    play.wait(0.0)
    assert notices([*play.last]) == [NoticeKind.STORE_ERROR]
    assert not play.keyed(b"2").repeats
    play.a_day()
    assert play.notes() == 0


def test_the_keepers_of_keys_cannot_be_forgotten() -> None:
    play, _ = subscribed_play()
    play.keyed()
    with pytest.raises(LocalProtocolError, match="keeps message keys"):
        play.node.forget_peer(KEEPERS[None], play.now)
    play.call("forget_peer", LOW)


def test_the_numbers_of_keepers_are_for_ever() -> None:
    assert [(reason, uuid.int & 0xFF) for reason, uuid in KEEPERS.items()] == [
        (None, 1),
        ("expired", 2),
        ("forgotten", 3),
        ("dropped", 4),
        ("dropped_oldest", 5),
        ("skipped", 6),
        ("unsubscribed", 7),
        ("cancelled", 8),
    ]
    assert {*UndeliveredReason} - KEEPERS.keys() == {UndeliveredReason.NO_RECIPIENTS}


# Jobs.


def test_a_job_is_stored_once_and_its_state_told() -> None:
    play = Play()
    play.call("work_queue", "jobs")
    first, second = play.job(), play.job(b"again")
    assert (told(first), told(second)) == ((False, "waiting", None), (True, "waiting", None))
    assert play.bodies() == [b"job"]
    later = play.restart()
    later.call("work_queue", "jobs")
    assert told(later.job()) == (True, "waiting", None)
    wire = later.accepted(LOW)
    wire.request(("jobs", ""), ("jobs", "tolliver.concurrency=1"))
    assert heard(wire) == [b"job"]
    assert told(later.job()) == (True, "acknowledged", None)
    later.job(b"cancelled", "other")
    later.call("cancel_jobs", "jobs", [later.job(b"", "other").first_seq])
    assert told(later.job(b"", "other")) == (True, "given_up", "cancelled")
    later.wait(1.0)
    later.check()


def test_a_job_above_the_quota_takes_no_key() -> None:
    play = Play(limits=Limits(outbox_messages=1))
    play.call("work_queue", "jobs")
    play.job(b"1", "1")
    with pytest.raises(OutboxFull):
        play.job(b"2", "2")
    assert play.node.stats().message_keys == 1
    assert play.job(b"3", "1").repeats


# Requests.


def ask(play: Play, **terms: Any) -> Asked:
    play.last = ()
    asked = play.requests.request("sums", "", b"1 + 1", 30.0, play.now, durable=True, message_key="k", **terms)
    play.run()
    return asked


def answer(wire: Wire, request: Message) -> None:
    """The responder stores its reply, and acknowledges the request."""
    request_id = id_in(request.body)
    assert request_id is not None
    wire.send(Message(reply_channel(ME), "", reply_body(request_id, Status.ANSWER, b"2"), 9))
    wire.ack(request)


def test_a_request_is_stored_once_and_its_reply_finds_the_one_after_a_restart() -> None:
    before = Play()
    before.peer(LOW, ("tolliver.request/sums", ""))
    ask(before)
    assert len(before.bodies()) == 1
    play = before.restart()
    asked = ask(play)
    assert len(play.bodies()) == 1
    wire = play.accepted(LOW)
    wire.request(("tolliver.request/sums", ""))
    (request,) = wire.messages()
    answer(wire, request)
    (answered,) = every([*play.last], Answered)
    assert (answered.asked, [one.body for one in answered.replies], answered.error) == (asked, [b"2"], None)
    late = ask(play)
    assert wire.messages() == []
    play.wait(31.0)
    assert [(one.asked, type(one.error)) for one in every([*play.last], Answered)] == [(late, TimeoutError)]


def test_a_request_that_was_given_up_says_so_to_who_asks_again() -> None:
    play = Play()
    play.peer(LOW, ("tolliver.request/sums", "")).lose()
    ask(play)
    play.call("forget_peer", LOW)
    play.wait(31.0)
    play.peer(LOW, ("tolliver.request/sums", ""))
    with pytest.raises(Undelivered, match="forgotten"):
        ask(play)
    assert play.node.stats().requests_outstanding == 0


def test_a_message_key_is_for_durable_requests_without_an_id() -> None:
    play = Play()
    play.peer(LOW, ("tolliver.request/sums", ""))
    wrong: tuple[dict[str, Any], ...] = ({}, {"durable": True, "request_id": 3})
    for terms in wrong:
        with pytest.raises(ValueError, match="durable=True"):
            play.requests.request("sums", "", b"", 5.0, play.now, message_key="k", **terms)
    with pytest.raises(TypeError, match="message_key"):
        play.requests.request("sums", "", b"", 5.0, play.now, durable=True, message_key=3)  # type: ignore[arg-type]


def test_a_rider_that_decides_nothing_lets_its_send_be_stored() -> None:
    assert Rider(0, -1, []).check(False)


def test_wrong_arguments_are_refused_before_anything_changes() -> None:
    play, _ = subscribed_play()
    for wrong, error in ((b"k", TypeError), (1, TypeError), ("", ValueError), ("k" * 5000, OwnLimitExceeded)):
        with pytest.raises(error, match=r"message_key|name"):
            play.keyed(message_key=wrong)  # type: ignore[arg-type]
    with pytest.raises(LocalProtocolError):
        play.keyed(message_key="\ud800")
    with pytest.raises(TypeError):
        play.keyed(to="nobody")
    with pytest.raises(LocalProtocolError):
        play.keyed("text")  # type: ignore[arg-type]
    with pytest.raises(LocalProtocolError):
        play.job()  # no queue
    assert (play.bodies(), play.notes()) == ([], 0)


# Many in one step.

ITEMS = (("c", "", b"1"), ("c", "", b"2"))


def many(play: Play, *message_keys: str, items: tuple[tuple[str, str, bytes], ...] = ITEMS) -> Receipt | None:
    play.last = ()
    receipt = play.keys.send_many(items, message_keys, play.now)
    play.run()
    return receipt


def test_many_messages_are_one_send_and_each_has_its_key() -> None:
    play, wire = subscribed_play()
    play.commits.clear()
    receipt = many(play, "a", "b")
    assert receipt is not None
    assert (receipt.counts, play.answers(receipt), len(play.commits)) == ([1, 1], [None], 1)
    assert [play.keyed(b"again", key).first_seq - receipt.first_seq for key in "ab"] == [0, 1]
    assert heard(wire) == [b"1", b"2"]
    play.wait(1.0)
    later = play.restart()
    assert [told(later.keyed(b"again", key)) for key in "ab"] == 2 * [(True, "acknowledged", None)]
    play.check()


def test_many_are_kept_for_a_peer_that_connects_too() -> None:
    play, wire = subscribed_play()
    dials = play.call("connect", REMOTE)
    assert many(play, "a", "b")
    other = play.dialled(dials, HIGH)
    other.respond(("c", ""))
    assert heard(other) == heard(wire) == [b"1", b"2"]


def test_many_of_a_failed_commit_free_their_keys() -> None:
    play, wire = subscribed_play()
    play.hold_commits = True
    receipt = many(play, "a", "b")
    assert receipt is not None
    play.fail()
    assert [type(one) for one in play.answers(receipt)] == [StoreError]
    play.hold_commits = False
    assert many(play, "a", "b")
    assert heard(wire) == [b"1", b"2"]
    play.check()


def taken(play: Play) -> None:
    play.keyed(b"0", "b")


def full_disk(play: Play) -> None:
    play.store.full = True
    play.keyed(b"0", "other")
    play.hold_commits = True
    play.call("subscribe", "x", "")
    play.keyed(b"0", "other")


def tight(play: Play) -> None:
    for _ in range(3):
        play.send("c", "", b"0")


def without_acks(play: Play) -> None:
    wire = play.accepted(HIGH, revision=Revision.RUST_2026)
    wire.request()
    wire.got()
    wire.send(HandshakeFinal(True))


def closing(play: Play) -> None:
    play.call("close")


def nothing(_play: Play) -> None:
    """All is well, but for the items."""


NOBODYS = (ITEMS[0], ("nobody's", "", b"2"))


@pytest.mark.parametrize(
    ("before", "keys", "items"),
    [
        (taken, "ab", ITEMS),
        (full_disk, "ab", ITEMS),
        (tight, "ab", ITEMS),
        (without_acks, "ab", ITEMS),
        (closing, "ab", ITEMS),
        (nothing, "aa", ITEMS),
        (nothing, "ab", NOBODYS),
    ],
)
def test_what_is_no_plain_case_is_left_alone(before: Callable[[Play], None], keys: str, items: Any) -> None:
    dialects = {HIGH: Dialect(revision=Revision.RUST_2026)}
    play, _ = subscribed_play(limits=Limits(outbox_messages=5), dialects=dialects)
    before(play)
    had = play.node.stats(), play.bodies()
    assert many(play, *keys, items=items) is None
    assert many(play, items=()) is None
    assert not play.last
    assert had == (play.node.stats(), play.bodies())


@pytest.mark.parametrize("limits", [Limits(max_message_keys=1), Limits(max_message_key_bytes=3)])
def test_many_that_have_no_room_are_left_alone(limits: Limits) -> None:
    play, _ = subscribed_play(limits=limits)
    assert many(play, "a", "b") is None
    assert play.bodies() == []


def test_many_wait_for_no_keys_of_an_earlier_opening() -> None:
    before, _ = subscribed_play()
    before.keyed()
    play = before.restart()
    play.hold_looks = True
    assert many(play, "a", "b") is None
    early = play.keyed(b"0", "a")
    assert many(play, "a", "b") is None
    play.seen()
    assert told(early) == (False, "waiting", None)
    assert play.bodies() == [b"0", b"m"]


def test_wrong_ones_among_many_are_refused_before_anything_changes() -> None:
    play, _ = subscribed_play()
    with pytest.raises(OwnLimitExceeded):
        many(play, "a", "b", items=(ITEMS[0], ("c", "", bytes(17 * 2**20))))
    with pytest.raises(ValueError, match="message_key"):
        many(play, "a", "")
    assert (play.bodies(), play.notes()) == ([], 0)


# All of it.

STEPS = st.lists(
    st.sampled_from(["send", "send", "send", "other", "ack", "fail", "commit", "crash", "day"]), max_size=30
)


@given(STEPS)
def test_however_it_ends_each_key_has_one_message(steps: list[str]) -> None:
    """Sends with two keys, commits that are slow or fail, acks, crashes: a peer is sent no key twice within a window,
    and what was confirmed is not lost."""
    play, wire = subscribed_play()
    play.hold_commits = True
    confirmed: set[str] = set()
    seen: dict[str, bytes] = {}
    asked: list[tuple[str, Receipt]] = []
    number = 0

    def look() -> None:
        confirmed.update(key for key, receipt in asked if None in play.answers(receipt))
        for one in messages():
            assert seen.setdefault(one.body[:1].decode(), one.body) == one.body, "one key has two messages"

    def messages() -> list[Any]:
        found = wire.messages()
        unacked.extend(found)
        return found

    unacked: list[Any] = []
    play.last = ()
    for step in steps:
        if step in ("send", "other"):
            number += 1
            key = "a" if step == "send" else "b"
            asked.append((key, play.keys.send("c", "", f"{key}{number}".encode(), key, play.now)))
            play.run()
        elif step == "commit" and play.held:
            play.finish()
        elif step == "fail" and play.held:
            play.fail()
        elif step == "ack" and unacked:
            wire.ack(unacked.pop(0))
        elif step == "crash":
            look()
            play = play.restart()
            wire = play.peer(LOW, ("c", ""))
            play.hold_commits = True
            unacked, asked, play.last = [], [], ()
        look()
    play.hold_commits = False
    while play.held:
        play.finish()
    play.wait(30.0)
    look()
    assert confirmed <= seen.keys()
    play.check()
