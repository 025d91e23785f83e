"""kill -9 of real processes, again and again, and what else happens to them (V7).

Everything that `send` returned for must be handled. One process that has everything imported forks a sender and a
receiver, with a database each, kills them at random moments, also while they open or close, and starts them again
(`troubles`). The sender writes down what it is about to send, and again when `send` has returned; the receiver writes
down what it handled before it is acknowledged. At the end the sender drains its outbox, and the lists are compared
(`lists`). The seed says which adapters they use, whether they speak mutual TLS or, one time in five, plaintext, and
whether the receiver knows copies (`dedupe_durable`).

    python -m tests.killing DIRECTORY KILLS SEED     prints the result as one line of JSON
"""

from __future__ import annotations

import bisect
import faulthandler
import json
import os
import random
import signal
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
from tolliver import blocking
from tolliver.anyio import InstanceOptions, create_instance
from tolliver.certs import make_ca, make_certificate

from tests.lists import append, whole_lines
from tests.ports import free_address
from tests.troubles import STACKS, Troubles, kill, wrong_end
from tolliver_proto import Delivery, Limits, NoticeKind, Policy, StoreError

LIVES = (0.2, 0.5, 1.0, 2.0, 3.0)  # at most, from one kill to the next: as parts of what both take to be at work
BACKLOG = 1000  # messages that wait before the sender goes slowly, so that the end is not all draining
SLOWLY = 0.02  # seconds before the one message that it sends then: it is seen at any time whether that has a recipient
SETTLING = 120.0  # seconds for the first message, and for draining at the end
RUNS = (1, 1, 2, 5, 20, 100, 400)  # messages in one call
SIZES = (10, 100, 3000)  # bytes in one body
SENDERS = 4
ADAPTERS = ("anyio", "blocking")
TOLD = {signal.SIGTERM}

Work = Callable[[], None]


class Lists:
    """The sender's notes: the names of one life are different from those of all others."""

    def __init__(self, rig: Rig) -> None:
        self._about_to, self._returned = rig.open_list("about to"), rig.open_list("returned")
        self._nobody = rig.open_list("nobody")
        self._is_known = bool(rig.names("returned"))
        self._life, self._number = rig.life, 0

    def items(self, rng: random.Random, slowly: bool) -> tuple[list[bytes], list[tuple[str, str, bytes]]]:
        count, size = 1 if slowly else rng.choice(RUNS), rng.choice(SIZES)
        names = [b"%d.%d" % (self._life, self._number + at) for at in range(count)]
        self._number += count
        append(self._about_to, names)
        return names, [("work", "", name + b" " + bytes(size if count < 50 else 10)) for name in names]

    def returned(self, names: list[bytes], recipients: int) -> None:
        if recipients:
            self._is_known = True
            append(self._returned, names)
        elif self._is_known:  # else nobody has subscribed yet
            append(self._nobody, names)


