"""Memory for many rows, large bodies, long backlogs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from uuid import UUID

import pytest
from tolliver._store.sqlite import SQLiteStore

from tolliver_proto import Subscription
from tolliver_proto.store import (
    AddDeliveries,
    AddPeerSubscription,
    Operation,
    RemoveDeliveries,
    RemoveMessages,
    ReplacePeerSubscriptions,
    ReserveIds,
    StoreMessages,
)

from .contract import spans_of
from .given import FIRST_ID, OTHER, PEER, everything, message, open_store, seqs, storing

MIB = 2**20


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 16, 17, 63, 64, 65, 256, 257, 1023, 1024, 1025, 2049])
def test_any_number_of_rows(scratch: Path, count: int) -> None:
    """Statements take rows in fixed sizes: no number of them is special."""
    numbers = range(1, count + 1)
    with closing(open_store(scratch / "node.db")) as store:
        wanted = [Subscription(f"channel {number}", "") for number in numbers]
        store.commit([storing(numbers), ReplacePeerSubscriptions(PEER, wanted)])
        store.commit([AddDeliveries(OTHER, [(seq, message(seq).wire_id, message(seq).size) for seq in numbers])])
        assert everything(store) == everything(store, OTHER) == [message(seq) for seq in numbers]
        loaded = store.load()
        assert loaded.peers[PEER].subscriptions == frozenset(wanted)
        assert loaded.owed == [(1, count, 2)]
        assert loaded.live_ids == [(FIRST_ID + 1, FIRST_ID + count)]
        odd = spans_of(range(1, count + 1, 2))
        store.commit([RemoveDeliveries(PEER, odd), RemoveDeliveries(OTHER, [(1, count)]), RemoveMessages(odd)])
        assert everything(store) == [message(seq) for seq in range(2, count + 1, 2)]
        assert store.load().peers[OTHER].pending == 0


def test_operations_of_one_kind_may_be_many_and_their_order_counts(scratch: Path) -> None:
    wanted = Subscription("a", "")
    batch: list[Operation] = [storing([seq]) for seq in range(1, 31)]
    batch += [RemoveDeliveries(PEER, [(seq, seq)]) for seq in range(1, 11)]
    batch += [RemoveMessages([(seq, seq)]) for seq in range(1, 11)]
    batch += [ReserveIds(5, 10, 2), ReserveIds(9, 10, 2), ReserveIds(9, 20, 2)]
    batch += [AddPeerSubscription(PEER, wanted), ReplacePeerSubscriptions(PEER, []), storing([31])]
    with closing(open_store(scratch / "node.db")) as store:
        store.commit(batch)
        assert seqs(everything(store)) == list(range(11, 32))
        assert store.load().peers[PEER].subscriptions == frozenset()
        assert store.load().id_spans == [(5, 10), (9, 20)]


def test_spans_may_overlap_and_come_in_any_order(scratch: Path) -> None:
    with closing(open_store(scratch / "node.db")) as store:
        store.commit([storing(range(1, 101))])
        store.commit([RemoveDeliveries(PEER, [(60, 61), (10, 50), (20, 21), (40, 55), (61, 70), (99, 200)])])
        assert seqs(everything(store)) == [*range(1, 10), *range(56, 60), *range(71, 99)]


@pytest.mark.parametrize("peer", [PEER, None])
@pytest.mark.parametrize("min_age", [0.0, -1.0, 1e6])
def test_a_search_does_as_much_as_it_returns(scratch: Path, peer: UUID | None, min_age: float) -> None:
    """A million deliveries are searched piece by piece: each piece must not look at all of them."""
    steps = []
    with closing(open_store(scratch / "node.db")) as store:
        for first, last in ((1, 100), (101, 5000)):
            store.commit([storing(range(first, last + 1), (PEER, OTHER))])
            done = [0]

            def step(done: list[int] = done) -> None:
                done[0] += 1

            store._file.connection.set_progress_handler(step, 1)
            found = store.find(peer, 50, 10, min_age)
            store._file.connection.set_progress_handler(None, 0)
            assert len(found) == (0 if min_age > 0 else 10)
            steps.append(done[0])
    assert steps[1] < 2 * steps[0]


def used(store: SQLiteStore) -> int:
    """Bytes of the pages that hold something."""
    pages = [
        store._file.connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count")
    ]
    return int(pages[0] - pages[1]) * PAGE


PAGE = 4096
BODY = bytes(1000)


def test_a_file_is_hardly_more_than_its_bodies(tmp_path: Path) -> None:
    with closing(open_store(tmp_path / "node.db")) as store:
        for first in range(1, 20_001, 1000):
            store.commit([storing(range(first, first + 1000), body=BODY)])
        assert used(store) < 1.1 * 20_000 * len(BODY)


@pytest.mark.parametrize("kept", [2, 3, 17])
def test_a_file_has_no_more_than_twice_what_is_owed(tmp_path: Path, kept: int) -> None:
    """Every second message is acknowledged, two of three, or nearly all of them: in order, or here and there."""
    count = 20_000
    with closing(open_store(tmp_path / "node.db")) as store:
        for first in range(1, count + 1, 1000):
            store.commit([storing(range(first, first + 1000), body=BODY)])
        left = range(1, count + 1, kept)
        for first in range(1, count + 1, 500):
            gone = spans_of(seq for seq in range(first, first + 500) if seq not in left)
            store.commit([RemoveDeliveries(PEER, gone), RemoveMessages(gone)])
    with closing(open_store(tmp_path / "node.db")) as store:
        assert used(store) < 2.6 * len(left) * len(BODY)
        assert everything(store) == [message(seq, BODY) for seq in left]


@contextmanager
def reading_at_most(limit: int) -> Iterator[None]:
    """The bytes that this process asks the system for, from files and from caches."""

    def read() -> int:
        return int(Path("/proc/self/io").read_text().split()[1])

    before = read()
    yield
    assert read() - before < limit


@pytest.mark.skipif(sys.platform != "linux", reason="bytes read are counted by /proc")
def test_opening_reads_no_bodies_and_fetching_only_those_that_fit(tmp_path: Path) -> None:
    count = 48
    with closing(open_store(tmp_path / "node.db")) as store:
        store.commit([storing(range(1, count), body=bytes(MIB)), storing([count], peers=(), body=bytes(MIB))])
    with reading_at_most(2 * MIB):  # dropped rows are read, to free their pages
        store = open_store(tmp_path / "node.db")
        loaded = store.load()
    assert loaded.peers[PEER].pending == count - 1
    assert loaded.peers[PEER].pending_bytes > (count - 1) * MIB
    assert loaded.next_seq >= count
    with closing(store), reading_at_most(4 * MIB):
        assert seqs(store.fetch(PEER, 10, 100, 3 * MIB)) == [11, 12]
        assert seqs(store.fetch(PEER, 10, 100, 1)) == [11]


@pytest.mark.skipif(sys.platform != "linux", reason="resident memory is read from /proc")
def test_large_bodies_leave_no_copies_in_prepared_statements(tmp_path: Path) -> None:
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    with closing(open_store(tmp_path / "node.db")) as store:
        store.commit([storing(range(1, 60))])
        before = resident()
        body = bytes(MIB)
        store.commit([StoreMessages([message(seq, body) for seq in range(100, 148)], [[PEER]] * 48)])
        assert resident() - before < 16 * MIB
