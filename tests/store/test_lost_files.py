"""Files that are lost, cut, replaced or opened by two names (D-13, T-79)."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from tolliver._store import lock
from tolliver._store.sqlite import SQLiteStore

from tolliver_proto import NoticeKind, StoreError
from tolliver_proto.errors import Unconfirmed
from tolliver_proto.store import Operation, RemoveDeliveries, RemoveMessages

from .given import OTHER, PEER, everything, open_store, seqs, start, storing

linux = pytest.mark.skipif(sys.platform != "linux", reason="locks of open files, and mounts")
COMMITS = 20


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of a process that was killed after that many commits, one message each."""
    directory = tmp_path_factory.mktemp("killed")
    with start("stayer", directory / "node.db") as stayer:
        assert stayer.stdout is not None
        stayer.stdin.write(f"{COMMITS}\n")  # type: ignore[union-attr]  # a pipe
        stayer.stdin.flush()  # type: ignore[union-attr]
        assert stayer.stdout.readline() == f"{COMMITS}\n"
        stayer.kill()
        stayer.wait(10)
    return directory


@pytest.fixture
def path(killed: Path, tmp_path: Path) -> Path:
    """A copy of them."""
    shutil.copytree(killed, tmp_path, dirs_exist_ok=True)
    return tmp_path / "node.db"


def told(store: SQLiteStore) -> list[NoticeKind]:
    return [kind for kind, _ in store.news()]


def log_of(path: Path) -> Path:
    return Path(f"{path}-wal")


def test_a_kill_alone_loses_nothing_and_is_no_news(path: Path) -> None:
    for _ in range(2):
        with closing(open_store(path)) as store:
            assert told(store) == []
            assert seqs(everything(store)) == list(range(1, COMMITS + 1))


def gone(first: int, last: int) -> list[Operation]:
    return [RemoveDeliveries(PEER, [(first, last)]), RemoveMessages([(first, last)])]


@pytest.mark.parametrize(
    "commits",
    [
        [[storing([1])], gone(1, 1)],  # the number of the last one stands in no batch
        [[storing([1])], [storing([2]), *gone(2, 2)]],
        [[storing([1], ())]],  # held: an opening drops it
        [[storing([1, 2])], [storing([5])], [storing([3])]],  # the newest batch is of another commit
        [[storing([1])], [*gone(1, 1), storing([2])], [storing([3])], gone(2, 2)],
    ],
)
def test_a_commit_is_counted_wherever_its_number_stands(tmp_path: Path, commits: list[list[Operation]]) -> None:
    """As after a kill: an orderly end writes the number down."""
    path, killed = tmp_path / "node.db", tmp_path / "killed"
    with closing(open_store(path)) as store:
        for operations in commits:
            store.commit(operations)
            shutil.rmtree(killed, ignore_errors=True)
            killed.mkdir()
            for suffix in ("", "-wal", ".mark"):
                shutil.copy(f"{path}{suffix}", killed)
            for _ in range(2):
                with closing(open_store(killed / "node.db")) as copy:
                    assert (told(copy), copy.missing) == ([], 0)


