"""Simulated networks of hubs: every rule, at every step.

`scripts/prove/simulate.py --reactive` runs more of them, on all cores; with `--seed N --trace` it shows one.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable

import pytest

from tolliver_proto.reactive import Hub
from tolliver_proto.reactive._testing.world import Weather as Faults
from tolliver_proto.reactive.testing import FAULTS, Report, SimFailure, StreamNet, shrink

RUNS, SEEDS = 1, 25  # as many as take some seconds; `make simulate-reactive SCHEDULES=n` does more
EVENTS = (
    "elements",
    "OnComplete",
    "OnError",
    "cancels",
    "breaks",
    "cuts",
    "closes",
    "orderly_ends",
    "losses",
    "pauses",
)


def run(seed: int) -> Report:
    return StreamNet(seed).run()


@pytest.mark.parametrize("first", [run * SEEDS for run in range(RUNS)])
def test_seeds(first: int, record_property: Callable[[str, object], None]) -> None:
    """Lives of two to five hubs. A broken promise raises SimFailure, with the seed and its trace."""
    totals: Counter[str] = Counter()
    for seed in range(first, first + SEEDS):
        totals.update(run(seed).counts)
    missing = [kind for kind in (*EVENTS, "drained", "misuses", "stalls", "overreaches") if not totals[kind]]
    assert not missing, f"{SEEDS} seeds in which nothing of this happened: {missing}"
    record_property("schedules", SEEDS)


def test_a_seed_is_one_trace() -> None:
    assert run(12) == run(12)
    assert run(12).trace_hash != run(13).trace_hash


def test_a_seed_is_the_same_in_another_process() -> None:
    """Nothing depends on the order of a set or on the hash of a string."""
    program = "from tolliver_proto.reactive.testing import StreamNet; print(StreamNet(3).run().trace_hash)"
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


def test_in_a_perfect_world_every_end_is_orderly() -> None:
    calm = {name for name in Faults.__slots__ if name not in ("delay", "late_drain")}
    never = {*calm, "break", "cut", "jump"}
    counts: Counter[str] = Counter()
    for seed in range(12):
        counts.update(StreamNet(seed, never=never, seconds=4.0, operations=30).run().counts)
    assert counts["orderly_ends"] > 50
    assert counts["losses"] <= counts["refused"] + counts["closes"], "but dials that were refused or given up"


def _deaf(hub: Hub, cid: int, now: float | None = None) -> None:
    """A hub that never says that it is drained."""
    link = hub._links.get(cid)
    if link is not None:
        link.in_transit = 0
        hub._writable[link] = None


def test_a_failure_names_its_seed_and_is_made_short(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shrink(1) is None, "what does not fail is not made short"
    monkeypatch.setattr(Hub, "sent", _deaf)
    found = next(filter(None, (shrink(seed, lives=60) for seed in range(20))))
    assert found.scenario["nodes"] == 2
    assert found.scenario["operations"] < 40
    assert set(found.scenario["never"]) <= set(FAULTS)
    net = StreamNet(found.seed, **found.scenario, trace=True)
    with pytest.raises(SimFailure, match=rf"^seed {found.seed} at [\d.]+ s: SimFailure: .*R-32") as caught:
        net.run()
    assert str(caught.value) == str(found.failure)
