"""Routes: the peers that get a message, by its channel and key."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from ..._wire.layouts import LAYOUTS
from ..context import Context
from ..link import Peer, Recipients
from ..sizes import Item
from ..subscriptions import Routes, matching


class Routing:
    """Finds the recipients of a message: the permitted subscriptions of the peers, by channel and key (I6)."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._peers = context.peers
        self._hooks = context.hooks
        self.routes: Routes[Peer, Recipients] = Routes(Recipients)
        self.one_way: Routes[Peer, Recipients] = Routes(Recipients)  # of peers whose layout has no acks

    def load(self, peer: Peer) -> None:
        """Makes the routes to a peer of the store, in the layout that the peer is known to speak."""
        peer.outbox.takes_reliable = LAYOUTS[self._context.revision_of(peer.uuid)].has_acks
        self.reroute(peer)

    def reroute(self, peer: Peer) -> None:
        """Routes the peer's permitted subscriptions (D-4), and none of a peer that is being forgotten (T-77)."""
        wanted = (
            frozenset() if peer.links.forgotten or peer.is_owner else peer.lists.subscriptions.union(peer.lists.held)
        )
        routed = self._context.acl.rights(peer.uuid).granted(wanted)
        routes = self.routes if peer.outbox.takes_reliable else self.one_way
        for subscription in peer.outbox.routed - routed:
            routes.discard(subscription, peer)
        for subscription in routed - peer.outbox.routed:
            routes.add(subscription, peer)
        peer.outbox.routed = routed
        self.on_move(peer)
        for pattern in self._hooks.rerouted:
            pattern.rerouted(peer)

    def set_takes_reliable(self, peer: Peer, takes: bool) -> None:
        """Sets whether the layout that the peer speaks now has acks (`takes`), and moves the peer to the routes of
        reliable or of unreliable messages.
        """
        if peer.outbox.takes_reliable is takes:
            return
        routes, others = (self.one_way, self.routes) if takes else (self.routes, self.one_way)
        for subscription in peer.outbox.routed:
            routes.discard(subscription, peer)
            others.add(subscription, peer)
        peer.outbox.takes_reliable = takes
        self.on_move(peer)

    def on_move(self, peer: Peer) -> None:
        """Wakes all that waits for a peer: this one connected, left, or changed its list."""
        self._context.moved[peer] = None
        for pattern in self._hooks.peer_moved:
            pattern.peer_moved(peer)

    def subscribed(self, channel: str, key: str, is_connected: bool = False) -> int:
        """Returns the number of peers that a reliable message would go to now, as `require_recipients` counts them;
        with `is_connected`, only the connected ones."""
        recipients = self.routes.match(channel, key)
        return len(connected(recipients, channel, key)) if is_connected else count_subscribed(recipients, channel, key)

    def narrow(self, channel: str, key: str, to: frozenset[UUID], unreliable: bool = False) -> Recipients:
        """Returns those of the peers `to` that subscribe to reliable, or with `unreliable` to unreliable, messages of
        these names: one step for each of `to`, not for each subscriber.
        """
        pairs, known = matching(channel, key), self._peers
        peers = [known[uuid] for uuid in to if uuid in known and not known[uuid].outbox.routed.isdisjoint(pairs)]
        if not unreliable:
            peers = [peer for peer in peers if peer.outbox.takes_reliable]
        return peers[0].alone if len(peers) == 1 else Recipients(tuple(peers))

    def narrow_all(self, items: Sequence[Item], to: frozenset[UUID]) -> Sequence[Recipients]:
        """Returns the recipients of each item among the peers `to`. Equal ones are one object, so that runs stay
        runs.
        """
        found: dict[tuple[str, str], Recipients] = {}
        same: dict[tuple[Peer, ...], Recipients] = {}
        for channel, key, _ in items:
            if (channel, key) not in found:
                recipients = self.narrow(channel, key, to)
                found[channel, key] = same.setdefault(recipients.peers, recipients)
        return [found[channel, key] for channel, key, _ in items]


def count_subscribed(recipients: Recipients, channel: str, key: str) -> int:
    """Returns the number of recipients that subscribe now: a held subscription may never come back (T-61)."""
    return sum(not peer.lists.holds(channel, key) for peer in recipients.peers)


def connected(recipients: Recipients, channel: str, key: str) -> list[Peer]:
    """Returns the recipients to whom the message may be sent now."""
    return [
        peer
        for peer in recipients.peers
        if peer.link is not None and peer.link.is_live and not (peer.lists.kept_back and peer.lists.holds(channel, key))
    ]
