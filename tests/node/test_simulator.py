"""Simulated networks: every promise, at every step, under every fault (V5).

`scripts/prove/simulate.py` runs more of them, on all cores; `scripts/prove/simulate.py --seed N --trace` shows one.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

import pytest

from tolliver_proto import Policy, Revision
from tolliver_proto._node.commits.batch import Batch
from tolliver_proto._node.inboxes import delivering
from tolliver_proto._node.link import Recipients
from tolliver_proto._node.outboxes.transmission import Transmission
from tolliver_proto._testing.simnet import WORLDS
from tolliver_proto.store import RemoveDeliveries, RemoveMessages, StoredMessage
from tolliver_proto.testing import MemoryStore, Report, SimFailure, SimNet, Weather, shrink

RUNS, SEEDS = 1, 12  # as many as a core does in two seconds; `make simulate SCHEDULES=n` does more


def run(seed: int) -> Report:
    return SimNet(seed).run()


@pytest.mark.parametrize("first", [run * SEEDS for run in range(RUNS)])
def test_seeds(first: int, record_property: Callable[[str, object], None]) -> None:
    """Lives of two to seven nodes. A broken promise raises SimFailure, with the seed and its trace."""
    totals: Counter[str] = Counter()
    for seed in range(first, first + SEEDS):
        totals.update(run(seed).counts)
    missing = [kind for kind in ("messages", "owed", "handled", "connections") if not totals[kind]]
    assert not missing, f"{SEEDS} seeds in which nothing of this happened: {missing}"
    record_property("schedules", SEEDS)


@pytest.mark.parametrize(
    "revision",
    [
        Revision.GO_2026,
        *(pytest.param(one, marks=pytest.mark.thorough) for one in (Revision.GO_SEED, Revision.GO_499B76D)),
    ],
)
def test_seeds_in_the_layouts_of_other_programs(revision: Revision) -> None:
    """With seeds of every kind of world; nothing of a promise depends on how it is written."""
    totals: Counter[str] = Counter()
    for seed in range(WORLDS):
        totals.update(SimNet(seed, revision=revision).run().counts)
    assert totals["handled"] > 100


def test_a_seed_is_one_trace() -> None:
    assert run(12) == run(12)
    assert run(12).trace_hash != run(13).trace_hash


def test_a_seed_is_the_same_in_another_process() -> None:
    """Nothing depends on the order of a set or on the hash of a string."""
    program = "from tolliver_proto.testing import SimNet; print(SimNet(3).run().trace_hash)"
    hashes = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": salt},
            capture_output=True,
            check=True,
            timeout=60,
        ).stdout
        for salt in ("1", "2")
    }
    assert hashes == {b"%d\n" % run(3).trace_hash}


def test_a_perfect_world_has_hardly_a_duplicate() -> None:
    """Without faults only crossing dials, of which one connection is closed (T-70), make a message go out twice."""
    calm = {name for name in Weather.__slots__ if name not in ("delay", "late_drain")}
    never = {*calm, "break", "crash", "close", "corrupt", "fill", "disconnect", "split", "jump", "stop_clock"}
    counts: Counter[str] = Counter()
    for seed in range(8):
        counts.update(SimNet(seed, never=never, nodes=3, operations=60).run().counts)
    assert counts["handled"] > 100
    assert counts["duplicates"] < counts["handled"] * 0.05


def test_a_failure_names_its_seed_and_ends_with_its_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that reports `Stored` where the store refused is found."""
    honest = MemoryStore.commit

    def forgetful(store: MemoryStore, operations: object) -> None:
        if store.commits < 5:
            honest(store, operations)  # type: ignore[arg-type]  # handed on as it came

    monkeypatch.setattr(MemoryStore, "commit", forgetful)
    with pytest.raises(SimFailure, match=r"^seed \d+ at [\d.]+ s: SimFailure: .*\n +[\d.]+ n\d ") as caught:
        list(map(run, range(20)))
    assert len(str(caught.value).splitlines()) > 10


def _forgetful(transmission: Transmission, runs: Iterable[tuple[Recipients, Sequence[StoredMessage]]]) -> None:
    """Rows for a peer that is away are stored, and not thought of when it comes back."""
    for recipients, messages in runs:
        for peer in recipients.peers:
            if peer.link is not None and peer.link.sending.window is not None:
                peer.link.sending.window.committed(messages)
                transmission._context.sendable[peer.link] = None


@pytest.mark.thorough
def test_a_failure_is_made_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that loses messages: the story that shows it has few nodes, and few lines."""
    assert shrink(1) is None, "what does not fail is not made short"
    monkeypatch.setattr(Transmission, "on_stored", _forgetful)
    found = next(filter(None, (shrink(seed, lives=120) for seed in range(65, 85))))
    assert found.lives <= 120
    assert found.scenario["nodes"] <= 3
    assert found.scenario["operations"] <= 60
    net = SimNet(found.seed, **found.scenario, trace=True)
    with pytest.raises(SimFailure, match=r"not drained|first copy of") as caught:
        net.run()
    assert str(caught.value) == str(found.failure)
    assert len(net.lines) < 1000


# Stores that are not what they were (D-13, T-40, T-48): what a copy or a clone never had may be missing, and no more.

HARMED = range(3, 400, 8)  # the worlds in which stores are copied, cloned, cut and without room


def harmed() -> Iterator[Report]:
    """With durable sets of what was handled, which ids that come again would fool."""
    policy = Policy(dedupe=10_000, dedupe_durable=True)
    return (SimNet(seed, policy=policy, nodes=3).run() for seed in HARMED)


def test_stores_are_put_back_cloned_cut_and_without_room() -> None:
    counts = sum((Counter(SimNet(seed).run().counts) for seed in range(3, 83, 8)), Counter[str]())
    assert not {"restored", "cloned", "cut", "exhausted", "filled"} - counts.keys()


def test_a_message_that_is_taken_for_another_with_its_id_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """T-48: a restored sender, or a clone, gives ids again."""
    monkeypatch.setattr(delivering, "checksum_of", lambda _message: 0)
    with pytest.raises(SimFailure, match=r"LOST|before a handler had succeeded"):
        list(harmed())


def test_a_copy_that_lacks_what_was_stored_before_it_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """D-13: no more may be missing than the commits after it."""
    honest = MemoryStore.snapshot

    def forgetful(store: MemoryStore) -> MemoryStore:
        copy = honest(store)
        oldest = [(message.seq, message.seq) for message in copy.messages[:1]]
        copy.commit([*(RemoveDeliveries(peer, oldest) for peer in copy.load().peers), RemoveMessages(oldest)])
        return copy

    monkeypatch.setattr(MemoryStore, "snapshot", forgetful)
    with pytest.raises(SimFailure, match=r"LOST|is forgotten"):
        list(harmed())


def test_a_full_disk_that_is_taken_for_an_end_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """D-13: what was to be removed when the disk was full is removed later."""
    monkeypatch.setattr(Batch, "follow", lambda _batch, _failed: None)
    with pytest.raises(SimFailure):
        list(harmed())


def test_what_a_connecting_peer_claims_is_owed_to_it_from_the_commit_on() -> None:
    """T-62: the process of seed 4993 ends while such a commit is on its way."""
    assert SimNet(4993).run().counts["windows"]


def test_handlers_that_want_a_message_again_break_no_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    """P-22."""
    monkeypatch.setattr(SimNet, "again_chance", 0.7)
    counts = sum((Counter(SimNet(seed, policy=Policy(dedupe=1000)).run().counts) for seed in range(4)), Counter[str]())
    assert counts["again"] > 5
