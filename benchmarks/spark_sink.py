"""Cost of the sink: rows a second from Spark to a receiver.

    python benchmarks/spark_sink.py [--rows 1000000] [--tries 3]

Spark's own way to a Python sink, with the batches thrown away, is the ceiling, so the figure is the ratio to it in the
same run: every try measures the ceiling and all sinks, one after the other, and the ratio is the median over the tries.
The receiver is a process of its own that does as little as one can: it looks at a message's id only and acknowledges
it, thousands at a time. The rate of an instance with handlers is a matter of that instance: see docs/performance.md.
"""

from __future__ import annotations

import argparse
import os
import platform
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType
from tolliver.blocking import TLS, BlockingConnection, Pumps
from tolliver.certs import make_ca, make_certificate
from tolliver.derived import new_prefix
from tolliver.spark import register

from tolliver_proto import Message, Role, Subscription, TolliverError, encode

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CHANNEL, KEY, BODY = "bench", "k", 112  # with its head a frame of 135 bytes
SIZE = len(encode(Message(CHANNEL, KEY, bytes(BODY), 1)))
AIM = 0.6


class Result(NamedTuple):
    name: str
    rate: float
    """Rows a second, the best try."""

    ratio: float
    """To the ceiling of the same try, the median."""


class DroppingSource(DataSource):
    """The ceiling: whatever comes is thrown away."""

    @classmethod
    def name(cls) -> str:
        return "dropping"

    def writer(self, schema: StructType, overwrite: bool) -> DroppingWriter:
        return DroppingWriter()


class DroppingWriter(DataSourceArrowWriter):
    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        for _batch in iterator:
            pass
        return WriterCommitMessage()


class Taker(BlockingConnection):
    """Acknowledges frames of SIZE bytes by their ids."""

    def __init__(self, sock: socket.socket, pump: Any) -> None:
        self.ours = b""
        super().__init__(sock, Role.SERVER, pump=pump, subscriptions=[Subscription("", "")], intake=self._take)

    def _take(self, plaintext: bytes) -> bytes:
        if not self.machine.live:
            return plaintext
        data = self.ours + plaintext
        count = len(data) // SIZE
        ids = np.frombuffer(data, np.uint8, count * SIZE).reshape(count, SIZE)[:, 13:17]
        self.ours = data[count * SIZE :]
        if count and int.from_bytes(ids[0].tobytes()) != 2**31 - 1:
            acks = np.full((count, 5), 4, np.uint8)
            acks[:, 1:] = ids
            self.machine.send_encoded(acks.tobytes())
        return b""


def receive(directory: Path | None) -> None:
    """The receiver's process: says its port, and ends with its standard input."""
    pumps = Pumps(None if directory is None else member(directory, "receiver"))

    def serve(sock: socket.socket) -> None:
        with suppress(TolliverError), Taker(sock, pumps.server()) as taker:
            for _event in taker:
                pass

    def accept() -> None:
        while True:
            threading.Thread(target=serve, args=[listener.accept()[0]], daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, daemon=True).start()
        print(listener.getsockname()[1], flush=True)
        sys.stdin.read()


def member(directory: Path, name: str) -> TLS:
    return TLS(directory / f"{name}.pem", directory / f"{name}.key", directory / "ca.pem")


@contextmanager
def receiver(*arguments: str) -> Iterator[int]:
    """Its port."""
    command = [sys.executable, __file__, "--receive", *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield int(process.stdout.readline())
        process.stdin.close()


def table(spark: SparkSession, rows: int) -> DataFrame:
    from pyspark.sql import functions

    body = functions.encode(functions.lpad(functions.col("id").cast("string"), BODY, "x"), "utf-8")
    names = (functions.lit(CHANNEL).alias("channel"), functions.lit(KEY).alias("key"))
    return spark.range(0, rows, 1, 2).select(*names, body.alias("body"))


def sink_rows(spark: SparkSession, rows: int = 1_000_000, tries: int = 3) -> Iterator[Result]:
    """The ceiling, whose ratio is 1, and the sink in its ways."""
    register(spark)
    spark.dataSource.register(DroppingSource)
    with tempfile.TemporaryDirectory() as made:
        directory = Path(made)
        make_ca(directory)
        make_certificate(directory, "receiver")
        make_certificate(directory, "job", derive=new_prefix())
        job = member(directory, "job")
        files = {"tls.cert": str(job.cert), "tls.key": str(job.key), "tls.ca": str(job.ca)}
        with receiver() as plain, receiver(made) as secure:
            to_plain = {"connect": f"127.0.0.1:{plain}", "plaintext": "true"}
            to_secure = {"connect": f"127.0.0.1:{secure}", **files}
            ways: dict[str, tuple[str, dict[str, str]]] = {
                "batches dropped": ("dropping", {}),
                "sink, unreliable, plaintext": ("tolliver", {**to_plain, "reliable": "false"}),
                "sink, reliable, plaintext": ("tolliver", to_plain),
                "sink, reliable, TLS": ("tolliver", to_secure),
            }
            yield from measured(spark, ways, rows, tries)


def measured(
    spark: SparkSession, ways: dict[str, tuple[str, dict[str, str]]], rows: int, tries: int
) -> Iterator[Result]:
    rates: dict[str, list[float]] = {name: [] for name in ways}
    for count in (10_000, *[rows] * tries):  # the first one starts what Spark starts once
        for name, (source, options) in ways.items():
            started = time.perf_counter()
            table(spark, count).write.format(source).options(**options).mode("append").save()
            rates[name].append(count / (time.perf_counter() - started))
    ceilings = next(iter(rates.values()))[1:]
    for name, found in rates.items():
        ratios = [rate / ceiling for rate, ceiling in zip(found[1:], ceilings, strict=True)]
        yield Result(name, max(found[1:]), statistics.median(ratios))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--tries", type=int, default=3)
    parser.add_argument("--receive", nargs="*", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.receive is not None:
        receive(*arguments.receive or [None])
        return
    from pyspark import __version__
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", False)
        .config("spark.ui.showConsoleProgress", False)
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    print(f"Python {platform.python_version()}, PySpark {__version__}, {arguments.rows:,} rows of {SIZE} bytes")
    print(f"{'':<30}{'rows/s':>12}{'of the ceiling':>16}")
    for name, rate, ratio in sink_rows(spark, arguments.rows, arguments.tries):
        print(f"{name:<30}{rate:>12,.0f}{ratio:>16.2f}{f'   aim {AIM}' if name.endswith('TLS') else ''}")
    spark.stop()
    print("again: python benchmarks/spark_sink.py " + " ".join(sys.argv[1:]))


if __name__ == "__main__":
    main()
