"""Cost of staging to a receiver, against an instance without a stage.

    python benchmarks/staging.py [--messages 30000] [--body 100] [--repetitions 5] [--directory DIR] [--stagers N ...]

A sender in another process stores messages in batches, over mutual TLS, until all are acknowledged by a stager or by
the same instance that keeps nothing. The time measured has the sender's own commits in it, so the two receivers take
turns, and the ratio is that of the same round. Beside it, the writer alone: messages of one sender, in runs of 256,
added and synced 1 MiB at a time, against a file to which the encoded messages are written with the same syncs. All
figures are medians. Give a directory on the disk that is meant: syncing is most of what differs.

With `--stagers 1 2 4` so many stagers run beside each other, each a process with a sender of its own, and nothing else
is measured. They share nothing, so what each adds is bounded by what a message costs it in CPU time: "with a core each"
is that bound, and the last column how it grows. The rate measured is that of this machine with its cores. Memory is the
most that a stager had, resident; disk is what a message takes in its segment, ids and index with it.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

from tolliver.blocking import TLS, InstanceOptions, create_instance
from tolliver.certs import make_ca, make_certificate
from tolliver.staging import FolderOptions, StageOptions, Stager, StageWriter

from tolliver_proto import Message, Receipt, Revision, encode

HOST, RUN, BATCH, MIB = "127.0.0.1", 256, 1000, 2**20
WAITING = 50  # batches that may wait for acknowledgements: half of a peer's quota
SENDER = UUID("01890000-0000-7000-8000-000000000001")


def tls(directory: Path, name: str) -> TLS:
    return TLS(directory / f"{name}.pem", directory / f"{name}.key", directory / "ca.pem")


# Whole receivers.


def send(directory: Path, address: str, count: int, size: int) -> None:
    """The other process: prints the seconds from the first call to the last acknowledgement."""
    options = InstanceOptions(database=directory / "sender.db", tls=tls(directory, "sender"))
    with create_instance(options) as instance:
        instance.new_connection(address)
        body = bytes(size)
        begun = time.perf_counter()
        receipts: deque[Receipt] = deque()
        for _ in range(count // BATCH):
            if len(receipts) == WAITING:
                instance.wait_acked(receipts.popleft())
            receipts.append(instance.send_many([("c", "k", body)] * BATCH))
            assert receipts[-1].deliveries == BATCH
        for receipt in receipts:
            instance.wait_acked(receipt)
        print(time.perf_counter() - begun)


@contextmanager
def plain(directory: Path) -> Iterator[int]:
    options = InstanceOptions(database=directory / "plain.db", listen=f"{HOST}:0", tls=tls(directory, "receiver"))

    def acknowledge() -> None:
        for run in runs:
            run.ack()

    with create_instance(options) as instance:
        runs = instance.message_runs("c", "")
        thread = threading.Thread(target=acknowledge)
        thread.start()
        ((_, port),) = instance.addresses
        yield port
    thread.join()


@contextmanager
def staging(directory: Path) -> Iterator[int]:
    options = StageOptions(
        directory=directory / "stage", listen=f"{HOST}:0", tls=tls(directory, "receiver"), subscriptions=[("c", "")]
    )
    with Stager(options) as stager:
        ((_, port),) = stager.addresses
        yield port
        stager.folder.delete_before(stager.position)


def through(receiver: Callable[[Path], AbstractContextManager[int]], directory: Path, count: int, size: int) -> float:
    """Messages a second."""
    with receiver(directory) as port:
        command = [sys.executable, __file__, "--send", f"{HOST}:{port}", "--directory", str(directory)]
        numbers = ["--messages", str(count), "--body", str(size)]
        said = subprocess.run([*command, *numbers], check=True, capture_output=True).stdout
    return count / float(said)


# Many stagers.


def stage(directory: Path) -> None:
    """One of the processes: prints its port, and at the end of its input the CPU seconds since then, the most bytes of
    memory that it had, and those of its segments.
    """
    with staging(directory) as port:
        print(port, flush=True)
        begun = time.process_time()
        sys.stdin.read()
        cpu, memory = time.process_time() - begun, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        disk = sum(path.stat().st_size for path in (directory / "stage" / "segments").iterdir())
        print(cpu, memory, disk, flush=True)


class Cost(NamedTuple):
    """Of stagers beside each other: messages a second of all together, and of one of them CPU seconds of a message, the
    most bytes of memory, and bytes on disk of a message.
    """

    rate: float
    cpu: float
    memory: float
    disk: float


def beside_each_other(directory: Path, certificates: Path, stagers: int, count: int, size: int) -> Cost:
    places = [directory / str(number) for number in range(stagers)]
    for place in places:
        shutil.copytree(certificates, place)
    command = [sys.executable, __file__, "--messages", str(count), "--body", str(size)]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with ExitStack() as stack:
        running = [
            stack.enter_context(subprocess.Popen([*command, "--stage", "--directory", str(place)], **pipes))
            for place in places
        ]
        addresses = [f"{HOST}:{stager.stdout.readline().strip()}" for stager in running if stager.stdout]
        sending = [
            stack.enter_context(subprocess.Popen([*command, "--send", to, "--directory", str(place)], **pipes))
            for place, to in zip(places, addresses, strict=True)
        ]
        seconds = max(float(sender.communicate()[0]) for sender in sending)
        told = [map(float, stager.communicate()[0].split()) for stager in running]
    cpu, memory, disk = zip(*told, strict=True)
    total = stagers * count
    return Cost(total / seconds, sum(cpu) / total, max(memory), sum(disk) / total)


def measure_many(directory: Path, numbers: list[int], count: int, size: int, repetitions: int) -> None:
    certificates = directory / "certificates"
    make_certificates(certificates)
    print(
        "| stagers | messages/s here | CPU us a message | MiB of memory | bytes on disk | with a core each | of one |"
    )
    print("|---|---|---|---|---|---|---|")
    alone = 0.0
    for stagers in numbers:
        places = [directory / f"{stagers}-{number}" for number in range(repetitions)]
        rounds = [beside_each_other(place, certificates, stagers, count, size) for place in places]
        cost = Cost(*map(statistics.median, zip(*rounds, strict=True)))
        alone = alone or 1 / cost.cpu
        all_of_it = f"{stagers / cost.cpu:,.0f} | {stagers / cost.cpu / alone:.2f}"
        one = f"{cost.cpu * 1e6:.1f} | {cost.memory / MIB:.0f} | {cost.disk:,.0f}"
        print(f"| {stagers} | {cost.rate:,.0f} | {one} | {all_of_it} |")


def make_certificates(directory: Path) -> None:
    directory.mkdir(exist_ok=True)
    make_ca(directory)
    for name in ("sender", "receiver"):
        make_certificate(directory, name)


# The writer alone.


def written(directory: Path, runs: list[list[Message]]) -> float:
    writing = StageWriter(FolderOptions(directory=directory / "alone"))
    begun = time.perf_counter()
    for run in runs:
        writing.add(SENDER, 1, Revision.DRAFT_2, run)
        if writing.waiting_bytes >= MIB:
            assert writing.sync()
    assert writing.sync()
    took = time.perf_counter() - begun
    writing.folder.delete_before(writing.end)
    writing.close()
    return sum(map(len, runs)) / took


def file_written(directory: Path, runs: list[list[Message]]) -> float:
    begun, waiting, size = time.perf_counter(), [], 0
    with (directory / "file").open("wb", buffering=0) as file:
        for run in runs:
            waiting += [encode(message) for message in run]
            size += sum(map(len, waiting[-len(run) :]))
            if size >= MIB or run is runs[-1]:
                file.write(b"".join(waiting))
                os.fsync(file.fileno())
                waiting, size = [], 0
    return sum(map(len, runs)) / (time.perf_counter() - begun)


def show(title: str, ours: list[float], baseline: list[float], against: str) -> None:
    ratio = statistics.median(one / other for one, other in zip(ours, baseline, strict=True))
    print(
        f"{title:<14} {statistics.median(ours):>10,.0f}/s   {against}: {statistics.median(baseline):>10,.0f}/s   "
        f"ratio {ratio:.2f}"
    )


def measure(directory: Path, count: int, size: int, repetitions: int) -> None:
    make_certificates(directory)
    print(f"{count:,} messages of {size} bytes; Python {platform.python_version()}, {os.cpu_count()} cores")
    staged, acknowledged, alone, file = [], [], [], []
    for number in range(repetitions):
        staged.append(through(staging, directory, count, size))
        acknowledged.append(through(plain, directory, count, size))
        first = 1 + number * count
        ids = range(first, first + count)
        runs = [[Message("c", "k", bytes(size), one) for one in ids[at : at + RUN]] for at in range(0, count, RUN)]
        alone.append(written(directory, runs))
        file.append(file_written(directory, runs))
    show("stager", staged, acknowledged, "acknowledging at once")
    show("writer alone", alone, file, "encoding into a file ")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--messages", type=int, default=30_000)
    parser.add_argument("--body", type=int, default=100)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--directory", type=Path, help="where the stages and databases go (default: a temporary one)")
    parser.add_argument("--send", metavar="ADDRESS", help=argparse.SUPPRESS)
    parser.add_argument("--stage", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--stagers", type=int, nargs="+", help="so many beside each other, and nothing else")
    given = parser.parse_args()
    if given.send:
        send(given.directory, given.send, given.messages, given.body)
    elif given.stage:
        stage(given.directory)
    else:
        with tempfile.TemporaryDirectory(dir=given.directory) as name:
            whole = given.messages - given.messages % BATCH
            if given.stagers:
                measure_many(Path(name), given.stagers, whole, given.body, given.repetitions)
            else:
                measure(Path(name), whole, given.body, given.repetitions)
