"""Fuzzing without coverage, by hypothesis: for tests, and where atheris is missing."""

from __future__ import annotations

import hashlib
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuzz.targets import Body, Target

PER_ROUND = 200
_ODD = st.lists(st.tuples(st.integers(0, 400), st.integers(0, 4), st.binary(max_size=4)), max_size=4)


def damaged(seed: bytes, damages: list[tuple[int, int, bytes]]) -> bytes:
    """A good case with a few bytes changed, inserted or gone."""
    case = bytearray(seed)
    for at, gone, new in damages:
        case[at : at + gone] = new
    return bytes(case)


def search(body: Body, seeds: Sequence[bytes], cases: int) -> None:
    """Gives the body so many cases: any bytes, and damaged seeds. Raises what the body raises for the smallest one."""

    @settings(max_examples=cases, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(st.binary(max_size=200) | st.builds(damaged, st.sampled_from(seeds), _ODD))
    def check(data: bytes) -> None:
        body(data)

    check()


def fuzzed(target: Target, seconds: float, files: Sequence[Path]) -> int:
    """Runs these files, or for so long all that may break the target. Returns the exit status of a program."""
    body, seeds = target.load()
    count, last = 0, b""

    def counting(data: bytes) -> None:
        nonlocal count, last
        count, last = count + 1, data
        body(data)

    until = time.monotonic() + seconds
    first = seeds()
    try:
        for case in [file.read_bytes() for file in files] or [*first, *(path.read_bytes() for path in target.cases)]:
            counting(case)
        while not files and time.monotonic() < until:
            search(counting, first, PER_ROUND)
    except Exception:
        traceback.print_exc()
        crash = Path(f"crash-{hashlib.sha1(last).hexdigest()}")
        crash.write_bytes(last)
        print(f"{target.name} broke after {count} inputs; again: python -m fuzz {target.name} --hypothesis {crash}")
        return 1
    print(f"{target.name}: {count} inputs, none broke it")
    return 0
