"""The publisher: sends this machine's readings, and logs what is stored.

It logs "sent" before the call and "stored" after it has returned, so whatever moment SIGKILL chooses, no message can be
delivered that was not logged as sent, and none is logged as stored that was not on the disk.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from itertools import count
from pathlib import Path

import anyio
from tolliver.anyio import Instance, create_instance, run

from tolliver_proto import Limits, OutboxFull

from .child import HOST, options, stop_with_parent, until
from .log import Log
from .readings import readings

DRAIN_SECONDS = 15.0


async def publish(directory: Path, name: str, run: int, port: int, rate: float, subscribers: int) -> None:
    stopping = stop_with_parent()
    log = Log(directory, name, run)
    # A Spark driver that was killed may be away for long where the machine is slow: that refuses nothing here.
    limits = Limits(outbox_messages=10_000_000)
    async with create_instance(options(directory, name, listen=f"{HOST}:{port}", limits=limits)) as instance:
        await until(lambda: _known(instance) >= subscribers or stopping.is_set())
        await _publish(instance, log, run, rate, stopping)
        left = await _drain(instance)
        log.write([f"drained {left}"])


def _known(instance: Instance) -> int:
    return sum(bool(peer.subscriptions) for peer in instance.peers())


async def _publish(instance: Instance, log: Log, run: int, rate: float, stopping: threading.Event) -> None:
    """Rounds of readings, one batch each, paced to `rate` messages a second."""
    numbers = count()
    due = time.monotonic()
    while not stopping.is_set():
        now = time.time()
        batch: list[tuple[str, tuple[str, str, bytes]]] = []
        for reading in readings():
            name = f"{run}-{next(numbers)}"
            body = {"id": name, "field": reading.field, "value": reading.value, "at": now}
            batch.append((name, (reading.kind, reading.part, json.dumps(body).encode())))
        log.write(f"sent {name} {item[0]}" for name, item in batch)
        try:
            await instance.send_many([item for _, item in batch])
        except OutboxFull:  # nothing of it was stored: not sent, after all, as far as anybody was promised
            await anyio.sleep(0.1)
            continue
        log.write(f"stored {name} {item[0]}" for name, item in batch)
        due = max(due + len(batch) / rate, time.monotonic() - 1.0)  # never more than a second to make up for
        await anyio.sleep(max(0.0, due - time.monotonic()))


async def _drain(instance: Instance) -> int:
    """Wait until every subscriber has acknowledged everything; returns how many deliveries are left."""
    with anyio.move_on_after(DRAIN_SECONDS):
        await until(lambda: not instance.stats()["pending"])
    return instance.stats()["pending"]


if __name__ == "__main__":
    _, where, who, which, on_port, per_second, expected = sys.argv
    run(publish, Path(where), who, int(which), int(on_port), float(per_second), int(expected))
