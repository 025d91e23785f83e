"""`tolliver letters`: dead letters of a service, while it runs and while it does not."""

from __future__ import annotations

import base64
import json
import os
import signal
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from tolliver._cli.letters import Which, replay_letters
from tolliver.blocking import InstanceOptions, create_instance

from tests.cli.commands import SECONDS, running, tolliver
from tests.cli.conftest import Who
from tests.cli.test_delivering import sender
from tests.cli.test_errors import the_line
from tests.cli.test_run import config, until_lines
from tests.store.given import OTHER, PEER, open_store
from tolliver_proto.store import AddDeadLetter, DeadLetter

PICKY = """
import pathlib
HERE = pathlib.Path(__file__).parent
async def take(delivery):
    if not (HERE / f"mended-{delivery.key}").exists():
        delivery.give_up(f"nobody knows {delivery.key} \\x1b[2J")
        return
    with (HERE / "got").open("a") as out:
        print(delivery.key, delivery.body.decode(), file=out)
"""


def rows(*command: object) -> list[dict[str, object]]:
    """The lines of JSON that it prints."""
    result = tolliver("letters", *command)
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def requests(directory: Path) -> list[Path]:
    """The files of requests there."""
    return [*directory.glob("*.letters*")]


def test_letters_of_a_service_are_read_replayed_and_dropped_whether_it_runs_or_not(who: Who, tmp_path: Path) -> None:
    (tmp_path / "picky.py").write_text(PICKY)
    path, database = config(tmp_path, who, 'deliver.python = "picky:take"'), tmp_path / "alice.db"
    with running(tmp_path / "out", "run", path) as service, sender(tmp_path, who, service.address) as bob:
        bob.wait_acked(
            bob.send_many([("c", key, key.encode()) for key in "xyz"], require_recipients=1), timeout=SECONDS
        )
        shown = tolliver("letters", "show", database, "1", "--body").stdout
        assert "nobody knows x \\x1b[2J" in shown
        found = rows("export", database)
        assert [base64.b64decode(str(one["body"])) for one in found] == [b"x", b"y", b"z"]
        assert found == rows("export", database, 1, 2, 3)
        listed = rows("show", database, "--json", "--body")
        assert [(one["number"], one["cause"], one["body"]) for one in listed] == [
            (one["number"], one["cause"], one["body"]) for one in found
        ]

        (tmp_path / "mended-x").touch()
        mixed = tolliver("letters", "replay", database, 1, 2, "--timeout", 2)
        assert mixed.exit_code == 1
        assert "1 of 2 dead letters handled, and gone; the others are dead letters still" in the_line(mixed)
        assert until_lines(tmp_path / "got", 1) == ["x x"]
        assert tolliver("letters", "drop", database, 2).stderr == "tolliver: 1 dead letter dropped\n"
        (tmp_path / f"alice.db.letters.{24 * '0'}").write_text(100_000 * "[")
        service.until_said("is no request that could be done")
        service.process.send_signal(signal.SIGTERM)
        assert service.process.wait(SECONDS) == 0

    (tmp_path / "mended-z").touch()
    (said,) = rows("replay", database, "--all", "--json")
    assert said == {"letters": 1, "handled": 0, "waiting": 1}
    with running(tmp_path / "out", "run", path) as service:
        assert until_lines(tmp_path / "got", 2) == ["x x", "z z"]
        service.until_said("`tolliver letters`: 1 of 1 dead letter replayed")
        assert service.interrupt() == 0
    assert rows("show", database, "--json") == []


def test_an_instance_that_is_no_service_is_told_of_as_such(tmp_path: Path) -> None:
    database = tmp_path / "bob.db"
    with closing(open_store(database)) as store:
        store.commit([AddDeadLetter(DeadLetter(PEER, "c", "k", b"x", 1, 20))])
    with create_instance(InstanceOptions(database=database, plaintext=True)):
        for what in ("replay", "drop"):
            assert "it is no `tolliver run`" in the_line(tolliver("letters", what, database, 1, "--timeout", 0.2))
    assert requests(tmp_path) == []


@pytest.mark.parametrize("what", ["replay", "drop"])
def test_a_number_of_no_letter_is_told_and_nothing_is_done(what: str, tmp_path: Path) -> None:
    database = tmp_path / "bob.db"
    with closing(open_store(database)) as store:
        store.commit([AddDeadLetter(DeadLetter(PEER, "c", "k", b"x", 1, 20))])
    told = the_line(tolliver("letters", what, database, 1, 7, 8, "--json"))
    assert f"{database} has no dead letters 7, 8" in told
    assert "has no dead letter 1" in the_line(tolliver("letters", what, database, 1, "--peer", OTHER))
    assert [one["number"] for one in rows("show", database, "--json")] == [1]
    assert requests(tmp_path) == []


def test_requests_at_one_moment_are_all_kept(tmp_path: Path) -> None:
    database, count, at_once = tmp_path / "bob.db", 80, 4
    with closing(open_store(database)) as store:
        store.commit([AddDeadLetter(DeadLetter(PEER, "c", "k", b"x", n, 20)) for n in range(count)])
    numbers = [int(str(one["number"])) for one in rows("show", database, "--json")]

    def ask(own: list[int]) -> None:
        for number in own:
            replay_letters(database, Which([number]), SECONDS, as_json=False)

    with ThreadPoolExecutor(at_once) as pool:
        for done in [pool.submit(ask, numbers[first::at_once]) for first in range(at_once)]:
            done.result()
    asked = [json.loads(file.read_text()) for file in requests(tmp_path)]
    assert sorted(number for one in asked for number in one["replay"]) == numbers
    assert len(asked) == count


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone gives files away")
def test_what_root_makes_beside_a_database_belongs_to_its_owner(tmp_path: Path) -> None:
    database = tmp_path / "bob.db"
    with closing(open_store(database)) as store:
        store.commit([AddDeadLetter(DeadLetter(PEER, "c", "k", b"x", 1, 20))])
    for beside in tmp_path.glob("bob.db.*"):
        beside.unlink()
    os.chown(database, 65534, 65534)
    assert tolliver("outbox", "restored", database).exit_code == 0
    assert tolliver("letters", "replay", database, "--all").exit_code == 0
    assert len(requests(tmp_path)) == 1
    assert {file.stat().st_uid for file in tmp_path.iterdir()} == {65534}


def test_a_damaged_letter_has_no_body(tmp_path: Path) -> None:
    database = tmp_path / "bob.db"
    with closing(open_store(database)) as store:
        store.commit([AddDeadLetter(DeadLetter(PEER, "c", "k", b"x", n, 20, cause="odd")) for n in (1, 2)])
    with closing(sqlite3.connect(database)) as changed, changed:
        changed.execute("UPDATE dead_letter SET body = x'00' WHERE number = 1")
    assert [one["body"] for one in rows("export", database)] == [None, "eA=="]
    assert "damaged: the body is lost" in tolliver("letters", "show", database, "--body").stdout
