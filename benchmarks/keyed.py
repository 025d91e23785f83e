"""Keyed sends beside plain ones: what a message key costs.

    python benchmarks/keyed.py [--rounds 20]

Two instances in one process, plaintext over loopback, databases on disk, 100-byte bodies. In a round, as many tasks as
the row says each send a message and wait for its acknowledgement: first without a key, then with one, then once more
with the same key, which stores nothing. Prints the medians: processor time a message on both ends together, time a
message, and both as ratios to the plain send of the same run.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import anyio
from tolliver.anyio import Instance, InstanceOptions, create_instance

BODY = bytes(100)
TASKS = (1, 100)


async def measured(instance: Instance, keys: Callable[[], str | None], tasks: int) -> tuple[float, float]:
    """Processor time and time of a message, in microseconds."""

    async def one() -> None:
        await instance.wait_acked(await instance.send("bench", "", BODY, message_key=keys()))

    used, started = time.process_time(), time.perf_counter()
    async with anyio.create_task_group() as group:
        for _ in range(tasks):
            group.start_soon(one)
    spent = time.process_time() - used, time.perf_counter() - started
    return spent[0] / tasks * 1e6, spent[1] / tasks * 1e6


async def compare(directory: Path, rounds: int) -> None:
    def options(name: str, listen: str | None) -> InstanceOptions:
        return InstanceOptions(database=directory / f"{name}.db", listen=listen, plaintext=True)

    async with (
        create_instance(options("subscriber", "127.0.0.1:0")) as subscriber,
        create_instance(options("publisher", None)) as publisher,
    ):
        await subscriber.subscribe("bench", handler=lambda delivery: True)
        await publisher.new_connection(f"127.0.0.1:{subscriber.port}")
        await publisher.wait_subscribed("bench")
        print(f"{'':<34}{'us processor':>13}{'ratio':>7}{'us':>9}{'ratio':>7}")
        new, again = (map(str, itertools.count()) for _ in range(2))
        ways: dict[str, Callable[[], str | None]] = {
            "plain": lambda: None,
            "with a key": lambda: next(new),
            "with the key, again": lambda: next(again),
        }
        for tasks in TASKS:
            found: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
            for _ in range(rounds):
                for way, keys in ways.items():
                    found[way].append(await measured(publisher, keys, tasks))
            medians = {way: [statistics.median(one) for one in zip(*all_, strict=True)] for way, all_ in found.items()}
            for way, (processor, wall) in medians.items():
                of_processor, of_wall = processor / medians["plain"][0], wall / medians["plain"][1]
                name = f"{way}, {tasks} at once"
                print(f"{name:<34}{processor:>13.0f}{of_processor:>7.2f}{wall:>9.0f}{of_wall:>7.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=20, help="rounds of each row")
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as directory:
        anyio.run(compare, Path(directory), rounds)


if __name__ == "__main__":
    main()
