"""kill -9 of two banks, as `bank_kills` has them, whose databases are put back from copies made while they ran.

The seed says which databases of a round: those of the banks' instances, where effects have a key of the program's own,
or the banks' own, where message keys and the inbox must do. A copy is put in its place after a kill, and what it lacks
is looked up before and after. So it is known what a copy may have lost, by the table of docs/exactly-once.md, and what
the next life must tell: `commits_missing`, with the name of the table if the database is the bank's own, and rows that
are doubtful.

`lost` counts transfers that nothing explains, `silent` losses and doubts that were not told, `wrong_alarms` lives that
told something though nothing was put back. A copy is `young` if the bank had less than so many seconds to be marked.

    python -m tests.bank_copies DIRECTORY KILLS SEED     prints the result as one line of JSON
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path

import psycopg
from tolliver._cli.outbox import say_restored
from tolliver._store.copying import back_up

from tests.bank_kills import LIVES, START, Bank, Rig, deaths
from tests.boxes.postgres import programs, server
from tests.lists import whole_lines
from tests.troubles import BESIDE
from tests.work_kills import kill

MARKED = 5.0  # seconds in which a bank has been marked for certain, far above the one that the page names
PATIENCE = 90.0  # seconds for a life to tell, or in which nothing arrives at the end
LONGEST = 900.0  # seconds for the end
MISSING, HELD = "commits_missing", "rows_held"
OUTBOX_ROWS = "SELECT body FROM tolliver_outbox"


def _names(bank: Bank, table: str) -> list[str]:
    return [str(name) for name in bank.rows(f"SELECT id FROM {table}")]


class Copies:
    """A rig whose databases are put back. `counts` has what happened, `wrong` what must not."""

    def __init__(self, rig: Rig) -> None:
        self.rig, self.rng, self.banks = rig, rig.rng, rig.banks
        self.directory = self.banks[0].directory
        self.is_own = self.rng.random() < 0.5
        for bank in self.banks:
            bank.by_key = not self.is_own
        self.counts, self.wrong = Counter[str](), Counter[str]()
        self.sent, self.explained = set[str](), set[str]()  # ever, and what copies may have lost
        self.unsaid = [False, False]  # put back, and nobody has said so
        self.excused = dict[int, bool]()  # by life: it may tell that commits are missing
        self.pids = [self.start(number) for number in range(2)]

    def start(self, number: int, *, is_quiet: bool = False, is_fused: bool = True) -> int:
        pid = self.rig.start(number, is_quiet, is_fused)
        self.excused[self.rig.life] = self.unsaid[number]
        return pid

    def live(self, seconds: float) -> None:
        """Both live so long, whoever is killed by its fuse begins anew."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for number in deaths(self.pids, None, end - time.monotonic()):
                self.counts["kills"] += 1
                self.pids[number] = self.start(number)

    def kill(self, number: int) -> None:
        kill(self.pids[number])
        self.counts["kills"] += 1

    def told(self, life: int) -> list[str]:
        lines = map(json.loads, whole_lines(self.directory / "told"))
        return [f"{kind}: {text}" for one, kind, text in lines if one == life]

    # Copies.

    def put_back(self, number: int) -> None:
        bank = self.banks[number]
        put_back = self._copy(bank)
        copied_at = time.monotonic()
        self.live(self.rng.uniform(0, 0.5))
        early, early_at = set(_names(bank, "got")), time.monotonic()
        self.live(self.rng.choice((*LIVES, MARKED + 1)))
        is_old = time.monotonic() - early_at > MARKED
        self.kill(number)
        self._wait_for_end(bank)
        self.counts["young"] += not is_old
        self.counts["seconds"] += int(time.monotonic() - copied_at)
        before = set(_names(bank, "sent")), set(_names(bank, "got"))
        self.sent |= before[0]
        begun = self.begun(bank)
        if not self.is_own:
            arrived = set(_names(self.banks[1 - number], "got"))
            waiting = {bytes(body).decode().split()[0] for body in bank.rows(OUTBOX_ROWS)}
            self.explained |= before[0] - arrived - waiting
        put_back()
        gone = before[1] - set(_names(bank, "got"))
        self.explained |= gone | (before[0] - set(_names(bank, "sent")))
        self.unsaid[number] = True
        self.pids[number] = self.start(number, is_fused=False)
        life = self.rig.life
        self.counts["own databases" if self.is_own else "instances"] += 1
        if self.is_own:
            self._must_tell(life, "tolliver_inbox", bool(gone & early) and is_old)
        else:
            self._must_tell(life, f"{bank.store} lacks", is_old)
            self._must_tell(life, "does not know any more", begun > 0 and f"{MISSING}: " in str(self.told(life)))
        if self.rng.random() < 0.5:
            self.kill(number)
            self._say(number)
            self.pids[number] = self.start(number)

    def _must_tell(self, life: int, words: str, is_certain: bool) -> None:
        """Wait for the life to tell it. A young copy may lack nothing that was marked."""
        end = time.monotonic() + (PATIENCE if is_certain else 2.0)
        while time.monotonic() < end:
            if any(words in one for one in self.told(life)):
                self.counts["told"] += 1
                return
            time.sleep(0.05)
        self.wrong["silent"] += is_certain

    def _say(self, number: int) -> None:
        say_restored(self.banks[number].store)
        self.unsaid[number] = False

    def begun(self, bank: Bank) -> int:
        return len(
            bank.rows("SELECT begun.number FROM tolliver_outbox_begun AS begun JOIN tolliver_outbox USING (number)")
        )

    def _wait_for_end(self, bank: Bank) -> None:
        """A server may still commit what a dead bank has asked for."""
        if bank.is_postgres:
            query = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s"
            with psycopg.connect(bank.place, autocommit=True) as connection:
                while connection.execute(query, (bank.name,)).fetchall() != [(0,)]:
                    time.sleep(0.01)

    def _copy(self, bank: Bank) -> Callable[[], None]:
        """Copy a database that is in use. Returns what puts the copy in its place."""
        copy = self.directory / f"copy-{self.rig.life}"
        copy.unlink(missing_ok=True)
        if not self.is_own:
            back_up(bank.store, copy)
            return lambda: _replace(copy, bank.store)
        if not bank.is_postgres:
            with closing(bank.connect()) as source, closing(sqlite3.connect(copy)) as made:
                source.backup(made)
            return lambda: _replace(copy, Path(bank.place))
        found = programs()
        assert found is not None
        folder = (found / "initdb").resolve().parent  # beside the others, wherever a link to it is
        dump = [str(folder / "pg_dump"), "-n", bank.name, "-f", str(copy), bank.place]
        subprocess.run(dump, check=True, timeout=60)

        def put_back() -> None:
            with psycopg.connect(bank.place) as connection:
                connection.execute(f"DROP SCHEMA {bank.name} CASCADE".encode())
            command = [str(folder / "psql"), "-q", "-v", "ON_ERROR_STOP=1", "-f", str(copy), bank.place]
            subprocess.run(command, check=True, timeout=60, stdout=subprocess.DEVNULL)

        return put_back

    # The end.

    def settle(self) -> None:
        """Start both without new transfers: what is doubtful is released, and all that can arrive has arrived."""
        for number, bank in enumerate(self.banks):
            self.kill(number)
            self._wait_for_end(bank)
        for number, bank in enumerate(self.banks):
            self._say(number)
            if not self.is_own:
                bank.outbox.release(bank.identity)
            self.sent |= {*_names(bank, "sent")}
            self.pids[number] = self.start(number, is_quiet=True)
        left, last = self.missing(), time.monotonic() + LONGEST
        end = time.monotonic() + PATIENCE
        while left and time.monotonic() < min(end, last):
            time.sleep(0.1)
            before, left = left, self.missing()
            if len(left) < len(before):  # it is late, as on a busy machine, and not lost
                end = time.monotonic() + PATIENCE

    def got(self) -> Counter[str]:
        return Counter(_names(self.banks[0], "got") + _names(self.banks[1], "got"))

    def missing(self) -> set[str]:
        return self.sent - self.got().keys() - self.explained

    def balance(self, bank: Bank) -> int:
        """The account lacks so much, by what the bank's database says that it has sent and got."""
        [found] = bank.rows("SELECT balance FROM account")
        sent, got = (sum(int(name.partition("-")[2]) for name in _names(bank, table)) for table in ("sent", "got"))
        return int(START - sent + got - found)


