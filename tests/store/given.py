"""Fixtures of the store: an open one, messages, and all contents."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from uuid import UUID

from tolliver._store.owed import Row
from tolliver._store.sqlite import SQLiteStore

from tolliver_proto.store import Operation, StoredMessage, StoreMessages

OURS = UUID("01890000-0000-7000-8000-000000000001")
PEER = UUID("01890000-0000-7000-8000-000000000002")
OTHER = UUID("01890000-0000-7000-8000-000000000003")
FIRST_ID = 1000
MEMORY_DISK = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # hundreds of syncs there take no time


def open_store(path: Path, instance_id: UUID | None = OURS) -> SQLiteStore:
    return SQLiteStore(path, instance_id=instance_id)


def message(seq: int, body: bytes | None = None) -> StoredMessage:
    body = b"body %d" % seq if body is None else body
    return StoredMessage(seq, FIRST_ID + seq, "channel", f"key {seq}", body, 17 + 7 + len(f"key {seq}") + len(body))


def storing(seqs: Iterable[int], peers: Sequence[UUID] = (PEER,), body: bytes | None = None) -> Operation:
    messages = [message(seq, body) for seq in seqs]
    return StoreMessages(messages, [peers] * len(messages))


def everything(store: SQLiteStore, peer: UUID = PEER) -> list[Row]:
    return store.fetch(peer, 0, 1_000_000, 2**40)


def seqs(rows: Iterable[Row]) -> list[int]:
    return [row.seq for row in rows]


def start(program: str, path: Path, **environment: str) -> subprocess.Popen[str]:
    """A program of `children`, with pipes."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.store.children", program, str(path)],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )
