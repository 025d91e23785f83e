"""Messages whose handlers end the process, again and again, in real processes (T-45, T-47).

One process that has everything imported forks a sender, and a receiver that it starts anew as often as it dies. The
sender sends good messages and poison; the receiver writes down each that its handler gets, and ends the process at
poison: by `os._exit`, by SIGSEGV or by SIGKILL. It leaves in order once all good messages were handled and all poison
is a dead letter. The seed says where the poison is and, unless
it is given, on which adapter the receiver is.

    python -m tests.poison DIRECTORY DEATHS SEED [ADAPTER]     prints the result as one line of JSON
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
from tolliver import blocking
from tolliver.anyio import InstanceOptions, create_instance
from tolliver.certs import make_ca, make_certificate

from tests.lists import append, whole_lines
from tests.ports import free_address
from tolliver_proto import Delivery, Limits

ADAPTERS = ("asyncio", "trio", "blocking", "twisted")
MOST = 5  # tries of one poison: some in company, and those that condemn it
GOOD = 6  # good messages around one poison
LOOK = 0.02  # seconds between two looks whether all is done
LONGEST = 60.0  # seconds for one life
LETTER = b"poison"


def die(rng: random.Random) -> None:
    """Ends this process at once, in one of the ways in which a handler may."""
    how = rng.randrange(3)
    if how == 0:
        os._exit(9)
    os.kill(os.getpid(), signal.SIGSEGV if how == 1 else signal.SIGKILL)
    time.sleep(LONGEST)  # until the signal has come


class Rig:
    """A directory with two databases and a list, and the programs that use them."""

    def __init__(self, directory: Path, seed: int, poisons: int) -> None:
        self.directory = directory
        self.address = free_address()
        self.poisons = poisons
        make_ca(directory)
        self.members = {name: make_certificate(directory, name) for name in ("sender", "receiver")}
        rng = random.Random(seed)
        self.bodies = [b"good %d" % number for number in range(poisons * GOOD)]
        for number in range(poisons):
            self.bodies.insert(rng.randrange(len(self.bodies) + 1), b"%s %d" % (LETTER, number))
        self.good = {one for one in self.bodies if not one.startswith(LETTER)}

    def options(self, name: str, **options: Any) -> InstanceOptions:
        return InstanceOptions(
            database=self.directory / f"{name}.db",
            tls=self.members[name].tls(),  # so that a kill is no orderly end, which the sender would wait for (T-09)
            retry_interval=0.5,
            limits=Limits(redial_max=0.05),
            **options,
        )

    def lines(self) -> list[bytes]:
        return whole_lines(self.directory / "handled")

    # The work of the forked processes.

    async def send(self) -> None:
        async with create_instance(self.options("sender", listen=self.address)) as sender:
            await sender.wait_subscribed("work")
            await sender.send_many([("work", "", body) for body in self.bodies])
            (self.directory / "sent").touch()
            await anyio.sleep_forever()

    def to_receive(self) -> InstanceOptions:
        return self.options(
            "receiver", remotes=[self.address], subscriptions=["work"], handlers=[("work", "", self.handler())]
        )

    def handler(self) -> Callable[[Delivery], None]:
        rng = random.Random()
        fd = os.open(self.directory / "handled", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

        def handler(delivery: Delivery) -> None:
            append(fd, [delivery.body])
            if delivery.body.startswith(LETTER):
                die(rng)

        return handler

    def is_done(self, letters: int) -> bool:
        return letters >= self.poisons and self.good <= set(self.lines())

    async def receive_anyio(self) -> None:
        async with create_instance(self.to_receive()) as receiver:
            while not self.is_done(receiver.stats().dead_letters):  # noqa: ASYNC110  # numbers and files, not events
                await anyio.sleep(LOOK)
            self.tell([letter.cause for letter in await receiver.admin.dead_letters()])

    def receive_blocking(self) -> None:
        with blocking.create_instance(self.to_receive()) as receiver:
            while not self.is_done(receiver.stats().dead_letters):
                time.sleep(LOOK)
            self.tell([letter.cause for letter in receiver.admin.dead_letters()])

    def receive_twisted(self) -> None:
        from tolliver import twisted
        from twisted.internet import defer, task

        @defer.inlineCallbacks
        def receive(reactor: Any) -> Generator[Any, Any, None]:
            receiver = yield twisted.create_instance(self.to_receive())
            while not self.is_done(receiver.stats().dead_letters):
                yield task.deferLater(reactor, LOOK, lambda: None)
            letters = yield receiver.admin.dead_letters()
            self.tell([letter.cause for letter in letters])
            yield receiver.close()

        task.react(receive)

    def tell(self, causes: list[str]) -> None:
        (self.directory / "causes").write_text(json.dumps(causes))

    def receiving(self, adapter: str) -> Callable[[], object]:
        if adapter == "blocking":
            return self.receive_blocking
        if adapter == "twisted":
            return self.receive_twisted
        return lambda: anyio.run(self.receive_anyio, backend=adapter)


def start(work: Callable[[], object]) -> int:
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        work()
        status = 0
    except SystemExit as ended:  # `task.react` ends so
        status = int(ended.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def ended(pid: int) -> int | None:
    """Waits for the process, for `LONGEST` seconds; its exit status, or None where it had to be killed."""
    until = time.monotonic() + LONGEST
    while time.monotonic() < until:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    kill(pid)
    return None


def kill(pid: int) -> None:
    with suppress(ProcessLookupError, ChildProcessError):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def run(directory: Path, deaths: int, seed: int, adapter: str) -> dict[str, object]:
    """`failed` is 0 where all went well: each poison is a dead letter, and nothing good was lost."""
    rig = Rig(directory, seed, max(1, deaths // 3))
    sender = start(lambda: anyio.run(rig.send))
    died, status = 0, None
    try:
        while died <= rig.poisons * MOST:
            status = ended(start(rig.receiving(adapter)))
            if status in (0, 1, None):
                break
            died += 1
    finally:
        kill(sender)
    found = directory / "causes"
    causes = Counter[str](json.loads(found.read_text()) if found.exists() else ())
    tries = Counter(rig.lines())
    lost = len(rig.good - set(tries))
    tries_of_poison = [tries[one] for one in tries if one.startswith(LETTER)]
    all_condemned = causes == {"killed_its_process": rig.poisons}
    return {
        "kills": died,
        "messages": len(rig.bodies),
        "letters": causes.total(),
        "lost": lost,
        "failed": int(status != 0 or lost > 0 or not all_condemned or max(tries_of_poison) > MOST),
    }


if __name__ == "__main__":
    directory, deaths, seed, *adapter = sys.argv[1:]
    adapter = adapter or [ADAPTERS[int(seed) % len(ADAPTERS)]]
    print(json.dumps(run(Path(directory), int(deaths), int(seed), *adapter)))  # noqa: T201  # its only output
