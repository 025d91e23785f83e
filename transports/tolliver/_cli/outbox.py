"""Outbox of a database, shown and changed by an operator.

Showing reads the file, even while an instance runs, and changes nothing. For a change, a node without connections is
opened on the database, called, and run until its last commit is done.
"""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import UUID

from tolliver_proto import Commit, Node, Receipt, Stored, StoreError
from tolliver_proto.store import LATER, Find, is_kept, is_queue

from .._options.kinds import seconds
from .._store.scan import must_be_there, scan
from .._store.sqlite import SQLiteStore
from . import words
from .tables import print_rows

_WHY = {
    False: "the peer is away, or has not acknowledged it yet",
    True: "parked: the peer closes whenever it gets it, or the row is damaged (retry, drop)",
}
_NOBODYS = "jobs of a work queue that no worker has: the peer is the queue"
_KEPT = "kept by their channel for its first subscriber: the peer is the channel"
_LATER = "their time has not come (after, not_before): nobody is owed them yet"


def print_outbox(database: Path, as_json: bool) -> None:
    """Print a row for each peer and reason for which messages wait, with `as_json` as JSON lines: peer, messages,
    bytes, oldest, newest (wall clock), reason.
    """
    with scan(database) as outbox:
        rows = [
            {
                "peer": str(one.peer),
                "messages": one.messages,
                "bytes": one.bytes,
                "oldest": _when(one.oldest),
                "newest": _when(one.newest),
                "parked": one.parked,
                "why": _WHY[one.parked] if one.parked else _owners_why(one.peer) or _WHY[False],
            }
            for one in outbox.waiting()
        ]
    print_rows(rows, as_json, "nothing waits")


def _owners_why(owner: UUID) -> str | None:
    """Why the messages of an owner that is no peer wait; None for a peer."""
    if owner == LATER:
        return _LATER
    return _NOBODYS if is_queue(owner) else _KEPT if is_kept(owner) else None


def print_messages(
    database: Path, peer: UUID | None, channel: str, key: str, older: str | None, limit: int, as_json: bool
) -> None:
    """Print a row for each message and peer that has not acknowledged it, with its age; at most `limit` for each peer.
    `older` is the least age, such as "10m"; `as_json` prints JSON lines. Raises ValueError and StoreError.
    """
    least = 0.0 if older is None else _older(older)
    now = time.time()
    rows: list[dict[str, Any]] = []
    counts: Counter[UUID] = Counter()
    with scan(database) as outbox:
        for one in outbox.messages(peer):
            age = None if one.stored_at is None else max(0, int(now - one.stored_at))
            named = channel in ("", one.channel) and key in ("", one.key)
            if not named or (age or 0) < least or counts[one.peer] == limit:
                continue
            counts[one.peer] += 1
            rows.append(
                {
                    "peer": str(one.peer),
                    "message_id": one.message_id,
                    "channel": one.channel if as_json else words.name(one.channel),
                    "key": one.key if as_json else words.name(one.key),
                    "bytes": one.bytes,
                    "stored": _when(one.stored_at),
                    "age": age if as_json or age is None else _age(age),
                    "parked": one.parked,
                }
            )
    print_rows(rows, as_json, "everything is acknowledged: nothing waits")


def _older(text: str) -> float:
    try:
        return seconds(text)
    except ValueError as error:
        raise ValueError(f"--older: {error}") from None


def print_peers(database: Path, as_json: bool) -> None:
    """Print a row for each peer, with `as_json` as JSON lines: UUID, name in its last certificate, subscriptions,
    waiting messages, pinned key.
    """
    with scan(database) as outbox:
        known = outbox.known()
    rows: list[dict[str, Any]] = [
        {
            "peer": str(one.peer),
            "name": (one.name if as_json else words.name(one.name)) if one.name else None,
            "subscriptions": [{"channel": channel, "key": key} for channel, key in one.subscriptions]
            if as_json
            else ", ".join(f"{words.name(channel)} {words.name(key)}" for channel, key in one.subscriptions),
            "waiting": one.waiting,
            "pinned_key": one.pin.hex() if one.pin else None,
        }
        for one in known
        if not (is_queue(one.peer) or is_kept(one.peer))
    ]
    print_rows(rows, as_json, "no peer is known")


def forget_peer(database: Path, peer: UUID) -> int:
    """Delete the peer and its waiting messages; returns their number. Raises StoreError."""
    with scan(database) as outbox:
        waiting = sum(one.messages for one in outbox.waiting() if one.peer == peer)
    change(database, peer, lambda node: node.forget_peer(peer))
    return waiting


def say_restored(database: Path) -> None:
    """Declare that the file was restored from a backup. Raises StoreError."""
    must_be_there(database)  # else its lock file would be created
    with closing(SQLiteStore(database, instance_id=None)) as store:
        store.restored(secrets.SystemRandom())


def change(database: Path, peer: UUID, ask: Callable[[Node], Receipt]) -> int:
    """Make the call `ask` of a node opened on the database, for messages of a peer; returns their number. Raises
    StoreError, also for an unknown peer.
    """
    with scan(database) as outbox:  # checks the file before a lock is taken on it
        known = peer in outbox.peers().values()
    if not known:
        raise StoreError(f"{database} knows no peer {peer}: `tolliver peers {database}` lists those that it knows")
    return ask_node(database, ask)


def ask_node(database: Path, ask: Callable[[Node], Receipt]) -> int:
    """Make the call `ask` of a node opened on the database, and wait until it is stored; returns the sum of the
    receipt's counts. Raises StoreError.
    """
    store = SQLiteStore(database, instance_id=None)
    with closing(store):
        node = Node(instance_id=store.instance_id, rng=secrets.SystemRandom(), loaded=store.load())
        receipt = ask(node)
        node.close()
        while not node.idle:
            action = node.next_action()
            if isinstance(action, Find):
                node.found(action.search_id, action.ask(store))
            elif isinstance(action, Commit):
                store.commit(action.operations)
                node.committed(action.batch_id)
            elif isinstance(action, Stored) and action.error is not None:
                raise action.error
            elif action is None:
                node.handle_timeout(node.next_timeout())
    return sum(receipt.counts)


def _age(age: int) -> str:
    """Text of an age in seconds, in its two largest units."""
    parts = [(age // 86400, "d"), (age // 3600 % 24, "h"), (age // 60 % 60, "m"), (age % 60, "s")]
    first = next((place for place, (number, _) in enumerate(parts) if number), 3)
    return " ".join(f"{number}{unit}" for number, unit in parts[first : first + 2])


def _when(seconds: int | None) -> str | None:
    return None if seconds is None else time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
