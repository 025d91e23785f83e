"""Check of last values in a simulation (P-30).

A new subscriber gets the last value of each name once, and then changes. The check reads the commits: the kept values,
the entries that a peer's list lacked before, and the messages stored for each peer.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from uuid import UUID

from .._common.owner_ids import VALUES
from .._node.store import (
    AddPeerSubscription,
    ForgetPeer,
    Operation,
    RemoveDeliveries,
    RemovePeerSubscription,
    ReplacePeerSubscriptions,
    StoreMessages,
)
from .._node.subscriptions import matching
from .._wire.events import Subscription
from .invariants import check

CHANNEL = "r"
"""Channel on which only retained values are sent."""
Name = tuple[str, str]
Lists = defaultdict[UUID, set[Subscription]]


class _Commit:
    """Rows and subscriptions in one commit that concern last values."""

    def __init__(self) -> None:
        self.rows: Counter[tuple[UUID, Name, bytes]] = Counter()  # messages that were stored for a peer
        self.new: Lists = defaultdict(set)  # entries that a peer's list lacked before
        self.held: Lists = defaultdict(set)  # entries that were held (T-61): new ones, if the hold had ended


class ValueLedger:
    """Checker of last values (P-30): keeps the values that one instance has retained over all its lives, and the lists
    of its peers in its store, and checks each commit against them."""

    def __init__(self) -> None:
        self.newest: dict[Name, bytes] = {}
        self.excused: set[tuple[UUID, bytes]] = set()  # values that a peer lacks for want of room (P-35)
        self.damaged: set[bytes] = set()  # values that cannot be read from the disk (P-36)
        self.given = 0
        self._number: dict[bytes, int] = {}  # number of each value, in the order of the calls
        self._last: dict[Name, int] = {}  # number of the last stored value, kept or not
        self._lists: Lists = defaultdict(set)
        self._held: Lists = defaultdict(set)
        self._waiting: defaultdict[UUID, dict[int, bytes]] = defaultdict(dict)  # deliveries of values, by seq

    def retained(self, body: bytes) -> None:
        """Notes a value that the application retains."""
        self._number[body] = len(self._number)

    def applied(self, operations: Sequence[Operation], may_skip: bool) -> None:
        """Checks a commit that was applied: each peer gets each value as often as it must. With `may_skip` some may be
        missing: the node has counted values that it did not store, as a peer's quota was used up.
        """
        newest, last = dict(self.newest), dict(self._last)
        commit = _Commit()
        queued = {peer: {*bodies.values()} for peer, bodies in self._waiting.items()}  # values not to be queued again
        for operation in operations:
            if isinstance(operation, StoreMessages):
                self._store(operation, commit)
            else:
                self._change_lists(operation, commit)
        for (peer, name, body), count in commit.rows.items():
            is_change = self._number[body] > last.get(name, -1)
            is_newest = is_change or body == newest.get(name)  # a change is the newest one until the next
            is_given = is_newest and _match(name, commit.new[peer] | commit.held[peer])
            text = "{} is stored {} times for {}, which is {} times too often (P-30)"
            check(count <= is_change + is_given, text, body, count, peer, count - is_change - is_given)
            self.given += is_given
        for peer in {**commit.new, **commit.held}:
            for name, body in self.newest.items():
                if commit.rows[peer, name, body] or body in queued.get(peer, ()):
                    continue
                may_lack = may_skip or body in self.damaged
                if _match(name, commit.new[peer]):
                    check(may_lack, "{} subscribes anew, and is not given {} (P-31)", peer, body)
                if may_lack and _match(name, commit.new[peer] | commit.held[peer]):
                    self.excused.add((peer, body))

    def _store(self, operation: StoreMessages, commit: _Commit) -> None:
        for message, recipients in zip(operation.messages, operation.recipients, strict=True):
            if message.channel == CHANNEL:
                name = message.channel, message.key
                for peer in recipients:
                    self._waiting[peer][message.seq] = message.body
                    if peer == VALUES:
                        self.newest[name] = message.body
                    else:
                        commit.rows[peer, name, message.body] += 1
                self._is_stored(name, message.body)

    def _is_stored(self, name: Name, body: bytes) -> None:
        self._last[name] = max(self._last.get(name, -1), self._number[body])

    def _change_lists(self, operation: Operation, commit: _Commit) -> None:
        if isinstance(operation, ReplacePeerSubscriptions):
            self._hears(operation.peer, {*operation.subscriptions}, commit)
            self._lists[operation.peer] = {*operation.subscriptions}
            self._held[operation.peer] = {*operation.held}
        elif isinstance(operation, AddPeerSubscription):
            self._hears(operation.peer, {operation.subscription}, commit)
            self._lists[operation.peer].add(operation.subscription)
            self._held[operation.peer].discard(operation.subscription)
        elif isinstance(operation, RemovePeerSubscription):
            for lists in (self._lists, self._held, commit.new):
                lists[operation.peer].discard(operation.subscription)
        elif isinstance(operation, RemoveDeliveries):
            waiting = self._waiting[operation.peer]
            for first, last in operation.spans:
                for seq in [seq for seq in waiting if first <= seq <= last]:
                    body = waiting.pop(seq)
                    if operation.peer == VALUES:
                        self.newest = {name: kept for name, kept in self.newest.items() if kept != body}
        elif isinstance(operation, ForgetPeer):
            self._waiting.pop(operation.peer, None)
            for lists in (self._lists, self._held, commit.new):
                lists.pop(operation.peer, None)

    def _hears(self, peer: UUID, wanted: set[Subscription], commit: _Commit) -> None:
        lacked = wanted - self._lists[peer]
        commit.held[peer] |= lacked & self._held[peer]
        commit.new[peer] |= lacked - self._held[peer]


def _match(name: Name, subscriptions: set[Subscription]) -> bool:
    return not subscriptions.isdisjoint(matching(*name))
