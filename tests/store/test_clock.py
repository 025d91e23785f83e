"""Ages by a clock that steps of the wall clock do not fool (D-10)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tolliver_transports._store.clock import STEP, StoreClock
from tolliver_transports._store.sqlite import SQLiteStore

from tolliver_proto import AddDeadLetter, DeadLetter

from .given import OURS, PEER, storing

DAY = 86400.0
DAWN = 1_800_000_000.0


class Machine:
    """A machine's two clocks, as its owner sets them."""

    def __init__(self) -> None:
        self.wall = DAWN
        self.running = 500.0

    def passes(self, seconds: float) -> None:
        self.wall += seconds
        self.running += seconds

    def clock(self, correction: float = 0.0) -> StoreClock:
        return StoreClock(correction, wall=lambda: self.wall, running=lambda: self.running)

    @contextmanager
    def store(self, path: Path) -> Iterator[SQLiteStore]:
        with closing(SQLiteStore(path, instance_id=OURS, first_id=1, clock=self.clock())) as store:
            yield store


@pytest.fixture
def machine() -> Machine:
    return Machine()


def test_time_is_the_wall_clocks_while_nobody_sets_it(machine: Machine) -> None:
    clock = machine.clock()
    for seconds in (0.0, 1.0, 3600.0, 30 * DAY):
        machine.passes(seconds)
        assert clock.now() == machine.wall
    assert StoreClock().now() == pytest.approx(StoreClock().now(), abs=60.0)


@given(st.lists(st.tuples(st.floats(0.0, 1e6), st.one_of(st.just(0.0), st.floats(-1e9, 1e9))), max_size=20))
def test_steps_count_for_nothing(story: list[tuple[float, float]]) -> None:
    machine = Machine()
    clock = machine.clock()
    followed = last = 0.0
    for seconds, step in story:
        machine.passes(seconds)
        machine.wall += step
        followed += step if abs(step) <= STEP else 0.0
        now = clock.now()
        assert now >= last, "it never runs backwards"
        last = now
    ran = machine.running - 500.0
    assert clock.now() - DAWN == pytest.approx(ran + followed, abs=1e-3 + sum(STEP for _, step in story if step))
    assert machine.wall - clock.correction == pytest.approx(clock.now(), abs=len(story) * STEP + 1e-3)


def test_a_small_difference_is_followed(machine: Machine) -> None:
    """NTP moves a clock by less than a second at a time, and is right."""
    clock = machine.clock()
    for _ in range(10):
        machine.passes(60.0)
        machine.wall += 0.5
        clock.now()
    assert clock.now() == machine.wall


@pytest.mark.parametrize("step", [2 * DAY, -2 * DAY, 3650 * DAY, -3650 * DAY])
def test_a_step_makes_no_message_older_or_younger(tmp_path: Path, machine: Machine, step: float) -> None:
    with machine.store(tmp_path / "node.db") as store:
        store.commit([storing([1])])
        machine.passes(4.0)
        machine.wall += step
        assert store.find(PEER, 0, 9, 60.0) == [], "it is four seconds old"
        store.commit([storing([2])])
        machine.passes(100.0)
        assert [(one.seq, one.age) for one in store.find(PEER, 0, 9, 60.0)] == [(1, 104.0), (2, 100.0)]


def test_a_dead_letter_is_dated_by_the_same_clock(tmp_path: Path, machine: Machine) -> None:
    with machine.store(tmp_path / "node.db") as store:
        machine.wall += 2 * DAY
        store.commit([AddDeadLetter(DeadLetter(PEER, "c", "k", b"", 1, 20, number=1))])
        [letter] = store.dead_letters(0, 1)
        assert letter.failed_at == DAWN


def test_after_a_restart_the_wall_clock_is_believed(tmp_path: Path, machine: Machine) -> None:
    with machine.store(tmp_path / "node.db") as store:
        store.commit([storing([1])])
    machine.wall += DAY  # the process was away that long, as far as anybody knows
    with machine.store(tmp_path / "node.db") as store:
        [found] = store.find(PEER, 0, 9, 60.0)
        assert found.age == DAY


def test_a_wall_clock_that_was_years_ahead_keeps_nothing_for_years(tmp_path: Path, machine: Machine) -> None:
    """A step back that nobody saw, as the process was not running."""
    with machine.store(tmp_path / "node.db") as store:
        store.commit([storing([1])])
    machine.wall -= 3650 * DAY
    with machine.store(tmp_path / "node.db") as store:
        store.commit([storing([2])])
        machine.passes(100.0)
        assert [one.seq for one in store.find(PEER, 0, 9, 60.0)] == [1, 2]
        assert store.find(PEER, 0, 9, 101.0) == []


@pytest.mark.parametrize("step", [2 * DAY, -2 * DAY])
def test_a_step_that_was_seen_counts_for_nothing_after_a_restart(tmp_path: Path, machine: Machine, step: float) -> None:
    with machine.store(tmp_path / "node.db") as store:
        machine.wall += step
        store.commit([storing([1])])
        machine.passes(10.0)
    for _ in range(2):
        with machine.store(tmp_path / "node.db") as store:
            machine.passes(10.0)
            assert [round(one.age) for one in store.find(PEER, 0, 9, 0.0)] == [20]
            machine.passes(-10.0)


def test_a_correction_that_was_kept_goes_on(machine: Machine) -> None:
    clock = machine.clock()
    machine.wall += 2 * DAY
    before = clock.now()
    assert clock.correction == 2 * DAY
    machine.passes(10.0)
    assert machine.clock(clock.correction).now() == before + 10.0


def test_time_asleep_counts_where_the_running_clock_goes_on(machine: Machine) -> None:
    clock = machine.clock()
    machine.passes(8 * 3600.0)
    assert clock.now() == DAWN + 8 * 3600.0
    machine.wall += 8 * 3600.0  # and not where it stands still
    assert clock.now() == DAWN + 8 * 3600.0
