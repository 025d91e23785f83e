"""Last values in the simulator: it retains, and its witness sees who is given what (P-30 to P-33)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from uuid import UUID

import pytest

from tolliver_proto import OutboxFull, Subscription
from tolliver_proto._patterns.last_values import LastValues
from tolliver_proto._testing.value_checks import CHANNEL, ValueLedger
from tolliver_proto._testing.world import LOSSY, TIGHT
from tolliver_proto.store import (
    VALUES,
    AddPeerSubscription,
    ForgetPeer,
    Operation,
    RemoveDeliveries,
    RemovePeerSubscription,
    ReplacePeerSubscriptions,
    StoredMessage,
    StoreMessages,
)
from tolliver_proto.testing import SimFailure, SimNet

from .play import HIGH, LOW

SEEDS = range(6, 102, 8)  # of the worlds that retain
ONE, ALL = Subscription(CHANNEL, "a"), Subscription(CHANNEL, "")
ANEW = AddPeerSubscription(LOW, ONE)


def row(body: bytes, *recipients: UUID) -> StoreMessages:
    return StoreMessages([StoredMessage(1, 1, CHANNEL, "a", body, 20)], [recipients])


KEPT = row(b"1", VALUES)
CHANGED = (RemoveDeliveries(VALUES, [(1, 1)]), row(b"2", VALUES))
CLEARED = RemoveDeliveries(VALUES, [(1, 1)])


def witness(*commits: list[Operation], may_skip: bool = False) -> ValueLedger:
    """It has seen these, and three values were retained."""
    seen = ValueLedger()
    for body in (b"1", b"2", b"3"):
        seen.retained(body)
    for operations in commits:
        seen.applied(operations, may_skip)
    return seen


@pytest.mark.search
def test_new_subscribers_get_the_newest_value_once_and_then_changes() -> None:
    totals: Counter[str] = Counter()
    for seed in SEEDS:
        totals.update(SimNet(seed).run().counts)
    assert totals["retained"] > 50
    assert totals["given"] > 20


GOOD: dict[str, list[list[Operation]]] = {
    "given once": [[KEPT], [ANEW, row(b"1", LOW)]],
    "given with a list": [[KEPT], [row(b"1", LOW), ReplacePeerSubscriptions(LOW, (ONE, ALL), ())]],
    "a change follows in the same commit": [
        [KEPT],
        [ANEW, row(b"1", LOW), row(b"2", LOW), *CHANGED],
    ],
    "a change": [[ANEW], [row(b"1", LOW), KEPT], [row(b"2", LOW), *CHANGED]],
    "given between two changes of one commit": [
        [ANEW],
        [row(b"1", LOW), AddPeerSubscription(LOW, ALL), row(b"1", LOW), row(b"2", LOW, VALUES)],
    ],
    "cleared": [[KEPT], [CLEARED], [ANEW]],
    "given again": [
        [KEPT],
        [ANEW, row(b"1", LOW)],
        [RemovePeerSubscription(LOW, ONE)],
        [ReplacePeerSubscriptions(LOW, (ALL,), ()), row(b"1", LOW)],
        [ForgetPeer(LOW)],
        [ANEW, row(b"1", LOW)],
    ],
    "held": [
        [KEPT],
        [ANEW, row(b"1", LOW)],
        [ReplacePeerSubscriptions(LOW, (), (ONE,))],
        [ANEW],
        [RemovePeerSubscription(HIGH, ONE)],
    ],
    "not for whom it does not match": [[KEPT], [AddPeerSubscription(LOW, Subscription(CHANNEL, "b"))]],
    "other channels": [[StoreMessages([StoredMessage(1, 1, "p", "a", b"x", 20)], [[LOW]])]],
}
BAD: dict[str, tuple[list[list[Operation]], str]] = {
    "not given": ([[KEPT], [ANEW]], "is not given b'1'"),
    "given twice": ([[KEPT], [ANEW, row(b"1", LOW), row(b"1", LOW)]], "1 times too often"),
    "given to who had it": ([[KEPT, ANEW, row(b"1", LOW)], [row(b"1", LOW)]], "too often"),
    "an old one": (
        [[KEPT], [*CHANGED], [ANEW, row(b"1", LOW), row(b"2", LOW)]],
        "b'1' is stored 1 times",
    ),
    "one that was cleared": ([[KEPT], [CLEARED], [ANEW, row(b"1", LOW)]], "too often"),
}


@pytest.mark.parametrize("name", GOOD)
def test_what_is_right_is_taken(name: str) -> None:
    witness(*GOOD[name])


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_is_found(name: str) -> None:
    commits, complaint = BAD[name]
    with pytest.raises(SimFailure, match=complaint):
        witness(*commits)


def test_a_value_for_which_there_was_no_room_is_excused() -> None:
    assert witness([KEPT], [ANEW], may_skip=True).excused == {(LOW, b"1")}


SKIPPING = (342, 454)  # values are retained there while a peer that is to be skipped is at its quota


@pytest.mark.search
@pytest.mark.parametrize("seed", SKIPPING)
def test_a_value_that_skips_a_peer_at_its_quota_is_excused(seed: int) -> None:
    """It is sent as any message is (P-30), so the policy of that peer holds (D-10)."""
    report = SimNet(seed, policy=LOSSY, limits=replace(TIGHT, outbox_messages=8)).run()
    assert report.counts["retained"]


def test_values_that_nobody_is_given_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LastValues, "_give_values", lambda *_arguments: False)
    with pytest.raises(SimFailure, match=r"is not given .* \(P-31\)"):
        SimNet(SEEDS[0]).run()


def test_a_subscriber_without_the_newest_value_is_found() -> None:
    net = SimNet(SEEDS[0], nodes=2)
    net.run()
    host, other = net._hosts
    assert host.node is not None
    assert host.values is not None
    assert other.node is not None
    other.node.subscribe(*ONE)
    sent = net._new_message(host, ONE)
    host.values.newest[CHANNEL, "a"] = sent.body
    with pytest.raises(SimFailure, match=rf"{host.name} never came to {other.name}"):
        net._newest_are_known(host, host.values)
    sent.damaged = True
    net._newest_are_known(host, host.values)


def test_a_value_for_which_there_is_no_room_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_arguments: object, **_options: object) -> None:
        raise OutboxFull("no room")

    net = SimNet(SEEDS[0], nodes=2)
    net.run()
    before = net.counts["not_retained"]
    monkeypatch.setattr(LastValues, "retain", full)
    net._op_retain(net._hosts[0])
    assert net.counts["not_retained"] == before + 1
