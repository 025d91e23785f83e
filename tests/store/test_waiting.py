"""Time of messages that wait: `after` counts what was seen to pass, `not_before` is by the wall clock (P-91)."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tolliver._store.sqlite import SQLiteStore

from tolliver_proto.store import LATER, Due, StoreMessages

from .ages import DAWN, Machine
from .given import OURS, message
from .test_clock import killed_at

DAY = 86_400.0


@pytest.fixture
def machine() -> Machine:
    return Machine()


def waiting(seq: int, due: Due) -> StoreMessages:
    return StoreMessages([message(seq)], [[LATER]], due=due)


def left(store: SQLiteStore) -> float:
    """Seconds until the first is due."""
    return store.later(1)[0].expires_in


@pytest.mark.parametrize("named", [True, False], ids=["boots have names", "they have none"])
@pytest.mark.parametrize("killed", [True, False], ids=["killed", "closed"])
@pytest.mark.parametrize("wrong", [0.0, DAY, -DAY, 3650 * DAY], ids=["right", "ahead", "behind", "years ahead"])
def test_a_boot_counts_for_nothing_whatever_the_wall_clock_says(
    tmp_path: Path, machine: Machine, wrong: float, killed: bool, named: bool
) -> None:
    machine.boot = machine.boot if named else None
    path = tmp_path / "node.db"
    with machine.store(path) as store:
        store.commit([waiting(1, Due(100.0)), waiting(2, Due(200.0))])
        machine.passes(30.0)
        assert left(store) == pytest.approx(70.0, abs=0.01)  # it was looked at: so much was seen to pass
        path = killed_at(path) if killed else path
    for _ in range(2):
        machine.boots(3600.0)
        machine.wall += wrong
        with machine.store(path) as store:
            assert left(store) == pytest.approx(70.0, abs=0.01)
            assert [round(one.expires_in) for one in store.later(9)] == [70, 170]
    with machine.store(path) as store:
        machine.passes(70.01)
        assert left(store) <= 0


def test_not_before_is_by_the_wall_clock_over_a_boot(tmp_path: Path, machine: Machine) -> None:
    with machine.store(tmp_path / "node.db") as store:
        store.commit([waiting(1, Due(0.0, DAWN + 100.0))])
    machine.boots(90.0)
    with machine.store(tmp_path / "node.db") as store:
        assert left(store) == pytest.approx(10.0, abs=0.01)


def test_time_within_a_boot_counts_though_nobody_ran(tmp_path: Path, machine: Machine) -> None:
    with machine.store(tmp_path / "node.db") as store:
        store.commit([waiting(1, Due(100.0))])
    machine.passes(90.0)
    with machine.store(tmp_path / "node.db") as store:
        assert left(store) == pytest.approx(10.0, abs=0.01)


def test_without_its_mark_a_store_has_seen_what_its_newest_message_saw(tmp_path: Path, machine: Machine) -> None:
    with machine.store(tmp_path / "node.db") as store:
        store.commit([waiting(1, Due(100.0))])
        machine.passes(30.0)
        store.commit([waiting(2, Due(100.0))])
        machine.passes(30.0)
        assert left(store) == pytest.approx(40.0, abs=0.01)
    (tmp_path / "node.db.mark").unlink()
    for _ in range(2):  # the second time there is a mark again
        machine.boots(DAY)
        with machine.store(tmp_path / "node.db") as store:
            assert left(store) == pytest.approx(70.0, abs=1.01)


@given(
    st.floats(1.0, 1e6),
    st.lists(
        st.tuples(st.sampled_from(["runs", "boots", "is set"]), st.sampled_from([1.0, -1.0]), st.floats(1.5, 1e6)),
        max_size=12,
    ),
)
def test_it_is_never_early(
    tmp_path_factory: pytest.TempPathFactory, after: float, story: list[tuple[str, float, float]]
) -> None:
    """By time that passed in truth, whatever happens."""
    machine, path = Machine(), tmp_path_factory.mktemp("store") / "node.db"
    store = SQLiteStore(path, instance_id=OURS, clock=machine.clock())
    store.commit([waiting(1, Due(after))])
    for what, way, seconds in story:
        if what == "runs":
            machine.passes(seconds)
        elif what == "is set":
            machine.wall += way * seconds
        else:
            store.close()
            machine.boots(seconds)
            machine.wall += way * seconds
            store = SQLiteStore(path, instance_id=None, clock=machine.clock())
        assert left(store) >= after - machine.passed - 0.01
    store.close()
