"""Contract of all stores, run on both of ours."""

from __future__ import annotations

import tempfile
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule
from tolliver._store.sqlite import SQLiteStore

from tolliver_proto import StoreError, Subscription
from tolliver_proto.store import AddOwnSubscription, Operation, RemoveDeliveries, Store, StoreMessages
from tolliver_proto.testing import MemoryStore

from .contract import PEERS, StoreContract
from .given import MEMORY_DISK, OURS


class SQLiteContract(StoreContract):
    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory(dir=MEMORY_DISK)

    def reopen(self, store: Store | None) -> SQLiteStore:
        path = Path(self.directory.name) / "node.db"
        if not isinstance(store, SQLiteStore):
            return SQLiteStore(path, instance_id=OURS)
        store.close()
        return SQLiteStore(path, instance_id=None)

    def teardown(self) -> None:
        if isinstance(self.store, SQLiteStore):
            self.store.close()
        self.directory.cleanup()

    @rule(data=st.data(), stranger=st.uuids())
    def refused(self, data: st.DataObject, stranger: UUID) -> None:
        """All or none: where one row is there already, none of the others stays, and their numbers are free."""
        self.flush()
        if not self.model.messages:
            return
        seq = self.seq
        twice = self.model.messages[data.draw(st.sampled_from(sorted(self.model.messages)))]
        operations: list[Operation] = [
            self.new_messages([("c", "k", b"body", frozenset([*PEERS, stranger]))] * 3),
            RemoveDeliveries(PEERS[0], [(1, self.seq)]),
            AddOwnSubscription(Subscription("never", "")),
        ]
        operations.insert(data.draw(st.integers(0, 3)), StoreMessages([twice], [PEERS]))
        with pytest.raises(StoreError, match="there already"):
            self.store.commit(operations)
        self.seq = seq


class MemoryContract(StoreContract):
    def reopen(self, store: Store | None) -> MemoryStore:
        return store.reopen() if isinstance(store, MemoryStore) else MemoryStore()


TestSQLite = SQLiteContract.TestCase
TestSQLite.settings = settings(stateful_step_count=40, deadline=None)

TestMemory = MemoryContract.TestCase
TestMemory.settings = settings(stateful_step_count=40, deadline=None)
