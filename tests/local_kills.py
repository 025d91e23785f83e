"""kill -9 of an instance and of the four local programs that hand over to it, as the workers of a web server do.

One process forks a receiver, which lives, an instance that accepts local programs and has a queue of jobs, and four
programs. It kills the instance or a program, again and again, and starts it anew: at a random moment; the instance also
right when the log of its store has grown, which is about a commit; a program also right before a call, within it, and
between its answer and what it writes down.

A program hands over messages one by one and in batches, messages for later, jobs and requests, with and without message
keys, from several threads or tasks. It writes down what it is about to ask for, and what was answered. A life asks
again, under its key and with another body, for all that the lives before it had not noted, and for some that they had.
At the end all of them are asked for, the instance drains, and the lists (`lists`) are compared: each send, put and
request that returned is handled, one body of each key, each key has one place in the order or one answer, and nothing
is handled that nobody was about to send. The seed says who is killed and when, on which adapter, and who declares the
queue.

    python -m tests.local_kills DIRECTORY KILLS SEED     prints the result as one line of JSON
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID

import anyio
from tolliver import blocking, local
from tolliver.anyio import InstanceOptions, create_instance

from tests.lists import append, whole_lines
from tests.ports import free_address
from tests.work_kills import kill
from tolliver_proto import ConnectionLost, Delivery, Limits, OutboxFull, Policy

PROGRAMS = 4
AT_A_TIME = 3  # threads or tasks of a program
LEASE = 0.4  # seconds
PROGRESS = (1, 5, 20, 60)  # calls that are answered from one kill to the next
PATIENCE = 5.0  # seconds for them, at most
LINE = 16  # bytes of a note, about
LIVES = (0.0, 0.02, 0.2)  # seconds beyond that, at most
PAUSE = 0.01  # seconds between two calls of a thread, about
WITHIN = 0.004  # seconds from the beginning of a call to a kill in it, at most
COMMITS = 10  # of the instance, until it is killed at one, at most
CALLS = 40  # of a program, until it is killed at one, at most
ANSWER = 1.0  # seconds for the answer to a request; one whose answer came to an earlier life gets none (P-66)
SETTLING = 120.0  # seconds for what must come at last
VERBS = ("send", "send", "later", "put", "request", "many", "unkeyed", "unkeyed put")
KEYED = ("send", "later", "put", "request")
UNANSWERED: dict[str, tuple[type[Exception], ...]] = {
    "request": (TimeoutError, ConnectionLost),  # an instance may be away for longer than it waits
    **dict.fromkeys(("many", "unkeyed", "unkeyed put"), (ConnectionLost,)),
}
"""Errors of a call that has no answer, by verb. Nothing is noted of it."""


class Fuse:
    """Kills this process at one of its calls: before it, within it, or after its answer."""

    def __init__(self, rng: random.Random) -> None:
        self._left = rng.randint(1, CALLS) if rng.random() < 0.5 else -1
        self._where = rng.choice(("before", "within", "after"))
        self._delay = rng.random() * WITHIN

    def before(self) -> None:
        self._left -= 1
        if self._left:
            return
        if self._where == "before":
            _die()
        if self._where == "within":
            threading.Timer(self._delay, _die).start()

    def after(self) -> None:
        if self._left <= 0 and self._where == "after" and self._left > -AT_A_TIME:
            _die()


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Rig:
    """A directory with databases and lists, and the processes that use them."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.directory = directory
        self.rng = random.Random(seed)
        self.address = free_address()
        self.path = directory / "s"
        self.is_async = [self.rng.random() < 0.5 for _ in range(PROGRAMS)]
        self.has_async_instance = self.rng.random() < 0.5
        self.declares = self.rng.random() < 0.5
        self.life = 0

    def options(self, name: str, number: int, **options: Any) -> InstanceOptions:
        return InstanceOptions(
            database=self.directory / f"{name}.db",
            plaintext=True,
            identity=UUID(int=0x0189_0000_0000_7000_8000_0000_0000_0000 + number),
            retry_interval=0.3,
            limits=Limits(redial_max=0.1),
            **options,
        )

    def write(self, name: str, *lines: str) -> None:
        fd = os.open(self.directory / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        append(fd, [line.encode() for line in lines])
        os.close(fd)

    def lines(self, name: str) -> list[str]:
        return [line.decode() for line in whole_lines(self.directory / name)]

    # The receiver, which nobody kills.

    def receive(self) -> None:
        policy, numbers = Policy(dedupe=1_000_000), count()

        def handle(delivery: Delivery) -> None:
            self.write("handled", delivery.body.decode())

        def respond(request: Any) -> bytes:
            self.write("handled", request.body.decode())
            return b"%s answer %d" % (request.body.split()[0], next(numbers))

        options = self.options("receiver", 1, listen=self.address, policy=policy)
        with blocking.create_instance(options) as receiver:
            receiver.subscribe("news", handler=handle)
            receiver.respond("ask", respond)
            with receiver.work("jobs", concurrency=4, lease=LEASE) as jobs:
                for job in jobs:
                    self.write("handled", job.body.decode())
                    job.answer(b"")

    # The instance.

    def accepting(self) -> InstanceOptions:
        return self.options("instance", 2, remotes=[self.address], accept=f"unix:{self.path}")

    def accept(self) -> None:
        if self.has_async_instance:
            anyio.run(self.accept_async)
            return
        with blocking.create_instance(self.accepting()) as instance:
            if self.declares:
                instance.work_queue("jobs", lease=LEASE)
            instance.wait_subscribed("news", "", timeout=SETTLING)
            self.write("open", str(self.life))
            while not self.is_over() or instance.stats().pending:
                time.sleep(0.02)

    async def accept_async(self) -> None:
        async with create_instance(self.accepting()) as instance:
            if self.declares:
                instance.work_queue("jobs", lease=LEASE)
            await instance.wait_subscribed("news", "", timeout=SETTLING)
            self.write("open", str(self.life))
            while not self.is_over() or instance.stats().pending:  # noqa: ASYNC110  # numbers, not events
                await anyio.sleep(0.02)

    def is_over(self) -> bool:
        return (self.directory / "over").exists()

    # The programs.

    def names(self, number: int, is_last: bool) -> Iterator[tuple[str, str]]:
        """Calls as (verb, name): those that earlier lives have not noted, some that they have, and new ones.
        In the last life all that were ever asked for."""
        noted = {line.split()[0] for line in self.lines("returned")}
        mine = [line.split()[0] for line in self.lines("asked") if line.startswith(f"{number}.")]
        keyed = [name for name in dict.fromkeys(mine) if _verb(name) in KEYED]
        again = keyed if is_last else [*(name for name in keyed if name not in noted), *keyed[-3:]]
        yield from ((_verb(name), name) for name in again)
        if not is_last:
            rng = random.Random(self.life)
            for serial in count():
                verb = rng.choice(VERBS)
                yield verb, f"{number}.{self.life}.{serial}.{verb.replace(' ', '_')}"

    def program(self, number: int, is_last: bool = False) -> None:
        rng, names = random.Random(self.life), self.names(number, is_last)
        if is_last:
            rng.random = lambda: 1.0  # type: ignore[method-assign]  # no fuse
        fuse, lock = Fuse(rng), threading.Lock()

        def following() -> tuple[str, str] | None:
            with lock:
                return next(names, None)

        if self.is_async[number]:
            anyio.run(self.ask_async, following, fuse)
        else:
            self.ask_blocking(following, fuse)

    def ask_blocking(self, following: Callable[[], tuple[str, str] | None], fuse: Fuse) -> None:
        def ask() -> None:
            while (asked := following()) is not None:
                call, note = self.call(me, *asked)
                fuse.before()
                with suppress(OutboxFull, *UNANSWERED.get(asked[0], ())):
                    answer = call()
                    fuse.after()
                    note(answer)
                time.sleep(random.random() * 2 * PAUSE)

        while True:
            with suppress(ConnectionLost), local.connect(self.path, timeout=SETTLING) as me:
                threads = [threading.Thread(target=_dying(ask)) for _ in range(AT_A_TIME)]
                for one in threads:
                    one.start()
                for one in threads:
                    one.join()
                return
            time.sleep(0.02)

    async def ask_async(self, following: Callable[[], tuple[str, str] | None], fuse: Fuse) -> None:
        async def ask(me: local.AsyncClient) -> None:
            while (asked := following()) is not None:
                call, note = self.call(me, *asked)
                fuse.before()
                with suppress(OutboxFull, *UNANSWERED.get(asked[0], ())):
                    answer = await call()
                    fuse.after()
                    note(answer)
                await anyio.sleep(random.random() * 2 * PAUSE)

        client = local.connect(self.path, timeout=SETTLING)
        while True:
            try:
                me = await client.__aenter__()
            except ConnectionLost:
                await anyio.sleep(0.02)
            else:
                break
        async with anyio.create_task_group() as tasks:
            for _ in range(AT_A_TIME):
                tasks.start_soon(ask, me)
        await client.__aexit__()

    def call(self, me: Any, verb: str, name: str) -> tuple[Callable[[], Any], Callable[[Any], None]]:
        """A call, and what writes down its answer. Writes down that it is about to be made."""
        names = [f"{name}.{at}" for at in range(random.choice((1, 5, 50)))] if verb == "many" else [name]
        bodies = [f"{one} {self.life}" for one in names]
        self.write("asked", *bodies)
        body = bodies[0].encode()
        calls: dict[str, Callable[[], Any]] = {
            "send": lambda: me.send("news", "", body, message_key=name),
            "later": lambda: me.send("news", "", body, message_key=name, after=0.05),
            "unkeyed": lambda: me.send("news", "", body),
            "many": lambda: me.send_many([("news", "", one.encode()) for one in bodies]),
            "put": lambda: me.put("jobs", "", body, message_key=name),
            "unkeyed put": lambda: me.put("jobs", "", body),
            "request": lambda: me.request("ask", "", body, message_key=name, durable=True, timeout=ANSWER),
        }

        def note(answer: Any) -> None:
            if isinstance(answer, local.LocalReply):
                self.write("returned", *(f"{one} {answer.body.decode()}" for one in names))
            else:
                place = "later" if verb == "later" else answer.first_seq  # gets its place when it is due
                self.write("returned", *(f"{one} {place}" for one in names))
                if verb != "later" and answer.recipients != 1:
                    self.write("nobody", *names)

        return calls[verb.replace("_", " ")], note

    # The process above them.

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

    def noted(self) -> int:
        """Bytes of the notes of what was answered."""
        with suppress(OSError):
            return (self.directory / "returned").stat().st_size
        return 0

    def commits(self) -> float:
        """Grows with each commit of the instance."""
        with suppress(OSError):
            return (self.directory / "instance.db-wal").stat().st_mtime_ns
        return 0


def _verb(name: str) -> str:
    return name.split(".")[3].replace("_", " ")


def _dying(work: Callable[[], None]) -> Callable[[], None]:
    """Work of a thread whose error ends the process."""

    def run() -> None:
        try:
            work()
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)

    return run


