"""Troubles of a sender and a receiver that are real processes: kills at every stage, restarts, copies, other databases.

A hand of troubles has each of them, shuffled by the seed, so a short run sees all of them too.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tolliver._cli.outbox import say_restored
from tolliver._store.copying import back_up

if TYPE_CHECKING:
    from tests.killing import Rig

CLOSING = 0.1  # seconds that an orderly end takes, before one was seen
ORDERLY = 30.0  # at most, far above what it takes
MEETING = 2.0  # for another database to get a connection, which it may never get
PAUSES = (None, 0.0, 0.3)  # seconds until a receiver subscribes; None: it is told at its opening
BESIDE = ("-wal", "-shm")  # a database that is put back comes without these

STACKS = signal.SIGUSR1  # a process writes its stacks, for who wants to know why it does not end

Trouble = Callable[[], None]


def kill(pid: int) -> bool:
    """True if it was still alive."""
    os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    return os.WIFSIGNALED(status)


def wrong_end(pid: int, deadline: float) -> str | None:
    """The fault in the end of this process, in words; None if it ends well."""
    while time.monotonic() < deadline:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return f"it ended with status {os.waitstatus_to_exitcode(status)}" if status else None
        time.sleep(0.005)
    os.kill(pid, STACKS)
    time.sleep(0.1)  # while it writes them
    kill(pid)
    return "it did not end"


class Troubles:
    """Processes of a rig. `wrong` says in words what did not go as it must."""

    def __init__(self, rig: Rig) -> None:
        self.usual = 0.2  # seconds from a start of both to the first message
        self.counts: Counter[str] = Counter()
        self.pids: dict[str, int] = {}
        self._lives: dict[str, int] = {}
        self.restarts: list[int] = []  # of the receiver, by the clock of the lists
        self.not_in_copies: set[bytes] = set()
        self.wrong: list[str] = []
        self._rig = rig
        self._rng: random.Random = rig.rng
        self._closing = CLOSING
        self._copies = 0

    def deal(self) -> Iterator[Trouble]:
        """Hands without end."""
        hand: list[Trouble] = [
            *[self.kill_some] * 6,
            *[self.kill_in_opening] * 2,
            *[self.kill_in_closing] * 2,
            *[self.stop_some] * 2,
            self.put_back_sender,
            self.put_back_receiver,
            self.another_database_instead,
            self.another_database_beside,
            self.new_disk,
        ]
        while True:
            self._rng.shuffle(hand)
            yield from hand

    # Ends and starts.

    def start(self, name: str, pause: float | None = 0.0) -> None:
        if name == "receiver":
            self.restarts.append(time.monotonic_ns())
        work = self._rig.receiving(pause) if name == "receiver" else self._rig.sending()
        self.pids[name] = self._rig.start(work)
        self._lives[name] = self._rig.life

    def _kill(self, name: str) -> None:
        self.counts["kills"] += kill(self.pids[name])

    def _stop(self, name: str) -> None:
        """In order."""
        began = time.monotonic()
        os.kill(self.pids[name], signal.SIGTERM)
        if found := wrong_end(self.pids[name], began + ORDERLY):
            self.wrong.append(f"the {name} was to end in order: {found}")
        self._closing = time.monotonic() - began
        self.counts["orderly ends"] += 1

    def _end(self, name: str) -> None:
        self._rng.choice((self._kill, self._stop))(name)

    def _some(self) -> list[str]:
        return self._rng.choice((["sender"], ["receiver"], ["sender", "receiver"]))

    def _moment(self, at_most: float) -> None:
        time.sleep(self._rng.uniform(0, at_most))

    def _until(self, true: Callable[[], object], at_most: float) -> bool:
        deadline = time.monotonic() + at_most
        while not true():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.005)
        return True

    # The troubles.

    def kill_some(self) -> None:
        for name in (some := self._some()):
            self._kill(name)
        for name in some:
            self.start(name)

    def kill_in_opening(self) -> None:
        """Opening its database, beginning to listen, or in its first handshake."""
        name = self._rng.choice(("sender", "receiver"))
        self._kill(name)
        self.start(name)
        self._moment(self.usual)
        self._kill(name)
        self.counts["kills in opening"] += 1
        self.start(name)

    def kill_in_closing(self) -> None:
        for name in (some := self._some()):
            os.kill(self.pids[name], signal.SIGTERM)
            self._moment(self._closing)
            killed = kill(self.pids[name])
            self.counts["kills"] += killed
            self.counts["kills in closing"] += killed
        for name in some:
            self.start(name)

    def stop_some(self) -> None:
        for name in (some := self._some()):
            self._stop(name)
        for name in some:
            self.start(name, None)

    def put_back_sender(self) -> None:
        """Its file is one of an earlier moment: what was sent since and not handled is not there, and that is told."""
        before = len(self._rig.names("returned"))
        copy = self._copy("sender")
        since = len(self._rig.names("returned"))
        self._moment(self.usual)
        self._end("sender")
        returned = self._rig.names("returned")
        self.not_in_copies.update(returned[before:])
        said = self._put_back(copy, "sender")
        self.start("sender")
        life = self._lives["sender"]
        if not self._until(lambda: self._rig.has_opened(life) is not None, ORDERLY):
            self.wrong.append("the sender did not open what was put back")
        elif self._rig.has_opened(life) and said:
            self.wrong.append("commits are missing, though it was said that a copy was put back")
        elif not (self._rig.has_opened(life) or said or len(returned) == since):
            self.wrong.append(f"{len(returned) - since} messages are not in the copy, and no commits are missing")

    def put_back_receiver(self) -> None:
        copy = self._copy("receiver")
        self._moment(self.usual)
        self._end("receiver")
        self._put_back(copy, "receiver")
        self.start("receiver", self._rng.choice(PAUSES))

    def another_database_instead(self) -> None:
        """The receiver's own is away meanwhile."""
        self._end("receiver")
        self._other_lives(listen=self._rig.addresses["receiver"])
        self.counts["databases instead"] += 1
        self.start("receiver", self._rng.choice(PAUSES))

    def another_database_beside(self) -> None:
        self._other_lives(remotes=[self._rig.addresses["sender"]])
        self.counts["databases beside"] += 1

    def new_disk(self) -> None:
        self._end("receiver")
        for file in self._rig.directory.glob("receiver.db*"):
            file.unlink()
        self.counts["new disks"] += 1
        self.start("receiver", self._rng.choice(PAUSES))

    # Their parts.

    def _copy(self, name: str) -> Path:
        """Of a database in use, or of one that was closed in order."""
        self._copies += 1
        database, copy = self._rig.database(name), self._rig.directory / f"copy-{self._copies}.db"
        if not self._until(lambda: self._rig.has_opened(self._lives[name]) is not None, ORDERLY):
            self.wrong.append(
                f"the {name} does not open"
            )  # and so its last end may have left a log, which is not copied
        if self._rng.random() < 0.5:
            back_up(database, copy)
        else:
            self._stop(name)
            shutil.copy(database, copy)
            self.start(name, None)
        return copy

    def _put_back(self, copy: Path, name: str) -> bool:
        """True if it was said."""
        database = self._rig.database(name)
        for beside in BESIDE:
            Path(f"{database}{beside}").unlink(missing_ok=True)
        shutil.copy(copy, database)
        self.counts["copies put back"] += 1
        said = self._rng.random() < 0.5
        if said:
            say_restored(database)
        return said

    def _other_lives(self, **options: object) -> None:
        """For a while."""
        self._copies += 1
        pid = self._rig.start(self._rig.beside(self._rig.directory / f"other-{self._copies}.db", **options))
        met = b"%d" % self._rig.life
        self.counts["other databases connected"] += self._until(lambda: met in self._rig.names("met"), MEETING)
        self._moment(self.usual)
        if self._rng.random() < 0.5:
            kill(pid)
            return
        os.kill(pid, signal.SIGTERM)
        if found := wrong_end(pid, time.monotonic() + ORDERLY):
            self.wrong.append(f"the other database's instance was to end in order: {found}")
