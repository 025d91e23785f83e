"""Fuzzing of all targets on all cores (V3). Linux only.

    python -m scripts.prove.fuzz MINUTES [TARGET ...]     in all: the targets share the time

Each target has its share of the time in one run of libFuzzer, which begins with its seeds and with the corpus in the
repository. Cases that reach edges which those do not are kept there, the smallest of each; a case that breaks a promise
is kept as `fuzz/crashes/TARGET/SHA`, and runs in every test from then on. Exit status 1 if there was one. The
sum of all runs is in fuzz/spent.json, which goes into a commit with the corpus.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from fuzz.runner import write_seeds
from fuzz.targets import CRASHES, TARGETS, Target
from scripts.prove.graph import Graph

ROOT = Path(__file__).resolve().parents[2]

MOST_FILES, MOST_BYTES = 200, 200_000  # of all corpora together
SPENT = ROOT / "fuzz" / "spent.json"
SEVERAL = 5  # crashes of a target after which it is left alone
_SMALL = 2_000  # bytes of a case that is kept
_PATIENCE = 300  # seconds beyond its share: seeds are run before the clock is looked at
_STATUS = re.compile(r"#(\d+)\s+\w+\s+cov: (\d+)")
_EXECUTED = re.compile(r"stat::number_of_executed_units: (\d+)|Done (\d+) runs")


@dataclass
class Outcome:
    """Result of a target."""

    target: Target
    inputs: int = 0
    seconds: float = 0.0
    edges: list[tuple[float, int]] = field(default_factory=list)  # seconds since the start, and how many
    crashes: dict[str, str] = field(default_factory=dict)  # file -> the last line that was said
    new: int = 0

    def edges_at(self, share: float) -> int:
        """Number of edges reached after that share of the time."""
        until = self.seconds * share
        return max((edges for at, edges in self.edges if at <= until), default=self.edges[0][1] if self.edges else 0)

    def __str__(self) -> str:
        over_time = " ".join(str(self.edges_at(share)) for share in (0, 0.25, 0.5, 0.75, 1))
        rate = self.inputs / self.seconds if self.seconds else 0
        return (
            f"{self.target.name:20} {self.inputs:>10,} inputs {rate:>7,.0f}/s   edges {over_time}   "
            f"{self.new} new in the corpus, {len(self.crashes)} crashes"
        )


def libfuzzer(target: Target, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "fuzz", target.name, *arguments]


def fuzz(target: Target, seconds: float, work: Path) -> Outcome:
    """The target's share, begun again after each crash as long as there are not many."""
    outcome = Outcome(target)
    (work / target.name).mkdir()
    while outcome.seconds < seconds and len(outcome.crashes) < SEVERAL:
        left = max(1, int(seconds - outcome.seconds))
        if not run(outcome, left, work):
            break
    outcome.new = keep(target, work)
    return outcome


def run(outcome: Outcome, seconds: int, work: Path) -> bool:
    """One run of libFuzzer; whether it ended at a new crash."""
    target, began = outcome.target, time.monotonic()
    before = outcome.seconds
    inputs = 0
    with tempfile.TemporaryDirectory(dir=work) as artifacts:
        options = (f"-max_total_time={seconds}", f"-artifact_prefix={artifacts}/", "-print_final_stats=1")
        command = libfuzzer(target, str(work / target.name), *options)
        last = ""
        for line in lines_of(command, seconds + _PATIENCE):
            status, executed = _STATUS.match(line), _EXECUTED.match(line)
            if status:
                inputs = max(inputs, int(status[1]))
                outcome.edges.append((before + time.monotonic() - began, int(status[2])))
            elif executed:
                inputs = max(inputs, int(executed[1] or executed[2]))
            elif re.match(r"[\w.]*(Error|Failure|Exception)\b", line) or (not last and "libFuzzer: " in line):
                last = line.strip()
        outcome.inputs += inputs
        outcome.seconds = before + time.monotonic() - began
        found = [path for path in Path(artifacts).iterdir() if path.is_file()]
        for path in found:
            outcome.crashes[str(kept_as_crash(target, path))] = last
    return bool(found)


