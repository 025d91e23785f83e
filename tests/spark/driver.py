"""Driver program to be killed: a live stream into Parquet.

tests/spark/test_streams.py starts it.

python driver.py OPTIONS OUTPUT CHECKPOINT [MASTER]

OPTIONS is JSON, and may say the `format`; a list of options is a source each, `stage0` and so on. It starts its
session, says "ready", waits for a line, and then runs the query; one that fails, as its stager was killed, is started
again from the checkpoint.
"""

from __future__ import annotations

import json
import sys
from functools import reduce
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from tolliver.spark import register

from tests.spark.quick import start

_LIVES = 1000
_NAMED = "spark.sql.streaming.queryEvolution.enableSourceEvolution"


def received_by(spark: SparkSession, options: Any) -> DataFrame:
    if isinstance(options, dict):
        return spark.readStream.format(options.pop("format", "tolliver")).options(**options).load()
    spark.conf.set(_NAMED, "true")
    sources = [spark.readStream.format("tolliver").options(**given) for given in options]
    tables = [source.name(f"stage{number}").load() for number, source in enumerate(sources)]
    return reduce(DataFrame.unionByName, tables)


def main(options: str, output: str, checkpoint: str, master: str | None = None) -> None:
    spark = start("driver", **{} if master is None else {"spark.master": master})
    spark.sparkContext.setLogLevel("OFF")
    register(spark)
    received = received_by(spark, json.loads(options))
    bytes_of = "body" if "body" in received.columns else "element"
    rows = received.selectExpr(f"CAST(decode({bytes_of}, 'utf-8') AS BIGINT) AS number")
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    for _ in range(_LIVES):
        query = rows.writeStream.format("parquet").option("path", output).option("checkpointLocation", checkpoint)
        try:
            query.start().awaitTermination()
        except StreamingQueryException as error:
            sys.stdout.write(f"again: {str(error)[:2000]!r}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
