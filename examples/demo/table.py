"""The Spark driver: streams the readings into a table of Parquet files.

Messages staged on disk were acknowledged, those that were not wait with the publisher; and Spark's own log of the table
makes every batch count once. So this program knows nothing of the kills.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tolliver.spark.local import local_session

from .child import CHECKPOINT, HOST, RECORDINGS, ROWS, STAGE, TABLE, stop_with_parent
from .log import Log

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

LOOK_SECONDS = 0.1
_READING = "id STRING, field STRING, value DOUBLE, at DOUBLE"


def follow(directory: Path, name: str, run: int, port: int) -> None:
    stopping = stop_with_parent()
    log = Log(directory, name, run)
    certificate = {"cert": directory / f"{name}.pem", "key": directory / f"{name}.key", "ca": directory / "ca.pem"}
    with local_session() as spark:
        readings = (
            spark.readStream.format("tolliver")
            .options(**{f"tls.{part}": str(path) for part, path in certificate.items()})
            .option("connect", f"{HOST}:{port}")
            .option("stagingDir", str(directory / STAGE))
            .option("record", str(directory / RECORDINGS / name))
            .load()
            .selectExpr("channel", "key", f"from_json(decode(body, 'utf-8'), '{_READING}') AS it")
            .selectExpr("channel", "key", "it.*")
        )
        query = (
            readings.writeStream.format("parquet")
            .option("checkpointLocation", str(directory / CHECKPOINT))
            .trigger(processingTime="500 milliseconds")
            .start(str(directory / TABLE))
        )
        told = -1
        while not stopping.wait(LOOK_SECONDS):
            told = _tell(query, log, told)
        query.processAllAvailable()  # the publisher has drained: everything is staged
        _tell(query, log, told)
        query.stop()


def _tell(query: StreamingQuery, log: Log, told: int) -> int:
    """Log the batches since `told`, and raise what ended the query."""
    error = query.exception()
    if error is not None:
        raise error
    for batch in query.recentProgress:
        if batch.batchId > told and batch.numInputRows:
            told = batch.batchId
            log.write([f"{ROWS} {batch.numInputRows}"])
    return told


if __name__ == "__main__":
    _, where, who, which, on_port = sys.argv
    follow(Path(where), who, int(which), int(on_port))
