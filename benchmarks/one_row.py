"""The cost of a commit with one message, in this tree and in an earlier one: did the single send become dearer?

Each tree has a process of its own for each turn, as both have the same names. A commit stores a message and removes the
one before the last, as it goes on for ever. The file of the log restarts after some 1,000 pages, and until then each
`fsync` costs more, so a turn is long.

    git worktree add ../earlier COMMIT
    python benchmarks/one_row.py --beside ../earlier [--commits 8000] [--turns 6] [--directory DIR]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import mean, median

HERE = Path(__file__).resolve().parents[1]

TURN = """
import inspect, sys, time
from contextlib import closing
from uuid import UUID

from tolliver.sqlite import SQLiteStore

from tolliver_proto.store import RemoveDeliveries, RemoveMessages, StoredMessage, StoreMessages

path, commits = sys.argv[1], int(sys.argv[2])
ours, peer = (UUID(f"01890000-0000-7000-8000-00000000000{last}") for last in (1, 2))
more = {"first_id": 1} if "first_id" in inspect.signature(SQLiteStore).parameters else {}


def operations(seq):
    yield StoreMessages([StoredMessage(seq, seq, "channel", "key", bytes(100), 127)], [(peer,)])
    if seq > 2:
        yield RemoveDeliveries(peer, [(seq - 2, seq - 2)])
        yield RemoveMessages([(seq - 2, seq - 2)])


with closing(SQLiteStore(path, instance_id=ours, **more)) as store:
    for seq in range(1, commits + 1):
        commit = list(operations(seq))
        start = time.perf_counter()
        store.commit(commit)
        print(time.perf_counter() - start)
"""


def turn(tree: Path, commits: int, directory: Path | None) -> list[float]:
    """The seconds that each commit took."""
    with tempfile.TemporaryDirectory(dir=directory) as folder:
        given = [sys.executable, "-c", TURN, str(Path(folder, "one.db")), str(commits)]
        paths = os.pathsep.join((str(tree), str(tree / "transports")))
        done = subprocess.run(given, env={**os.environ, "PYTHONPATH": paths}, stdout=subprocess.PIPE, check=True)
    return [float(line) for line in done.stdout.split()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--beside", type=Path, required=True, help="the earlier tree")
    parser.add_argument("--commits", type=int, default=8000)
    parser.add_argument("--turns", type=int, default=6)
    parser.add_argument("--directory", type=Path, default=None, help="on the disk to be measured")
    given = parser.parse_args()
    medians: dict[str, list[float]] = {"earlier": [], "now": []}
    for _ in range(given.turns):
        for name, tree in (("earlier", given.beside.resolve()), ("now", HERE)):
            seconds = turn(tree, given.commits, given.directory)
            medians[name].append(median(seconds))
            print(f"{name:8} median {median(seconds) * 1e6:.0f} us, mean {mean(seconds) * 1e6:.0f} us", flush=True)
    ratio = median(medians["earlier"]) / median(medians["now"])
    print(f"now at {ratio:.2f} times the earlier rate, by the median of {given.turns} turns")


if __name__ == "__main__":
    main()
