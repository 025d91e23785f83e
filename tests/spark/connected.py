"""Program on a Spark Connect server, with tolliver installed, not registered.

python connected.py RECORDINGS STAGE SETTINGS     (which are JSON)
"""

from __future__ import annotations

import json
import sys
import tempfile

from pyspark.sql import SparkSession


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")


def main(recordings: str, stage: str, settings: str) -> None:
    import tolliver

    spark = SparkSession.builder.remote("local[2]").config(map=json.loads(settings)).getOrCreate()
    found = spark.read.format("tolliver").option("channels", "a").load(recordings)
    say("found", type(spark).__module__, found.count(), *tolliver.__path__)
    from tolliver.spark import lag, partition_batches, register

    register(spark)
    asked = spark.read.format("tolliver").schema("key string").load(recordings)
    say("registered", sorted(row.key for row in asked.collect()))
    messages = partition_batches(["key"])
    files = spark.read.format("binaryFile").load(recordings)
    say("batches", files.mapInArrow(messages, messages.schema).count())
    from tolliver.codecs import Json
    from tolliver.spark import decoder

    typed = found.select(decoder(Json(dict), "name STRING")("body").alias("it"))
    say("typed", typed.where("it.error IS NOT NULL").count(), typed.schema["it"].dataType.simpleString())
    staged = spark.readStream.format("tolliver").option("staging", "external").option("stagingDir", stage).load()
    with tempfile.TemporaryDirectory() as place:
        sink = staged.writeStream.format("parquet").option("checkpointLocation", f"{place}/checkpoint")
        query = sink.trigger(availableNow=True).start(f"{place}/rows")
        query.awaitTermination()
        say("stream", spark.read.parquet(f"{place}/rows").count(), lag(query.lastProgress))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
