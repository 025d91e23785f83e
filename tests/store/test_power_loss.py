"""V7, V8 in short: what a commit has reported is there, after a kill and after the power went (T-54)."""

from __future__ import annotations

import random
import shutil
from contextlib import closing
from pathlib import Path

from tolliver_transports._sqlite import SQLiteStore

from .given import everything, message, open_store, seqs, start, storing

IMAGES = 100
KILLS = 10
COMMITS = 40


def test_every_commit_is_synced(scratch: Path) -> None:
    """Whether the system was asked to sync cannot be seen in a file, so the setting is looked at: 2 is FULL."""
    with closing(open_store(scratch / "node.db")) as store:
        assert store._file.connection.execute("PRAGMA synchronous").fetchone() == (2,)
        assert store._file.connection.execute("PRAGMA journal_mode").fetchone() == (b"wal",)


def commits(store: SQLiteStore, random_: random.Random) -> list[tuple[int, int]]:
    """Commits of random size; for each the length of the log when it returned, and the last seq by then."""
    log = Path(f"{store._file.path}-wal")
    done, last = [], 0
    for _ in range(COMMITS):
        first, last = last + 1, last + random_.randint(1, 9)
        store.commit([storing(range(first, last + 1), body=random_.randbytes(random_.choice([10, 100, 9000])))])
        done.append((log.stat().st_size, last))
    return done


def test_what_was_committed_survives_any_end_of_the_log(scratch: Path) -> None:
    """Power goes after a commit: of what was written to the log since, nobody knows which bytes reached the disk."""
    random_ = random.Random(8)
    path, image = scratch / "node.db", scratch / "image.db"
    with closing(open_store(path)) as store:
        store._file.connection.execute("PRAGMA wal_autocheckpoint = 0")  # the log then only grows
        done = commits(store, random_)
        sent = {row.seq: row for row in everything(store)}
        whole = Path(f"{path}-wal").read_bytes()
        shutil.copy(path, scratch / "base.db")
    boundaries = [last for _, last in done]
    for _ in range(IMAGES):
        synced, acknowledged = random_.choice(done)
        torn = bytearray(whole[: random_.randint(synced, len(whole))])
        for _ in range(random_.randint(0, 3) if len(torn) > synced else 0):
            hole = range(random_.randrange(synced, len(torn)), len(torn))[: random_.randint(1, 4096)]
            torn[hole.start : hole.stop] = random_.choice([bytes(len(hole)), random_.randbytes(len(hole))])
        shutil.copy(scratch / "base.db", image)
        Path(f"{image}-wal").write_bytes(torn)
        with closing(open_store(image)) as store:
            rows = everything(store)
            assert store.check() == []
        assert seqs(rows) == list(range(1, len(rows) + 1))
        assert len(rows) >= acknowledged
        assert len(rows) in boundaries  # and never half of one
        assert all(row == sent[row.seq] for row in rows)


def test_what_was_committed_survives_kills(scratch: Path) -> None:
    """One database, killed again and again; each commit that the process reported is there."""
    random_ = random.Random(7)
    path = scratch / "node.db"
    for _ in range(KILLS):
        with start("writer", path) as writer:
            assert writer.stdout is not None
            acknowledged = 0
            for _ in range(random_.randint(1, 60)):
                acknowledged = int(writer.stdout.readline())
            writer.kill()
            for line in writer.stdout:  # reported before it died
                acknowledged = int(line) if line.endswith("\n") else acknowledged
        with closing(open_store(path)) as store:
            rows = everything(store)
            assert store.unclean
            assert store.check() == []
        assert seqs(rows) == list(range(1, len(rows) + 1))
        assert len(rows) >= acknowledged > 0
        assert all(row == message(row.seq) for row in rows)
