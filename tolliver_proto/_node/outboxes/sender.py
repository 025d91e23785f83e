"""Sends of the application: routed, checked, and put into the next commit.

State: `blocked`, the sends that wait inside, in order. Everything else is in other files: the routes, the quota, the
ledger, the batch and the windows of connecting peers.

Invariants: a message is routed once, when its send is stored; from then on the message is a row, an id, and for each
recipient a number in the outbox. A send stores all its messages or none: whatever may raise comes before the first
change. Sends are stored in the order of the calls: a send goes behind the blocked ones. A blocked send waits for one of
three: a window of a connecting peer (T-62), space on disk (D-13), or a search for deliveries to drop (D-10).

`send` is the short way of one message without conditions; everything else goes through `store`. Rejected: a lookup of
the quota for each send, as `is_tight` is a comparison, and only an outbox that is nearly full is looked at closely.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import count, groupby
from typing import NamedTuple
from uuid import UUID

from ..._common.arguments import Unchecked, check_count, check_seconds
from ..._common.errors import (
    ConnectionClosing,
    LocalProtocolError,
    OwnLimitExceeded,
    TolliverError,
    TooFewRecipients,
    UndeliveredReason,
)
from ..._common.intervals import spans_of
from ..._common.reserved import is_envelope
from ..._wire.frames import Encoder
from ..actions import NoticeKind, Receipt, Rider, Stored
from ..commits.batch import Batch
from ..commits.commits import Commits
from ..context import Context
from ..link import Link, Peer, Recipients
from ..sizes import Item, Sizes
from ..store import StoredMessage
from .connect_windows import Owner
from .drop_oldest import Share
from .expiry import Expiry
from .ledger import Ledger
from .quota import QuotaRoom, shares_of
from .routing import Routing, count_subscribed

To = UUID | Collection[UUID] | None
"""The peer, or the peers, that may get a message; None is every subscriber (P-25)."""


class Terms(NamedTuple):
    """Conditions of one send, kept while the send is blocked. `expire_after` is in seconds."""

    required: int = 0
    to: frozenset[UUID] | None = None
    expire_after: float | None = None


def terms_of(required: Unchecked, to: To, expire_after: Unchecked) -> Terms:
    """Checks the arguments of a send, `required` recipients among them, and returns them as Terms; `expire_after` is in
    seconds. Raises TypeError and ValueError.
    """
    check_count("require_recipients", required)
    if expire_after is not None:
        check_seconds("expire_after", expire_after)
    return Terms(required, None if to is None else uuids_of(to), expire_after)


def uuids_of(to: object) -> frozenset[UUID]:
    """Returns the peers of a `to`. Raises TypeError for all but UUIDs, a text included."""
    if isinstance(to, UUID):
        return frozenset((to,))
    if isinstance(to, (str, bytes)) or not isinstance(to, Collection) or not all(isinstance(one, UUID) for one in to):
        raise TypeError(f"to={to!r:.100} names no peer: give its UUID, or a collection of UUIDs")
    return frozenset(to)


_NOBODY: frozenset[UUID] = frozenset()


class Sender:
    """Accepts the application's sends: routes them, checks limits, and stores reliable messages in the batch."""

    def __init__(
        self,
        context: Context,
        sizes: Sizes,
        commits: Commits,
        routing: Routing,
        ledger: Ledger,
        room: QuotaRoom,
        expiry: Expiry,
    ) -> None:
        self._context = context
        self._limits = context.limits
        self._policy = context.policy
        self._counts = context.counts
        self._actions = context.actions
        self._peers = context.peers
        self._hooks = context.hooks
        self._sizes = sizes
        self._commits = commits
        self._routing = routing
        self._ledger = ledger
        self._room = room
        self._expiry = expiry
        self.blocked: deque[tuple[list[Item], Receipt, Terms]] = deque()
        self.held_up: int = 0  # reasons of patterns for which sends wait (P-96)

    def send(
        self,
        channel: Unchecked,
        key: Unchecked,
        body: Unchecked,
        now: float | None = None,
        *,
        require_recipients: Unchecked = 0,
        to: To = None,
        expire_after: Unchecked = None,
    ) -> Receipt:
        """Stores one message for every subscriber; the arguments are those of `send_many`, which gets one item."""
        self._context.tick(now)
        has_terms = require_recipients != 0 or to is not None or expire_after is not None
        if (
            self._ledger.keeping
            or self.blocked
            or self.held_up
            or self._commits.apart
            or self._context.closing
            or has_terms
            or self._context.foreign
        ):
            item = (channel, key, body)
            return self.send_many((item,), require_recipients=require_recipients, to=to, expire_after=expire_after)
        size = self._sizes.size(channel, key, body)
        recipients = self._routing.routes.match(channel, key)
        for peer in recipients.peers:
            if self._room.quota.is_tight(peer.outbox, 1, size):
                return self.send_many(((channel, key, body),))
        count = len(recipients.peers)
        receipt = Receipt(self._ledger.next_seq, self._ledger.next_seq - 1, [count])
        receipt.recipients = count
        if not count and self._hooks.keeps:
            return self.send_many(((channel, key, body),))
        if not count:
            self._tell_nobody(receipt, [channel])
            self._actions.append(Stored([receipt]))
            return receipt
        message = StoredMessage(self._ledger.next_seq, self._ledger.ids.take(), channel, key, body, size)
        self._ledger.take_in((message,), recipients, False)
        for peer in recipients.peers:
            peer.outbox.add(1, size)
        self._ledger.hold_receipt(receipt, 1)
        return receipt

    def send_many(
        self,
        items: Iterable[Item],
        now: float | None = None,
        *,
        require_recipients: Unchecked = 0,
        to: To = None,
        expire_after: Unchecked = None,
        receipt: Receipt | None = None,
    ) -> Receipt:
        """Stores messages, all or none, each for every subscriber. `Stored` names the receipt, a new one or `receipt`.

        `to` names the only peers that may get the messages (P-25); those that do not subscribe get none. Messages that
        are unacknowledged `expire_after` seconds after the commit are given up, after a restart too (P-27).

        Raises, before anything changes, TypeError, ValueError, ReservedChannel (T-27), LocalProtocolError (also for a
        peer in `to` whose layout has no acks), OwnLimitExceeded (T-06, T-07), OutboxFull (D-10), ConnectionClosing, and
        TooFewRecipients if a message has fewer than `require_recipients` recipients. The send waits inside while the
        share of a connecting peer is full (T-62), the disk is full (D-13), or a search looks for deliveries to drop
        (D-10).
        """
        self._context.tick(now)
        if self._context.closing:
            raise ConnectionClosing("the instance is closing: nothing was stored")
        items = list(items)
        sizes = self._sizes.sizes(items)
        receipt, terms = receipt or Receipt(0, -1, []), terms_of(require_recipients, to, expire_after)
        for uuid in terms.to or ():
            if uuid in self._peers and not self._peers[uuid].outbox.takes_reliable:
                raise LocalProtocolError(
                    "not_reliable",
                    f"peer {uuid} speaks a layout without acknowledgements, so no message can be reliable for it: use "
                    "unreliable_send",
                )
        if self._context.foreign:
            self._tell_one_way(items, terms)
        passes = isinstance(receipt, Rider) and receipt.passes
        if (not passes and (self.blocked or self.must_wait())) or not self.store(items, sizes, receipt, terms):
            self.blocked.append((items, receipt, terms))
        return receipt

    def unreliable_send(
        self, channel: Unchecked, key: Unchecked, body: Unchecked, now: float | None = None, *, to: To = None
    ) -> int:
        """Sends to the connected subscribers without storing; returns their number.

        A message is dropped for a peer whose buffer is above high water (T-55). `to` is as in `send_many`. Raises
        TypeError, ReservedChannel (T-27), LocalProtocolError and OwnLimitExceeded (T-06, T-07).
        """
        if now is not None:
            self._context.tick(now)
        try:
            is_known = (channel, key) in self._sizes.pair_sizes
        except TypeError:  # of a name that has no hash
            is_known = False
        if not is_known or type(body) is not bytes or len(body) > self._limits.max_body:
            self._sizes.size(channel, key, body)  # remembers new names, or raises
        marked: Encoder | None = None
        frame = b""  # encoded by `marked`, which peers mostly share
        sent = 0
        high_water = self._limits.high_water
        peers = (
            self._routing.routes.match(channel, key)
            if to is None
            else self._routing.narrow(channel, key, uuids_of(to), True)
        ).peers
        if self._context.foreign:
            peers = self._with_foreign(peers, channel, key, body, to is None)
        for peer in peers:
            link = peer.link
            connection = link.connection if link is not None else None
            if link is None or connection is None or (peer.lists.kept_back and peer.lists.holds(channel, key)):
                continue
            if connection.unsent_bytes + link.in_transit >= high_water or not connection.live:
                self._counts["unreliable_dropped"] += 1
                continue
            if connection.encoder is not marked:
                marked, frame = connection.encoder, connection.unreliable_frame(channel, key, body)
            connection.send_encoded(frame)
            self._context.writable[link] = None
            sent += 1
        self._counts["unreliable_sent"] += sent
        return sent

    def _with_foreign(
        self, peers: tuple[Peer, ...], channel: str, key: str, body: bytes, to_all: bool
    ) -> tuple[Peer, ...]:
        """Returns `peers` and those whose layout has unreliable messages only; `to_all` is False for a send with a
        `to`. Raises OwnLimitExceeded, before anything is sent, if the layout of any peer cannot carry the message.
        """
        if to_all:
            peers += self._routing.one_way.match(channel, key).peers
        for link in self._context.foreign:
            if link.peer in peers and link.connection is not None:
                try:
                    link.connection.unreliable_frame(channel, key, body)
                except OwnLimitExceeded as error:
                    raise OwnLimitExceeded(
                        error.code,
                        f"peer {link.peer.uuid} cannot be sent it: {error.detail}. Split it, or name the others with "
                        "`to`; nothing was sent",
                    ) from error
        return peers

    def _tell_one_way(self, items: Iterable[Item], terms: Terms) -> None:
        """Reports subscribers whose layout has no acks: they do not get these reliable messages."""
        if terms.to is not None:
            return
        missed: Counter[Peer] = Counter()
        for channel, key, _ in items:
            missed.update(self._routing.one_way.match(channel, key).peers)
        for peer, times in missed.items():
            self._context.tally.add(
                NoticeKind.NOT_RELIABLE,
                peer.uuid,
                times,
                "reliable messages that it subscribes to were not for this peer, whose layout has no "
                "acknowledgements: it gets what is sent with unreliable_send",
                self._context.now,
            )

    def store_at_once(self, items: Sequence[Item], receipt: Receipt) -> bool:
        """Stores messages, if each has a recipient, and none has to wait or makes a quota tight. Else returns False and
        changes nothing. Raises like `send_many`.
        """
        if self.blocked or self.must_wait() or self._context.foreign:
            return False
        sizes, routed = self._sizes.sizes(items), self._routing.routes.match_all(items)
        if not all(one.peers for one in routed) or self._is_tight(shares_of(routed, sizes)):
            return False
        return self.store(items, sizes, receipt, Terms())

    def _is_tight(self, shares: Mapping[Peer, Share]) -> bool:
        return any(self._room.quota.is_tight(peer.outbox, *share) for peer, share in shares.items())

    def store(self, items: Sequence[Item], sizes: Sequence[int], receipt: Receipt, terms: Terms) -> bool:
        """Stores a send in the batch; returns False if the send must wait until a search has found room."""
        routed: Sequence[Recipients] = (
            self._routing.routes.match_all(items) if terms.to is None else self._routing.narrow_all(items, terms.to)
        )
        rider = receipt if isinstance(receipt, Rider) else None
        subscribed = routed
        if self._hooks.keeps and terms.to is None and (rider is None or rider.keeps):
            routed = self._with_keepers(items, routed)
        if rider is not None and not rider.check(self._may_wait(routed, terms)):
            return True
        _check_recipients(items, subscribed, terms.required)
        matched, shares = routed, shares_of(routed, sizes)
        room = None
        if not (rider is not None and rider.passes) and self._is_tight(shares):
            room = self._room.find_room(routed, sizes, shares, partial(self._on_room, receipt))
            if room is None:
                return False
            routed, shares = room.routed, room.shares
            _check_recipients(items, routed, terms.required)
        # Not for retained values, which a connecting peer gets by its subscribe, nor for an empty `to`.
        is_kept = (
            bool(self._ledger.keeping)
            and (rider is None or (rider.keeps and any(one.peers for one in routed)))
            and terms.to != _NOBODY
            and self._look_at_windows(len(items))
        )
        stored = [at for at, recipients in enumerate(routed) if recipients.peers or is_kept]  # T-53
        numbers = zip(count(self._ledger.next_seq), self._ledger.ids.take_many(len(stored)), strict=False)
        if room is not None:
            self._room.use_room(room, receipt)
        receipt.counts += [len(recipients.peers) for recipients in routed]
        receipt.recipients = len({peer for recipients in set(routed) for peer in recipients.peers})
        receipt.first_seq = self._ledger.next_seq
        for recipients, run in groupby(stored, routed.__getitem__):
            messages = [
                StoredMessage(seq, wire_id, *items[at], sizes[at])
                for at, (seq, wire_id) in zip(run, numbers, strict=False)
            ]
            is_for_window = is_kept and not _is_kept_by_channel(recipients)
            self._ledger.take_in(messages, recipients, is_for_window, terms.expire_after)
            if is_for_window:
                self._ledger.keeping.add(messages, recipients, terms.to)
        for peer, share in shares.items():
            peer.outbox.add(*share)
        if room is not None:
            self._room.look_at_filling(shares)
        if room is not None and is_kept:  # a skipped peer must not claim the message as a connecting one
            for seq, peers in enumerate(room.skipped, receipt.first_seq):
                for peer in peers:
                    self._ledger.keeping[seq].exclude(peer)
        if rider is not None:
            rider.ride()
        if not is_kept and terms.to != _NOBODY and (rider is None or rider.keeps):
            self._tell_nobody(receipt, [items[at][0] for at, found in enumerate(matched) if not found.peers])
        if stored:
            self._ledger.hold_receipt(receipt, len(stored))
            if terms.expire_after is not None:
                self._expiry.look_at_due(terms.expire_after)
        elif rider is not None and not rider.keeps:
            receipt.last_seq = self._ledger.next_seq - 1
            self._commits.batch.tokens.append(receipt)
        else:
            receipt.last_seq = self._ledger.next_seq - 1
            self._actions.append(Stored([receipt]))
        return True

    def _with_keepers(self, items: Sequence[Item], routed: Sequence[Recipients]) -> Sequence[Recipients]:
        """Returns the recipients, with the owner of what the channel keeps for a message that nobody gets (P-95)."""
        keeping: dict[str, Recipients | None] = {}
        found = []
        for (channel, _, _), recipients in zip(items, routed, strict=True):
            if not recipients.peers and channel not in keeping:
                owners = (pattern.keeps(channel) for pattern in self._hooks.keeps)
                keeping[channel] = next((one for one in owners if one is not None), None)
            found.append(recipients if recipients.peers else keeping[channel] or recipients)
        return found

    def _may_wait(self, routed: Sequence[Recipients], terms: Terms) -> bool:
        """True if messages with these recipients have none, and a peer that is connecting may become one (T-62)."""
        is_wide = terms.to != _NOBODY and not terms.required
        return is_wide and self._ledger.keeping.open > 0 and not any(one.peers for one in routed)

    def _tell_nobody(self, receipt: Receipt, channels: Iterable[str]) -> None:
        """Reports messages without recipients, which are not kept (T-53); not a reply to a requester that left."""
        channels = [channel for channel in channels if not is_envelope(channel)]
        if channels:
            receipt.give_up(None, UndeliveredReason.NO_RECIPIENTS, len(channels))
            self.count_nobody(channels)

    def count_nobody(self, channels: Sequence[str]) -> None:
        self._counts["no_recipients"] += len(channels)
        self._context.tally.add(
            NoticeKind.NO_RECIPIENTS,
            None,
            len(channels),
            "messages that were to be stored had no recipients and are not kept, the last one on "
            f"{channels[-1]!r:.100}: no peer that is known here subscribes to it. Wait until one does "
            "(wait_subscribed), or send with require_recipients=1 to have an error (T-53)",
            self._context.now,
        )

    def _on_room(self, receipt: Receipt, error: TolliverError | None) -> None:
        """Stores the sends that waited for a search for room; after an error the send of `receipt` fails."""
        if error is not None and self.blocked and self.blocked[0][1] is receipt:
            self.blocked.popleft()
            self._actions.append(Stored([receipt], error))
        self.unblock()

    def _look_at_windows(self, count: int) -> bool:
        """Reports the windows of connecting peers that have no room for `count` more messages; returns True if any
        window is open."""
        for owner in self._ledger.keeping.close_full(self._ledger.next_seq):
            self.count_not_kept(owner, count)
        return self._ledger.keeping.open > 0

    def count_not_kept(self, owner: Owner, count: int) -> None:
        link = owner if isinstance(owner, Link) else None
        whom = owner if link is None else link.identity.address if link.remote is None else link.remote
        self._counts["not_kept"] += count
        self._context.tally.add(
            NoticeKind.NOT_KEPT,
            link.peer.uuid if link is not None and link.peer is not None else None,
            count,
            f"messages were not kept for {whom}, which is connecting, as {self._ledger.keeping.size} bytes are "
            "kept: what it subscribes to only now it will not get of these (T-62)",
            self._context.now,
        )

    def must_wait(self) -> bool:
        return self._commits.apart or self._keeps_enough()

    @property
    def is_held(self) -> bool:
        """True if a send would wait inside now, also if the disk had room."""
        return bool(self.blocked) or self._keeps_enough()

    def _keeps_enough(self) -> bool:
        return self.held_up > 0 or self._ledger.keeping.keeps_enough(self._policy.strict_block)

    def hold_up(self) -> None:
        """Has all sends wait inside until `let_go` was called as often (P-96)."""
        self.held_up += 1

    def let_go(self) -> None:
        self.held_up -= 1
        self.unblock()

    def unblock(self) -> None:
        """Stores the blocked sends, in order, unless messages go into commits of their own (disk full)."""
        if not self._commits.apart:
            self.store_blocked()

    def store_blocked(self) -> None:
        """Stores the blocked sends, and those of patterns."""
        self._store_sends()
        for pattern in self._hooks.room_is_back:
            pattern.room_is_back()

    def _store_sends(self) -> None:
        """Stores blocked sends, up to the first that must wait for a connecting peer or for a search."""
        while self.blocked and not self._keeps_enough():
            items, receipt, terms = self.blocked[0]
            try:
                if not self.store(items, self._sizes.sizes(items), receipt, terms):
                    return
            except TolliverError as error:
                self._actions.append(Stored([receipt], error))
            self.blocked.popleft()

    def take_back(self, batch: Batch) -> None:
        """Takes back the messages of a failed commit: ids, owners, and places in the windows of connecting peers."""
        for recipients, messages in batch.runs:
            size = sum(message.size for message in messages)
            for peer in recipients.peers:
                peer.outbox.add(-len(messages), -size)
        lost = [message for operation in batch.stored for message in operation.messages]
        ids = {message.seq: message.wire_id for message in lost}
        self._ledger.keeping.take_back(lost)
        linked = [*self._commits.batch.linked]
        self._commits.batch.linked.clear()
        for peer, claimed in linked:  # claimed by a peer in the meantime
            self._ledger.unlink_kept(peer, claimed)
            self._ledger.link_kept(peer, [kept for kept in claimed if kept.message.seq not in ids])
        for first, last in spans_of(ids):
            self._ledger.refcounts.drop(first, last)
        self._ledger.ids.give_back(spans_of(ids.values()))
        for receipt in batch.tokens:
            receipt.unacked = receipt.later = 0
            self._ledger.unwatch(receipt)
        for pattern in self._hooks.left:
            for recipients, messages in batch.runs:
                for peer in recipients.peers:
                    pattern.left(peer, [one.seq for one in messages])

    @property
    def waits_alone(self) -> bool:
        """True if messages wait for a commit of their own (D-13), and the next commit may be that one."""
        # Checked only while commits are split (disk full): the check is too slow for the idle path.
        if not self._commits.batch.empty:
            return False
        is_blocked = bool(self.blocked) and not (self._keeps_enough() or self._commits.room_searches.busy)
        return is_blocked or any(pattern.waits() for pattern in self._hooks.waits)

    def fail_blocked(self, error: TolliverError) -> None:
        """Fails the blocked sends with `error`, as even a commit without messages had no space on disk."""
        if self.blocked and not (self._keeps_enough() or self._commits.room_searches.busy):
            self._actions.append(Stored([receipt for _, receipt, _ in self.blocked], error))
            self.blocked.clear()
        for pattern in self._hooks.no_room:
            pattern.no_room(error)


def _is_kept_by_channel(recipients: Recipients) -> bool:
    return bool(recipients.peers) and recipients.peers[0].is_owner


def _check_recipients(items: Sequence[Item], routed: Sequence[Recipients], required: int) -> None:
    """Raises TooFewRecipients if a message has fewer than the required recipients."""
    for (channel, key, _), recipients in zip(items, routed, strict=True) if required else ():
        found = count_subscribed(recipients, channel, key)
        if found < required:
            raise TooFewRecipients(channel, key, required, found)
