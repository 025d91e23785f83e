"""Last values of names, for new subscribers (P-30 to P-36).

The newest value of each name is kept, and given once to each new subscriber. A value goes to current subscribers like
any reliable message, and the same commit keeps it: as a message owed to an owner that is no peer, in place of the
message with the older value. An entry that a peer's list lacked before is new: before the list counts, the matching
values are read, and the commit that stores the list stores them as messages for that peer. So they come before any
later message, and a crash leaves both or neither. During that time nothing else is read from the peer.

A receiver that keeps values in memory alone has none after a restart, and its list lacks nothing. It asks again by one
more entry, whose key is new each time: for its channel the whole of the list counts as new (P-37). Any other
implementation sees a subscription to a key that nobody uses.

Rejected: to end the subscription and begin it anew, as what waits for it would be dropped; and to owe the kept message
itself to subscribers, as a peer that subscribes again would take it for a copy (T-48), and `wait_acked` would wait for
the owner.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from heapq import nsmallest
from itertools import accumulate
from uuid import UUID

from .._common.arguments import check_count, check_type
from .._common.errors import ConnectionClosing, LocalProtocolError, OwnLimitExceeded, ReservedChannel, TolliverError
from .._common.owner_ids import VALUES
from .._common.records import record
from .._common.reserved import is_envelope
from .._node.actions import GoOn, NoticeKind, Receipt, Rider, Stored
from .._node.link import Link, Peer
from .._node.node import Node
from .._node.pattern import Pattern
from .._node.services import Services
from .._node.store import Row
from .._wire.events import Subscription
from .value_copies import ValueCopies
from .value_index import Name, Reading, ValueIndex


@record
class RetainedValue:
    """A value that is kept (P-30). `stored_at` is wall-clock seconds, by the store's clock."""

    channel: str
    key: str
    body: bytes
    stored_at: float = 0.0

    @property
    def size(self) -> int:
        """Bytes of channel, key and body, as `Limits.max_retained_bytes` counts them."""
        return len(self.channel.encode()) + len(self.key.encode()) + len(self.body)


class ValueList(Receipt):
    """Result of a call that lists values: `values` is set once the action Stored names this object."""

    __slots__ = ("values",)

    def __init__(self) -> None:
        super().__init__(0, -1, [])
        self.values: list[RetainedValue] = []


class Retention(Rider):
    """Receipt of a `retain`, with its change of the value: `size` is None if the name is cleared."""

    __slots__ = ("_values", "body", "name", "size")

    def __init__(self, values: LastValues, name: Name, body: bytes | None, size: int | None) -> None:
        super().__init__(0, -1, [])
        self._values, self.name, self.body, self.size = values, name, body, size

    def check(self, may_wait: bool) -> bool:
        excess = None if self.size is None else self._values.index.excess(self.name, self.size)
        if excess is not None:
            channel, key = self.name
            raise OwnLimitExceeded(
                "too_many",
                f"retaining {channel!r:.100} {key!r:.100} would make {excess} (P-35). Clear some with "
                "retain(channel, key, None), or raise Limits.max_retained or max_retained_bytes",
            )
        return True

    def ride(self) -> None:
        self._values.index.change(self.name, self.body, self.size)
        self._values.copies.changes(self.name, self.first_seq)


class Giving:
    """State of giving last values to one peer: its new subscriptions, and the values for them, which are read, then
    stored in the commit of its list."""

    __slots__ = ("go_on", "is_ready", "queued", "reading", "storing", "uuid", "waiting", "wanted")

    def __init__(self, uuid: UUID, wanted: frozenset[Subscription], go_on: GoOn) -> None:
        self.uuid, self.wanted, self.go_on = uuid, wanted, go_on
        self.reading: Reading  # once the copies that wait are known
        self.queued: dict[Name, int] = {}  # seqs of copies in the peer's outbox
        self.is_ready = False  # its list takes effect now
        self.storing = False
        self.waiting: list[GoOn] = []  # other lists of this peer that wait


AGAIN = "tolliver.values="
"""Prefix of the key of a subscription that asks for the values of its channel again; random digits are behind it."""

