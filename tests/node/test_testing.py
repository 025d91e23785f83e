"""Public test tools: a pair of connections, a store in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest
from hypothesis import settings

from tolliver_proto import (
    Closed,
    Connection,
    Established,
    HandshakeRejected,
    HandshakeStatus,
    Message,
    Role,
    StoreError,
    Subscription,
)
from tolliver_proto._testing.inspection import inside
from tolliver_proto._testing.invariants import SimFailure, audit, check_memory
from tolliver_proto.store import (
    AddDeliveries,
    AddOwnSubscription,
    AddPeerSubscription,
    ForgetUnsubscribe,
    Operation,
    Store,
    StoredMessage,
    StoreMessages,
)
from tolliver_proto.testing import ConnectionPair, MemoryStore

from ..store.contract import StoreContract
from .play import HIGH, LOW, Play


def pair(cut: object = "whole", version: int = 1, **options: object) -> ConnectionPair:
    return ConnectionPair(
        client=Connection(Role.CLIENT, instance_id=LOW, version=version),
        server=Connection(Role.SERVER, instance_id=HIGH, subscriptions=[Subscription("c", "")]),
        cut=cut,  # type: ignore[arg-type]  # as the test says
        **options,  # type: ignore[arg-type]  # as the test says
    )


@pytest.mark.parametrize("cut", ["whole", "bytes", Random(3)])
def test_a_pair_shakes_hands_and_talks(cut: object) -> None:
    both = pair(cut).run()
    established = both.client.events[-1]
    assert isinstance(established, Established)
    assert established.subscriptions == (Subscription("c", ""),)
    both.client.connection.send(Message("c", "k", b"hello", 1))
    both.run()
    assert both.server.events[-1] == Message("c", "k", b"hello", 1)
    assert both.transcript[-1] == f"server: {both.server.events[-1]}"
    both.client.connection.close()
    both.run()
    assert both.server.closed
    assert both.server.error is None
    assert both.client.events[-1] == Closed(None)


def test_a_pair_without_a_decision_waits_for_it() -> None:
    both = pair(accept=False).run()
    assert not both.client.events
    both.server.connection.reject()
    both.run()
    assert both.client.closed


def test_a_pair_of_incompatible_versions() -> None:
    both = pair(version=9).run()
    assert isinstance(both.client.error, HandshakeRejected)
    assert both.client.error.status is HandshakeStatus.OLDER
    assert isinstance(both.server.error, HandshakeRejected)


def test_a_decision_of_ones_own() -> None:
    both = pair(decide=lambda side: side.connection.reject()).run()
    assert both.server.closed
    assert both.client.closed


class MemoryContract(StoreContract):
    def reopen(self, store: Store | None) -> MemoryStore:
        return store.snapshot().reopen() if isinstance(store, MemoryStore) else MemoryStore()


TestMemoryStore = pytest.mark.search(MemoryContract.TestCase)
TestMemoryStore.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)

ROW = StoredMessage(1, 7, "c", "k", b"body", 24)


def test_a_failed_commit_changes_nothing() -> None:
    store = MemoryStore()
    store.fail_next_commit = StoreError("disk full")
    operations: list[Operation] = [AddOwnSubscription(Subscription("c", "")), StoreMessages([ROW], [[LOW]])]
    with pytest.raises(StoreError, match="disk full"):
        store.commit(operations)
    with pytest.raises(StoreError, match="not stored"):
        store.commit([*operations, AddDeliveries(HIGH, [(2, 8, 24)])])
    assert store.messages == []
    assert store.load().own_subscriptions == frozenset()
    store.commit(operations)
    with pytest.raises(StoreError, match="already"):
        store.commit(operations)
    assert store.deliveries(LOW) == [1]


def test_a_snapshot_goes_its_own_way() -> None:
    store = MemoryStore()
    store.commit([StoreMessages([ROW], [[LOW]])])
    copy = store.snapshot()
    copy.corrupt(1)
    store.fail_next_fetch = StoreError("locked")
    with pytest.raises(StoreError, match="locked"):
        store.fetch(LOW, 0, 10, 1000)
    assert store.fetch(LOW, 0, 10, 1000) == [ROW]
    assert copy.fetch(LOW, 0, 10, 1000) != [ROW]


def test_a_plain_pair_needs_no_arguments() -> None:
    pair = ConnectionPair().run()
    assert isinstance(pair.client.events[-1], Established)
    assert isinstance(pair.server.events[-1], Established)


# The simulator's witnesses: each sees what it is there for.

ELSEWHERE = Subscription("elsewhere", "")


def _unowed_message(play: Play) -> None:
    play.store._messages[99] = replace(play.store._messages[1], seq=99)


def _unknown_route(play: Play) -> None:
    inside(play.node).routing.routes.add(ELSEWHERE, inside(play.node).context.peers[LOW])


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (_unowed_message, r"messages .99. are in the store and nobody is owed"),
        (lambda play: play.store.commit([AddPeerSubscription(LOW, ELSEWHERE)]), "the node counts .* its store holds"),
        (
            lambda play: setattr(inside(play.node).context.peers[LOW].outbox, "routed", frozenset()),
            r"has routes for .* it may have .*D-4",
        ),
        (_unknown_route, "the routes are .* those of the peers"),
        (lambda play: inside(play.node).ledger.refcounts.add(99, 1), "owed: .* counted"),
        (lambda play: inside(play.node).ledger.ids.live.add(2**30, 2**30), "live ids: .* counted"),
    ],
)
def test_a_node_that_is_not_as_its_store_says_is_seen(spoil: Callable[[Play], None], complaint: str) -> None:
    play = Play()
    play.peer(LOW, ("c", ""))
    play.send("c", "k", b"1")
    play.send("c", "k", b"2")
    audit(play.node, play.store)
    spoil(play)
    with pytest.raises(SimFailure, match=complaint):
        audit(play.node, play.store)


def test_a_window_that_is_too_full_is_seen() -> None:
    play = Play()
    play.peer(LOW, ("c", ""))
    play.send("c", "k", b"1")
    play.send("c", "k", b"2")
    check_memory(play.node, play.node.limits)
    with pytest.raises(SimFailure, match=r"2 messages of .* bytes in the window"):
        check_memory(play.node, replace(play.node.limits, window_messages=1))


def test_a_store_in_memory_forgets_what_is_unsaid_to_a_peer_that_it_does_not_know() -> None:
    store = MemoryStore()
    store.commit([ForgetUnsubscribe(Subscription("c", "k"), [LOW])])
    assert store.load().peers == {}
