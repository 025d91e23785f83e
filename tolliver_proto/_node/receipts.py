"""Receipts that somebody still holds, by the seqs of their messages.

An answer is kept with its receipt, and for as long as the program keeps that (T-54): the node holds receipts weakly.
Seqs ascend from send to send, so the receipt of a message is found by halving.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from weakref import WeakValueDictionary

from .actions import Receipt

_GONE = 64  # places of receipts that nobody holds, before they are looked for


class HeldReceipts:
    """Receipts of sends that stored something."""

    def __init__(self) -> None:
        self._receipts: WeakValueDictionary[int, Receipt] = WeakValueDictionary()
        self._firsts: list[int] = []

    def __len__(self) -> int:
        return len(self._receipts)

    @property
    def places(self) -> int:
        """First seqs that are remembered, those of receipts that nobody holds any more too."""
        return len(self._firsts)

    def add(self, receipt: Receipt) -> None:
        self._receipts[receipt.first_seq] = receipt
        self._firsts.append(receipt.first_seq)
        if len(self._firsts) > 2 * len(self._receipts) + _GONE:
            self._firsts = sorted(self._receipts.keys())

    def of(self, seqs: Iterable[int]) -> Counter[Receipt]:
        """The number of these messages that each receipt has."""
        found: Counter[Receipt] = Counter()
        for seq in seqs:
            place = bisect_right(self._firsts, seq)
            receipt = self._receipts.get(self._firsts[place - 1]) if place else None
            if receipt is not None and seq <= receipt.last_seq:
                found[receipt] += 1
        return found