_DAMAGED = "retained values failed their checksums and are left out: retain them again (P-36)"
_plain = str.__str__
"""Returns a plain str of a subclass, such as an enumeration: no code of the application runs while values are read."""


def _matcher(wanted: Collection[Subscription]) -> Callable[[Name], bool]:
    """Returns a test whether a name matches one of these: in few steps, as each name is tested (T-24)."""
    channels = {one.channel for one in wanted if not one.key}
    keys = {one.key for one in wanted if not one.channel}
    if ("", "") in wanted:
        return lambda _name: True
    return lambda name: name in wanted or name[0] in channels or name[1] in keys


def _question(number: int) -> str:
    return f"{AGAIN}{number:08x}"


def _asked_for(new: frozenset[Subscription], listed: frozenset[Subscription]) -> frozenset[Subscription]:
    """Returns the new entries of a list, and those `listed` ones whose values they ask for again (P-37). The routes
    leave out what the list loses meanwhile."""
    channels = {one.channel for one in new if one.key.startswith(AGAIN)}
    if not channels:
        return new
    if "" in channels:
        return listed
    wide = [one.key for one in listed if not one.channel]
    again = {Subscription(channel, key) for channel in channels for key in wide}
    return new.union(again, (one for one in listed if one.channel in channels))


class LastValues(Pattern):
    """Pattern that keeps the newest value of each channel and key, and gives it to new subscribers."""

    def __init__(self, node: Node, services: Services) -> None:
        self._node, self._kernel, self._limits = node, services, services.limits
        most, size = self._limits.max_retained, self._limits.max_retained_bytes
        self.index: ValueIndex = ValueIndex(services, VALUES, most, size, _DAMAGED)
        self.copies: ValueCopies = ValueCopies(services)
        self._givings: dict[UUID, Giving] = {}
        self._early: deque[Retention] = deque()  # in order: they wait until the index is known
        self._ready: deque[tuple[Giving, TolliverError | None]] = deque()  # givings whose values are read

    @staticmethod
    def is_stored(services: Services) -> bool:
        """True if the store has values that an earlier opening of the database has kept."""
        return VALUES in services.peers and services.peers[VALUES].outbox.pending > 0

    def stats(self) -> Mapping[str, int]:
        return {"retained": self.index.count, "retained_bytes": self.index.bytes}

    def unsent(self) -> Collection[Receipt]:
        return self._early

    def busy(self) -> bool:
        return bool(self._givings or self._early or self.index.is_read)

    # The application's calls.

    def retain(self, channel: str, key: str, body: bytes | None, now: float | None = None) -> Receipt:
        """Sends this value to current subscribers and keeps it for later ones, in place of the previous value.

        None clears the name and sends nothing. `Stored` names the receipt, which is that of the send. Raises as `send`
        does, and OwnLimitExceeded above `Limits.max_retained` or `max_retained_bytes`. Until the values of an earlier
        run are known, which is soon after the opening, `Stored` has the error.
        """
        self._kernel.tick(now)
        if self._node.closing:
            raise ConnectionClosing("the instance is closing: nothing was stored")
        self._kernel.size(channel, key, b"" if body is None else body)
        if is_envelope(channel):
            raise ReservedChannel("reserved_channel", f"{channel!r:.100} is for requests and replies: choose another")
        size = None if body is None else self._kernel.name_size(channel) + self._kernel.name_size(key) + len(body)
        change = Retention(self, (channel, key), body, size)
        if self.index.is_known:
            self._send(change)
        else:
            self._early.append(change)
            self.index.when_known(self._send_early)
        return change

    def _send(self, change: Retention) -> None:
        self._kernel.send_with(change, [] if change.body is None else [(*change.name, change.body)])

    def _send_early(self, error: TolliverError | None) -> None:
        change = self._early.popleft()
        try:
            if error is not None:
                raise error
            self._send(change)
        except TolliverError as failure:
            self._kernel.tell(Stored([change], failure))

    def retained(
        self,
        after: Name | None = None,
        count: int = 1000,
        channel: str | None = None,
        now: float | None = None,
        clock: float = 0.0,
    ) -> ValueList:
        """Lists the first `count` stored values after the name `after`, by name, of one channel if given.

        Returns a token, whose `values` are set once Stored names it. `clock` is the wall-clock time at second 0 of the
        node, for `stored_at`. A damaged value is left out.
        """
        self._kernel.tick(now)
        if after is not None:
            if not (isinstance(after, tuple) and len(after) == 2 and all(isinstance(one, str) for one in after)):
                raise TypeError(f"after={after!r:.100}: give the last name seen, a tuple (channel, key), or None")
            after = _plain(after[0]), _plain(after[1])
        check_count("count", count)
        if channel is not None:
            check_type("channel", channel, str, "the name of a channel, or None for all")
            channel = _plain(channel)
        token, entries = ValueList(), self.index.entries

        def wants(name: Name) -> bool:
            return channel in (None, name[0]) and (after is None or name > after)

        def names() -> list[Name]:
            return nsmallest(count, filter(wants, entries))

        def done(error: TolliverError | None) -> None:
            bodies, reading.bodies = reading.bodies, {}  # the cycle of this function and the reading would keep them
            for name in names() if error is None else ():
                body = bodies[entries[name].seq]
                if body is not None:
                    token.values.append(RetainedValue(*name, body, entries[name].stored_at + clock))
            self._kernel.tell(Stored([token], error))

        reading = Reading(wants, names, done)
        self.index.begin(reading)
        return token

    def ask_again(self, channel: str, now: float | None = None) -> Receipt:
        """Asks every peer, now or when it connects, for the values of this channel that it keeps and we subscribe to.

        They come as if we had just subscribed; "" asks for those of all channels. `Stored` names the receipt. Raises
        LocalProtocolError if nothing of the channel is subscribed to, and like `Node.subscribe`.
        """
        self._kernel.tick(now)
        if self._node.closing:
            raise ConnectionClosing("the instance is closing: nothing was asked")
        self._kernel.check(channel, "")
        own = [one for one in self._kernel.own if one.channel in (channel, "") or not channel]
        asked = [one for one in own if one.key.startswith(AGAIN)]
        if len(asked) == len(own):
            raise LocalProtocolError(
                "not_subscribed", f"nothing of the channel {channel!r:.100} is subscribed to: subscribe first (P-37)"
            )
        number = int(self._kernel.rng.random() * 2**32)
        if Subscription(channel, _question(number)) in asked:
            number ^= 1
        receipt = self._node.subscribe(channel, _question(number))
        for one in asked:
            if one.channel == channel:
                self._node.unsubscribe(*one)
        return receipt

    def rows(self, owner: UUID, rows: Sequence[Row], error: TolliverError | None) -> bool:
        if owner == VALUES:
            self.index.rows(rows, error)
        return owner == VALUES

    def forgets(self, peer: Peer) -> None:
        """Implements `Pattern.forgets`: raises LocalProtocolError for the owner of the values."""
        if peer.uuid == VALUES:
            raise LocalProtocolError(
                "last_values", f"{peer.uuid} is the owner of the last values: clear names, retain(channel, key, None)"
            )

    # Values for a peer that subscribes anew.

    def before_list(self, link: Link, uuid: UUID, wanted: frozenset[Subscription], go_on: GoOn) -> bool:
        """Implements `Pattern.before_list`: delays the list until the values for its new entries are read (P-31)."""
        giving = self._givings.get(uuid)
        known = self._kernel.peers.get(uuid)
        listed = frozenset[Subscription]() if known is None else known.lists.subscriptions
        new = wanted if known is None else wanted - listed - (known.lists.held.keys() - known.lists.unlisted)
        new = _asked_for(new, wanted.union(listed))
        if giving is not None:
            if giving.is_ready and new <= giving.wanted:  # else more is new, as a hold has ended meanwhile (T-61)
                return False
            giving.waiting.append(go_on)
        elif new and self.index:
            giving = self._givings[uuid] = Giving(uuid, new, go_on)
            self.copies.find(known, giving.queued, partial(self._read, giving))
        else:
            return False
        return True

    def with_list(self, peer: Peer) -> bool:
        giving = self._givings.get(peer.uuid)
        return giving is not None and giving.is_ready and self._give_values(peer, giving)

    def rerouted(self, peer: Peer) -> None:
        self.copies.rerouted(peer)

    def left(self, peer: Peer, seqs: Collection[int]) -> None:
        self.copies.left(peer, seqs)

    def _room_of(self, peer: Peer | None) -> tuple[int, int]:
        """Returns number and bytes of the messages that fit the peer's outbox now (None: of a new peer); none while the
        disk is full.
        """
        if self._kernel.apart:
            return 0, 0
        pending, size = (0, 0) if peer is None else (peer.outbox.pending, peer.outbox.pending_bytes)
        return max(self._limits.outbox_messages - pending, 0), self._limits.outbox_bytes - size

    def _read(self, giving: Giving, error: TolliverError | None = None) -> None:
        giving.reading = Reading(_matcher(giving.wanted), partial(self._fitting, giving), partial(self._give, giving))
        if error is None:
            self.index.begin(giving.reading)
        else:
            self._give(giving, error)

    def _names(self, giving: Giving, peer: Peer | None) -> list[Name]:
        """Names of the values to give, in order, without damaged values, and without those that wait for the peer
        already."""
        names = self.index.names(giving.reading)
        if peer is not None and giving.queued:
            queued, is_queued = giving.queued, self.copies.is_queued
            names = [name for name in names if not is_queued(peer, name, queued.get(name, 0))]
        return names

    def _fitting(self, giving: Giving) -> Sequence[Name]:
        peer = self._kernel.peers.get(giving.uuid)
        names = self._that_fit(self._names(giving, peer), peer)
        return [name for name in names if name not in self.index.changes]

    def _that_fit(self, names: Sequence[Name], peer: Peer | None) -> Sequence[Name]:
        most, room = self._room_of(peer)
        sizes = accumulate(self.index.message_size(name) for name in names)
        return names[: min(bisect_right([*sizes], room), most)]

    def _give(self, giving: Giving, error: TolliverError | None) -> None:
        """Continues with the list that was delayed until values were read, in the next turn: with nothing to read, this
        is called before the list waits.
        """
        self._ready.append((giving, error))
        self._kernel.ask_turn(self)

    def turn(self) -> None:
        giving, error = self._ready.popleft()
        if self._ready:
            self._kernel.ask_turn(self)
        giving.is_ready = True
        giving.go_on(error)
        giving.is_ready = False
        if not giving.storing:
            self._end_giving(giving)

    def _end_giving(self, giving: Giving, _error: TolliverError | None = None) -> None:
        """Lets later lists of the peer be delayed again, as this one is done."""
        del self._givings[giving.uuid]
        giving.reading.bodies.clear()  # up to the peer's quota: the cycle of giving and reading would keep them
        for go_on in giving.waiting:
            go_on(None)

    def _give_values(self, peer: Peer, giving: Giving) -> bool:
        """Stores the values that the peer may have as messages, in the commit of its list. Returns False if there are
        none."""
        wanted = self._kernel.wanted_by(peer, [(*name, b"") for name in self._names(giving, peer)])
        names = [(channel, key) for channel, key, _ in wanted]
        bodies = ((name, self.index.body_of(name, giving.reading)) for name in self._that_fit(names, peer))
        items = [(*name, body) for name, body in bodies if body is not None]
        left_out = len(names) - len(items)
        if left_out:
            self._kernel.counts["skipped"] += left_out
            text = "retained values were not given to this peer, as it is at its quota, or the disk is full (P-35)"
            self._kernel.tally(NoticeKind.SKIPPED, peer.uuid, left_out, text, self._kernel.now)
        if not items:
            return False
        sizes = [self._kernel.encoded_size(*item) for item in items]
        self.copies.add(peer, self._kernel.store_for([(peer.alone, len(items))], items, sizes, None))
        self._kernel.look_at_filling([peer])
        giving.storing = True
        self._kernel.after_commit(partial(self._end_giving, giving))
        return True
