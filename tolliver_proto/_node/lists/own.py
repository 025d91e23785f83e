"""Our own subscriptions, and what each peer is told of them.

An explicit unsubscribe is repeated to each peer until the peer acknowledges it, so that the peer does not hold the
subscription for us (T-61).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from ..._common.arguments import Unchecked
from ..._common.derived_ids import is_derived
from ..._common.errors import LocalProtocolError, OwnLimitExceeded, TolliverError
from ..._common.transport import Role
from ..._wire.connection import Connection
from ..._wire.dialect import Dialect
from ..._wire.events import HandshakeResponse, HandshakeStatus, Subscription
from ..._wire.frames import encoder
from ..._wire.layouts import LAYOUTS
from ..actions import Receipt
from ..commits.commits import Commits
from ..context import Context
from ..link import Link, Peer
from ..outboxes.expiry import Expiry
from ..outboxes.ids import IdAllocator
from ..sizes import Sizes
from ..store import AddOwnSubscription, ForgetUnsubscribe, KeepUnsubscribe, Loaded, RemoveOwnSubscription
from .control_sync import ControlSync

UNSAID_FOR = 24 * 3600.0
"""Seconds for which an unsubscribe is repeated to a peer that has not acknowledged it (T-61)."""
_MOST_UNSAID = 10_000


class OwnList:
    """The subscriptions of this instance, which every peer is told, and the bounds of their list."""

    def __init__(self, context: Context, sizes: Sizes, commits: Commits, expiry: Expiry, loaded: Loaded) -> None:
        self._context = context
        self._limits = context.limits
        self._peers = context.peers
        self._hooks = context.hooks
        self._sizes = sizes
        self._commits = commits
        self._expiry = expiry
        self.entries: dict[Subscription, None] = dict.fromkeys(sorted(loaded.own_subscriptions))
        answer = HandshakeResponse(context.version, context.instance_id, HandshakeStatus.SAME_VERSION)
        self._bytes = len(context.encoder.encode(answer)) + sum(map(sizes.entry_size, self.entries))
        self._more_for_head = self._more_for_entry = 0  # bytes that the largest foreign layout adds
        for dialect in context.dialects.values():
            self.check_revision(dialect)

    def check_revision(self, dialect: Dialect) -> None:
        """Checks that the layout of this dialect fits our limits and our list.

        Raises ValueError if the layout cannot carry the longest name or body of our limits, and OwnLimitExceeded if
        our list of subscriptions is too long in this layout (T-19).
        """
        if dialect.revision is None or dialect.revision is self._context.revision:
            return
        layout, foreign = LAYOUTS[dialect.revision], encoder(dialect.revision)
        sizes = foreign.max_sizes
        if layout.has_acks and (min(sizes[:2]) < self._limits.max_name or sizes[2] < self._limits.max_body):
            raise ValueError(
                f"{dialect.revision!r} carries names of {min(sizes[:2])} and bodies of {sizes[2]} bytes: set "
                "Limits.max_name and Limits.max_body to no more, so that nothing waits for its peers in vain"
            )
        head = layout.response.size - LAYOUTS[self._context.revision].response.size
        more_for_head = max(self._more_for_head, head)
        more_for_entry = max(self._more_for_entry, foreign.entry_overhead - self._context.encoder.entry_overhead)
        size = self._bytes + more_for_head + more_for_entry * len(self.entries)
        if layout.has_lists and size > self._limits.max_handshake:
            raise OwnLimitExceeded(
                "too_many",
                f"{len(self.entries)} subscriptions of {size} bytes in the layout {dialect.revision!r}: its peers "
                f"refuse a list over {self._limits.max_handshake} bytes (T-19). Use wildcards",
            )
        if layout.has_lists:
            self._more_for_head, self._more_for_entry = more_for_head, more_for_entry

    def _keep_unsubscribe(self, subscription: Subscription, peers: Iterable[Peer]) -> None:
        """Stores, for those of these peers that may know the subscription, that it has ended, until each acknowledges.

        One that is not in the store yet has its turn when it is connected, see `insist`.
        """
        known = [peer for peer in peers if peer.lists.stored and not (peer.derived or peer.is_owner)]
        room = _MOST_UNSAID - sum(len(peer.lists.unsaid) for peer in self._peers.values())
        wanted = [peer for peer in known if not (peer.links.forgotten or subscription in peer.lists.unsaid)]
        chosen = wanted[: max(0, room)]
        for peer in chosen:
            self._set_unsaid(peer, subscription, self._context.now + UNSAID_FOR)
        if chosen:
            self._commits.batch.operations.append(KeepUnsubscribe(subscription, [peer.uuid for peer in chosen]))

    def forget_unsubscribe(self, subscription: Subscription, peers: Iterable[Peer]) -> None:
        """Stops repeating the unsubscribe to these peers: acknowledged, subscribed again, or too old."""
        told = [peer for peer in peers if subscription in peer.lists.unsaid]
        for peer in told:
            self._set_unsaid(peer, subscription, None)
        if told:
            self._commits.batch.operations.append(ForgetUnsubscribe(subscription, [peer.uuid for peer in told]))

    def unsubscribe_acked(self, subscription: Subscription, link: Link) -> None:
        """Stops repeating the unsubscribe to the peer of this link, unless another connection has told the peer that we
        want the subscription: the peer may read that last.
        """
        peer = link.peer
        assert peer is not None
        links = [one for one in self._context.links.values() if one.peer is None or one.peer.uuid == peer.uuid]
        if not any(one.lists.control is not None and one.lists.control.tells(subscription) for one in links):
            self.forget_unsubscribe(subscription, [peer])

    def _set_unsaid(self, peer: Peer, subscription: Subscription, until: float | None) -> None:
        undo = partial(_say_until, peer, subscription, peer.lists.unsaid.get(subscription))
        self._commits.batch.undo.setdefault(("unsaid", peer, subscription), undo)
        self._expiry.watch_clock()
        _say_until(peer, subscription, until)

    def begin(self, link: Link, connection: Connection, ids: IdAllocator) -> ControlSync:
        """Starts to tell the peer our list over this connection."""
        link.lists.control = ControlSync(connection, ids)
        return link.lists.control

    def down(self, link: Link) -> None:
        """Gives back the ids of control messages on the ended connection. Once its transport is gone, repeats the
        unsubscribes that it may have contradicted, as the peer may have read it last (T-61).
        """
        control = link.lists.control
        if control is None:
            return
        control.drop()
        if link.cid in self._context.links:
            return
        if link.peer is not None:
            listeners = [self._peers.get(link.peer.uuid)]
        else:  # a client tells its list before the peer has said who it is, a server does not
            listeners = [*self._peers.values()] if link.role is Role.CLIENT else []
        for peer in filter(None, listeners):
            self._say_again(peer, [one for one in peer.lists.unsaid if control.tells(one)])

    def _say_again(self, peer: Peer, unsaid: list[Subscription]) -> None:
        """Repeats these unsubscribes on the live connection of the peer, if there is one."""
        if peer.link is None or peer.link.lists.control is None:
            return
        peer.link.lists.control.insist(unsaid)
        for subscription in sorted(unsaid):
            self.sync_control(peer.link, subscription)

    def insist(self, link: Link, peer: Peer) -> None:
        """Repeats the unacknowledged unsubscribes on a new connection, and those of its list meanwhile; forgets the
        outdated ones.
        """
        for one in [
            one for one, until in peer.lists.unsaid.items() if until <= self._context.now or one in self.entries
        ]:
            self.forget_unsubscribe(one, [peer])
        control = link.lists.control
        assert control is not None
        for one in sorted(control.differing(self.entries)):
            if one not in self.entries:
                self._keep_unsubscribe(one, [peer])
        control.insist(peer.lists.unsaid)

    def subscribe(self, channel: Unchecked, key: Unchecked, now: float | None = None) -> Receipt:
        """Subscribes to this channel and key at all peers, across restarts (T-31). `Stored` names the receipt."""
        self._context.tick(now)
        subscription = self._sizes.checked(channel, key)
        if is_derived(self._context.instance_id):
            raise LocalProtocolError(
                "write_only",
                f"{self._context.instance_id} is a derived identity, which peers let write and nothing else (T-72a): "
                "subscribe in an instance with a UUID of its own",
            )
        if subscription not in self.entries:
            self.check_list((subscription,))
        self.forget_unsubscribe(subscription, list(self._peers.values()))
        receipt = self._store_own(AddOwnSubscription(subscription), True)
        for pattern in self._hooks.own_changed:
            pattern.own_changed(subscription)
        return receipt

    def check_list(self, new: Sequence[Subscription]) -> None:
        """Raises OwnLimitExceeded if our list with the new subscriptions is too long (T-19)."""
        count, size = len(self.entries) + len(new), self._bytes + sum(map(self._sizes.entry_size, new))
        size += self._more_for_head + self._more_for_entry * count
        if count > self._limits.max_subscriptions or size > self._limits.max_handshake:
            raise OwnLimitExceeded(
                "too_many",
                f"{count} subscriptions of {size} bytes: peers refuse a list over {self._limits.max_subscriptions} or "
                f"{self._limits.max_handshake} bytes (T-19). Use wildcards",
            )

    def unsubscribe(self, channel: Unchecked, key: Unchecked, now: float | None = None) -> Receipt:
        """Removes exactly this subscription (T-26); a missing one is no error. `Stored` names the receipt."""
        self._context.tick(now)
        subscription = self._sizes.checked(channel, key)
        if subscription in self.entries:
            self._keep_unsubscribe(subscription, self._peers.values())
        return self._store_own(RemoveOwnSubscription(subscription), False)

    def _store_own(self, operation: AddOwnSubscription | RemoveOwnSubscription, wanted: bool) -> Receipt:
        subscription = operation.subscription
        undo = partial(self.set_own, subscription, subscription in self.entries)
        self._commits.batch.undo.setdefault(("own", subscription), undo)
        self.set_own(subscription, wanted)
        receipt = Receipt(0, -1, [])
        self._commits.batch.operations.append(operation)
        self._commits.batch.tokens.append(receipt)
        self._commits.batch.then.append(partial(self.sync_own, subscription))
        return receipt

    def set_own(self, subscription: Subscription, wanted: bool) -> None:
        if (subscription in self.entries) is wanted:
            return
        if wanted:
            self.entries[subscription] = None
        else:
            del self.entries[subscription]
            for peer in self._peers.values():
                peer.inbox.withheld.pop(subscription, None)
        self._bytes += self._sizes.entry_size(subscription) * (1 if wanted else -1)
        self._context.judgements.clear()

    def sync_own(self, subscription: Subscription, _error: TolliverError | None) -> None:
        """Tells every connected peer that our list changed (T-23)."""
        for link in self._context.up.values():
            self.sync_control(link, subscription)

    def sync_control(self, link: Link, subscription: Subscription) -> None:
        if link.lists.control is None or link.connection is None or not link.connection.live:
            return
        wire_id = link.lists.control.sync(subscription, subscription in self.entries)
        if wire_id is not None:
            self.say_control(link, wire_id)

    def say_control(self, link: Link, wire_id: int) -> None:
        link.sending.gathered.append(wire_id)
        self._context.writable[link] = None

    def subscriptions(self) -> list[Subscription]:
        """Our subscriptions, as the next handshake lists them."""
        return list(self.entries)


def _say_until(peer: Peer, subscription: Subscription, until: float | None) -> None:
    if until is None:
        peer.lists.unsaid.pop(subscription, None)
    else:
        peer.lists.unsaid[subscription] = until
