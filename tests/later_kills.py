"""kill -9 of a sender whose messages wait, for a time or for a subscriber, and of their receiver (P-90 to P-97).

One process forks a sender and a receiver, with a database each, kills one of them again and again, and starts it anew.
The sender sends with `after`, with `not_before`, and on channels that keep, to which the receiver subscribes a little
later. It writes down what it is about to send, with the earliest time, and each message for which `send` has returned.
The receiver writes down what it handles and when, before the acknowledgement. At the end all is delivered, and the
lists are compared:

- `early` is 0: no message comes before its time, `after` by the clock of the boot, `not_before` by the wall clock;
- `lost` is 0: each message for which `send` has returned is handled;
- `twice` is 0: after a kill copies may come, as at least once means, and they have the id of the first. Another id
  would be that of a message that was stored for the receiver a second time;
- `overtaken` is 0: what a channel keeps comes in the order of the sends, and before what was sent after the receiver
  had subscribed.

The seed says who is killed and when.

    python -m tests.later_kills DIRECTORY KILLS SEED     prints the result as one line of JSON
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

from tolliver import Delivery
from tolliver.blocking import Instance, InstanceOptions, create_instance

from tests.lists import append, whole_lines
from tests.ports import free_address
from tests.work_kills import kill
from tolliver_proto import Limits

SENDER, RECEIVER = "sender", "receiver"
LIVES = (0.3, 0.8, 2.0)  # seconds from one kill to the next, at most
WAITS = (0.0, 0.3, 1.5)  # seconds that a message waits, at most
KEPT = 8  # messages of a channel that keeps
ALONE = 0.5  # seconds until the receiver subscribes to it, at most
SETTLING = 120.0  # seconds for delivering what waits at the end
READING = 0.002  # seconds that two readings of a clock, as numbers with a fraction, may differ


def _boot() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Handled(NamedTuple):
    """One line of the receiver."""

    channel: str
    name: str
    message_id: int
    boot: float
    wall: float

    @classmethod
    def read(cls, line: bytes) -> Handled:
        channel, name, number, boot, wall = line.decode().split()
        return cls(channel, name, int(number), float(boot), float(wall))


class Rig:
    """A directory with databases and lists, and the two programs that use them."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.directory = directory
        self.rng = random.Random(seed)
        self.address = free_address()
        self.life = 0

    def options(self, name: str, **options: Any) -> InstanceOptions:
        return InstanceOptions(
            database=self.directory / f"{name}.db",
            plaintext=True,
            identity=UUID(int=0x0189_0000_0000_7000_8000_0000_0000_0000 + (name == SENDER)),
            retry_interval=0.5,
            limits=Limits(redial_max=0.1),
            **options,
        )

    def write(self, name: str, line: str) -> None:
        fd = os.open(self.directory / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        append(fd, [line.encode()])
        os.close(fd)

    def lines(self, name: str) -> list[bytes]:
        return whole_lines(self.directory / name)

    # The work of the forked processes.

    def send(self, *, goes_on: bool = True) -> None:
        """Send on and on, or only deliver what waits."""
        rng = random.Random(self.life)
        with create_instance(self.options(SENDER, remotes=[self.address])) as sender:
            sender.wait_subscribed("later", timeout=SETTLING)
            if not goes_on:
                self.drain(sender)
                return
            for number in range(1_000_000):
                name = f"{self.life}.{number}"
                wait = rng.random() * rng.choice(WAITS)
                how = rng.choice(("after", "not_before", "keep", "keep"))
                if how == "keep":
                    channel = f"kept.{self.life}.{number // (2 * KEPT)}"
                    post = sender.channel(channel, keep=True)
                    self.write("about to", f"{channel} {name} keep 0")
                    post.send("", name.encode())
                elif how == "after":
                    self.write("about to", f"later {name} after {_boot() + wait!r}")
                    sender.send("later", "", name.encode(), after=wait)
                else:
                    due = datetime.fromtimestamp(time.time() + wait, UTC)
                    self.write("about to", f"later {name} not_before {due.timestamp()!r}")
                    sender.send("later", "", name.encode(), not_before=due)
                self.write("returned", name)
                time.sleep(0.002)

    def drain(self, sender: Instance) -> None:
        end = time.monotonic() + SETTLING
        while (stats := sender.stats()).pending or stats.later or stats.kept:
            if time.monotonic() > end:
                raise TimeoutError(f"not delivered after {SETTLING:g} s: {stats}")
            time.sleep(0.02)

    def receive(self) -> None:
        rng = random.Random(self.life)

        def handle(one: Delivery) -> None:
            self.write("handled", f"{one.channel} {one.body.decode()} {one.message_id} {_boot()!r} {time.time()!r}")

        options = self.options(RECEIVER, listen=self.address, subscriptions=["later"], handlers=[("", "", handle)])
        with create_instance(options) as receiver:
            known = set[str]()
            while True:
                for channel in sorted({line.split()[0].decode() for line in self.lines("about to")} - known):
                    time.sleep(rng.random() * ALONE)
                    receiver.subscribe(channel)
                    known.add(channel)
                time.sleep(0.01)

    # The work of the process above them.

    def start(self, work: Callable[[], object]) -> int:
        self.life += 1
        pid = os.fork()
        if pid:
            return pid
        status = 1
        try:
            work()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)


