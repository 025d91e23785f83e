"""Lanes of a handler: a bound on unsettled messages, and order inside a lane (P-20, P-21)."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from tolliver_proto._node.ordered_handling import Lanes

Item = tuple[str, int, int]  # lane, number, sender


class SideBySide(RuleBasedStateMachine):
    """Items come, begin, end and are taken out again, in any order."""

    @initialize(most=st.integers(1, 4), ordered=st.booleans())
    def start(self, most: int, ordered: bool) -> None:
        self.most, self.ordered = most, ordered
        self.lanes: Lanes[Item] = Lanes(most, (lambda item: item[0]) if ordered else None)
        self.waiting: deque[Item] = deque()
        self.begun: list[Item] = []
        self.count = 0

    @rule(lane=st.sampled_from("abc"), sender=st.integers(0, 1), count=st.integers(1, 5))
    def add(self, lane: str, sender: int, count: int) -> None:
        for _ in range(count):
            self.count += 1
            item = (lane, self.count, sender)
            self.lanes.add(item)
            self.waiting.append(item)

    @rule()
    def begin(self) -> None:
        busy = {lane for lane, *_ in self.begun} if self.ordered else set()
        free = [item for item in self.waiting if item[0] not in busy]
        assert self.lanes.has_place is (len(self.begun) < self.most)
        item = self.lanes.begin()
        if item is None:
            assert not free or len(self.begun) == self.most, "nobody waits for nothing"
            return
        assert len(self.begun) < self.most
        if self.ordered:
            assert item == next(one for one in free if one[0] == item[0]), "in order inside a lane"
        else:
            assert item == self.waiting[0]
        self.waiting.remove(item)
        self.begun.append(item)

    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        if self.begun:
            item = data.draw(st.sampled_from(self.begun))
            self.begun.remove(item)
            self.lanes.end(item)
            self.lanes.end(item)  # twice does no harm

    @rule(sender=st.integers(0, 1))
    def take_out(self, sender: int) -> None:
        gone = [item for item in self.waiting if item[2] == sender]
        assert sorted(self.lanes.take_out(lambda item: item[2] == sender)) == sorted(gone)
        for item in gone:
            self.waiting.remove(item)


TestSideBySide = SideBySide.TestCase


def test_a_number_that_cannot_be_meant() -> None:
    with pytest.raises(ValueError, match="1 or more"):
        Lanes(0)


def test_what_waits_behind_another_is_taken_out_and_what_has_not_begun_does_not_end() -> None:
    lanes: Lanes[Item] = Lanes(2, lambda item: item[0])
    first, second, third = ("a", 1, 0), ("a", 2, 1), ("a", 3, 0)
    for item in (first, second, third):
        lanes.add(item)
    assert lanes.begin() == first
    lanes.end(second)
    assert lanes.begin() is None
    assert lanes.take_out(lambda item: item is second) == [second]
    lanes.end(first)
    assert lanes.begin() == third
