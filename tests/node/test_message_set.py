"""Compact set of messages: exact, in order, and small."""

from __future__ import annotations

import random
import tracemalloc
from collections import deque
from uuid import UUID

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tolliver_proto import Message
from tolliver_proto._node import message_set
from tolliver_proto.layouts import Handled, Known, MessageSet, checksum_of

from .play import LOW, OTHER

PEERS = [LOW, OTHER]
peers = st.sampled_from(PEERS)
ids = st.sampled_from([0, 1, 2**31 - 2, 2**32 - 1, 2**64 - 1])
checksums = st.sampled_from([0, 1, 2**31, 2**32 - 1])


class _Machine(RuleBasedStateMachine):
    """Against tuples in a deque. A peer that is forgotten leaves gaps in it, which go when they are the oldest."""

    @initialize(room=st.sampled_from([0, 1, 3, 200]), old=st.lists(st.tuples(peers, ids, st.none()), max_size=5))
    def begin(self, room: int, old: list[Handled]) -> None:
        self.messages = MessageSet(room, old)
        self.model: deque[Handled | None] = deque({one[:2]: one for one in old}.values())

    def known(self, peer: UUID, message_id: int, checksum: int | None) -> Known:
        there = [one[2] for one in self.model if one is not None and one[:2] == (peer, message_id)]
        if not there:
            return Known.NOT
        return Known.YES if checksum in there or None in (*there, checksum) else Known.BY_ID

    @rule(peer=peers, message_id=ids, checksum=checksums | st.none())
    def add(self, peer: UUID, message_id: int, checksum: int | None) -> None:
        known = self.known(peer, message_id, checksum)
        assert self.messages.add(peer, message_id, checksum) is known
        if known is not Known.YES:
            self.model.append((peer, message_id, checksum))

    @rule(peer=peers, first=st.integers(1, 2**31), count=st.integers(1, 90))
    def add_a_run(self, peer: UUID, first: int, count: int) -> None:
        for message_id in range(first, first + count):
            self.add(peer, message_id, message_id % 3)

    @rule(count=st.integers(1, 100))
    def forget_oldest(self, count: int) -> None:
        for _ in range(min(count, len(self.model))):
            self.messages.forget_oldest()
            self.model.popleft()

    @rule(peer=peers)
    def forget(self, peer: UUID) -> None:
        self.messages.forget(peer)
        self.model = deque(None if one is None or one[0] == peer else one for one in self.model)

    @rule(peer=peers, message_id=ids)
    def add_several_of_one_id(self, peer: UUID, message_id: int) -> None:
        for checksum in range(4):
            self.add(peer, message_id, checksum)

    @rule(peer=peers, message_id=ids, checksum=checksums)
    def find(self, peer: UUID, message_id: int, checksum: int) -> None:
        assert self.messages.find(peer, message_id, checksum) is self.known(peer, message_id, checksum)

    @invariant()
    def same(self) -> None:
        if hasattr(self, "model"):
            there = [one for one in self.model if one is not None]
            assert list(self.messages) == there
            assert {one[0] for one in there} <= set(self.messages.peers())
            assert len(there) <= len(self.messages) <= len(self.model)
            if len(self.messages) < len(self.model):  # its rows were made anew, without the gaps
                self.model = deque([*[None] * (len(self.messages) - len(there)), *there])


TestMessageSet = pytest.mark.search(_Machine.TestCase)
TestMessageSet.settings = settings(max_examples=25, stateful_step_count=40, deadline=None)


def test_sets_are_equal_if_they_have_the_same_in_the_same_order() -> None:
    """However much room there was, and whatever went before them."""
    messages: list[Handled] = [(LOW, 2**64 - 1, 0), (OTHER, 1, None), (LOW, 1, 2**32 - 1), (LOW, 1, 0)]
    one, other = MessageSet(3, [(OTHER, number, 7) for number in range(2, 72)]), MessageSet(100, messages)
    for message in messages:
        one.add(*message)
    for _ in range(70):
        one.forget_oldest()
    assert one == other
    assert one.find(LOW, 2**64 - 1, 0) is one.find(OTHER, 1, 9) is one.find(LOW, 1, 2**32 - 1) is Known.YES
    assert one.find(LOW, 1, 9) is Known.BY_ID
    one.add(UUID(int=9), 1, 1)
    assert one != other
    assert one != list(one)


