"""kill -9 of two banks that send each other money, each with accounts in a database of its own.

One process forks two banks, north and south, kills one again and again, and starts it anew. A bank takes money from its
account, writes down the transfer and puts it into its outbox, in one transaction, of which one in five is rolled back.
The other bank adds it to its account and writes it down, in the transaction of `inbox.once`. A bank is killed at a
random moment, or right before or after the commit of a transfer, of an effect, or of the relay. At the end the
accounts must have what both had together, and each committed transfer must have had its effect once.

The seed says whether a bank has SQLite or, where that is installed, PostgreSQL, and its adapter. `without` leaves out
`inbox.once`, and kills right after the commit of an effect, which is how effects are doubled: it must show some.

    python -m tests.bank_kills [without] DIRECTORY KILLS SEED     prints the result as one line of JSON
"""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import sys
import time
import traceback
from collections import Counter
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import anyio
import psycopg
from tolliver import blocking
from tolliver.anyio import InstanceOptions, create_instance
from tolliver.inbox import Inbox
from tolliver.outbox import Outbox

from tests.boxes.postgres import programs, server
from tests.lists import append
from tests.ports import free_address
from tests.work_kills import kill
from tolliver_proto import Delivery, Limits, Policy

NAMES = ("north", "south")
START = 1_000_000
LIVES = (0.3, 0.8, 1.5)  # seconds from one kill to the next, at most
FUSES = (("transfer", 40), ("effect", 40), ("relay", 20))  # commits, and how many of them a life has at most
SETTLING = 120.0
TABLES = (
    "CREATE TABLE account (balance BIGINT)",
    f"INSERT INTO account VALUES ({START})",
    "CREATE TABLE sent (id TEXT)",
    "CREATE TABLE got (id TEXT)",
)


class Fuse:
    """Kills this process before or after one of its commits."""

    def __init__(self, rng: random.Random | None = None, without: bool = False) -> None:
        """Without a generator it never does."""
        self._left, self._kind = -1, ""
        if rng is None:
            return
        self._kind, most = ("effect", 5) if without else rng.choice(FUSES)
        self._left = rng.randint(1, most) if without or rng.random() < 0.7 else -1
        self._before = not without and rng.random() < 0.5

    def commit(self, connection: Any, kind: str) -> None:
        if kind == self._kind:
            self._left -= 1
        is_now = kind == self._kind and not self._left
        if not (is_now and self._before):
            connection.commit()
        if is_now:
            os.kill(os.getpid(), signal.SIGKILL)


NEVER = Fuse()


class FusedSQLite(sqlite3.Connection):
    fuse = NEVER

    def commit(self) -> None:
        self.fuse.commit(super(), "relay")


class FusedPostgres(psycopg.Connection[Any]):
    fuse = NEVER

    def commit(self) -> None:
        self.fuse.commit(super(), "relay")


class Bank:
    """A bank's database, its boxes, and what it does."""

    def __init__(self, name: str, place: str, is_postgres: bool, directory: Path, address: str, other: str) -> None:
        self.name, self.place, self.is_postgres = name, place, is_postgres
        self.directory, self.address, self.other = directory, address, other
        self.outbox = Outbox(self.connect)
        self.inbox = Inbox(self.connect)
        self.by_key = False  # the name of a transfer is what counts, whatever becomes of ids
        self.life = 0

    @property
    def identity(self) -> UUID:
        return UUID(int=0x0189_0000_0000_7000_8000_0000_0000_0001 + NAMES.index(self.name))

    @property
    def store(self) -> Path:
        return self.directory / f"{self.name}.instance"

    def connect(self) -> Any:
        if self.is_postgres:
            return psycopg.connect(self.place, options=f"-c search_path={self.name}", application_name=self.name)
        return sqlite3.connect(self.place, timeout=30)

    def connect_relay(self) -> Any:
        if self.is_postgres:
            search = f"-c search_path={self.name}"
            return FusedPostgres.connect(self.place, options=search, application_name=self.name)
        return sqlite3.connect(self.place, timeout=30, factory=FusedSQLite)

    def place_of(self, statement: str) -> str:
        return statement.replace("?", "%s") if self.is_postgres else statement

    def make(self) -> None:
        with closing(psycopg.connect(self.place) if self.is_postgres else self.connect()) as connection:
            if self.is_postgres:
                connection.execute(f"CREATE SCHEMA {self.name}".encode())
                connection.execute(f"SET search_path = {self.name}".encode())
            else:
                connection.execute("PRAGMA journal_mode=WAL")
            for statement in TABLES:
                connection.execute(statement)
            connection.commit()
        self.outbox.create()
        self.inbox.create()

    def rows(self, query: str) -> list[Any]:
        with closing(self.connect()) as connection:
            return [one for (one,) in connection.execute(query).fetchall()]

    # In a process of its own.

    def options(self) -> InstanceOptions:
        return InstanceOptions(
            database=self.store,
            plaintext=True,
            identity=self.identity,
            listen=self.address,
            remotes=[self.other],
            subscriptions=[self.name],
            handlers=[(self.name, "", self.receive)],
            retry_interval=0.5,
            policy=Policy(max_deaths=None),  # here each death is a fuse of ours
            limits=Limits(redial_max=0.1),
        )

    def run(self, rng: random.Random, without: bool, is_quiet: bool, is_async: bool, is_fused: bool) -> None:
        self.fuse, self.without, self.rng = (Fuse(rng, without) if is_fused and not is_quiet else NEVER), without, rng
        FusedSQLite.fuse = FusedPostgres.fuse = self.fuse
        if is_async:
            anyio.run(self.run_async, is_quiet)
            return
        with blocking.create_instance(self.options()) as instance:
            instance.relay(Outbox(self.connect_relay))
            self.trade(instance, is_quiet)

    async def run_async(self, is_quiet: bool) -> None:
        async with create_instance(self.options()) as instance:
            instance.relay(Outbox(self.connect_relay))
            await anyio.to_thread.run_sync(self.trade, instance, is_quiet)

    def trade(self, instance: Any, is_quiet: bool) -> None:
        to, told = NAMES[1 - NAMES.index(self.name)], set[tuple[str, str]]()
        while True:
            told |= self.tell({(str(one.kind), one.detail) for one in instance.notices()} - told)
            if is_quiet:
                time.sleep(1)
                continue
            with closing(self.connect()) as connection:
                amount = self.rng.randint(1, 1000)
                name = f"{uuid4().hex}-{amount}"
                connection.execute(self.place_of("UPDATE account SET balance = balance - ?"), (amount,))
                connection.execute(self.place_of("INSERT INTO sent VALUES (?)"), (name,))
                self.outbox.put(connection, to, "", f"{name} {amount}".encode())
                if self.rng.random() < 0.2:
                    connection.rollback()
                else:
                    self.fuse.commit(connection, "transfer")
            time.sleep(0.002)

    def tell(self, notices: set[tuple[str, str]]) -> set[tuple[str, str]]:
        """Write down, and return, what the instance has told in this life."""
        if notices:
            with (self.directory / "told").open("ab") as file:
                append(file.fileno(), [json.dumps([self.life, *notice]).encode() for notice in notices])
        return notices

    def receive(self, delivery: Delivery) -> None:
        name, amount = delivery.body.decode().split()
        with closing(self.connect()) as connection:
            if self.without or self.inbox.once(connection, delivery, key=name if self.by_key else None):
                connection.execute(self.place_of("UPDATE account SET balance = balance + ?"), (int(amount),))
                connection.execute(self.place_of("INSERT INTO got VALUES (?)"), (name,))
            self.fuse.commit(connection, "effect")