def _replace(copy: Path, path: Path) -> None:
    for beside in BESIDE:
        Path(f"{path}{beside}").unlink(missing_ok=True)
    shutil.copy(copy, path)


def run(directory: Path, kills: int, seed: int) -> dict[str, object]:
    """`failed` is 0 where all was as it must be."""
    with ExitStack() as stack:
        place = stack.enter_context(server()) if programs() is not None else None
        copies = Copies(Rig(directory, seed, False, place))
        try:
            copies.live(2.0)
            while copies.counts["kills"] < kills:
                copies.put_back(copies.rng.randrange(2))
                copies.live(copies.rng.choice(LIVES))
            copies.settle()
        finally:
            for pid in copies.pids:
                kill(pid)
        got = copies.got()
        alarms = [life for life, excused in copies.excused.items() if not excused and MISSING in str(copies.told(life))]
        for bank in copies.banks * bool(copies.missing()):  # where they are, for who looks into it
            waiting = {bytes(body).decode().split()[0] for body in bank.rows(OUTBOX_ROWS)} & copies.missing()
            lost = copies.missing() & {*_names(bank, "sent")}
            sys.stderr.write(f"{bank.name}: {len(lost)} lost, {len(waiting)} rows, {copies.begun(bank)} begun\n")
        bad = {
            "lost": len(copies.missing()),
            "twice": sum(count > 1 for count in got.values()),
            "unexpected": len(got.keys() - copies.sent),
            "missing": sum(abs(copies.balance(bank)) for bank in copies.banks),
            "silent": copies.wrong["silent"],
            "wrong_alarms": len(alarms),
        }
        return {
            **bad,
            "failed": int(any(bad.values()) or not copies.sent),
            "postgres": sum(bank.is_postgres for bank in copies.banks),
            "messages": len(copies.sent),
            "gone": len(copies.sent & copies.explained - got.keys()),
            "kills": copies.counts["kills"],
            "instances": copies.counts["instances"],
            "own": copies.counts["own databases"],
            "young": copies.counts["young"],
            "told": copies.counts["told"],
        }


if __name__ == "__main__":
    print(json.dumps(run(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))))  # noqa: T201  # its only output
