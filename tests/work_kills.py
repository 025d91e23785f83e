"""kill -9 of real workers, and of their producer, while they are at a work queue.

One process that has everything imported forks a producer and three workers, with a database each, kills one of them
again and again, and starts it anew. The producer writes down each job for which `put` has returned; a worker writes
down each that it has done before it answers it, and says in the answer which life of which worker did the job. The
producer calls jobs with message keys, too, and writes down what it asks for and each answer: a life goes on with the
calls of the lives before, and asks again for what was answered. At the end the queue is drained, all calls are asked
once more, and the lists (`lists`) are compared. The seed says who is killed and when, and on which adapter.

    python -m tests.work_kills DIRECTORY KILLS SEED     prints the result as one line of JSON
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
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID

import anyio
from tolliver import blocking
from tolliver.anyio import InstanceOptions, WorkQueue, create_instance

from tests.lists import append, whole_lines
from tests.ports import free_address
from tolliver_proto import Limits, OutboxFull

WORKERS = 3
LEASE = 0.4  # seconds
LIVES = (0.05, 0.3, 0.8)  # seconds from one kill to the next, at most
BACKLOG = 300  # jobs that wait before the producer goes slowly
SETTLING = 120.0  # seconds for draining at the end
AT_A_TIME = (1, 1, 3, 20)  # jobs in one call
ASKERS = 20  # calls that wait at a time
AT_WORK = 0.01  # seconds for a job, at most


class Rig:
    """A directory with databases and lists, and the programs that use them."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.directory = directory
        self.rng = random.Random(seed)
        self.address = free_address()
        self.is_async = {name: self.rng.random() < 0.5 for name in range(WORKERS)}
        self.life = 0

    def options(self, name: int | None, **options: Any) -> InstanceOptions:
        """Of the worker of that number; None is the producer."""
        return InstanceOptions(
            database=self.directory / f"{name}.db",
            plaintext=True,
            identity=UUID(int=0x0189_0000_0000_7000_8000_0000_0000_0000 + (WORKERS if name is None else name)),
            retry_interval=0.5,
            limits=Limits(redial_max=0.1),
            **options,
        )

    def write(self, name: str, lines: list[bytes]) -> None:
        fd = os.open(self.directory / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        append(fd, lines)
        os.close(fd)

    def lines(self, name: str) -> list[bytes]:
        return whole_lines(self.directory / name)

    # The work of the forked processes.

    async def produce(self) -> None:
        rng, number = random.Random(self.life), 0
        boss = create_instance(self.options(None, listen=self.address))
        async with boss, anyio.create_task_group() as tasks:
            queue = boss.work_queue("work", lease=LEASE)
            questions = self.questions()
            for _ in range(ASKERS):
                tasks.start_soon(self.ask, queue, questions)
            while True:
                if boss.stats().pending > BACKLOG:
                    await anyio.sleep(0.02)
                    continue
                jobs = [b"%d.%d" % (self.life, number + at) for at in range(rng.choice(AT_A_TIME))]
                number += len(jobs)
                self.write("about to", jobs)
                with suppress(OutboxFull):
                    await queue.put_many(jobs)
                    self.write("returned", jobs)
                await anyio.sleep(0.002)

    def questions(self) -> Iterator[bytes]:
        """Names of jobs: those that earlier lives have asked for and not noted, some that they have, and new ones."""
        noted = {answer.partition(b" ")[0] for answer in self.lines("answers")}
        asked = set(self.lines("asked"))
        yield from sorted(asked - noted)
        yield from sorted(noted)[-2:]
        yield from (b"call.%d.%d" % (self.life, number) for number in count())

    async def ask(self, queue: WorkQueue[bytes, bytes], questions: Iterable[bytes]) -> None:
        """Call these jobs, one after the other, each with its name as its key."""
        for name in questions:
            self.write("asked", [name])
            self.write("about to", [name])
            self.write("answers", [await queue.call(name, message_key=name.decode(), timeout=SETTLING)])

    async def drain(self) -> None:
        async with create_instance(self.options(None, listen=self.address)) as boss:
            queue = boss.work_queue("work", lease=LEASE)
            with anyio.fail_after(SETTLING):
                await self.ask(queue, sorted(set(self.lines("asked"))))
                while boss.stats().pending or await queue.pending():  # noqa: ASYNC110  # numbers, not events
                    await anyio.sleep(0.02)

    async def work_async(self, name: int) -> None:
        rng = random.Random(self.life)
        worker = create_instance(self.options(name, remotes=[self.address]))
        async with worker, worker.work("work", concurrency=2, lease=LEASE) as jobs:
            async for job in jobs:
                await anyio.sleep(rng.random() * AT_WORK)
                self.write("done", [job.body])
                job.answer(self.answer(job.body, name))

    def answer(self, job: bytes, worker: int) -> bytes:
        return b"%b in life %d of %d" % (job, self.life, worker)

    def work_blocking(self, name: int) -> None:
        rng = random.Random(self.life)
        worker = blocking.create_instance(self.options(name, remotes=[self.address]))
        with worker, worker.work("work", concurrency=2, lease=LEASE) as jobs:
            for job in jobs:
                time.sleep(rng.random() * AT_WORK)
                self.write("done", [job.body])
                job.answer(self.answer(job.body, name))

    def job_of(self, name: int | None) -> Callable[[], object]:
        if name is None:
            return lambda: anyio.run(self.produce)
        if self.is_async[name]:
            return lambda: anyio.run(self.work_async, name)
        return lambda: self.work_blocking(name)

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


def kill(pid: int) -> None:
    with suppress(ProcessLookupError, ChildProcessError):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def run(directory: Path, kills: int, seed: int) -> dict[str, object]:
    """`failed` is 0 where all went well; `twice` counts jobs that were done more often than once, `differing` keys that
    had several answers."""
    rig = Rig(directory, seed)
    everybody: tuple[int | None, ...] = (None, *range(WORKERS))
    pids = {name: rig.start(rig.job_of(name)) for name in everybody}
    drained, killed = False, Counter[str]()
    try:
        began = time.monotonic()
        while not rig.lines("done") and time.monotonic() < began + SETTLING:
            time.sleep(0.01)
        for _ in range(kills):
            time.sleep(rig.rng.uniform(0, rig.rng.choice(LIVES)))
            name = rig.rng.choice((*everybody, *range(WORKERS)))
            kill(pids[name])
            killed["producers" if name is None else "workers"] += 1
            pids[name] = rig.start(rig.job_of(name))
        kill(pids[None])
        pids[None] = rig.start(lambda: anyio.run(rig.drain))
        drained = os.waitstatus_to_exitcode(os.waitpid(pids[None], 0)[1]) == 0
    finally:
        for pid in pids.values():
            kill(pid)
    done = Counter(rig.lines("done"))
    returned = set(rig.lines("returned"))
    lost, unexpected = len(returned - set(done)), len(set(done) - set(rig.lines("about to")))
    answers = {tuple(answer.split(b" ", 1)) for answer in rig.lines("answers")}
    asked, answered = set(rig.lines("asked")), Counter(name for name, _ in answers)
    unanswered, differing = len(asked - set(answered)), sum(number > 1 for number in answered.values())
    return {
        **killed,
        "kills": killed.total(),
        "failed": int(not drained or lost + unexpected + unanswered + differing > 0),
        "jobs": len(returned),
        "lost": lost,
        "unexpected": unexpected,
        "twice": sum(times > 1 for times in done.values()),
        "calls": len(asked),
        "unanswered": unanswered,
        "differing": differing,
        "drained": int(drained),
    }


if __name__ == "__main__":
    print(json.dumps(run(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))))  # noqa: T201  # its only output
