"""Program for `spark-submit --py-files all.zip`, which prints what it found.

spark-submit --py-files all.zip shipped.py RECORDINGS core.zip STAGE
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

from pyspark.sql import SparkSession

from tolliver_proto import Message, encode


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")


def decoded(chunks: Iterable[bytes]) -> Iterator[tuple[str, int]]:
    """With the pure package alone."""
    import tolliver_proto

    decoder = tolliver_proto.Decoder()
    for chunk in chunks:
        decoder.feed(chunk)
        while (frame := decoder.next_frame()) is not None:
            yield str(tolliver_proto.__file__), len(frame.body) if isinstance(frame, tolliver_proto.Message) else -1
    decoder.finish()


def at(_: object) -> str:
    import tolliver.spark.source

    return str(tolliver.spark.source.__file__)


def main(recordings: str, core: str, stage: str) -> None:
    from tolliver.spark import lag, partition_batches, partition_events, register

    spark = SparkSession.builder.getOrCreate()
    context = spark.sparkContext
    register(spark)
    found = spark.read.format("tolliver").load(recordings)
    say("source", found.count(), context.parallelize([0], 1).map(at).first())
    staged = spark.readStream.format("tolliver").option("staging", "external").option("stagingDir", stage).load()
    sink = staged.writeStream.format("parquet").option("checkpointLocation", f"{stage}.checkpoint")
    query = sink.option("path", f"{stage}.table").trigger(availableNow=True).start()
    query.awaitTermination()
    say("stream", spark.read.parquet(f"{stage}.table").count(), lag(query.lastProgress))
    messages = partition_batches(["key"])
    files = spark.read.format("binaryFile").load(recordings)
    say("batches", files.mapInArrow(messages, messages.schema).count())
    say("events", context.binaryFiles(recordings).values().mapPartitions(partition_events).count())
    context.addPyFile(core)
    data = b"".join(encode(Message("a", "b", bytes(number), number)) for number in range(100))
    rows = context.parallelize([data[:700], data[700:]], 1).mapPartitions(decoded).collect()
    say("core", [size for _, size in rows] == list(range(100)), *{file for file, _ in rows})
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
