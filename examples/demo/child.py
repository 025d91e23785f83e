"""Common parts of the demo's child processes.

A child lives as long as its standard input is open. The parent closes it to say "end in order"; if the parent dies, the
kernel closes it. So no child outlives the demo, whatever happens.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import anyio
from tolliver.anyio import TLS, InstanceOptions

HOST = "127.0.0.1"
PUBLISHER = "publisher"
SUBSCRIBERS = {"alice": ("",), "bob": ("cpu", "memory")}
"""Channels that each subscriber wants; "" is all of them."""
DRIVER = "driver"
"""The Spark driver that writes the readings into a table."""
RECORDINGS = "recordings"
"""A directory with one for each process that records."""
STAGE, CHECKPOINT, TABLE = "stage", "checkpoint", "table"
"""Directories of the driver."""
ROWS = "rows"
"""The driver's word in its log for each batch, with the number of its rows."""


def stop_with_parent() -> threading.Event:
    """An event that is set when standard input ends."""
    stopping = threading.Event()

    def watch() -> None:
        while os.read(0, 1024):
            pass
        stopping.set()

    threading.Thread(target=watch, daemon=True).start()
    return stopping


def tls_of(directory: Path, name: str) -> TLS:
    return TLS(directory / f"{name}.pem", directory / f"{name}.key", directory / "ca.pem")


def options(directory: Path, name: str, **more: object) -> InstanceOptions:
    """Mutual TLS, a database that the next run of this process finds again, and a recording for the audit."""
    database, record = directory / f"{name}.db", directory / RECORDINGS / name
    return InstanceOptions(database=database, tls=tls_of(directory, name), record=record, **more)  # type: ignore[arg-type]  # passed on as they are


async def until(condition: Callable[[], bool]) -> None:
    """Look fifty times a second: stopping is told by a thread, and the rest has no event that could be waited for."""
    while not condition():  # noqa: ASYNC110  # as said above
        await anyio.sleep(0.02)
