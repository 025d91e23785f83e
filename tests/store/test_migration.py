"""Databases of other layouts: steps of a migration, and files of before the first release."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from tolliver._store.checks import batch_check, check_of, letter_check, make_known
from tolliver._store.copying import back_up
from tolliver._store.inspection import inspect
from tolliver._store.layout import LAYOUT, TABLES
from tolliver._store.migration import STEPS
from tolliver._store.scan import scan

from tolliver_proto import StoreError, Subscription
from tolliver_proto.store import (
    DUE,
    LATER,
    AddOwnSubscription,
    Due,
    ForgetPeer,
    NamePeer,
    RemoveDeliveries,
    RemoveMessages,
    StoreMessages,
)

from .given import PEER, everything, message, open_store, storing

BEFORE = 0x546F6C6C  # the application id of versions before the first release


def marked(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as foreign:
        for statement in statements:
            foreign.execute(statement)


def header_of(path: Path) -> tuple[int, int]:
    """Its layout, and the number of its tables."""
    with closing(sqlite3.connect(path)) as foreign:
        [(layout,)] = foreign.execute("PRAGMA user_version")
        [(tables,)] = foreign.execute("SELECT COUNT(*) FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'")
    return layout, tables


@contextmanager
def left_as_it_is(directory: Path) -> Iterator[None]:
    def files() -> dict[str, bytes]:
        return {file.name: file.read_bytes() for file in directory.iterdir() if not file.name.endswith(".lock")}

    before = files()
    yield
    assert files() == before


def test_a_step_of_a_migration_is_taken_whole_or_not_at_all(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From a made-up older layout: one of its tables had another name, and one is new since."""
    path = scratch / "node.db"
    with closing(open_store(path)) as store:
        store.commit([storing([1, 2]), AddOwnSubscription(Subscription("c", "k"))])
    marked(path, "CREATE TABLE wanted AS SELECT * FROM own_subscription", "DROP TABLE own_subscription")
    marked(path, "DROP TABLE id_span", f"PRAGMA user_version = {LAYOUT - 1}")
    older = header_of(path)
    failures = [sqlite3.OperationalError("a made-up failure")]

    def step(connection: sqlite3.Connection) -> None:
        for table in ("own_subscription", "id_span"):
            connection.execute(TABLES[table])
        connection.execute("INSERT INTO own_subscription SELECT * FROM wanted")
        connection.execute("DROP TABLE wanted")
        if failures:
            raise failures.pop()

    monkeypatch.setitem(STEPS, LAYOUT - 1, step)
    with pytest.raises(StoreError, match="the next opening brings it to"), scan(path):
        pass
    with pytest.raises(StoreError, match="a made-up failure"):
        open_store(path)
    assert header_of(path) == older
    for _ in range(2):
        with closing(open_store(path)) as store:
            assert everything(store) == [message(1), message(2)]
            assert store.load().own_subscriptions == {Subscription("c", "k")}
        assert header_of(path) == (LAYOUT, older[1] + 1)


def test_layout_1_is_brought_up_and_keeps_messages_for_later(scratch: Path) -> None:
    path = scratch / "node.db"
    with closing(open_store(path)) as store:
        store.commit([storing([1, 2])])
    marked(path, "DROP TABLE later", "DROP TABLE peer_name", "PRAGMA user_version = 1")
    soon, late = Due(0.0, 1.0), Due(0.0, 2.0**40)
    with closing(open_store(path)) as store:
        assert everything(store) == [message(1), message(2)]
        store.commit([StoreMessages([message(seq)], [[LATER]], due=due) for seq, due in ((3, late), (4, soon))])
        assert [one.seq for one in store.later(10)] == [4, 3]
        assert [one.seq for one in store.fetch(LATER, DUE, 10, 10_000)] == [4]
        store.commit([RemoveDeliveries(LATER, [(4, 4)]), RemoveMessages([(4, 4)])])
        assert [one.seq for one in store.later(10)] == [3]


def test_layout_2_is_brought_up_and_keeps_names_of_peers(scratch: Path) -> None:
    path = scratch / "node.db"
    with closing(open_store(path)) as store:
        store.commit([storing([1, 2])])
    marked(path, "DROP TABLE peer_name", "PRAGMA user_version = 2")
    for name in ("", "alice"):
        with closing(open_store(path)) as store:
            assert everything(store) == [message(1), message(2)]
            assert store.load().peers[PEER].name == name
            store.commit([NamePeer(PEER, "alice")])
    with closing(open_store(path)) as store:
        store.commit([ForgetPeer(PEER)])
        assert PEER not in store.load().peers
        store.commit([storing([3])])
        assert store.load().peers[PEER].name == ""


FIRST, NAMES = 2**33 + 1, ("channel", "kéy")
ROWS: list[tuple[str, tuple[object, ...], int]] = [
    ("owed", (3, FIRST, FIRST + 5, 2**40 + 7, 200, None, None), 183290655),
    ("owed", (3, FIRST, FIRST + 5, None, 200, None, None), 161552333),
    ("owed", (3, FIRST, FIRST + 5, 2**40 + 7, 200, b"-", b"\x12"), 1525239383),
    ("handled", (3, 2**40 + 7, 99), 341948379),
    ("handled", (3, 2**40 + 7, None), 210495239),
    ("expiry", (FIRST, 1000), 3651622847),
    ("later", (1, 1000, FIRST), 1285191447),
    ("id_span", (2, 2**40, 4096), 3162408780),
    ("clock", (-3,), 946162736),
    ("own_subscription", NAMES, 1650213410),
    ("peer_subscription", (3, *NAMES), 2884230069),
    ("held_subscription", (3, *NAMES, 1000), 4225489175),
    ("unsaid", (3, *NAMES, 1000), 749678618),
    ("peer_name", (3, "name"), 313506710),
]


@pytest.mark.parametrize(("table", "row", "check"), ROWS)
def test_a_row_has_the_checksum_that_its_layout_says(table: str, row: tuple[object, ...], check: int) -> None:
    """Else an older database of the same layout would be damaged as a whole."""
    terms = [f"?{number}" for number in range(1, len(row) + 1)]
    with closing(sqlite3.connect(":memory:")) as connection:
        make_known(connection)
        assert connection.execute(f"SELECT {check_of(table, *terms)}", row).fetchall() == [(check,)]


def test_batches_and_dead_letters_have_the_checksums_that_their_layout_says() -> None:
    assert batch_check(FIRST, FIRST + 5) == 11450067
    assert letter_check((5, 3, 2**40 + 7, 20, 1000), b"cause", b"channel", b"key", b"body") == 1006109447


def opened(path: Path) -> None:
    open_store(path).close()


def looked_into(path: Path) -> None:
    with scan(path):
        pass


def copied(path: Path) -> None:
    back_up(path, path.with_name("copy.db"))


def checked(path: Path) -> None:
    inspect(path)


@pytest.mark.parametrize("layout", range(1, 7))
@pytest.mark.parametrize("use", [opened, looked_into, copied, checked], ids=lambda use: use.__name__)
def test_a_file_of_before_the_first_release_is_refused_untouched(
    scratch: Path, use: Callable[[Path], None], layout: int
) -> None:
    path = scratch / "node.db"
    marked(path, "CREATE TABLE instance(uuid BLOB)", f"PRAGMA application_id = {BEFORE}")
    marked(path, f"PRAGMA user_version = {layout}")
    with left_as_it_is(scratch), pytest.raises(StoreError) as refused:
        use(path)
    assert f"the database {path} is of a version of tolliver before the first release" in str(refused.value)
    assert "Let the version that wrote it deliver what waits, then move the file" in str(refused.value)
