"""Subscriptions that a newer list lacks, and that are held (T-61).

They go on routing for a while. A list that lacks something may come from a second database of the peer, from a fresh
disk, or from a program that has not subscribed yet. So messages for such a subscription are kept and not sent until the
peer subscribes again, says that it wants them no more, or the time is over. In the other direction an explicit
unsubscribe is repeated until it is acknowledged, so that what we do not want any more is not held for us.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from uuid import UUID

from .._common.errors import TolliverError, UndeliveredReason
from .._wire.events import Subscription
from .._wire.layouts import LAYOUTS
from .actions import NoticeKind
from .base import UNSAID_FOR
from .dialing import Dialer
from .link import Link, Peer
from .outbox import Window
from .sending import Sending
from .store import ForgetUnsubscribe, Found, KeepUnsubscribe
from .subscriptions import matching

_MOST_UNSAID = 10_000
_ALWAYS_HOLD = 3600.0  # seconds, for a pattern, where the policy holds nothing else
_LONG_HOLD = 86400.0  # seconds, for a peer that may have lost its own list
_CURE = (
    ". It is empty, and programs of its layout lose their own subscribe in a race: let it subscribe again, or start it "
    "anew"
)


class Holding(Sending):
    """Subscriptions of peers that are held, and unsubscribes that are still to be said."""

    _dialer: Dialer

    # Subscriptions that peers held.

    def _set_peer_list(
        self, peer: Peer, subscriptions: frozenset[Subscription], removed: frozenset[Subscription] = frozenset()
    ) -> None:
        """The peer wants these now, and for good no more what is `removed`; what else it wanted is held.

        A pattern may have it that an entry is held in any case: the peer acknowledges what it does not want.
        """
        before = frozenset(peer.held)
        lacking = peer.subscriptions.union(before) - subscriptions
        always = frozenset[Subscription]()
        for pattern in self._hooks.holds:
            said = {one: pattern.holds(one) for one in lacking}
            always |= {one for one, is_held in said.items() if is_held}
            lacking -= {one for one, is_held in said.items() if is_held is False}
        hold = self._policy.unsubscribed_hold
        kept = (lacking - removed if hold else always) | always
        until = self._now + (hold or _ALWAYS_HOLD)
        held = {one: peer.held.get(one, until) for one in kept}
        is_long = not subscriptions and bool(held) and self._may_have_lost_its_list(peer)
        if is_long:
            held = self._held_for_long(peer, held)
        if always:
            self._batch.lists[peer] = None  # the store takes what a peer says for its whole will
        ended = (before - held.keys()) - subscriptions
        peer.subscriptions = subscriptions
        self._hold(peer, dict(sorted(held.items(), key=lambda one: one[1])))
        if ended:
            self._give_up_held(peer, ended)
        news = held.keys() - before - always
        if news:
            self._notice(
                NoticeKind.HELD,
                peer.uuid,
                f"its newer list lacks {len(news)} subscriptions: messages for them are kept, and not sent, for "
                f"{max(hold, _LONG_HOLD) if is_long else hold:g} s, until it subscribes or unsubscribes (T-61)"
                + (_CURE if is_long else ""),
            )
        self._end_oldest_holds(peer)

    def _may_have_lost_its_list(self, peer: Peer) -> bool:
        """True for a program that says an empty list though it wants something. One that is sent no control messages is
        known by its lists alone."""
        if not self._policy.unsubscribed_hold or peer.is_owner:
            return False
        spoken = {link.connection.revision for link in peer.voices if link.connection is not None}
        if not spoken:
            spoken = {self._revision_of(peer.uuid)}.union(
                one.revision for one in self._dialer.strangers() if one.revision is not None
            )
        is_mute = peer.uuid in self._policy.no_control_messages or self._dialer.is_mute(peer.uuid)
        return not is_mute and any(LAYOUTS[revision].loses_lists for revision in spoken)

    def _held_for_long(self, peer: Peer, held: dict[Subscription, float]) -> dict[Subscription, float]:
        """These, until a day after they were held."""
        more = max(0.0, _LONG_HOLD - self._policy.unsubscribed_hold)
        long = peer.held_long.intersection(peer.held)
        peer.held_long = frozenset(held)
        return {one: until if one in long else until + more for one, until in held.items()}

    def _hold(self, peer: Peer, held: dict[Subscription, float]) -> None:
        peer.held = held
        changed = peer.keep_back()
        self._reroute(peer)
        if held:
            self._timers.set(("hold", peer.uuid), min(held.values()))
            self._watch_clock()
        else:
            self._timers.cancel(("hold", peer.uuid))
        if changed and peer.link is not None and peer.link.window is not None:
            peer.link.window.lists_under_way += 1
            self._batch.then.append(partial(self._read_all_again, peer.link, peer.link.window))

    def _read_all_again(self, link: Link, window: Window, _error: TolliverError | None) -> None:
        """The store knows which others are held now: what waits is read back, in order."""
        window.lists_under_way -= 1
        window.go_back(0)
        self._sendable[link] = None

    def _end_oldest_holds(self, peer: Peer) -> None:
        """Listed and held entries together are no more than a peer may list (T-08)."""
        limits, ended = self.limits, set[Subscription]()
        entries = [*peer.held]
        size = sum(self._entry_size(one) for one in (*peer.subscriptions, *entries))
        count = len(peer.subscriptions) + len(entries)
        for one in entries:
            if count <= limits.max_subscriptions and size <= limits.max_handshake:
                break
            count, size = count - 1, size - self._entry_size(one)
            ended.add(one)
        if ended:
            self._end_holds(peer, ended)

    def _on_hold_timeout(self, uuid: UUID) -> None:
        peer = self._peers.get(uuid)
        if peer is None:
            return
        if not peer.subscriptions and self._may_have_lost_its_list(peer):  # and was not heard since a restart
            peer.held = self._held_for_long(peer, peer.held)
        ended = {one for one, until in peer.held.items() if until <= self._now}
        if ended:
            self._end_holds(peer, ended)
        else:
            self._hold(peer, peer.held)

    def _end_holds(self, peer: Peer, ended: set[Subscription]) -> None:
        """It did not subscribe again in time. If the commit fails, a later one says the same."""
        self._hold(peer, {one: until for one, until in peer.held.items() if one not in ended})
        self._batch.lists[peer] = None
        self._give_up_held(peer, ended)

    def _give_up_held(self, peer: Peer, ended: Iterable[Subscription]) -> None:
        """Nobody will want what only these hold."""
        ended = frozenset(ended)
        self._timers.set_earlier("removals", self._now + self.limits.removal_delay)

        def is_given_up(one: Found) -> bool:
            pairs = matching(one.channel, one.key)
            wanted = not peer.subscriptions.isdisjoint(pairs) or not peer.held.keys().isdisjoint(pairs)
            leaves = one.parked or one.seq in peer.outbox.leaving
            return not (wanted or leaves or ended.isdisjoint(pairs))

        def take(found: Sequence[Found]) -> None:
            gone = [one for one in found if is_given_up(one)]
            for pattern in self._hooks.rescues:
                gone = pattern.rescues(peer, gone)
            if gone:
                self._remove(UndeliveredReason.UNSUBSCRIBED, peer, gone)
                self._counts["unsubscribed"] += len(gone)
                text = "messages were given up, as this peer does not subscribe to them any more (T-61)"
                self._tally.add(NoticeKind.UNSUBSCRIBED, peer.uuid, len(gone), text, self._now)

        self._searches.begin(peer.uuid, take, lambda _error: None)

    # Unsubscribes that peers are to be told.

    def _keep_unsubscribe(self, subscription: Subscription) -> None:
        """Say it to every peer that may have been told the entry, until it says that it knows."""
        peers = [peer for peer in self._peers.values() if peer.stored and not (peer.derived or peer.is_owner)]
        room = _MOST_UNSAID - sum(len(peer.unsaid) for peer in peers)
        chosen = [peer for peer in peers if subscription not in peer.unsaid][: max(0, room)]
        for peer in chosen:
            self._set_unsaid(peer, subscription, self._now + UNSAID_FOR)
        if chosen:
            self._batch.operations.append(KeepUnsubscribe(subscription, [peer.uuid for peer in chosen]))

    def _forget_unsubscribe(self, subscription: Subscription, peers: Iterable[Peer]) -> None:
        """They know, or it is wanted again, or the time is over."""
        told = [peer for peer in peers if subscription in peer.unsaid]
        for peer in told:
            self._set_unsaid(peer, subscription, None)
        if told:
            self._batch.operations.append(ForgetUnsubscribe(subscription, [peer.uuid for peer in told]))

    def _set_unsaid(self, peer: Peer, subscription: Subscription, until: float | None) -> None:
        undo = partial(_say_until, peer, subscription, peer.unsaid.get(subscription))
        self._batch.undo.setdefault(("unsaid", peer, subscription), undo)
        self._watch_clock()
        _say_until(peer, subscription, until)

    def _insist(self, link: Link, peer: Peer) -> None:
        """On a new connection say again what is not acknowledged."""
        for one in [one for one, until in peer.unsaid.items() if until <= self._now or one in self._own]:
            self._forget_unsubscribe(one, [peer])
        assert link.control is not None
        link.control.insist(peer.unsaid)


def _say_until(peer: Peer, subscription: Subscription, until: float | None) -> None:
    if until is None:
        peer.unsaid.pop(subscription, None)
    else:
        peer.unsaid[subscription] = until
