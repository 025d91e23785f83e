"""Contract of every store, as a machine for any implementation.

Random operations go to the store and to a model of plain dictionaries; whatever the store then says must be what the
model says, after a restart too. A store is tested by a subclass that says how it is opened again:

    class MyContract(StoreContract):
        def reopen(self, store): ...

    TestMyStore = MyContract.TestCase
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, field, replace
from itertools import pairwise
from uuid import UUID

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from tolliver_proto import Subscription
from tolliver_proto._node.subscriptions import matching
from tolliver_proto.layouts import Handled
from tolliver_proto.store import (
    VALUES,
    AddDeadLetter,
    AddDeliveries,
    AddOwnSubscription,
    AddPeerSubscription,
    DeadLetter,
    ForgetPeer,
    ForgetUnsubscribe,
    KeepUnsubscribe,
    LoadedPeer,
    NamePeer,
    Operation,
    ParkDelivery,
    PinPeer,
    RememberHandled,
    RemoveDeadLetters,
    RemoveDeliveries,
    RemoveMessages,
    RemoveOwnSubscription,
    RemovePeerSubscription,
    ReplacePeerSubscriptions,
    ReserveIds,
    Store,
    StoredMessage,
    StoreMessages,
    UnparkDeliveries,
    UnpinPeer,
)

Span = tuple[int, int]

OVERHEAD = 17  # bytes of a frame besides channel, key and body: any number would do
LAST_ID = 2**31 - 2  # T-40
PEERS = [*(UUID(int=0x0189_0000_0000_7000_8000_0000_0000_0000 + number) for number in range(3)), VALUES]

names = st.text(st.characters(codec="utf-8"), max_size=4)
subscriptions = st.builds(Subscription, names, names)
peers = st.sampled_from(PEERS)
times = st.none() | st.sampled_from([1e5, 2e5])  # far above what a test takes
checksums = st.integers(0, 3) | st.integers(0, 2**32 - 1)
contents = st.tuples(names, names, st.binary(max_size=40), st.frozensets(peers))


def spans_of(numbers: Iterable[int]) -> list[Span]:
    spans: list[Span] = []
    for number in sorted(set(numbers)):
        if spans and spans[-1][1] + 1 == number:
            spans[-1] = (spans[-1][0], number)
        else:
            spans.append((number, number))
    return spans


@dataclass
class Queued:
    message: StoredMessage
    parked: bool = False


@dataclass
class Model:
    """The contract in its plainest form."""

    messages: dict[int, StoredMessage] = field(default_factory=dict)
    held: set[int] = field(default_factory=set)
    due: dict[int, float] = field(default_factory=dict)
    queues: dict[UUID, dict[int, Queued]] = field(default_factory=lambda: {peer: {} for peer in PEERS})
    lists: dict[UUID, set[Subscription]] = field(default_factory=lambda: {peer: set() for peer in PEERS})
    lacking: dict[UUID, set[Subscription]] = field(default_factory=lambda: {peer: set() for peer in PEERS})
    unsaid: dict[UUID, set[Subscription]] = field(default_factory=lambda: {peer: set() for peer in PEERS})
    pins: dict[UUID, bytes] = field(default_factory=dict)
    names: dict[UUID, str] = field(default_factory=dict)
    own: set[Subscription] = field(default_factory=set)
    id_spans: list[tuple[int, int]] = field(default_factory=list)
    letters: dict[int, DeadLetter] = field(default_factory=dict)
    last_letter: int = 0
    handled: list[tuple[int, Handled]] = field(default_factory=list)
    last_handled: int = 0

    def apply(self, operation: Operation) -> None:
        match operation:
            case StoreMessages(messages, recipients, held, after):
                if after is not None:
                    self.due |= dict.fromkeys((message.seq for message in messages), after)
                for message, owed in zip(messages, recipients, strict=True):
                    self.messages[message.seq] = message
                    for peer in owed:
                        self.queues[peer][message.seq] = Queued(message)
                    if not owed:
                        self.held.add(message.seq)
                self.held.update(held)
            case AddDeliveries(peer, deliveries):
                for seq, _, _ in deliveries:
                    self.queues[peer].setdefault(seq, Queued(self.messages[seq]))
            case RemoveDeliveries(peer, spans):
                for first, last in spans:
                    self.queues[peer] = {s: q for s, q in self.queues[peer].items() if not first <= s <= last}
            case RemoveMessages(spans):
                for first, last in spans:
                    for seq in [seq for seq in self.messages if first <= seq <= last]:
                        del self.messages[seq]
                        self.held.discard(seq)
                        self.due.pop(seq, None)
            case ParkDelivery(peer, seq):
                if seq in self.queues[peer]:
                    self.queues[peer][seq].parked = True
            case UnparkDeliveries(peer, spans):
                for first, last in spans:
                    for seq, queued in self.queues[peer].items():
                        queued.parked = queued.parked and not first <= seq <= last
            case ForgetPeer(peer):
                self.queues[peer] = {}
                self.lists[peer], self.lacking[peer], self.unsaid[peer] = set(), set(), set()
                self.pins.pop(peer, None)
                self.names.pop(peer, None)
                self.handled = [one for one in self.handled if one[1][0] != peer]
            case UnpinPeer(peer):
                self.pins.pop(peer, None)
            case AddDeadLetter(letter):
                number = letter.number or self.last_letter + 1
                self.last_letter = max(self.last_letter, number)
                self.letters[number] = replace(letter, number=number)
            case RemoveDeadLetters(numbers):
                for number in numbers:
                    self.letters.pop(number, None)
            case RememberHandled(messages, keep):
                for one in messages:
                    self.last_handled += 1
                    self.handled.append((self.last_handled, one))
                self.handled = [(at, one) for at, one in self.handled if at > self.last_handled - keep]
            case ReplacePeerSubscriptions(peer, subscriptions, lacking):
                self.lists[peer], self.lacking[peer] = set(subscriptions), set(lacking)
            case AddPeerSubscription(peer, subscription):
                self.lists[peer].add(subscription)
                self.lacking[peer].discard(subscription)
            case RemovePeerSubscription(peer, subscription):
                self.lists[peer].discard(subscription)
                self.lacking[peer].discard(subscription)
            case KeepUnsubscribe(subscription, told):
                for peer in told:
                    self.unsaid[peer].add(subscription)
            case ForgetUnsubscribe(subscription, told):
                for peer in told:
                    self.unsaid[peer].discard(subscription)
            case AddOwnSubscription(subscription):
                self.own.add(subscription)
            case RemoveOwnSubscription(subscription):
                self.own.discard(subscription)
            case PinPeer(peer, spki_sha256):
                self.pins[peer] = spki_sha256
            case NamePeer(peer, name):
                self.names[peer] = name
            case ReserveIds(first, count, keep):
                if self.id_spans and self.id_spans[-1][0] == first:
                    self.id_spans[-1] = (first, count)
                else:
                    self.id_spans.append((first, count))
                self.id_spans = self.id_spans[-keep:]

    def restart(self) -> None:
        """Held messages that nobody came for are gone (T-62)."""
        for seq in self.held - self.owed_to().keys():
            del self.messages[seq]
            self.due.pop(seq, None)
        self.held.clear()

    def owed_to(self) -> dict[int, int]:
        """Number of peers that each message is owed to, parked or not."""
        return Counter(seq for queue in self.queues.values() for seq in queue)

    def peer(self, peer: UUID) -> LoadedPeer:
        queue = self.queues[peer].values()
        pending = [queued.message for queued in queue if not queued.parked]
        return LoadedPeer(
            subscriptions=frozenset(self.lists[peer]),
            spki_sha256=self.pins.get(peer),
            pending=len(pending),
            pending_bytes=sum(message.size for message in pending),
            last_seq=max((message.seq for message in pending), default=0),
            parked=sum(queued.parked for queued in queue),
            parked_bytes=sum(queued.message.size for queued in queue if queued.parked),
            held=dict.fromkeys(self.lacking[peer], 0.0),
            unsaid=dict.fromkeys(self.unsaid[peer], 0.0),
            first_seq=min((message.seq for message in pending), default=0),
            name=self.names.get(peer, ""),
        )

    def holds(self, peer: UUID, message: StoredMessage) -> bool:
        pairs = matching(message.channel, message.key)
        return self.lists[peer].isdisjoint(pairs) and not self.lacking[peer].isdisjoint(pairs)

    def live_ids(self) -> list[Span]:
        return spans_of(queued.message.wire_id for queue in self.queues.values() for queued in queue.values())

    def owed(self) -> list[tuple[int, int, int]]:
        counts = self.owed_to()
        return sorted(
            (first, last, count)
            for count in set(counts.values())
            for first, last in spans_of(seq for seq in counts if counts[seq] == count)
        )

    def find(self, peer: UUID | None, after_seq: int) -> list[tuple[UUID, int, int, int, bool, str, str]]:
        found = [
            (
                uuid,
                seq,
                queued.message.wire_id,
                queued.message.size,
                queued.parked,
                queued.message.channel,
                queued.message.key,
            )
            for uuid, queue in self.queues.items()
            if peer == uuid or (peer is None and uuid != VALUES)
            for seq, queued in queue.items()
            if seq > after_seq
        ]
        return sorted(found, key=lambda one: (one[1], one[0]))

    def fetch(self, peer: UUID, after_seq: int, max_count: int, max_bytes: int) -> list[StoredMessage]:
        rows: list[StoredMessage] = []
        for seq, queued in sorted(self.queues[peer].items()):
            if seq <= after_seq or queued.parked or self.holds(peer, queued.message):
                continue
            total = sum(row.size for row in rows) + queued.message.size
            if len(rows) == max_count or (rows and total > max_bytes):
                break
            rows.append(queued.message)
        return rows


class StoreContract(RuleBasedStateMachine):
    """Operations gather and go to the store in commits of random size; questions are asked between them."""

    store: Store
    first_id = LAST_ID - 20  # a short way from the wrap (T-41)

    @abstractmethod
    def reopen(self, store: Store | None) -> Store:
        """A new, empty store for None; else the same data as a new process would find it."""

    @initialize()
    def start(self) -> None:
        self.model = Model()  # as the store will be when the batch is committed
        self.durable = deepcopy(self.model)
        self.seq = 0
        self.batch: list[Operation] = []
        self.store = self.reopen(None)

    def do(self, operation: Operation) -> None:
        self.model.apply(operation)
        self.batch.append(operation)

    def flush(self) -> None:
        self.store.commit(self.batch)
        self.batch = []
        self.durable = deepcopy(self.model)

    def new_messages(
        self,
        items: list[tuple[str, str, bytes, frozenset[UUID]]],
        held: bool = False,
        after: float | None = None,
    ) -> StoreMessages:
        messages = []
        for channel, key, body, _ in items:
            self.seq += 1
            size = OVERHEAD + len(channel.encode()) + len(key.encode()) + len(body)
            wire_id = (self.first_id + self.seq - 1) % LAST_ID + 1
            messages.append(StoredMessage(self.seq, wire_id, channel, key, body, size))
        seqs = [message.seq for message in messages if held]
        return StoreMessages(messages, [sorted(recipients) for *_, recipients in items], seqs, after)

    @rule(items=st.lists(contents, min_size=1, max_size=12), held=st.booleans(), after=times)
    def store_messages(
        self, items: list[tuple[str, str, bytes, frozenset[UUID]]], held: bool, after: float | None
    ) -> None:
        self.do(self.new_messages(items, held, after))

    @rule(count=st.integers(1, 70), recipients=st.frozensets(peers, min_size=1))
    def store_a_run(self, count: int, recipients: frozenset[UUID]) -> None:
        self.do(self.new_messages([("c", "k", b"%d" % number, recipients) for number in range(count)]))

    @rule(skipped=st.integers(1, 3))
    def a_commit_failed(self, skipped: int) -> None:
        self.seq += skipped

    @rule(data=st.data(), peer=peers)
    def add_deliveries(self, data: st.DataObject, peer: UUID) -> None:
        seqs = [seq for seq in self.model.messages if seq not in self.model.queues[peer]]
        if seqs:
            chosen = data.draw(st.sets(st.sampled_from(seqs), min_size=1))
            messages = [self.model.messages[seq] for seq in sorted(chosen)]
            self.do(AddDeliveries(peer, [(message.seq, message.wire_id, message.size) for message in messages]))

    @rule(peer=peers, spans=st.lists(st.tuples(st.integers(1, 200), st.integers(0, 40)), min_size=1, max_size=4))
    def remove_deliveries(self, peer: UUID, spans: list[Span]) -> None:
        self.do(RemoveDeliveries(peer, [(first, first + more) for first, more in spans]))

    @rule(data=st.data())
    def remove_messages(self, data: st.DataObject) -> None:
        owed = self.model.owed_to()
        seqs = [seq for seq in self.model.messages if seq not in owed]
        if seqs:
            chosen = seqs if data.draw(st.booleans()) else data.draw(st.sets(st.sampled_from(seqs), min_size=1))
            self.do(RemoveMessages(spans_of(chosen)))

    @rule(data=st.data(), peer=peers)
    def park(self, data: st.DataObject, peer: UUID) -> None:
        if self.model.queues[peer]:
            self.do(ParkDelivery(peer, data.draw(st.sampled_from(sorted(self.model.queues[peer])))))

    @rule(peer=peers, spans=st.lists(st.tuples(st.integers(1, 60), st.integers(0, 20)), min_size=1, max_size=3))
    def unpark(self, peer: UUID, spans: list[Span]) -> None:
        self.do(UnparkDeliveries(peer, [(first, first + more) for first, more in spans]))

    @rule(peer=peers)
    def unpin(self, peer: UUID) -> None:
        self.do(UnpinPeer(peer))

    @rule(peer=peers)
    def forget(self, peer: UUID) -> None:
        """As a node does: deliveries first, and the messages that nobody else is owed."""
        mine = set(self.model.queues[peer])
        self.do(ForgetPeer(peer))
        orphans = mine - self.model.owed_to().keys()
        if orphans:
            self.do(RemoveMessages(spans_of(orphans)))

    @rule(
        data=st.data(),
        peer=peers,
        channel=names,
        key=names,
        body=st.binary(max_size=40),
        wire_id=st.integers(1, LAST_ID),
        cause=names,
    )
    def add_dead_letter(
        self, data: st.DataObject, peer: UUID, channel: str, key: str, body: bytes, wire_id: int, cause: str
    ) -> None:
        number = data.draw(st.sampled_from((0, self.model.last_letter + 1, self.model.last_letter + 3)))
        self.do(AddDeadLetter(DeadLetter(peer, channel, key, body, wire_id, 20, number, cause=cause)))

    @rule(numbers=st.lists(st.integers(1, 12), min_size=1, max_size=4))
    def remove_dead_letters(self, numbers: list[int]) -> None:
        self.do(RemoveDeadLetters(numbers))

    @rule(
        messages=st.lists(st.tuples(peers, st.integers(1, LAST_ID), checksums), min_size=1, max_size=5),
        keep=st.integers(1, 8),
    )
    def remember_handled(self, messages: list[Handled], keep: int) -> None:
        self.do(RememberHandled(messages, keep))

    @rule(peer=peers, wanted=st.lists(subscriptions, max_size=6, unique=True))
    def replace_peer_subscriptions(self, peer: UUID, wanted: list[Subscription]) -> None:
        self.do(ReplacePeerSubscriptions(peer, wanted))

    @rule(peer=peers, all_of=st.lists(subscriptions, min_size=1, max_size=6, unique=True), count=st.integers(0, 5))
    def hold_peer_subscriptions(self, peer: UUID, all_of: list[Subscription], count: int) -> None:
        self.do(ReplacePeerSubscriptions(peer, all_of[:count], all_of[count:]))

    @rule(told=st.lists(peers, min_size=1, unique=True), subscription=subscriptions, keep=st.booleans())
    def unsubscribes(self, told: list[UUID], subscription: Subscription, keep: bool) -> None:
        self.do((KeepUnsubscribe if keep else ForgetUnsubscribe)(subscription, told))

    @rule(peer=peers, subscription=subscriptions)
    def add_peer_subscription(self, peer: UUID, subscription: Subscription) -> None:
        self.do(AddPeerSubscription(peer, subscription))

    @rule(data=st.data(), peer=peers, other=subscriptions)
    def remove_peer_subscription(self, data: st.DataObject, peer: UUID, other: Subscription) -> None:
        self.do(RemovePeerSubscription(peer, data.draw(st.sampled_from([*sorted(self.model.lists[peer]), other]))))

    @rule(subscription=subscriptions)
    def add_own_subscription(self, subscription: Subscription) -> None:
        self.do(AddOwnSubscription(subscription))

    @rule(data=st.data(), other=subscriptions)
    def remove_own_subscription(self, data: st.DataObject, other: Subscription) -> None:
        self.do(RemoveOwnSubscription(data.draw(st.sampled_from([*sorted(self.model.own), other]))))

    @rule(peer=peers, digest=st.binary(min_size=32, max_size=32))
    def pin_peer(self, peer: UUID, digest: bytes) -> None:
        self.do(PinPeer(peer, digest))

    @rule(peer=peers, name=st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=64))
    def name_peer(self, peer: UUID, name: str) -> None:
        self.do(NamePeer(peer, name))

    @rule(first=st.integers(1, 3) | st.sampled_from((LAST_ID, 2**63, 2**64 - 1)), count=st.integers(0, 2**40))
    def reserve_ids(self, first: int, count: int) -> None:
        self.do(ReserveIds(first, count, keep=4))

    @rule()
    def commit(self) -> None:
        self.flush()

    @rule(committed=st.booleans())
    def restart(self, committed: bool) -> None:
        if committed:
            self.flush()
        self.batch = []
        self.model = deepcopy(self.durable)
        self.model.restart()
        self.store = self.reopen(self.store)
        self.durable = deepcopy(self.model)
        self.seq = self.store.load().next_seq - 1

    @rule()
    def load(self) -> None:
        self.flush()
        loaded, model = self.store.load(), self.model
        assert loaded.own_subscriptions == model.own
        ageless = {
            peer: replace(one, held=dict.fromkeys(one.held, 0.0), unsaid=dict.fromkeys(one.unsaid, 0.0))
            for peer, one in loaded.peers.items()
        }
        assert {peer: ageless.get(peer, LoadedPeer()) for peer in PEERS} == {p: model.peer(p) for p in PEERS}
        assert set(loaded.peers) <= set(PEERS)
        assert list(loaded.id_spans) == model.id_spans
        assert loaded.next_seq > max([*model.messages, *model.owed_to()], default=0)
        assert list(loaded.live_ids) == model.live_ids()
        assert list(loaded.owed) == model.owed()
        assert list(loaded.dead_letters) == [(number, letter.size) for number, letter in model.letters.items()]
        assert loaded.next_letter == model.last_letter + 1
        assert all(older[0] < newer[0] for older, newer in pairwise(loaded.ages))
        if any(queue for queue in model.queues.values()):
            assert loaded.ages[-1][0] >= max(model.owed_to())
        assert list(dict.fromkeys(loaded.handled)) == list(dict.fromkeys(one for _, one in model.handled))

    @rule(peer=peers, after_seq=st.integers(0, 100), max_count=st.integers(1, 50), max_bytes=st.integers(1, 2000))
    def fetch(self, peer: UUID, after_seq: int, max_count: int, max_bytes: int) -> None:
        self.flush()
        expected = self.model.fetch(peer, after_seq, max_count, max_bytes)
        assert self.store.fetch(peer, after_seq, max_count, max_bytes) == expected

    @rule(peer=st.one_of(st.none(), peers), after_seq=st.integers(0, 60), max_count=st.integers(1, 50))
    def find(self, peer: UUID | None, after_seq: int, max_count: int) -> None:
        self.flush()
        found = self.store.find(peer, after_seq, max_count, 0.0)
        expected = self.model.find(peer, after_seq)[:max_count]
        assert [one.seq for one in found] == [seq for _, seq, *_ in expected]
        complete = {seq for _, seq, *_ in expected[:-1]} - {expected[-1][1]} if expected else set()
        rows = {(one.peer, one.seq, one.wire_id, one.size, one.parked, one.channel, one.key) for one in found}
        assert {row for row in rows if row[1] in complete} == {row for row in expected if row[1] in complete}
        assert rows <= set(self.model.find(peer, after_seq))
        assert all(one.age >= 0.0 for one in found)
        assert self.store.find(peer, after_seq, max_count, 1e6) == []

    @rule(max_count=st.integers(1, 50))
    def expiring(self, max_count: int) -> None:
        self.flush()
        due = self.model.due
        rows = [row for peer in PEERS for row in self.model.find(peer, 0) if row[1] in due]
        soonest = sorted(due[row[1]] for row in rows)
        assert self.store.load().expires_in == (pytest.approx(soonest[0], abs=1000.0) if rows else None)
        found = self.store.expiring(max_count)
        assert [one.expires_in for one in found] == pytest.approx(soonest[:max_count], abs=1000.0)
        assert all(one.expires_in == pytest.approx(due[one.seq], abs=1000.0) for one in found)
        listed = {(one.peer, one.seq, one.wire_id, one.size, one.parked, one.channel, one.key) for one in found}
        assert len(listed) == len(found)
        assert listed <= set(rows)

    @rule(after_number=st.integers(0, 6), max_count=st.integers(1, 6))
    def dead_letters(self, after_number: int, max_count: int) -> None:
        self.flush()
        letters = [replace(one, failed_at=0.0) for one in self.store.dead_letters(after_number, max_count)]
        assert letters == [one for one in self.model.letters.values() if one.number > after_number][:max_count]
