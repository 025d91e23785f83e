"""What Spark says of the demo: of the table that a query wrote, and of the recordings. `make demo` plays all of it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from rich.console import Console
from tolliver_transports._demo.child import PUBLISHER, SUBSCRIBERS, TABLE
from tolliver_transports._demo.log import read_lines
from tolliver_transports._demo.looking import look_at_table, look_with_spark

SECONDS = 120


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first act, as it was played and recorded."""
    directory = tmp_path_factory.mktemp("demo") / "demo"
    command = [sys.executable, "-m", "tolliver_transports.cli", "demo", "--no-audit", "--directory", str(directory)]
    subprocess.run([*command, "--seconds", "2", "--rate", "1000"], check=True, capture_output=True, timeout=SECONDS)
    return directory


@pytest.fixture
def console() -> Console:
    return Console(soft_wrap=True, width=200)


def test_the_table_and_the_recordings_say_that_nothing_is_lost(
    spark: SparkSession, played: Path, console: Console, capsys: pytest.CaptureFixture[str]
) -> None:
    ids = [(words[0],) for kind, *words in read_lines(played, PUBLISHER) if kind == "stored"]
    rows = spark.createDataFrame(ids, "id STRING")
    rows.write.parquet(str(played / TABLE))
    assert look_with_spark(console, played) == 0
    said = capsys.readouterr().out
    assert f"the table has {len(ids):,} of {len(ids):,} stored readings: 0 lost, 0 twice, 0 never sent" in said
    assert re.search(r"^lost = 0$", said, re.MULTILINE)
    assert re.search(r"to alice: sent [\d,]+, delivered [\d,]{3,}, ", said)
    report = (played / "report.html").read_text()
    assert "<b>lost = 0</b>" in report
    assert all(name in report for name in (PUBLISHER, *SUBSCRIBERS))
    assert report.count('class="gap"') >= 2  # for alice the publisher's kill; for bob his own, which that may fall into
    assert "Values over time" in report
    assert all(f"{name}: " in report for name in ("average, 1 min", "ram, percent"))  # a point of the curve at least

    rows.limit(1).union(spark.createDataFrame([("0-0",)], "id STRING")).write.mode("append").parquet(
        str(played / TABLE)
    )
    assert look_at_table(console, spark, played) == 1
    assert ": 0 lost, 1 twice, 1 never sent" in capsys.readouterr().out
    rows.limit(len(ids) - 2).write.mode("overwrite").parquet(str(played / TABLE))
    assert look_at_table(console, spark, played) == 1
    assert ": 2 lost, 0 twice, 0 never sent" in capsys.readouterr().out
