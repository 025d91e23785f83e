"""UUIDv7 of T-03: ordered, whatever the clock does (V20)."""

from __future__ import annotations

import itertools
import threading
from uuid import RFC_4122, UUID

from hypothesis import given
from hypothesis import strategies as st
from tolliver._options.uuid7 import Uuid7, uuid7

MS = 1_000_000
TEN_YEARS = 10 * 365 * 86_400 * 10**9
NOW = 1_800_000_000 * 10**9

ticks = st.one_of(st.integers(-MS, 3 * MS), st.integers(-TEN_YEARS, TEN_YEARS), st.just(0))


@given(st.lists(ticks, min_size=2, max_size=50))
def test_they_grow_whatever_the_clock_does(steps: list[int]) -> None:
    """Frozen, back by ten years, on by ten years."""
    clock = itertools.accumulate(steps, initial=NOW)
    make = Uuid7(lambda: next(clock))
    made = [make() for _ in steps]
    assert made == sorted(set(made))
    assert {(uuid.version, uuid.variant) for uuid in made} == {(7, RFC_4122)}


@given(st.integers(0, 2**48 - 1), st.integers(0, 2**41 - 1))
def test_time_counter_and_tail_stand_where_rfc_9562_says(millisecond: int, counter: int) -> None:
    """The counter's top bit begins free, so that a millisecond has room for 2^41."""
    value = Uuid7(lambda: millisecond * MS, {41: counter, 32: 0xDEADBEEF}.__getitem__)().int
    assert value >> 80 == millisecond
    assert (value >> 64 & 0xFFF) << 30 | (value >> 32 & (2**30 - 1)) == counter
    assert value & 0xFFFFFFFF == 0xDEADBEEF


def test_a_clock_before_1970_counts_as_1970() -> None:
    assert Uuid7(lambda: -5 * MS)().int >> 80 == 0


def test_a_full_counter_goes_into_the_next_millisecond() -> None:
    make = Uuid7(lambda: NOW)
    first = make()
    make._counter = 2**42 - 2  # nobody can wait until it is full
    second, third = make(), make()
    assert first < second < third
    assert third.int >> 80 == NOW // MS + 1


def test_threads_share_one_order() -> None:
    made: list[list[UUID]] = [[] for _ in range(4)]

    def fill(run: list[UUID]) -> None:
        run.extend(uuid7() for _ in range(500))

    threads = [threading.Thread(target=fill, args=(run,)) for run in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert all(run == sorted(run) for run in made)
    assert len({uuid for run in made for uuid in run}) == 2000
