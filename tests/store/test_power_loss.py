"""Durability of commits, after kills and power failures (V7, V8, T-54)."""

from __future__ import annotations

import random
import shutil
import sys
from contextlib import closing
from pathlib import Path

import pytest

from .given import everything, message, open_store, seqs, start, storing
from .power import Verdict, compiler, images, library

IMAGES = 150
KILLS = 10


def test_every_commit_is_synced(scratch: Path) -> None:
    """A file does not show that the system was asked to sync, so the setting is looked at: 2 is FULL."""
    with closing(open_store(scratch / "node.db")) as store:
        assert store._file.connection.execute("PRAGMA synchronous").fetchone() == (2,)
        assert store._file.connection.execute("PRAGMA journal_mode").fetchone() == (b"wal",)


needs_compiler = pytest.mark.skipif(
    compiler() is None or sys.platform != "linux", reason="what is asked of the disk is seen through a C library"
)


@needs_compiler
def test_what_was_committed_survives_a_loss_of_power(scratch: Path) -> None:
    """Any of the disks that it may leave. `scripts/prove/proofs.py power` makes more of them."""
    verdicts = list(images(scratch, 8, IMAGES, "FULL"))
    assert len(verdicts) == IMAGES
    assert [one for one in verdicts if one != Verdict()] == []


@needs_compiler
@pytest.mark.parametrize("synchronous", ["NORMAL", "OFF"])
def test_less_than_every_commit_synced_is_not_enough(scratch: Path, synchronous: str) -> None:
    """The control: such images do show what a sync is for."""
    assert any(one.lost for one in images(scratch, 8, 20, synchronous))


@needs_compiler
def test_a_commit_that_is_not_synced_does_not_come_back(scratch: Path) -> None:
    """SQLite leaves it in the log, whole, and the next opening would find it: something else takes its place there.

    Nobody knows what a loss of power would leave, and the error says so.
    """
    names = {"LD_PRELOAD": str(library(scratch)), "TOLLIVER_DISK_FAILS": str(scratch / "fails")}
    with start("unsynced", scratch / "node.db", **names) as child:
        assert child.stdout is not None
        told = child.stdout.readline()
        child.kill()
    assert told.startswith("Unconfirmed: cannot commit to the database")
    assert "SQLITE_IOERR_FSYNC" in told
    assert "Whether this commit was stored shows at the next opening" in told
    with closing(open_store(scratch / "node.db")) as store:
        assert seqs(everything(store)) == [1]


def test_a_checkpoint_that_power_cut_off_is_no_damage(scratch: Path) -> None:
    """The file's first page says already how long it will be, or is torn; all of it is in the log."""
    path, image = scratch / "node.db", scratch / "image.db"
    with closing(open_store(path)) as store:
        store.commit([storing(range(1, 1000))])
        shutil.copy(f"{path}-wal", f"{image}-wal")
        log = Path(f"{path}-wal").read_bytes()
        store._file.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        whole = path.read_bytes()
        torn, short = bytes(4096) + whole[4096:], whole[: len(whole) // 4096 * 3 // 4 * 4096]
        unwritten = bytes(4096 + 24)  # an end of the log that the disk has not got
        for content, end in ((short, b""), (torn, b""), (torn, unwritten)):
            image.write_bytes(content)
            Path(f"{image}-wal").write_bytes(log + end)
            Path(f"{image}-shm").unlink(missing_ok=True)
            with closing(open_store(image)) as recovered:
                assert seqs(everything(recovered)) == list(range(1, 1000))
                assert recovered.check() == []


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
