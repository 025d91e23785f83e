"""Outbox of a database from outside, and an operator's calls about it.

Looking reads the file beside a running instance and changes nothing. Changing is the node's business: a node without
connections is opened on the database, asked, and driven until its last commit is through.
"""

from __future__ import annotations

import json
import secrets
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import UUID

import typer

from tolliver_proto import Commit, Find, Node, Receipt, Stored, StoreError

from .._store.checks import STAMP
from .._store.copying import back_up
from .._store.sqlite import SQLiteStore
from . import words
from .tables import print_table

__all__ = ["back_up", "drop_parked", "print_outbox", "print_peers", "retry_parked", "say_restored"]

_OUTBOX = f"""
    SELECT uuid, parked, messages, bytes,
        (SELECT stamp / {STAMP} FROM message WHERE seq = first), (SELECT stamp / {STAMP} FROM message WHERE seq = last)
    FROM peer JOIN (
        SELECT peer, parked, COUNT(*) AS messages, SUM(size) AS bytes, MIN(seq) AS first, MAX(seq) AS last
        FROM delivery GROUP BY peer, parked) AS waiting ON waiting.peer = peer.id
    ORDER BY peer.id, parked"""  # and no row of `message` but those: they are as long as their bodies
_PEERS = """
    SELECT uuid, spki_sha256, (SELECT COUNT(*) FROM delivery WHERE peer = id),
        (SELECT json_group_array(json_array(channel, key)) FROM peer_subscription WHERE peer = id)
    FROM peer ORDER BY id"""
_WHY = {
    0: "the peer is away, or has not acknowledged it yet",
    1: "set aside: the peer closes whenever it gets it, or the row is damaged (retry, drop)",
}


def print_outbox(database: Path, as_json: bool) -> None:
    """One row for each peer and reason: peer, messages, bytes, oldest, newest (wall-clock), why."""
    rows = [
        {
            "peer": str(UUID(bytes=uuid)),
            "messages": count,
            "bytes": size,
            "oldest": _when(oldest),
            "newest": _when(newest),
            "parked": bool(parked),
            "why": _WHY[parked],
        }
        for uuid, parked, count, size, oldest, newest in _read(database, _OUTBOX)
    ]
    _print(rows, as_json, "nothing waits")


def print_peers(database: Path, as_json: bool) -> None:
    """One row for each peer: UUID, subscriptions, messages that wait for it, pinned key."""
    rows: list[dict[str, Any]] = []
    for uuid, pin, waiting, subscriptions in _read(database, _PEERS):
        wanted = [{"channel": channel, "key": key} for channel, key in json.loads(subscriptions)]
        rows.append(
            {
                "peer": str(UUID(bytes=uuid)),
                "subscriptions": wanted
                if as_json
                else ", ".join(f"{words.name(one['channel'])} {words.name(one['key'])}" for one in wanted),
                "waiting": waiting,
                "pinned_key": pin.hex() if pin else None,
            }
        )
    _print(rows, as_json, "no peer is known")


def retry_parked(database: Path, peer: UUID) -> int:
    """Un-parks what was set aside; returns how many. Raises StoreError."""
    return _change(database, peer, lambda node: node.retry(peer))


def drop_parked(database: Path, peer: UUID) -> int:
    """Removes what was set aside; returns how many. Raises StoreError."""
    return _change(database, peer, lambda node: node.drop_parked(peer))


def say_restored(database: Path) -> None:
    """The file was put back from a copy. Raises StoreError."""
    _read(database, "SELECT uuid FROM instance")  # before the lock is taken on what is not ours
    with closing(SQLiteStore(database, instance_id=None)) as store:
        store.restored(secrets.SystemRandom())


def _change(database: Path, peer: UUID, ask: Callable[[Node], Receipt]) -> int:
    if (peer.bytes,) not in _read(database, "SELECT uuid FROM peer"):  # before the lock is taken on what is not ours
        raise StoreError(f"{database} knows no peer {peer}: `tolliver peers {database}` lists those that it knows")
    store = SQLiteStore(database, instance_id=None)
    with closing(store):
        node = Node(instance_id=store.instance_id, rng=secrets.SystemRandom(), loaded=store.load())
        receipt = ask(node)
        node.close()
        while not node.idle:
            action = node.next_action()
            if isinstance(action, Find):
                rows = store.find(action.peer, action.after_seq, action.max_count, action.min_age)
                node.found(action.search_id, rows)
            elif isinstance(action, Commit):
                store.commit(action.operations)
                node.committed(action.batch_id)
            elif isinstance(action, Stored) and action.error is not None:
                raise action.error
            elif action is None:
                node.handle_timeout(node.next_timeout())
    return sum(receipt.counts)


def _read(database: Path, query: str) -> list[tuple[Any, ...]]:
    if not database.is_file():
        raise StoreError(f"there is no database {database}: give the file that the instance uses")
    file = database.resolve()
    in_use = file.with_name(f"{file.name}-wal").exists()  # else SQLite would make that file, and leave it behind
    options = "mode=ro" if in_use else "mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(f"{file.as_uri()}?{options}", uri=True)) as connection:
            return connection.execute(query).fetchall()
    except sqlite3.Error as error:
        raise StoreError(
            f"{database} cannot be read as an instance's database: {error}. Give the file that the instance uses"
        ) from error


def _when(seconds: int | None) -> str | None:
    return None if seconds is None else time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def _print(rows: list[dict[str, Any]], as_json: bool, nothing: str) -> None:
    if as_json:
        for row in rows:
            typer.echo(json.dumps(row))
    elif rows:
        print_table(list(rows[0]), [list(row.values()) for row in rows], unbroken="peer")
    else:
        typer.echo(nothing)
