"""A program against a Spark Connect server that it starts itself, with tolliver installed and nothing registered.

python connected.py RECORDINGS
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")


def main(recordings: str) -> None:
    import tolliver_transports

    spark = SparkSession.builder.remote("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    found = spark.read.format("tolliver").option("channels", "a").load(recordings)
    say("found", type(spark).__module__, found.count(), *tolliver_transports.__path__)
    from tolliver_transports.spark import partition_batches, register

    register(spark)
    asked = spark.read.format("tolliver").schema("key string").load(recordings)
    say("registered", sorted(row.key for row in asked.collect()))
    messages = partition_batches(["key"])
    files = spark.read.format("binaryFile").load(recordings)
    say("batches", files.mapInArrow(messages, messages.schema).count())
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
