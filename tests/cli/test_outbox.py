"""`tolliver outbox` and `tolliver peers`: a database seen and changed from outside."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import anyio
import pytest
from tolliver.anyio import InstanceOptions, create_instance

from tests.cli.commands import Result, tolliver
from tests.store.given import OTHER, PEER, everything, message, open_store, seqs, storing
from tolliver_proto import Subscription
from tolliver_proto.store import (
    VALUES,
    AddDeadLetter,
    DeadLetter,
    Loaded,
    NamePeer,
    ParkDelivery,
    PinPeer,
    ReplacePeerSubscriptions,
    queue_id,
)

STRANGER = UUID("01890000-0000-7000-8000-0000000000ff")
MANY = 2500  # more than the node looks at in one piece
PARKED = range(1, MANY + 1)  # for PEER; OTHER is owed the odd ones, and what follows
WAITING = range(MANY + 1, MANY + 11)
NASTY = Subscription("\x1b[2J\n[red]", "k\u202e")


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """PEER and OTHER are away: much was set aside for the one, and something waits for both."""
    path = tmp_path / "alice.db"
    with closing(open_store(path)) as store:
        store.commit(
            [
                ReplacePeerSubscriptions(PEER, (NASTY,)),
                ReplacePeerSubscriptions(OTHER, (Subscription("a", ""), Subscription("b", "c"))),
                PinPeer(OTHER, b"\xab" * 32),
                NamePeer(OTHER, "bob"),
            ]
        )
        store.commit([storing([seq], (PEER, OTHER) if seq % 2 else (PEER,)) for seq in PARKED])
        store.commit([storing(WAITING, (PEER, OTHER)), *(ParkDelivery(PEER, seq) for seq in PARKED)])
    return path


@contextmanager
def at_rest(database: Path) -> Iterator[None]:
    """Nothing in it may be changed."""
    before = database.read_bytes(), sorted(database.parent.iterdir())
    yield
    assert (database.read_bytes(), sorted(database.parent.iterdir())) == before


def shown(*arguments: object) -> str:
    result = tolliver(*arguments)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def objects(*arguments: object) -> list[dict[str, Any]]:
    return [json.loads(line) for line in shown(*arguments, "--json").splitlines()]


def the_line(result: Result) -> str:
    (line,) = result.stderr.splitlines()
    assert result.exit_code == 1
    return line


def loaded(database: Path) -> Loaded:
    with closing(open_store(database)) as store:
        assert store.check() == []
        return store.load()


def rows(database: Path, table: str) -> int:
    with closing(sqlite3.connect(database)) as connection:
        return int(connection.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0])


# Looking.


def check_outbox(database: Path) -> None:
    waits, aside, other = rows = objects("outbox", "show", database)
    assert [(one["peer"], one["messages"], one["parked"]) for one in rows] == [
        (str(PEER), len(WAITING), False),
        (str(PEER), MANY, True),
        (str(OTHER), MANY // 2 + len(WAITING), False),
    ]
    assert waits["bytes"] == sum(message(seq).size for seq in WAITING)
    assert aside["bytes"] == sum(message(seq).size for seq in PARKED)
    now = datetime.now(UTC)
    for one in rows:
        oldest, newest = (datetime.fromisoformat(one[name]) for name in ("oldest", "newest"))
        assert now - timedelta(minutes=1) < oldest <= newest <= now
    assert "retry, drop" in aside["why"]
    assert waits["why"] == other["why"] == "the peer is away, or has not acknowledged it yet"
    head, *lines = shown("outbox", "show", database).splitlines()
    assert head.split() == ["peer", "messages", "bytes", "oldest", "newest", "parked", "why"]
    assert [line.split()[:6] for line in lines] == [[str(value) for value in one.values()][:6] for one in rows]


def check_peers(database: Path) -> None:
    peer, other = objects("peers", database)
    assert peer == {
        "peer": str(PEER),
        "name": None,
        "subscriptions": [{"channel": NASTY.channel, "key": NASTY.key}],
        "waiting": MANY + len(WAITING),
        "pinned_key": None,
    }
    assert other == {
        "peer": str(OTHER),
        "name": "bob",
        "subscriptions": [{"channel": "a", "key": ""}, {"channel": "b", "key": "c"}],
        "waiting": MANY // 2 + len(WAITING),
        "pinned_key": "ab" * 32,
    }
    head, nasty, plain = shown("peers", database).splitlines()
    assert head.split() == ["peer", "name", "subscriptions", "waiting", "pinned_key"]
    assert r"'\x1b[2J\n[red]' 'k\u202e'" in nasty
    assert nasty.replace("\t", " ").isprintable()
    assert plain.split() == [str(OTHER), "'bob'", "'a'", "'',", "'b'", "'c'", str(MANY // 2 + len(WAITING)), "ab" * 32]


def test_a_database_at_rest_is_shown_and_left_as_it_is(database: Path) -> None:
    with at_rest(database):
        check_outbox(database)
        check_peers(database)


def test_it_is_shown_beside_a_running_instance(database: Path) -> None:
    async def look() -> None:
        async with create_instance(InstanceOptions(database=database, plaintext=True)) as instance:
            check_outbox(database)
            check_peers(database)
            assert (await instance.send("b", "c", b"one more")).recipients == 1
            assert objects("outbox", "show", database)[2]["messages"] == MANY // 2 + len(WAITING) + 1
            await instance.admin.forget_peer(PEER)
            assert [one["peer"] for one in objects("peers", database)] == [str(OTHER)]
            await instance.admin.drop_parked(OTHER)

    anyio.run(look)
    assert [one["messages"] for one in objects("outbox", "show", database)] == [MANY // 2 + len(WAITING) + 1]


def test_a_database_that_was_never_used(tmp_path: Path) -> None:
    open_store(tmp_path / "new.db").close()
    assert shown("outbox", "show", tmp_path / "new.db") == "nothing waits\n"
    assert shown("peers", tmp_path / "new.db") == "no peer is known\n"
    assert objects("outbox", "show", tmp_path / "new.db") == objects("peers", tmp_path / "new.db") == []


# Changing.


def test_jobs_that_no_worker_has_are_a_queues(tmp_path: Path) -> None:
    queue = queue_id("jobs")
    with closing(open_store(tmp_path / "alice.db")) as store:
        store.commit([ReplacePeerSubscriptions(queue, (Subscription("jobs", ""),)), storing([1, 2], (queue,))])
    (row,) = objects("outbox", "show", tmp_path / "alice.db")
    assert (row["peer"], row["messages"]) == (str(queue), 2)
    assert "no worker has" in row["why"]
    assert shown("peers", tmp_path / "alice.db") == "no peer is known\n"


def test_last_values_wait_for_no_peer(tmp_path: Path) -> None:
    path = tmp_path / "alice.db"
    with closing(open_store(path)) as store:
        store.commit([storing([1], (VALUES,))])
    assert objects("outbox", "show", path) == objects("outbox", "list", path) == []
    (kept,) = objects("outbox", "list", path, "--peer", VALUES)
    assert (kept["peer"], kept["channel"], kept["parked"]) == (str(VALUES), "channel", False)
    assert shown("peers", path) == "no peer is known\n"


def test_retry_puts_back_what_was_set_aside(database: Path) -> None:
    result = tolliver("outbox", "retry", database, "--peer", PEER)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.startswith("tolliver: 2,500 messages parked for that peer: to be sent again")
    [waits, _other] = objects("outbox", "show", database)
    assert (waits["messages"], waits["parked"]) == (MANY + len(WAITING), False)
    with closing(open_store(database)) as store:
        assert not store.unclean
        assert seqs(everything(store)) == [*PARKED, *WAITING]
    peer = loaded(database).peers[PEER]
    assert (peer.pending, peer.parked, peer.last_seq) == (MANY + len(WAITING), 0, WAITING[-1])
    again = tolliver("outbox", "retry", database, "--peer", PEER)
    assert again.stderr.startswith("tolliver: 0 messages")


def test_drop_gives_it_up_and_keeps_what_others_are_owed(database: Path) -> None:
    result = tolliver("outbox", "drop", database, "--peer", PEER)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "tolliver: 2,500 messages parked for that peer: dropped\n"
    with closing(open_store(database)) as store:
        assert seqs(everything(store)) == [*WAITING]
        assert seqs(everything(store, OTHER)) == [*PARKED[::2], *WAITING]
    state = loaded(database)
    assert (state.peers[PEER].pending, state.peers[PEER].parked) == (len(WAITING), 0)
    owed = [peers for first, last, peers in state.owed for _ in range(first, last + 1)]
    assert len(owed) == MANY // 2 + len(WAITING)  # and nothing that nobody is owed
    assert sum(owed) == MANY // 2 + 2 * len(WAITING)
    assert tolliver("outbox", "drop", database, "--peer", OTHER).stderr.startswith("tolliver: 0 messages")


def test_each_message_that_is_not_acknowledged_is_listed(database: Path) -> None:
    with at_rest(database):
        listed = objects("outbox", "list", database, "--limit", 5000)
        assert [(one["peer"], one["parked"]) for one in listed] == (
            [(str(PEER), True)] * MANY
            + [(str(PEER), False)] * len(WAITING)
            + [(str(OTHER), False)] * (MANY // 2 + len(WAITING))
        )
        last = listed[-1]
        newest = message(WAITING[-1])
        assert (last["channel"], last["key"], last["bytes"]) == (newest.channel, newest.key, newest.size)
        assert 0 <= last["age"] < 60
        few = objects("outbox", "list", database, "--peer", OTHER, "--limit", 3)
        others = [one["message_id"] for one in listed if one["peer"] == str(OTHER)]
        assert [one["message_id"] for one in few] == others[:3]
        assert objects("outbox", "list", database, "--older", "1h") == []
        assert objects("outbox", "list", database, "--channel", "another") == []
        assert shown("outbox", "list", database, "--key", "another") == "everything is acknowledged: nothing waits\n"
        head, row, *_ = shown("outbox", "list", database, "--limit", 1).splitlines()
        assert head.split("\t") == ["peer", "message_id", "channel", "key", "bytes", "stored", "age", "parked"]
        assert row.split("\t")[0] == str(PEER)
        assert "--older: 'soon': give seconds" in the_line(tolliver("outbox", "list", database, "--older", "soon"))


def test_a_peer_is_forgotten_with_all_that_waits_for_it(database: Path) -> None:
    assert objects("peers", "forget", database, PEER) == [{"peer": str(PEER), "messages": MANY + len(WAITING)}]
    assert [one["peer"] for one in objects("peers", "list", database)] == [str(OTHER)]
    assert [one["peer"] for one in objects("outbox", "show", database)] == [str(OTHER)]
    again = tolliver("peers", "forget", database, PEER)
    assert f"knows no peer {PEER}" in the_line(again)


@pytest.mark.parametrize("command", ["retry", "drop"])
def test_a_running_instance_is_not_changed_behind_its_back(database: Path, command: str) -> None:
    async def change() -> None:
        async with create_instance(InstanceOptions(database=database, plaintext=True)) as instance:
            line = the_line(tolliver("outbox", command, database, "--peer", PEER))
            assert f"{database} is in use by another instance: stop that one" in line
            assert instance.stats()["parked"] == MANY

    anyio.run(change)
    assert loaded(database).peers[PEER].parked == MANY


# Files that are no database, or not of ours.

COMMANDS = [("peers",), ("outbox", "show"), ("outbox", "retry", "--peer", PEER), ("outbox", "drop", "--peer", PEER)]


@pytest.mark.parametrize("command", COMMANDS, ids=[" ".join(map(str, command[:2])) for command in COMMANDS])
def test_a_file_that_is_missing_or_something_else(command: tuple[object, ...], tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no database, but long enough that it could be one" * 20)
    (tmp_path / "empty").touch()
    with closing(sqlite3.connect(tmp_path / "foreign")) as foreign:
        foreign.execute("CREATE TABLE cheese(name)")
    before = sorted(tmp_path.iterdir())
    for name, words in (
        ("missing", "there is no database"),
        (".", "there is no database"),
        ("text", "cannot be read as an instance's database: file is not a database"),
        ("empty", "is not the database of an instance"),
        ("foreign", "is not the database of an instance"),
    ):
        line = the_line(tolliver(*command, tmp_path / name))
        assert words in line
        assert line.lower().endswith("give the file that the instance uses")
    assert sorted(tmp_path.iterdir()) == before  # nothing was made


@pytest.mark.parametrize("command", ["retry", "drop"])
def test_a_peer_that_is_not_known(database: Path, command: str) -> None:
    with at_rest(database):
        line = the_line(tolliver("outbox", command, database, "--peer", STRANGER))
        assert f"knows no peer {STRANGER}: `tolliver peers {database}` lists those that it knows" in line


# Dead letters (T-47).


@pytest.fixture
def lettered(tmp_path: Path) -> Path:
    path = tmp_path / "bob.db"
    with closing(open_store(path)) as store:
        for number, peer in enumerate((PEER, OTHER, PEER, OTHER), 1):
            store.commit([AddDeadLetter(DeadLetter(peer, "\x1b[2J", "k", b"secret", number, 20))])
    return path


def test_letters_are_shown_without_their_bodies(lettered: Path) -> None:
    with at_rest(lettered):
        text = shown("letters", "show", lettered)
    assert "\x1b" not in text
    assert "secret" not in text
    first, *_ = found = objects("letters", "show", lettered)
    assert [one["number"] for one in found] == [1, 2, 3, 4]
    assert (first["peer"], first["channel"], first["bytes"], first["attempts"]) == (str(PEER), "\x1b[2J", 6, 20)


@pytest.mark.parametrize(
    ("arguments", "left", "said"),
    [
        ((2, 3), [1, 4], "2 dead letters dropped"),
        (("--peer", PEER), [2, 4], "2 dead letters dropped"),
        ((2, "--peer", OTHER), [1, 3, 4], "1 dead letter dropped"),
        (("--all",), [], "4 dead letters dropped"),
        ((), [1, 2, 3, 4], "which ones? Give their numbers, or --peer PEER, or --all"),
        ((1, "--all"), [1, 2, 3, 4], "which ones? Give their numbers, or --peer PEER, or --all"),
    ],
)
def test_letters_are_dropped_from_outside(
    lettered: Path, arguments: tuple[object, ...], left: list[int], said: str
) -> None:
    result = tolliver("letters", "drop", lettered, *arguments)
    assert result.stderr == f"tolliver: {said}\n"
    assert result.exit_code == (len(left) == 4)
    assert [one["number"] for one in objects("letters", "show", lettered)] == left


def test_no_letters(database: Path) -> None:
    assert shown("letters", "show", database) == "there are no dead letters\n"
