"""Node of one version in an exchange between two, whose lives the parent begins and ends.

    python -P scripts/proving/exchanged.py CHECKOUT OPTIONS     with `Options` in JSON

PYTHONPATH leads to the checkout. Only names that both versions have are used here. One process that has everything
imported forks each life, as its standard input says: a line that is the name of a life begins one, `kill` and `close`
end it, and each is answered.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tolliver_transports.blocking import TLS, Instance, InstanceOptions, create_instance
from tolliver_transports.staging import StageOptions, Stager

import tolliver_proto
from tolliver_proto import Limits, Revision, TolliverError

BACKLOG = 500  # messages that wait before the sender does
RUNS = (1, 1, 2, 5, 20, 100)  # messages in one call
SIZES = (10, 100, 3000)  # bytes in one body
PAUSE = 0.005  # seconds between two looks
CHANNEL = "work"


class Options(NamedTuple):
    directory: str
    name: str
    address: str
    listens: bool
    dedupe: int = 0
    revision: int = 2


class Node:
    def __init__(self, options: Options) -> None:
        self.options = options
        self.directory = Path(options.directory)
        self.lives = 0
        self.stopping = threading.Event()

    def path(self, what: str) -> Path:
        return self.directory / f"{self.options.name}{what}"

    def open_list(self, what: str) -> int:
        return os.open(self.path(f".{what}"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    @property
    def place(self) -> dict[str, object]:
        where = {"listen": self.options.address} if self.options.listens else {"remotes": [self.options.address]}
        return {
            "tls": TLS(self.path(".pem"), self.path(".key"), self.directory / "ca.pem"),
            "revision": Revision(self.options.revision),
            "limits": Limits(redial_max=0.1),
            **where,
        }

    def instance(self) -> Instance:
        options = InstanceOptions(
            database=self.path(".db"),
            retry_interval=0.5,
            dedupe=self.options.dedupe,
            dedupe_durable=bool(self.options.dedupe),
            record=self.path(".recordings"),
            **self.place,  # type: ignore[arg-type]  # attrs checks them
        )
        return create_instance(options)

    def stager(self) -> Stager:
        options = StageOptions(
            directory=self.path(".stage"),
            segment_bytes=100_000,
            subscriptions=((CHANNEL, ""),),
            **self.place,  # type: ignore[arg-type]  # as above
        )
        return Stager(options)

    # The lives.

    def exchange(self) -> None:
        """Sends and receives."""
        with self.instance() as instance:
            self.receive(instance)
            self.keep_sending(instance)

    def send(self) -> None:
        with self.instance() as instance:
            self.keep_sending(instance)

    def drain(self) -> None:
        """Receives, and sends nothing new."""
        with self.instance() as instance:
            self.receive(instance)
            while instance.stats()["pending"]:
                self.stopping.wait(PAUSE)
            self.path(".drained").touch()
            self.stopping.wait()

    def stage(self) -> None:
        with self.stager() as stager:
            while not self.stopping.wait(PAUSE):
                stager.check()

    def open_instance(self) -> None:
        """Says whether the database is taken."""
        self.say_whether(self.instance().__enter__)

    def open_stage(self) -> None:
        self.say_whether(self.stager().start)

    def say_whether(self, it_opens: Callable[[], object]) -> None:
        told = self.open_list("told")
        try:
            it_opens()
        except TolliverError as error:
            os.write(told, whole([f"{type(error).__name__}: {error}".encode()]))
        else:
            os.write(told, whole([b"opened"]))
        self.stopping.wait()

    def receive(self, instance: Instance) -> None:
        handled = self.open_list("handled")
        instance.subscribe(
            CHANNEL, handler=lambda delivery: os.write(handled, whole([delivery.body.split()[0]])) and None
        )

    def keep_sending(self, instance: Instance) -> None:
        about_to, returned = self.open_list("about to"), self.open_list("returned")
        rng, number = random.Random(self.lives), 0
        while not self.stopping.is_set():
            if instance.stats()["pending"] > BACKLOG:
                self.stopping.wait(PAUSE)
                continue
            count, size = rng.choice(RUNS), rng.choice(SIZES)
            names = [f"{os.getpid()}.{self.lives}.{number + at}".encode() for at in range(count)]
            number += count
            lines = whole(names)
            os.write(about_to, lines)
            receipt = instance.send_many([(CHANNEL, "", name + b" " + bytes(size)) for name in names])
            if receipt.recipients:  # else nobody has subscribed yet
                os.write(returned, lines)
            else:
                self.stopping.wait(PAUSE)

    # The process that forks them.

    def begin(self, life: str) -> int:
        self.lives += 1
        pid = os.fork()
        if pid:
            return pid
        status = 1
        try:
            signal.signal(signal.SIGTERM, lambda *_: self.stopping.set())
            getattr(self, life)()
            status = 0
        finally:
            os._exit(status)


def whole(names: list[bytes]) -> bytes:
    """Lines as `tests/lists.py` reads them, whatever a kill tears. No import of it: another version may be here."""
    return b"".join(b"\n%s;" % name for name in names)


def end(pid: int, how: signal.Signals) -> str:
    """Answer for the parent: a life that was closed has ended well."""
    os.kill(pid, how)
    _, status = os.waitpid(pid, 0)
    return "" if how is signal.SIGKILL or status == 0 else f"ended with status {status}"


def main(checkout: str, options: str) -> None:
    found = Path(tolliver_proto.__file__)
    assert found.is_relative_to(Path(checkout).resolve()), f"{found} is not of {checkout}"
    node = Node(Options(**json.loads(options)))
    ends = {"kill": signal.SIGKILL, "close": signal.SIGTERM}
    pid = 0
    try:
        for line in sys.stdin:
            word, answer = line.strip(), ""
            if word in ends:
                answer, pid = end(pid, ends[word]), 0
            else:
                pid = node.begin(word)
            sys.stdout.write(f"{answer}\n")
            sys.stdout.flush()
    finally:
        if pid:
            end(pid, signal.SIGKILL)


if __name__ == "__main__":
    main(*sys.argv[1:])
