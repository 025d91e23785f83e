"""Routes: which peer a message is for."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from ..._wire.layouts import LAYOUTS
from ..context import Context
from ..link import Peer, Recipients
from ..sizes import Item
from ..subscriptions import Routes, matching


class Routing:
    """Subscriptions of the peers, as far as they may have them, by what a message can match (I6)."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._peers = context.peers
        self._hooks = context.hooks
        self.routes: Routes[Peer, Recipients] = Routes(Recipients)
        self.one_way: Routes[Peer, Recipients] = Routes(Recipients)  # of peers that acknowledge nothing

    def load(self, peer: Peer) -> None:
        """Of the store: as it is known to speak."""
        peer.outbox.takes_reliable = LAYOUTS[self._context.revision_of(peer.uuid)].has_acks
        self.reroute(peer)

    def reroute(self, peer: Peer) -> None:
        """Messages go to a peer for what it wants and may have (D-4); to one that is being forgotten none (T-77)."""
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
        """A connection tells which layout its peer speaks now."""
        if peer.outbox.takes_reliable is takes:
            return
        routes, others = (self.one_way, self.routes) if takes else (self.routes, self.one_way)
        for subscription in peer.outbox.routed:
            routes.discard(subscription, peer)
            others.add(subscription, peer)
        peer.outbox.takes_reliable = takes
        self.on_move(peer)

    def on_move(self, peer: Peer) -> None:
        """This peer has come or gone, or wants something else: all that waits for a peer is to look again."""
        self._context.moved[peer] = None
        for pattern in self._hooks.peer_moved:
            pattern.peer_moved(peer)

    def subscribed(self, channel: str, key: str, is_connected: bool = False) -> int:
        """Peers that a reliable message with these names would go to now, as `require_recipients` counts them; where
        `is_connected` those of them alone that are."""
        recipients = self.routes.match(channel, key)
        return len(connected(recipients, channel, key)) if is_connected else count_subscribed(recipients, channel, key)

    def narrow(self, channel: str, key: str, to: frozenset[UUID], unreliable: bool = False) -> Recipients:
        """Those of these peers that such a message is for: a step for each of them, not for each that subscribes."""
        pairs, known = matching(channel, key), self._peers
        peers = [known[uuid] for uuid in to if uuid in known and not known[uuid].outbox.routed.isdisjoint(pairs)]
        if not unreliable:
            peers = [peer for peer in peers if peer.outbox.takes_reliable]
        return peers[0].alone if len(peers) == 1 else Recipients(tuple(peers))

    def narrow_all(self, items: Sequence[Item], to: frozenset[UUID]) -> Sequence[Recipients]:
        """The same of each, one object for equal ones, so that runs stay runs."""
        found: dict[tuple[str, str], Recipients] = {}
        same: dict[tuple[Peer, ...], Recipients] = {}
        for channel, key, _ in items:
            if (channel, key) not in found:
                recipients = self.narrow(channel, key, to)
                found[channel, key] = same.setdefault(recipients.peers, recipients)
        return [found[channel, key] for channel, key, _ in items]


def count_subscribed(recipients: Recipients, channel: str, key: str) -> int:
    """Peers that want it now: a subscription that is held may never come back (T-61)."""
    return sum(not peer.lists.holds(channel, key) for peer in recipients.peers)


def connected(recipients: Recipients, channel: str, key: str) -> list[Peer]:
    """Those of them that such a message may be sent to now."""
    return [
        peer
        for peer in recipients.peers
        if peer.link is not None and peer.link.is_live and not (peer.lists.kept_back and peer.lists.holds(channel, key))
    ]
