"""Driver program to be killed: it writes the numbers of text files to a receiver, in a shape that it is given.

scripts/prove/spark_shapes.py starts it.

python writing.py HOW OPTIONS FILES CHECKPOINT

HOW is "any", "stable" or "ids"; OPTIONS are those of the sink, as JSON. It starts its session, says "ready", and waits
for a line with the shape, as JSON: how many bytes of a file a partition has, and how many partitions are made of those.
It says "done" when all is written.
"""

from __future__ import annotations

import json
import sys

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, functions
from tolliver.spark import stable

from tests.spark.quick import start

PARTITIONS = 3


def rows_of(lines: DataFrame) -> DataFrame:
    number = functions.col("value").cast("int")
    key = functions.concat(functions.lit("k"), (number % 7).cast("string"))
    body = functions.encode("value", "utf-8")
    return lines.select(functions.lit("rows").alias("channel"), key.alias("key"), body.alias("body"), number.alias("n"))


def main(how: str, given: str, files: str, checkpoint: str) -> None:
    options = json.loads(given)
    spark = start("writing")
    spark.sparkContext.setLogLevel("OFF")
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    shape = json.loads(sys.stdin.readline())
    spark.conf.set("spark.sql.files.maxPartitionBytes", shape["bytes"])
    spark.conf.set("spark.sql.files.openCostInBytes", shape["bytes"])
    if how == "ids":
        lines = spark.readStream.option("maxFilesPerTrigger", 2).text(files)
        rows = rows_of(lines).repartition(PARTITIONS, "n")
        to = rows.writeStream.format("tolliver").options(**options, idColumn="n")
        query = to.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            sys.exit(str(error)[:2000])
    else:
        rows = rows_of(spark.read.text(files))
        if how == "stable":
            rows = stable(rows, "n", partitions=PARTITIONS)
        elif shape["partitions"]:
            rows = rows.repartition(shape["partitions"])
        to_once = rows.drop("n").write.format("tolliver").options(**options, writeId="nightly")
        to_once.mode("append").save()
    sys.stdout.write("done\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
