"""Three nodes for a long time, two of them killed again and again: does the third one grow (PROOF V23)?

    python scripts/endurance.py [SECONDS] [--seed N]     600 s by default; Linux, for /proc

Exit status 1 if its memory grows by 1 MiB an hour or more, if it holds more descriptors at the end than at the
beginning, or if nothing was handled any more at the end. Short runs are noisy: an hour says more than ten minutes.

The idea: the hub sends to both others and they to it, over mutual TLS, as fast as acknowledgements come back. Once a
second its memory and its descriptors are read from outside. The first quarter, in which caches fill, does not count.
The slope is the median of those between any two samples far apart (Theil and Sen), so that single peaks do not count.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from statistics import median

import anyio
from tolliver_transports.anyio import TLS, Instance, InstanceOptions, create_instance
from tolliver_transports.certs import make_ca, make_certificate

from tolliver_proto import Delivery, Limits

BACKLOG = 200  # messages that wait
LIVES = (0.5, 10.0)  # seconds between kills
HOUR = 3600.0


class Nodes:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        make_ca(directory)
        for name in ("hub", "one", "two"):
            make_certificate(directory, name)
        with socket.socket() as reserved:
            reserved.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{reserved.getsockname()[1]}"

    def options(self, name: str) -> InstanceOptions:
        files = self.directory / name
        where = {"listen": self.address} if name == "hub" else {"remotes": [self.address]}
        return InstanceOptions(
            database=files.with_suffix(".db"),
            tls=TLS(files.with_suffix(".pem"), files.with_suffix(".key"), self.directory / "ca.pem"),
            limits=Limits(redial_max=0.5),
            **where,
        )

    async def run(self, name: str) -> None:
        handled = os.open(self.directory / f"{name}.handled", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        count = 0

        def handler(_delivery: Delivery) -> None:
            nonlocal count
            count += 1
            os.pwrite(handled, b"%d" % count, 0)

        mine, theirs = ("up", "down") if name == "hub" else ("down", "up")
        async with create_instance(self.options(name)) as instance:
            await instance.subscribe(mine, handler=handler)
            await self.keep_sending(instance, theirs)

    async def keep_sending(self, instance: Instance, channel: str) -> None:
        while True:
            if instance.stats()["pending"] > BACKLOG:
                await anyio.sleep(0.01)
                continue
            receipt = await instance.send_many([(channel, "key", bytes(300))] * 10)
            if not receipt.recipients:
                await anyio.sleep(0.01)

    def start(self, name: str) -> int:
        pid = os.fork()
        if pid:
            return pid
        try:
            anyio.run(self.run, name)
        finally:
            os._exit(1)  # it has no end of its own

    def handled(self, name: str) -> int:
        path = self.directory / f"{name}.handled"
        return int(path.read_bytes() or b"0") if path.exists() else 0


def end(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def memory(pid: int) -> float:
    """MiB."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") / 2**20


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def slope(samples: list[tuple[float, float]]) -> float:
    """MiB an hour."""
    thin = samples[:: max(1, len(samples) // 300)]
    half = max(1, len(thin) // 2)
    return median(
        (later[1] - early[1]) / (later[0] - early[0]) * HOUR
        for early, later in zip(thin[:-half], thin[half:], strict=True)
    )


def watch(nodes: Nodes, seconds: float, dice: random.Random) -> tuple[list[tuple[float, float, int, int]], int]:
    """(seconds, MiB, descriptors, handled) of the hub, and how often the others were killed."""
    pids = {name: nodes.start(name) for name in ("hub", "one", "two")}
    samples, kills = [], 0
    began = time.monotonic()
    next_kill = began + dice.uniform(*LIVES)
    tick: Callable[[], float] = time.monotonic
    try:
        while (now := tick()) < began + seconds:
            time.sleep(max(0.0, min(1.0, next_kill - now)))
            if tick() >= next_kill:
                name = dice.choice(("one", "two"))
                end(pids[name])
                pids[name] = nodes.start(name)
                kills += 1
                next_kill = tick() + dice.uniform(*LIVES)
            hub = pids["hub"]
            samples.append((tick() - began, memory(hub), descriptors(hub), nodes.handled("hub")))
    finally:
        for pid in pids.values():
            end(pid)
    return samples, kills


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seconds", type=float, nargs="?", default=600.0)
    parser.add_argument("--seed", type=int, default=random.randrange(2**31))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        samples, kills = watch(Nodes(Path(directory)), options.seconds, random.Random(options.seed))
    steady = samples[len(samples) // 4 :]
    grows = slope([(at, mib) for at, mib, _, _ in steady])
    quarter = max(1, len(steady) // 4)
    first, last = (max(fds for _, _, fds, _ in part) for part in (steady[:quarter], steady[-quarter:]))
    moving = steady[-1][3] > steady[-quarter][3] if quarter > 1 else steady[-1][3] > 0
    longest = max((later[0] - early[0] for early, later in pairwise(samples)), default=0.0)
    print(f"seed {options.seed}: {kills} kills, {samples[-1][3]:,} messages handled by the hub")
    print(f"memory from {steady[0][1]:.1f} to {steady[-1][1]:.1f} MiB; longest time without a sample {longest:.1f} s")
    constant = "constant" if last <= first else f"from {first} to {last}"
    print(
        f"result: V23 | {options.seconds:.0f} s, {kills} kills | RSS slope {grows:.2f} MiB/h, descriptors {constant}"
        + ("" if moving else ", and nothing was handled at the end")
    )
    return 0 if grows < 1.0 and last <= first and moving else 1


if __name__ == "__main__":
    sys.exit(main())
