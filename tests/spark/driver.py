"""Driver program to be killed: a live stream into Parquet.

tests/spark/test_streams.py starts it.

python driver.py OPTIONS OUTPUT CHECKPOINT

OPTIONS is JSON, and may say the `format`. It starts its session, says "ready", waits for a line, and then runs the
query; one that fails, as its stager was killed, is started again from the checkpoint.
"""

from __future__ import annotations

import json
import sys

from pyspark.errors import StreamingQueryException
from tolliver.spark import register

from tests.spark.quick import start

_LIVES = 1000


def main(options: str, output: str, checkpoint: str) -> None:
    spark = start("driver")
    spark.sparkContext.setLogLevel("OFF")
    given = json.loads(options)
    format = given.pop("format", "tolliver")
    register(spark)
    received = spark.readStream.format(format).options(**given).load()
    bytes_of = "body" if format == "tolliver" else "element"
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
