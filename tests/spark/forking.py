"""Spark's daemon for the tests' session, with imports before the fork.

Spark starts a Python worker for many a task, and each imports pandas, pyarrow and the source for a second, to read a
few rows. Spark's own daemon cannot do that before, as libraries may start threads when they are imported, which do not
live on in a fork: here none does. Anything without such a session (drivers that are killed, Connect, the command) runs
with Spark's own daemon, as everywhere else.
"""

from __future__ import annotations

import gc
import os
import threading
from importlib import import_module
from pkgutil import walk_packages

from pyspark.daemon import manager

NEEDED = ("pandas", "pyarrow.pandas_compat", "pyspark.worker")
SOURCE = "tolliver.spark"


def modules_of(package: str) -> list[str]:
    path = import_module(package).__path__
    return [module.name for module in walk_packages(path, f"{package}.")]


if __name__ == "__main__":
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # or it would start one for each core
    for name in (*NEEDED, *modules_of(SOURCE)):
        import_module(name)
    if threading.active_count() > 1:
        raise SystemExit(f"a fork would lose these threads: {threading.enumerate()}")
    gc.freeze()
    manager()
