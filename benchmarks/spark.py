"""Speed of recordings into Spark, against Spark's own ceiling.

    python benchmarks/spark.py [--rows 1000000] [--repetitions 5] [--directory DIR] [--quick] [--only aims|typed]

First the aims: what a `Recorder` makes of messages that came one by one, and in batches, is read beside the same rows
of Parquet, which go through a `mapInArrow` that changes nothing. Beside the reader stands one that reads nothing: it
gives a batch that is there again and again, so no reader can be faster; one column, and 1 % of the rows, may take so
many seconds more, and `partition_batches` more than the files that `binaryFile` brings. The median of the differences
in each round counts. The time of all processors is Spark's alone, also where the machine has other work: the
least that two of them can take is half of it. The exit status is 1 where an aim is missed.

Then one recording in single blocks of 64 KiB (bodies of 100 bytes) is read by each way there is, into the sink that
throws everything away. Beside each stands its ceiling: the least that could be done for those rows on the
same road, written by hand for one layout, with nothing checked (no checksums, no kinds of frames, no blocks). All run
alternately in one session with two cores; figures are medians, and ratios those of the same round. The first round, in
which Spark compiles and starts its workers, does not count.

Then streams: how long a trigger takes for so many rows, into the sink that throws them away, beside Spark's own source
of made-up rows (rate-micro-batch); and how many rows a second come into Parquet, beside Spark's own stream of files
whose bytes are parsed as above. The stage is filled before. The first trigger of each query does not count.

With `--only typed` small orders, in JSON and in protobuf, are read as raw bodies and as columns: by Spark's
`from_json`, by `decoder` with codecs, and by a function of Python that returns rows, as a user would write it.

--quick only shows that everything works. The other way, from rows to a receiver, is `benchmarks/spark_sink.py`.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

import psutil
from tolliver._messages.recorder import Recorder
from tolliver.spark import partition_batches, partition_events

from tolliver_proto import Ack, HandshakeRequest, Message, Revision, encode
from tolliver_proto.recording import BLOCK, BlockHeader, Direction, Indexer, encode_block

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROOT = Path(__file__).resolve().parents[1]
BODY, BLOCK_BYTES, ROWS_PER_BATCH, TASKS = 100, 65536, 10_000, 4
OURS, PEER = UUID("01890000-0000-7000-8000-000000000001"), UUID("01890000-0000-7000-8000-000000000002")
HEAD = ">BIIII"
CEILING = "channel string, key string, body binary, message_id bigint"


class Files(NamedTuple):
    """The same messages twice: a recording with its index, and their frames alone in files of a task each."""

    recording: Path
    frames: Path


def write(directory: Path, rows: int) -> Files:
    files = Files(directory / "recordings", directory / "frames")
    for folder in files:
        folder.mkdir()
    messages = [encode(Message(f"c{number % 20}", f"k{number % 1000}", bytes(BODY), number)) for number in range(rows)]
    each = -(-rows // TASKS)
    for task in range(TASKS):
        (files.frames / str(task)).write_bytes(b"".join(messages[task * each : (task + 1) * each]))
    indexer, at = Indexer(), BLOCK_BYTES // len(messages[-1])
    path = files.recording / "a.rec"
    with path.open("wb") as file:
        for start in range(0, rows, at):
            some = messages[start : start + at]
            head = BlockHeader(time.time_ns(), OURS, PEER, 1, Direction.IN, Revision.DRAFT_2, len(some))
            block = encode_block(head, b"".join(some))
            indexer.add(block[: BLOCK.size], len(block))
            file.write(block)
    path.with_name("a.rec.idx").write_bytes(indexer.index().encode())
    return files


# The ceilings: hand-written for this layout, nothing checked.


def walked(data: bytes) -> list[int]:
    starts, pos, end, unpack = [], 0, len(data), struct.Struct(HEAD).unpack_from
    while pos < end:
        _, channel, key, body, _ = unpack(data, pos)
        starts.append(pos)
        pos += 17 + channel + key + body
    return starts


def bare_batches(data: bytes) -> Iterator[Any]:
    import numpy as np
    import pyarrow as pa

    starts = np.array([*walked(data), len(data)], np.int32)
    kind = np.dtype([("code", "u1"), ("channel", ">u4"), ("key", ">u4"), ("body", ">u4"), ("id", ">u4")])
    heads = np.ndarray(len(data) - 16, kind, data, strides=(1,))[starts[:-1]]
    for first in range(0, len(heads), ROWS_PER_BATCH):
        some = heads[first : first + ROWS_PER_BATCH]
        cuts = np.empty((len(some), 4), np.int32)
        cuts[:, 0] = starts[first : first + len(some)]
        cuts[:, 1] = cuts[:, 0] + 17
        cuts[:, 2] = cuts[:, 1] + some["channel"]
        cuts[:, 3] = cuts[:, 2] + some["key"]
        bounds = np.append(cuts, starts[first + len(some)]).astype(np.int32)
        pieces = pa.Array.from_buffers(pa.binary(), cuts.size, [None, pa.py_buffer(bounds), pa.py_buffer(data)])
        rows = np.arange(0, cuts.size, 4)
        channel, key, body = (pieces.take(pa.array(rows + at)) for at in (1, 2, 3))
        yield pa.RecordBatch.from_arrays(
            [channel.cast(pa.string()), key.cast(pa.string()), body, pa.array(some["id"].astype(np.int64))],
            names=["channel", "key", "body", "message_id"],
        )


def bare_files(folder: str) -> Callable[[Iterable[Any]], Iterator[Any]]:
    def read(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            for task in batch.column(0).to_pylist():
                yield from bare_batches(Path(folder, str(task)).read_bytes())

    return read


def bare_contents(batches: Iterable[Any]) -> Iterator[Any]:
    for batch in batches:
        for content in batch.column("content"):
            yield from bare_batches(content.as_py())


def bare_tuples(contents: Iterable[bytes]) -> Iterator[tuple[str, str, bytes, int]]:
    unpack = struct.Struct(HEAD).unpack_from
    for data in contents:
        for pos in walked(data):
            _, channel, key, body, number = unpack(data, pos)
            start = pos + 17
            middle = start + channel
            last = middle + key
            yield data[start:middle].decode(), data[middle:last].decode(), data[last : last + body], number


# The aims.


class Aim(NamedTuple):
    """So many times as fast as another way, or at most so many seconds, above another way if there is one."""

    times: float = 0.0
    than: str = ""
    seconds: float = 0.0
    above: str = ""

    def met(self, taken: Mapping[str, list[float]], way: str) -> tuple[bool, str]:
        if self.than:
            ratio = statistics.median(one / other for one, other in zip(taken[self.than], taken[way], strict=True))
            return ratio >= self.times, f"{ratio:.2f} of {self.than}, of {self.times:.2f}"
        if not self.above:
            best = min(taken[way])
            return best <= self.seconds, f"{best:.2f} s, of {self.seconds:.2f}"
        more = statistics.median(one - other for one, other in zip(taken[way], taken[self.above], strict=True))
        return more <= self.seconds, f"{more:.2f} s above {self.above}, of {self.seconds:.2f}"


SHAPES = {"one by one": 1, "in batches": 500}
"""Messages that come together."""
FAR = "2100-01-01"


def record(directory: Path, rows: int, together: int) -> Path:
    """Recordings of messages that were received, and of their acks, one for each task: a value is never split."""
    half = BODY // 2
    messages = [Message(f"c{at % 100}", f"k{at % 1000}", os.urandom(half) + bytes(half), 1) for at in range(1000)]
    each = rows * (BODY + 50) // TASKS
    with closing(Recorder(directory, OURS, Revision.DRAFT_2, print, file_bytes=each, queue_bytes=2**40)) as recorder:
        recorder.received(1, encode(HandshakeRequest(1, PEER)))
        for first in range(1, rows + 1, together):
            ids = range(first, min(first + together, rows + 1))
            recorder.received(1, b"".join(encode(replace(messages[at % 1000], message_id=at)) for at in ids))
            recorder.sent(1, [b"".join(encode(Ack(at)) for at in ids)])
    return directory


def unchanged(batches: Iterable[Any]) -> Iterator[Any]:
    yield from batches


def carried(batches: Iterable[Any]) -> Iterator[Any]:
    """Files that come, and nothing is done with them."""
    for _ in batches:
        pass
    return iter(())


def nothing_read(spark: SparkSession, rows: int, schema: str) -> DataFrame:
    """So many rows of a data source that has nothing to do, in as many tasks."""
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
    from pyspark.sql.types import StructType

    each = max(1, rows // TASKS)

    class Reader(DataSourceReader):
        def __init__(self, names: list[str]) -> None:
            self.names = names

        def partitions(self) -> list[InputPartition]:
            return [InputPartition(task) for task in range(TASKS)]

        def read(self, _partition: InputPartition) -> Iterator[Any]:
            import pyarrow as pa

            size = min(each, ROWS_PER_BATCH)
            values: dict[str, list[Any]] = {
                "channel": ["c7"],
                "key": ["k123"],
                "body": [bytes(BODY)],
                "message_id": [1],
            }
            batch = pa.RecordBatch.from_pydict({name: values[name] * size for name in self.names})
            for _ in range(each // size):
                yield batch

    class Prepared(DataSource):
        @classmethod
        def name(cls) -> str:
            return "prepared"

        def schema(self) -> str:
            return CEILING

        def reader(self, schema: StructType) -> DataSourceReader:
            return Reader(schema.fieldNames())

    spark.dataSource.register(Prepared)
    return spark.read.format("prepared").schema(schema).load()


def goals(
    spark: SparkSession, recording: str, parquet: str, rows: int
) -> dict[str, tuple[Callable[[], object], Aim | None]]:
    """Work by name, with its aim. Others are measured by work without one."""
    schema = spark.read.parquet(parquet).schema
    batches = partition_batches(["channel", "key", "body", "message_id"])
    identity, four = "Parquet, mapInArrow, count", "four columns"
    nothing, carrying = "nothing read", "binaryFile, carried alone"

    def reading(schema: str = CEILING, **options: object) -> DataFrame:
        one = spark.read.format("tolliver").schema(schema).option("minPartitions", TASKS)
        return one.options(**{name: str(value) for name, value in options.items()}).load(recording)

    def contents() -> DataFrame:
        return spark.read.format("binaryFile").load(recording + "/*.rec")

    return {
        identity: (lambda: spark.read.parquet(parquet).mapInArrow(unchanged, schema).count(), None),
        "count": (lambda: reading().count(), Aim(0.6, identity)),
        four: (lambda: thrown_away(reading()), None),
        f"four columns, {nothing}": (lambda: thrown_away(nothing_read(spark, rows, CEILING)), None),
        "one column": (lambda: thrown_away(reading("key string")), Aim(seconds=0.25, above=f"one column, {nothing}")),
        f"one column, {nothing}": (lambda: thrown_away(nothing_read(spark, rows, "key string")), None),
        "channels=c7 (1 %)": (lambda: thrown_away(reading(channels="c7")), Aim(seconds=0.25, above=f"1 %, {nothing}")),
        f"1 %, {nothing}": (lambda: thrown_away(nothing_read(spark, rows // 100, CEILING)), None),
        "an empty time range": (lambda: thrown_away(reading(timeFrom=FAR)), Aim(seconds=0.2)),
        carrying: (lambda: thrown_away(contents().mapInArrow(carried, "key string")), None),
        "partition_batches": (
            lambda: thrown_away(contents().mapInArrow(batches, batches.schema)),
            Aim(seconds=0.35, above=carrying),
        ),
    }


def aims(spark: SparkSession, directory: Path, rows: int, repetitions: int) -> bool:
    """Prints the aims. Returns whether all are met."""
    parquet, all_met = str(directory / "parquet"), True
    for shape, together in SHAPES.items():
        recording = record(directory / shape.replace(" ", "_"), rows, together)
        size = sum(path.stat().st_size for path in recording.iterdir())
        reading = spark.read.format("tolliver").schema(CEILING).option("minPartitions", TASKS)
        reading.load(str(recording)).write.mode("overwrite").parquet(parquet)
        ways = goals(spark, str(recording), parquet, rows)
        taken: dict[str, list[float]] = {way: [] for way in ways}
        used: dict[str, list[float]] = {way: [] for way in ways}
        for turn in range(repetitions + 1):
            for way, (work, _) in ways.items():
                before = processor_seconds()
                seconds = timed(work)
                if turn:
                    taken[way].append(seconds)
                    used[way].append(spent(before))
        print(f"aims, {rows} messages recorded {shape}: {size / 2**20:.1f} MiB")
        for way, (_, aim) in ways.items():
            met, words = aim.met(taken, way) if aim is not None else (True, "")
            all_met &= met
            median = statistics.median(taken[way])
            missed = "" if met else "MISSED: "
            busy = f"{statistics.median(used[way]):>6.2f} s of processors"
            print(f"  {way:<28} {median:>6.2f} s  {rows / 1e6 / median:>6.2f} M rows/s {busy}  {missed}{words}")
    return all_met


# The roads.


def session() -> SparkSession:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    paths = [str(ROOT), str(ROOT / "transports"), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "2g",
    }
    builder = SparkSession.builder.master("local[2]").appName("tolliver benchmark")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def thrown_away(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def roads(spark: SparkSession, files: Files, rows: int) -> dict[str, tuple[str, Callable[[], object]]]:
    """Measured work: by name, the name of its ceiling ("" for a ceiling) and the work."""
    recording, frames = str(files.recording), str(files.frames)
    ids = spark.range(0, TASKS, 1, TASKS)
    paths = spark.sparkContext.parallelize([str(files.frames / str(task)) for task in range(TASKS)], TASKS)
    contents = paths.map(lambda path: Path(path).read_bytes())
    messages = partition_batches(["channel", "key", "body", "message_id"])
    bare = partition_batches(["channel", "key", "body", "message_id"], of="frames")

    def source(schema: str = CEILING, **options: object) -> DataFrame:
        reading = spark.read.format("tolliver").schema(schema).option("minPartitions", TASKS)
        return reading.options(**{name: str(value) for name, value in options.items()}).load(recording)

    def values(folder: str) -> DataFrame:
        return spark.read.format("binaryFile").load(folder)

    def counted(found: Any) -> None:
        assert found.count() == rows

    everything = "channel string, key string, body binary, message_id bigint, reliable boolean, sender string"
    arrow, content, pairs = "ceiling: mapInArrow", "ceiling: binaryFile, mapInArrow", "ceiling: mapPartitions, tuples"
    return {
        arrow: ("", lambda: thrown_away(ids.mapInArrow(bare_files(frames), CEILING))),
        "source, the same columns": (arrow, lambda: thrown_away(source())),
        "source, all columns": (arrow, lambda: thrown_away(source(everything))),
        "source, message_id alone": (arrow, lambda: thrown_away(source("message_id bigint"))),
        "source, channels=c7 (5 %)": (arrow, lambda: thrown_away(source(channels="c7"))),
        "source, pushed channel = 'c7'": (
            arrow,
            lambda: thrown_away(source(filterPushdown=True).where("channel = 'c7'")),
        ),
        content: ("", lambda: thrown_away(values(frames).mapInArrow(bare_contents, CEILING))),
        "binaryFile, partition_batches, frames": (
            content,
            lambda: thrown_away(values(frames).mapInArrow(bare, bare.schema)),
        ),
        "binaryFile, partition_batches, one .rec": (
            content,
            lambda: thrown_away(values(recording + "/*.rec").mapInArrow(messages, messages.schema)),
        ),
        pairs: ("", lambda: counted(contents.mapPartitions(bare_tuples))),
        "mapPartitions, partition_events, frames": (
            pairs,
            lambda: counted(contents.mapPartitions(lambda chunks: partition_events(chunks, of="frames"))),
        ),
    }


# Typed columns.

ORDER = "name STRING, price DOUBLE, count INT, tags ARRAY<STRING>"
PROTO = """syntax = "proto3"; package shop;
message Order { string name = 1; double price = 2; int32 count = 3; repeated string tags = 4; }"""


def typed(spark: SparkSession, directory: Path, rows: int, repetitions: int) -> None:
    """Prints what columns of bodies take."""
    from pyspark.sql import functions
    from tolliver.codecs import Json, ProtobufTypes
    from tolliver.spark import decoder

    proto = directory / "shop.proto"
    proto.write_text(PROTO)
    codec, json = ProtobufTypes.of_files([proto]).codec("shop.Order"), Json(dict)
    orders = [{"name": f"order {at}", "price": at / 4, "count": at, "tags": ["a", "b"]} for at in range(1000)]
    bodies = {
        "JSON": [json.encode(order) for order in orders],
        "protobuf": [codec.encode(codec.kind(**order)) for order in orders],
    }
    frames = {}
    for name, made in bodies.items():
        folder = directory / f"typed_{name}"
        recorder = Recorder(folder, OURS, Revision.DRAFT_2, print)
        for start in range(0, rows, len(made)):
            messages = (encode(Message("orders", "k", body, start + at)) for at, body in enumerate(made))
            recorder.received(1, b"".join(messages))
        recorder.close()
        source = spark.read.format("tolliver").schema(CEILING).option("minPartitions", TASKS)
        frames[name] = source.load(str(folder))

    @functions.udf(ORDER)
    def by_hand(body: bytes) -> tuple[object, ...]:
        order = codec.decode(bytes(body))
        return order.name, order.price, order.count, list(order.tags)

    text = functions.col("body").cast("string")
    ways = {
        "JSON, raw": ("JSON", None),
        "JSON, from_json": ("JSON", functions.from_json(text, f"{ORDER}, _corrupt_record STRING")),
        "JSON, decoder(Json(dict))": ("JSON", decoder(json, ORDER)("body")),
        "JSON, decoder, msgspec": ("JSON", decoder(Json(dict[str, object]), ORDER)("body")),
        "protobuf, raw": ("protobuf", None),
        "protobuf, decoder": ("protobuf", decoder(codec)("body")),
        "protobuf, by hand, rows": ("protobuf", by_hand("body")),
    }
    taken: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
    for turn in range(repetitions + 1):
        for way, (name, column) in ways.items():
            frame = frames[name] if column is None else frames[name].select("*", column.alias("order"))
            before = processor_seconds()
            seconds = timed(lambda frame=frame: thrown_away(frame))  # type: ignore[misc]
            if turn:
                taken[way].append((seconds, spent(before)))
    print(f"typed columns, {rows} rows, {ORDER}")
    for way, times in taken.items():
        wall, used = (statistics.median(each) for each in zip(*times, strict=True))
        print(f"  {way:<28} {rows / 1e6 / wall:>6.2f} M rows/s {used / rows * 1e6:>6.2f} us of processors each")


# Streams.

TRIGGERS = 7


class Stream(NamedTuple):
    """A query's triggers but the first: how long each took, in milliseconds, and the rows that all of them read."""

    triggers: list[int]
    rows: int

    def rate(self, messages: int = 1) -> float:
        """Messages a second, if a row that is read (a file, for one) holds so many."""
        return self.rows * messages / sum(self.triggers) * 1000