def judged(rig: Rig) -> dict[str, int]:
    """Counts from the lists, at the end."""
    due, order = dict[str, tuple[str, float]](), defaultdict[str, list[str]](list)
    for line in rig.lines("about to"):
        channel, name, how, seconds = line.decode().split()
        due[name] = how, float(seconds)
        order[channel].append(name)
    ids, came = defaultdict[str, set[int]](set), defaultdict[str, list[str]](list)
    early = copies = 0
    for one in map(Handled.read, rig.lines("handled")):
        how, earliest = due[one.name]
        early += how != "keep" and {"after": one.boot, "not_before": one.wall}[how] + READING < earliest
        if ids[one.name]:
            copies += 1
        else:
            came[one.channel].append(one.name)
        ids[one.name].add(one.message_id)
    overtaken = 0
    for channel, names in came.items():
        if channel.startswith("kept"):
            places = [order[channel].index(name) for name in names]
            overtaken += sum(place < max(places[: at + 1]) for at, place in enumerate(places))
    returned = [line.decode() for line in rig.lines("returned")]
    return {
        "messages": len(returned),
        "kept": sum(due[name][0] == "keep" for name in returned),
        "early": early,
        "lost": len({*returned} - ids.keys()),
        "twice": sum(len(some) > 1 for some in ids.values()),
        "copies": copies,
        "overtaken": overtaken,
    }


def run(directory: Path, kills: int, seed: int) -> dict[str, object]:
    """`failed` is 0 where all went well."""
    rig = Rig(directory, seed)
    work: dict[str, Callable[[], object]] = {SENDER: rig.send, RECEIVER: rig.receive}
    pids = {name: rig.start(work[name]) for name in (RECEIVER, SENDER)}
    drained, killed = False, Counter[str]()
    try:
        began = time.monotonic()
        while not rig.lines("handled") and time.monotonic() < began + SETTLING:
            time.sleep(0.01)
        for _ in range(kills):
            time.sleep(rig.rng.uniform(0, rig.rng.choice(LIVES)))
            name = rig.rng.choice((SENDER, RECEIVER))
            kill(pids[name])
            killed[f"{name}s"] += 1
            pids[name] = rig.start(work[name])
        kill(pids[SENDER])
        pids[SENDER] = rig.start(lambda: rig.send(goes_on=False))
        drained = os.waitstatus_to_exitcode(os.waitpid(pids[SENDER], 0)[1]) == 0
    finally:
        for pid in pids.values():
            kill(pid)
    found = judged(rig)
    wrong = sum(found[one] for one in ("early", "lost", "twice", "overtaken"))
    return {**killed, "kills": kills, "failed": int(not drained or wrong > 0), "drained": int(drained), **found}


if __name__ == "__main__":
    print(json.dumps(run(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))))  # noqa: T201  # its only output
