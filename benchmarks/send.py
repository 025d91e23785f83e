"""Messages end to end: two processes over TLS on loopback.

    python benchmarks/send.py [--seconds 2] [--backend asyncio|trio]

A publisher and a subscriber exchange 100-byte bodies, and each row has its own yardstick in the same run. Unreliable
messages are counted where they are handled. Reliable ones go round in full: stored with fsync, sent, handled,
acknowledged; `outstanding` of them are in flight at any time. Beside each stands what bare SQLite does on the same
disk, with the same pragmas and as many rows in a commit as the publisher's commits had on average: one thread, one
table of the store's shape, rows that are only added. Prints the best of three unreliable runs, and of the reliable ones
the median ratio. `us here` and `us there` are processor time a message, which other work on the machine changes least.
"""

from __future__ import annotations

import argparse
import itertools
import platform
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import anyio
import anyio.lowlevel
import anyio.to_thread
from tolliver.anyio import TLS, Instance, InstanceOptions, create_instance
from tolliver.certs import make_ca, make_certificate

BODY = bytes(100)
OUTSTANDING = (1, 100, 1000)
LANES = 4  # batches in flight at a time, so that storing, sending and acknowledging overlap
UNRELIABLE_AIM = 200_000
RATIO_AIM = 0.25
TRIES = 3


def options(directory: Path, name: str, listen: str | None) -> InstanceOptions:
    files = directory / name
    tls = TLS(files.with_suffix(".pem"), files.with_suffix(".key"), directory / "ca.pem")
    return InstanceOptions(database=files.with_suffix(".db"), listen=listen, tls=tls)


async def subscribe(directory: Path) -> None:
    """The other process: says its port, then counts and acknowledges until it is told to stop."""
    async with create_instance(options(directory, "subscriber", "127.0.0.1:0")) as instance:
        handled = 0

        async def count() -> None:
            nonlocal handled
            async for run in instance.message_runs("bench"):
                handled += len(run)
                run.ack()

        async def tell() -> None:
            while True:
                line = await anyio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True)
                if not line:
                    tasks.cancel_scope.cancel()
                    return
                print(handled, time.process_time(), flush=True)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(count)
            await instance.subscribe("bench")
            print(instance.port, flush=True)
            tasks.start_soon(tell)