def cut(path: Path) -> None:
    os.truncate(log_of(path), log_of(path).stat().st_size // 2)


def cut_one(path: Path) -> None:
    """The last commit, and whole frames of it."""
    os.truncate(log_of(path), log_of(path).stat().st_size - 4096 - 24)


@pytest.mark.parametrize("harm", [lambda path: log_of(path).unlink(), cut, cut_one], ids=["deleted", "cut", "one"])
def test_a_log_that_is_gone_or_cut_is_told(path: Path, harm: Callable[[Path], None]) -> None:
    harm(path)
    with closing(open_store(path)) as store:
        [(kind, text)] = store.news()
        found = len(everything(store))
        assert kind is NoticeKind.COMMITS_MISSING
        assert f"{path} lacks {COMMITS - found} commits that were confirmed" in text
        assert "tolliver outbox restored" in text
        store.commit([storing([1000])])  # the opening goes on
    with closing(open_store(path)) as store:  # until it is cleared
        assert told(store) == [NoticeKind.COMMITS_MISSING]
        store.clear_missing()
    with closing(open_store(path)) as store:
        assert told(store) == []
        assert store.missing == 0


def test_a_copy_of_the_database_without_its_log_is_told(path: Path) -> None:
    with closing(open_store(path)) as store:
        store._file.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        older = path.with_name("older")
        shutil.copy(path, older)
        store.commit([storing([1000]), RemoveDeliveries(PEER, [(1, 9)]), RemoveMessages([(1, 9)])])
    os.replace(older, path)
    with closing(open_store(path)) as store:
        assert told(store) == [NoticeKind.COMMITS_MISSING]
        assert store.missing == 3  # and two more, as it was closed


def test_a_database_that_another_program_has_looked_into_lacks_nothing(path: Path) -> None:
    """It copies the log into the file and removes it, as it should."""
    with closing(sqlite3.connect(path)) as foreign:
        assert foreign.execute("SELECT COUNT(*) FROM batch").fetchone() == (COMMITS,)
    assert not log_of(path).exists()
    with closing(open_store(path)) as store:
        assert told(store) == []


def torn(mark: bytes) -> bytes:
    """Another number of commits, and the rest of an older one."""
    return mark[:24] + b"\1" + mark[25:]


@pytest.mark.parametrize(
    "spoil",
    [torn, lambda mark: b"", lambda mark: bytes(44), lambda mark: mark[:30]],
    ids=["torn", "no", "zeros", "cut"],
)
def test_a_mark_that_a_loss_of_power_has_spoilt_says_nothing(path: Path, spoil: Callable[[bytes], bytes]) -> None:
    mark = Path(f"{path}.mark")
    mark.write_bytes(spoil(mark.read_bytes()))
    with closing(open_store(path)) as store:
        assert told(store) == []


def test_a_database_without_a_mark_is_an_old_one(path: Path) -> None:
    Path(f"{path}.mark").unlink()
    with closing(open_store(path)) as store:
        assert told(store) == []


def test_an_older_mark_says_nothing(path: Path) -> None:
    old = Path(f"{path}.mark").read_bytes()
    with closing(open_store(path)) as store:
        store.commit([storing([1000])])
    Path(f"{path}.mark").write_bytes(old)
    with closing(open_store(path)) as store:
        assert told(store) == []


def test_the_mark_of_another_instance_says_nothing(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    open_store(other, OTHER).close()
    shutil.copy(f"{path}.mark", f"{other}.mark")
    with closing(open_store(other)) as store:
        assert told(store) == []


@pytest.mark.parametrize("harm", [lambda path: os.truncate(path, 0), os.unlink], ids=["emptied", "removed"])
def test_a_database_that_was_here_is_not_made_anew(path: Path, harm: Callable[[Path], None]) -> None:
    harm(path)
    for beside in (f"{path}.mark", f"{path}-wal"):
        with pytest.raises(StoreError, match=r"put that database back, or a copy of it \(docs/backup.md\)") as caught:
            open_store(path)
        assert f"or remove {beside} to begin anew" in str(caught.value)
        Path(beside).unlink()
    with closing(open_store(path)) as store:
        assert everything(store) == []


# While it is open.


@pytest.mark.parametrize("replaced", [False, True], ids=["removed", "replaced"])
def test_no_commit_is_confirmed_into_a_file_that_is_not_at_its_name(path: Path, replaced: bool) -> None:
    """Nor called lost: it is in that file, and is sent where somebody puts that back."""
    store = open_store(path)
    away = path.rename(path.with_name("away"))
    if replaced:
        shutil.copy(away, path)
    there = {one.name for one in path.parent.iterdir()}
    with pytest.raises(Unconfirmed, match=f"{path} was removed or replaced while it was open.*shows at the next"):
        store.commit([storing([1000])])
    with pytest.raises(StoreError, match=f"{path} was removed or replaced while it was open") as caught:
        store.commit([storing([1001])])
    assert not isinstance(caught.value, Unconfirmed), "of this one nothing was begun"
    store.close()
    assert {one.name for one in path.parent.iterdir()} - {"node.db-shm"} == there - {"node.db-shm"}
    os.replace(away, path)
    with closing(open_store(path)) as store:
        assert seqs(everything(store)) == [*range(1, COMMITS + 1), 1000]
        assert told(store) == []


def test_a_commit_into_a_log_that_has_no_name_any_more_is_confirmed_where_it_can_be(path: Path) -> None:
    """SQLite copies its log into the database at the end, and removes it by its name: the commit is there."""
    store = open_store(path)
    log_of(path).unlink()
    store.commit([storing(range(1000, 1025))])
    with pytest.raises(StoreError, match=f"{log_of(path)} was removed or replaced while it was open"):
        store.commit([storing([2000])])
    store.close()
    with closing(open_store(path)) as store:
        assert seqs(everything(store)) == [*range(1, COMMITS + 1), *range(1000, 1025)]
        assert told(store) == []


def test_what_cannot_be_looked_at_after_a_commit_is_confirmed(path: Path) -> None:
    """The name leads nowhere for a while, as where a disk does not answer or a directory may not be searched."""
    home = path.parent / "home"
    away = path.parent / "away"
    home.mkdir()
    for one in [*path.parent.glob("node.db*")]:
        one.rename(home / one.name)
    store = open_store(home / path.name)
    home.rename(away)
    home.symlink_to(home)
    store.commit([storing(range(1000, 1025))])
    home.unlink()
    away.rename(home)
    store.commit([storing([2000])])
    store.close()
    with closing(open_store(home / path.name)) as store:
        assert seqs(everything(store))[COMMITS:] == [*range(1000, 1025), 2000]
        assert told(store) == []


@pytest.mark.parametrize("closed", [False, True], ids=["killed", "closed"])
@pytest.mark.parametrize(
    "harm", [lambda path: os.truncate(log_of(path), 0), cut, cut_one], ids=["emptied", "cut", "one"]
)
def test_a_log_that_is_cut_while_it_is_open_is_told_at_the_next_commit(
    path: Path, harm: Callable[[Path], None], closed: bool
) -> None:
    """And nothing is written over what is left: the database stays one, and its opening says what is missing."""
    with closing(open_store(path)):
        pass  # it begins with an empty log
    store = open_store(path)
    for seq in range(1000, 1010):
        store.commit([storing([seq])])
    harm(path)
    if not closed:
        with pytest.raises(StoreError, match=r"log .* was cut while it was open, and nothing more is stored"):
            store.commit([storing([2000])])
        [(kind, text)] = store.news()
        assert (kind, "docs/backup.md" in text) == (NoticeKind.COMMITS_MISSING, True)
    store.close()
    with closing(open_store(path)) as store:
        found = seqs(everything(store))
        assert found == [*range(1, COMMITS + 1), *range(1000, 1010)][: len(found)]
        assert told(store) == [NoticeKind.COMMITS_MISSING]
        assert store.missing >= COMMITS + 10 - len(found) > 0
        assert [line for line in store.check() if "-wal" not in line] == []
        store.commit([storing([2001])])


def test_an_end_of_the_log_that_no_commit_needs_may_be_cut(path: Path) -> None:
    """A log that begins anew keeps the length that it had."""
    with closing(open_store(path)) as store:
        store.commit([storing(range(1000, 1500))])
        store._file.connection.execute("PRAGMA wal_checkpoint(RESTART)")
        store.commit([storing([2000])])
        cut(path)
        store.commit([storing([2001])])
        assert told(store) == []
    with closing(open_store(path)) as store:
        assert seqs(everything(store))[-3:] == [1499, 2000, 2001]
        assert told(store) == []


def test_a_log_that_another_program_has_emptied_in_order_lacks_nothing(path: Path) -> None:
    with closing(open_store(path)) as store:
        with closing(sqlite3.connect(path)) as foreign:
            assert foreign.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone() == (0, 0, 0)
        assert log_of(path).stat().st_size == 0
        store.commit([storing([1000])])
        assert told(store) == []
    with closing(open_store(path)) as store:
        assert seqs(everything(store)) == [*range(1, COMMITS + 1), 1000]
        assert told(store) == []


# One file, one instance.


@contextmanager
def holding(path: Path) -> Iterator[None]:
    with start("holder", path) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        yield
        holder.communicate(timeout=10)


def foreign_locks(path: Path) -> bool:
    """True if SQLite in another process finds that somebody has the database open."""
    program = (
        "import sqlite3, sys; connection = sqlite3.connect(sys.argv[1], timeout=0);"
        "connection.execute('PRAGMA locking_mode = EXCLUSIVE');"
        "connection.execute('SELECT COUNT(*) FROM peer').fetchone()"
    )
    done = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True)
    return "database is locked" in done.stderr


@pytest.mark.parametrize("inside", [True, False], ids=["same process", "another"])
def test_a_hard_link_is_no_second_database(path: Path, inside: bool) -> None:
    link = path.with_name("link.db")
    if inside:
        with closing(open_store(path)) as store:
            os.link(path, link)
            with pytest.raises(StoreError, match="in use by another instance"):
                open_store(link)
            assert foreign_locks(path)  # and SQLite's own locks are still there
            store.commit([storing([1000])])
    else:
        with holding(path):
            os.link(path, link)
            with pytest.raises(StoreError, match=r"link\.db has 2 names \(hard links\)"):
                open_store(link)
            assert foreign_locks(path)
    with pytest.raises(StoreError, match="remove the other names, and keep the one that its log"):
        open_store(path)
    link.unlink()
    open_store(path).close()


def test_where_files_have_no_such_locks_the_one_beside_is_enough(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "_SET_LOCK", None)
    with holding(path), pytest.raises(StoreError, match="in use by another instance"):
        open_store(path)
    open_store(path).close()


@linux
def test_a_mount_of_the_file_is_the_same_lock(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "elsewhere"
    other.mkdir()
    alias = other / "alias.db"
    alias.touch()
    mount = shutil.which("mount")
    if mount is None or subprocess.run([mount, "--bind", path, alias], capture_output=True).returncode:
        pytest.skip("this user may not mount a file")
    try:
        with holding(path):
            with pytest.raises(StoreError, match=r"alias\.db is in use by another instance"):
                open_store(alias)
            assert foreign_locks(path)
    finally:
        subprocess.run(["umount", "-l", alias], check=True)  # it may be open still, if this fails
