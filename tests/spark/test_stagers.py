"""Many stages in one query, as named sources: one joins, one leaves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tolliver.spark import lag
from tolliver.staging import FolderOptions, StageWriter

from tolliver_proto import Message, Revision

from .recordings import PEER

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")

NAMED = "spark.sql.streaming.queryEvolution.enableSourceEvolution"
PAGE = Path(__file__).parents[2] / "docs" / "spark-stagers.md"


@pytest.fixture
def named(spark: SparkSession) -> Iterator[SparkSession]:
    yield spark
    spark.conf.unset(NAMED)


def fill(stage: Path, *numbers: int) -> None:
    writer = StageWriter(FolderOptions(directory=stage))
    messages = [Message("readings", "", b"%d" % number, number) for number in numbers]
    writer.add(PEER, 1, Revision.DRAFT_2, messages)
    writer.sync()
    writer.close()


@pytest.mark.thorough  # each query starts Python processes of Spark for each of its sources
def test_a_stage_joins_and_one_leaves_from_the_same_checkpoint(named: SparkSession, tmp_path: Path) -> None:
    program = PAGE.read_text().partition("```python\n")[2].partition("```")[0].partition("\n\n\nstages =")[0]
    page: dict[str, object] = {}
    exec(compile(program, str(PAGE), "exec"), page)
    received = page["received"]
    assert callable(received)

    def run(*names: str) -> tuple[list[int], list[int]]:
        rows = received({name: str(tmp_path / name) for name in names})
        to = rows.writeStream.format("parquet").option("path", str(tmp_path / "table"))
        query = to.option("checkpointLocation", str(tmp_path / "cp")).trigger(availableNow=True).start()
        query.awaitTermination()
        bodies = named.read.parquet(str(tmp_path / "table")).select("body").collect()
        return sorted(int(row.body) for row in bodies), lag(query.lastProgress)

    fill(tmp_path / "north", 1, 2)
    fill(tmp_path / "south", 3)
    assert run("north", "south") == ([1, 2, 3], [0, 0])
    fill(tmp_path / "north", 4)
    fill(tmp_path / "west", 5, 6)
    assert run("west", "south", "north") == ([1, 2, 3, 4, 5, 6], [0, 0, 0])
    fill(tmp_path / "west", 7)
    assert run("north", "west") == ([*range(1, 8)], [0, 0])
