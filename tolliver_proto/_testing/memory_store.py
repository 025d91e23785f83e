"""In-memory store with atomic commits.

State: the rows of a database as dicts and sets of Python. Invariants: a commit is checked first and applied after, so
that a failed commit changes no row; a delivery has its message. The object survives a simulated crash: `reopen` the
store, make a new node from `load()` and go on.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from .._common.errors import DiskFull, StoreError
from .._common.intervals import spans_of
from .._common.owner_ids import LATER, is_keeper
from .._node.message_set import Handled
from .._node.store import (
    DUE,
    STORING,
    AddDeadLetter,
    AddDeliveries,
    AddOwnSubscription,
    AddPeerSubscription,
    CorruptMessage,
    DeadLetter,
    Due,
    ForgetPeer,
    ForgetUnsubscribe,
    Found,
    IdSpan,
    KeepUnsubscribe,
    Loaded,
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
    Row,
    StoredMessage,
    StoreMessages,
    UnparkDeliveries,
    UnpinPeer,
)
from .._node.subscriptions import matching
from .._wire.events import Subscription


class _Peer:
    """Rows of the store about one peer: the seqs that it is owed, in order, the parked ones, its subscriptions, its
    pinned key and its name.
    """

    def __init__(self) -> None:
        self.seqs: list[int] = []
        self.parked: set[int] = set()
        self.subscriptions: set[Subscription] = set()
        self.held: dict[Subscription, float] = {}
        self.unsaid: dict[Subscription, float] = {}
        self.spki_sha256: bytes | None = None
        self.name = ""

    def copy(self) -> _Peer:
        other = _Peer()
        other.seqs = list(self.seqs)
        other.parked = set(self.parked)
        other.subscriptions = set(self.subscriptions)
        other.held = dict(self.held)
        other.unsaid = dict(self.unsaid)
        other.spki_sha256 = self.spki_sha256
        other.name = self.name
        return other

    def holds(self, message: StoredMessage) -> bool:
        pairs = matching(message.channel, message.key)
        return self.subscriptions.isdisjoint(pairs) and not self.held.keys().isdisjoint(pairs)

    def add(self, seq: int) -> None:
        at = bisect_right(self.seqs, seq)
        if at == 0 or self.seqs[at - 1] != seq:
            self.seqs.insert(at, seq)

    def remove(self, first: int, last: int) -> None:
        start, stop = bisect_right(self.seqs, first - 1), bisect_right(self.seqs, last)
        self.parked.difference_update(self.seqs[start:stop])
        del self.seqs[start:stop]


class MemoryStore:
    """A `Store` in memory, for tests. `fail_next_commit` and `fail_next_fetch` make one call raise; `corrupt` damages a
    row.

    While the store is `full`, commits that store messages raise DiskFull: all other commits use a reserve (D-13). While
    it is `spent`, every commit raises DiskFull.

    `next_id` has no effect: ids begin at a fresh place at every opening (T-40).
    """

    def __init__(self, next_id: int | None = None) -> None:  # older programs give `next_id`
        self.commits: int = 0
        self.fail_next_commit: StoreError | None = None
        self.fail_next_fetch: StoreError | None = None
        self.full = self.spent = False
        self._messages: dict[int, StoredMessage] = {}
        self._corrupt: set[int] = set()
        self._held: set[int] = set()
        self._peers: dict[UUID, _Peer] = {}
        self._own: set[Subscription] = set()
        self._letters: dict[int, DeadLetter] = {}
        self._last_letter = 0
        self._handled: dict[int, Handled] = {}
        self._last_handled = 0
        self.age: float = 0.0
        """Age of all rows in seconds, for `find` and `load`."""
        self.now: float = 0.0
        """The store's clock in seconds, for expiry; the driver of the store sets it."""
        self.wall: float = 0.0
        """Seconds by which the wall clock is ahead of `now`, for `Due.not_before`."""
        self._due: dict[int, float] = {}
        self._later: dict[int, Due] = {}  # `after` counts from second 0 of `now` here
        self._next_seq = 1
        self._id_spans: list[IdSpan] = []
        self._apply: dict[type, Callable[[Any], None]] = {
            StoreMessages: self._store_messages,
            AddDeliveries: self._add_deliveries,
            RemoveDeliveries: self._remove_deliveries,
            RemoveMessages: self._remove_messages,
            ParkDelivery: self._park,
            ReplacePeerSubscriptions: self._replace_list,
            AddPeerSubscription: self._add_to_list,
            RemovePeerSubscription: self._remove_from_list,
            KeepUnsubscribe: self._keep_unsubscribe,
            ForgetUnsubscribe: self._forget_unsubscribe,
            AddOwnSubscription: lambda op: self._own.add(op.subscription),
            RemoveOwnSubscription: lambda op: self._own.discard(op.subscription),
            PinPeer: self._pin,
            UnparkDeliveries: self._unpark,
            UnpinPeer: self._unpin,
            NamePeer: self._name,
            ForgetPeer: self._forget_peer,
            AddDeadLetter: self._add_letter,
            RemoveDeadLetters: self._remove_letters,
            RememberHandled: self._remember,
            ReserveIds: self._reserve,
        }

    # For a node.

    def load(self) -> Loaded:
        """Returns the stored state."""
        owed = Counter(seq for peer in self._peers.values() for seq in peer.seqs)
        runs: list[tuple[int, int, int]] = []
        for seq, count in sorted(owed.items()):
            if runs and runs[-1][1] == seq - 1 and runs[-1][2] == count:
                runs[-1] = (runs[-1][0], seq, count)
            else:
                runs.append((seq, seq, count))
        return Loaded(
            frozenset(self._own),
            {uuid: self._load_peer(peer) for uuid, peer in self._peers.items()},
            self._next_seq,
            spans_of(self._messages[seq].wire_id for seq in owed),
            runs,
            list(self._handled.values()),
            [(number, letter.size) for number, letter in self._letters.items()],
            self._last_letter + 1,
            list(self._id_spans),
            min((self._due[seq] - self.now for seq in owed.keys() & self._due.keys()), default=None),
            [(max(self._messages), self.age)] if self._messages else [],
        )

    def commit(self, operations: Sequence[Operation]) -> None:
        """Applies all operations in order, or none. Raises StoreError."""
        error, self.fail_next_commit = self.fail_next_commit, None
        if error is not None:
            raise error
        if self.spent or (self.full and any(isinstance(operation, STORING) for operation in operations)):
            raise DiskFull("no space is left: nothing was stored")
        self._check(operations)
        for operation in operations:
            self._apply[type(operation)](operation)
        self.commits += 1

    def fetch(self, peer: UUID, after_seq: int, max_count: int, max_bytes: int) -> list[Row]:
        """Returns the peer's deliveries above `after_seq` that are not parked, in order: at most `max_count`, and their
        bodies at most `max_bytes`, but for the first. Raises StoreError.
        """
        error, self.fail_next_fetch = self.fail_next_fetch, None
        if error is not None:
            raise error
        rows: list[Row] = []
        known = self._peers.get(peer, _Peer())
        room = max_bytes
        seqs = known.seqs[bisect_right(known.seqs, after_seq) :]
        if peer == LATER and after_seq == DUE:
            seqs = [one.seq for one in self.later(len(known.seqs)) if one.expires_in <= 0]
        for seq in seqs:
            message = self._messages[seq]
            if seq in known.parked or known.holds(message):
                continue
            if rows and (len(rows) >= max_count or message.size > room):
                break
            rows.append(CorruptMessage(seq, message.wire_id, message.size) if seq in self._corrupt else message)
            room -= message.size
        return rows

    def find(self, peer: UUID | None, after_seq: int, max_count: int, min_age: float) -> list[Found]:
        """Returns deliveries to `peer`, or with None to all peers, by seq: at most `max_count`, those above `after_seq`
        that were stored `min_age` seconds ago or before.
        """
        if self.age < min_age:
            return []
        rows = [
            (seq, uuid, seq in known.parked)
            for uuid, known in self._peers.items()
            if peer == uuid or (peer is None and not is_keeper(uuid))
            for seq in known.seqs[bisect_right(known.seqs, after_seq) :]
        ]
        return [
            Found(uuid, seq, one.wire_id, one.size, parked, self.age, one.channel, one.key)
            for seq, uuid, parked in sorted(rows)[:max_count]
            for one in (self._messages[seq],)
        ]

    def expiring(self, max_count: int) -> list[Found]:
        """Returns the deliveries with an expiry of their own, at most `max_count`, the soonest first."""
        rows = sorted(
            (self._due[seq], seq, uuid) for uuid, known in self._peers.items() for seq in known.seqs if seq in self._due
        )
        return [
            Found(uuid, seq, one.wire_id, one.size, parked, self.age, one.channel, one.key, due - self.now)
            for due, seq, uuid in rows[:max_count]
            for one, parked in ((self._messages[seq], seq in self._peers[uuid].parked),)
        ]

    def later(self, max_count: int) -> list[Found]:
        """Returns the deliveries that wait for their time, at most `max_count`, the soonest first."""
        rows = sorted((self._due_in(seq), seq) for seq in self._peers.get(LATER, _Peer()).seqs)
        return [
            Found(LATER, seq, one.wire_id, one.size, False, self.age, one.channel, one.key, seconds)
            for seconds, seq in rows[:max_count]
            for one in (self._messages[seq],)
        ]

    def _due_in(self, seq: int) -> float:
        due = self._later[seq]
        return due.after - self.now if due.not_before is None else due.not_before - self.now - self.wall

    def dead_letters(self, after_number: int, max_count: int) -> list[DeadLetter]:
        """Returns the dead letters with a number above `after_number`, at most `max_count`, in order."""
        return [letter for number, letter in self._letters.items() if number > after_number][:max_count]

    # For a test.

    def corrupt(self, seq: int) -> None:
        """Damages the row of the message `seq`: its checksum is wrong from now on (V9)."""
        self._corrupt.add(seq)

    def reopen(self) -> MemoryStore:
        """Opens the store as after a restart: messages kept for connecting peers that no peer is owed are dropped
        (T-62)."""
        owed = {seq for peer in self._peers.values() for seq in peer.seqs}
        for seq in self._held - owed:
            self._forget(seq)
        self._held.clear()
        return self

    def snapshot(self) -> MemoryStore:
        """Returns a second store with the rows that are committed now, as a crash would leave them."""
        copy = MemoryStore()
        copy.commits = self.commits
        copy._messages = dict(self._messages)
        copy._corrupt = set(self._corrupt)
        copy._held = set(self._held)
        copy._peers = {uuid: peer.copy() for uuid, peer in self._peers.items()}
        copy._own = set(self._own)
        copy._letters = dict(self._letters)
        copy._last_letter = self._last_letter
        copy._handled = dict(self._handled)
        copy._last_handled = self._last_handled
        copy.age = self.age
        copy.now = self.now
        copy.wall = self.wall
        copy._due = dict(self._due)
        copy._later = dict(self._later)
        copy._next_seq = self._next_seq
        copy._id_spans = list(self._id_spans)
        return copy

    @property
    def messages(self) -> list[StoredMessage]:
        """All messages, by seq."""
        return [self._messages[seq] for seq in sorted(self._messages)]

    @property
    def own_subscriptions(self) -> frozenset[Subscription]:
        return frozenset(self._own)

    def deliveries(self, peer: UUID) -> list[int]:
        """Returns the seqs that the peer is owed, parked ones included."""
        return list(self._peers[peer].seqs) if peer in self._peers else []

    def owed(self, peer: UUID) -> set[bytes]:
        """Returns the bodies that the peer is owed, parked ones included."""
        return {self._messages[seq].body for seq in self.deliveries(peer)}

    def held(self) -> set[bytes]:
        """Returns the bodies that are kept for connecting peers (T-62)."""
        return {self._messages[seq].body for seq in self._held}

    def set_aside(self, peer: UUID) -> list[bytes]:
        """Returns the bodies that are parked for the peer."""
        return [self._messages[seq].body for seq in self._peers.get(peer, _Peer()).parked]

    # Private parts.

    def _check(self, operations: Sequence[Operation]) -> None:
        """Raises StoreError for operations that cannot be applied: a delivery without its message, a seq that is
        taken."""
        stored = set(self._messages)
        for operation in operations:
            if isinstance(operation, StoreMessages):
                seqs = [message.seq for message in operation.messages]
                if not stored.isdisjoint(seqs):
                    raise StoreError(f"messages {seqs} contain one that is stored already: nothing was stored")
                stored.update(seqs)
            elif isinstance(operation, AddDeliveries):
                missing = {seq for seq, _, _ in operation.deliveries} - stored
                if missing:
                    raise StoreError(f"deliveries of messages {sorted(missing)}, which are not stored")

    def _peer(self, uuid: UUID) -> _Peer:
        return self._peers.setdefault(uuid, _Peer())

    def _load_peer(self, peer: _Peer) -> LoadedPeer:
        seqs = [seq for seq in peer.seqs if seq not in peer.parked]
        return LoadedPeer(
            frozenset(peer.subscriptions),
            peer.spki_sha256,
            len(seqs),
            sum(self._messages[seq].size for seq in seqs),
            seqs[-1] if seqs else 0,
            len(peer.parked),
            sum(self._messages[seq].size for seq in peer.parked),
            {one: self.age - since for one, since in peer.held.items()},
            {one: self.age - since for one, since in peer.unsaid.items()},
            seqs[0] if seqs else 0,
            peer.name,
        )

    def _store_messages(self, operation: StoreMessages) -> None:
        for message, recipients in zip(operation.messages, operation.recipients, strict=True):
            self._messages[message.seq] = message
            self._next_seq = max(self._next_seq, message.seq + 1)
            for uuid in recipients:
                self._peer(uuid).add(message.seq)
            if not recipients:
                self._held.add(message.seq)
            if operation.expire_after is not None:
                self._due[message.seq] = self.now + operation.expire_after
            if operation.due is not None:
                self._later[message.seq] = replace(operation.due, after=self.now + operation.due.after)
        self._held.update(operation.held)

    def _add_deliveries(self, operation: AddDeliveries) -> None:
        for seq, _, _ in operation.deliveries:
            self._peer(operation.peer).add(seq)

    def _remove_deliveries(self, operation: RemoveDeliveries) -> None:
        for first, last in operation.spans:
            self._peer(operation.peer).remove(first, last)

    def _remove_messages(self, operation: RemoveMessages) -> None:
        for first, last in operation.spans:
            for seq in range(first, last + 1):
                self._forget(seq)

    def _forget(self, seq: int) -> None:
        self._messages.pop(seq, None)
        self._corrupt.discard(seq)
        self._held.discard(seq)
        self._due.pop(seq, None)
        self._later.pop(seq, None)

    def _park(self, operation: ParkDelivery) -> None:
        peer = self._peer(operation.peer)
        peer.parked.update({operation.seq}.intersection(peer.seqs))

    def _unpark(self, operation: UnparkDeliveries) -> None:
        parked = self._peer(operation.peer).parked
        for first, last in operation.spans:
            parked.difference_update(range(first, last + 1))

    def _unpin(self, operation: UnpinPeer) -> None:
        self._peer(operation.peer).spki_sha256 = None

    def _name(self, operation: NamePeer) -> None:
        self._peer(operation.peer).name = operation.name

    def _forget_peer(self, operation: ForgetPeer) -> None:
        self._peers.pop(operation.peer, None)
        self._handled = {number: one for number, one in self._handled.items() if one[0] != operation.peer}

    def _add_letter(self, operation: AddDeadLetter) -> None:
        number = operation.letter.number or self._last_letter + 1
        self._last_letter = max(self._last_letter, number)
        self._letters[number] = replace(operation.letter, number=number)

    def _remove_letters(self, operation: RemoveDeadLetters) -> None:
        for number in operation.numbers:
            self._letters.pop(number, None)

    def _remember(self, operation: RememberHandled) -> None:
        for one in operation.messages:
            self._peer(one[0])
            self._last_handled += 1
            self._handled[self._last_handled] = one
        for number in [number for number in self._handled if number <= self._last_handled - operation.keep]:
            del self._handled[number]

    def _replace_list(self, operation: ReplacePeerSubscriptions) -> None:
        peer = self._peer(operation.peer)
        peer.subscriptions = set(operation.subscriptions)
        peer.held = {one: peer.held.get(one, self.age) for one in operation.held}

    def _add_to_list(self, operation: AddPeerSubscription) -> None:
        peer = self._peer(operation.peer)
        peer.subscriptions.add(operation.subscription)
        peer.held.pop(operation.subscription, None)

    def _remove_from_list(self, operation: RemovePeerSubscription) -> None:
        peer = self._peer(operation.peer)
        peer.subscriptions.discard(operation.subscription)
        peer.held.pop(operation.subscription, None)

    def _keep_unsubscribe(self, operation: KeepUnsubscribe) -> None:
        for uuid in operation.peers:
            self._peer(uuid).unsaid.setdefault(operation.subscription, self.age)

    def _forget_unsubscribe(self, operation: ForgetUnsubscribe) -> None:
        for uuid in operation.peers:
            if uuid in self._peers:
                self._peers[uuid].unsaid.pop(operation.subscription, None)

    def _pin(self, operation: PinPeer) -> None:
        self._peer(operation.peer).spki_sha256 = operation.spki_sha256

    def _reserve(self, operation: ReserveIds) -> None:
        if self._id_spans and self._id_spans[-1][0] == operation.first:
            self._id_spans.pop()
        self._id_spans.append((operation.first, operation.count))
        del self._id_spans[: -operation.keep]
