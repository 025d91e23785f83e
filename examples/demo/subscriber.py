"""A subscriber: logs each delivery, and only then lets it be acknowledged."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from tolliver.anyio import create_instance, run

from tolliver_proto import Delivery

from .child import HOST, SUBSCRIBERS, options, stop_with_parent, until
from .log import Log


async def follow(directory: Path, name: str, run: int, port: int) -> None:
    stopping = stop_with_parent()
    log = Log(directory, name, run)

    def handle(delivery: Delivery) -> None:
        message = json.loads(delivery.body)
        log.write([f"got {message['id']} {delivery.channel} {time.time():.3f}"])

    async with create_instance(options(directory, name)) as instance:
        for channel in SUBSCRIBERS[name]:
            await instance.subscribe(channel, "", handle)
        await instance.new_connection(f"{HOST}:{port}")
        await until(stopping.is_set)


if __name__ == "__main__":
    _, where, who, which, on_port = sys.argv
    run(follow, Path(where), who, int(which), int(on_port))
