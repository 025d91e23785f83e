"""Settings of a Spark that lives for seconds, over few rows."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[2]
SOURCES = os.pathsep.join([str(ROOT), str(ROOT / "transports")])
"""The path of Python for what Spark starts."""

JAVA = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
"""To verify twenty thousand classes of Spark's jars is a fifth of what a start costs."""

INTERPRETED = {
    "spark.ui.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.pollingDelay": "50ms",
}
"""So little data takes Spark longer to compile for than to read; and a query that waits need not ask so often."""


def start(name: str, **more: str) -> SparkSession:
    """Two cores, and three more tries for a task that fails (`local[2,4]`)."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [SOURCES, os.environ.get("PYTHONPATH", "")]))
    settings: dict[str, bool | float | int | str | None] = {
        **INTERPRETED,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": JAVA,
        **more,
    }
    session = SparkSession.builder.master("local[2,4]").appName(name).config(map=settings).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