class Killer:
    """The processes of a round, one of which is killed next."""

    def __init__(self, rig: Rig) -> None:
        self.rig, self.killed, self.broken = rig, Counter[str](), 0
        self.receiver = rig.start(rig.receive)
        self.instance = rig.start(rig.accept)
        self.programs: list[int] = []

    def begin(self) -> bool:
        """Start the programs once the instance knows its receiver."""
        is_open = wait_until(lambda: bool(self.rig.lines("open")))
        self.programs = [self.rig.start(partial(self.rig.program, number)) for number in range(PROGRAMS)]
        return is_open

    def everybody(self) -> list[int]:
        return [self.receiver, self.instance, *self.programs]

    def next(self) -> None:
        """Wait for a while, or for a fuse, and kill somebody if nobody has died."""
        rng = self.rig.rng
        who = rng.choice(("instance", "program", "commit"))
        if wait_until(self.is_enough(rng.choice(PROGRESS)), PATIENCE):
            time.sleep(rng.choice(LIVES) * rng.random())
        if who == "commit":
            wait_until(self.has_committed(rng.randint(1, COMMITS)), PATIENCE, 0.0002)
        if self.bury():
            return
        if who == "program":
            number = rng.randrange(PROGRAMS)
            kill(self.programs[number])
            self.start_program(number)
        else:
            kill(self.instance)
            self.killed["instances"] += 1
            self.instance = self.rig.start(self.rig.accept)

    def is_enough(self, count: int) -> Callable[[], bool]:
        """So many lines are noted from now on, or a fuse has gone off."""
        before = self.rig.noted()

        def is_enough() -> bool:
            return self.rig.noted() >= before + count * LINE or any(map(is_dead, self.programs))

        return is_enough

    def has_committed(self, count: int) -> Callable[[], bool]:
        """The instance has committed so often from now on."""
        seen = [self.rig.commits()]

        def has_committed() -> bool:
            now = self.rig.commits()
            if now != seen[-1]:
                seen.append(now)
            return len(seen) > count

        return has_committed

    def bury(self) -> int:
        """Start programs anew whose fuses have gone off; returns how many."""
        dead = 0
        for number, pid in enumerate(self.programs):
            gone, status = os.waitpid(pid, os.WNOHANG)
            if gone:
                dead += 1
                self.broken += not os.WIFSIGNALED(status)
                self.start_program(number)
        return dead

    def start_program(self, number: int) -> None:
        self.killed["programs"] += 1
        self.programs[number] = self.rig.start(partial(self.rig.program, number))

    def settle(self) -> bool:
        """Have all programs ask once more, the instance killed in between, and everything drain."""
        for pid in self.programs:
            kill(pid)
        self.programs = [self.rig.start(partial(self.rig.program, number, True)) for number in range(PROGRAMS)]
        statuses = [self.ended(pid) for pid in self.programs]
        kill(self.instance)
        self.instance = self.rig.start(self.rig.accept)
        (self.rig.directory / "over").touch()
        return self.ended(self.instance) and all(statuses)

    def ended(self, pid: int) -> bool:
        statuses: list[int] = []

        def is_gone() -> bool:
            gone, status = os.waitpid(pid, os.WNOHANG)
            statuses.append(status)
            return bool(gone)

        return wait_until(is_gone) and statuses[-1] == 0


