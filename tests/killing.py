"""kill -9 of real processes, again and again: what `send` returned for must be handled (PROOF V7).

The idea: one process that has everything imported forks a sender and a receiver, over mutual TLS and with a database
each, kills them at random moments and starts them again. The sender writes down what it is about to send, and again
when `send` has returned; the receiver writes down what it handled before it is acknowledged. At the end the sender
drains its outbox, and the three lists are compared. A kill leaves the lists whole: each line is one `os.write`.

    python -m tests.killing DIRECTORY KILLS SEED     prints the result as one line of JSON
"""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
from tolliver_transports.anyio import TLS, InstanceOptions, create_instance
from tolliver_transports.certs import make_ca, make_certificate

from tolliver_proto import Delivery, Limits

LIFE = 0.25  # seconds, at most, from one kill to the next
BACKLOG = 1000  # messages that wait before the sender does, so that the end is not all draining
SETTLING = 60.0  # seconds for the first message, and for draining at the end
SENDERS = 4

Work = Callable[[], Awaitable[None]]


class Rig:
    """A directory with certificates, databases and lists, and the two programs that use them."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.directory = directory
        self.rng = random.Random(seed)
        make_ca(directory)
        for name in ("sender", "receiver"):
            make_certificate(directory, name)
        with socket.socket() as reserved:
            reserved.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{reserved.getsockname()[1]}"
        self._lives = 0

    # What the forked processes do.

    def options(self, name: str, **options: object) -> InstanceOptions:
        files = self.directory / name
        return InstanceOptions(
            database=files.with_suffix(".db"),
            tls=TLS(files.with_suffix(".pem"), files.with_suffix(".key"), self.directory / "ca.pem"),
            retry_interval=0.5,
            limits=Limits(redial_max=0.2),
            **options,  # type: ignore[arg-type]  # attrs checks them
        )

    def open_list(self, name: str) -> int:
        return os.open(self.directory / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    async def receive(self) -> None:
        handled = self.open_list("handled")

        def handler(delivery: Delivery) -> None:
            os.write(handled, delivery.body.split()[0] + b"\n")

        async with create_instance(self.options("receiver", listen=self.address)) as receiver:
            await receiver.subscribe("work", handler=handler)
            await anyio.sleep_forever()

    async def send(self) -> None:
        """Until it is killed. `life` makes the names of one life different from those of all others."""
        about_to, returned = self.open_list("about to"), self.open_list("returned")
        life, number = self._lives, 0
        async with create_instance(self.options("sender", remotes=[self.address])) as sender:

            async def keep_sending(rng: random.Random) -> None:
                nonlocal number
                while True:
                    if sender.stats()["pending"] > BACKLOG or not sender.peers():
                        await anyio.sleep(0.005)
                        continue
                    count = rng.choice((1, 1, 2, 5, 20))
                    names = [b"%d.%d" % (life, number + at) for at in range(count)]
                    number += count
                    lines = b"".join(name + b"\n" for name in names)
                    os.write(about_to, lines)
                    items = [("work", "", name + b" " + bytes(rng.choice((10, 100, 3000)))) for name in names]
                    receipt = await sender.send_many(items)
                    if receipt.recipients == count:
                        os.write(returned, lines)

            async with anyio.create_task_group() as tasks:
                for at in range(SENDERS):
                    tasks.start_soon(keep_sending, random.Random(life * SENDERS + at))

    async def drain(self) -> None:
        async with create_instance(self.options("sender", remotes=[self.address])) as sender:
            while sender.stats()["pending"]:  # noqa: ASYNC110  # a number, not an event
                await anyio.sleep(0.01)

    # What the process above them does.

    def start(self, work: Work) -> int:
        self._lives += 1
        pid = os.fork()
        if pid:
            return pid
        status = 1
        try:
            anyio.run(work)
            status = 0
        finally:
            os._exit(status)

    def names(self, name: str) -> list[bytes]:
        path = self.directory / name
        return path.read_bytes().splitlines() if path.exists() else []


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def ended_well(pid: int, deadline: float) -> bool:
    while time.monotonic() < deadline:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return status == 0
        time.sleep(0.005)
    kill(pid)
    return False


def run(directory: Path, kills: int, seed: int) -> dict[str, int]:
    """Do it. `drained` is 1 when the sender's outbox came to its end in time."""
    rig = Rig(directory, seed)
    works: dict[str, Work] = {"sender": rig.send, "receiver": rig.receive}
    pids = {name: rig.start(work) for name, work in works.items()}
    deadline = time.monotonic() + SETTLING
    while not rig.names("handled") and time.monotonic() < deadline:
        time.sleep(0.005)
    killed = 0
    while killed < kills:
        time.sleep(rig.rng.uniform(0, LIFE))
        victims = rig.rng.choice((["sender"], ["receiver"], ["sender", "receiver"]))[: kills - killed]
        for name in victims:
            kill(pids[name])
            killed += 1
        for name in victims:
            pids[name] = rig.start(works[name])
    kill(pids["sender"])
    drained = ended_well(rig.start(rig.drain), time.monotonic() + SETTLING)
    kill(pids["receiver"])
    handled = Counter(rig.names("handled"))
    about_to, returned = set(rig.names("about to")), set(rig.names("returned"))
    return {
        "kills": killed,
        "messages": len(returned),
        "lost": len(returned - set(handled)),
        "unexpected": len(set(handled) - about_to),
        "duplicates": handled.total() - len(handled),
        "drained": int(drained),
    }


if __name__ == "__main__":
    print(json.dumps(run(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))))  # noqa: T201  # its only output
