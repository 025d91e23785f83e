"""Cost of demand in Spark: rows a second, by window.

    python benchmarks/spark_demand.py [--rows 1000000] [--tries 3]

The ceiling is a source of Spark's that takes as many bytes from a bare loopback socket and cuts them into the same
batches, without a protocol. Every try measures it and all windows, one after the other, and the ratio is the median
over the tries. Figures are rows a second from a publisher. It is a process of its own, and always has more; elements
have 100 bytes. Planning the query counts.
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
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from tolliver.blocking import TLS, StreamsOptions, create_streams
from tolliver.certs import make_ca, make_certificate
from tolliver.spark import register

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

WINDOWS = (16, 256, 4096, 65536)
SIZE = 100  # bytes of an element
BATCH = 10_000
LOT = bytes(SIZE * BATCH)


class SocketSource(DataSource):
    """The ceiling."""

    @classmethod
    def name(cls) -> str:
        return "bytes"

    def schema(self) -> str:
        return "publisher string, element binary"

    def reader(self, schema: StructType) -> SocketReader:
        return SocketReader(int(self.options["port"]), int(self.options["rows"]))


class SocketReader(DataSourceReader):
    def __init__(self, port: int, rows: int) -> None:
        self.port, self.rows = port, rows

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        schema = pa.schema([("publisher", pa.string()), ("element", pa.binary())])
        with socket.create_connection(("127.0.0.1", self.port)) as sock, sock.makefile("rb") as file:
            left = self.rows
            while left:
                count = min(BATCH, left)
                bounds = np.arange(0, (count + 1) * SIZE, SIZE, dtype=np.int32)
                data = pa.py_buffer(file.read(count * SIZE))
                elements = pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(bounds), data])
                yield pa.RecordBatch.from_arrays([pa.repeat("bytes", count), elements], schema=schema)
                left -= count


def publish(directory: Path) -> None:
    """The publisher's process: says its ports, plaintext, TLS and bare, and ends with its standard input."""

    def give() -> None:
        while True:
            sock, _ = listener.accept()
            threading.Thread(target=pour, args=[sock], daemon=True).start()

    def pour(sock: socket.socket) -> None:
        with sock, suppress(OSError):
            while True:
                sock.sendall(LOT)

    elements = [os.urandom(SIZE) for _ in range(1000)]
    plain = StreamsOptions(listen="127.0.0.1:0", plaintext=True)
    secure = StreamsOptions(listen="127.0.0.1:0", tls=member(directory, "publisher"))
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        create_streams(plain) as one,
        create_streams(secure) as other,
    ):
        for streams in (one, other):
            streams.publish("bytes", lambda _name: cycle(elements))
        threading.Thread(target=give, daemon=True).start()
        print(one.port, other.port, listener.getsockname()[1], flush=True)
        sys.stdin.read()


def member(directory: Path, name: str) -> TLS:
    return TLS(directory / f"{name}.pem", directory / f"{name}.key", directory / "ca.pem")


@contextmanager
def publisher(directory: Path) -> Iterator[list[int]]:
    """Its ports."""
    command = [sys.executable, __file__, "--publish", str(directory)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield [int(port) for port in process.stdout.readline().split()]
        finally:
            process.stdin.close()


def measured(spark: SparkSession, rows: int, tries: int) -> Iterator[tuple[str, float, float]]:
    """Name, rows a second at best, and the ratio to the ceiling, whose own is 1."""
    register(spark)
    spark.dataSource.register(SocketSource)
    with tempfile.TemporaryDirectory() as made:
        directory = Path(made)
        make_ca(directory)
        make_certificate(directory, "publisher")
        job = make_certificate(directory, "job")
        files = {"tls.cert": str(job.cert), "tls.key": str(job.key), "tls.ca": str(directory / "ca.pem")}
        with publisher(directory) as (plain, secure, bare):
            ways: dict[str, tuple[str, dict[str, Any]]] = {"a plain socket": ("bytes", {"port": bare})}
            asked = {"publishers": "bytes", "connect": f"127.0.0.1:{plain}", "plaintext": "true"}
            for window in WINDOWS:
                ways[f"window {window}"] = ("tolliver-rs", {**asked, "window": window})
            over_tls = {"publishers": "bytes", "connect": f"127.0.0.1:{secure}", **files}
            ways["window 4096, TLS"] = ("tolliver-rs", {**over_tls, "window": 4096})
            rates: dict[str, list[float]] = {name: [] for name in ways}
            for count in (BATCH, *[rows] * tries):  # the first one starts what Spark starts once
                for name, (source, options) in ways.items():
                    limit = {"rows": count} if source == "bytes" else {"maxElements": count}
                    started = time.perf_counter()
                    found = spark.read.format(source).options(**options, **limit).load()
                    found.write.format("noop").mode("overwrite").save()
                    rates[name].append(count / (time.perf_counter() - started))
    ceilings = rates["a plain socket"][1:]
    for name, found_rates in rates.items():
        ratios = [rate / ceiling for rate, ceiling in zip(found_rates[1:], ceilings, strict=True)]
        yield name, max(found_rates[1:]), statistics.median(ratios)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--tries", type=int, default=3)
    parser.add_argument("--publish", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.publish is not None:
        publish(arguments.publish)
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
    print(f"{'':<30}{'rows/s':>12}{'of the socket':>16}")
    for name, rate, ratio in measured(spark, arguments.rows, arguments.tries):
        print(f"{name:<30}{rate:>12,.0f}{ratio:>16.2f}")
    spark.stop()
    print("again: python benchmarks/spark_demand.py " + " ".join(sys.argv[1:]))


if __name__ == "__main__":
    main()