def wait_until(what: Callable[[], bool], seconds: float = SETTLING, pause: float = 0.005) -> bool:
    end = time.monotonic() + seconds
    while not what():
        if time.monotonic() > end:
            return False
        time.sleep(pause)
    return True


def is_dead(pid: int) -> bool:
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def run(directory: Path, kills: int, seed: int) -> dict[str, object]:
    """`failed` is 0 where all went well. `twice` counts keys with two bodies and messages that were handled twice,
    `differing` keys with two places or two answers."""
    rig = Rig(directory, seed)
    killer = Killer(rig)
    settled = False
    try:
        is_open = killer.begin()
        while is_open and killer.killed.total() < kills and not killer.broken:
            killer.next()
        settled = killer.settle()
    finally:
        for pid in killer.everybody():
            kill(pid)
    return {**killer.killed, "kills": killer.killed.total(), **compared(rig, settled, killer.broken)}


def compared(rig: Rig, settled: bool, broken: int) -> dict[str, object]:
    asked, handled = set(rig.lines("asked")), Counter(rig.lines("handled"))
    bodies = defaultdict[str, set[str]](set)
    for line in handled:
        bodies[line.split()[0]].add(line)
    answers = defaultdict[str, set[str]](set)
    for line in rig.lines("returned"):
        name, _, answer = line.partition(" ")
        answers[name].add(answer)
    bad = {
        "lost": len(answers.keys() - bodies.keys()),
        "twice": sum(len(found) > 1 for found in bodies.values())
        + sum(times > 1 for line, times in handled.items() if _verb(line.split()[0]) in ("send", "many", "unkeyed")),
        "differing": sum(len(found) > 1 for found in answers.values()),
        "unexpected": len(handled.keys() - asked),
        "nobody": len(rig.lines("nobody")),
        "broken": broken,
    }
    return {
        **bad,
        "failed": int(any(bad.values()) or not settled),
        "messages": len(answers),
        "calls": Counter(_verb(name) for name in answers),
        "settled": int(settled),
        "rig": f"{'asyncio' if rig.has_async_instance else 'threads'}, {sum(rig.is_async)} of {PROGRAMS} on asyncio",
    }


if __name__ == "__main__":
    print(json.dumps(run(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))))  # noqa: T201  # its only output