def test_a_peer_that_has_one_id_for_everything_makes_no_long_chain() -> None:
    count = 2000
    messages = MessageSet(count, ((LOW, 7, checksum) for checksum in range(count)))
    lengths = []
    for head in messages._heads:
        length = 0
        while head:
            head, length = messages._nexts[head], length + 1
        lengths.append(length)
    assert sum(lengths) == count
    assert max(lengths) < 40
    for checksum in range(count + 1):
        messages.forget_oldest()
        messages.add(OTHER, checksum, 0)
    assert [*messages] == [(OTHER, checksum, 0) for checksum in range(1, count + 1)], "the ring went round"
    for _ in range(count):
        messages.forget_oldest()
    assert not any(messages._heads)


def test_a_message_is_told_from_others_in_its_chain() -> None:
    """By its peer, its id and its checksum: so small a set has two chains."""
    for number in range(20):
        messages = MessageSet(3, [(LOW, number, 5), (OTHER, number, 7), (OTHER, number, 8)])
        assert messages.find(OTHER, number, 7) is Known.YES
        assert messages.find(OTHER, number, 6) is messages.find(LOW, number, 7) is Known.BY_ID


def test_what_was_removed_is_not_found_in_its_row() -> None:
    messages = MessageSet(2, [(LOW, 3, 0), (LOW, 1, 7)])
    messages.forget_oldest()
    messages.forget_oldest()
    messages.add(LOW, 1, 8)
    assert messages.find(LOW, 1, 7) is Known.BY_ID


@pytest.mark.parametrize("forgotten", [False, True])
def test_any_number_of_peers_come_and_go(forgotten: bool) -> None:
    messages, many = MessageSet(50), [UUID(int=number) for number in range(3000)]
    for peer in many:
        messages.add(peer, 1, 1)
        if forgotten:
            messages.forget(peer)
        if len(messages) == 50:
            messages.forget_oldest()
    assert len(messages._uuids) < 700
    there = many[-49:]
    assert [one[0] for one in messages] == ([] if forgotten else there)
    assert messages.find(many[-1], 1, 1) is (Known.NOT if forgotten else Known.YES)
    assert messages.find(many[0], 1, 1) is Known.NOT


def test_more_peers_than_16_bits_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_set, "_PEERS_UNSEEN", 10)
    many = [UUID(int=number) for number in range(2**15 + 10)]
    messages = MessageSet(len(many), ((peer, 1, None) for peer in many))
    assert [one[0] for one in messages] == many
    assert all(messages.find(peer, 1, 5) is Known.YES for peer in many[:: 2**13])


SIZE = 50_000
PER_MESSAGE = 16 * 2**20 / 1_000_000


@pytest.mark.search
@pytest.mark.parametrize("shape", ["runs", "one id an opening"])
def test_a_million_messages_take_16_mib_at_most(shape: str) -> None:
    """A twentieth of them: exactly the last ones, after as many others."""
    rng = random.Random(1)
    numbers = range(1, 2 * SIZE + 1) if shape == "runs" else rng.sample(range(1, 2**31 - 1), 2 * SIZE)
    tracemalloc.start()
    messages = MessageSet(SIZE + 1)
    for number in numbers[:SIZE]:
        messages.add(LOW, number, number * 2654435761 & 0xFFFFFFFF)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert taken <= SIZE * PER_MESSAGE
    for number in numbers[SIZE:]:
        messages.add(LOW, number, 0)
        messages.forget_oldest()
    assert [message_id for _, message_id, _ in messages] == list(numbers[SIZE:])


# The checksum.


def test_the_checksum_is_what_is_on_disk() -> None:
    assert checksum_of(Message("c", "k", b"body", 1)) == 0x2C2C42B5
    assert checksum_of(Message("", "", b"", 1)) == 0x6522DF69
    assert checksum_of(Message("ä", "", b"\0", None)) == 0x7020E765


def test_names_and_body_do_not_run_into_each_other() -> None:
    text = "ab\0ä"
    cuts = [(first, second) for second in range(5) for first in range(second + 1)]
    parts = [(text[:first], text[first:second], text[second:].encode()) for first, second in cuts]
    assert len({checksum_of(Message(*each, 1)) for each in parts}) == len(parts)
