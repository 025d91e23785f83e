"""Power failures at any moment of a commit (V8, T-54).

A commit that was reported must be on the disk. A process uses the store while everything that it asks of the disk is
written down, by a small library that is loaded before the C library (`disk.c`). From that account the disks are made
that a power failure may leave: all that was written before the last sync of its file, and of what was written later
anything: some, none, torn, or garbage in its place. A name that was made, moved or removed may be as before until its
directory is synced. The kernel's cache hides all this from a process that is merely killed.

    python -m tests.store.power PATH SEED SYNCHRONOUS     the process that uses the store
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from struct import Struct

from tolliver._store.sqlite import SQLiteStore

from tolliver_proto import StoreError
from tolliver_proto.store import Operation, RemoveDeliveries, RemoveMessages

from .given import PEER, everything, message, open_store, storing

COMMITS = 150
_ENTRY = Struct("=c7xQQQ")
_SECTOR = 512  # bytes that a disk writes whole or not at all


@dataclass
class Use:
    """One commit: what it stores and what it removes. `seqs` are those that are owed after it."""

    operations: list[Operation]
    seqs: frozenset[int]
    reopen: bool


def uses(seed: int) -> Iterator[Use]:
    """The same for the same seed, so that the process that writes and the one that judges agree."""
    dice = random.Random(seed)
    owed: set[int] = set()
    last = 0
    for _ in range(COMMITS):
        first, last = last + 1, last + dice.choice((1, 1, 3, 9))
        size = dice.choice((10, 100, 100, 9000))
        operations = [storing([seq], body=body(seq, size)) for seq in range(first, last + 1)]
        owed.update(range(first, last + 1))
        if dice.random() < 0.3:
            gone = (min(owed), min(owed) + dice.randrange(12))
            operations += [RemoveDeliveries(PEER, [gone]), RemoveMessages([gone])]
            owed.difference_update(range(gone[0], gone[1] + 1))
        yield Use(operations, frozenset(owed), dice.random() < 0.03)


def body(seq: int, size: int) -> bytes:
    return b"%d " % seq + bytes(size)


def use(path: Path, seed: int, synchronous: str) -> None:
    """Says in the file `marks` after each commit how many there were."""
    marks = os.open(path.parent / "marks", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    store = opened(path, synchronous)
    for number, one in enumerate(uses(seed), 1):
        store.commit(one.operations)
        os.write(marks, b"%d\n" % number)
        if one.reopen:
            store.close()
            store = opened(path, synchronous)
    store.close()


def opened(path: Path, synchronous: str) -> SQLiteStore:
    store = open_store(path)
    if synchronous != "FULL":  # a store has no such option: this is how to see that its own choice matters
        store._file.connection.execute(f"PRAGMA synchronous = {synchronous}")
    store._file.connection.execute("PRAGMA wal_autocheckpoint = 60")  # as in a much longer use
    return store


def compiler() -> str | None:
    return shutil.which("cc") or shutil.which("gcc")


def library(directory: Path) -> Path:
    """`disk.c`, to be loaded before the C library."""
    made, gcc = directory / "disk.so", compiler()
    assert gcc is not None
    subprocess.run([gcc, "-shared", "-fPIC", "-O1", "-o", made, Path(__file__).with_name("disk.c"), "-ldl"], check=True)
    return made


def record(directory: Path, seed: int, synchronous: str = "FULL") -> list[tuple[str, int, int, bytes]]:
    """Use a store and return what it asked of the disk: (kind, inode, offset, data) each, as in `disk.c`."""
    account, disk = directory / "account", directory / "disk"
    disk.mkdir()
    names = {"LD_PRELOAD": str(library(directory)), "TOLLIVER_DISK": str(disk), "TOLLIVER_DISK_LOG": str(account)}
    command = [sys.executable, "-m", "tests.store.power", str(disk / "node.db"), str(seed), synchronous]
    subprocess.run(command, cwd=Path(__file__).parents[2], env={**os.environ, **names}, check=True, timeout=120)
    content = account.read_bytes()
    entries, at = [], 0
    while at < len(content):
        kind, inode, offset, length = _ENTRY.unpack_from(content, at)
        at += _ENTRY.size
        entries.append((kind.decode(), inode, offset, content[at : at + length]))
        at += length
    shutil.rmtree(disk)
    account.unlink()
    return entries


Change = tuple[str, int, bytes]


@dataclass
class Disk:
    """Certain bytes, and writes that were asked for since. `acknowledged` is the last commit that was reported."""

    files: dict[int, bytearray] = field(default_factory=dict)
    changes: dict[int, list[Change]] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict)
    renamings: list[tuple[str, str, int]] = field(default_factory=list)
    acknowledged: int = 0
    _marks: int = 0

    def apply(self, kind: str, inode: int, offset: int, data: bytes) -> None:
        match kind:
            case "C" if data.endswith(b"/marks"):
                self._marks = inode
            case "C":
                self.files[inode], self.changes[inode] = bytearray(), []
                self.renamings.append(("C", os.path.basename(data.decode()), inode))
            case "W" if inode == self._marks:
                self.acknowledged = int(data)
            case "W" | "T":
                self.changes[inode].append((kind, offset, data))
            case "S":
                for change in self.changes[inode]:
                    done(self.files[inode], *change)
                self.changes[inode].clear()
            case "D":
                for renaming in self.renamings:
                    renamed(self.names, *renaming)
                self.renamings.clear()
            case "U" | "R":
                parts = [os.path.basename(name) for name in data.decode().split("\n")]
                self.renamings.append((kind, "\n".join(parts), 0))

    def image(self, dice: random.Random, directory: Path) -> None:
        """One of the disks that there may be when the power is back."""
        names = dict(self.names)
        for renaming in self.renamings[: dice.randint(0, len(self.renamings))]:
            renamed(names, *renaming)
        for name, inode in names.items():
            content = bytearray(self.files[inode])
            changes = self.changes[inode]
            kept = dice.choice((0.0, 0.5, 0.9, 1.0))  # of what was not synced
            for change in changes:
                if dice.random() < kept:
                    done(content, *(torn(dice, *change) if dice.random() < 0.1 else change))
            (directory / name).write_bytes(content)


def done(content: bytearray, kind: str, offset: int, data: bytes) -> None:
    if kind == "T":
        del content[offset:]
    end = offset + len(data)
    content.extend(bytes(max(0, end - len(content))))
    content[offset:end] = data


def torn(dice: random.Random, kind: str, offset: int, data: bytes) -> Change:
    """Some of its sectors are not there, or are garbage."""
    content = bytearray(data)
    for start in range(0, len(content), _SECTOR):
        size = len(content[start : start + _SECTOR])
        if dice.random() < 0.3:
            content[start : start + size] = dice.choice((bytes(size), dice.randbytes(size)))
    return kind, offset, bytes(content)


def renamed(names: dict[str, int], kind: str, name: str, inode: int) -> None:
    if kind == "C":
        names[name] = inode
    elif kind == "U":
        names.pop(name, None)
    else:
        source, target = name.split("\n")
        names[target] = names.pop(source)


@dataclass
class Verdict:
    """Of one image. `lost` and `back` count messages; `wrong` is empty, or says what else must not be."""

    lost: int = 0
    back: int = 0
    wrong: str = ""


def judge(directory: Path, seed: int, acknowledged: int) -> Verdict:
    """Open what the power left. The last commit may or may not be there, but never half of it."""
    path = directory / "node.db"
    states = [frozenset[int](), *(one.seqs for one in uses(seed))]
    expected = states[acknowledged]
    following = states[min(acknowledged + 1, COMMITS)]
    if not path.exists():
        return Verdict(lost=len(expected))
    try:
        with closing(open_store(path)) as store:
            rows = everything(store)
            complaints = [line for line in store.check() if "that is as it should be" not in line]
            complaints += [f"{store.missing} commits are said to be missing"] if store.missing else []
    except StoreError as error:
        return Verdict(lost=len(expected), wrong=str(error))
    found = {row.seq for row in rows if row in [message(row.seq, body(row.seq, size)) for size in (10, 100, 9000)]}
    verdict = Verdict(lost=len((expected & following) - found), back=len(found - expected - following))
    if complaints:
        verdict.wrong = "; ".join(complaints)
    elif not verdict.lost and found not in (expected, following):
        verdict.wrong = "half of a commit"
    return verdict


def images(directory: Path, seed: int, count: int, synchronous: str) -> Iterator[Verdict]:
    """The verdicts on so many power failures at random moments of one use."""
    dice = random.Random(seed)
    account = record(directory, seed, synchronous)
    moments = sorted(dice.randint(0, len(account)) for _ in range(count))
    disk, at = Disk(), 0
    place = directory / "image"
    for moment in moments:
        for entry in account[at:moment]:
            disk.apply(*entry)
        at = moment
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        disk.image(dice, place)
        yield judge(place, seed, disk.acknowledged)


if __name__ == "__main__":
    use(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
