"""Endurance of a node whose peers are killed: does it grow (V23)?

    python -m scripts.prove.endurance [SECONDS] [--warm-up KILLS] [--seed N]     600 s by default; Linux, for /proc

Exit status 1 if its memory grows by 1 MiB an hour or more, if it holds another number of descriptors at the end than at
the beginning, or if nothing was handled any more at the end. Short runs are noisy: an hour says more than ten minutes.

The hub sends to both others and they to it, over mutual TLS, as fast as acknowledgements come back. Once a second its
memory is read from outside, for SECONDS after the first kills, in which allocators fill up by connections, and what is
remembered of messages (ids, times) up to its bounds. One of the others is killed more than once a second, so what
stayed of each connection would show: 1 MiB an hour is a few hundred bytes a kill. The slope is the median of those
between any two samples far apart (Theil and Sen), so that single peaks do not count. Descriptors come and go with
connections, so they are counted at both ends of that time while the others are away: then one that was left is one
more. Memory that malloc has cannot be given back piece by piece, so memory goes up in steps while what is in use does
not: the longer the run, the less a step says. It takes the lowest priority, as it has time.
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
from typing import NamedTuple, Self

import anyio
from tolliver.anyio import TLS, Instance, InstanceOptions, create_instance
from tolliver.certs import make_ca, make_certificate

from scripts.prove.graph import Graph
from tolliver_proto import Delivery, Limits

BACKLOG = 200  # messages that wait
LIVES = (0.1, 1.0)  # seconds between kills
WARM_UP = 1200  # kills
PATIENCE = 60.0  # seconds for a node to come up
OTHERS = ("one", "two")
REST = 3.0  # seconds without anybody, in which what is over is closed
HOUR = 3600.0


class Nodes:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        make_ca(directory)
        for name in ("hub", *OTHERS):
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
        (self.directory / f"{name}.handled").unlink(missing_ok=True)
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


def kinds_of_memory(pid: int) -> dict[str, float]:
    """MiB of its own and of files that it maps: the index of a log is one."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {kind: int(line.split()[1]) / 1024 for line in lines for kind in ("RssAnon", "RssFile") if kind in line}


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


class Sample(NamedTuple):
    """Of the hub, at so many seconds."""

    at: float
    mib: float
    handled: int


class Watch:
    """The three nodes, and what was seen. Use it as a context manager."""

    def __init__(self, nodes: Nodes, dice: random.Random) -> None:
        self.samples: list[Sample] = []
        self.kills = 0
        self._nodes = nodes
        self._dice = dice
        self._pids: dict[str, int] = {}
        self._next_kill = 0.0

    def __enter__(self) -> Self:
        self._start("hub", *OTHERS)
        return self

    def __exit__(self, *_error: object) -> None:
        self._end(*self._pids)

    @property
    def hub(self) -> int:
        return self._pids["hub"]

    def _start(self, *names: str) -> None:
        for name in names:
            self._pids[name] = self._nodes.start(name)
        self._next_kill = time.monotonic() + self._dice.uniform(*LIVES)

    def _end(self, *names: str) -> None:
        for name in names:
            end(self._pids.pop(name))

    def go_on(self, enough: Callable[[], bool]) -> None:
        """Kill and look until then."""
        while not enough():
            time.sleep(max(0.0, min(1.0, self._next_kill - time.monotonic())))
            if time.monotonic() >= self._next_kill:
                self._kill(self._dice.choice(OTHERS))
            self.samples.append(Sample(time.monotonic(), memory(self.hub), self._nodes.handled("hub")))

    def _kill(self, name: str) -> None:
        """Once it was connected: a machine that is busy may take longer than a life to start it."""
        patience = time.monotonic() + PATIENCE
        while not self._nodes.handled(name):
            if time.monotonic() > patience:
                raise SystemExit(f"{name} has handled nothing for {PATIENCE:g} s: is the hub alive?")
            time.sleep(0.02)
        self._end(name)
        self._start(name)
        self.kills += 1

    def descriptors_alone(self) -> int:
        """Number of descriptors that the hub holds while nobody is there: the least that is seen, as it may look into a
        file now and then."""
        self._end(*OTHERS)
        rested = time.monotonic() + REST
        least = descriptors(self.hub)
        while time.monotonic() < rested:
            time.sleep(0.05)
            least = min(least, descriptors(self.hub))
        self._start(*OTHERS)
        return least


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seconds", type=float, nargs="?", default=600.0)
    parser.add_argument("--warm-up", type=int, default=WARM_UP, metavar="KILLS")
    parser.add_argument("--seed", type=int, default=random.randrange(2**31))
    options = parser.parse_args()
    os.nice(19)
    with (
        tempfile.TemporaryDirectory() as directory,
        Watch(Nodes(Path(directory)), random.Random(options.seed)) as watch,
    ):
        began = time.monotonic()
        watch.go_on(lambda: watch.kills >= options.warm_up)
        warm = time.monotonic()
        first = watch.descriptors_alone()
        before = kinds_of_memory(watch.hub)
        filling, watch.samples = watch.samples, []
        over = time.monotonic() + options.seconds
        watch.go_on(lambda: time.monotonic() >= over)
        last = watch.descriptors_alone()
        after = kinds_of_memory(watch.hub)
    samples = watch.samples
    kills = watch.kills - options.warm_up
    grows = slope([(at, mib) for at, mib, _ in samples])
    quarter = max(1, len(samples) // 4)
    moving = samples[-1].handled > samples[-quarter].handled if quarter > 1 else samples[-1].handled > 0
    longest = max((later.at - early.at for early, later in pairwise(samples)), default=0.0)
    levels = [median(mib for _, mib, _ in part) for part in (filling[:5], samples[:quarter], samples[-quarter:])]
    print(f"seed {options.seed}: {samples[-1].handled:,} messages handled by the hub")
    print(f"before that: {options.warm_up} kills in {warm - began:.0f} s")
    print("memory at first {:.1f} MiB, in the first quarter {:.2f}, in the last {:.2f}".format(*levels), end="")
    print(f"; longest time without a sample {longest:.1f} s")
    print(*(f"{kind} from {before[kind]:.2f} to {after[kind]:.2f} MiB" for kind in before), sep=", ")
    print(Graph("memory of the node that is not killed, MiB over the run", [mib for _, mib, _ in samples]).said())
    constant = f"constant ({last})" if last == first else f"from {first} to {last}"
    print(
        f"result: V23 | {options.seconds:.0f} s, {kills} kills | RSS slope {grows:.2f} MiB/h, descriptors {constant}"
        + ("" if moving else ", and nothing was handled at the end")
    )
    return 0 if grows < 1.0 and last == first and moving else 1


if __name__ == "__main__":
    sys.exit(main())
