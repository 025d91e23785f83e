"""Measurements: processes, cores, turns."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import IO, Any, Self

from benchmarks._peers import certificates
from benchmarks._peers.brokers import Brokers, NotThere, path_of
from benchmarks._peers.measuring import Setting
from benchmarks._peers.rows import Contestant, Row

ROOT = Path(__file__).parent.parent.parent
LIFE = 60  # seconds of a process beyond what it measures


class Failed(Exception):
    """A measurement gave no figure; the text is the last line that the process wrote."""


@dataclass
class Result:
    """Figures of one contestant in one row: a dictionary for each run."""

    row: Row
    contestant: Contestant
    runs: list[dict[str, float]] = field(default_factory=list)

    def median(self, figure: str) -> float:
        return statistics.median(run[figure] for run in self.runs)


@dataclass(frozen=True)
class LeftOut:
    """Contestant that was not measured, and why."""

    row: str
    contestant: str
    reason: str


@dataclass
class Table:
    """Results of all rows, and who is not in them."""

    results: list[Result] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)

    def result(self, row: Row, contestant: str) -> Result | None:
        return next((one for one in self.results if one.row is row and one.contestant.name == contestant), None)


def two_cores() -> tuple[int, ...]:
    """The cores of the two ends; none where processes cannot be pinned, or there is one core only."""
    if not hasattr(os, "sched_getaffinity"):
        return ()
    cores = sorted(os.sched_getaffinity(0))[:2]
    return tuple(cores) if len(cores) == 2 else ()


class Child:
    """A process that runs a program. Use it as a context manager: it is ended, if it has not by itself."""

    def __init__(self, program: str, setting: Setting, cores: tuple[int, ...], idle: bool = False) -> None:
        life = round(LIFE + 3 * setting.seconds)
        where = ",".join(map(str, cores)), "idle" if idle else "", str(life)
        command = [sys.executable, "-m", "benchmarks._peers.child", program, json.dumps(asdict(setting)), *where]
        self._program = program
        self._errors: IO[str] = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115  # closed at exit
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )

    def heard(self) -> Any:
        """The next line that it says; it ends at the latest when its life is over. Raises Failed."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        with suppress(ValueError):  # half a line, or a complaint of a library
            return json.loads(line)
        code = self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        raise Failed(f"{self._program} has ended ({code}): {last:.200}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._errors.close()


class Bench:
    """Place and means of all measurements. Use it as a context manager."""

    def __init__(self, seconds: float, cores: tuple[int, ...] | None = None) -> None:
        self._seconds = seconds
        self.cores = two_cores() if cores is None else cores
        self._numbers = count()
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        # The system's own place for such may be memory, without fsync.
        name = self._stack.enter_context(tempfile.TemporaryDirectory(prefix=".peers-", dir=Path.cwd()))
        self._directory = Path(name).resolve()
        self._certificates = self._directory / "certificates"
        self._certificates.mkdir()
        certificates.make(self._certificates)
        self._brokers = self._stack.enter_context(Brokers(self._directory, self.cores))
        return self

    def __exit__(self, *_exc: object) -> None:
        self._stack.close()

    def measure(self, contestant: Contestant) -> dict[str, float]:
        """Raises NotThere, Failed."""
        check(contestant)
        directory = self._directory / str(next(self._numbers))
        directory.mkdir()
        given: dict[str, Any] = dict(contestant.setting)
        setting = Setting(self._seconds, str(directory), str(self._certificates), **given)
        if contestant.broker:
            setting = replace(setting, broker=self._brokers.port(contestant.broker))
        with ExitStack() as stack:
            stack.callback(shutil.rmtree, directory, ignore_errors=True)
            if contestant.there:
                there = stack.enter_context(Child(contestant.there, setting, self.cores[-1:]))
                served = there.heard()
                where = served if isinstance(served, dict) else {"port": served}
                setting = replace(setting, **where)
            if contestant.flood:
                return self._beside_a_flood(contestant, setting)
            return self._figures(contestant, setting)

    def _figures(self, contestant: Contestant, setting: Setting) -> dict[str, float]:
        with Child(contestant.here, setting, self.cores[:1]) as here:
            figures = here.heard()
        return figures if isinstance(figures, dict) else {"rate": figures}

    def _beside_a_flood(self, contestant: Contestant, setting: Setting) -> dict[str, float]:
        quiet = self._figures(contestant, setting)
        with Child(contestant.flood, setting, self.cores[:1], idle=True) as flooder:
            flooder.heard()
            began, used = time.perf_counter(), processor_time(setting.pid)
            flooded = self._figures(contestant, setting)
            busy = (processor_time(setting.pid) - used) / (time.perf_counter() - began)
        return {
            "times": flooded["p99"] / quiet["p99"],
            "quiet": quiet["p99"],
            "flooded": flooded["p99"],
            "quiet work": quiet["work p99"],
            "flooded work": flooded["work p99"],
            "server busy": busy * 100,
        }


def processor_time(pid: int) -> float:
    """Seconds; 0 where the system does not say it in this way."""
    with suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def check(contestant: Contestant) -> None:
    """Raises NotThere where something that it needs is not installed."""
    for module in contestant.needs:
        if importlib.util.find_spec(module) is None:
            raise NotThere(f"the module {module} is not installed")
    if contestant.broker:
        path_of(contestant.broker)


def run(
    rows: Iterable[Row],
    measure: Callable[[Contestant], dict[str, float]],
    runs: int,
    told: Callable[[str], object] = lambda _line: None,
) -> Table:
    """All rows, one after the other; in each the contestants take turns, so that all see the same machine."""
    table = Table()
    for row in rows:
        if row.is_hurt_by_nice and os.nice(0) > 0:
            reason = "it says nothing under nice"
            table.left_out += [LeftOut(row.name, one.name, reason) for one in row.contestants]
            continue
        results = {one.name: Result(row, one) for one in row.contestants}
        for turn in range(runs):
            for name, result in [*results.items()]:
                told(f"{row.name}, run {turn + 1} of {runs}: {name}")
                try:
                    result.runs.append(measure(result.contestant))
                except (NotThere, Failed) as why:
                    table.left_out.append(LeftOut(row.name, name, str(why)))
                    del results[name]
        table.results += results.values()
    return table