class Rig:
    """A directory with certificates, databases and lists, and the two programs that use them."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.directory = directory
        self.rng = random.Random(seed)
        self.plaintext = seed % 5 == 4
        self.knows_copies = seed % 3 == 1
        self.adapters = {"sender": ADAPTERS[seed % 2], "receiver": ADAPTERS[seed // 2 % 2]}
        make_ca(directory)
        self.members = {name: make_certificate(directory, name) for name in self.adapters}
        self.addresses = {name: free_address() for name in self.adapters}
        self.life = 0  # of whoever was started last

    def database(self, name: str) -> Path:
        return self.directory / f"{name}.db"

    # The work of the forked processes.

    def options(self, name: str, **options: object) -> InstanceOptions:
        member = self.members[name]
        return InstanceOptions(
            tls=None if self.plaintext else member.tls(),
            plaintext=self.plaintext,
            identity=member.uuid if self.plaintext else None,
            retry_interval=0.5,
            limits=Limits(redial_max=0.1),
            **{"database": self.database(name), **options},  # type: ignore[arg-type]  # attrs checks them
        )

    def to_send(self) -> InstanceOptions:
        return self.options("sender", listen=self.addresses["sender"], remotes=[self.addresses["receiver"]])

    def to_receive(self, pause: float | None) -> InstanceOptions:
        """`pause`: seconds until it subscribes; None if that is said at its opening."""
        given = dict[str, object]()
        if pause is None:
            given = {"subscriptions": ["work"], "handlers": [("work", "", self.handler())]}
        if self.knows_copies:
            given["policy"] = Policy(dedupe=100_000, dedupe_durable=True)
        return self.options("receiver", listen=self.addresses["receiver"], **given)

    def open_list(self, name: str) -> int:
        return os.open(self.directory / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def handler(self) -> Callable[[Delivery], None]:
        handled = self.open_list("handled")

        def handler(delivery: Delivery) -> None:
            append(handled, [b"%s %d" % (delivery.body.split()[0], time.monotonic_ns())])

        return handler

    def opened(self, missing: bool) -> None:
        """Write down that this life has begun, and whether it was told that commits are missing."""
        append(self.open_list("opened"), [b"%d %d" % (self.life, missing)])

    async def receive_anyio(self, pause: float | None) -> None:
        async with create_instance(self.to_receive(pause)) as receiver:
            self.opened(False)
            if pause is not None:
                await anyio.sleep(pause)
                await receiver.subscribe("work", handler=self.handler())
            await anyio.sleep_forever()

    def receive_blocking(self, pause: float | None) -> None:
        with blocking.create_instance(self.to_receive(pause)) as receiver:
            self.opened(False)
            if pause is not None:
                time.sleep(pause)
                receiver.subscribe("work", handler=self.handler())
            threading.Event().wait()

    async def send_anyio(self) -> None:
        lists = Lists(self)
        async with create_instance(self.to_send()) as sender:
            self.opened(any(notice.kind is NoticeKind.COMMITS_MISSING for notice in sender.notices()))

            async def keep_sending(rng: random.Random) -> None:
                while True:
                    slowly = sender.stats()["pending"] > BACKLOG
                    if slowly:
                        await anyio.sleep(SLOWLY)
                    names, items = lists.items(rng, slowly)
                    receipt = await sender.send_many(items)
                    lists.returned(names, receipt.recipients)
                    if not receipt.recipients:
                        await anyio.sleep(0.005)

            async with anyio.create_task_group() as tasks:
                for at in range(SENDERS):
                    tasks.start_soon(keep_sending, random.Random(self.life * SENDERS + at))

    def send_blocking(self) -> None:
        lists, rng = Lists(self), random.Random(self.life)
        with blocking.create_instance(self.to_send()) as sender:
            self.opened(any(notice.kind is NoticeKind.COMMITS_MISSING for notice in sender.notices()))
            while True:
                slowly = sender.stats()["pending"] > BACKLOG
                if slowly:
                    time.sleep(SLOWLY)
                names, items = lists.items(rng, slowly)
                receipt = sender.send_many(items)
                lists.returned(names, receipt.recipients)
                if not receipt.recipients:
                    time.sleep(0.005)

    async def live_beside(self, database: Path, **options: object) -> None:
        """The receiver's certificate with another database, which subscribes to nothing."""
        async with create_instance(self.options("receiver", database=database, **options)) as other:
            self.opened(False)
            while not other.stats()["peers_up"]:  # noqa: ASYNC110  # a number, not an event
                await anyio.sleep(0.005)
            append(self.open_list("met"), [b"%d" % self.life])
            await anyio.sleep_forever()

    async def drain(self) -> None:
        async with create_instance(self.to_send()) as sender:
            while sender.stats()["pending"]:  # noqa: ASYNC110  # a number, not an event
                await anyio.sleep(0.01)

    def sending(self) -> Work:
        if self.adapters["sender"] == "anyio":
            return lambda: anyio.run(until_told, self.send_anyio)
        return leaving_when_told(self.send_blocking)

    def receiving(self, pause: float | None) -> Work:
        if self.adapters["receiver"] == "anyio":
            return lambda: anyio.run(until_told, self.receive_anyio, pause)
        return leaving_when_told(lambda: self.receive_blocking(pause))

    def beside(self, database: Path, **options: object) -> Work:
        async def living() -> None:
            await self.live_beside(database, **options)

        return lambda: anyio.run(until_told, living)

    # The work of the process above them.

    def start(self, work: Work) -> int:
        self.life += 1
        signal.pthread_sigmask(signal.SIG_BLOCK, TOLD)  # until the child has its handler
        pid = os.fork()
        if pid:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, TOLD)
            return pid
        status = 1
        try:
            faulthandler.register(STACKS)
            signal.signal(signal.SIGTERM, lambda *_signal: os._exit(0))  # nothing is open yet
            signal.pthread_sigmask(signal.SIG_UNBLOCK, TOLD)
            work()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)

    def names(self, name: str) -> list[bytes]:
        return whole_lines(self.directory / name)

    def has_opened(self, life: int) -> int | None:
        """None as long as it has not; else 1 if commits were missing."""
        lives = dict(line.split() for line in self.names("opened"))
        told = lives.get(b"%d" % life)
        return None if told is None else int(told)