def lines_of(command: list[str], patience: float) -> Iterator[str]:
    """Lines that a process writes, one by one; it is ended if it goes on for longer."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "transports")))}
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    until = time.monotonic() + patience
    assert process.stdout is not None
    with process:
        for line in process.stdout:
            yield line
            if time.monotonic() > until:
                process.kill()


def kept_as_crash(target: Target, path: Path) -> Path:
    data = path.read_bytes()
    target.crashes.mkdir(parents=True, exist_ok=True)
    kept = target.crashes / hashlib.sha1(data).hexdigest()
    kept.write_bytes(data)
    return kept.relative_to(ROOT)


def keep(target: Target, work: Path) -> int:
    """The corpus anew: of what it had and what was found, the cases that reach something that the seeds do not.

    Returns how many came in. The smallest go first, so they are those that stay.
    """
    with tempfile.TemporaryDirectory(dir=work) as directory:
        seeds = Path(directory, "seeds")
        seeds.mkdir()
        write_seeds(seeds, target.load()[1]())
        had = sorted(target.corpus.glob("*"))
        more = sorted((work / target.name).glob("*"), key=lambda path: path.stat().st_size)
        first = sorted(seeds.glob("*"))
        files = [*first, *had, *(path for path in more if path.stat().st_size <= _SMALL)]
        reached = features(target, files, Path(directory, "control"))
        useful = [(count, path) for path, count in zip(files, reached, strict=True) if count and path.parent != seeds]
        useful.sort(key=lambda pair: -pair[0])
        files_left, bytes_left = MOST_FILES // len(TARGETS), MOST_BYTES // len(TARGETS)
        chosen: dict[str, bytes] = {}
        for _, path in useful:
            data = path.read_bytes()
            if len(chosen) < files_left and len(data) <= bytes_left:
                chosen[hashlib.sha1(data).hexdigest()] = data
                bytes_left -= len(data)
        names = {path.name for path in had}
        shutil.rmtree(target.corpus, ignore_errors=True)
        target.corpus.mkdir(parents=True)
        for name, data in chosen.items():
            (target.corpus / name).write_bytes(data)
        return len(chosen.keys() - names)


def features(target: Target, files: list[Path], control: Path) -> list[int]:
    """For each file in turn how much it reaches that those before it do not: what `-merge=1` asks its inner process."""
    control.write_text("\n".join([str(len(files)), "0", *map(str, files)]) + "\n")
    for _ in lines_of(libfuzzer(target, "-merge_inner=1", f"-merge_control_file={control}"), 20 * _PATIENCE):
        pass
    found = {
        int(line.split()[1]): len(line.split()) - 2 for line in control.read_text().splitlines() if line[:3] == "FT "
    }
    return [found.get(number, 0) for number in range(len(files))]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("minutes", type=float)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"some of {', '.join(TARGETS)}; all by default")
    options = parser.parse_args()
    unknown = [name for name in options.targets if name not in TARGETS]
    if unknown:
        parser.error(f"no target {unknown[0]!r}: there are {', '.join(TARGETS)}")
    targets = [TARGETS[name] for name in options.targets or TARGETS]
    cores = os.cpu_count() or 1
    share = options.minutes * 60 * cores / len(targets)
    print(f"{len(targets)} targets on {cores} cores, {share:.0f} s each; edges at the start and after each quarter")
    with tempfile.TemporaryDirectory() as directory, ThreadPoolExecutor(cores) as pool:
        outcomes = []
        for outcome in pool.map(partial(fuzz, seconds=share, work=Path(directory)), targets):
            print(outcome, flush=True)
            outcomes.append(outcome)
    for outcome in outcomes:
        for path, said in outcome.crashes.items():
            print(f"crash: {path}: {said}\n  again: python -m fuzz {outcome.target.name} {path}")
    inputs, crashes = sum(one.inputs for one in outcomes), sum(len(one.crashes) for one in outcomes)
    minutes = sum(one.seconds for one in outcomes) / 60
    silent = [one.target.name for one in outcomes if not one.inputs]
    if silent:
        print(f"nothing was run of {', '.join(silent)}: what does `python -m fuzz {silent[0]} -runs=1` say?")
    so_far = spend(inputs, minutes)
    before, after = (sum(one.edges_at(share) for one in outcomes) for share in (0, 1))
    steps = [sum(one.edges_at(step / 24) for one in outcomes) for step in range(25)]
    print(Graph("edges that all targets have reached, over the run", steps).said())
    print(
        f"result: V3 | {inputs:,} inputs in {minutes:,.1f} core-minutes over {len(targets)} targets | "
        f"{crashes} crashes, edges {before:,} -> {after:,}, {kept_crashes()} cases of crashes kept, {so_far}"
    )
    return 1 if crashes or silent else 0


def spend(inputs: int, minutes: float) -> str:
    """Adds what this run took to the sum of all runs; returns the sum in words."""
    spent = json.loads(SPENT.read_text())
    spent["inputs"] += inputs
    spent["core_minutes"] = round(spent["core_minutes"] + minutes, 1)
    SPENT.write_text(json.dumps(spent, indent=1) + "\n")
    return f"{spent['inputs']:,} inputs in {spent['core_minutes'] / 60:,.1f} core-hours since {spent['since']}"


def kept_crashes() -> int:
    return sum(path.is_file() for path in CRASHES.rglob("*"))


if __name__ == "__main__":
    sys.exit(main())