def fill(directory: Path, rows: int, triggers: int) -> Path:
    """A stage with so many rows for each trigger."""
    from tolliver.staging import FolderOptions, StageWriter

    writer = StageWriter(FolderOptions(directory=directory))
    each = min(1_000, rows)  # of a block
    messages = [Message(f"c{number % 20}", f"k{number}", bytes(BODY), None) for number in range(each)]  # copies stay
    for number in range(triggers * rows // each):
        writer.add((PEER, OURS)[number % 2], 1, Revision.DRAFT_2, messages)  # another sender, another block
        if writer.waiting_bytes > 2**20 or rows == each:
            writer.sync()
    writer.sync()
    writer.close()
    return directory


def run_stream(frame: DataFrame, triggers: int, place: Path | None, *, endless: bool = False) -> Stream:
    """The query until it has had so many triggers, into Parquet where a place is given."""
    writer = frame.writeStream.format("noop" if place is None else "parquet")
    with tempfile.TemporaryDirectory(dir=place) as name:
        if place is not None:
            writer = writer.option("path", f"{name}/rows")
        writer = writer.option("checkpointLocation", f"{name}/checkpoint")
        query = (writer if endless else writer.trigger(availableNow=True)).start()
        end = time.monotonic() + 600
        while query.isActive and len(query.recentProgress) < triggers and time.monotonic() < end:
            time.sleep(0.05)
        if not endless:
            query.awaitTermination(600)
        query.stop()
        done = [progress for progress in query.recentProgress if "addBatch" in progress.durationMs][1:triggers]
    return Stream([one.durationMs["triggerExecution"] for one in done], sum(one.numInputRows for one in done))


def streams(spark: SparkSession, directory: Path, rows: int) -> None:
    """Prints what streams take."""
    print(f"streams: medians of {TRIGGERS - 1} triggers, rows into noop")
    parquet = "binaryFile, mapInArrow"
    for count in (0, 100, rows // 10, rows):
        stage = fill(directory / f"stage{count}", count or 100, TRIGGERS)
        ours = staged(spark, stage, count or 100, **({} if count else {"channels": "nobody"}))
        own = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", str(count or 1)).load()
        beside = run_stream(own, TRIGGERS, None, endless=True)
        took = run_stream(ours, TRIGGERS, None)
        median, least = statistics.median(took.triggers), statistics.median(beside.triggers)
        what, ratio = f"a trigger of {count} rows", median / least
        print(f"  {what:<42} {median:>6.0f} ms       {ratio:>6.2f} of rate-micro-batch")
    stage, folder = fill(directory / "sustained", rows // TASKS, TASKS + 1), directory / "sustained_frames"
    folder.mkdir()
    data = b"".join(encode(Message(f"c{at % 20}", f"k{at % 1000}", bytes(BODY), at)) for at in range(rows // TASKS))
    for number in range(TASKS + 1):
        (folder / str(number)).write_bytes(data)
    contents = spark.readStream.format("binaryFile").option("maxFilesPerTrigger", "1")
    contents = contents.schema("path string, modificationTime timestamp, length bigint, content binary")
    beside = run_stream(contents.load(str(folder)).mapInArrow(bare_contents, CEILING), TASKS + 1, directory)
    took = run_stream(staged(spark, stage, rows // TASKS), TASKS + 1, directory)
    rate, ceiling = took.rate(), beside.rate(rows // TASKS)
    print(f"  {'into Parquet':<42} {rate / 1e6:>6.2f} M rows/s {rate / ceiling:>6.2f} of {parquet}")


def staged(spark: SparkSession, stage: Path, rows: int, **more: str) -> DataFrame:
    """So many rows a trigger of a stage."""
    given = {"staging": "external", "stagingDir": str(stage), "maxRowsPerTrigger": str(rows), "minPartitions": "2"}
    return spark.readStream.format("tolliver").schema(CEILING).options(**given, **more).load()


def processor_seconds() -> dict[int, float]:
    """Time that this process and each one below it have used, user and system, by process: Spark's, whatever else the
    machine does.
    """
    own = psutil.Process()
    found = {}
    for process in (own, *own.children(recursive=True)):
        with suppress(psutil.Error):
            times = process.cpu_times()
            found[process.pid] = times.user + times.system
    return found


def spent(before: Mapping[int, float]) -> float:
    """Seconds since then, without those of processes that have ended."""
    return sum(max(0.0, used - before.get(pid, 0.0)) for pid, used in processor_seconds().items())


def timed(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--directory", type=Path, default=None, help="where files go (default: a temporary one)")
    parser.add_argument("--quick", action="store_true", help="few rows, once: does it work?")
    parser.add_argument("--only", choices=["aims", "typed"], help="the aims, or typed columns, alone")
    options = parser.parse_args()
    rows, repetitions = (20_000, 1) if options.quick else (options.rows, options.repetitions)

    times: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(dir=options.directory) as name:
        spark = session()
        try:
            if options.only == "typed":
                typed(spark, Path(name), rows, repetitions)
                raise SystemExit
            met = aims(spark, Path(name), rows, repetitions)
            if options.only:
                raise SystemExit(not met and not options.quick)
            files = write(Path(name), rows)
            ways = roads(spark, files, rows)
            for turn in range(repetitions + 1):
                for way, (_, work) in ways.items():
                    seconds = timed(work)
                    if turn:
                        times.setdefault(way, []).append(seconds)
            report(ways, times, rows, repetitions)
            streams(spark, Path(name), rows)
        finally:
            spark.stop()
    print(f"again with: python benchmarks/spark.py --rows {rows} --repetitions {repetitions}")
    raise SystemExit(not met and not options.quick)


def report(
    ways: Mapping[str, tuple[str, object]], times: Mapping[str, list[float]], rows: int, repetitions: int
) -> None:
    """Prints what reading at rest takes."""
    from pyspark import __version__

    print(f"CPython {platform.python_version()}, Spark {__version__}, local[2], {rows} rows, {BODY}-byte bodies")
    print(f"medians of {repetitions} alternating repetitions")
    for way, (ceiling, _) in ways.items():
        taken = times[way]
        ratio = ""
        if ceiling:
            share = statistics.median(least / one for least, one in zip(times[ceiling], taken, strict=True))
            ratio = f"{share:>6.2f} of the ceiling"
        print(f"  {way:<42} {rows / 1e6 / statistics.median(taken):>6.2f} M rows/s {ratio}")


if __name__ == "__main__":
    main()
