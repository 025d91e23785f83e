"""Messages held for a peer, on disk (T-61)."""

from __future__ import annotations

from pathlib import Path

import pytest
from tolliver._store.batches import Directory
from tolliver._store.owed import Deliveries

from tolliver_proto import Subscription
from tolliver_proto.store import (
    AddPeerSubscription,
    ForgetPeer,
    KeepUnsubscribe,
    RemovePeerSubscription,
    ReplacePeerSubscriptions,
)

from .given import OTHER, PEER, everything, open_store, seqs, storing

SOME, ALL = Subscription("channel", "key 2"), Subscription("channel", "")


def test_held_messages_are_left_out_by_their_names_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_names, with_bodies = [], []
    directory, batch = Deliveries.directory, Deliveries._batch

    def names(deliveries: Deliveries, first: int) -> Directory | None:
        with_names.append(first)
        return directory(deliveries, first)

    def bodies(deliveries: Deliveries, first: int) -> tuple[Directory | None, bytes]:
        with_bodies.append(first)
        return batch(deliveries, first)

    monkeypatch.setattr(Deliveries, "directory", names)
    monkeypatch.setattr(Deliveries, "_batch", bodies)
    store = open_store(tmp_path / "node.db")
    store.commit([storing(range(1, 5), (PEER, OTHER)), ReplacePeerSubscriptions(PEER, [], [ALL])])
    with_bodies.clear()
    assert everything(store) == []
    assert with_bodies == []
    assert with_names == [1]
    assert seqs(everything(store, OTHER)) == [1, 2, 3, 4]
    store.commit([ReplacePeerSubscriptions(PEER, [SOME], [ALL])])
    assert seqs(everything(store)) == [2]
    store.commit([AddPeerSubscription(PEER, ALL)])
    assert seqs(everything(store)) == [1, 2, 3, 4]
    store.close()


def test_a_hold_has_its_first_time_and_survives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(tmp_path / "node.db")
    now = store._clock.now()
    monkeypatch.setattr(store._clock, "now", lambda: now)
    store.commit([ReplacePeerSubscriptions(PEER, [], [ALL]), KeepUnsubscribe(SOME, [PEER, OTHER])])
    now += 100
    store.commit([ReplacePeerSubscriptions(PEER, [], [ALL, SOME])])
    assert store.load().peers[PEER].held == {ALL: 100.0, SOME: 0.0}
    assert list(store.load().peers[PEER].held) == [ALL, SOME], "the oldest first"
    assert store.load().peers[OTHER].unsaid == {SOME: 100.0}
    store.close()
    store = open_store(tmp_path / "node.db")
    assert store.load().peers[PEER].held.keys() == {ALL, SOME}
    store.commit([RemovePeerSubscription(PEER, ALL), ForgetPeer(OTHER)])
    assert store.load().peers[PEER].held.keys() == {SOME}
    assert OTHER not in store.load().peers
    assert store.news() == []
    store.close()
