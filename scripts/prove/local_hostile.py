"""Hostile local programs at an instance's socket: connections, half frames, drips and floods. Linux only.

    python -m scripts.prove.local_hostile [CONNECTIONS]     10,000 by default

The instance is a process of its own with a peer. So many connections are open at once on the hostile side, of which the
instance keeps 4,096: a quarter says nothing, a quarter half a handshake, a quarter is taken in and idle, and a quarter
has half an ask. Others drip a byte at a time, and flood with asks whose answers they do not read. Meanwhile one honest
program sends, and each of its messages must come to the peer. Exit status 1 where an aim is missed.
"""

from __future__ import annotations

import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory

from tolliver import local
from tolliver.blocking import InstanceOptions, create_instance
from tolliver.derived import derived_identity

from tolliver_proto import Connection, Message, Role

SENDS = 200
MEMORY = 192.0  # MiB beyond before, at most: 64 of half frames, 64 in progress, and connections
SLOWEST = 30.0  # seconds for a send of the honest program
DRIPS, FLOODS = 50, 8
PREFIX = local.local_prefix(os.getuid())


def serve(directory: str, ready: int) -> None:
    """An instance with a peer, which writes down what it handles."""
    with (
        create_instance(
            InstanceOptions(database=":memory:", plaintext=True, listen="127.0.0.1:0", accept=f"unix:{directory}/s")
        ) as left,
        create_instance(InstanceOptions(database=":memory:", plaintext=True)) as right,
        open(f"{directory}/handled", "ab", buffering=0) as handled,
    ):
        right.subscribe("news", handler=lambda delivery: handled.write(delivery.body + b"\n"))
        right.new_connection(f"127.0.0.1:{left.port}")
        left.wait_subscribed("news", "")
        os.write(ready, b"1")
        signal.pause()


class Hostile:
    """A connection that does one of the things that a hostile program may do."""

    def __init__(self, path: str, number: int, how: str) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(60)
        self.sock.connect(path)
        self.connection = Connection(Role.CLIENT, instance_id=derived_identity(PREFIX, str(number)))
        hello = b"".join(self.connection.data_to_send())
        with suppress(OSError):  # it has made room for others
            if how == "half a handshake":
                self.sock.sendall(hello[:-1])
            elif how != "silent":
                self.sock.sendall(hello)
                self.enter()
                if how == "half an ask":
                    self.sock.sendall(self.asks(1)[:-1])
                self.sock.setblocking(False)

    def enter(self) -> None:
        while not self.connection.live:
            data = self.sock.recv(4096)
            if not data:
                raise ConnectionResetError
            self.connection.receive_data(data)
            list(self.connection.events())

    def asks(self, count: int) -> bytes:
        head = b'{"verb": "send"}'
        body = len(head).to_bytes(4, "big") + head + bytes(4000)
        for number in range(1, count + 1):
            self.connection.send(Message("tolliver.local", "", body, number))
        return b"".join(self.connection.data_to_send())


def resident(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def besiege(path: str, size: int) -> Iterator[Hostile]:
    for number, how in zip(range(size), cycle(("silent", "half a handshake", "idle", "half an ask")), strict=False):
        yield Hostile(path, number, how)


def annoy(drips: list[Hostile], floods: list[Hostile], turn: int) -> None:
    for one in drips:
        with suppress(OSError):
            one.sock.send(b"\0")
    for one in floods:
        with suppress(OSError):
            one.sock.send(one.asks(50) if turn < 20 else b"")


def main() -> int:
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    size = min(size, limit - 500)
    with TemporaryDirectory(dir="/tmp") as directory:
        ready, told = os.pipe()
        pid = os.fork()
        if not pid:
            try:
                serve(directory, told)
            finally:
                os._exit(0)
        try:
            os.read(ready, 1)
            return judge(f"{directory}/s", pid, size, Path(directory) / "handled")
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def judge(path: str, pid: int, size: int, handled: Path) -> int:
    before, times = resident(pid), list[float]()
    with local.connect(path, timeout=60) as me:
        hostile = [*besiege(path, size)]
        drips = [Hostile(path, size + number, "silent") for number in range(DRIPS)]
        floods = [Hostile(path, size + DRIPS + number, "idle") for number in range(FLOODS)]
        most = resident(pid)
        for turn in range(SENDS):
            annoy(drips, floods, turn)
            began = time.monotonic()
            me.send("news", "", b"%d" % turn, message_key=str(turn))
            times.append(time.monotonic() - began)
            most = max(most, resident(pid))
    with local.connect(path, timeout=60) as late:  # a newcomer
        late.send("news", "", b"%d" % SENDS, message_key="late")
    end = time.monotonic() + SLOWEST
    wanted = {b"%d" % one for one in range(SENDS + 1)}
    while not wanted <= {*handled.read_bytes().split()} and time.monotonic() < end:
        time.sleep(0.05)
    missing = len(wanted - {*handled.read_bytes().split()})
    memory = (most - before) / 2**20
    is_good = not missing and memory <= MEMORY and max(times) <= SLOWEST
    print(
        f"result: local-hostile | {len(hostile):,} hostile connections at once, {DRIPS} drips, {FLOODS} floods | "
        f"{SENDS + 1} sends of honest programs, {missing} not handled, the slowest {max(times):.2f} s; the instance "
        f"took {memory:.0f} MiB more{'' if is_good else ' (MISSED)'}"
    )
    return int(not is_good)


if __name__ == "__main__":
    sys.exit(main())
