"""Many stagers, one table: kills of stagers, drivers and executors, while a fifth stager joins.

    python -m scripts.prove.spark_stages [KILLS] [ROWS] [--stagers 4] [--seed N]      20 kills, 1,000,000 rows
    python -m scripts.prove.spark_stages [KILLS] [ROWS] --machines                    each stager on one of its own
    python -m scripts.prove.spark_stages [KILLS] [ROWS] --consumers                   one stage, on a full disk

Two senders for each stager, each message a number, over mutual TLS. A query reads all stages as named sources, with
executors that are processes (`local-cluster`), and writes the numbers into Parquet. Every process that is killed is
started again, and the query goes on from its checkpoint. After half of the kills one more stager joins with senders of
its own: the query is killed and started again with one source more. In the end each number must stand in the table,
once. Exit status 1 if one is missing, or is there twice.

With `--machines`, as root, each stager is in a network namespace, and the line to it may be cut for some seconds, in
place of a kill: nobody is told, and what was under way is gone. The disk is one, as a file server's is.

With `--consumers` there is one stage on a disk of three MiB, and two queries read it under names of their own. Again
and again one is killed and stays away until the disk is full; then the stager or the other query is killed, and all are
started again. Both tables must have each number once. In the end a third reader, of another stage that keeps few bytes,
is away until it is overtaken, and the stager is killed: the reader must be told how many messages it missed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
from tolliver.spark.local import local_session
from tolliver.staging import StageLost

from tests.certificates import Certificates
from tests.ports import free_port
from tests.spark.queries import Query as Batches
from tests.spark.quick import SOURCES
from tests.spark.rig import Program
from tests.spark.senders import Sender
from tests.staging.disks import small_disk

from .spark_soak import PATIENCE, wait_for

DRIVER = Path(__file__).resolve().parents[2] / "tests" / "spark" / "driver.py"
SENDERS = 2  # of each stager
APART = 10**8  # between the numbers of two senders
CLUSTER = "local-cluster[2,1,1024]"
FULL = 2**17  # bytes that are left on a full disk, at most


class Machine:
    """Network namespace, with a line to it."""

    def __init__(self, number: int) -> None:
        self.space, self._line = f"tolliver-{os.getpid()}-{number}", f"tolliver{number}"
        self.host, self._other = (f"10.212.{number}.{end}" for end in (2, 1))

    def up(self) -> None:
        _ip("netns", "add", self.space)
        _ip("link", "add", self._line, "type", "veth", "peer", "name", "eth0", "netns", self.space)
        _ip("addr", "add", f"{self._other}/24", "dev", self._line)
        _ip("link", "set", self._line, "up")
        _ip("-n", self.space, "addr", "add", f"{self.host}/24", "dev", "eth0")
        for end in ("eth0", "lo"):
            _ip("-n", self.space, "link", "set", end, "up")

    def cut(self, seconds: float) -> None:
        _ip("link", "set", self._line, "down")
        time.sleep(seconds)
        _ip("link", "set", self._line, "up")


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


@contextmanager
def machine(number: int) -> Iterator[Machine]:
    made = Machine(number)
    try:
        made.up()
        yield made
    finally:
        subprocess.run(["ip", "netns", "del", made.space], check=False)  # with both ends of its line


class Staged:
    """One stager, a process of its own, with its senders."""

    def __init__(
        self,
        number: int,
        directory: Path,
        certs: Certificates,
        each: int,
        disk: Path | None = None,
        *more: str,
        machine: Machine | None = None,
    ) -> None:
        self.directory, self.machine, self._more = (disk or directory) / f"stage{number}", machine, more
        self.address = f"{machine.host}:7011" if machine else f"127.0.0.1:{free_port()}"
        self._tls = certs.tls(f"stager{number}")
        self._process: subprocess.Popen[bytes] | None = None
        dialled = f"{certs.uuid(f'stager{number}')}@{self.address}"  # its certificate is not for the address
        names = [f"sender{number}-{one}" for one in range(SENDERS)]
        firsts = [(number * SENDERS + one) * APART + 1 for one in range(SENDERS)]
        self.senders = [
            Sender(directory / f"{name}.db", dialled, certs.tls(name), first, each, 200)
            for name, first in zip(names, firsts, strict=True)
        ]

    def start(self) -> None:
        """Also after a kill, at the same address."""
        files: list[Any] = ["--cert", self._tls.cert, "--key-file", self._tls.key, "--ca", self._tls.ca]
        words = [
            "stage",
            self.directory,
            "--listen",
            self.address,
            "--channel",
            "readings",
            *files,
            *self._more,
        ]
        within = ["ip", "netns", "exec", self.machine.space] if self.machine else []
        command = [*within, sys.executable, "-m", "tolliver.cli", *map(str, words)]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self._process = subprocess.Popen(command, env=os.environ | {"PYTHONPATH": SOURCES}, **quiet)  # type: ignore[call-overload]
        wait_for((self.directory / "stage.json").exists)

    def ended(self) -> bool:
        """By itself, as one does that finds no room for long."""
        return self._process is not None and self._process.poll() is not None

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


class Query:
    """A driver with its executors, over all stages that there are."""

    def __init__(self, directory: Path, master: str = CLUSTER, **options: str) -> None:
        self.output, self.checkpoint = directory / "output", directory / "checkpoint"
        self._master, self._options = master, options
        self._program: Program | None = None

    def start(self, stages: list[Staged]) -> None:
        given = [{"stagingDir": str(stage.directory), "staging": "external", **self._options} for stage in stages]
        self._program = Program(DRIVER, json.dumps(given), str(self.output), str(self.checkpoint), self._master)
        self._program.go()

    def batches(self) -> int:
        return len([*self.checkpoint.glob("commits/[0-9]*")])

    def executors(self) -> list[psutil.Process]:
        assert self._program is not None
        found = []
        for one in psutil.Process(self._program.process.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):  # its end may come, or have come, at any time
                if any("CoarseGrainedExecutorBackend" in word for word in one.cmdline()):
                    found.append(one)
        return found

    def kill(self) -> None:
        if self._program is not None:
            executors = self.executors() if self._program.process.poll() is None else []
            self._program.kill()
            for one in executors:
                with suppress(psutil.NoSuchProcess):
                    one.kill()


def run(directory: Path, kills: int, rows: int, stagers: int, on_machines: bool, rng: random.Random) -> tuple[int, int]:
    """Rows that are lost, and those that are there more than once."""
    (made := directory / "certificates").mkdir()
    certs = Certificates(made)
    each = rows // (SENDERS * (stagers + 1))
    with ExitStack() as stack:
        everyone = [
            Staged(
                number,
                directory,
                certs,
                each,
                machine=stack.enter_context(machine(number)) if on_machines else None,
            )
            for number in range(stagers + 1)
        ]
        stages, query = everyone[:-1], Query(directory)
        stack.callback(query.kill)

        def join(stage: Staged) -> None:
            stack.callback(stage.kill)
            stage.start()
            for sender in stage.senders:
                sender.allowed = 0
                stack.enter_context(sender)

        for stage in stages:
            join(stage)
        query.start(stages)
        for number in range(1, kills + 1):
            for stage in stages:
                for sender in stage.senders:
                    sender.allowed = number * each / (kills + 1)
            before = query.batches()
            wait_for(lambda before=before: query.batches() > before)  # type: ignore[misc]
            time.sleep(rng.uniform(0, 1.0))
            joins = number == (kills + 1) // 2
            victim = (
                "driver" if joins else rng.choice(("driver", "executor", "stager", "line" if on_machines else "stager"))
            )
            executors = query.executors()
            print(f"kill {number}: {victim}, after {query.batches()} batches of {len(stages)} stages", flush=True)
            if joins:
                join(everyone[-1])
                stages = everyone
            if victim == "driver":
                query.kill()
                query.start(stages)
            elif victim == "executor" and executors:
                with suppress(psutil.NoSuchProcess):
                    rng.choice(executors).kill()
            else:
                hit = rng.choice(stages)
                if victim == "line" and hit.machine is not None:
                    hit.machine.cut(rng.uniform(0.5, 10.0))
                else:
                    hit.kill()
                    hit.start()
        for stage in stages:
            for sender in stage.senders:
                sender.allowed = float("inf")
        for stage in stages:
            assert all(sender.drained(PATIENCE) for sender in stage.senders), "senders still wait for acknowledgements"
        expected = sum(sender.sent for stage in stages for sender in stage.senders)
        assert expected == each * SENDERS * len(stages)
        return _counted(query, expected)


# Readers with places of their own.


def run_consumers(directory: Path, kills: int, rows: int, rng: random.Random) -> tuple[int, int, int]:
    """Rows that are lost, those that are there more than once, and how often the disk was full."""
    (made := directory / "certificates").mkdir()
    certs = Certificates(made)
    full = 0
    with ExitStack() as stack:
        stack.enter_context(small_disk(disk := directory / "disk", 3 * 1024))
        stage = Staged(0, directory, certs, rows // SENDERS, disk, "--max-bytes", "2000000", "--full-timeout", "5")
        stack.callback(stage.kill)
        stage.start()
        names = ("one", "two")
        queries = [Query(directory / name, "local[2,4]", consumer=name, maxRowsPerTrigger="20000") for name in names]
        for query in queries:
            stack.callback(query.kill)
            query.start([stage])
        wait_for(lambda: len([*stage.directory.glob("consumers/*")]) == len(queries))  # else one deletes alone
        senders = [stack.enter_context(sender) for sender in stage.senders]

        def at_work() -> bool:
            """As a service manager sees to it: an end of its own is no end."""
            if stage.ended():
                stage.start()
            return True

        def is_full() -> bool:
            left = os.statvfs(disk)
            return at_work() and left.f_bavail * left.f_frsize < FULL

        def all_sent() -> bool:
            return all(sender.sent == sender.count for sender in senders)

        for number in range(1, kills + 1):
            away, other = rng.sample(queries, 2)
            away.kill()
            wait_for(lambda: is_full() or all_sent())
            full += is_full()
            victim = rng.choice(("stager", "driver"))
            print(
                f"kill {number}: {victim}, full: {is_full()}, {sum(sender.sent for sender in senders)} sent", flush=True
            )
            if victim == "driver":
                other.kill()
                other.start([stage])
            else:
                stage.kill()
                stage.start()
            before = away.batches()
            away.start([stage])
            wait_for(lambda before=before, away=away: at_work() and away.batches() > before)  # type: ignore[misc]
        wait_for(lambda: at_work() and all_sent() and all(not sender.is_alive() for sender in senders))
        expected = sum(sender.sent for sender in senders)
        counts = [_counted(query, expected) for query in queries]
    lost, twice = map(sum, zip(*counts, strict=True))
    return lost, twice, full


def overtaken(directory: Path, rows: int) -> int:
    """Messages that the reader was told to have missed. The rows before and after them are checked here."""
    (made := directory / "certificates2").mkdir()
    stage = Staged(1, directory, Certificates(made), rows // SENDERS, None, "--keep-bytes", "400000")
    with ExitStack() as stack:
        stack.callback(stage.kill)
        stage.start()
        senders = [stack.enter_context(sender) for sender in stage.senders]
        given = {"staging": "external", "stagingDir": stage.directory, "consumer": "late", "maxRowsPerTrigger": 1000}
        late = Batches(None, **given)
        wait_for(late.step)
        read = len(late.rows)
        wait_for(lambda: all(not sender.is_alive() for sender in senders))
        stage.kill()
        stage.start()
        late.start()  # from its checkpoint, after a kill
        try:
            late.drain()
        except StageLost as lost:
            told = int(re.findall(r"so are (\d+) messages", str(lost))[0])
        else:
            raise AssertionError("it was overtaken, and nobody told it")
        late.options["failOnDataLoss"] = False
        late.start()
        late.drain()
        total = sum(sender.sent for sender in senders)
        bodies = {*late.bodies}
        assert len(bodies) == len(late.bodies), "some came twice"
        assert read + told + len(late.bodies[read:]) == total, "it was told another number than it missed"
        return told


def _counted(query: Query, expected: int) -> tuple[int, int]:
    """Counts the table once the query has read all; a query that stands still for long has lost the rest."""
    with local_session() as spark:
        count, since = -1, time.monotonic()
        while time.monotonic() - since < 60.0:
            numbers = spark.read.parquet(str(query.output)).select("number")
            if (now := numbers.count()) >= expected:
                break
            count, since = now, since if now == count else time.monotonic()
            time.sleep(1.0)
        time.sleep(5.0)  # for what may come twice
        numbers = spark.read.parquet(str(query.output)).select("number")
        count, distinct = numbers.count(), numbers.distinct().count()
        return expected - distinct, count - distinct


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kills", type=int, nargs="?", default=20)
    parser.add_argument("rows", type=int, nargs="?", default=1_000_000)
    parser.add_argument("--stagers", type=int, default=4, help="at the start; one more joins")
    parser.add_argument(
        "--machines", action="store_true", help="each stager in a network namespace; needs root and `ip`"
    )
    parser.add_argument("--consumers", action="store_true", help="two readers of one stage on a full disk")
    parser.add_argument("--seed", type=int, default=random.randrange(2**31))
    given = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    print(f"seed {given.seed}", flush=True)
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        if given.consumers:
            lost, twice, full = run_consumers(Path(name), given.kills, given.rows, random.Random(given.seed))
            told = overtaken(Path(name), given.rows)
            size = f"{given.kills} kills, {full} times on a full disk"
            figures = f"{given.rows:,} rows for each of 2 readers, {lost} lost, {twice} twice, {told:,} missed and told"
            print(f"{time.monotonic() - begun:.0f} s")
            print(f"result: consumers | {size} | {figures}")
            return 1 if lost or twice else 0
        lost, twice = run(Path(name), given.kills, given.rows, given.stagers, given.machines, random.Random(given.seed))
    where = ", on machines of their own" if given.machines else ""
    size = f"{given.stagers} stagers and one that joins{where}, {given.kills} kills"
    print(f"{time.monotonic() - begun:.0f} s")
    print(f"result: stagers | {size} | {given.rows:,} rows, {lost} lost, {twice} twice")
    return 1 if lost or twice else 0


if __name__ == "__main__":
    sys.exit(main())
