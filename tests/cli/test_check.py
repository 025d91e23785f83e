"""`tolliver check`: damage of a database that nobody uses."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from uuid import UUID

import anyio
import pytest
from tolliver.anyio import InstanceOptions, create_instance

from tests.cli.commands import on_a_read_only_disk, tolliver
from tests.store.given import OTHER, PEER, open_store, storing
from tolliver_proto import Subscription
from tolliver_proto.store import ANSWERED, VALUES, AddDeadLetter, AddPeerSubscription, DeadLetter, ParkDelivery


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "alice.db"
    with closing(open_store(path)) as store:
        letters = [DeadLetter(PEER, "c", "k", b"body", 9, 20, number, 1000) for number in (1, 2)]
        store.commit([storing(range(1, 11), (PEER, OTHER)), *map(AddDeadLetter, letters), ParkDelivery(PEER, 3)])
        store.commit([AddPeerSubscription(PEER, Subscription("c", "k"))])
    return path


@contextmanager
def left_as_it_is(database: Path) -> Iterator[None]:
    before = {path: path.read_bytes() for path in database.parent.iterdir()}
    yield
    assert {path: path.read_bytes() for path in database.parent.iterdir()} == before


def change(database: Path, statement: str) -> None:
    """As a bit that the disk has lost: no checksum is made anew."""
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute(statement)


def test_nothing_is_wrong_with_a_good_one(database: Path) -> None:
    with left_as_it_is(database):
        assert tolliver("check", database) == (0, "nothing is wrong\n", "")
        assert tolliver("check", database, "--json") == (0, "", "")


def test_on_a_read_only_disk_it_says_what_to_do(database: Path) -> None:
    (database.parent / f"{database.name}.lock").unlink()
    with left_as_it_is(database):
        result = on_a_read_only_disk(database.parent, "check", database)
    assert (result.exit_code, result.stdout) == (1, "")
    (line,) = result.stderr.splitlines()
    assert f"Read-only file system: '{database}.lock'" in line
    assert line.endswith(
        "copy alice.db, alice.db-wal, alice.db.mark, as far as they are there, elsewhere and check the copy"
    )


def test_every_finding_is_a_line_each_time(database: Path) -> None:
    for seq in (3, 7):  # one of them was set aside
        bodies = f"substr(bodies, 1, {6 * seq - 6}) || x'00' || substr(bodies, {6 * seq - 4})"  # they are "body N"
        change(database, f"UPDATE batch SET bodies = CAST({bodies} AS BLOB)")
    change(database, "UPDATE peer_subscription SET key = 'another'")
    change(database, "UPDATE dead_letter SET body = x'00' WHERE number = 2")
    with left_as_it_is(database):
        for _ in range(2):
            told = tolliver("check", database)
            assert (told.exit_code, told.stderr) == (1, "")
            lines = told.stdout.splitlines()
            shown = tolliver("check", database, "--json")
            assert [json.loads(line)["finding"] for line in shown.stdout.splitlines()] == lines
    damaged = [f"message {seq} for peer {peer}" for peer in (PEER, OTHER) for seq in (3, 7)]
    for words in (
        "1 rows of table peer_subscription have a wrong checksum",
        "dead letter 2 has a wrong checksum",
        *damaged,
    ):
        assert len([line for line in lines if words in line]) == 1
    assert len(lines) == 6


def test_one_that_does_not_open_says_why(database: Path) -> None:
    change(database, "UPDATE instance SET uuid = x'00'")
    with left_as_it_is(database):
        told = tolliver("check", database)
    assert told.exit_code == 1
    assert told.stdout.startswith(f"cannot open the database {database}: the row with the instance's UUID")


def test_a_log_that_a_killed_process_left_is_looked_at(database: Path, tmp_path: Path) -> None:
    killed = tmp_path / "killed"
    killed.mkdir()
    with closing(open_store(database)) as store:
        store.commit([storing(range(20, 30))])
        for name in ("alice.db", "alice.db-wal", "alice.db.lock"):
            shutil.copyfile(tmp_path / name, killed / name)
    assert tolliver("check", killed / "alice.db").stdout == "nothing is wrong\n"
    log = killed / "alice.db-wal"
    log.write_bytes(log.read_bytes()[:-1] + b"x")
    with left_as_it_is(killed / "alice.db"):
        told = tolliver("check", killed / "alice.db")
    assert told.exit_code == 1
    assert told.stdout.startswith(f"{log} ends with a commit that is not whole")


def test_commits_that_are_missing_are_told(database: Path) -> None:
    """D-13."""
    older = database.with_name("older")
    shutil.copyfile(database, older)
    with closing(open_store(database)) as store:
        store.commit([storing([20])])
    older.replace(database)
    with left_as_it_is(database):
        told = tolliver("check", database)
    assert told.exit_code == 1
    assert f"the database {database} lacks 3 commits that were confirmed" in told.stdout
    assert tolliver("outbox", "restored", database).exit_code == 0
    assert tolliver("check", database) == (0, "nothing is wrong\n", "")


def test_one_that_is_in_use_is_left_alone(database: Path) -> None:
    async def check() -> None:
        async with create_instance(InstanceOptions(database=database, plaintext=True)):
            told = tolliver("check", database)
            assert (told.exit_code, told.stdout) == (1, "")
            assert f"the database {database} is in use by another instance: stop that one" in told.stderr

    anyio.run(check)


def test_without_room_for_a_copy_it_says_so(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(database.parent / "missing"))
    with left_as_it_is(database):
        told = tolliver("check", database)
    assert (told.exit_code, told.stdout) == (1, "")
    assert "missing: " in told.stderr
    assert told.stderr.endswith("Set TMPDIR to a directory with room for it\n")


def test_what_is_no_database_is_told_and_nothing_made(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no database, but long enough that it could be one" * 20)
    (tmp_path / "empty").touch()
    change(tmp_path / "foreign", "CREATE TABLE cheese(name)")
    before = sorted(tmp_path.iterdir())
    for name, words in (
        ("missing", "give the file that the instance uses\n"),
        (".", "give the file that the instance uses\n"),
        ("text", "it is not a database; choose another path, or move that file away\n"),
        ("empty", "it is not a database; choose another path, or move that file away\n"),
        ("foreign", "give the file that the instance uses\n"),
    ):
        told = tolliver("check", tmp_path / name)
        assert (told.exit_code, told.stdout) == (1, "")
        assert told.stderr.endswith(words)
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("keeper", "then"),
    [(VALUES, "retain it again (P-36)"), (ANSWERED, "it is the answer to a call, so call with another key (P-86)")],
)
def test_what_is_kept_and_damaged_is_a_line_without_its_body(tmp_path: Path, keeper: UUID, then: str) -> None:
    database = tmp_path / "alice.db"
    with closing(open_store(database)) as store:
        store.commit([storing([1], (keeper,), body=b"secret")])
    change(database, "UPDATE batch SET bodies = CAST('secreT' AS BLOB)")
    with left_as_it_is(database):
        told = tolliver("check", database)
    assert told.exit_code == 1
    assert f"message 1 for peer {keeper}" in told.stdout
    assert f"is damaged: {then}" in told.stdout
    assert "secre" not in told.stdout
