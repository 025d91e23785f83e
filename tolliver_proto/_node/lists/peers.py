"""Subscriptions that the peers announce, and held ones (T-61).

State: a peer's `subscriptions` are what its connections announced, the union of each connection's `told` (T-70); its
`held` ones are subscriptions that a newer list lacks, each with a deadline. Both route messages, but messages for held
subscriptions are kept and not sent. A hold ends when the peer subscribes again or unsubscribes, or at the deadline;
messages that only ended holds match are then given up.

Why held: a list that lacks a subscription may come from a second database of the peer, from a fresh disk, or from a
program that has not subscribed yet. Rejected: to take such a list at its word, which would lose what waits.

Invariants: listed and held subscriptions together stay within the limits of one list (T-08), the holds that end soonest
go first. Memory and routes change at once; the commit stores the change, and sends the ack after it (T-28). A failed
commit restores the lists of the store, with the changes since on top (`restore_lists`). When the holds of a connected
peer change, its window reads all rows again as soon as the store knows the holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from uuid import UUID

from ..._common.base_link import LinkState
from ..._common.errors import TolliverError, UndeliveredReason
from ..._wire.dialect import Dialect
from ..._wire.events import RESERVED_CHANNEL, Subscribe, SubscribeMany, Subscription, Unsubscribe, UnsubscribeMany
from ..._wire.layouts import LAYOUTS
from ..actions import GoOn, NoticeKind, SubscriptionsChanged
from ..commits.batch import Batch, PeerList
from ..commits.commits import STORE_RETRY, Commits
from ..context import Context
from ..link import Hold, Link, Peer
from ..outboxes.expiry import Expiry
from ..outboxes.ledger import Ledger
from ..outboxes.outbox import Window
from ..outboxes.routing import Routing
from ..sizes import Sizes
from ..store import AddPeerSubscription, Found, LoadedPeer, Operation, RemovePeerSubscription, ReplacePeerSubscriptions
from ..subscriptions import applied, matching, removed_by
from .own import UNSAID_FOR

OBEYED_WITHIN = 10.0  # seconds between two early resends that a repeated subscribe causes (T-50)
_LONG_HOLD = 86400.0  # seconds of a hold of a peer that may have lost its own list
_CURE = (
    ". It is empty, and programs of its layout lose their own subscribe in a race: let it subscribe again, or start it "
    "anew"
)
_ALWAYS_HOLD = 3600.0  # seconds of a hold that a pattern asks for, where the policy has no holds


class PeerLists:
    """Changes of the peers' subscriptions, each in this order: memory, routes, commit, ack."""

    def __init__(
        self,
        context: Context,
        sizes: Sizes,
        commits: Commits,
        routing: Routing,
        ledger: Ledger,
        expiry: Expiry,
        is_mute: Callable[[UUID], bool],
        strangers: Callable[[], Iterable[Dialect]],
    ) -> None:
        """`is_mute` tells whether a peer gets no control messages; `strangers` returns the dialects
        of remotes whose peer is unknown."""
        self._context = context
        self._limits = context.limits
        self._policy = context.policy
        self._timers = context.timers
        self._counts = context.counts
        self._peers = context.peers
        self._hooks = context.hooks
        self._sizes = sizes
        self._commits = commits
        self._routing = routing
        self._ledger = ledger
        self._expiry = expiry
        self._is_mute = is_mute
        self._strangers = strangers
        context.due.update({"hold": self._on_hold_timeout, "rate": self._on_rate_timeout})

    def _set_peer_list(
        self, peer: Peer, subscriptions: frozenset[Subscription], removed: frozenset[Subscription] = frozenset()
    ) -> None:
        """Sets the peer's subscriptions; holds the former ones that are not `removed` for good.

        A pattern may demand that a subscription is held in any case, or never: a peer acknowledges unwanted messages.
        """
        before = frozenset(peer.lists.held)
        lacking = peer.lists.subscriptions.union(before) - subscriptions
        always = frozenset[Subscription]()
        for pattern in self._hooks.holds:
            said = {one: pattern.holds(one) for one in lacking}
            always |= {one for one, is_held in said.items() if is_held}
            lacking -= {one for one, is_held in said.items() if is_held is False}
        hold = self._policy.unsubscribed_hold
        kept = (lacking - removed if hold else always) | always
        until = self._context.now + (hold or _ALWAYS_HOLD)
        held = {one: peer.lists.held.get(one, until) for one in kept}
        is_long = not subscriptions and bool(held) and self._may_have_lost_its_list(peer)
        if is_long:
            held = self._held_for_long(peer, held)
        if always:
            # With the holds: the store would take the announced list alone as complete.
            self._commits.batch.lists.setdefault(peer, False)
        ended = before.difference(held) - subscriptions
        peer.lists.subscriptions = subscriptions
        self.hold(peer, dict(sorted(held.items(), key=lambda one: one[1])))
        if ended:
            self._give_up_held(peer, ended)
        news = held.keys() - before - always - peer.lists.unlisted
        if news:
            self._context.notice(
                NoticeKind.HELD,
                peer.uuid,
                f"its newer list lacks {len(news)} subscriptions: messages for them are kept, and not sent, for "
                f"{max(hold, _LONG_HOLD) if is_long else hold:g} s, until it subscribes or unsubscribes (T-61)"
                + (_CURE if is_long else ""),
            )
        self._end_oldest_holds(peer)

    def _may_have_lost_its_list(self, peer: Peer) -> bool:
        """True for a peer whose empty list may be an error of its layout, so that its former subscriptions are kept
        longer.

        The list of a peer that gets no control messages is always believed, as it is the only information.
        """
        if not self._policy.unsubscribed_hold or peer.is_owner:
            return False
        spoken = {link.connection.revision for link in peer.lists.voices if link.connection is not None}
        if not spoken:
            spoken = {self._context.revision_of(peer.uuid)}.union(
                one.revision for one in self._strangers() if one.revision is not None
            )
        return not self._is_mute(peer.uuid) and any(LAYOUTS[revision].loses_lists for revision in spoken)

    def _held_for_long(self, peer: Peer, held: dict[Subscription, float]) -> dict[Subscription, float]:
        """Returns the held subscriptions with the time of each until which it is held, in seconds: that in `held`,
        extended once to a day.
        """
        more = max(0.0, _LONG_HOLD - self._policy.unsubscribed_hold)
        long = peer.lists.held_long.intersection(peer.lists.held)
        peer.lists.held_long = frozenset(held)
        return {one: until if one in long else until + more for one, until in held.items()}

    def hold(self, peer: Peer, held: dict[Subscription, float]) -> None:
        peer.lists.held = held
        peer.lists.unlisted = peer.lists.unlisted.intersection(held)
        changed = peer.lists.keep_back(peer.link)
        self._routing.reroute(peer)
        if held:
            self._timers.set(("hold", peer.uuid), min(held.values()))
            self._expiry.watch_clock()
        else:
            self._timers.cancel(("hold", peer.uuid))
        if changed:
            self._read_again(peer, self._commits.batch.then.append)

    def _read_again(self, peer: Peer, when: Callable[[GoOn], None]) -> None:
        """Has the window of a connected peer read its rows again, as others than before must wait; `when` calls once
        the store knows which.
        """
        if peer.link is not None and peer.link.sending.window is not None:
            peer.link.sending.window.lists_under_way += 1
            when(partial(self._read_all_again, peer.link, peer.link.sending.window))

    def _read_all_again(self, link: Link, window: Window, error: TolliverError | None) -> None:
        """Has the window read all rows of the peer again, in order, once the store knows which subscriptions are held:
        if that commit has failed, with a later one.
        """
        if error is not None and link.peer in self._commits.batch.lists:
            window.lists_failed += 1
        else:
            window.lists_under_way -= 1
            window.go_back(0)
            self._context.sendable[link] = None

    def on_lists_stored(self, peers: Iterable[Peer]) -> None:
        """Has the windows of these peers, of which the store has the lists now, read their rows again if an earlier
        commit of the list has failed.
        """
        for peer in peers:
            link, window = peer.link, peer.link.sending.window if peer.link is not None else None
            if link is not None and window is not None and window.lists_failed:
                window.lists_under_way -= window.lists_failed
                window.lists_failed = 0
                window.go_back(0)
                self._context.sendable[link] = None

    def _end_oldest_holds(self, peer: Peer) -> None:
        """Ends the oldest holds, until listed and held entries together fit the limits of one list (T-08)."""
        limits, ended = self._limits, set[Subscription]()
        entries = [*peer.lists.held]
        size = sum(self._sizes.entry_size(one) for one in (*peer.lists.subscriptions, *entries))
        count = len(peer.lists.subscriptions) + len(entries)
        for one in entries:
            if count <= limits.max_subscriptions and size <= limits.max_handshake:
                break
            count, size = count - 1, size - self._sizes.entry_size(one)
            ended.add(one)
        if ended:
            self._end_holds(peer, ended)

    def _on_hold_timeout(self, uuid: UUID) -> None:
        peer = self._peers.get(uuid)
        if peer is None:
            return
        if not peer.lists.subscriptions and self._may_have_lost_its_list(peer):  # the peer was silent since a restart
            peer.lists.held = self._held_for_long(peer, peer.lists.held)
        ended = {one for one, until in peer.lists.held.items() if until <= self._context.now}
        if ended:
            self._end_holds(peer, ended)
        else:
            self.hold(peer, peer.lists.held)

    def _end_holds(self, peer: Peer, ended: set[Subscription]) -> None:
        """Ends the hold of these subscriptions: no more messages are kept for them. If the commit fails, a later commit
        stores the list.
        """
        self.hold(peer, {one: until for one, until in peer.lists.held.items() if one not in ended})
        self._commits.batch.lists[peer] = True
        self._give_up_held(peer, ended)

    def _give_up_held(self, peer: Peer, ended: Iterable[Subscription]) -> None:
        """Gives up the messages that only the ended subscriptions match."""
        ended = frozenset(ended)
        self._timers.set_earlier("removals", self._context.now + self._limits.removal_delay)

        def is_given_up(one: Found) -> bool:
            pairs = matching(one.channel, one.key)
            wanted = not peer.lists.subscriptions.isdisjoint(pairs) or not peer.lists.held.keys().isdisjoint(pairs)
            leaves = one.parked or one.seq in peer.outbox.leaving
            return not (wanted or leaves or ended.isdisjoint(pairs))

        def take(found: Sequence[Found]) -> None:
            gone = [one for one in found if is_given_up(one)]
            for pattern in self._hooks.rescues:
                gone = pattern.rescues(peer, gone)
            if gone:
                self._ledger.remove(UndeliveredReason.UNSUBSCRIBED, peer, gone)
                self._counts["unsubscribed"] += len(gone)
                text = "messages were given up, as this peer does not subscribe to them any more (T-61)"
                self._context.tally.add(NoticeKind.UNSUBSCRIBED, peer.uuid, len(gone), text, self._context.now)

        def done(error: TolliverError | None) -> None:
            peer.lists.ending.remove(ended)
            if error is not None and not peer.links.forgotten:
                self._hold_again(peer, ended)
            peer.lists.keep_back(peer.link)
            self._read_again(peer, self._commits.when_stored)
            waiting, peer.lists.changes_waiting = peer.lists.changes_waiting, []
            for go_on in waiting:
                go_on(None)

        peer.lists.ending.append(ended)
        peer.lists.keep_back(peer.link)  # none of them goes out while the store looks for them
        self._commits.searches.begin(peer.uuid, take, done)

    def _hold_again(self, peer: Peer, ended: frozenset[Subscription]) -> None:
        """Holds subscriptions again whose messages could not be looked for, and ends the hold a little later: else
        these messages, which nobody wants, would be sent."""
        until = self._context.now + STORE_RETRY
        again = dict.fromkeys(ended - peer.lists.subscriptions, until)
        self.hold(peer, again | peer.lists.held)
        self._commits.batch.lists[peer] = True

    def load(self, peer: Peer, known: LoadedPeer) -> None:
        """Takes the peer's held subscriptions and unacknowledged unsubscribes from the store, at the opening."""
        lists, now = peer.lists, self._context.now
        lists.stored = True
        lists.held = {one: now + self._policy.unsubscribed_hold - age for one, age in known.held.items()}
        lists.unlisted = frozenset(lists.held)  # the store does not say which
        lists.unsaid = {one: now + UNSAID_FOR - age for one, age in known.unsaid.items()}

    def on_stored(self, lists: Mapping[Peer, PeerList]) -> None:
        """Marks the lists of these peers as stored, and reports those that differ from the lists before the commit."""
        for peer, before in lists.items():
            peer.lists.stored = True
            if self._context.tells_events and peer.lists.subscriptions != before.subscriptions:
                self._context.actions.append(SubscriptionsChanged(peer.uuid, peer.lists.subscriptions))

    def keep_list(self, link: Link, listed: tuple[Subscription, ...]) -> None:
        """Keeps the subscriptions `listed` of a handshake until the handshake is complete (T-61)."""
        link.lists.held_list = listed

    def end_voice(self, link: Link, peer: Peer) -> None:
        """Forgets the subscriptions announced on the ended connection. Those of the peer's last connection stay:
        messages queue for the peer (T-32).
        """
        del peer.lists.voices[link]
        if peer.derived:
            return
        if not peer.outbox.takes_reliable:
            self.want_while_connected(peer)
        elif peer.lists.voices:
            self.route_to(peer)
            self._commits.batch.lists.setdefault(peer, False)
            self._timers.set_earlier("removals", self._context.now + self._limits.removal_delay)

    def on_control(self, link: Link, frame: Subscribe | Unsubscribe) -> None:
        """Takes a change of one subscription: routes change now, the ack goes out when the change is stored (T-28)."""
        self._on_entries(
            link, (Subscription(frame.channel, frame.key),), isinstance(frame, Subscribe), frame.message_id
        )

    def on_controls(self, link: Link, frame: SubscribeMany | UnsubscribeMany) -> None:
        """Takes a change of several subscriptions, with one ack for all."""
        self._on_entries(link, frame.subscriptions, isinstance(frame, SubscribeMany), frame.message_id)

    def _on_entries(self, link: Link, entries: Sequence[Subscription], wanted: bool, message_id: int | None) -> None:
        peer = link.peer
        if peer is None or not link.up:
            return
        if not link.lists.bucket.spend(self._context.now):
            link.hold(Hold.RATE)  # reading pauses for a second (D-12)
            self._counts["hurried"] += 1
            self._timers.set(("rate", link.cid), self._context.now + 1.0)
        allowed: list[Subscription] = []
        size = 0
        for one in entries:
            is_refused = peer.derived or one.channel == RESERVED_CHANNEL
            if is_refused or (wanted and not self._may_have(link, peer, one, len(allowed), size)):
                # T-27, T-72a, D-4, D-6. The frame is acknowledged, else the peer would resend it.
                self._counts["refused_subscriptions"] += 1
            else:
                allowed.append(one)
                size += self._sizes.entry_size(one)
        if wanted and peer.outbox.takes_reliable:
            known = [one for one in allowed if one in link.lists.told]
            if known:
                self._obey(link, peer, known)
                if not self.is_list_changing(peer):  # else a repeated subscribe waits for the same commit
                    allowed = [one for one in allowed if one not in link.lists.told]
        if allowed:
            self._change_list(link, peer, allowed, wanted, message_id)
        elif message_id is not None:
            self._commits.ack(link, [message_id])

    def _obey(self, link: Link, peer: Peer, entries: Sequence[Subscription]) -> None:
        """Resends unacknowledged messages that these entries match, as a repeated subscribe asks for messages that were
        withheld (T-50) and for waiting requests (P-13)."""
        self._routing.on_move(peer)
        if link.sending.window is None or self._context.now - peer.lists.obeyed_at < OBEYED_WITHIN:
            return
        peer.lists.obeyed_at = self._context.now
        asked = frozenset(entries)
        link.sending.window.hurry(
            lambda channel, key: not asked.isdisjoint(matching(channel, key)),
            self._context.now - OBEYED_WITHIN,
            self._context.now,
        )
        due = link.sending.window.next_due()
        if due is not None:
            self._timers.set(("resend", link.cid), due)

    def is_list_changing(self, peer: Peer) -> bool:
        """True if the store does not have the peer's latest list yet."""
        return not peer.lists.stored or any(
            peer in one.lists or peer in one.peer_lists for one in self._commits.batches()
        )

    def _change_list(
        self, link: Link, peer: Peer, entries: Sequence[Subscription], wanted: bool, message_id: int | None
    ) -> None:
        """Makes the `entries` wanted or not, unless the change must wait. Patterns may store messages in the same
        commit; the ack of `message_id`, if not None, goes out after that.
        """
        later = partial(self._change_list_later, link, peer, entries, wanted, message_id)
        new = frozenset(entries if wanted and peer.outbox.takes_reliable else ())
        if self.must_wait(link, peer, entries, new, later):
            return
        for subscription in entries:
            self.hear(link, (AddPeerSubscription if wanted else RemovePeerSubscription)(peer.uuid, subscription))
            change = AddPeerSubscription if subscription in peer.lists.subscriptions else RemovePeerSubscription
            self._commits.batch.operations.append(change(peer.uuid, subscription))
        if message_id is not None:
            self._commits.batch.acks[link].append(message_id)
        if self.store_with_list(peer):
            link.hold(Hold.LIST)
            self._commits.batch.then.append(partial(self._go_on_reading, link))

    def must_wait(
        self, link: Link, peer: Peer, entries: Iterable[Subscription], wanted: frozenset[Subscription], later: GoOn
    ) -> bool:
        """True if a change of the peer's list must wait: `later` is called then, and reading from the link pauses.

        The change is about `entries`, of which `wanted` are wanted from now on. A pattern may have to act before. And
        while the store looks for what an ended hold keeps, an entry that can match it waits: taken at once, a subscribe
        would keep it, or not, by how the bytes were cut (T-61).
        """
        channels = {channel for ended in peer.lists.ending for channel, _ in ended}
        others = {channel for channel, _ in entries} if channels else set()
        if others and ("" in channels | others or not channels.isdisjoint(others)):
            peer.lists.changes_waiting.append(later)
            link.hold(Hold.LIST)
            return True
        waits = any(pattern.before_list(link, peer.uuid, wanted, later) for pattern in self._hooks.before_list)
        if waits:
            link.hold(Hold.LIST)
        return waits

    def store_with_list(self, peer: Peer) -> bool:
        """Asks the patterns for messages for the peer, which the commit of its list stores, too; True if there are
        any.
        """
        stores = [pattern.with_list(peer) for pattern in self._hooks.with_list]
        return any(stores)

    def _change_list_later(
        self,
        link: Link,
        peer: Peer,
        entries: Sequence[Subscription],
        wanted: bool,
        message_id: int | None,
        error: TolliverError | None,
    ) -> None:
        """Carries out the `_change_list` that had to wait; after an error there is no ack, so the peer resends the
        change.
        """
        self._go_on_reading(link)
        if link.up and error is None:
            self._change_list(link, peer, entries, wanted, message_id)

    def _go_on_reading(self, link: Link, _error: TolliverError | None = None) -> None:
        if link.state is not LinkState.FORGOTTEN:
            self._context.go_on_reading(link, Hold.LIST)

    def _may_have(self, link: Link, peer: Peer, subscription: Subscription, others: int, others_size: int) -> bool:
        """True if rights and limits allow the subscription, after `others` of the same frame of `others_size` bytes."""
        if subscription not in link.lists.told:  # a peer cannot want more than it can announce (T-08, T-19)
            size = link.lists.told_bytes + others_size + self._sizes.entry_size(subscription)
            if len(link.lists.told) + others >= self._limits.max_subscriptions or size > self._limits.max_handshake:
                return False
        return self._context.acl.rights(peer.uuid).may_subscribe(subscription)

    def hear(self, link: Link, said: Operation) -> None:
        """Takes `said`, the list or the change that the peer announced, and changes the routes at once."""
        self._commits.batch.told.setdefault(link, link.lists.told)
        self._commits.batch.heard.append((link, said))
        self.set_told(link, applied(link.lists.told, [said]), said)
        assert link.peer is not None
        self.route_to(link.peer, self._removed_by(link, said))
        self.look_for_wildcard(link)

    def _removed_by(self, link: Link, said: Operation) -> frozenset[Subscription]:
        """Returns the subscriptions that `said`, the announced list or change, ends at once, without a hold.

        A peer that cannot unsubscribe, or is mute, ends those that its non-empty list lacks.
        """
        connection, peer, control = link.connection, link.peer, link.lists.control
        assert connection is not None
        assert peer is not None
        assert control is not None
        cannot_say = control.mute or not connection.can_send(Unsubscribe)
        if isinstance(said, ReplacePeerSubscriptions) and said.subscriptions and cannot_say:
            return peer.lists.subscriptions.union(peer.lists.held)
        return removed_by([said])

    def look_for_wildcard(self, link: Link) -> None:
        assert link.peer is not None
        if (
            not link.peer.lists.wide
            and not self._context.acl.is_open
            and any(not one.channel for one in link.lists.told)
        ):
            link.peer.lists.wide = True
            self._context.notice(
                NoticeKind.WILDCARD_SUBSCRIPTION,
                link.peer.uuid,
                f"{link.identity.address or 'a peer'} subscribes to every channel, as the access rules allow (D-4)",
            )

    def set_told(self, link: Link, told: frozenset[Subscription], said: Operation | None = None) -> None:
        """Sets the list that the peer has announced on the connection to `told`. `said` is the operation by which it
        differs from the former one; None: the whole list may differ."""
        if isinstance(said, AddPeerSubscription | RemovePeerSubscription):
            link.lists.told_bytes += self._sizes.entry_size(said.subscription) * (len(told) - len(link.lists.told))
        else:
            link.lists.told_bytes = sum(map(self._sizes.entry_size, told))
        link.lists.told = told

    def route_to(self, peer: Peer, removed: frozenset[Subscription] = frozenset()) -> None:
        self._commits.batch.note_list(peer)
        self._set_peer_list(peer, self._wanted_by(peer), removed)

    def _wanted_by(self, peer: Peer) -> frozenset[Subscription]:
        """Returns the subscriptions that the peer has announced on its connections (T-30).

        While the peer has two connections, the union counts: the later list is known only when one connection ends
        (T-70). One subscription too many is harmless, one too few loses messages.
        """
        return frozenset().union(*(link.lists.told for link in peer.lists.voices))

    def want_while_connected(self, peer: Peer) -> None:
        peer.lists.subscriptions = self._wanted_by(peer)
        peer.lists.keep_back(peer.link)
        self._routing.reroute(peer)

    def restore_lists(self, failed: Batch) -> None:
        """Restores the stored lists after a failed commit, with the changes of the next commit on top. The entries of a
        list that failed are held where messages wait for the peer: these may have been sent because of that list.
        """
        for link, told in failed.told.items():
            if link in self._commits.batch.told:
                self._commits.batch.told[link] = told
            self.set_told(link, applied(told, [said for one, said in self._commits.batch.heard if one is link]))
        for link, said in failed.heard:
            if isinstance(said, ReplacePeerSubscriptions) and link.peer is not None:
                link.peer.lists.voices.pop(link, None)  # this handshake has failed
        for peer, stored in failed.peer_lists.items():
            said_since = [said for link, said in self._commits.batch.heard if link.peer is peer]
            now = self._wanted_by(peer) if peer.lists.voices else applied(stored.subscriptions, said_since)
            self._restore_list(peer, stored, peer.outbox.pending > failed.deliveries_to(peer))
            self._set_peer_list(peer, now, removed_by(said_since))
            is_changed = now != stored.subscriptions or peer.lists.held.keys() != stored.held.keys()
            if peer in self._commits.batch.peer_lists or is_changed:
                self._commits.batch.peer_lists[peer] = stored
                self._commits.batch.lists.setdefault(peer, False)
        owed = (one for one, is_owed in failed.lists.items() if is_owed or one not in failed.peer_lists)
        self._commits.batch.lists.update(dict.fromkeys(owed, True))
        self.on_lists_stored(one for one in failed.lists if one not in self._commits.batch.lists)

    def _restore_list(self, peer: Peer, stored: PeerList, has_messages: bool) -> None:
        lists = peer.lists
        failed = frozenset[Subscription]()
        if has_messages:
            failed = (lists.subscriptions | lists.unlisted).difference(stored.subscriptions, stored.held)
        lists.subscriptions = stored.subscriptions | failed
        lists.held = stored.held | {one: until for one, until in lists.held.items() if one in failed}
        lists.unlisted = stored.unlisted | failed

    def _on_rate_timeout(self, cid: int) -> None:
        link = self._context.links[cid]
        self._context.go_on_reading(link, Hold.RATE)
