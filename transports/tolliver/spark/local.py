"""Local Spark session for the commands that need one.

Spark and its JVM write to standard error from the start. That output goes to a file, which is shown only if Spark does
not start.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_JAVA = 17
_QUICK_BYTES = 2**28  # below this size, starting up takes most of the time
_QUICK_JAVA = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
_SECONDS = 60


class NoSpark(ValueError):
    """Spark cannot run here; the text tells what to install."""


def missing() -> str | None:
    """Text about what this machine lacks to run Spark, with advice; None if nothing."""
    absent = [name for name in ("pyspark", "pyarrow") if find_spec(name) is None]
    if absent:
        return f"{' and '.join(absent)} missing: pip install 'tolliver-proto[spark]'"
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else "java"
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, check=True, timeout=_SECONDS).stderr
    except (OSError, subprocess.SubprocessError):
        return f"Java missing: install Java {_JAVA} or later (on Debian: apt-get install openjdk-17-jre-headless)"
    version = re.search(r'version "(\d+)', said)
    if version is None or int(version[1]) < _JAVA:
        return f"Java {_JAVA} or later is needed, not {said.splitlines()[0] if said else 'this one'}: install one"
    return None


@contextmanager
def local_session(size: int = 0) -> Iterator[SparkSession]:
    """Context manager: a session on all cores of this machine, stopped at the end; or the process's own, which is kept.

    `size` is the number of bytes to be read. Raises NoSpark if something is missing or Spark does not start.
    """
    reason = missing()
    if reason is not None:
        raise NoSpark(reason)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with tempfile.TemporaryFile() as words, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Spark's own warnings about versions of its libraries
        from pyspark.sql import SparkSession

        there = SparkSession.getActiveSession()
        session = there or _start(words.fileno(), quick=size < _QUICK_BYTES)
        try:
            yield session
        finally:
            if there is None:
                session.stop()


def _start(words: int, *, quick: bool) -> SparkSession:
    from pyspark.sql import SparkSession

    cores = os.cpu_count() or 1
    builder = (
        SparkSession.builder.master("local[*]")
        .appName("tolliver")
        .config("spark.ui.enabled", False)
        .config("spark.ui.showConsoleProgress", False)
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "2g")
        .config("spark.sql.shuffle.partitions", cores if quick else 8 * cores)
        .config("spark.sql.session.timeZone", "UTC")
    )
    # In a small job, the JVM's C2 compiler, class verification and adaptive plans cost more than they save.
    if quick:
        builder = (
            builder.config("spark.driver.extraJavaOptions", _QUICK_JAVA)
            .config("spark.sql.adaptive.enabled", False)
            .config("spark.sql.inMemoryColumnarStorage.compressed", False)
        )
    sys.stderr.flush()
    own = os.dup(2)
    try:
        os.dup2(words, 2)  # inherited by the JVM as its standard error
        return builder.getOrCreate()
    except Exception as error:
        size = os.lseek(words, 0, os.SEEK_END)
        said = os.pread(words, 2000, max(0, size - 2000)).decode(errors="backslashreplace").strip()
        raise NoSpark(f"Spark does not start: {error}\n{said}") from error
    finally:
        os.dup2(own, 2)
        os.close(own)
