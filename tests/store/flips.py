"""Bit flips in a database, which must not be silent (V9).

A database with something of every kind is made once, closed in order or left as a kill leaves it, with its log. For
each flip a copy with one bit changed is opened, asked for everything, used for a while, closed, and opened and asked
again. A difference from an undamaged copy's answers counts as silent unless there was an error, a complaint of `check`
where a node would call that, or a CorruptMessage in the place of the message.
"""

from __future__ import annotations

import random
import shutil
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from tolliver._store.sqlite import SQLiteStore

from tolliver_proto import StoreError, Subscription
from tolliver_proto.store import (
    AddDeadLetter,
    AddDeliveries,
    AddOwnSubscription,
    CorruptMessage,
    DeadLetter,
    NamePeer,
    ParkDelivery,
    PinPeer,
    RememberHandled,
    RemoveDeliveries,
    RemoveMessages,
    ReplacePeerSubscriptions,
    ReserveIds,
    UnparkDeliveries,
)

from .given import OTHER, PEER, message, open_store, storing

COUNT = 200
LARGE = b"large" * 4000
PARKED = (20, 30)

Answers = dict[str, Any]


def fill(store: SQLiteStore) -> None:
    """In many commits, so that a log has many."""
    for first in range(1, COUNT, 50):
        store.commit([storing(range(first, min(COUNT, first + 50)), peers=(PEER, OTHER))])
    store.commit([storing([COUNT], body=LARGE)])
    for peer, names in ((PEER, "abc"), (OTHER, "xyz")):
        store.commit([ReplacePeerSubscriptions(peer, [Subscription(name, "key") for name in names])])
        store.commit([PinPeer(peer, names.encode() * 10 + b"\0\0"), NamePeer(peer, names)])
    store.commit([AddOwnSubscription(Subscription(f"own {number}", "")) for number in range(20)])
    store.commit([AddDeadLetter(DeadLetter(PEER, "c", "k", b"letter %d" % n, 70 + n, 20)) for n in range(20)])
    store.commit([RememberHandled([(OTHER, 5000 + number, number * 40503001) for number in range(100)], 1000)])
    store.commit([ReserveIds(span * 10000, 4096, 20) for span in range(1, 21)])
    store.commit([ParkDelivery(OTHER, seq) for seq in PARKED])
    store.commit([RemoveDeliveries(PEER, [(100, 120)])])
    store.commit([RemoveDeliveries(OTHER, [(110, 115)]), RemoveMessages([(110, 115)])])


def fill_log(store: SQLiteStore) -> None:
    """The half that a killed database has in its log."""
    for first in range(401, 451, 10):
        store.commit([storing(range(first, first + 10), peers=(PEER,))])
    store.commit([RemoveDeliveries(PEER, [(401, 420)]), RemoveMessages([(401, 420)])])


def use(store: SQLiteStore) -> None:
    """The work of a node that goes on. It leaves nothing as it was in the pages that it needs."""
    store.commit([storing(range(1001, 1101), peers=(OTHER,))])
    store.commit([AddDeliveries(PEER, [(seq, message(seq).wire_id, message(seq).size) for seq in (1001, 1002)])])
    store.commit([UnparkDeliveries(OTHER, [(20, 20)]), ParkDelivery(OTHER, 1050)])
    store.commit([RemoveDeliveries(PEER, [(150, 190)]), RemoveDeliveries(OTHER, [(170, 180)])])
    store.commit([RemoveMessages([(170, 180)]), AddOwnSubscription(Subscription("later", ""))])


def ask(store: SQLiteStore) -> Answers:
    """All that a node or a user is ever told."""
    loaded = store.load()
    letters = [replace(letter, failed_at=0.0) for letter in store.dead_letters(0, 1000)]
    found = [(one.peer, one.seq, one.wire_id, one.size, one.parked) for one in store.find(None, 0, 10_000, 0.0)]
    answers = {
        "instance": store.instance_id,
        "next_seq": loaded.next_seq > max(one[1] for one in found),
        "loaded": replace(loaded, next_seq=0),
        "letters": letters,
        "news": store.news(),
        "found": sorted(found),
        "old": store.find(None, 0, 10_000, 1e6),  # nothing is: what is would expire
    }
    for peer in (PEER, OTHER):
        answers.update({f"{peer} {row.seq}": row for row in store.fetch(peer, 0, 1_000_000, 2**40)})
    return answers


def without_guesses(answers: Answers, lost: set[int]) -> Answers:
    """Less the sizes of messages that are known to be lost: where the batch's directory went, too, they are guessed."""
    if not lost:
        return answers
    found = [(*row[:3], 0 if row[1] in lost else row[3], row[4]) for row in answers["found"]]
    peers = {peer: replace(known, pending_bytes=0) for peer, known in answers["loaded"].peers.items()}
    return answers | {"found": found, "loaded": replace(answers["loaded"], peers=peers)}


class Flips:
    """`attempt(number)` flips one bit, always the same for the same number, in a closed or in a killed database."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        path = directory / "node.db"
        with closing(open_store(path)) as store:
            fill(store)
            store._file.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            fill_log(store)
            for suffix in ("", "-wal"):
                shutil.copy(f"{path}{suffix}", directory / f"killed{suffix}")
        shutil.copy(path, directory / "closed")
        self.before, self.after = self._run(self._copy("closed"))
        assert self._run(self._copy("killed")) == (self.before, self.after)

    def _copy(self, name: str) -> Path:
        path = self._directory / "copy.db"
        path.with_name("copy.db.mark").unlink(missing_ok=True)
        for suffix in ("-wal", "-shm", ""):
            path.with_name(f"copy.db{suffix}").unlink(missing_ok=True)
            image = self._directory / f"{name}{suffix}"
            if image.exists():
                shutil.copyfile(image, path.with_name(f"copy.db{suffix}"))
        return path

    def _run(self, path: Path) -> tuple[Answers, Answers]:
        with closing(open_store(path)) as store:
            before = ask(store)
            use(store)
        with closing(open_store(path)) as store:
            return before, ask(store)

    def attempt(self, number: int) -> tuple[str, str]:
        """(what came of it: harmless, refused, told, parked or silent; where the bit was)."""
        dice = random.Random(number)
        name = dice.choice(("closed", "killed"))
        path = self._copy(name)
        files = [file for file in (path, path.with_name("copy.db-wal")) if file.exists()]
        file = dice.choices(files, [file.stat().st_size for file in files])[0]
        content = bytearray(file.read_bytes())
        bit = dice.randrange(len(content) * 8)
        content[bit // 8] ^= 1 << bit % 8
        file.write_bytes(content)
        return self._outcome(path), f"{name} {file.name} bit {bit}"

    def _outcome(self, path: Path) -> str:
        parked = False
        try:
            for expected in (self.before, self.after):
                with closing(open_store(path)) as store:
                    answers = ask(store)
                    if answers["news"] or (store.unclean and store.check()):
                        return "told"
                    lost = {answer.seq for answer in answers.values() if isinstance(answer, CorruptMessage)}
                    right, answers = without_guesses(expected, lost), without_guesses(answers, lost)
                    if answers != right:
                        differing = {key for key in {*answers, *right} if answers.get(key) != right.get(key)}
                        if not all(isinstance(answers.get(key), CorruptMessage) for key in differing):
                            return "silent"
                        parked = True
                    if expected is self.before:
                        use(store)
        except StoreError:
            return "refused"
        return "parked" if parked else "harmless"