class Rig:
    """Both banks, and the process above them."""

    def __init__(self, directory: Path, seed: int, without: bool, place: str | None) -> None:
        self.rng, self.without, self.life = random.Random(seed), without, 0
        addresses = [free_address(), free_address()]
        self.banks, self.is_async = [], [self.rng.random() < 0.5 for _ in NAMES]
        for number, name in enumerate(NAMES):
            is_postgres = place is not None and self.rng.random() < 0.6
            where = place if is_postgres and place else str(directory / f"{name}.db")
            bank = Bank(name, where, is_postgres, directory, addresses[number], addresses[1 - number])
            bank.make()
            self.banks.append(bank)

    def start(self, number: int, is_quiet: bool = False, is_fused: bool = True) -> int:
        self.life += 1
        self.banks[number].life = self.life
        rng = random.Random(self.rng.random())
        pid = os.fork()
        if pid:
            return pid
        try:
            self.banks[number].run(rng, self.without, is_quiet, self.is_async[number], is_fused)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(1)

    def settled(self) -> bool:
        north, south = self.banks
        return all(
            {*one.rows("SELECT id FROM sent")} <= {*other.rows("SELECT id FROM got")}
            for one, other in ((north, south), (south, north))
        )


def deaths(pids: list[int], first: int | None, seconds: float) -> list[int]:
    """Wait for a fuse of one of the banks, so long; then kill the first one, if there is one. Returns who is dead."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        dead = [number for number, pid in enumerate(pids) if os.waitpid(pid, os.WNOHANG)[0]]
        if dead:
            return dead
        time.sleep(0.01)
    if first is None:
        return []
    kill(pids[first])
    return [first]


def run(directory: Path, kills: int, seed: int, without: bool) -> dict[str, object]:
    """`failed` is 0 where all was as it must be. `twice` counts transfers that had more than one effect."""
    with ExitStack() as stack:
        place = stack.enter_context(server()) if programs() is not None else None
        rig = Rig(directory, seed, without, place)
        pids = [rig.start(number) for number in range(2)]
        try:
            for _ in range(kills):
                seconds = SETTLING if without else rig.rng.choice(LIVES)
                for number in deaths(pids, rig.rng.randrange(2), seconds):
                    pids[number] = rig.start(number)
            for number in range(2):
                kill(pids[number])
                pids[number] = rig.start(number, is_quiet=True)
            end = time.monotonic() + SETTLING
            while not rig.settled() and time.monotonic() < end:
                time.sleep(0.1)
        finally:
            for pid in pids:
                kill(pid)
        north, south = rig.banks
        sent = Counter(north.rows("SELECT id FROM sent") + south.rows("SELECT id FROM sent"))
        got = Counter(north.rows("SELECT id FROM got") + south.rows("SELECT id FROM got"))
        total = sum(bank.rows("SELECT balance FROM account")[0] for bank in rig.banks)
    found = {
        "kills": kills,
        "postgres": sum(bank.is_postgres for bank in rig.banks),
        "messages": len(sent),
        "lost": len(sent.keys() - got.keys()),
        "twice": sum(count > 1 for count in got.values()),
        "unexpected": len(got.keys() - sent.keys()),
        "missing": 2 * START - total,
    }
    is_wrong = found["lost"] or found["unexpected"] or not sent
    is_doubled = found["twice"] or found["missing"]
    return {**found, "failed": int(bool(is_wrong or bool(is_doubled) is not without))}


if __name__ == "__main__":
    *without, where, kills, seed = sys.argv[1:]
    print(json.dumps(run(Path(where), int(kills), int(seed), without == ["without"])))  # noqa: T201  # its only output