class Subscriber:
    def __init__(self, directory: Path, backend: str) -> None:
        command = [sys.executable, __file__, "--backend", backend, "--subscribe", str(directory)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdin
        assert self.process.stdout
        self.stdin, self.stdout = self.process.stdin, self.process.stdout
        self.port = int(self.stdout.readline())

    def ask(self) -> tuple[int, float]:
        """Messages handled, and the processor time that it has used, in seconds."""
        print("?", file=self.stdin, flush=True)
        handled, used = self.stdout.readline().split()
        return int(handled), float(used)

    def stop(self) -> None:
        self.stdin.close()
        self.process.wait(30)


class Costs:
    """Processor time a message, in microseconds, here and there: it says what the machine's other work hides."""

    def __init__(self, subscriber: Subscriber) -> None:
        self._subscriber = subscriber
        self._here = time.process_time()
        _, self._there = subscriber.ask()

    def a_message(self, messages: int) -> tuple[float, float]:
        _, there = self._subscriber.ask()
        return (time.process_time() - self._here) / messages * 1e6, (there - self._there) / messages * 1e6


async def unreliable(instance: Instance, subscriber: Subscriber, seconds: float) -> tuple[float, int]:
    """Messages handled a second, and all of them. Messages that find the buffer full are tried again later."""
    before, _ = subscriber.ask()
    sent = 0
    started = time.perf_counter()
    while time.perf_counter() - started < seconds:
        for _ in range(100):
            if instance.unreliable_send("bench", "", BODY):
                sent += 1
            else:
                await anyio.lowlevel.checkpoint()
        await anyio.lowlevel.checkpoint()
    while (await anyio.to_thread.run_sync(subscriber.ask))[0] - before < sent:  # noqa: ASYNC110  # another process
        await anyio.sleep(0.001)
    return sent / (time.perf_counter() - started), sent


async def reliable(instance: Instance, outstanding: int, seconds: float) -> tuple[float, float, int]:
    """Messages acknowledged a second, rows in a commit, and all messages."""
    lanes = min(LANES, outstanding)
    batch = [("bench", "", BODY)] * (outstanding // lanes)
    acked = 0
    commits = instance._core.node._commits._last_batch
    started = time.perf_counter()

    async def lane() -> None:
        nonlocal acked
        while time.perf_counter() - started < seconds:
            await instance.wait_acked(await instance.send_many(batch))
            acked += len(batch)

    async with anyio.create_task_group() as tasks:
        for _ in range(lanes):
            tasks.start_soon(lane)
    took = time.perf_counter() - started
    return acked / took, acked / max(1, instance._core.node._commits._last_batch - commits), acked


def bare(directory: Path, rows: int, seconds: float) -> float:
    """Rows that SQLite alone stores a second."""
    connection = sqlite3.connect(directory / "bare.db", isolation_level=None)
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "fullfsync = ON", "cell_size_check = ON"):
        connection.execute(f"PRAGMA {pragma}")
    connection.execute(
        """CREATE TABLE IF NOT EXISTS message(
            seq INTEGER PRIMARY KEY, wire_id INTEGER NOT NULL, crc INTEGER NOT NULL, stored_at INTEGER NOT NULL,
            channel TEXT NOT NULL, key TEXT NOT NULL, body BLOB NOT NULL)"""
    )
    connection.execute("DELETE FROM message")
    numbers = itertools.count()
    stored = 0
    started = time.perf_counter()
    while time.perf_counter() - started < seconds:
        connection.execute("BEGIN")
        connection.executemany(
            "INSERT INTO message VALUES (?, ?, 0, 0, 'bench', '', ?)",
            [(number, number, BODY) for number in itertools.islice(numbers, rows)],
        )
        connection.execute("COMMIT")
        stored += rows
    took = time.perf_counter() - started
    connection.close()
    return stored / took


async def publish(directory: Path, backend: str, seconds: float) -> None:
    subscriber = Subscriber(directory, backend)
    async with create_instance(options(directory, "publisher", None)) as instance:
        await instance.new_connection(f"127.0.0.1:{subscriber.port}")
        print(f"{'':<27}{'messages/s':>11}{'us here':>9}{'us there':>9}{'rows/commit':>13}{'bare/s':>9}{'ratio':>7}")
        results = []
        for _ in range(TRIES):
            costs = Costs(subscriber)
            rate, messages = await unreliable(instance, subscriber, seconds)
            results.append((rate, costs.a_message(messages)))
        rate, (here, there) = max(results)
        print(f"{'unreliable':<27}{rate:>11,.0f}{here:>9.1f}{there:>9.1f}{'':>29}   aim {UNRELIABLE_AIM:,}/s")
        for outstanding in OUTSTANDING:
            tries = []
            for _ in range(TRIES):
                costs = Costs(subscriber)
                rate, rows, messages = await reliable(instance, outstanding, seconds)
                spent = costs.a_message(messages)
                alone = bare(directory, max(1, round(rows)), seconds / 2)
                tries.append((rate / alone, rate, rows, alone, spent))
            ratio, rate, rows, alone, (here, there) = sorted(tries)[len(tries) // 2]
            aim = f"   aim {RATIO_AIM}" if outstanding == OUTSTANDING[-1] else ""
            print(
                f"{f'reliable, {outstanding:,} outstanding':<27}{rate:>11,.0f}{here:>9.1f}{there:>9.1f}"
                f"{rows:>13,.1f}{alone:>9,.0f}{ratio:>7.2f}{aim}"
            )
    await anyio.to_thread.run_sync(subscriber.stop)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement")
    parser.add_argument("--backend", choices=("asyncio", "trio"), default="asyncio")
    parser.add_argument("--subscribe", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.subscribe:
        anyio.run(subscribe, arguments.subscribe, backend=arguments.backend)
        return
    print(f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {arguments.backend}")
    with tempfile.TemporaryDirectory(
        dir="."
    ) as directory:  # the system's own place for such may be memory, without fsync
        make_ca(directory)
        for name in ("publisher", "subscriber"):
            make_certificate(directory, name)
        anyio.run(publish, Path(directory), arguments.backend, arguments.seconds, backend=arguments.backend)
    print("again: python benchmarks/send.py " + " ".join(sys.argv[1:]))


if __name__ == "__main__":
    main()
