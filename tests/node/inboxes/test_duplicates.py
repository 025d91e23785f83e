"""Duplicates, failures and floods at the receiving node (T-47, T-48, D-12)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tolliver_proto import (
    Delivery,
    Limits,
    Message,
    Notice,
    NoticeKind,
    PauseReading,
    Policy,
    ResumeReading,
    Subscribe,
    Unsubscribe,
)
from tolliver_proto._node.inboxes.dedupe import DedupeCache
from tolliver_proto._testing.inspection import inside
from tolliver_proto.layouts import Known, MessageSet, checksum_of
from tolliver_proto.store import AddDeadLetter, ForgetPeer, RememberHandled

from ..play import HIGH, LOW, OTHER, Play, Wire, deliveries, every, notices, subscribed

FEW = Limits(max_attempts=3)


def subscriber(**options: Any) -> Play:
    play = Play(handlers=[("", "", "all")], **options)
    play.call("subscribe", "c", "")
    return play


def again(play: Play) -> Play:
    """The same instance after a crash."""
    return play.restart(handlers=[("", "", "all")], policy=inside(play.node).context.policy)


def message(n: int) -> Message:
    return Message("c", "k", b"%d" % n, n)


def bodies(actions: list[Any]) -> list[bytes]:
    return [delivery.body for delivery in deliveries(actions)]


# T-47: handlers that always fail.


def give_up(play: Play, wire: Wire, one: Message) -> list[Any]:
    """Every delivery of it fails until it is not delivered any more."""
    actions: list[Any] = []
    for attempt in range(1, play.node.limits.max_attempts + 1):
        [delivery] = deliveries(wire.send(one))
        assert delivery.attempt == attempt
        assert wire.acks() == []
        actions = play.call("fail", [delivery])
    return actions


def test_twenty_failures_make_a_dead_letter() -> None:
    play = subscriber()
    wire = play.peer()
    play.hold_commits = True
    actions = give_up(play, wire, message(7))
    assert play.node.limits.max_attempts == 20
    assert notices(actions) == [NoticeKind.DEAD_LETTER]
    assert wire.acks() == [], "not before it is stored"
    play.finish()
    assert wire.acks() == [7]
    [letter] = play.store.dead_letters(0, 10)
    assert (letter.peer, letter.channel, letter.key, letter.body) == (LOW, "c", "k", b"7")
    assert (letter.message_id, letter.attempts, letter.number) == (7, 20, 1)


def test_a_copy_of_a_dead_letter_is_acknowledged_and_not_delivered() -> None:
    play = subscriber(limits=FEW)
    wire = play.peer()
    give_up(play, wire, message(7))
    assert wire.acks() == [7]
    assert deliveries(wire.send(message(7))) == []
    assert wire.acks() == [7]
    wire.lose()
    wire = play.peer()
    assert bodies(wire.send(message(7), message(8))) == [b"8"], "over another connection too"
    assert wire.acks() == [7]
    other = play.peer(OTHER)
    assert bodies(other.send(message(7))) == [b"7"], "another peer's 7 is another message"


def test_a_letter_that_is_not_stored_is_still_a_message() -> None:
    play = subscriber(limits=FEW)
    wire = play.peer()
    play.hold_commits = True
    give_up(play, wire, message(7))
    play.fail()
    assert play.store.dead_letters(0, 10) == []
    assert wire.acks() == []
    [delivery] = deliveries(wire.send(message(7)))
    assert delivery.attempt == 3, "the last one again"
    play.hold_commits = False
    play.call("acknowledge", [delivery])
    assert wire.acks() == [7]
    assert play.store.dead_letters(0, 10) == []


def test_a_success_ends_the_count() -> None:
    play = subscriber(limits=FEW)
    wire = play.peer()
    for _ in range(4):
        for _ in range(2):
            play.call("fail", deliveries(wire.send(message(7))))
        play.call("acknowledge", deliveries(wire.send(message(7))))
    assert wire.acks() == [7] * 4
    assert play.store.dead_letters(0, 10) == []


def lettered(play: Play, *numbers: int) -> Wire:
    wire = play.peer()
    for number in numbers:
        give_up(play, wire, message(number))
        assert wire.acks() == [number]
    return wire


def test_replay_gives_letters_to_the_handlers_and_removes_what_they_handle() -> None:
    play = subscriber(limits=FEW)
    wire = lettered(play, 1, 2)
    letters = play.store.dead_letters(0, 10)
    assert play.node.replay(letters) == 2
    assert play.node.replay(letters) == 0, "they are with the handlers"
    first, second = deliveries(play.run())
    assert (first.body, first.attempt, first.peer_id) == (b"1", 4, LOW)
    play.call("acknowledge", [first])
    play.call("fail", [second])
    assert [letter.body for letter in play.store.dead_letters(0, 10)] == [b"2"]
    assert wire.got() == [], "acknowledged long ago"
    assert play.node.replay(play.store.dead_letters(0, 10)) == 1
    play.call("acknowledge", deliveries(play.run()))
    assert play.store.dead_letters(0, 10) == []


def test_replay_after_a_restart_and_without_a_handler() -> None:
    play = subscriber(limits=FEW)
    lettered(play, 1)
    later = play.restart()
    letters = later.store.dead_letters(0, 10)
    assert later.node.replay(letters) == 0
    later.node.register("c", "", "late")
    assert later.node.replay(letters) == 1
    later.call("acknowledge", deliveries(later.run()))
    assert later.store.dead_letters(0, 10) == []


def test_letters_come_in_order_and_in_pieces() -> None:
    play = subscriber(limits=FEW)
    lettered(play, 1, 2, 3)
    assert [letter.body for letter in play.store.dead_letters(1, 1)] == [b"2"]
    assert [letter.number for letter in play.store.dead_letters(1, 9)] == [2, 3]


def test_letters_of_a_forgotten_peer_stay() -> None:
    play = subscriber(limits=FEW)
    lettered(play, 1)
    play.call("forget_peer", LOW)
    assert [letter.peer for letter in play.store.dead_letters(0, 9)] == [LOW]


# T-48: copies.


def test_every_copy_of_what_was_handled_is_delivered_by_default_and_acknowledged_once() -> None:
    play = subscriber()
    wire = play.peer()
    for _ in range(2):
        actions = wire.send(message(1))
        assert bodies(actions) == [b"1"]
        play.call("acknowledge", deliveries(actions))
        assert wire.acks() == [1]


def test_a_duplicate_is_acknowledged_only_once_its_original_was() -> None:
    play = subscriber(policy=Policy(dedupe=10))
    wire = play.peer()
    [original] = deliveries(wire.send(message(1)))
    assert deliveries(wire.send(message(1), message(1))) == []
    assert wire.acks() == []
    play.call("acknowledge", [original])
    assert wire.acks() == [1, 1, 1]
    assert deliveries(wire.send(message(1))) == []
    assert wire.acks() == [1]


def test_a_copy_of_what_failed_is_delivered() -> None:
    play = subscriber(policy=Policy(dedupe=10))
    wire = play.peer()
    [first] = deliveries(wire.send(message(1)))
    play.call("fail", [first])
    [second] = deliveries(wire.send(message(1)))
    play.call("fail", [first])  # again: it says nothing about the second
    assert deliveries(wire.send(message(1))) == []
    play.call("acknowledge", [first])
    assert wire.acks() == []
    play.call("acknowledge", [second])
    assert wire.acks() == [1, 1]


def test_handled_after_its_connection_died_is_handled() -> None:
    play = subscriber(policy=Policy(dedupe=10))
    wire = play.peer()
    [original] = deliveries(wire.send(message(1)))
    wire.lose()
    wire = play.peer()
    assert deliveries(wire.send(message(1))) == [], "it is still being handled"
    play.call("acknowledge", [original])
    assert wire.acks() == [1], "an ack belongs to its connection (T-49): this one is the copy's"
    assert deliveries(wire.send(message(1))) == []
    assert wire.acks() == [1]


def test_failed_after_its_connection_died_comes_again() -> None:
    play = subscriber(policy=Policy(dedupe=10))
    wire = play.peer()
    [original] = deliveries(wire.send(message(1)))
    wire.lose()
    wire = play.peer()
    play.call("fail", [original])
    assert bodies(wire.send(message(1))) == [b"1"]


def test_unreliable_messages_have_no_copies() -> None:
    play = subscriber(policy=Policy(dedupe=10))
    wire = play.peer()
    unreliable = Message("c", "k", b"u", None)
    actions = wire.send(unreliable, unreliable)
    assert bodies(actions) == [b"u", b"u"]
    play.call("acknowledge", deliveries(actions))
    assert wire.got() == []


ids = st.integers(1, 6)


@settings(deadline=None)
@given(
    st.integers(1, 4),
    st.booleans(),
    st.lists(st.tuples(st.sampled_from((LOW, OTHER)), ids), max_size=40),
)
def test_the_last_n_are_an_exact_set(size: int, durable: bool, copies: list[tuple[Any, int]]) -> None:
    """Ids in any order: only the last N handled are known, lower ones are as new as higher ones."""
    play = subscriber(policy=Policy(dedupe=size, dedupe_durable=durable))
    wires = {LOW: play.peer(LOW), OTHER: play.peer(OTHER)}
    handled: list[Any] = []
    for peer, number in copies:
        actions = wires[peer].send(message(number))
        one = (peer, number, checksum_of(message(number)))
        is_copy = one in handled[-size:]
        assert bool(deliveries(actions)) is not is_copy
        if not is_copy:
            play.call("acknowledge", deliveries(actions))
            handled.append(one)
        assert wires[peer].acks() == [number], "each copy is acknowledged"
    if durable:
        assert list(play.store.load().handled) == handled[-size:]


def durable() -> Play:
    return subscriber(policy=Policy(dedupe=10, dedupe_durable=True))


def test_durable_is_acknowledged_when_it_is_on_disk() -> None:
    play = durable()
    wire = play.peer()
    [original] = deliveries(wire.send(message(1)))
    play.hold_commits = True
    play.call("acknowledge", [original])
    assert deliveries(wire.send(message(1))) == []
    assert wire.acks() == [], "neither it nor its copy"
    assert deliveries(again(play).peer().send(message(1))), "a crash now, and it comes again"
    play.finish()
    assert wire.acks() == [1]
    later = again(play)
    wire = later.peer()
    assert deliveries(wire.send(message(1))) == []
    assert wire.acks() == [1]
    assert bodies(wire.send(message(0x100), message(2))) == [b"256", b"2"], "lower ids too"


def test_durable_survives_a_commit_that_fails() -> None:
    play = durable()
    wire = play.peer()
    [original] = deliveries(wire.send(message(1)))
    play.hold_commits = True
    play.call("acknowledge", [original])
    play.call("acknowledge", [original])
    play.fail()
    assert play.held == [], "tried again, but not in a circle"
    assert deliveries(wire.send(message(1))) == []
    assert wire.acks() == []
    play.hold_commits = False
    play.wait(1.1)
    assert list(play.store.load().handled) == [(LOW, 1, checksum_of(message(1)))]
    assert deliveries(wire.send(message(1))) == []
    assert wire.acks() == [1]


def test_durable_without_a_connection_is_stored_soon() -> None:
    play = durable()
    wire = play.peer()
    [original] = deliveries(wire.send(message(1)))
    wire.lose()
    play.call("acknowledge", [original])
    play.wait(1.0)
    assert list(play.store.load().handled) == [(LOW, 1, checksum_of(message(1)))]
    [operation] = [op for commit in play.commits for op in commit.operations if isinstance(op, RememberHandled)]
    assert operation.keep == 10


def test_a_forgotten_peer_s_ids_are_new_again() -> None:
    play = durable()
    wire = play.peer()
    play.call("acknowledge", deliveries(wire.send(message(1))))
    [under_way] = deliveries(wire.send(message(2)))
    play.call("forget_peer", LOW)
    play.call("acknowledge", [under_way])
    play.wait(1.0)
    assert list(play.store.load().handled) == []
    wire = play.peer()
    assert bodies(wire.send(message(1), message(2))) == [b"1", b"2"]


def test_what_is_handled_while_its_peer_is_being_forgotten_is_not_remembered() -> None:
    """T-77: the message of that id that comes then may be another one with the same content."""
    play = durable()
    [under_way] = deliveries(play.peer().send(message(2)))
    play.hold_commits = True
    play.call("forget_peer", LOW)
    while not any(isinstance(one, ForgetPeer) for one in play.held[0].operations):
        play.finish()
    play.call("acknowledge", [under_way])
    play.hold_commits = False
    play.finish()
    play.wait(1.0)
    assert list(play.store.load().handled) == []
    assert bodies(play.peer().send(message(2))) == [b"2"]


@given(st.integers(1, 5), st.lists(st.tuples(st.booleans(), ids, st.integers(0, 1)), max_size=60))
def test_handled_is_a_bounded_set(size: int, steps: list[tuple[bool, int, int]]) -> None:
    handled, model = DedupeCache(size), list[tuple[int, int]]()
    for well, *key in steps:
        number, checksum = key
        delivery, copy = (Delivery(1, LOW, message(number)) for _ in range(2))
        known = Known.YES if (number, checksum) in model else Known.BY_ID if number in dict(model) else Known.NOT
        assert handled.find(LOW, number, checksum) is known
        if known is Known.YES:
            continue
        assert not handled.is_storing(LOW, number, checksum)
        handled.begin(delivery, number, checksum)
        handled.begin(copy, number, checksum)
        if not well:
            handled.failed(delivery)
            assert handled.succeeded(delivery) is None
            continue
        assert handled.succeeded(delivery) == (LOW, number, checksum)
        assert handled.succeeded(delivery) is None
        assert handled.is_storing(LOW, number, checksum), "it is not on disk yet"
        assert handled.succeeded(copy) is None, "it is known already"
        assert handled.add(LOW, number, checksum) is known
        model = [*model, (number, checksum)][-size:]
    there = [(number, bit) for number in range(10) for bit in (0, 1) if handled.find(LOW, number, bit) is Known.YES]
    assert there == sorted(model)
    handled.forget(LOW)
    assert not any(handled.find(LOW, *one) for one in there)


# T-48, T-47: other messages under ids that are known.


def other(n: int, text: bytes = b"other") -> Message:
    return Message("c", "k", text, n)


@pytest.mark.parametrize("durable", [False, True])
def test_another_message_under_a_known_id_is_a_message(durable: bool) -> None:
    play = subscriber(policy=Policy(dedupe=10, dedupe_durable=durable))
    wire = play.peer()
    for one in (message(1), other(1), Message("c", "kother", b"", 1)):
        actions = wire.send(one)
        assert bodies(actions) == [one.body]
        play.call("acknowledge", deliveries(actions))
        assert deliveries(wire.send(message(1), one)) == []
        assert wire.acks() == [1, 1, 1]
    assert play.node.stats()["ids_reused"] == 2
    assert play.node.stats()["duplicates"] == 6
    if durable:
        wire = again(play).peer()
        assert deliveries(wire.send(message(1), other(1))) == []
        assert wire.acks() == [1, 1]


def test_another_message_is_handed_out_while_the_first_is_handled() -> None:
    play = subscriber(policy=Policy(dedupe=10))
    wire = play.peer()
    actions = wire.send(message(1), other(1), message(1), other(1))
    assert bodies(actions) == [b"1", b"other"]
    first, second = deliveries(actions)
    play.call("acknowledge", [second])
    assert wire.acks() == [1, 1]
    assert deliveries(wire.send(other(1), message(1))) == []
    assert wire.acks() == [1], "of the second: the first is still being handled"
    play.call("fail", [first])
    assert bodies(wire.send(message(1), other(1))) == [b"1"]


def reused(play: Play, wire: Wire, numbers: range) -> list[str]:
    """Other messages under these ids are handled; returns what was told."""
    actions = wire.send(*(message(number) for number in numbers), *(other(number) for number in numbers))
    actions += play.call("acknowledge", deliveries(actions))
    return told(actions)


def told(actions: list[Any]) -> list[str]:
    return [action.detail for action in every(actions, Notice) if action.kind is NoticeKind.ID_REUSED]


def test_ids_that_are_reused_are_told_at_once_and_then_with_a_count() -> None:
    play = subscriber(policy=Policy(dedupe=1000))
    wire, second = play.peer(LOW), play.peer(OTHER)
    [one] = reused(play, wire, range(1, 101))
    assert one.startswith("1 messages came under ids that it had given to others, the last one under 1. ")
    assert len(reused(play, second, range(1, 3))) == 1, "of each peer"
    assert reused(play, wire, range(201, 203)) == []
    assert told(play.wait(59.0)) == []
    many, few = told(play.wait(2.0))
    assert many.startswith("101 messages came under ids that it had given to others, the last one under 202.")
    assert few.startswith("1 messages came under ids")
    assert told(play.wait(100.0)) == []
    assert play.node.next_timeout() is None
    assert len(reused(play, wire, range(301, 303))) == 1, "at once again"
    assert play.node.stats()["ids_reused"] == 106
    assert play.node.stats().notices[NoticeKind.ID_REUSED] == 5


def test_a_dead_letter_is_a_message_and_no_id() -> None:
    play = subscriber(limits=FEW)
    wire = play.peer()
    play.call("fail", deliveries(wire.send(message(7))))
    play.call("fail", deliveries(wire.send(message(7))))
    [one] = deliveries(wire.send(other(7)))
    assert one.attempt == 1
    play.call("fail", [one])
    [last, second] = deliveries(wire.send(message(7), other(7)))
    assert (last.attempt, second.attempt) == (3, 2)
    play.call("fail", [last])
    play.call("acknowledge", [second])
    assert wire.acks() == [7, 7]
    assert deliveries(wire.send(message(7))) == []
    assert bodies(wire.send(other(7))) == [b"other"], "by default every copy is delivered"
    assert [letter.body for letter in play.store.dead_letters(0, 9)] == [b"7"]


def test_what_an_old_layout_remembers_matches_by_id_alone() -> None:
    play = durable()
    play.store.commit([RememberHandled([(LOW, 1, None)], 10)])
    wire = (play := again(play)).peer()
    assert deliveries(wire.send(message(1), other(1))) == []
    assert wire.acks() == [1, 1]
    assert play.node.stats()["ids_reused"] == 0


def test_a_peer_that_is_forgotten_takes_nothing_of_others_with_it() -> None:
    """The deliveries that their handlers have stay, and those that are being stored."""
    peers, known = (LOW, OTHER, HIGH), DedupeCache(9)
    in_hand = {peer: Delivery(1, peer, message(2)) for peer in peers}
    for peer in peers:
        known.begin(stored := Delivery(1, peer, message(1)), 1, 0)
        known.succeeded(stored)
        known.begin(in_hand[peer], 2, 0)
    known.forget(OTHER)
    assert [peer for peer in peers if known.is_storing(peer, 1, 0)] == [LOW, HIGH]
    assert [peer for peer in peers if known.succeeded(in_hand[peer])] == [LOW, HIGH]


@pytest.mark.parametrize(("room", "first"), [(4, 3), (4, 1), (100, 1)])
def test_a_set_that_was_loaded_is_taken_over_or_cut(room: int, first: int) -> None:
    loaded = MessageSet(room, [(LOW, number, 0) for number in range(first, 6)])
    known = DedupeCache(3, loaded)
    assert (known._known is loaded) is (first == 3)
    assert list(known._known) == [(LOW, number, 0) for number in (3, 4, 5)]
    assert known.add(LOW, 6, 0) is Known.NOT
    assert [known.find(LOW, number, 0) for number in (3, 4)] == [Known.NOT, Known.YES]


# D-12: floods of control messages.


def flood(count: int, first: int = 1) -> list[Subscribe | Unsubscribe]:
    kinds = (Subscribe, Unsubscribe)
    return [kinds[number % 2]("flood", str(number // 2), first + number) for number in range(count)]


def test_more_control_messages_than_allowed_wait_and_none_is_lost() -> None:
    play = subscriber()
    wire, other = play.peer(LOW), play.peer(OTHER)
    wire.send(*flood(350), message(1000))
    acked = wire.acks()
    assert 100 <= len(acked) <= 101
    assert play.node.stats()["hurried"] == 1
    assert bodies(other.send(message(5))) == [b"5"], "others go on"
    for _ in range(4):
        actions = play.wait(1.0)
        acked += wire.acks()
    assert acked == list(range(1, 351))
    assert play.knows(LOW) == set()
    assert bodies(actions) == [b"1000"] or play.node.stats()["hurried"] == 3


def test_what_is_allowed_never_waits() -> None:
    play = subscriber()
    wire = play.peer()
    for second in range(5):
        wire.send(*flood(100, 1 + 100 * second))
        assert len(wire.acks()) == 100
        play.wait(1.0)
    assert play.node.stats()["hurried"] == 0


def test_a_hurried_connection_is_not_read_without_end() -> None:
    play = Play(handlers=[("", "", "all")], limits=Limits(low_water=1000, high_water=2000))
    play.call("subscribe", "c", "")
    wire = play.peer()
    wire.send(*flood(101))
    assert every(wire.send(Message("c", "k", b"." * 3000, 1)), PauseReading)
    actions = play.wait(1.0)
    assert every(actions, ResumeReading)
    assert len(deliveries(actions)) == 1


def test_a_hurried_connection_may_be_lost() -> None:
    play = subscriber()
    wire = play.peer()
    wire.send(*flood(250))
    wire.lose()
    play.wait(5.0)
    assert play.node.stats()["connections"] == 0
    wire = play.peer(LOW, ("x", ""))
    assert play.knows(LOW) == set(subscribed(("x", "")))


def test_nothing_overtakes_what_an_ended_connection_brought_above_the_credit() -> None:
    """The third message is left to its sender, and so is the fourth, though there is credit when that is read."""
    play = subscriber(limits=Limits(inbox_messages=2, control_per_second=1))
    wire = play.peer()
    both = deliveries(wire.send(message(1), message(2)))
    wire.send(message(3), *flood(5), message(4))
    assert deliveries(wire.lose()) == []
    assert deliveries(play.call("acknowledge", both) + play.wait(10.0)) == []
    assert bodies(play.peer().send(message(3), message(4))) == [b"3", b"4"]


@pytest.mark.parametrize("rate", [1, 7])
def test_the_rate_is_a_limit(rate: int) -> None:
    play = subscriber(limits=Limits(control_per_second=rate))
    wire = play.peer()
    wire.send(*flood(20 * rate))
    for second in range(1, 6):
        play.wait(1.0)
        acked = len(wire.acks())
        assert acked <= rate + 1 if second > 1 else acked <= 2 * rate + 2


def test_letters_and_handled_ride_in_one_commit() -> None:
    play = subscriber(policy=Policy(dedupe=5, dedupe_durable=True), limits=Limits(max_attempts=1))
    wire = play.peer()
    well, badly = deliveries(wire.send(message(1), message(2)))
    before = len(play.commits)
    play.node.acknowledge([well], now=play.now)
    play.node.fail([badly], now=play.now)
    play.run()
    assert len(play.commits) == before + 1
    kinds = {type(op) for op in play.commits[-1].operations}
    assert {RememberHandled, AddDeadLetter} <= kinds
    assert sorted(wire.acks()) == [1, 2]


@pytest.mark.parametrize("number", [0, 1, 2**31 - 2, 2**31, 2**32 - 1])
def test_every_id_but_one_is_acknowledged_over_and_over(number: int) -> None:
    """T-42, in the first message of a name and in those that follow, which take the short way through the decoder."""
    play = subscriber()
    wire = play.peer()
    for _ in range(3):
        actions = wire.send(Message("c", "k", b"x", number), Message("c", "k", b"y", number))
        play.call("acknowledge", deliveries(actions))
        assert wire.acks() == [number, number]
