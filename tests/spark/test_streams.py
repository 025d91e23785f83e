"""Live streams in a real Spark, from real peers over TLS: started, stopped, restarted, killed.

The idea: a query costs more than its rows, so each test is a story with several endings.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tolliver_transports.spark import lag

from tests.certificates import Certificates

from .conftest import SOURCES
from .senders import Sender, ends, free_port, stager_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")

PATIENCE = 120.0  # seconds
HERE = Path(__file__).parent


def wait_for(true: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.02)


class Rig:
    """A stage, an output and a checkpoint; and who may send."""

    def __init__(self, directory: Path, certs: Certificates) -> None:
        self.directory, self.certs = directory, certs
        self.stage, self.output, self.checkpoint = (directory / name for name in ("stage", "output", "checkpoint"))
        self.port = free_port()

    def options(self, **more: object) -> dict[str, str]:
        tls = self.certs.tls("bob")
        given = {
            "listen": f"127.0.0.1:{self.port}",
            "tls.cert": tls.cert,
            "tls.key": tls.key,
            "tls.ca": tls.ca,
            "stagingDir": self.stage,
            "channels": "readings",
            **more,
        }
        return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in given.items()}

    def sender(self, name: str, first: int, count: int | None, pause: float = 0.0) -> Sender:
        return Sender(self.directory / f"{name}.db", self.port, self.certs.tls(name), first, count, 200, pause)

    def query(self, spark: SparkSession, now: bool = False, **more: object) -> Any:
        received = spark.readStream.format("tolliver").options(**self.options(**more)).load()
        writer = self.sink(received)
        return (writer.trigger(availableNow=True) if now else writer).start()

    def sink(self, received: DataFrame) -> Any:
        rows = received.selectExpr("CAST(decode(body, 'utf-8') AS BIGINT) AS number", "sender")
        to = rows.writeStream.format("parquet").option("path", str(self.output))
        return to.option("checkpointLocation", str(self.checkpoint))

    def numbers(self, spark: SparkSession) -> list[int]:
        return sorted(row.number for row in spark.read.parquet(str(self.output)).select("number").collect())

    def batches(self) -> int:
        return len([*self.checkpoint.glob("commits/[0-9]*")])


@pytest.fixture
def rig(tmp_path: Path, certs: Certificates) -> Rig:
    return Rig(tmp_path, certs)


def test_two_peers_restarts_and_what_is_lost(rig: Rig, spark: SparkSession) -> None:
    with rig.sender("alice", 1, 3_000) as alice, rig.sender("carol", 10_001, 3_000) as carol:
        query = rig.query(spark)
        assert alice.drained(PATIENCE)
        assert carol.drained(PATIENCE)
    query.processAllAvailable()
    assert lag(query.lastProgress) == [0]
    stager = stager_of(rig.stage)
    query.stop()
    assert ends(stager, PATIENCE)
    expected = [*range(1, 3_001), *range(10_001, 13_001)]

    # From the checkpoint: nothing twice; then what came, up to now.
    with rig.sender("alice", 3_001, 500) as alice:
        query = rig.query(spark, maxRowsPerTrigger=200)
        assert alice.drained(PATIENCE)
    query.stop()
    query = rig.query(spark, now=True, maxRowsPerTrigger=200)
    query.awaitTermination()
    assert query.exception() is None
    expected = sorted([*expected, *range(3_001, 3_501)])
    assert rig.numbers(spark) == expected
    senders = spark.read.parquet(str(rig.output)).select("sender").distinct().collect()
    assert {row.sender for row in senders} == {str(rig.certs.uuid(name)) for name in ("alice", "carol")}

    # Another stage in its place, as after a disk was lost.
    wait_for(lambda: not stager_of(rig.stage) or ends(stager_of(rig.stage), PATIENCE))
    rig.stage.rename(rig.stage.with_name("lost"))
    query = rig.query(spark)
    wait_for(lambda: not query.isActive)
    assert "failOnDataLoss=false" in str(query.exception())
    with rig.sender("alice", 3_501, 100) as alice:
        query = rig.query(spark, failOnDataLoss=False)
        assert alice.drained(PATIENCE)
    query.processAllAvailable()
    query.stop()
    assert rig.numbers(spark) == sorted([*expected, *range(3_501, 3_601)])


def test_inline_and_recordings_and_an_external_stage(rig: Rig, spark: SparkSession) -> None:
    """One query of three sources."""
    from tolliver_transports.staging import FolderOptions, StageWriter

    from tolliver_proto import Message

    from .recordings import PEER, block, write

    recordings = rig.directory / "recordings"
    recordings.mkdir()
    write(recordings / "a.rec", [block([Message("readings", "", b"1", 1)])])
    outside = StageWriter(FolderOptions(directory=rig.directory / "outside"))
    from tolliver_proto import Revision

    outside.add(PEER, 1, Revision.DRAFT_2, [Message("readings", "k1", b"2", 1), Message("other", "", b"3", 2)])
    outside.sync()
    files = spark.readStream.format("tolliver").load(str(recordings))
    given = {"staging": "external", "stagingDir": str(outside.folder.directory), "channels": "readings"}
    external = spark.readStream.format("tolliver").options(**given).load()
    inline = spark.readStream.format("tolliver").options(**rig.options(staging="inline")).load()
    query = rig.sink(files.union(external).union(inline)).start()
    with rig.sender("alice", 4, 1_000) as alice:
        assert alice.drained(PATIENCE)
    query.processAllAvailable()
    assert lag(query.lastProgress) == [0, 0]
    query.stop()
    outside.close()
    assert rig.numbers(spark) == [1, 2, *range(4, 1_004)]


# Kills.


class Driver:
    """A driver program with a JVM of its own, at its gate."""

    def __init__(self, rig: Rig) -> None:
        command = [
            sys.executable,
            str(HERE / "driver.py"),
            json.dumps(rig.options()),
            str(rig.output),
            str(rig.checkpoint),
        ]
        environment = os.environ | {"PYTHONPATH": SOURCES, "PYSPARK_PYTHON": sys.executable}
        self.process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )

    def go(self) -> None:
        assert self.process.stdout is not None
        assert self.process.stdin is not None
        for line in self.process.stdout:
            if line == "ready\n":
                break
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        """It and its JVM, at once."""
        import psutil

        try:
            java = [child for child in psutil.Process(self.process.pid).children() if child.name() == "java"]
        except psutil.NoSuchProcess:
            java = []
        self.process.kill()
        for child in java:
            child.kill()
        self.process.wait()


@contextmanager
def drivers(rig: Rig, count: int) -> Iterator[list[Driver]]:
    with ExitStack() as stack:
        started = []
        for _ in range(count):
            started.append(Driver(rig))
            stack.callback(started[-1].kill)
        yield started


def test_kill_9_of_stagers_and_drivers(rig: Rig, spark: SparkSession) -> None:
    """Three kills while messages come: a driver with its JVM, a stager alone, the other driver."""
    with (
        rig.sender("alice", 1, None, pause=0.01) as alice,
        rig.sender("carol", 10_000_001, None, pause=0.01) as carol,
        drivers(rig, 2) as (one, other),
    ):
        one.go()
        wait_for(lambda: rig.batches() >= 2)
        stager = stager_of(rig.stage)
        one.kill()
        assert ends(stager, PATIENCE)

        other.go()
        before = rig.batches()
        wait_for(lambda: rig.batches() >= before + 2)
        os.kill(stager_of(rig.stage), signal.SIGKILL)
        before = rig.batches()
        wait_for(lambda: rig.batches() >= before + 3)
        stager = stager_of(rig.stage)
        other.kill()
        assert ends(stager, PATIENCE)

        alice.end()
        carol.end()
        query = rig.query(spark)
        assert alice.drained(PATIENCE)
        assert carol.drained(PATIENCE)
        query.processAllAvailable()
        query.stop()
    expected = [*range(1, alice.sent + 1), *range(10_000_001, 10_000_001 + carol.sent)]
    assert rig.numbers(spark) == expected
