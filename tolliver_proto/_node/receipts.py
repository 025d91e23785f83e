"""Receipts that somebody still holds, by the seqs of their messages.

An answer is kept with its receipt, and for as long as the program keeps that (T-54): the node holds receipts weakly.
Seqs ascend from send to send, so the receipt of a message is found by halving, and what is acknowledged in a run costs
a step for each receipt in it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from weakref import ref

from .actions import Receipt

_GONE = 64  # places of receipts that nobody holds or that are acknowledged, before they are looked for


class HeldReceipts:
    """Receipts of sends that stored something, until all of it is acknowledged."""

    def __init__(self, kept_from: Callable[[], int]) -> None:
        """Messages from `kept_from()` on may be owed to somebody else yet (T-62): their receipts stay, acknowledged or
        not."""
        self._kept_from = kept_from
        self._firsts: list[int] = []
        self._receipts: list[ref[Receipt]] = []
        self._most = _GONE

    def __len__(self) -> int:
        return sum(one() is not None for one in self._receipts)

    @property
    def places(self) -> int:
        """First seqs that are remembered, those of receipts that nobody holds any more too."""
        return len(self._firsts)

    def add(self, receipt: Receipt) -> None:
        self._firsts.append(receipt.first_seq)
        self._receipts.append(ref(receipt))
        if len(self._firsts) > self._most:
            self._drop_gone()

    def _drop_gone(self) -> None:
        """As many are added before the next time as are left now: so each costs a step or two."""
        kept_from = self._kept_from()
        receipts = [one for found in self._receipts if (one := found()) is not None]
        held = [one for one in receipts if one.unacked or one.last_seq >= kept_from]
        self._firsts = [one.first_seq for one in held]
        self._receipts = [*map(ref, held)]
        self._most = 2 * len(held) + _GONE

    def within(self, first: int, last: int) -> Iterator[tuple[Receipt, int]]:
        """Those that have messages in this span, each with how many."""
        firsts, place = self._firsts, bisect_right(self._firsts, first)
        for at in range(max(place - 1, 0), len(firsts)):
            if firsts[at] > last:
                return
            receipt = self._receipts[at]()
            if receipt is not None:
                count = min(last, receipt.last_seq) + 1 - max(first, receipt.first_seq)
                if count > 0:
                    yield receipt, count

    def of(self, seqs: Iterable[int]) -> Counter[Receipt]:
        """The number of these messages that each receipt has."""
        found: Counter[Receipt] = Counter()
        for seq in seqs:
            found.update(receipt for receipt, _ in self.within(seq, seq))
        return found
