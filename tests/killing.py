"""kill -9 of real processes, again and again (V7).

Everything that `send` returned for must be handled. One process that has everything imported forks a sender and a
receiver, with a database each, kills them at random moments and starts them again. The sender writes down what it is
about to send, and again when `send` has returned; the receiver writes down what it handled before it is acknowledged.
At the end the sender drains its outbox, and the three lists are compared. A kill leaves the lists whole: what is
written down is one `os.write`. The seed says which adapters they use, and whether they speak mutual TLS or, one time in
five, plaintext.

    python -m tests.killing DIRECTORY KILLS SEED     prints the result as one line of JSON
"""

from __future__ import annotations

import bisect
import json
import os
import random
import signal
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import anyio
from tolliver_transports import blocking
from tolliver_transports.anyio import TLS, InstanceOptions, create_instance
from tolliver_transports.certs import make_ca, make_certificate

from tolliver_proto import Delivery, Limits

LIVES = (0.2, 0.5, 1.0, 2.0, 3.0)  # at most, from one kill to the next: as parts of what both take to be at work
BACKLOG = 1000  # messages that wait before the sender does, so that the end is not all draining
SETTLING = 120.0  # seconds for the first message, and for draining at the end
RUNS = (1, 1, 2, 5, 20, 100, 400)  # messages in one call
SIZES = (10, 100, 3000)  # bytes in one body
SENDERS = 4
ADAPTERS = ("anyio", "blocking")

Work = Callable[[], None]


class Lists:
    """What the sender writes down: the names of one life are different from those of all others."""

    def __init__(self, rig: Rig, life: int) -> None:
        self._about_to, self._returned = rig.open_list("about to"), rig.open_list("returned")
        self._life, self._number = life, 0

    def items(self, rng: random.Random) -> tuple[bytes, list[tuple[str, str, bytes]]]:
        count, size = rng.choice(RUNS), rng.choice(SIZES)
        names = [b"%d.%d" % (self._life, self._number + at) for at in range(count)]
        self._number += count
        lines = b"".join(name + b"\n" for name in names)
        os.write(self._about_to, lines)
        return lines, [("work", "", name + b" " + bytes(size if count < 50 else 10)) for name in names]

    def returned(self, lines: bytes, recipients: int) -> None:
        if recipients:  # else nobody has subscribed yet
            os.write(self._returned, lines)


