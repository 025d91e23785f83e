"""Local programs: messages that processes hand over to one instance, and what idle ones cost.

python -m benchmarks.local            one instance with a peer that handles all, four processes that send
"""

from __future__ import annotations

import argparse
import os
import resource
import socket
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from time import monotonic

from tolliver import local
from tolliver.blocking import InstanceOptions, create_instance
from tolliver.derived import derived_identity

from tolliver_proto import Connection as Wire
from tolliver_proto import Limits, Role

BODY = bytes(100)
PROCESSES = 4
_ROOM = Limits(outbox_messages=10_000_000)


def send(path: str, seconds: float, batch: int, done: Connection) -> None:
    """Send for so long, one by one or in batches; tells how many were answered."""
    count = 0
    with local.connect(path) as me:
        done.send(None)
        done.recv()
        until = monotonic() + seconds
        items = [("news", "k", BODY)] * batch
        while monotonic() < until:
            count += len((me.send("news", "k", BODY) if batch == 1 else me.send_many(items)).counts)
    done.send(count)


def accepting(path: str, directory: str, ready: Connection) -> None:
    """An instance that accepts, and whose only subscriber is away: what is measured is the handing over alone."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    options = InstanceOptions(
        database=f"{directory}/left.db", plaintext=True, listen="127.0.0.1:0", accept=f"unix:{path}", limits=_ROOM
    )
    with create_instance(options) as left:
        right = InstanceOptions(database=f"{directory}/right.db", plaintext=True, subscriptions=["news"])
        with create_instance(right) as visitor:
            visitor.new_connection(f"127.0.0.1:{left.port}")
            left.wait_subscribed("news", "k")
        ready.send(None)
        while ready.recv():
            ready.send(_resident())


def _resident() -> int:
    """Bytes of memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def running() -> Iterator[tuple[str, Connection]]:
    context = get_context("spawn")
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/s"
        ours, theirs = context.Pipe()
        process = context.Process(target=accepting, args=(path, directory, theirs))
        process.start()
        try:
            ours.recv()
            yield path, ours
            ours.send(False)
        finally:
            process.join(20)
            process.kill()


def rate(path: str, seconds: float, batch: int, processes: int) -> float:
    """Messages a second that all processes together had answered."""
    context = get_context("spawn")
    pipes, started = [], []
    for _ in range(processes):
        ours, theirs = context.Pipe()
        started.append(context.Process(target=send, args=(path, seconds, batch, theirs)))
        started[-1].start()
        pipes.append(ours)
    for one in pipes:
        one.recv()
    for one in pipes:
        one.send(None)
    counts: list[int] = [one.recv() for one in pipes]
    for process in started:
        process.join(20)
    return sum(counts) / seconds


def idle(path: str, instance: Connection, clients: int) -> float:
    """Bytes of the instance's memory that each idle client takes."""
    instance.send(True)
    before: int = instance.recv()
    with ExitStack() as stack:
        for number in range(clients):
            sock = stack.enter_context(socket.socket(socket.AF_UNIX))
            sock.connect(path)
            wire = Wire(Role.CLIENT, instance_id=derived_identity(local.local_prefix(os.getuid()), str(number)))
            sock.sendall(b"".join(wire.data_to_send()))
            while not wire.live:
                wire.receive_data(sock.recv(65536))
                list(wire.events())
        instance.send(True)
        after: int = instance.recv()
        return (after - before) / clients


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--idle", type=int, default=2000)
    arguments = parser.parse_args()
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    with running() as (path, instance):
        each = idle(path, instance, arguments.idle)
        print(f"{arguments.idle} idle programs: {each / 1024:.1f} KiB each, {each * arguments.idle / 2**20:.0f} MiB")
        for batch, processes in ((1, 1), (1, PROCESSES), (500, 1), (500, PROCESSES)):
            got = rate(path, arguments.seconds, batch, processes)
            print(f"{processes} processes, {batch} at a time: {got:,.0f} messages/s")


if __name__ == "__main__":
    main()
