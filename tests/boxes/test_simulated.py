"""Outbox and inbox in the simulator: each committed transfer has its effect once, whoever dies before or after which
commit (P-70 to P-73).

Two instances relay the outbox of one database, a third one notes effects in another. The relays' steps, the statements
and the inbox are those of the product, on files of SQLite; time is virtual, also for leases.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import closing
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from tempfile import mkdtemp
from weakref import proxy

import pytest
from tolliver import Delivery
from tolliver.inbox import Inbox
from tolliver.outbox import Outbox
from tolliver.testing import App, ProgramNet, SimFailure, rehearse, relay

from tolliver_proto import Policy

TRANSFERS = 12
FAULTS = 30.0  # seconds in which there are faults
DEADLY = 0.05  # chance of a death before a commit, and of one after it
_EPOCH = 2440587.5  # Julian day of 1970


class Connection(sqlite3.Connection):
    """A connection of a simulated process, which may end before or after a commit."""

    life: tuple[App, Random, Counter[str], str]

    def commit(self) -> None:
        self._maybe_die("before")
        super().commit()
        self._maybe_die("after")

    def _maybe_die(self, when: str) -> None:
        app, dice, deaths, what = self.life
        if app.now < FAULTS and dice.random() < DEADLY:
            deaths[f"{when} {what}"] += 1
            app.die()


class Bank:
    """Two databases, that of the senders and that of the receiver, and the deaths of the story."""

    def __init__(self, directory: Path, net: ProgramNet) -> None:
        self.directory = directory
        self.dice = Random(net.seed)
        self.deaths = Counter[str]()
        self.numbers = count(1)
        with closing(sqlite3.connect(directory / "sent")) as sent, closing(sqlite3.connect(directory / "got")) as got:
            sent.execute("CREATE TABLE transfer (name TEXT)")
            got.execute("CREATE TABLE effect (name TEXT)")
            Outbox(lambda: sqlite3.connect(directory / "sent")).create()
            Inbox(lambda: sqlite3.connect(directory / "got")).create()
            sent.execute("INSERT INTO sqlite_sequence VALUES ('tolliver_outbox', 1000000)")  # ours are below
            sent.commit()

    def connect(self, app: App, file: str, what: str) -> Connection:
        """A connection of a process, whose commits are of one kind."""
        connection = sqlite3.connect(self.directory / file, factory=Connection)
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("PRAGMA journal_mode = MEMORY")
        here = proxy(app)  # a connection that nobody closes would keep the whole world
        connection.create_function("julianday", 1, lambda _now: _EPOCH + 20_000 + here.now / 86_400)
        connection.life = (app, self.dice, self.deaths, what)
        return connection

    def all(self, file: str, query: str) -> list[str]:
        with closing(sqlite3.connect(self.directory / file)) as connection:
            return [str(one) for (one,) in connection.execute(query)]

    # The programs.

    def sender(self, name: str) -> Callable[[App], None]:
        def program(app: App) -> None:
            begun: list[str] = app.disk.setdefault("begun", [])
            outbox = Outbox(partial(self.connect, app, "sent", "transfer"))

            def begin() -> None:
                """Draws the row's number, as PostgreSQL does in a transaction that ends later."""
                if len(begun) < TRANSFERS:
                    transfer = f"{name} {len(begun)}"
                    begun.append(transfer)
                    app.later(3 * self.dice.random(), end, transfer, next(self.numbers))

            def end(transfer: str, number: int) -> None:
                channel = "odd" if number % 2 else "even"
                with closing(self.connect(app, "sent", "transfer")) as connection:
                    outbox.put(connection, channel, "", transfer.encode())
                    connection.execute(
                        "UPDATE tolliver_outbox SET number = ? WHERE number = last_insert_rowid()", (number,)
                    )
                    connection.execute("INSERT INTO transfer VALUES (?)", (transfer,))
                    if self.dice.random() < 0.8:
                        connection.commit()

            relay(app, Outbox(partial(self.connect, app, "sent", "relay")))
            app.every(1.0, begin)

        return program

    def receiver(self, once: bool) -> Callable[[App], None]:
        def program(app: App) -> None:
            inbox = Inbox(partial(self.connect, app, "got", "effect"))

            def receive(delivery: Delivery) -> None:
                with closing(self.connect(app, "got", "effect")) as connection:
                    if inbox.once(connection, delivery) or not once:
                        connection.execute("INSERT INTO effect VALUES (?)", (delivery.body.decode(),))
                    connection.commit()
                app.later(self.dice.random(), delivery.ack)

            for seconds, channel in ((0.5, "even"), (3.0, "odd")):
                app.register_callback(channel, "", receive, settles=True)
                app.every(seconds, app.subscribe, channel)  # again, as its commit may fail

        return program

    def is_over(self) -> bool:
        """True if each committed transfer has its effect, and the outbox is empty."""
        sent, got = self.all("sent", "SELECT name FROM transfer"), self.all("got", "SELECT name FROM effect")
        assert {*got} <= {*sent}, f"effects of what was rolled back: {sorted({*got} - {*sent})}"
        assert len(got) == len({*got}), f"effects that came twice: {sorted(Counter(got) - Counter({*got}))}"
        left = self.all("sent", "SELECT number FROM tolliver_outbox UNION SELECT number FROM tolliver_outbox_begun")
        return len(sent) > 0 and len(got) == len(sent) and not left


def story(directory: Path, banks: list[Bank], net: ProgramNet, *, once: bool = True) -> Callable[[], bool]:
    bank = Bank(Path(mkdtemp(dir=directory)), net)
    banks.append(bank)
    policy = Policy(max_deaths=None)  # here each death is one of ours
    for name in ("north", "west"):
        net.instance(name, bank.sender(name), remotes=["south"], policy=policy)
    net.instance("south", bank.receiver(once), policy=policy)
    return lambda: net.now > FAULTS + 5 and bank.is_over()


def run(directory: Path, seeds: Iterable[int], *, once: bool = True, lives: int = 0) -> tuple[Counter[str], int]:
    """Rehearses banks with these seeds. Returns their deaths, and the number of transfers."""
    banks = list[Bank]()
    rehearse(partial(story, directory, banks, once=once), seeds, lives=lives, seconds=FAULTS)
    deaths = sum((bank.deaths for bank in banks), Counter[str]())
    return deaths, sum(len(bank.all("sent", "SELECT name FROM transfer")) for bank in banks)


KINDS = ("relay", "transfer", "effect")


def test_each_committed_transfer_has_its_effect_once(tmp_path: Path) -> None:
    deaths, transfers = run(tmp_path, range(6))
    assert min(deaths[f"{when} {what}"] for when in ("before", "after") for what in KINDS) > 0, deaths
    assert transfers > 0


def test_without_once_effects_come_twice(tmp_path: Path) -> None:
    with pytest.raises(SimFailure, match="effects that came twice"):
        run(tmp_path, range(6), once=False)


@pytest.mark.thorough
def test_effects_come_once_with_many_seeds(tmp_path: Path) -> None:
    run(tmp_path, range(6, 300), lives=100)
