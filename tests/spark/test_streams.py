"""Live streams in a real Spark: started, stopped, restarted, killed.

A query costs more than its rows, so each test is a story with several endings.
"""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tolliver.spark import lag
from tolliver.staging import FolderOptions, StageWriter

from tests.certificates import Certificates
from tolliver_proto import Message, Revision

from .recordings import PEER, block, write
from .rig import PATIENCE, Rig, drivers, wait_for
from .senders import ends, stager_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")


@pytest.fixture
def rig(tmp_path: Path, certs: Certificates) -> Rig:
    return Rig(tmp_path, certs)


@pytest.mark.thorough  # `make spark-soak` shows it in the large (V25)
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


def test_the_example_of_the_page(rig: Rig, spark: SparkSession) -> None:
    rig.certs.tls("bob")
    page = (Path(__file__).parents[2] / "docs" / "spark-streams.md").read_text()
    program = page.partition("```python\n")[2].partition("```")[0]
    places = {
        "0.0.0.0:7011": f"127.0.0.1:{rig.port}",
        "certs/": f"{rig.certs.directory}/",
        "/data/stages/readings": str(rig.stage),
        "/data/readings": str(rig.output),
        "/data/cp": str(rig.checkpoint),
    }
    for written, here in places.items():
        assert written in program
        program = program.replace(written, here)
    exec(compile(program, "docs/spark-streams.md", "exec"), {"__name__": "__main__"})
    [query] = spark.streams.active
    with rig.sender("alice", 1, 10) as alice:
        assert alice.drained(PATIENCE)
    query.processAllAvailable()
    query.stop()
    bodies = spark.read.parquet(str(rig.output)).select("body").collect()
    assert sorted(int(row.body) for row in bodies) == [*range(1, 11)]


def test_inline_and_recordings_and_an_external_stage(rig: Rig, spark: SparkSession) -> None:
    """One query of three sources."""

    recordings = rig.directory / "recordings"
    recordings.mkdir()
    write(recordings / "a.rec", [block([Message("readings", "", b"1", 1)])])
    outside = StageWriter(FolderOptions(directory=rig.directory / "outside"))
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


# Copies.


def stage_numbers(stage: Path, first: int, count: int) -> None:
    """A service that runs for a moment."""
    writer = StageWriter(FolderOptions(directory=stage))
    writer.add(
        PEER, 1, Revision.DRAFT_2, [Message("readings", "", b"%d" % at, at) for at in range(first, first + count)]
    )
    assert writer.sync()
    writer.close()


@pytest.mark.parametrize(
    "staging", ["external", *(pytest.param(one, marks=pytest.mark.thorough) for one in ("shared", "inline"))]
)
def test_a_stage_that_is_restored_from_a_backup(rig: Rig, spark: SparkSession, staging: str) -> None:
    """tests/spark/test_stream_live.py has more of it, without a Spark."""
    copy = rig.directory / "copy"

    def run(**more: object) -> Any:
        query = rig.query(spark, now=True, staging=staging, **more)
        wait_for(lambda: not query.isActive)
        return query.exception()

    stage_numbers(rig.stage, 1, 20)
    shutil.copytree(rig.stage, copy)
    stage_numbers(rig.stage, 21, 20)
    assert run() is None
    assert rig.numbers(spark) == [*range(1, 41)]
    assert staging == "external" or ends(stager_of(rig.stage), PATIENCE)
    shutil.rmtree(rig.stage)
    copy.rename(rig.stage)
    stage_numbers(rig.stage, 51, 40)
    error = str(run())
    assert "restored from a backup" in error
    assert "failOnDataLoss=false" in error
    assert run(failOnDataLoss=False) is None
    assert set(rig.numbers(spark)) == {*range(1, 41), *range(51, 91)}


# Kills.


@pytest.mark.thorough  # `make spark-soak` does it again and again (V25)
def test_kill_9_of_stagers_and_drivers(rig: Rig, spark: SparkSession) -> None:
    """Kills while messages come: of a driver with its JVM, and of the stager of the one in its place."""
    with (
        rig.sender("alice", 1, None, pause=0.05) as alice,
        rig.sender("carol", 10_000_001, None, pause=0.05) as carol,
        drivers(rig, 1) as [driver],
    ):
        driver.go()
        wait_for(lambda: rig.batches() >= 2)
        stager = stager_of(rig.stage)
        driver.kill()
        assert ends(stager, PATIENCE)

        query = rig.query(spark)
        before = rig.batches()
        wait_for(lambda: rig.batches() >= before + 2)
        os.kill(stager_of(rig.stage), signal.SIGKILL)
        wait_for(lambda: not query.isActive)

        query = rig.query(spark)
        alice.end()
        carol.end()
        assert alice.drained(PATIENCE)
        assert carol.drained(PATIENCE)
        query.processAllAvailable()
        query.stop()
    expected = [*range(1, alice.sent + 1), *range(10_000_001, 10_000_001 + carol.sent)]
    assert rig.numbers(spark) == expected
