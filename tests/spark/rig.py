"""Rig of live streams: senders, victims of kills, places on disk."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from tests.certificates import Certificates
from tests.ports import free_port

from .quick import SOURCES
from .senders import Sender

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PATIENCE = 300.0  # seconds, far above what any of it takes
_HERE = Path(__file__).parent


def wait_for(true: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.02)


class Rig:
    """A stage, an output and a checkpoint; and who may send."""

    def __init__(self, directory: Path, certs: Certificates) -> None:
        self.directory, self.certs = directory, certs
        self.stage, self.output, self.checkpoint = (directory / name for name in ("stage", "output", "checkpoint"))
        self.port = free_port()

    def options(self, **more: object) -> dict[str, str]:
        """Of the source, as text."""
        if more.get("staging") == "external":
            return {"stagingDir": str(self.stage), **{name: str(value) for name, value in more.items()}}
        tls = self.certs.tls("bob")
        given = {
            "listen": f"127.0.0.1:{self.port}",
            "tls.cert": tls.cert,
            "tls.key": tls.key,
            "tls.ca": tls.ca,
            "stagingDir": self.stage,
            "channels": "readings",
            **more,
        }
        return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in given.items()}

    def sender(self, name: str, first: int, count: int | None, pause: float = 0.0) -> Sender:
        address = f"127.0.0.1:{self.port}"
        return Sender(self.directory / f"{name}.db", address, self.certs.tls(name), first, count, 200, pause)

    def query(self, spark: SparkSession, now: bool = False, **more: object) -> Any:
        received = spark.readStream.format("tolliver").options(**self.options(**more)).load()
        writer = self.sink(received)
        return (writer.trigger(availableNow=True) if now else writer).start()

    def sink(self, received: DataFrame) -> Any:
        rows = received.selectExpr("CAST(decode(body, 'utf-8') AS BIGINT) AS number", "sender")
        to = rows.writeStream.format("parquet").option("path", str(self.output))
        return to.option("checkpointLocation", str(self.checkpoint))

    def numbers(self, spark: SparkSession) -> list[int]:
        return sorted(row.number for row in spark.read.parquet(str(self.output)).select("number").collect())

    def batches(self) -> int:
        return len([*self.checkpoint.glob("commits/[0-9]*")])


class Program:
    """A driver program with a JVM of its own, at its gate."""

    def __init__(self, program: Path, *arguments: str) -> None:
        environment = os.environ | {"PYTHONPATH": SOURCES, "PYSPARK_PYTHON": sys.executable}
        self.process = subprocess.Popen(
            [sys.executable, str(program), *arguments],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )

    def go(self, word: str = "go") -> None:
        assert self.process.stdin is not None
        assert self.says("ready\n"), "it has ended"
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def says(self, word: str) -> bool:
        """Wait for this line; False if it ends before."""
        assert self.process.stdout is not None
        return any(line == word for line in self.process.stdout)

    def kill(self) -> None:
        """It and its JVM, at once."""
        try:
            java = [child for child in psutil.Process(self.process.pid).children() if child.name() == "java"]
        except psutil.NoSuchProcess:
            java = []
        self.process.kill()
        for child in java:
            child.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


class Driver(Program):
    """A live stream into Parquet."""

    def __init__(self, rig: Rig, **more: object) -> None:
        given = json.dumps(rig.options(**more))
        super().__init__(_HERE / "driver.py", given, str(rig.output), str(rig.checkpoint))


@contextmanager
def drivers(rig: Rig, count: int) -> Iterator[list[Driver]]:
    """So many, which start at the same time; killed in the end."""
    with ExitStack() as stack:
        started = []
        for _ in range(count):
            started.append(Driver(rig))
            stack.callback(started[-1].kill)
        yield started
