"""Soak of Spark: kills of drivers, JVMs and stagers (V25).

    python -m scripts.prove.spark_soak [KILLS] [MESSAGES] [--external | --streams | --copies] [--seed N]
                                                                20 kills, 1,000,000 messages

Two peers send over mutual TLS, each message a number. A query writes the numbers into Parquet; it receives by itself
(staging=shared), or a process beside it does (--external), which is killed as well. Every process that is killed is
started again, and the query goes on from its checkpoint. In the end each number must stand in the table, once. With
--streams a publisher gives each number to one subscriber, once, and `tolliver stage --stream` takes them for
format("tolliver-rs"): of a stream nothing is taken up again (R-31), so with each stager that is killed a window of
numbers may be missing, and none comes twice. Exit status 1 if more is missing, or one is there twice.

With --copies a process fills a stage and is killed, and while it is down the folder is copied, or at every second kill
replaced by the copy; then another process goes on with other messages. Messages that came after the copy are gone, by
intent. But a query must read all that stands in the stage, or end and say that it cannot; then it goes on with
failOnDataLoss=false. Exit status 1 if a message stood in the stage that no query read, or if a query ended where
nothing had been restored.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from uuid import UUID

from tolliver.blocking import StreamsOptions, create_streams
from tolliver.spark import register
from tolliver.spark.local import local_session
from tolliver.staging import FolderOptions, StageFolder, StageOptions, Stager, StageWriter

from tests.certificates import Certificates
from tests.spark.quick import SOURCES
from tests.spark.rig import Driver, Rig
from tests.spark.senders import ends, stager_of
from tests.staging.stages import staged
from tolliver_proto import Message, Revision

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ITSELF = [sys.executable, "-m", "scripts.prove.spark_soak"]
PATIENCE = 600.0  # seconds for one step
OTHER = 10**9  # where the second peer's numbers begin
LIFE = 10**6  # numbers of a process that fills a stage
BLOCK = 10  # messages that it stages at once
WINDOW = 256  # elements of a stream that may be on their way


class Faucet:
    """A publisher whose subscribers share out the numbers, up to those that are allowed."""

    def __init__(self, rig: Rig, count: int) -> None:
        self.count = count
        self.allowed: float = 0
        self._given = 0
        self._lock = threading.Lock()
        self._streams = create_streams(StreamsOptions(listen="127.0.0.1:0", tls=rig.certs.tls("publisher")))

    def __enter__(self) -> Self:
        self._streams.__enter__()
        self._streams.publish("numbers", self._numbers)
        return self

    def __exit__(self, *_exc: object) -> None:
        self._streams.close()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._streams.port}"

    def _numbers(self, _name: str) -> Iterator[bytes]:
        while self._given < self.count:
            with self._lock:
                is_allowed = self._given < self.allowed
                self._given = number = self._given + is_allowed
            if is_allowed:
                yield b"%d" % number
            else:
                time.sleep(0.01)

    def drained(self, patience: float) -> bool:
        """All is given, and what of it came is on the disk: the stager has nothing more to wait for."""
        wait_for(lambda: self._given >= self.count)
        time.sleep(2.0)  # for the last sync
        return True


class Soak:
    """The peers, the query that runs and the one that waits for its turn, and who receives where the query does not."""

    def __init__(
        self, rig: Rig, kills: int, messages: int, *, external: bool, streams: bool, rng: random.Random
    ) -> None:
        self.rig, self.kills, self.external, self.rng = rig, kills, external or streams, rng
        self.stagers_killed = 0
        half = messages // 2
        self.faucet = Faucet(rig, messages) if streams else None
        self.senders: list[Any] = (
            [self.faucet] if streams else [rig.sender("alice", 1, half), rig.sender("carol", OTHER, messages - half)]
        )
        for sender in self.senders:
            sender.allowed = 0  # else all may be staged before the first query runs
        self.staging: dict[str, Any] = {"staging": "external"} if self.external else {}
        if streams:
            self.staging["format"] = "tolliver-rs"
        self.stager: subprocess.Popen[bytes] | None = None
        self.driver: Driver | None = None
        self.waiting: Driver | None = None

    @contextmanager
    def running(self) -> Iterator[None]:
        with ExitStack() as stack:
            stack.callback(self._end)
            for sender in self.senders:
                stack.enter_context(sender)
            self._stage()
            yield

    def _end(self) -> None:
        for driver in (self.driver, self.waiting):
            if driver is not None:
                driver.kill()
        if self.stager is not None:
            self.stager.kill()
            self.stager.wait()

    def _stage(self) -> None:
        if self.faucet is not None:
            tls = self.rig.certs.tls("job")
            identity = ["--cert", tls.cert, "--key-file", tls.key, "--ca", tls.ca]
            where = ["--connect", self.faucet.address, "--stream", "numbers", "--window", WINDOW]
            words: list[Any] = ["-m", "tolliver.cli", "stage", self.rig.stage, *where, *identity]
            command = [sys.executable, *(str(word) for word in words)]
            self.stager = subprocess.Popen(command, env=os.environ | {"PYTHONPATH": SOURCES})
            wait_for(lambda: (self.rig.stage / "stage.json").exists())
        elif self.external:
            options = self.rig.options()
            names = [options[f"tls.{name}"] for name in ("cert", "key", "ca")]
            self.stager = subprocess.Popen([*ITSELF, "--stage", str(self.rig.stage), options["listen"], *names])
            wait_for(lambda: (self.rig.stage / "stage.json").exists())

    def _next_driver(self) -> Driver:
        self.driver = self.waiting or Driver(self.rig, **self.staging)
        self.waiting = Driver(self.rig, **self.staging)  # its JVM starts while the other one works
        self.driver.go()
        return self.driver

    def run(self) -> None:
        """All the kills. Every life of a query commits a batch at least."""
        driver = self._next_driver()
        for number in range(1, self.kills + 1):
            for sender in self.senders:
                sender.allowed = number * (sender.count or 0) / (self.kills + 1)
            self._progress()
            time.sleep(self.rng.uniform(0, 1.0))
            victim = self.rng.choice(("driver", "driver", "stager"))
            stager = 0 if self.external else stager_of(self.rig.stage)
            print(f"kill {number}: the {victim}, after {self.rig.batches()} batches", flush=True)
            if victim == "driver":
                driver.kill()
                assert self.external or ends(stager, PATIENCE), f"the stager {stager} lives on without its JVM"
                driver = self._next_driver()
            elif self.stager is not None:
                self.stager.kill()
                self.stager.wait()
                self.stagers_killed += 1
                self._stage()
            else:
                self._kill_within(stager)
        driver.kill()
        for sender in self.senders:
            sender.allowed = float("inf")

    def _kill_within(self, stager: int) -> None:
        """The one that the query has: the batch that runs may end without it, so the next one is waited for."""
        os.kill(stager, signal.SIGKILL)
        wait_for(lambda: stager_of(self.rig.stage) != stager)

    def _progress(self) -> None:
        before = self.rig.batches()
        wait_for(lambda: self.rig.batches() > before)

    def finish(self, spark: SparkSession) -> None:
        """Everything that is still to come, in a last life."""
        query = self._query(spark)
        for sender in self.senders:
            assert sender.drained(PATIENCE), "the peers still wait for acknowledgements"
        query.processAllAvailable()
        query.stop()

    def _query(self, spark: SparkSession) -> Any:
        if self.faucet is None:
            return self.rig.query(spark, **self.staging)
        register(spark)
        options = {"staging": "external", "stagingDir": str(self.rig.stage)}
        received = spark.readStream.format("tolliver-rs").options(**options).load()
        rows = received.selectExpr("CAST(decode(element, 'utf-8') AS BIGINT) AS number")
        writer = rows.writeStream.format("parquet").option("path", str(self.rig.output))
        return writer.option("checkpointLocation", str(self.rig.checkpoint)).start()


class Copies:
    """A stage whose folder is restored from a copy, between kills of the service that fills it.

    All messages have one size, and all blocks: so places where a query has been are places again after that.
    """

    def __init__(self, rig: Rig, kills: int, messages: int, rng: random.Random, spark: SparkSession) -> None:
        self._rig, self._kills, self._rng, self._spark = rig, kills, rng, spark
        self._share = messages // (2 * kills)
        self._copy = rig.directory / "copy"
        self.restored = self.told = self.false_alarms = self._read_to = 0
        self.stood: set[int] = set()
        self.unread: set[int] = set()

    def run(self) -> None:
        with self._filled(0, self._share):
            wait_for(lambda: self._has(BLOCK))
            time.sleep(self._rng.uniform(0, 1.0))
        for number in range(1, self._kills + 1):
            is_restored = number % 2 == 0
            at, to = (self._copy, self._rig.stage) if is_restored else (self._rig.stage, self._copy)
            shutil.rmtree(to, ignore_errors=True)
            shutil.copytree(at, to)
            self.restored += is_restored
            print(f"kill {number}{', and a copy is restored' if is_restored else ''}", flush=True)
            with self._filled(number, (3 if is_restored else 1) * self._share):
                # Behind the place where the query is: what came instead would be passed over there.
                wait_for(partial(self._has, max(self._frames(), self._read_to) + self._share // 8))
                self._read(is_restored=is_restored)
        self._read(is_restored=False)

    @contextmanager
    def _filled(self, life: int, count: int) -> Iterator[None]:
        """By a process that is killed in the end."""
        words = ["--fill", str(self._rig.stage), str(life * LIFE + OTHER), str(count)]
        process = subprocess.Popen([*ITSELF, *words])
        try:
            yield
            time.sleep(self._rng.uniform(0, 0.5))
        finally:
            process.kill()
            process.wait()

    def _frames(self) -> int:
        head = StageFolder(self._rig.stage).head()
        return 0 if head is None else head.frames

    def _has(self, frames: int) -> bool:
        return (self._rig.stage / "head").exists() and self._frames() >= frames

    def _read(self, *, is_restored: bool) -> None:
        """All that stands there now is in the table, once a query has ended well that began later."""
        there = {int(message.body) for _, message in staged(self._rig.stage)}
        self.stood |= there
        if (error := self._query(failOnDataLoss=True)) is not None:
            assert "failOnDataLoss=false" in str(error), error
            self.told += is_restored
            self.false_alarms += not is_restored
            assert (error := self._query(failOnDataLoss=False)) is None, error
        self._read_to = self._frames()
        self.unread |= there - set(self._rig.numbers(self._spark))

    def _query(self, **more: object) -> Any:
        given = {"staging": "external", "deleteConsumed": False, **more}
        query = self._rig.query(self._spark, now=True, **given)
        wait_for(lambda: not query.isActive)
        return query.exception()


def fill(directory: str, first: int, count: int) -> None:
    """The process that stages numbers, a block at a time, until it is killed."""
    writer = StageWriter(FolderOptions(directory=Path(directory), lock_timeout=60.0))
    for start in range(first, first + count, BLOCK):
        bodies = range(start, start + BLOCK)
        writer.add(UUID(int=1), 1, Revision.DRAFT_2, [Message("readings", "", b"%d" % at, at) for at in bodies])
        writer.sync()
        time.sleep(0.002)
    signal.pause()


def prove_copies(rig: Rig, kills: int, messages: int, rng: random.Random) -> int:
    """Exit status."""
    begun = time.monotonic()
    with local_session() as spark:
        copies = Copies(rig, kills, messages, rng, spark)
        copies.run()
    print(f"{kills} kills in {time.monotonic() - begun:.0f} s")
    print(
        f"result: copies | {kills} kills, {copies.restored} of them with a copy restored, staging=external | "
        f"{len(copies.stood):,} messages stood in the stage, {len(copies.unread)} unread, {copies.told} times told of "
        f"it, {copies.false_alarms} times without reason"
    )
    return 1 if copies.unread or copies.false_alarms else 0


def wait_for(true: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.05)


def stage(directory: str, listen: str, *files: str) -> None:
    """The process that receives, until it is killed."""
    from tolliver.blocking import TLS

    options = StageOptions(directory=Path(directory), listen=listen, tls=TLS(*map(Path, files)), lock_timeout=60.0)
    with Stager(options) as stager:
        while True:
            stager.check()
            time.sleep(0.5)


def main() -> int:
    if sys.argv[1:2] == ["--stage"]:
        stage(*sys.argv[2:])
        return 1
    if sys.argv[1:2] == ["--fill"]:
        fill(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
        return 1
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kills", type=int, nargs="?", default=20)
    parser.add_argument("messages", type=int, nargs="?", default=1_000_000)
    parser.add_argument("--external", action="store_true", help="a process of its own receives")
    parser.add_argument("--streams", action="store_true", help="elements of a stream, which a service stages")
    parser.add_argument("--copies", action="store_true", help="a service's stage that is restored from backups")
    parser.add_argument("--seed", type=int, default=random.randrange(2**31))
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        (made := directory / "certificates").mkdir()
        rig = Rig(directory, Certificates(made))
        if given.copies:
            return prove_copies(rig, given.kills, given.messages, random.Random(given.seed))
        soak = Soak(
            rig,
            given.kills,
            given.messages,
            external=given.external,
            streams=given.streams,
            rng=random.Random(given.seed),
        )
        with soak.running():
            soak.run()
            with local_session() as spark:
                soak.finish(spark)
                half = given.messages if given.streams else given.messages // 2
                rows = spark.read.parquet(str(rig.output))
                last = OTHER + given.messages - half - 1
                right = rows.where(f"number BETWEEN 1 AND {half} OR number BETWEEN {OTHER} AND {last}")
                count, distinct = rows.count(), right.select("number").distinct().count()
    lost, twice = given.messages - distinct, count - distinct
    print(f"{given.kills} kills in {time.monotonic() - begun:.0f} s, {count} rows, {distinct} of the numbers")
    may_lose = WINDOW * soak.stagers_killed if given.streams else 0
    staging = "shared" if not soak.external else "external, of a stream" if given.streams else "external"
    size = f"{given.kills} kills, staging={staging}"
    bound = f" of at most {may_lose}, {soak.stagers_killed} windows" if given.streams else ""
    print(f"result: V25 | {size} | {given.messages:,} messages, {lost} lost{bound}, {twice} twice")
    return 1 if lost > may_lose or twice else 0


if __name__ == "__main__":
    sys.exit(main())
