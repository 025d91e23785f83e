"""Ages by a clock that steps of the wall clock do not fool (D-10)."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tolliver._store.clock import STEP, StoreClock
from tolliver._store.scan import scan

from tolliver_proto._node.actions import LOOK
from tolliver_proto.store import AddDeadLetter, DeadLetter

from .ages import DAWN, Machine, ages
from .given import PEER, storing

DAY = 86400.0


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


def test_who_reads_a_database_sees_times_of_the_wall_clock_as_it_is_set(tmp_path: Path, machine: Machine) -> None:
    with machine.store(tmp_path / "node.db") as store:
        store.commit([storing([1]), AddDeadLetter(DeadLetter(PEER, "c", "k", b"", 1, 20, number=1))])
        machine.passes(10.0)
        machine.wall += 2 * DAY
        store.commit([storing([2])])
    with scan(tmp_path / "node.db") as found:
        assert [one.stored_at and machine.wall - one.stored_at for one in found.messages(PEER)] == [10.0, 0.0]
        assert [(one.oldest, one.newest) for one in found.waiting()] == [(machine.wall - 10.0, machine.wall)]
        assert [machine.wall - letter.failed_at for letter in found.letters()] == [10.0]


@pytest.mark.parametrize("up", [0.0, 1000.0], ids=["at once", "when it lasts longer than the one before"])
def test_after_a_boot_the_wall_clock_is_believed(tmp_path: Path, machine: Machine, up: float) -> None:
    with machine.store(tmp_path / "node.db") as store:
        store.commit([storing([1])])
    machine.boots(DAY)  # it was away that long, as far as anybody knows
    machine.passes(up)
    with machine.store(tmp_path / "node.db") as store:
        [found] = store.find(PEER, 0, 9, 60.0)
        assert found.age == DAY + up


def test_a_wall_clock_that_was_years_ahead_keeps_nothing_for_years(tmp_path: Path, machine: Machine) -> None:
    """A step back that nobody saw, as the machine was off."""
    with machine.store(tmp_path / "node.db") as store:
        store.commit([storing([1])])
    machine.boots(-3650 * DAY)
    with machine.store(tmp_path / "node.db") as store:
        store.commit([storing([2])])
        machine.passes(100.0)
        assert [one.seq for one in store.find(PEER, 0, 9, 60.0)] == [1, 2]
        assert store.find(PEER, 0, 9, 101.0) == []


SET = [2 * DAY, -2 * DAY, 3650 * DAY, -3650 * DAY]


@pytest.mark.parametrize("step", SET)
@pytest.mark.parametrize("boots", [False, True], ids=["within a boot", "over a boot"])
@pytest.mark.parametrize("named", [True, False], ids=["boots have names", "they have none"])
def test_a_step_before_an_orderly_close_counts_for_nothing(
    tmp_path: Path, machine: Machine, step: float, boots: bool, named: bool
) -> None:
    """The instance is idle meanwhile: only its close looks."""
    machine.boot = machine.boot if named else None
    with machine.store(tmp_path / "node.db") as store:
        store.commit([*(storing([number]) for number in range(1, 101))])
        machine.passes(10.0)
        machine.wall += step
    for _ in range(2):
        machine.passes(10.0)
        if boots:
            machine.boots(0.0)
        with machine.store(tmp_path / "node.db") as store:
            assert {round(one.age) for one in store.find(PEER, 0, 999, 0.0)} == {20}
            machine.passes(-10.0)


@pytest.mark.parametrize("step", SET)
def test_a_step_that_a_look_saw_counts_for_nothing_after_a_loss_of_power(
    tmp_path: Path, machine: Machine, step: float
) -> None:
    with machine.store(tmp_path / "node.db") as store:
        store.commit([storing([1])])
        machine.wall += step
        assert LOOK.ask(store) == []
        killed = killed_at(tmp_path / "node.db")
    machine.boots(30.0)
    with machine.store(killed) as store:
        assert [round(one.age) for one in store.find(PEER, 0, 9, 0.0)] == [30]


def killed_at(path: Path) -> Path:
    """The database as a kill leaves it now, in a place of its own."""
    directory = path.parent / f"{path.parent.name}'"
    directory.mkdir()
    for suffix in ("", "-wal", ".mark"):
        shutil.copy(f"{path}{suffix}", directory)
    return directory / path.name


STORIES = st.lists(
    st.tuples(
        st.sampled_from(["passes", "commits", "is set", "is looked at", "closes", "is killed"]),
        st.floats(1.5, 1e6),
        st.sampled_from([-1, 1]),
    ),
    max_size=12,
)


@settings(max_examples=15)
@given(STORIES)
@example([("is set", DAY, 1), ("is killed", 2.0, 1)])
def test_within_a_boot_an_age_is_what_passed(story: list[tuple[str, float, int]]) -> None:
    """However the clock is set, and however the lives of the process end."""
    machine = Machine()
    with TemporaryDirectory() as directory, ExitStack() as living:
        path = Path(directory, "node.db")
        store = living.enter_context(machine.store(path))
        store.commit([storing([1])])
        began = machine.running
        for number, (what, seconds, sign) in enumerate(story, 2):
            if what == "passes":
                machine.passes(seconds)
            elif what == "commits":
                store.commit([storing([number])])
            elif what == "is set":
                machine.wall += sign * seconds
            elif what == "is looked at":
                store.expiring(0)
            else:
                killed = killed_at(path) if what == "is killed" else path
                living.close()
                machine.passes(seconds)
                path = killed
                store = living.enter_context(machine.store(path))
        [oldest] = store.find(PEER, 0, 1, 0.0)
        assert oldest.age == pytest.approx(machine.running - began, abs=2.0)


@pytest.mark.parametrize(
    "spoil",
    [lambda mark: mark[:44], lambda mark: mark[:50], lambda mark: mark[:60] + b"?" + mark[61:]],
    ids=["of before", "cut", "altered"],
)
def test_a_mark_whose_clocks_are_not_whole_says_nothing_of_them(
    tmp_path: Path, machine: Machine, spoil: Callable[[bytes], bytes]
) -> None:
    """But of the commits. The wall clock is believed."""
    mark = tmp_path / "node.db.mark"
    with machine.store(tmp_path / "node.db") as store:
        store.commit([storing([1])])
    mark.write_bytes(spoil(mark.read_bytes()))
    machine.wall += DAY
    with machine.store(tmp_path / "node.db") as store:
        [found] = store.find(PEER, 0, 9, 0.0)
        assert (found.age, store.missing) == (DAY, 0)


def test_a_boot_clock_that_went_back_is_of_another_boot(tmp_path: Path, machine: Machine) -> None:
    """A virtual machine that was put back to a moment before: its boot has the name that it had."""
    with machine.store(tmp_path / "node.db") as store:
        store.commit([storing([1])])
    machine.running -= 100.0
    with machine.store(tmp_path / "node.db") as store:
        machine.passes(30.0)
        assert [one.age for one in store.find(PEER, 0, 9, 0.0)] == [30.0]


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


def test_an_age_is_what_passed_over_kills_and_boots() -> None:
    """V20: `scripts/prove/proofs.py ages` tries many."""
    for seed in range(3):
        try:
            ages(seed)
        except AssertionError as error:
            raise AssertionError(f"ages({seed}): {error}") from error
