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
        return Sender(self.directory / f"{name}.db", self.port, self.certs.tls(name), first, count, 200, pause)

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


class Driver:
    """A driver program with a JVM of its own, at its gate."""

    def __init__(self, rig: Rig, **more: object) -> None:
        command = [
            sys.executable,
            str(_HERE / "driver.py"),
            json.dumps(rig.options(**more)),
            str(rig.output),
            str(rig.checkpoint),
        ]
        environment = os.environ | {"PYTHONPATH": SOURCES, "PYSPARK_PYTHON": sys.executable}
        self.process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )

    def go(self) -> None:
        assert self.process.stdout is not None
        assert self.process.stdin is not None
        for line in self.process.stdout:
            if line == "ready\n":
                break
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

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


@contextmanager
def drivers(rig: Rig, count: int) -> Iterator[list[Driver]]:
    """So many, which start at the same time; killed in the end."""
    with ExitStack() as stack:
        started = []
        for _ in range(count):
            started.append(Driver(rig))
            stack.callback(started[-1].kill)
        yield started
