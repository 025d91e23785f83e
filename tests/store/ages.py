"""Ages of messages over kills, closes, boots and clocks that are set (V20, D-10).

`ages` is a proof by number of runs; `scripts/prove/proofs.py ages` runs it.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random
from struct import Struct
from tempfile import TemporaryDirectory

from tolliver._store.clock import StoreClock
from tolliver._store.sqlite import SQLiteStore

from tolliver_proto.store import StoredMessage

from .given import MEMORY_DISK, OURS, PEER, everything, storing

DAWN = 1_800_000_000.0
_TOLD = Struct(">dddi")  # the machine's clocks, and what is to be done: so many commits, or one of these
_LOOK, _CLOSE, _WORK_ON = 0, -1, 1_000_000
_STEPS = (1.5, 60.0, 86_400.0, 3e8)
_EARLIEST, _LATEST = 5e8, 4e9
_OFF = 2.0  # seconds that an age may be off, and half of it for each boot: a store keeps whole ones


class Machine:
    """A machine's two clocks, as its owner sets them, and what has passed by neither of them."""

    def __init__(self) -> None:
        self.wall = DAWN
        self.running = 500.0
        self.passed = 0.0
        self.boot: bytes | None = bytes(16)

    def passes(self, seconds: float) -> None:
        self.wall += seconds
        self.running += seconds
        self.passed += seconds

    def boots(self, seconds: float) -> None:
        """It was off for so long."""
        self.passes(seconds)
        self.running = 5.0
        if self.boot is not None:
            self.boot = (int.from_bytes(self.boot, "big") + 1).to_bytes(16, "big")

    def clock(self, correction: float = 0.0) -> StoreClock:
        return StoreClock(correction, wall=lambda: self.wall, running=lambda: self.running, boot=lambda: self.boot)

    @contextmanager
    def store(self, path: Path) -> Iterator[SQLiteStore]:
        with closing(SQLiteStore(path, instance_id=OURS, first_id=1, clock=self.clock())) as store:
            yield store


class _Life:
    """A store in a process of its own. Each message has in its body what had passed when it was stored."""

    def __init__(self, path: Path, machine: Machine) -> None:
        self._machine = machine
        self._line, theirs = socket.socketpair()
        self._pid = os.fork()
        if not self._pid:
            try:
                self._line.close()
                self._live(path, theirs)
            finally:
                os._exit(1)  # it must not go on as its parent does
        theirs.close()

    def _live(self, path: Path, line: socket.socket) -> None:
        machine = self._machine
        with machine.store(path) as store:
            last_seq = store.load().next_seq
            line.sendall(b".")
            while True:
                *clocks, work = _TOLD.unpack(line.recv(_TOLD.size, socket.MSG_WAITALL))
                machine.wall, machine.running, machine.passed = clocks
                if work == _CLOSE:
                    return
                if work == _LOOK:
                    store.expiring(0)
                for _ in range(work):
                    last_seq += 1
                    store.commit([storing([last_seq], body=b"%r" % machine.passed)])
                line.sendall(b".")

    def does(self, work: int) -> None:
        machine = self._machine
        self._line.sendall(_TOLD.pack(machine.wall, machine.running, machine.passed, work))

    def has_done(self) -> None:
        assert self._line.recv(1), "the store failed"

    def end(self) -> None:
        self.does(_CLOSE)
        os.waitpid(self._pid, 0)
        self._line.close()

    def kill(self) -> None:
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        self._line.close()


def ages(seed: int, kills: int = 5) -> None:
    """An age is what passed, whatever was set: within a boot always, and over a boot where a close or a look was the
    last of the one before."""
    dice = Random(seed)
    machine = Machine()
    boots = 0
    with TemporaryDirectory(dir=MEMORY_DISK) as directory:
        path = Path(directory, "node.db")
        while kills:
            life = _Life(path, machine)
            life.has_done()
            life.does(1)
            life.has_done()
            for _ in range(dice.randint(0, 3)):
                _go_on(machine, dice)
                life.does(dice.choice((_LOOK, 1, 2)))
                life.has_done()
            _go_on(machine, dice)
            closes = dice.random() < 0.3
            may_boot = closes or dice.random() < 0.5
            if closes:
                life.end()
            else:
                if may_boot:
                    life.does(_LOOK)
                    life.has_done()
                life.does(_WORK_ON)
                time.sleep(dice.random() * 0.003)
                life.kill()
                kills -= 1
            if may_boot and dice.random() < 0.5:
                machine.boots(dice.choice((0.0, 30.0, 86_400.0)))
                boots += 1
            else:
                _go_on(machine, dice)
            _check(path, machine, _OFF + _OFF / 2 * boots)


def _go_on(machine: Machine, dice: Random) -> None:
    """Time passes, and perhaps somebody sets the clock."""
    machine.passes(dice.choice((0.0, 0.3, 30.0, 9999.0)))
    step = dice.choice((0.0, 1.0, -1.0)) * dice.choice(_STEPS)
    if _EARLIEST < machine.wall + step < _LATEST:
        machine.wall += step


def _check(path: Path, machine: Machine, tolerance: float) -> None:
    with machine.store(path) as store:
        found = {one.seq: one.age for one in store.find(PEER, 0, 1_000_000, 0.0)}
        for row in everything(store):
            assert isinstance(row, StoredMessage)
            passed = machine.passed - float(row.body)
            assert abs(found[row.seq] - passed) <= tolerance, f"{row.seq}: {found[row.seq]} s old after {passed} s"
