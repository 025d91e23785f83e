"""Places where ids begin, and what is remembered of those that were handed out (T-40)."""

from __future__ import annotations

from random import Random
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tolliver_proto import OutboxFull
from tolliver_proto._node.outboxes.ids import (
    BEYOND_A_COPY,
    DRAWS,
    LAST_ID,
    OPENINGS,
    REMEMBERED,
    RESERVE,
    IdAllocator,
    remembered,
)
from tolliver_proto._testing.inspection import inside
from tolliver_proto.store import Loaded, ReserveIds, begin_elsewhere
from tolliver_proto.testing import BeginAt, MemoryStore

from ..play import HIGH, LOW, ME, Dice, Play, Wire

DERIVED = UUID("f0000000-0000-8000-8000-000000000001")


def circle(first: int, count: int) -> list[tuple[int, int]]:
    """The ids as spans that ascend."""
    last = first + count - 1
    return [(first, last)] if last <= LAST_ID else [(first, LAST_ID), (1, last - LAST_ID)]


def meet(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return any(a <= d and c <= b for a, b in circle(*one) for c, d in circle(*other))


class Scripted:
    """Says these places first."""

    def __init__(self, *places: int) -> None:
        self.said = [(place - 0.5) / LAST_ID for place in places]
        self.asked = 0

    def random(self) -> float:
        self.asked += 1
        return self.said[(self.asked - 1) % len(self.said)]


places = st.one_of(st.integers(1, LAST_ID), st.integers(1, 3 * RESERVE), st.integers(LAST_ID - 3 * RESERVE, LAST_ID))
spans = st.lists(st.tuples(places, st.integers(0, 2**28)), max_size=12)


@pytest.mark.search
@settings(max_examples=200)
@given(st.integers(0, 2**32), spans, st.lists(st.tuples(places, st.integers(1, 5000)), max_size=6))
def test_a_drawn_place_is_clear_for_a_whole_block(
    seed: int, handed_out: list[tuple[int, int]], owed: list[tuple[int, int]]
) -> None:
    live = [span for one in owed for span in circle(*one)]
    ids = IdAllocator.opened(Loaded(live_ids=live, id_spans=handed_out), Random(seed))
    first = ids.take()
    for span in (*remembered(handed_out), *owed):
        assert span[1] == 0 or not meet((first, RESERVE), span)


@pytest.mark.search
@settings(max_examples=60)
@given(st.lists(places, min_size=DRAWS + 1, max_size=DRAWS + 1), spans)
def test_the_first_draw_that_is_clear_is_taken(drawn: list[int], handed_out: list[tuple[int, int]]) -> None:
    kept = [span for span in remembered(handed_out) if span[1]]
    clear = [one for one in drawn[:DRAWS] if not any(meet((one, RESERVE), span) for span in kept)]
    dice = Scripted(*drawn)
    ids = IdAllocator.opened(Loaded(id_spans=handed_out), dice)
    if clear:
        assert ids.take() == clear[0]
        assert dice.asked == drawn.index(clear[0]) + 1
    else:
        assert dice.asked == DRAWS


@pytest.mark.parametrize("newest", [(100, 50), (LAST_ID - 10, 60), (LAST_ID - 49, 50)])
def test_if_all_draws_fail_it_begins_behind_the_newest_span(newest: tuple[int, int]) -> None:
    dice = Scripted(newest[0])
    ids = IdAllocator.opened(Loaded(id_spans=[(5000, 10), newest]), dice)
    assert dice.asked == 64
    assert ids.take() == (newest[0] + newest[1] - 1) % LAST_ID + 1


def test_where_nothing_was_handed_out_and_all_draws_fail_it_begins_behind_what_is_live() -> None:
    ids = IdAllocator.opened(Loaded(live_ids=[(1, 10)]), Scripted(5))
    assert ids.take() == 11


def test_a_wrapping_block_is_looked_at_on_both_sides() -> None:
    def begin(*handed_out: tuple[int, int]) -> int:
        return IdAllocator.opened(Loaded(id_spans=handed_out), Scripted(LAST_ID - 10, 77_777)).take()

    assert begin() == LAST_ID - 10
    assert begin((RESERVE - 10, 1), (LAST_ID - 11, 1)) == LAST_ID - 10
    for within in (LAST_ID - 10, LAST_ID, 1, RESERVE - 11):
        assert begin((within, 1)) == 77_777


@given(st.lists(st.tuples(places, st.integers(0, 2**32)), max_size=20))
def test_what_is_remembered_is_the_newest_ids(handed_out: list[tuple[int, int]]) -> None:
    kept = remembered(handed_out)
    total = sum(count for _, count in handed_out)
    assert sum(count for _, count in kept) == min(total, REMEMBERED)
    whole = kept[1:]
    assert whole == handed_out[len(handed_out) - len(whole) :]
    if kept:
        first, count = handed_out[len(handed_out) - len(kept)]
        assert (kept[0][0] + kept[0][1] - first - count) % LAST_ID == 0, "cut at its beginning"


def test_so_many_openings_are_remembered_and_no_more() -> None:
    handed_out = [(10_000 * number, 4096) for number in range(1, 5001)]
    assert remembered(handed_out) == handed_out[-4096:]
    assert OPENINGS == 4096
    ids = IdAllocator.opened(Loaded(id_spans=handed_out), Dice(0.99))
    ids.take()
    assert ids.reserve().keep == 4096


def test_what_the_bound_has_forgotten_may_be_drawn() -> None:
    """2^30 ids of the newer openings, and the oldest is free again."""
    older, newer = (5_000, 2**20), (2**30, 2**30)
    assert IdAllocator.opened(Loaded(id_spans=[older]), Scripted(5_000, 999_999_999)).take() == 999_999_999
    ids = IdAllocator.opened(Loaded(id_spans=[older, newer]), Scripted(5_000, 999_999_999))
    assert ids.take() == 5_000
    assert ids.reserve().keep == 2, "the store may forget it"


def test_ids_that_were_handed_out_are_passed_over_as_long_as_there_are_others() -> None:
    ids = IdAllocator(LAST_ID - 5, [(6, LAST_ID - 6)], [(LAST_ID - 3, 2), (LAST_ID - 2, 2), (LAST_ID, 3), (4, 1)])
    assert list(ids.take_many(4)) == [LAST_ID - 5, LAST_ID - 4, 3, 5]
    assert [ids.take() for _ in range(6)] == [LAST_ID - 3, LAST_ID - 2, LAST_ID - 1, LAST_ID, 1, 2]
    with pytest.raises(OutboxFull):
        ids.take_many(2)
    assert ids.take() == 4


# Ids that this opening has reserved.


@pytest.mark.search
def test_what_is_given_lies_in_what_is_reserved() -> None:
    ids = IdAllocator(LAST_ID - 3 * RESERVE, [(LAST_ID - 100, LAST_ID - 50)])
    reserved = ReserveIds(1, 0, 1)
    for _ in range(20 * RESERVE):
        taken = ids.take()
        if ids.needs_reserve:
            reserved = ids.reserve()
        assert (taken - reserved.first) % LAST_ID < reserved.count
    assert reserved.first == LAST_ID - 3 * RESERVE
    assert reserved.count < 22 * RESERVE


def test_a_jump_over_live_ids_is_reserved_too() -> None:
    ids = IdAllocator(1, [(100, 100_000)])
    ids.take()
    ids.reserve()
    needed = [ids.needs_reserve, ids.take_many(99)[-1] == 100_001, ids.needs_reserve]
    assert needed == [False, True, True]
    assert ids.reserve() == ReserveIds(1, 100_001 + RESERVE, 1)


def test_an_opening_that_used_no_id_reserves_none() -> None:
    play = Play()
    play.peer(LOW, ("c", ""))
    play.call("subscribe", "own", "")
    assert play.commits
    assert play.store.load().id_spans == []
    play.send("c", "", b"1")
    assert play.store.load().id_spans == [(1, 2 + RESERVE)]


def test_openings_are_rows_of_their_own_the_oldest_first() -> None:
    store = MemoryStore()
    for first in (5_000, 900_000, 20_000):
        play = Play(store=store, first_id=first)
        play.peer(LOW, ("c", ""))
        play.send("c", "", b"1")
    assert [first for first, _ in store.load().id_spans] == [5_000, 900_000, 20_000]


# Derived identities.


def begins(uuid: UUID, store: MemoryStore, first_id: int = 70_000) -> int:
    play = Play(store=store, uuid=uuid, first_id=first_id)
    wire = play.peer(LOW, ("c", ""))
    play.send("c", "", b"1")
    return sent_id(wire)


def sent_id(wire: Wire) -> int:
    (message,) = wire.messages()
    assert message.message_id is not None
    wire.ack(message)
    return message.message_id


def test_a_derived_identity_begins_at_1_and_goes_on_behind_what_was_reserved() -> None:
    store = MemoryStore()
    assert begins(DERIVED, store) == 1
    behind = sum(store.load().id_spans[-1])
    assert begins(DERIVED, store) == behind > RESERVE
    assert begins(ME, MemoryStore()) == 70_000


# Copies.


def test_a_restored_copy_keeps_clear_of_where_the_original_went_on() -> None:
    """The original went on behind the newest span that the copy knows; draws keep clear of that."""
    store = MemoryStore()
    begins(ME, store, 5_000)
    [(first, count)] = store.load().id_spans
    store.commit(begin_elsewhere(store.load(), Scripted(first + count, 800_000_000)))
    assert store.load().id_spans == [(5_000, count + BEYOND_A_COPY), (800_000_000, 0)]
    with_the_same_luck = IdAllocator.opened(store.load(), Scripted(first + count, 800_000_000))
    assert with_the_same_luck.take() == 800_000_000


def test_a_restored_copy_knows_earlier_openings_as_they_were() -> None:
    store = MemoryStore()
    for first in (5_000, 900_000, 20_000):
        begins(ME, store, first)
    *earlier, (first, count) = store.load().id_spans
    store.commit(begin_elsewhere(store.load(), Scripted(800_000_000)))
    assert store.load().id_spans == [*earlier, (first, count + BEYOND_A_COPY), (800_000_000, 0)]


def test_a_derived_identity_that_was_restored_goes_on_at_the_new_place() -> None:
    store = MemoryStore()
    begins(DERIVED, store)
    store.commit(begin_elsewhere(store.load(), BeginAt(Random(1), 800_000_000)))
    assert begins(DERIVED, store) == 800_000_000


def test_an_empty_database_that_was_restored_begins_somewhere() -> None:
    store = MemoryStore()
    store.commit(begin_elsewhere(store.load(), BeginAt(Random(1), 800_000_000)))
    assert store.load().id_spans == [(800_000_000, 0)]


def test_only_a_copy_meets_an_id_again() -> None:
    """Thirty openings and their copies' dice: no message has the id of another."""
    chance, store, seen = Random(7), MemoryStore(), set[int]()
    for _ in range(30):
        play = Play(store=store, first_id=1 + chance.randrange(5 * RESERVE))
        wire = play.peer(HIGH, ("c", ""))
        inside(play.node).context.rng = chance
        for _ in range(20):
            play.send("c", "", b"1")
            number = sent_id(wire)
            assert number not in seen
            seen.add(number)