class Told(BaseException):
    """SIGTERM came."""


def leaving_when_told(work: Work) -> Work:
    """An orderly end at SIGTERM, wherever it comes."""

    def leave(*_signal: object) -> None:
        raise Told

    def leave_later(ignored: sys.UnraisableHookArgs) -> None:
        if ignored.exc_type is Told:
            signal.setitimer(signal.ITIMER_REAL, 0.01)
        else:
            sys.__unraisablehook__(ignored)

    def worked() -> None:
        sys.unraisablehook = leave_later  # Python raises nothing out of a destructor or a weak reference's callback
        try:
            signal.signal(signal.SIGALRM, leave)
            signal.signal(signal.SIGTERM, leave)
            work()
        except Told:
            pass
        except StoreError as error:
            if "a signal interrupted it" not in str(error):  # SQLite says no more of what its calls of ours raise
                raise

    return worked


async def until_told(work: Callable[..., Coroutine[Any, Any, None]], *arguments: object) -> None:
    async with anyio.create_task_group() as tasks:
        with anyio.open_signal_receiver(signal.SIGTERM) as signals:
            tasks.start_soon(work, *arguments)
            async for _ in signals:
                tasks.cancel_scope.cancel()


def recoveries(restarts: list[int], handled: list[int]) -> list[float]:
    """Seconds from a start of the receiver to the first message that it handled, where it lived to see one."""
    firsts = [(start, bisect.bisect_left(handled, start)) for start in restarts]
    ends = [*restarts[1:], 2**63]
    return [
        (handled[at] - start) / 1e9
        for (start, at), end in zip(firsts, ends, strict=True)
        if at < len(handled) and handled[at] < end
    ]


def overtaken(handled: list[bytes]) -> int:
    """Messages whose first copy came after that of one that was stored later (T-51)."""
    places = [tuple(map(int, name.split(b"."))) for name in dict.fromkeys(handled)]
    newest, late = tuple[int, ...](), 0
    for place in places:
        late += place < newest
        newest = max(newest, place)
    return late


def run(directory: Path, kills: int, seed: int) -> dict[str, object]:
    """`failed` is 0 where all went well; `recoveries` and `draining` are in seconds."""
    rig = Rig(directory, seed)
    troubles = Troubles(rig)
    try:
        return watched(rig, troubles, kills)
    finally:
        for pid in troubles.pids.values():
            with suppress(ProcessLookupError, ChildProcessError):
                kill(pid)


def watched(rig: Rig, troubles: Troubles, kills: int) -> dict[str, object]:
    troubles.start("receiver", 0.0)
    troubles.start("sender")
    began = time.monotonic()
    while not rig.names("handled") and time.monotonic() < began + SETTLING:
        time.sleep(0.005)
    troubles.usual = min(1.0, time.monotonic() - began)
    for trouble in troubles.deal():
        if troubles.counts["kills"] >= kills:
            break
        time.sleep(rig.rng.uniform(0, troubles.usual * rig.rng.choice(LIVES)))
        trouble()
    kill(troubles.pids["sender"])
    began = time.monotonic()
    drained = wrong_end(rig.start(lambda: anyio.run(rig.drain)), time.monotonic() + SETTLING) is None
    draining = time.monotonic() - began
    kill(troubles.pids["receiver"])
    lines = [line.split() for line in rig.names("handled")]
    handled = Counter(line[0] for line in lines)
    about_to, returned = set(rig.names("about to")), set(rig.names("returned"))
    missing = returned - set(handled)
    restarts, times = troubles.restarts, sorted(int(line[1]) for line in lines)
    bad = {
        "lost": len(missing - troubles.not_in_copies),
        "unexpected": len(set(handled) - about_to),
        "overtaken": overtaken([line[0] for line in lines]),
        "nobody": len(rig.names("nobody")),
        "wrong": Counter(troubles.wrong),
    }
    return {
        **bad,
        "failed": int(any(bad.values()) or not drained),
        "kills": troubles.counts["kills"],
        "messages": len(returned),
        "duplicates": handled.total() - len(handled),
        "drained": int(drained),
        "recoveries": [round(seconds, 3) for seconds in recoveries(restarts, times)],
        "draining": [round(draining, 3)],
        "not_in_copies": len(missing & troubles.not_in_copies),
        "troubles": dict(troubles.counts - Counter(kills=troubles.counts["kills"])),
        "rig": f"{rig.adapters['sender']} to {rig.adapters['receiver']} over {'plaintext' if rig.plaintext else 'TLS'}",
    }


if __name__ == "__main__":
    print(json.dumps(run(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))))  # noqa: T201  # its only output
