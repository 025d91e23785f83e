"""Work queues: three workers, one of which is slow, in both shapes.

    python benchmarks/work.py [--jobs 100000] [--slow 0.01] [--concurrency 16]

A producer and three workers are processes over TLS on loopback; jobs have 100 bytes, and a slow worker takes `--slow`
seconds for each, where the others take none. `queue` is `work_queue` and `work`. `stream` is an instance that gets the
jobs as messages of its own and gives them to a stream's subscribers by their demand. `send_many` is the yardstick of
the same run: as many messages to one subscriber, which acknowledges each. A row has jobs a second, the ratio to the
yardstick, the share of each worker, the slow one last, and the producer's processor time for a job. `killed` is the
first shape once more: when a third of the jobs is done, one of the fast workers is killed; then it says how many jobs
were lost, and how many were done twice.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
from tolliver.anyio import (
    TLS,
    InstanceOptions,
    StreamsOptions,
    create_instance,
    create_streams,
)
from tolliver.certs import make_ca, make_certificate

BODY = bytes(92)
BLOCK = 1000  # jobs in one call
WORKERS = 3  # the last one is slow
LEASE = 1.0
DEMAND = 128  # of a stream's subscriber, at a time


def tls(directory: Path, name: str) -> TLS:
    files = directory / name
    return TLS(files.with_suffix(".pem"), files.with_suffix(".key"), directory / "ca.pem")


def options(directory: Path, name: str, **more: Any) -> InstanceOptions:
    return InstanceOptions(database=directory / f"{name}.db", tls=tls(directory, name), **more)


def bodies(count: int) -> list[bytes]:
    return [number.to_bytes(8, "big") + BODY for number in range(count)]


# A worker's process: writes the number of each job that it has done to its list.


class Done:
    def __init__(self, directory: Path, name: str) -> None:
        self._fd = os.open(directory / f"{name}.done", os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def add(self, body: bytes) -> None:
        os.write(self._fd, body[:8])


async def work(directory: Path, name: str, shape: str, address: str, slow: float, concurrency: int) -> None:
    done = Done(directory, name)
    if shape == "stream":
        async with create_streams(StreamsOptions(tls=tls(directory, name))) as streams:
            await streams.connect(address)
            async with streams.subscribe("jobs", prefetch=DEMAND) as jobs:
                async for body in jobs:
                    if slow:
                        await anyio.sleep(slow)
                    done.add(body)
        return
    async with create_instance(options(directory, name, remotes=[address])) as instance:
        if shape == "send_many":
            async for run in instance.message_runs("jobs"):
                for job in run:
                    done.add(job.body)
                run.ack()
            return
        async with instance.work("jobs", concurrency=concurrency, lease=LEASE) as jobs:
            async for job in jobs:
                if slow:
                    await anyio.sleep(slow)
                done.add(job.body)
                job.ack()


class Crew:
    """Workers' processes, and what they have done."""

    def __init__(self, directory: Path, shape: str, address: str, args: argparse.Namespace) -> None:
        names = [f"worker{number}" for number in range(1 if shape == "send_many" else WORKERS)]
        self.lists = [directory / f"{name}.done" for name in names]
        self.processes = []
        for name in names:
            path = directory / f"{name}.done"
            path.unlink(missing_ok=True)
            slow = args.slow if name == f"worker{WORKERS - 1}" else 0.0
            command = [sys.executable, __file__, "--worker", name, shape, address, str(directory)]
            command += ["--slow", str(slow), "--concurrency", str(args.concurrency)]
            self.processes.append(subprocess.Popen(command))

    def counts(self) -> list[int]:
        return [path.stat().st_size // 8 if path.exists() else 0 for path in self.lists]

    def done(self) -> Counter[bytes]:
        found: Counter[bytes] = Counter()
        for path in self.lists:
            data = path.read_bytes() if path.exists() else b""
            found.update(data[at : at + 8] for at in range(0, len(data) - 7, 8))
        return found

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()


async def until(crew: Crew, count: int) -> None:
    while sum(crew.counts()) < count:  # noqa: ASYNC110  # a number of other processes, not an event
        await anyio.sleep(0.02)


async def by_instance(directory: Path, shape: str, args: argparse.Namespace, kill: bool) -> tuple[Crew, float, float]:
    async with create_instance(options(directory, "boss", listen="127.0.0.1:0")) as boss:
        queue = boss.work_queue("jobs", lease=LEASE) if shape == "queue" else None
        crew = Crew(directory, shape, f"127.0.0.1:{boss.port}", args)
        try:
            await boss.wait_subscribed("jobs", peers=len(crew.processes), timeout=60)
            began, used = time.perf_counter(), time.process_time()
            jobs = bodies(args.jobs)
            receipts = []
            for at in range(0, len(jobs), BLOCK):
                block = jobs[at : at + BLOCK]
                while boss.stats().pending > 20_000:  # noqa: ASYNC110  # a number, not an event
                    await anyio.sleep(0.005)
                if queue is not None:
                    receipts.append(await queue.put_many(block))
                else:
                    receipts.append(await boss.send_many([("jobs", "", body) for body in block]))
                if kill and sum(crew.counts()) > args.jobs // 3:
                    crew.processes[0].kill()
                    kill = False
            if kill:
                await until(crew, args.jobs // 3)
                crew.processes[0].kill()
            for receipt in receipts:
                await boss.wait_acked(receipt)
            return crew, time.perf_counter() - began, time.process_time() - used
        finally:
            crew.end()


async def by_stream(directory: Path, args: argparse.Namespace) -> tuple[Crew, float, float]:
    """Jobs are messages to an instance of the dispatcher, and one iterator of it feeds all subscribers."""
    async with (
        create_instance(options(directory, "boss")) as boss,
        create_instance(options(directory, "dispatcher", listen="127.0.0.1:0")) as dispatcher,
        create_streams(StreamsOptions(tls=tls(directory, "dispatcher"), listen="127.0.0.1:0")) as streams,
    ):
        messages = dispatcher.messages("jobs")
        messages.be_patient()

        async def source(_name: str) -> AsyncIterator[bytes]:
            """One subscriber's: it is asked for the next element as the subscriber has asked for more."""
            async for message in messages:
                yield message.body
                message.ack()

        streams.publish("jobs", source)
        await dispatcher.subscribe("jobs")
        await boss.new_connection(f"127.0.0.1:{dispatcher.port}")
        crew = Crew(directory, "stream", f"127.0.0.1:{streams.port}", args)
        try:
            await boss.wait_subscribed("jobs", timeout=60)
            await anyio.sleep(1.0)  # until the workers are there
            began, used = time.perf_counter(), time.process_time()
            jobs = bodies(args.jobs)
            with anyio.move_on_after(args.patience):
                for at in range(0, len(jobs), BLOCK):
                    await boss.send_many([("jobs", "", body) for body in jobs[at : at + BLOCK]])
                await until(crew, args.jobs)
            return crew, time.perf_counter() - began, time.process_time() - used
        finally:
            crew.end()


def row(name: str, args: argparse.Namespace, found: tuple[Crew, float, float], yardstick: float) -> float:
    crew, seconds, used = found
    rate: float = args.jobs / seconds
    total = max(1, sum(crew.counts()))
    shares = " ".join(f"{100 * count / total:.0f} %" for count in crew.counts())
    done = crew.done()
    lost = args.jobs - len(done)
    twice = sum(count > 1 for count in done.values())
    ratio = f"{rate / yardstick:.2f}" if yardstick else "1"
    print(
        f"{name:10} {rate:10,.0f} jobs/s   ratio {ratio:5}   shares {shares:14}   {1e6 * used / args.jobs:6.1f} us here"
        f"   {lost} lost, {twice} twice",
        flush=True,
    )
    return rate


def fresh(top: str, function: Any, *arguments: Any) -> tuple[Crew, float, float]:
    """Findings of the function, with databases of its own."""
    directory = Path(tempfile.mkdtemp(dir=top))
    make_ca(directory)
    for name in ("boss", "dispatcher", *(f"worker{number}" for number in range(WORKERS))):
        make_certificate(directory, name)
    found: tuple[Crew, float, float] = anyio.run(function, directory, *arguments)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--slow", type=float, default=0.01)
    parser.add_argument("--concurrency", type=int, default=16)
    parser.add_argument("--patience", type=float, default=600.0, help="seconds for a row of the stream's shape")
    parser.add_argument("--worker", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        name, shape, address, where = args.worker
        anyio.run(work, Path(where), name, shape, address, args.slow, args.concurrency)
        return

    with tempfile.TemporaryDirectory() as top:
        yardstick = row("send_many", args, fresh(top, by_instance, "send_many", args, False), 0.0)
        row("queue", args, fresh(top, by_instance, "queue", args, False), yardstick)
        row("killed", args, fresh(top, by_instance, "queue", args, True), yardstick)
        row("stream", args, fresh(top, by_stream, args), yardstick)


if __name__ == "__main__":
    main()