class Rig:
    """A directory with certificates, databases and lists, and the two programs that use them."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.directory = directory
        self.rng = random.Random(seed)
        self.plaintext = seed % 5 == 4
        self.adapters = {"sender": ADAPTERS[seed % 2], "receiver": ADAPTERS[seed // 2 % 2]}
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
        tls = TLS(files.with_suffix(".pem"), files.with_suffix(".key"), self.directory / "ca.pem")
        return InstanceOptions(
            database=files.with_suffix(".db"),
            tls=None if self.plaintext else tls,
            plaintext=self.plaintext,
            retry_interval=0.5,
            limits=Limits(redial_max=0.1),
            **options,  # type: ignore[arg-type]  # attrs checks them
        )

    def open_list(self, name: str) -> int:
        return os.open(self.directory / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def handler(self) -> Callable[[Delivery], None]:
        handled = self.open_list("handled")

        def handler(delivery: Delivery) -> None:
            os.write(handled, b"%s %d\n" % (delivery.body.split()[0], time.monotonic_ns()))

        return handler

    async def receive_anyio(self) -> None:
        async with create_instance(self.options("receiver", listen=self.address)) as receiver:
            await receiver.subscribe("work", handler=self.handler())
            await anyio.sleep_forever()

    def receive_blocking(self) -> None:
        with blocking.create_instance(self.options("receiver", listen=self.address)) as receiver:
            receiver.subscribe("work", handler=self.handler())
            threading.Event().wait()

    async def send_anyio(self) -> None:
        """Until it is killed."""
        lists = Lists(self, self._lives)
        async with create_instance(self.options("sender", remotes=[self.address])) as sender:

            async def keep_sending(rng: random.Random) -> None:
                while True:
                    if sender.stats()["pending"] > BACKLOG:
                        await anyio.sleep(0.005)
                        continue
                    lines, items = lists.items(rng)
                    receipt = await sender.send_many(items)
                    lists.returned(lines, receipt.recipients)
                    if not receipt.recipients:
                        await anyio.sleep(0.005)

            async with anyio.create_task_group() as tasks:
                for at in range(SENDERS):
                    tasks.start_soon(keep_sending, random.Random(self._lives * SENDERS + at))

    def send_blocking(self) -> None:
        lists, rng = Lists(self, self._lives), random.Random(self._lives)
        with blocking.create_instance(self.options("sender", remotes=[self.address])) as sender:
            while True:
                if sender.stats()["pending"] > BACKLOG:
                    time.sleep(0.005)
                    continue
                lines, items = lists.items(rng)
                receipt = sender.send_many(items)
                lists.returned(lines, receipt.recipients)
                if not receipt.recipients:
                    time.sleep(0.005)

    async def drain(self) -> None:
        async with create_instance(self.options("sender", remotes=[self.address])) as sender:
            while sender.stats()["pending"]:  # noqa: ASYNC110  # a number, not an event
                await anyio.sleep(0.01)

    def work(self, name: str) -> Work:
        works: dict[tuple[str, str], Work] = {
            ("sender", "anyio"): lambda: anyio.run(self.send_anyio),
            ("sender", "blocking"): self.send_blocking,
            ("receiver", "anyio"): lambda: anyio.run(self.receive_anyio),
            ("receiver", "blocking"): self.receive_blocking,
        }
        return works[name, self.adapters[name]]

    # What the process above them does.

    def start(self, work: Work) -> int:
        self._lives += 1
        pid = os.fork()
        if pid:
            return pid
        status = 1
        try:
            work()
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


def recoveries(restarts: list[int], handled: list[int]) -> list[float]:
    """Seconds from a start of the receiver to the first message that it handled, where it lived to see one."""
    firsts = [(start, bisect.bisect_left(handled, start)) for start in restarts]
    ends = [*restarts[1:], 2**63]
    return [
        (handled[at] - start) / 1e9
        for (start, at), end in zip(firsts, ends, strict=True)
        if at < len(handled) and handled[at] < end
    ]


def run(directory: Path, kills: int, seed: int) -> dict[str, object]:
    """`drained` is 1 when the sender's outbox came to its end in time; `recoveries` and `draining` are in seconds."""
    rig = Rig(directory, seed)
    pids = {name: rig.start(rig.work(name)) for name in rig.adapters}
    began = time.monotonic()
    while not rig.names("handled") and time.monotonic() < began + SETTLING:
        time.sleep(0.005)
    usual = min(1.0, time.monotonic() - began)
    killed, restarts = 0, list[int]()
    while killed < kills:
        time.sleep(rig.rng.uniform(0, usual * rig.rng.choice(LIVES)))
        victims = rig.rng.choice((["sender"], ["receiver"], ["sender", "receiver"]))[: kills - killed]
        for name in victims:
            kill(pids[name])
            killed += 1
        for name in victims:
            if name == "receiver":
                restarts.append(time.monotonic_ns())
            pids[name] = rig.start(rig.work(name))
    kill(pids["sender"])
    began = time.monotonic()
    drained = ended_well(rig.start(lambda: anyio.run(rig.drain)), time.monotonic() + SETTLING)
    draining = time.monotonic() - began
    kill(pids["receiver"])
    lines = [line.split() for line in rig.names("handled")]
    handled = Counter(line[0] for line in lines)
    about_to, returned = set(rig.names("about to")), set(rig.names("returned"))
    return {
        "kills": killed,
        "messages": len(returned),
        "lost": len(returned - set(handled)),
        "unexpected": len(set(handled) - about_to),
        "duplicates": handled.total() - len(handled),
        "drained": int(drained),
        "recoveries": [round(seconds, 3) for seconds in recoveries(restarts, sorted(int(line[1]) for line in lines))],
        "draining": round(draining, 3),
        "rig": f"{rig.adapters['sender']} to {rig.adapters['receiver']} over {'plaintext' if rig.plaintext else 'TLS'}",
    }


if __name__ == "__main__":
    print(json.dumps(run(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))))  # noqa: T201  # its only output
