"""Removals cut into several commits (D-13)."""

from __future__ import annotations

import pytest
from tolliver._store.pieces import in_pieces

from tolliver_proto.store import ForgetPeer, Operation, PinPeer, RemoveDeliveries, RemoveMessages

from .given import OTHER, PEER


def seqs_of(*removals: Operation) -> list[int]:
    assert all(isinstance(one, RemoveDeliveries | RemoveMessages) for one in removals)
    return [seq for one in removals for low, high in one.spans for seq in range(low, high + 1)]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "spans", [[(1, 2)], [(5, 1000)], [(seq, seq) for seq in range(1, 2000, 3)], [(1, 7), (9, 300), (10**6, 10**6 + 2)]]
)
def test_all_is_removed_once_and_no_message_before_its_deliveries(spans: list[tuple[int, int]]) -> None:
    mine, others = RemoveDeliveries(PEER, spans), RemoveDeliveries(OTHER, spans[::2])
    gone = RemoveMessages(spans[::-1])
    pin = PinPeer(OTHER, bytes(32))
    pieces = [*in_pieces([mine, others, pin, gone])]
    assert pieces.pop() == [pin]
    assert 2 <= len(pieces) <= 17
    left = {PEER: {*seqs_of(mine)}, OTHER: {*seqs_of(others)}}
    removed: list[int] = []
    for piece in pieces:
        for one in piece:
            if isinstance(one, RemoveDeliveries):
                assert left[one.peer].issuperset(seqs_of(one))
                left[one.peer].difference_update(seqs_of(one))
            else:
                removed += seqs_of(one)
                assert not {*seqs_of(one)} & (left[PEER] | left[OTHER])
    assert left == {PEER: set(), OTHER: set()}
    assert sorted(removed) == sorted(seqs_of(gone))


@pytest.mark.parametrize(
    "operations",
    [
        [],
        [PinPeer(PEER, bytes(32))],
        [RemoveMessages([(7, 7)])],
        [RemoveDeliveries(PEER, [(1, 9)]), ForgetPeer(OTHER), RemoveMessages([(1, 9)])],
    ],
)
def test_where_there_is_nothing_to_cut_or_the_order_counts_nothing_is_cut(operations: list[Operation]) -> None:
    assert [*in_pieces(operations)] == []
