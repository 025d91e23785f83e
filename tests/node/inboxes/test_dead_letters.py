"""Bounds of dead letters, and giving them up (T-47)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tolliver_proto import Action, Limits, Message, NoticeKind, Stored
from tolliver_proto._node.inboxes.dead_letters import Letters
from tolliver_proto._testing.inspection import inside

from ..play import LOW, OTHER, Play, Wire, deliveries, every, notices, only

SIZE = 3  # channel, key and body of each message here


def receiver(**limits: int) -> Play:
    play = Play(limits=Limits(max_attempts=1, **limits), handlers=[("", "", "handler")])
    play.call("subscribe", "", "")
    return play


def fail(play: Play, wire: Wire, *numbers: int, body: bytes = b"x") -> list[Action]:
    """Each of them becomes a dead letter."""
    actions = wire.send(*(Message("c", "k", body, number) for number in numbers))
    return play.call("fail", deliveries(actions))


def ids(play: Play) -> list[int]:
    return [letter.message_id for letter in play.store.dead_letters(0, 100)]


def counted(play: Play) -> int:
    """As the node knows, which must be as the store has it."""
    loaded, letters = play.store.load(), inside(play.node).letters.numbers
    assert dict(loaded.dead_letters) == letters._sizes
    assert letters._bytes == sum(letters._sizes.values())
    return play.node.stats().dead_letters


def test_at_the_bound_the_oldest_goes_and_it_is_told() -> None:
    play = receiver(max_dead_letters=3)
    wire = play.peer()
    assert notices(fail(play, wire, 1, 2, 3)) == [NoticeKind.DEAD_LETTER] * 3
    assert counted(play) == 3
    play.hold_commits = True
    assert notices(fail(play, wire, 4)) == [NoticeKind.DEAD_LETTER], "not before it is so"
    actions = play.finish()
    assert notices(actions) == [NoticeKind.LETTERS_DROPPED]
    assert "1 dead letters, the oldest, were dropped" in str(actions)
    assert len(play.commits[-1].operations) == 2, "one commit"
    assert ids(play) == [2, 3, 4]
    assert wire.acks() == [1, 2, 3, 4]
    assert counted(play) == 3
    assert play.node.stats().dropped_letters == 1


def test_at_the_bound_in_bytes_as_many_go_as_must() -> None:
    play = receiver(max_dead_letter_bytes=3 * SIZE)
    wire = play.peer()
    fail(play, wire, 1, 2, 3)
    fail(play, wire, 4, body=b"xyz")
    assert ids(play) == [3, 4]
    fail(play, wire, 5, body=b"more than the whole bound")
    assert ids(play) == [5], "the newest stays in any case"
    fail(play, wire, 6)
    assert ids(play) == [6]
    assert counted(play) == 1


def test_many_drops_are_told_once_a_minute_with_their_number() -> None:
    play = receiver(max_dead_letters=1)
    wire = play.peer()
    actions = [action for number in range(1, 12) for action in fail(play, wire, number)]
    assert notices(actions).count(NoticeKind.LETTERS_DROPPED) == 1
    later = play.wait(61.0)
    assert notices(later) == [NoticeKind.LETTERS_DROPPED]
    assert "9 dead letters" in str(later)
    assert notices(play.wait(200.0)) == []
    assert notices(fail(play, wire, 12))[-1] == NoticeKind.LETTERS_DROPPED
    assert play.node.stats().dropped_letters == 11


def test_the_bound_holds_after_a_restart() -> None:
    play = receiver()
    fail(play, play.peer(), 1, 2, 3, 4)
    later = Play(store=play.store, limits=Limits(max_attempts=1, max_dead_letters=2), handlers=[("", "", "handler")])
    assert counted(later) == 4, "till there is one more"
    fail(later, later.peer(), 5)
    assert ids(later) == [4, 5]
    assert [letter.number for letter in later.store.dead_letters(0, 9)] == [4, 5], "a number is never given twice"


def test_a_commit_that_fails_drops_nothing() -> None:
    play = receiver(max_dead_letters=2)
    wire = play.peer()
    fail(play, wire, 1, 2)
    play.hold_commits = True
    fail(play, wire, 3)
    assert NoticeKind.LETTERS_DROPPED not in notices(play.fail())
    assert (counted(play), ids(play)) == (2, [1, 2])
    fail(play, wire, 4, 5, 6)  # the first of them is among the oldest before it is stored
    fail(play, wire, 7)
    play.fail()
    play.hold_commits = False
    play.finish()
    assert (counted(play), ids(play)) == (3, [1, 2, 7]), "till there is one more"
    fail(play, wire, 8)
    assert (counted(play), ids(play)) == (2, [7, 8])


def test_a_letter_that_never_was_is_not_taken_back() -> None:
    """The commit that was to store it fails, and so does the next, which was to remove it."""
    play = receiver()
    wire = play.peer()
    play.hold_commits = True
    fail(play, wire, 1)
    play.node.drop_dead_letters([1], now=play.now)
    play.run()
    play.fail()
    play.fail()
    assert (counted(play), ids(play)) == (0, [])


def test_nothing_goes_where_there_is_nothing() -> None:
    assert Letters((), 1).beyond(1, 1) == []


@pytest.mark.search
@given(st.data())
def test_numbers_and_sizes_stay_those_of_the_store(data: st.DataObject) -> None:
    play = receiver(max_dead_letters=3, max_dead_letter_bytes=6 * SIZE)
    wire = play.peer()
    for number in range(1, 15):
        play.hold_commits = data.draw(st.booleans())
        match data.draw(st.sampled_from("addd")):
            case "a":
                fail(play, wire, number, body=data.draw(st.binary(max_size=12)))
            case _:
                numbers = data.draw(st.lists(st.integers(1, 14), max_size=3))
                play.node.drop_dead_letters(numbers, now=play.now)
                play.run()
        while play.held:
            (play.finish if data.draw(st.booleans()) else play.fail)()
        counted(play)
    play.hold_commits = False
    fail(play, wire, 15)
    assert counted(play) <= 3
    assert counted(play) == 1 or sum(size for _, size in play.store.load().dead_letters) <= 6 * SIZE


def test_letters_are_given_up_by_themselves_or_by_number() -> None:
    play = receiver()
    wire = play.peer()
    fail(play, wire, 1, 2, 3, 4)
    letters = play.store.dead_letters(0, 10)
    receipt = play.node.drop_dead_letters([letters[0], 3, 3, 99], now=play.now)
    assert only(play.run(), Stored).tokens == [receipt]
    assert receipt.counts == [2]
    assert ids(play) == [2, 4]
    again = play.node.drop_dead_letters(letters[:1], now=play.now)
    assert only(play.run(), Stored).tokens == [again]
    assert sum(again.counts) == 0
    assert counted(play) == 2
    assert play.node.stats().dropped_letters == 0, "those were asked for"


def test_giving_up_that_is_not_stored_says_so() -> None:
    play = receiver()
    fail(play, play.peer(), 1)
    play.hold_commits = True
    receipt = play.node.drop_dead_letters([1], now=play.now)
    play.run()
    [stored] = every(play.fail(), Stored)
    assert (stored.tokens, ids(play)) == ([receipt], [1])
    assert stored.error is not None
    assert counted(play) == 1


@pytest.mark.parametrize("well", [True, False])
def test_a_letter_that_is_given_up_while_a_handler_has_it(well: bool) -> None:
    play = receiver()
    fail(play, play.peer(), 1)
    play.node.replay(play.store.dead_letters(0, 1))
    replayed = deliveries(play.run())
    play.call("drop_dead_letters", [1])
    play.call("acknowledge" if well else "fail", replayed)
    assert ids(play) == []
    assert counted(play) == 0


def test_the_bound_is_for_all_peers_together() -> None:
    play = receiver(max_dead_letters=2)
    for peer in (LOW, OTHER):
        fail(play, play.peer(peer), 1, 2)
    assert [letter.peer for letter in play.store.dead_letters(0, 9)] == [OTHER, OTHER]
