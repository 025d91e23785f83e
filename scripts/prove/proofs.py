"""Proofs by number of runs, on all cores.

    python -m scripts.prove.proofs NAME [SIZE] [--first N]

    frames     V2         encoded frames decode to themselves, of each protocol                          1,000,000
    crash      V6         a crash before or after every store call, and every pair of such crashes
    power      V8         disks that a loss of power may leave; `power-normal` and `power-off` are the
                          control, with less synced, and fail where nothing is lost; needs a C compiler     10,000
    flips      V9         bits that flip in databases are told                                              10,000
    cross      V15        crossing dials leave one connection                                               10,000
    wrap       V17        5,000 messages over the end of the ids, so many times                                 20
    clocks     V20        clocks that jump, stand still or go back                                          10,000
    ages       V20        ages over kills, closes, boots and clocks that are set                               300
    converge   V21        subscriptions converge                                                           100,000
    dissector  dissector  hostile connections for Wireshark's dissector, in every layout; needs tshark     100,000

A proof is a function of a subject, most often a number, from N on, that is beside the tests that use it. A failure is
told with its subject. Exit status 1 if there is one.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from scripts.prove import roundtrip
from tests.node import proofs
from tests.store.ages import ages
from tests.store.flips import Flips
from tests.store.given import MEMORY_DISK
from tests.store.power import compiler, images
from tests.wireshark import captures, hostile

IMAGES = 200  # of one use of a store
TOLD = 10  # failures
FLIPPED = ("harmless", "parked", "told", "refused", "silent")

Found = tuple[Any, Counter[str], str]
"""Of a subject: its name, what is counted, and in words what is wrong, or nothing."""


class Proof(NamedTuple):
    """`subjects` of a size from a number on; `prove` takes some of them; `result` is `size | figures` over the counts.

    `good` are the figures of a proof that counts nothing but failures. `loses`: it must.
    """

    row: str
    size: int
    prove: Callable[[list[Any]], Iterator[Found]]
    result: str
    good: str = ""
    subjects: Callable[[int, int], Iterable[Any]] = lambda size, first: range(first, first + size)
    obstacle: Callable[[], str] = str
    loses: bool = False


def each(prove: Callable[[Any], object], subjects: list[Any]) -> Iterator[Found]:
    """Of a proof that raises where something is wrong."""
    for one in subjects:
        try:
            prove(one)
        except Exception as error:
            yield one, Counter(), f"{type(error).__name__}: {error}"


def crashes(size: int, _first: int) -> Iterator[set[proofs.Crash]]:
    singles: list[set[proofs.Crash]] = [{point} for point in proofs.crash_points()]
    yield from islice([*singles, *proofs.crash_pairs()], size)


def streams_of_frames(size: int, first: int) -> Iterator[tuple[str, int]]:
    for protocol in roundtrip.PROTOCOLS:
        for seed in range(first, first - -size // roundtrip.PER_STREAM):
            yield protocol, seed


def frames(streams: list[tuple[str, int]]) -> Iterator[Found]:
    for protocol, seed in streams:
        yield f"{protocol}, seed {seed}", Counter(), roundtrip.differs(protocol, seed) or ""


def flips(numbers: list[int]) -> Iterator[Found]:
    with TemporaryDirectory(dir=MEMORY_DISK) as directory:
        made = Flips(Path(directory))
        for number in numbers:
            outcome, where = made.attempt(number)
            yield number, Counter({outcome: 1}), f"silent: {where}" if outcome == "silent" else ""


def uses(size: int, first: int) -> Iterator[tuple[int, int]]:
    for number, start in enumerate(range(0, size, IMAGES)):
        yield first + number, min(IMAGES, size - start)


def power(synchronous: str, some: list[tuple[int, int]]) -> Iterator[Found]:
    for seed, count in some:
        with TemporaryDirectory(dir=MEMORY_DISK) as directory:
            for one in images(Path(directory).resolve(), seed, count, synchronous):
                counts = Counter(lost=one.lost, losing=bool(one.lost), torn=bool(one.wrong), back=one.back)
                yield f"use {seed}", counts, f"{one.lost} lost; {one.wrong}" if one.lost or one.wrong else ""


def connections(size: int, first: int) -> Iterator[tuple[str, int, int]]:
    kinds = (*hostile.LAYOUTS, hostile.STREAMS)
    share = -(-size // len(kinds))
    for kind in kinds:
        for start in range(0, share, hostile.AT_ONCE):
            yield kind, first + start, min(hostile.AT_ONCE, share - start)


def dissector(some: list[tuple[str, int, int]]) -> Iterator[Found]:
    for kind, seed, count in some:
        with TemporaryDirectory() as folder:
            for path in hostile.captures(Path(folder), kind, count, seed):
                yield f"{kind}, seed {seed}", Counter(inputs=count), hostile.complaints(path, kind)


def of_power(synchronous: str, size: int) -> Proof:
    return Proof(
        "V8",
        size,
        partial(power, synchronous),
        f"{{size:,}} images, synchronous {synchronous} | {{losing:,}} images lost a message, {{lost:,}} messages lost, "
        "{torn:,} images not whole, {back:,} messages back that had been removed",
        subjects=uses,
        obstacle=lambda: "" if compiler() else "there is no C compiler: cc or gcc, for the library beside the store",
        loses=synchronous != "FULL",
    )


PROOFS = {
    "frames": Proof(
        "V2",
        1_000_000,
        frames,
        f"{{size:,}} frames of each of {', '.join(roundtrip.PROTOCOLS)} | {{failed}} streams differ, {{seconds:.0f}} s "
        f"on {os.cpu_count()} cores",
        subjects=streams_of_frames,
    ),
    "crash": Proof(
        "V6",
        1_000_000,
        partial(each, proofs.scenario),
        "{runs:,} crashes and pairs of crashes | {outcome}",
        "nothing lost, the outbox drains",
        subjects=crashes,
    ),
    "power": of_power("FULL", 10_000),
    "power-normal": of_power("NORMAL", 200),
    "power-off": of_power("OFF", 200),
    "flips": Proof("V9", 10_000, flips, f"{{size:,}} flips | {', '.join(f'{{{kind}:,}} {kind}' for kind in FLIPPED)}"),
    "cross": Proof(
        "V15", 10_000, partial(each, proofs.cross), "{runs:,} pairs | {outcome}", "one connection, nothing lost"
    ),
    "wrap": Proof(
        "V17",
        20,
        partial(each, proofs.wrap),
        "{runs:,} wraps of 5,000 messages | {outcome}",
        "nothing lost, no id reused, none 0 or above its end",
    ),
    "clocks": Proof(
        "V20",
        10_000,
        partial(each, proofs.clocks),
        "{runs:,} runs | {outcome}",
        "nothing lost, whatever the clock does",
    ),
    "ages": Proof(
        "V20",
        300,
        partial(each, ages),
        "{runs:,} stories of 5 kills, closes, boots and clocks that are set | {outcome}",
        "every age is what passed",
    ),
    "converge": Proof(
        "V21",
        100_000,
        partial(each, proofs.converge),
        "{runs:,} runs | {outcome}",
        "both sides know the same subscriptions",
    ),
    "dissector": Proof(
        "dissector",
        100_000,
        dissector,
        f"{{inputs:,}} hostile inputs in {len(hostile.LAYOUTS) + 1} forms | {{failed}} errors of the script",
        subjects=connections,
        obstacle=lambda: "" if captures.TSHARK else "no tshark reads captures: on Debian, apt-get install tshark",
    ),
}


def attempt(name: str, portion: list[Any]) -> tuple[Counter[str], list[str]]:
    """Sums, and the failures."""
    counts, failed = Counter[str](), list[str]()
    for subject, counted, wrong in PROOFS[name].prove(portion):
        counts.update(counted)
        if wrong:
            failed.append(f"{name} {subject}: {wrong}")
    return counts, failed


def portions(subjects: list[Any]) -> Iterator[list[Any]]:
    size = max(1, min(500, len(subjects) // 16))
    for start in range(0, len(subjects), size):
        yield subjects[start : start + size]


def run(name: str, size: int, first: int) -> bool:
    proof = PROOFS[name]
    subjects = list(proof.subjects(size, first))
    counts, failed, began = Counter[str](), list[str](), time.monotonic()
    with ProcessPoolExecutor() as pool:
        for counted, wrong in pool.map(partial(attempt, name), portions(subjects)):
            counts.update(counted)
            failed += wrong
    seconds = time.monotonic() - began
    print(f"{name}: {len(subjects)} from {first} on in {seconds:.1f} s, {len(failed)} failed", *failed[:TOLD], sep="\n")
    outcome = f"{len(failed):,} failed" if failed else proof.good
    words = {"size": size, "runs": len(subjects), "failed": len(failed), "outcome": outcome, "seconds": seconds}
    print(f"result: {proof.row} | {proof.result.format_map(Counter(words | counts))}", flush=True)
    return counts["lost"] > 0 if proof.loses else not failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=[*PROOFS])
    parser.add_argument("size", type=int, nargs="?", help="how many runs")
    parser.add_argument("--first", type=int, help="the first number (default: 0, or of power any)")
    options = parser.parse_args()
    proof, first = PROOFS[options.name], options.first
    if obstacle := proof.obstacle():
        print(obstacle)
        return 1
    if first is None:
        first = random.randrange(2**31) if proof.row == "V8" else 0
    return 0 if run(options.name, options.size or proof.size, first) else 1


if __name__ == "__main__":
    sys.exit(main())
